//! Operations that set, change and read the budgets of threads.
//!
//! A budget may be set at any time. If a limit is then used up, a live claim continues, but its lease is
//! shortened to the remaining wall time.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::coordination::budget::{
    self, Amount, Budget, BudgetLimit, BudgetLimits, BudgetRemaining, BudgetUsed, WallSecs,
};
use crate::coordination::claims::{expire_lapsed_claims, shorten_lease};
use crate::coordination::thread_row::visible_thread;
use crate::error::Code;
use crate::id::ThreadId;
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Read, Records, Write, idempotent, read};
use crate::request::{dereferences, request};
use crate::text::{Count, Patch};

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "budgets",
            vec![
                idempotent("set_thread_budget", set_thread_budget)
                    .after(expire_lapsed_claims)
                    .title("Set a thread's budget")
                    .when(
                        "Set all limits of a thread's budget; omitted limits are removed. Use \
                         `update_thread_budget` to change single limits.",
                    )
                    .put("/threads/{thread_id}/budget")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState])
                    .example(|w| {
                        json!({"thread_id": w.id("thread"), "max_tokens": 2_000_000, "max_wall_secs": 7200,
                               "max_attempts": 3})
                    }),
                idempotent("update_thread_budget", update_thread_budget)
                    .after(expire_lapsed_claims)
                    .title("Change a thread's budget")
                    .when(
                        "Change individual limits of a thread's budget. Use `set_thread_budget` to replace \
                         all limits.",
                    )
                    .patch("/threads/{thread_id}/budget")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState])
                    .example(
                        |w| json!({"thread_id": w.id("thread"), "max_turns": 200, "max_usd_micros": null}),
                    ),
                read("get_thread_budget", get_thread_budget)
                    .title("Read a thread's budget")
                    .when("Get the limits, usage and remaining budget of a thread.")
                    .get("/threads/{thread_id}/budget")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"thread_id": w.id("thread")})),
            ],
        )
        .events(vec![EventKind::of::<ThreadBudgetSet>()])
        .records(vec![
            Records::table("thread_budgets", "thread_id")
                .through("thread_id", "threads")
                .ids("thread_id")
                .ints("max_tokens max_usd_micros max_turns max_wall_secs max_attempts low")
                .proven("thread_id", LIMIT_COLUMNS)
                .unproven("low", "which notices were posted, which follows from the limits and what is used"),
        ])
}

/// The columns of the limits, named as in the event.
const LIMIT_COLUMNS: &str = "max_tokens max_usd_micros max_turns max_wall_secs max_attempts";

/// The limits of a thread's budget were set.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ThreadBudgetSet {
    #[serde(flatten)]
    limits: BudgetLimits,
}

impl Event for ThreadBudgetSet {
    const KIND: &'static str = "ThreadBudgetSet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("thread_budgets", "$thread")?.made().copy(LIMIT_COLUMNS).keep()?;
        let is_limited = LIMIT_COLUMNS.split(' ').any(|limit| event.int(limit).is_some());
        let thread = event.row_of("threads", "$thread")?.set("budgeted", is_limited);
        let thread = if is_limited { thread } else { thread.set("exhausted", false) };
        thread.keep()?;
        budget::replay_exhausted_column(event, budget::current_claim_micros(event)?)
    }
}

/// A thread's limits, with the used and remaining amounts.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ThreadBudget {
    /// Id of the thread that has the budget.
    pub thread_id: ThreadId,
    #[serde(flatten)]
    pub limits: BudgetLimits,
    /// The amounts that the thread has used.
    pub used: BudgetUsed,
    /// The amounts that remain of each limit.
    pub remaining: BudgetRemaining,
    /// The limits that are used up.
    pub exceeded: Vec<BudgetLimit>,
}

dereferences! { ThreadBudget => limits: BudgetLimits }

impl ThreadBudget {
    fn of(thread_id: ThreadId, budget: &Budget) -> Self {
        let used = budget.used_amounts();
        let remaining = budget.remaining_amounts();
        let exceeded = budget.exceeded_limits();
        Self { thread_id, limits: budget.limits, used, remaining, exceeded }
    }
}

impl<I> Answer<I> for ThreadBudget {
    type Kept = ThreadId;

