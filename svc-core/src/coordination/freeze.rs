//! Freezing: stops a member at once, and leaves it only the right to read.
//!
//! A freeze ends the claims of the member: the first ones in its own transaction, and the rest, if there are
//! many, in later steps. From its commit on, every server rejects the member's changes, including those that
//! others make for it or it makes for others as a delegate; so no claim begins between the steps. A freeze
//! does not expire; an administrator lifts it. Tokens stay as they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::TokenAdmin;
use crate::coordination::claims::{self, ClaimEnd};
use crate::error::{Code, Error};
use crate::id::MemberId;
use crate::identity::authority::check_is_other;
use crate::identity::members::{self, Member, MemberFreeze, load_member};
use crate::identity::tokens::check_reaches_no_further;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::FREEZE_REASON_MAX;
use crate::log::event::{Event, EventKind, Invalidates, Subject};
use crate::log::replay::Replayed;
use crate::op::{Answer, Effect, Feature, Read, Sample, TypedOperation, Write, changing, read};
use crate::page::{Cursor, Limit, Page};
use crate::schema::default_is;
use crate::text::Prose;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "members",
            vec![
                changing(FREEZE_MEMBER, Effect::Destructive)
                    .in_resumed_steps(freeze_member)
                    .title("Freeze a member")
                    .when("Use to stop a member at once, so that it only reads.")
                    .post("/workspaces/{workspace_id}/members/{member_id}/freeze")
                    .alias("/members/{member_id}/freeze")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::Forbidden])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "member_id": w.id("judge"),
                               "reason": "It deletes what others write."})
                    }),
                changing(UNFREEZE_MEMBER, Effect::Idempotent)
                    .in_steps(unfreeze_member)
                    .title("Unfreeze a member")
                    .when("Use to let a frozen member work again.")
                    .delete("/members/{member_id}/freeze")
                    .alias("/workspaces/{workspace_id}/members/{member_id}/freeze")
                    .needs(&[TokenAdmin])
                    .example(
                        |w| json!({"workspace_id": w.id("workspace"), "member_id": w.id("frozen_member")}),
                    ),
                read("list_frozen_members", list_frozen_members)
                    .title("List the frozen members of a workspace")
                    .when("Use to see which members are frozen.")
                    .detailed()
                    .get("/workspaces/{workspace_id}/frozen-members")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
            ],
        )
        .events(vec![
            EventKind::of::<MemberFrozen>().invalidates(Invalidates::Access),
            EventKind::of::<MemberUnfrozen>().invalidates(Invalidates::Access),
        ])
        .sample(
            Sample::new(
                "frozen_member",
                "create_agent",
                |w| json!({"workspace_id": w.id("workspace"), "handle": "icicle", "display_name": "Icicle"}),
            )
            .id_at("/member/id")
            .then("freeze_member", |w| json!({"member_id": w.id("frozen_member"), "reason": "It loops."})),
        )
}

type Reason = Prose<1, FREEZE_REASON_MAX>;

/// A member was frozen. Further events end its claims.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct MemberFrozen<'a> {
    /// The member.
    member_id: MemberId,
    /// Why; null if no reason was given.
    reason: Option<&'a str>,
    /// How many live claims it had, which the freeze ends.
    claims_released: i64,
}

impl Event for MemberFrozen<'_> {
    const KIND: &'static str = "MemberFrozen";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?.set("frozen_at", event.at());
        member.set("frozen_by", event.subject()).set_to("frozen_reason", "reason").keep()
    }
}

/// A frozen member may make changes again.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct MemberUnfrozen {
    /// The member.
    member_id: MemberId,
}

impl Event for MemberUnfrozen {
    const KIND: &'static str = "MemberUnfrozen";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?;
        member.clear("frozen_at").clear("frozen_by").clear("frozen_reason").keep()
    }
}

/// Freezes a member, so that it may only read, and returns the freeze.
///
/// Its claims end, and the time worked under them is charged. From then on each of its changes fails with
/// `member-frozen`, also those that it makes for others as a delegate and those that delegates make for it,
/// until it is unfrozen.
///
/// Its tokens stay valid for reading. Freezing it again changes nothing, not even the reason.
///
/// Fails with 403 `forbidden` if the member is you, if you act for it or by it as a delegate, or if it holds
/// a token that reaches beyond the workspace and yours does not reach as far.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FreezeMember {
    /// The workspace; it must be yours. Default: your own.
    pub workspace_id: OwnWorkspaceId,
    /// The member to freeze.
    pub member_id: MemberId,
    /// Why, for administrators and for readers of the log.
    #[schemars(transform = default_is("none"))]
    pub reason: Option<Reason>,
}

