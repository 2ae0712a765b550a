//! The rows of groups and of who is in them.

use crate::error::Result;
use crate::id::{GroupId, MemberId, WorkspaceId};
use crate::log::event::Recorded;
use crate::op::{Read, Write};
use crate::store::columns;
use crate::time::Time;

/// A group, without its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupRow {
    pub id: GroupId,
    pub workspace_id: WorkspaceId,
    pub display_name: String,
    pub external_id: Option<String>,
    pub created_at: Time,
    pub changed_at: Time,
    pub lsn: i64,
}

columns! {
    group_columns: GroupRow as g {
        id, workspace_id, display_name, external_id, created_at, changed_at, lsn
    }
    insert "insert into scim_groups" {}
}

/// A statement that selects groups of the workspace $1; `$rest` is the rest of the statement.
macro_rules! groups {
    ($rest:literal) => {
        concat!("select ", group_columns!(), " from scim_groups g where g.workspace_id = $1 ", $rest)
    };
}

/// Returns a group of the caller's workspace, if there is one with this id.
pub(super) fn group(cx: &Read<'_>, id: GroupId) -> Result<Option<GroupRow>> {
    cx.one(groups!("and g.id = $2"), &[&cx.caller().workspace_id, &id])
}

/// Returns the groups that the identity provider calls so, `most` of them.
pub(super) fn by_external_id(cx: &Read<'_>, external_id: &str, most: i64) -> Result<Vec<GroupRow>> {
    let statement = groups!("and g.external_id = $2 order by g.lsn limit $3");
    cx.query(statement, &[&cx.caller().workspace_id, &external_id, &most])
}

/// Returns the groups that a member is in, `most` of them.
pub(super) fn with_member(cx: &Read<'_>, member: MemberId, most: i64) -> Result<Vec<GroupRow>> {
    let statement = groups!(
        "and g.id in (select i.group_id from scim_group_members i where i.member_id = $2)
         order by g.lsn limit $3"
    );
    cx.query(statement, &[&cx.caller().workspace_id, &member, &most])
}

/// Returns the groups that were created after the position `after`, `most` of them, in that order.
pub(super) fn after(cx: &Read<'_>, after: i64, most: i64) -> Result<Vec<GroupRow>> {
    cx.query(groups!("and g.lsn > $2 order by g.lsn limit $3"), &[&cx.caller().workspace_id, &after, &most])
}

/// Returns `most` groups in the order of their creation, without the first `skipped`.
pub(super) fn from(cx: &Read<'_>, skipped: i64, most: i64) -> Result<Vec<GroupRow>> {
    let statement = groups!("order by g.lsn limit $3 offset $2");
    cx.query(statement, &[&cx.caller().workspace_id, &skipped, &most])
}

/// Returns how many groups there are.
pub(super) fn count(cx: &Read<'_>) -> Result<i64> {
    let counted: Option<(i64,)> =
        cx.one("select count(*) from scim_groups where workspace_id = $1", &[&cx.caller().workspace_id])?;
    Ok(counted.map_or(0, |(count,)| count))
}

/// Returns who is in a group.
pub(super) fn members(cx: &Read<'_>, id: GroupId) -> Result<Vec<MemberId>> {
    let found: Vec<(MemberId,)> = cx.query(MEMBERS, &[&id])?;
    Ok(found.into_iter().map(|(member,)| member).collect())
}

const MEMBERS: &str = "select member_id from scim_group_members where group_id = $1 order by member_id";

pub(super) fn insert(cx: &mut Write<'_>, group: &GroupRow) -> Result<()> {
    group.with_new_row(|row| cx.insert(row))
}

pub(super) fn update(cx: &mut Write<'_>, group: &GroupRow) -> Result<()> {
    cx.execute(1, UPDATE, &[&group.id, &group.display_name, &group.external_id, &group.changed_at])
}

const UPDATE: &str =
    "update scim_groups set display_name = $2, external_id = $3, changed_at = $4 where id = $1";

pub(super) fn add(cx: &mut Write<'_>, group: GroupId, member: MemberId) -> Result<()> {
    cx.execute(1, "insert into scim_group_members (group_id, member_id) values ($1, $2)", &[&group, &member])
}

pub(super) fn drop_member(cx: &mut Write<'_>, group: GroupId, member: MemberId) -> Result<()> {
    let statement = "delete from scim_group_members where group_id = $1 and member_id = $2";
    cx.execute(1, statement, &[&group, &member])
}

pub(super) fn delete(cx: &mut Write<'_>, group: GroupId) -> Result<()> {
    cx.execute_any("delete from scim_group_members where group_id = $1", &[&group])?;
    cx.execute(1, "delete from scim_groups where id = $1", &[&group])
}

/// Takes people who were removed out of all groups.
pub(super) fn forget(cx: &mut Write<'_>, events: &[Recorded]) -> Result<()> {
    let mut removed = events.iter().filter_map(|event| event.subject.member_id);
    removed.try_for_each(|member| cx.execute_any(FORGET, &[&member]))
}

const FORGET: &str = "delete from scim_group_members where member_id = $1";
