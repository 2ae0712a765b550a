//! The rules for claiming a thread: one table, in the order in which refusals are listed.
//!
//! A claim of a thread by its id checks each rule. The ready queue contains only threads that meet the rules
//! that do not depend on the claimer, and a claim from the queue checks the remaining rules. A hand-off
//! checks the rules about the receiver, and whether the budget allows another claim.

use serde_json::Value;

use crate::Result;
use crate::capability::Capability::ThreadTransition;
use crate::conversation::visibility;
use crate::coordination::thread_row::{HeldClaim, Thread, ThreadState};
use crate::coordination::{budget, obstacles};
use crate::error::{Code, Error, Problem};
use crate::id::MemberId;
use crate::identity::members;
use crate::limits::REFUSAL_CONFLICTS_MAX;
use crate::op::Read;
use crate::time::Time;

/// A thread, and the member for whom the rules are checked: a claimer, or the receiver of a hand-off.
pub(in crate::coordination) struct ClaimCandidate<'a> {
    pub thread: &'a Thread,
    pub member: MemberId,
    /// Whether the member is the caller; otherwise the member is to receive the claim in a hand-off.
    pub is_caller: bool,
}

/// A rule that a thread and a member must meet before the member can claim the thread.
struct ClaimRule {
    /// Fails if the rule does not allow the member to claim the thread.
    check: fn(&Read<'_>, &ClaimCandidate<'_>) -> Result<()>,
    /// Whether the rule also applies to the receiver of a hand-off.
    applies_at_hand_off: bool,
    /// The rule as an SQL condition on the thread `t` and its channel `c`; `None` if the rule depends on the
    /// claimer.
    ///
    /// The queue contains only threads that meet the condition.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the statements"))]
    queue_condition: Option<&'static str>,
}

impl ClaimRule {
    const fn new(check: fn(&Read<'_>, &ClaimCandidate<'_>) -> Result<()>) -> Self {
        Self { check, applies_at_hand_off: false, queue_condition: None }
    }

    const fn applied_at_hand_off(self) -> Self {
        Self { applies_at_hand_off: true, ..self }
    }

    const fn with_queue_condition(self, condition: &'static str) -> Self {
        Self { queue_condition: Some(condition), ..self }
    }
}

/// Every rule for claiming a thread.
const RULES: &[ClaimRule] = &[
    ClaimRule::new(check_unclaimed).with_queue_condition("t.assignee_id is null"),
    ClaimRule::new(check_open).with_queue_condition("t.state = 'open'"),
    ClaimRule::new(check_no_result).with_queue_condition("not t.has_result"),
    ClaimRule::new(check_budget_left).applied_at_hand_off().with_queue_condition("not t.exhausted"),
    ClaimRule::new(check_no_dead_letter).with_queue_condition("not t.dead"),
    ClaimRule::new(check_dependencies_finished).with_queue_condition("t.blocked = 0"),
    ClaimRule::new(check_not_holder).applied_at_hand_off(),
    ClaimRule::new(check_unfrozen).applied_at_hand_off(),
    ClaimRule::new(check_skills).applied_at_hand_off(),
    ClaimRule::new(check_sees_channel).applied_at_hand_off(),
    ClaimRule::new(check_task_channel).with_queue_condition("c.archived_at is null and not c.dm"),
    ClaimRule::new(check_unobstructed),
];

/// The conditions of the queue on a thread `t`, except that the thread is unclaimed.
macro_rules! is_claimable_if_unclaimed {
    () => {
        "t.state = 'open' and not t.has_result and not t.exhausted and not t.dead and t.blocked = 0"
    };
}
pub(in crate::coordination) use is_claimable_if_unclaimed;

/// The conditions of the queue on a thread `t`.
macro_rules! is_claimable {
    () => {
        concat!("t.assignee_id is null and ", $crate::coordination::rules::is_claimable_if_unclaimed!())
    };
}
pub(in crate::coordination) use is_claimable;

/// The conditions of the queue on a thread `t` and its channel `c`.
macro_rules! is_ready {
    () => {
        concat!($crate::coordination::rules::is_claimable!(), " and c.archived_at is null and not c.dm")
    };
}
pub(in crate::coordination) use is_ready;

