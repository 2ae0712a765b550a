//! Freezing members: reading and writing the columns of the table `members`.
//!
//! `coordination::freeze` calls these functions, and ends the claims of the frozen member.

use schemars::JsonSchema;
use serde::Serialize;

use super::Member;
use crate::error::Result;
use crate::id::{MemberId, WorkspaceId};
use crate::op::{Read, Write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::store::columns;
use crate::time::Time;

/// A frozen member, with the reason for the freeze and the time.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct MemberFreeze {
    /// Id of the frozen member.
    pub member_id: MemberId,
    /// Handle of the frozen member.
    pub handle: String,
    /// Reason for the freeze; null if the administrator specified none.
    pub reason: Option<String>,
    /// The member who froze the frozen member; null for the service itself.
    pub frozen_by: Option<MemberId>,
    /// Time at which the member was frozen.
    pub frozen_at: Time,
    #[serde(skip)]
    lsn: i64,
}

columns! {
    freeze_columns: MemberFreeze as m {
        member_id = id,
        handle,
        reason = frozen_reason,
        frozen_by,
        frozen_at,
        lsn,
    }
}

/// Returns the freeze of a member, or `None` if the member is not frozen.
pub(crate) fn freeze_of(cx: &Read<'_>, member: &Member) -> Result<Option<MemberFreeze>> {
    cx.one(FREEZE_OF_MEMBER, &[&member.id])
}

const FREEZE_OF_MEMBER: &str =
    concat!("select ", freeze_columns!(), " from members m where m.id = $1 and m.frozen_at is not null");

/// Marks an unfrozen member as frozen. The caller emits the event, which invalidates cached callers.
pub(crate) fn freeze(cx: &mut Write<'_>, member: &Member, reason: Option<&str>) -> Result<MemberFreeze> {
    let frozen_by = cx.caller().member;
    let frozen_at = cx.now();
    cx.execute(1, FREEZE_MEMBER, &[&member.id, &frozen_at, &frozen_by, &reason])?;
    Ok(MemberFreeze {
        member_id: member.id,
        handle: member.handle.clone(),
        reason: reason.map(str::to_owned),
        frozen_by,
        frozen_at,
        lsn: member.lsn,
    })
}

const FREEZE_MEMBER: &str = "
    update members set frozen_at = $2, frozen_by = $3, frozen_reason = $4
    where id = $1 and frozen_at is null";

/// Marks a frozen member as no longer frozen. The caller emits the event.
pub(crate) fn unfreeze(cx: &mut Write<'_>, member: Member) -> Result<Member> {
    cx.execute(1, UNFREEZE_MEMBER, &[&member.id])?;
    Ok(Member { frozen: false, ..member })
}

const UNFREEZE_MEMBER: &str = "
    update members set frozen_at = null, frozen_by = null, frozen_reason = null
    where id = $1 and frozen_at is not null";

/// Returns the frozen members of a workspace, in the order in which they joined.
pub(crate) fn frozen_members(
    cx: &Read<'_>,
    workspace: WorkspaceId,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
) -> Result<Page<MemberFreeze>> {
    let rows = cx.rows(FROZEN_MEMBERS, &[&workspace, &Cursor::after(cursor), &rows_to_read(limit)])?;
    Ok(Page::of(rows, limit, |freeze: &MemberFreeze| freeze.lsn))
}

const FROZEN_MEMBERS: &str = concat!(
    "select ",
    freeze_columns!(),
    " from members m where m.workspace_id = $1 and m.frozen_at is not null and m.lsn > $2
     order by m.lsn limit $3"
);
