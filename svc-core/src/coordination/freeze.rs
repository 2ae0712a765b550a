//! Freezing a member, after which the member can only read.
//!
//! A freeze ends the claims of the member: the first claims in its own transaction, and any remaining claims
//! in later steps. As soon as the freeze is committed, every server rejects changes by the member, including
//! changes that delegates make for the member and changes that the member makes as a delegate; so no claim
//! can begin between the steps. A freeze does not expire; an administrator lifts it. The member's tokens stay
//! valid.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::TokenAdmin;
use crate::coordination::claims::{self, ClaimEnd};
use crate::error::{Code, Error};
use crate::id::MemberId;
use crate::identity::authority::check_is_not_caller;
use crate::identity::members::{self, Member, MemberFreeze, load_member};
use crate::identity::tokens::check_may_revoke_tokens_of;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::FREEZE_REASON_MAX;
use crate::log::event::{CachedEntryKind, Event, EventKind, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Effect, Feature, Read, Sample, Write, changing, read};
use crate::page::{Cursor, Limit, Page};
use crate::request::{dereferences, request};
use crate::schema::default_is;
use crate::text::Prose;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "members",
            vec![
                changing("freeze_member", Effect::Destructive)
                    .in_resumed_steps(freeze_member)
                    .title("Freeze a member")
                    .when("Freeze a member, so that the member can read but make no changes.")
                    .post("/workspaces/{workspace_id}/members/{member_id}/freeze")
                    .alias("/members/{member_id}/freeze")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::Forbidden])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "member_id": w.id("judge"),
                               "reason": "It deletes what others write."})
                    }),
                changing("unfreeze_member", Effect::Idempotent)
                    .in_steps(unfreeze_member)
                    .title("Unfreeze a member")
                    .when("Lift a member's freeze, so that the member can make changes again.")
                    .delete("/members/{member_id}/freeze")
                    .alias("/workspaces/{workspace_id}/members/{member_id}/freeze")
                    .needs(&[TokenAdmin])
                    .example(
                        |w| json!({"workspace_id": w.id("workspace"), "member_id": w.id("frozen_member")}),
                    ),
                read("list_frozen_members", list_frozen_members)
                    .title("List the frozen members of a workspace")
                    .when("List the frozen members of the workspace, who can read but make no changes.")
                    .detailed()
                    .get("/workspaces/{workspace_id}/frozen-members")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
            ],
        )
        .events(vec![
            EventKind::of::<MemberFrozen>().invalidates(CachedEntryKind::Access),
            EventKind::of::<MemberUnfrozen>().invalidates(CachedEntryKind::Access),
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

type FreezeReason = Prose<1, FREEZE_REASON_MAX>;

/// A member was frozen. Later events end the member's claims.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct MemberFrozen<'a> {
    /// Id of the member that was frozen.
    member_id: MemberId,
    /// The reason for the freeze; null if the caller gave no reason.
    reason: Option<&'a str>,
    /// Number of the member's live claims, which the freeze ends.
    claims_released: i64,
}

impl Event for MemberFrozen<'_> {
    const KIND: &'static str = "MemberFrozen";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?.set("frozen_at", event.at());
        member.set("frozen_by", event.subject()).set_to("frozen_reason", "reason").keep()
    }
}

/// A frozen member may make changes again.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct MemberUnfrozen {
    /// Id of the member that was unfrozen.
    member_id: MemberId,
}

impl Event for MemberUnfrozen {
    const KIND: &'static str = "MemberUnfrozen";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?;
        member.clear("frozen_at").clear("frozen_by").clear("frozen_reason").keep()
    }
}

request! {
    /// Freezes a member, who can then read but make no changes, and returns the freeze.
    ///
    /// The member's claims end, and their time is charged to the threads' budgets. Until the member is
    /// unfrozen, each of its changes fails with `member-frozen`, including changes as a delegate and changes
    /// through delegates.
    ///
    /// The member's tokens stay valid for reading. Freezing a frozen member changes nothing, not even the
    /// reason.
    ///
    /// Fails with 403 `forbidden` if the member is you, or the member for whom you act as a delegate, or if
    /// the member holds a token that reaches further beyond the workspace than your token.
    #[derive(Serialize)]
    pub struct FreezeMember {
        /// Id of the workspace. It must be your own, which is the default.
        pub workspace_id: OwnWorkspaceId,
        /// The member to freeze.
        pub member_id: MemberId,
        /// The reason, for administrators and readers of the log.
        #[schemars(transform = default_is("none"))]
        pub reason: Option<FreezeReason>,
    }

    freeze_member(member_id: MemberId) -> FrozenMember
}