/// Fails if the caller cannot claim a thread.
pub(in crate::coordination) fn check_claimable(cx: &Read<'_>, thread: &Thread) -> Result<()> {
    let candidate = ClaimCandidate { thread, member: cx.caller().member_id()?, is_caller: true };
    check_rules(cx, &candidate, RULES.iter())
}

/// Returns every problem that prevents the caller from claiming a thread now.
///
/// A problem with a list of conflicts contains only the first [`REFUSAL_CONFLICTS_MAX`] conflicts.
pub(in crate::coordination) fn claim_refusals(cx: &Read<'_>, thread: &Thread) -> Result<Vec<Problem>> {
    let caller = cx.caller();
    if !caller.is_member() || !caller.capabilities.has(ThreadTransition) {
        let refusal = Error::forbidden("only a member with thread:transition can claim a thread");
        return Ok(vec![refusal.problem()]);
    }
    let candidate = ClaimCandidate { thread, member: caller.member_id()?, is_caller: true };
    let mut refusals = Vec::new();
    for rule in RULES {
        match (rule.check)(cx, &candidate) {
            Ok(()) => {}
            Err(refusal) if matches!(refusal.code().status(), 403 | 409) => {
                let mut problem = refusal.problem();
                if let Some(Value::Array(conflicts)) = problem.extra.get_mut("conflicts") {
                    conflicts.truncate(REFUSAL_CONFLICTS_MAX);
                }
                refusals.push(problem);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(refusals)
}

/// Fails if a member cannot receive the claim on a thread in a hand-off.
pub(in crate::coordination) fn check_receiver(
    cx: &Read<'_>,
    thread: &Thread,
    receiver: MemberId,
) -> Result<()> {
    let candidate = ClaimCandidate { thread, member: receiver, is_caller: false };
    check_rules(cx, &candidate, RULES.iter().filter(|rule| rule.applies_at_hand_off))
}

fn check_rules<'r>(
    cx: &Read<'_>,
    candidate: &ClaimCandidate<'_>,
    mut rules: impl Iterator<Item = &'r ClaimRule>,
) -> Result<()> {
    rules.try_for_each(|rule| (rule.check)(cx, candidate))
}

/// Returns the error of a thread that the member cannot claim; `reason` is for programs.
fn not_claimable(reason: &str, detail: &str) -> Error {
    Error::new(Code::NotClaimable, format!("the thread cannot be claimed: {detail}")).with("reason", reason)
}

/// Returns the claim on a thread if the claim is live at the time `now`, or `None`.
pub(in crate::coordination) fn live_claim(thread: &Thread, now: Time) -> Option<HeldClaim> {
    thread.held.filter(|held| held.is_live(now))
}

fn check_unclaimed(cx: &Read<'_>, candidate: &ClaimCandidate<'_>) -> Result<()> {
    let Some(held) = live_claim(candidate.thread, cx.now()) else { return Ok(()) };
    let detail = if held.holder == candidate.member {
        "you hold its live claim already: renew it instead"
    } else {
        "another member holds its live claim"
    };
    let refusal = not_claimable("claimed", detail);
    Err(refusal.with("holder", held.holder).with("lease_expires_at", held.until))
}

fn check_open(_: &Read<'_>, ClaimCandidate { thread, .. }: &ClaimCandidate<'_>) -> Result<()> {
    if thread.state == ThreadState::Open {
        return Ok(());
    }
    Err(not_claimable("state", "it is not open").with("state", thread.state))
}

fn check_no_result(_: &Read<'_>, ClaimCandidate { thread, .. }: &ClaimCandidate<'_>) -> Result<()> {
    if thread.has_result {
        let detail = "it has a result: close and reopen it to have it done again";
        return Err(not_claimable("has-result", detail));
    }
    Ok(())
}

fn check_budget_left(cx: &Read<'_>, ClaimCandidate { thread, .. }: &ClaimCandidate<'_>) -> Result<()> {
    budget::check_not_exhausted(cx, thread).map(|_| ())
}

/// Fails if the thread has an unsettled dead letter, or will have one once its lapsed claim is ended.
fn check_no_dead_letter(cx: &Read<'_>, ClaimCandidate { thread, .. }: &ClaimCandidate<'_>) -> Result<()> {
    if thread.dead || budget::has_lapsed_over_budget(cx, thread)? {
        return Err(not_claimable("dead-letter", "it failed over its budget: requeue its dead letter"));
    }
    Ok(())
}

fn check_dependencies_finished(
    _: &Read<'_>,
    ClaimCandidate { thread, .. }: &ClaimCandidate<'_>,
) -> Result<()> {
    if thread.blocked > 0 {
        let refusal = not_claimable("blocked", "it waits for unfinished threads");
        return Err(refusal.with("blocked", thread.blocked));
    }
    Ok(())
}

/// Fails if the receiver of a hand-off holds the claim already. For a caller, [`check_unclaimed`] checks the
/// same.
fn check_not_holder(_: &Read<'_>, candidate: &ClaimCandidate<'_>) -> Result<()> {
    if !candidate.is_caller && candidate.thread.assignee_id == Some(candidate.member) {
        return Err(not_claimable("claimed", "the member holds the claim already"));
    }
    Ok(())
}

/// Fails if the caller is frozen, or if the receiver of a hand-off is frozen, deactivated or not in the
/// workspace.
fn check_unfrozen(cx: &Read<'_>, candidate: &ClaimCandidate<'_>) -> Result<()> {
    if candidate.is_caller {
        return cx.caller().check_not_frozen();
    }
    let member = members::load_member(cx, candidate.member).map_err(as_not_claimable)?;
    if member.frozen || !member.active {
        return Err(not_claimable("frozen", "the member is frozen or deactivated"));
    }
    Ok(())
}

/// Replaces the error of a member that is not in the workspace with a refusal of the hand-off.
fn as_not_claimable(error: Error) -> Error {
    if error.code() == Code::NotFound {
        not_claimable("member", "the workspace has no such member")
    } else {
        error
    }
}

fn check_skills(cx: &Read<'_>, candidate: &ClaimCandidate<'_>) -> Result<()> {
    let skills = members::skills_of(cx, candidate.member)?;
    let required = candidate.thread.required_skills.iter();
    let missing: Vec<&String> = required.filter(|skill| !skills.contains(skill)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let detail = if candidate.is_caller {
        "you lack skills that it requires"
    } else {
        "the member lacks skills that it requires"
    };
    Err(not_claimable("missing-skills", detail).with("missing_skills", missing))
}

/// Fails if the receiver of a hand-off may not see the thread's channel. A caller who has loaded the thread
/// may see it.
fn check_sees_channel(cx: &Read<'_>, candidate: &ClaimCandidate<'_>) -> Result<()> {
    if candidate.is_caller
        || visibility::is_channel_visible_to(cx, candidate.thread.channel_id, candidate.member)?
    {
        return Ok(());
    }
    Err(not_claimable("channel", "the member may not see its channel: add the member to it first"))
}

fn check_task_channel(cx: &Read<'_>, ClaimCandidate { thread, .. }: &ClaimCandidate<'_>) -> Result<()> {
    let channel = visibility::visible_channel(cx, thread.channel_id)?;
    if channel.dm {
        return Err(not_claimable("dm", "it is in a direct message, and is not a task"));
    }
    if channel.archived {
        let detail = "its channel is archived: unarchive the channel first";
        return Err(not_claimable("channel-archived", detail));
    }
    Ok(())
}

fn check_unobstructed(cx: &Read<'_>, ClaimCandidate { thread, .. }: &ClaimCandidate<'_>) -> Result<()> {
    thread
        .footprint
        .as_ref()
        .map_or(Ok(()), |touched| obstacles::check_no_conflicts(cx, touched, Some(thread.id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_have_the_conditions_of_the_rules() {
        let conditions: Vec<&str> = RULES.iter().filter_map(|rule| rule.queue_condition).collect();
        assert_eq!(is_ready!(), conditions.join(" and "));
    }
}