    fn kept(&self) -> Option<ThreadId> {
        Some(self.thread_id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, thread_id: ThreadId) -> Result<Self> {
        get_thread_budget(cx, &GetThreadBudget { thread_id })
    }
}

request! {
    /// Sets the limits of a thread's budget, and returns the budget.
    ///
    /// Earlier usage counts. Once a limit is used up, the thread cannot be claimed, and its claim cannot be
    /// renewed or handed off; if a claim then ends without a result, the thread gets a dead letter.
    ///
    /// A lapsed claim is ended first, under the previous limits. No lease reaches beyond the remaining wall
    /// time; the lease of the live claim is shortened.
    ///
    /// A notice `budget_low` is posted once 80 percent of a limit are used. Wall time is checked when a claim
    /// is renewed, is handed off, reports usage or ends, and when the limits are set: for a claim that does
    /// none of these, the notice is posted when it lapses. Closing and reopening the thread changes neither
    /// its usage nor its attempts.
    ///
    /// Fails with 409 `wrong-state` if the thread is archived.
    #[derive(Serialize)]
    struct SetThreadBudget {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Maximum reported tokens. Default: any number.
        max_tokens: Option<Amount>,
        /// Maximum reported cost, in millionths of a US dollar. Default: any number.
        max_usd_micros: Option<Amount>,
        /// Maximum reported turns. Default: any number.
        max_turns: Option<Amount>,
        /// Maximum total time of all claims, in seconds. Default: any number.
        max_wall_secs: Option<WallSecs>,
        /// Maximum claims that may end without a result until the thread is requeued. Default: any number.
        max_attempts: Option<Amount>,
    }

    set_thread_budget(thread_id: ThreadId) -> ThreadBudget
}

fn set_thread_budget(cx: &mut Write<'_>, input: &SetThreadBudget) -> Result<ThreadBudget> {
    let amount = |given: Option<Amount>| given.map(Count::get);
    let limits = BudgetLimits {
        max_tokens: amount(input.max_tokens),
        max_usd_micros: amount(input.max_usd_micros),
        max_turns: amount(input.max_turns),
        max_wall_secs: input.max_wall_secs.map(Count::get),
        max_attempts: amount(input.max_attempts),
    };
    change_limits(cx, input.thread_id, |_| limits)
}

request! {
    /// Changes some limits of a thread's budget, and returns the budget.
    ///
    /// Omitted limits keep their value; null removes a limit. Otherwise, this operation is like
    /// `set_thread_budget`.
    ///
    /// Fails with 409 `wrong-state` if the thread is archived.
    #[derive(Serialize)]
    struct UpdateThreadBudget {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Maximum reported tokens; null for any number.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        max_tokens: Patch<Amount>,
        /// Maximum reported cost, in millionths of a US dollar; null for any number.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        max_usd_micros: Patch<Amount>,
        /// Maximum reported turns; null for any number.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        max_turns: Patch<Amount>,
        /// Maximum total time of all claims, in seconds; null for any number.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        max_wall_secs: Patch<WallSecs>,
        /// Maximum claims that may end without a result until the thread is requeued; null for any number.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        max_attempts: Patch<Amount>,
    }

    update_thread_budget(thread_id: ThreadId) clears(
        max_tokens => clear_max_tokens,
        max_usd_micros => clear_max_usd_micros,
        max_turns => clear_max_turns,
        max_wall_secs => clear_max_wall_secs,
        max_attempts => clear_max_attempts
    ) -> ThreadBudget
}

fn update_thread_budget(cx: &mut Write<'_>, input: &UpdateThreadBudget) -> Result<ThreadBudget> {
    change_limits(cx, input.thread_id, |before| BudgetLimits {
        max_tokens: changed_limit(before.max_tokens, &input.max_tokens),
        max_usd_micros: changed_limit(before.max_usd_micros, &input.max_usd_micros),
        max_turns: changed_limit(before.max_turns, &input.max_turns),
        max_wall_secs: changed_limit(before.max_wall_secs, &input.max_wall_secs),
        max_attempts: changed_limit(before.max_attempts, &input.max_attempts),
    })
}

/// Returns a limit after a change: the limit `before`, no limit, or the new limit.
fn changed_limit<const MAX: i64>(before: Option<i64>, change: &Patch<Count<0, MAX>>) -> Option<i64> {
    match change {
        Patch::Keep => before,
        Patch::Clear => None,
        Patch::Set(limit) => Some(limit.get()),
    }
}

/// Replaces the limits of a thread's budget by the result of `change`, and returns the budget.
fn change_limits(
    cx: &mut Write<'_>,
    id: ThreadId,
    change: impl FnOnce(BudgetLimits) -> BudgetLimits,
) -> Result<ThreadBudget> {
    let thread = visible_thread(cx, id)?;
    thread.check_not_archived()?;
    let before = budget::load(cx, id)?;
    let budget = before.with_limits(change(before.limits));
    if budget.limits != before.limits {
        budget::set_limits(cx, id, budget.limits)?;
        cx.emit(thread.place(), &ThreadBudgetSet { limits: budget.limits })?;
        shorten_lease(cx, &thread, &budget)?;
        budget::update_exhausted_column(cx, &thread, &budget)?;
    }
    // Load the thread again, because its lease may have been shortened to end at this moment.
    let thread = visible_thread(cx, id)?;
    Ok(ThreadBudget::of(id, &budget::load_current(cx, &thread)?))
}

request! {
    /// Returns a thread's budget, with the used and remaining amounts.
    struct GetThreadBudget {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    get_thread_budget(thread_id: ThreadId) -> ThreadBudget
}

fn get_thread_budget(cx: &Read<'_>, input: &GetThreadBudget) -> Result<ThreadBudget> {
    let thread = visible_thread(cx, input.thread_id)?;
    Ok(ThreadBudget::of(thread.id, &budget::load_current(cx, &thread)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept_removed_or_set() {
        let set: Patch<Amount> = Patch::Set(Count::new(7).unwrap());
        for (before, change, after) in [
            (Some(3), Patch::Keep, Some(3)),
            (None, Patch::Keep, None),
            (Some(3), Patch::Clear, None),
            (Some(3), set.clone(), Some(7)),
            (None, set, Some(7)),
        ] {
            assert_eq!(changed_limit(before, &change), after, "{before:?} {change:?}");
        }
    }
}