/// The freeze of a member, and the number of claims that it ended.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FrozenMember {
    #[serde(flatten)]
    pub freeze: MemberFreeze,
    /// Number of live claims that the freeze ended; 0 if the member was frozen already.
    pub claims_released: i64,
}

dereferences! { FrozenMember => freeze: MemberFreeze }

/// Answers a repeated request: fails if the freeze was lifted, even if the member is frozen again.
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

/// The progress of a call that freezes a member in several steps.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct FreezeProgress {
    frozen_at: Time,
    claims_released: i64,
}

/// Freezes the member in the first step, and ends the member's claims in the first and all later steps.
///
/// If the member was already frozen, ends the claims that an earlier, interrupted call did not end.
fn freeze_member(
    cx: &mut Write<'_>,
    input: &FreezeMember,
    progress: &mut Option<FreezeProgress>,
) -> Result<Option<FrozenMember>> {
    let member = load_member_of_workspace(cx, input.workspace_id, input.member_id)?;
    check_is_not_caller(cx.caller(), member.id, "freeze itself")?;
    check_may_revoke_tokens_of(cx, member.id)?;
    let present = members::freeze_of(cx, &member)?;
    let freeze = match (present, progress.as_ref()) {
        (Some(freeze), None) => freeze,
        (Some(freeze), Some(progress)) if freeze.frozen_at == progress.frozen_at => freeze,
        // Another caller has lifted the freeze since the first step.
        (_, Some(_)) => return Err(Error::not_found("freeze")),
        (None, None) => {
            let claims_released = claims::count_live_claims(cx, member.id)?;
            let reason = input.reason.as_deref();
            let frozen = MemberFrozen { member_id: member.id, reason, claims_released };
            cx.emit(Subject::WORKSPACE.about(member.id), &frozen)?;
            let freeze = members::freeze(cx, &member, reason)?;
            *progress = Some(FreezeProgress { frozen_at: freeze.frozen_at, claims_released });
            freeze
        }
    };
    let frozen_at = freeze.frozen_at;
    let claims_released =
        progress.get_or_insert(FreezeProgress { frozen_at, claims_released: 0 }).claims_released;
    if claims::end_first_claims(cx, member.id, ClaimEnd::Frozen)?.has_more {
        return Ok(None);
    }
    Ok(Some(FrozenMember { freeze, claims_released }))
}

/// Loads a member of the caller's workspace. Fails if the request names a different workspace.
fn load_member_of_workspace(cx: &Read<'_>, workspace: OwnWorkspaceId, member: MemberId) -> Result<Member> {
    workspace.of(cx)?;
    load_member(cx, member)
}

request! {
    /// Lifts the freeze of a member, and returns the member.
    ///
    /// Claims that ended because of the freeze are not restored.
    ///
    /// If the member is not frozen, nothing changes.
    #[derive(Serialize)]
    pub struct UnfreezeMember {
        /// Id of the workspace. It must be your own, which is the default.
        pub workspace_id: OwnWorkspaceId,
        /// The member to unfreeze.
        pub member_id: MemberId,
    }

    unfreeze_member(member_id: MemberId) -> Member
}

fn unfreeze_member(cx: &mut Write<'_>, input: &UnfreezeMember) -> Result<Option<Member>> {
    let member = load_member_of_workspace(cx, input.workspace_id, input.member_id)?;
    if !member.frozen {
        return Ok(Some(member));
    }
    // An interrupted freeze may not have ended all claims. The remaining claims end now, because unfreezing
    // must not restore them.
    if claims::end_first_claims(cx, member.id, ClaimEnd::Frozen)?.has_more {
        return Ok(None);
    }
    cx.emit(Subject::WORKSPACE.about(member.id), &MemberUnfrozen { member_id: member.id })?;
    members::unfreeze(cx, member).map(Some)
}

request! {
    /// Returns the frozen members of a workspace, in the order in which they joined.
    struct ListFrozenMembers {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_frozen_members() -> Page<MemberFreeze>
}

fn list_frozen_members(cx: &Read<'_>, input: &ListFrozenMembers) -> Result<Page<MemberFreeze>> {
    let workspace_id = input.workspace_id.of(cx)?;
    members::frozen_members(cx, workspace_id, input.cursor, input.limit)
}