/// The freeze of a member, and how many claims it ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FrozenMember {
    #[serde(flatten)]
    pub freeze: MemberFreeze,
    /// How many live claims the freeze ended; 0 if the member was frozen already.
    pub claims_released: i64,
}

/// A repeat fails once the freeze was lifted, even if the member is frozen again.
impl<I> Answer<I> for FrozenMember {
    type Kept = (MemberId, Time, i64);

    fn kept(&self) -> Option<Self::Kept> {
        Some((self.freeze.member_id, self.freeze.frozen_at, self.claims_released))
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (member, frozen_at, claims_released): Self::Kept) -> Result<Self> {
        let present = members::freeze_of(cx, &load_member(cx, member)?)?;
        let freeze = present.filter(|freeze| freeze.frozen_at == frozen_at);
        Ok(Self { freeze: freeze.ok_or_else(|| Error::not_found("freeze"))?, claims_released })
    }
}

/// Freezes a member.
pub const FREEZE_MEMBER: TypedOperation<FreezeMember, FrozenMember> = TypedOperation::new("freeze_member");

/// The freeze that the steps of a call belong to.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct FreezeProgress {
    frozen_at: Time,
    claims_released: i64,
}

/// Freezes the member in the first step, and ends its claims in this one and those that follow. If it was
/// already frozen, ends the claims that an earlier call has left.
fn freeze_member(
    cx: &mut Write<'_>,
    input: &FreezeMember,
    begun: &mut Option<FreezeProgress>,
) -> Result<Option<FrozenMember>> {
    let member = member_of(cx, input.workspace_id, input.member_id)?;
    check_is_other(cx.caller(), member.id, "freeze itself")?;
    check_reaches_no_further(cx, member.id)?;
    let present = members::freeze_of(cx, &member)?;
    let freeze = match (present, begun.as_ref()) {
        (Some(freeze), None) => freeze,
        (Some(freeze), Some(begun)) if freeze.frozen_at == begun.frozen_at => freeze,
        // Another caller has lifted the freeze since the first step.
        (_, Some(_)) => return Err(Error::not_found("freeze")),
        (None, None) => {
            let claims_released = claims::live_of(cx, member.id)?;
            let reason = input.reason.as_deref();
            let frozen = MemberFrozen { member_id: member.id, reason, claims_released };
            cx.emit(Subject::WORKSPACE.about(member.id), &frozen)?;
            let freeze = members::freeze(cx, &member, reason)?;
            *begun = Some(FreezeProgress { frozen_at: freeze.frozen_at, claims_released });
            freeze
        }
    };
    let frozen_at = freeze.frozen_at;
    let claims_released =
        begun.get_or_insert(FreezeProgress { frozen_at, claims_released: 0 }).claims_released;
    if claims::end_some(cx, member.id, ClaimEnd::Frozen)?.more {
        return Ok(None);
    }
    Ok(Some(FrozenMember { freeze, claims_released }))
}

/// Loads a member of the caller's workspace, which the request may also name.
fn member_of(cx: &Read<'_>, workspace: OwnWorkspaceId, member: MemberId) -> Result<Member> {
    workspace.of(cx)?;
    load_member(cx, member)
}

/// Lifts the freeze of a member, and returns the member.
///
/// The claims that ended with it are not restored. Unfreezing a member that is not frozen changes nothing.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnfreezeMember {
    /// The workspace; it must be yours. Default: your own.
    pub workspace_id: OwnWorkspaceId,
    /// The member to unfreeze.
    pub member_id: MemberId,
}

/// Unfreezes a member.
pub const UNFREEZE_MEMBER: TypedOperation<UnfreezeMember, Member> = TypedOperation::new("unfreeze_member");

fn unfreeze_member(cx: &mut Write<'_>, input: &UnfreezeMember) -> Result<Option<Member>> {
    let member = member_of(cx, input.workspace_id, input.member_id)?;
    if !member.frozen {
        return Ok(Some(member));
    }
    // An interrupted freeze may have left claims, which the unfreezing must not restore.
    if claims::end_some(cx, member.id, ClaimEnd::Frozen)?.more {
        return Ok(None);
    }
    cx.emit(Subject::WORKSPACE.about(member.id), &MemberUnfrozen { member_id: member.id })?;
    members::unfreeze(cx, member).map(Some)
}

/// Returns the frozen members of a workspace, in the order in which they joined.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListFrozenMembers {
    /// The workspace. It must be yours.
    workspace_id: OwnWorkspaceId,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
}

fn list_frozen_members(cx: &Read<'_>, input: &ListFrozenMembers) -> Result<Page<MemberFreeze>> {
    let workspace_id = input.workspace_id.of(cx)?;
    members::frozen_members(cx, workspace_id, input.cursor, input.limit)
}
