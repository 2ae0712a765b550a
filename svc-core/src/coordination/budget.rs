//! The budget of a thread: limits on the usage of its claims, and the amounts used so far.
//!
//! Holders report tokens, money and turns. Wall time is the total time under claims, and an attempt is a
//! claim that ended without a result. Once a limit is used up, the thread cannot be claimed, and its claim
//! cannot be renewed or handed off. The thread's row stores whether a limit is used up (`exhausted`), and
//! this file keeps that column up to date.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Result;
use crate::coordination::notices::{NewNotice, post_notice};
use crate::coordination::thread_row::Thread;
use crate::error::{Code, Error};
use crate::id::ThreadId;
use crate::limits::{BUDGET_LOW_PERCENT, BUDGET_MAX, WALL_SECS_MAX};
use crate::log::replay::{ReplayedEvent, RowChange};
use crate::op::{Read, Write};
use crate::store::columns;
use crate::text::Count;
use crate::time::Time;

/// A limit in a thread's budget: a number of tokens, millionths of a US dollar, turns or attempts.
pub(in crate::coordination) type Amount = Count<0, BUDGET_MAX>;

/// A limit on wall time in a thread's budget, in seconds.
pub(in crate::coordination) type WallSecs = Count<0, WALL_SECS_MAX>;

/// A quantity that a thread's budget can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[non_exhaustive]
pub enum BudgetLimit {
    #[serde(rename = "max_tokens")]
    Tokens,
    #[serde(rename = "max_usd_micros")]
    UsdMicros,
    #[serde(rename = "max_turns")]
    Turns,
    #[serde(rename = "max_wall_secs")]
    WallSecs,
    #[serde(rename = "max_attempts")]
    Attempts,
}

impl BudgetLimit {
    /// Returns the limit's name on the wire and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "max_tokens",
            Self::UsdMicros => "max_usd_micros",
            Self::Turns => "max_turns",
            Self::WallSecs => "max_wall_secs",
            Self::Attempts => "max_attempts",
        }
    }

    /// Returns the limit's bit in `Budget::notified_limits`, the bit set of the limits for which a notice was
    /// posted.
    fn bit(self) -> i64 {
        match self {
            Self::Tokens => 1,
            Self::UsdMicros => 2,
            Self::Turns => 4,
            Self::WallSecs => 8,
            Self::Attempts => 16,
        }
    }
}

/// The limits of a thread's budget; a null limit allows any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Limits")]
#[non_exhaustive]
pub struct BudgetLimits {
    /// Maximum tokens that the thread's claims may use; null for any number.
    pub max_tokens: Option<i64>,
    /// Maximum money that the thread's claims may spend, in millionths of a US dollar; null for any amount.
    pub max_usd_micros: Option<i64>,
    /// Maximum turns that the thread's claims may use; null for any number.
    pub max_turns: Option<i64>,
    /// Maximum total time under the thread's claims, in seconds; null for any length.
    pub max_wall_secs: Option<i64>,
    /// Maximum claims that may end without a result until the thread is requeued; null for any number.
    pub max_attempts: Option<i64>,
}

impl BudgetLimits {
    /// Returns whether the budget has no limit.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// The amounts that a thread has used of each quantity that a budget can limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Used")]
#[non_exhaustive]
pub struct BudgetUsed {
    /// Tokens that holders have reported for the thread.
    pub tokens: i64,
    /// Money that holders have reported for the thread, in millionths of a US dollar.
    pub usd_micros: i64,
    /// Turns that holders have reported for the thread.
    pub turns: i64,
    /// Total time under claims, including the live claim, in seconds.
    pub wall_secs: i64,
    /// Claims that ended without a result since the thread was last requeued.
    pub attempts: i64,
}

/// The amounts that remain of each limit in a thread's budget; null for a quantity without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Remaining")]
#[non_exhaustive]
pub struct BudgetRemaining {
    /// Tokens that claims may still use; null without a limit.
    pub tokens: Option<i64>,
    /// Money that claims may still spend, in millionths of a US dollar; null without a limit.
    pub usd_micros: Option<i64>,
    /// Turns that claims may still use; null without a limit.
    pub turns: Option<i64>,
    /// Wall time that claims may still use in total, in seconds; null without a limit.
    pub wall_secs: Option<i64>,
    /// Claims that may still end without a result; null without a limit.
    pub attempts: Option<i64>,
}

const MICROS_PER_SEC: i64 = 1_000_000;

/// The limits of a thread's budget and the used amounts at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::coordination) struct Budget {
    pub limits: BudgetLimits,
    /// The used amounts, except wall time, which is computed from `wall_micros`.
    spent: BudgetUsed,
    /// Total time under claims, in microseconds, including the claim in the thread's row.
    wall_micros: i64,
    /// Bit set of the limits for which a `budget_low` notice was posted.
    notified_limits: i64,
}

impl Budget {
    /// Returns each limit with the allowed maximum, if one is set, and the used amount.
    fn amounts(&self) -> [(BudgetLimit, Option<i64>, i64); 5] {
        let limits = &self.limits;
        let spent = &self.spent;
        let wall = limits.max_wall_secs.map(|secs| secs.saturating_mul(MICROS_PER_SEC));
        [
            (BudgetLimit::Tokens, limits.max_tokens, spent.tokens),
            (BudgetLimit::UsdMicros, limits.max_usd_micros, spent.usd_micros),
            (BudgetLimit::Turns, limits.max_turns, spent.turns),
            (BudgetLimit::WallSecs, wall, self.wall_micros),
            (BudgetLimit::Attempts, limits.max_attempts, spent.attempts),
        ]
    }

    /// Returns the limits that are used up.
    pub fn exceeded_limits(&self) -> Vec<BudgetLimit> {
        let exceeded = |allowed: Option<i64>, used: i64| allowed.is_some_and(|allowed| used >= allowed);
        let amounts = self.amounts().into_iter();
        amounts.filter(|(_, allowed, used)| exceeded(*allowed, *used)).map(|(limit, ..)| limit).collect()
    }

    /// Returns the limits of which at least [`BUDGET_LOW_PERCENT`] percent is used.
    fn low_limits(&self) -> Vec<BudgetLimit> {
        let is_low = |allowed: Option<i64>, used: i64| {
            let used = i128::from(used) * 100;
            allowed.is_some_and(|allowed| used >= i128::from(allowed) * i128::from(BUDGET_LOW_PERCENT))
        };
        let amounts = self.amounts().into_iter();
        amounts.filter(|(_, allowed, used)| is_low(*allowed, *used)).map(|(limit, ..)| limit).collect()
    }

    /// Returns the used amount of each quantity that a budget can limit.
    pub fn used_amounts(&self) -> BudgetUsed {
        BudgetUsed { wall_secs: self.wall_micros / MICROS_PER_SEC, ..self.spent }
    }

    /// Returns the remaining amount of each limit.
    pub fn remaining_amounts(&self) -> BudgetRemaining {
        let limits = &self.limits;
        let used = self.used_amounts();
        let left =
            |allowed: Option<i64>, used: i64| allowed.map(|allowed| allowed.saturating_sub(used).max(0));
        BudgetRemaining {
            tokens: left(limits.max_tokens, used.tokens),
            usd_micros: left(limits.max_usd_micros, used.usd_micros),
            turns: left(limits.max_turns, used.turns),
            wall_secs: left(limits.max_wall_secs, used.wall_secs),
            attempts: left(limits.max_attempts, used.attempts),
        }
    }

    /// Returns the latest time at which a lease may end under this budget, or `None` if wall time is not
    /// limited.
    pub fn latest_lease_end(&self, now: Time) -> Option<Time> {
        let allowed = self.limits.max_wall_secs?.saturating_mul(MICROS_PER_SEC);
        Some(now.shifted(allowed.saturating_sub(self.wall_micros).max(0)))
    }

    /// Returns this budget with its limits replaced by `limits`.
    #[must_use]
    pub fn with_limits(self, limits: BudgetLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns this budget with zero attempts, as after the thread was requeued.
    #[must_use]
    fn without_attempts(self) -> Self {
        Self { spent: BudgetUsed { attempts: 0, ..self.spent }, ..self }
    }

    /// Returns this budget with one more attempt, for a claim that ended without a result.
    #[must_use]
    pub fn with_one_more_attempt(self) -> Self {
        let attempts = self.spent.attempts.saturating_add(1);
        Self { spent: BudgetUsed { attempts, ..self.spent }, ..self }
    }
}

/// A thread's budget and claim times as the database stores them.
struct StoredBudget {
    budget: Budget,
    worked_micros: i64,
    claimed_at: Option<Time>,
    lease_end: Option<Time>,
}

columns! {
    stored_columns: StoredBudget as t {
        worked_micros,
        claimed_at,
        lease_end = assignment_expires_at,
    }
    read {
        max_tokens = "b.max_tokens",
        max_usd_micros = "b.max_usd_micros",
        max_turns = "b.max_turns",
        max_wall_secs = "b.max_wall_secs",
        max_attempts = "b.max_attempts",
        low = "coalesce(b.low, 0)",
        tokens = spent_tokens,
        usd_micros = spent_usd_micros,
        turns = spent_turns,
        attempts,
    }
    make {
        budget: Budget {
            limits: BudgetLimits { max_tokens, max_usd_micros, max_turns, max_wall_secs, max_attempts },
            spent: BudgetUsed { tokens, usd_micros, turns, attempts, wall_secs: 0 },
            wall_micros: 0,
            notified_limits: low,
        },
    }
}

/// Loads the budget of a thread, including the time under the claim in the thread's row.
pub(in crate::coordination) fn load(cx: &Read<'_>, thread: ThreadId) -> Result<Budget> {
    let found: Option<StoredBudget> = cx.one(LOAD, &[&thread])?;
    let stored = found.ok_or_else(|| Error::not_found("thread"))?;
    // Time counts from the beginning of a claim until its lease lapses.
    let running = stored.claimed_at.zip(stored.lease_end).map_or(0, |(from, until)| {
        let until = cx.now().min(until);
        until.micros().saturating_sub(from.micros()).max(0)
    });
    Ok(Budget { wall_micros: stored.worked_micros.saturating_add(running), ..stored.budget })
}

const LOAD: &str = concat!(
    "select ",
    stored_columns!(),
    " from threads t left join thread_budgets b on b.thread_id = t.id where t.id = $1"
);

/// Loads the budget of a thread, or returns `None` if the budget has no limits.
pub(in crate::coordination) fn load_if_limited(cx: &Read<'_>, thread: &Thread) -> Result<Option<Budget>> {
    if thread.budgeted { load(cx, thread.id).map(Some) } else { Ok(None) }
}

/// Returns the current budget of a thread, or `None` if the budget has no limits.
///
/// A lapsed claim in the thread's row already counts as an attempt, even if no caller has ended it yet.
fn load_current_if_limited(cx: &Read<'_>, thread: &Thread) -> Result<Option<Budget>> {
    if thread.budgeted { load_current(cx, thread).map(Some) } else { Ok(None) }
}

/// Returns the current budget of a thread, even if the budget has no limits.
pub(in crate::coordination) fn load_current(cx: &Read<'_>, thread: &Thread) -> Result<Budget> {
    let budget = load(cx, thread.id)?;
    Ok(if thread.has_lapsed(cx.now()) { budget.with_one_more_attempt() } else { budget })
}

/// Fails if a limit of a thread's budget is used up. Returns the budget, or `None` if the budget has no
/// limits.
pub(in crate::coordination) fn check_not_exhausted(cx: &Read<'_>, thread: &Thread) -> Result<Option<Budget>> {
    let budget = load_current_if_limited(cx, thread)?;
    match budget.as_ref().map(Budget::exceeded_limits) {
        Some(exceeded) if !exceeded.is_empty() => Err(exhausted_error(&exceeded)),
        _ => Ok(budget),
    }
}

/// Returns a thread's budget with zero attempts. Fails if a limit would still be used up.
pub(in crate::coordination) fn budget_after_requeue(cx: &Read<'_>, thread: &Thread) -> Result<Budget> {
    let budget = load(cx, thread.id)?.without_attempts();
    match budget.exceeded_limits() {
        exceeded if exceeded.is_empty() => Ok(budget),
        exceeded if exceeded == [BudgetLimit::Attempts] => {
            let detail = "the thread's max_attempts of 0 allows no claim: raise it first";
            Err(Error::new(Code::BudgetExhausted, detail).with("exceeded", exceeded))
        }
        exceeded => Err(exhausted_error(&exceeded)),
    }
}

/// Returns whether the end of the lapsed claim in a thread's row would add a dead letter.
pub(in crate::coordination) fn has_lapsed_over_budget(cx: &Read<'_>, thread: &Thread) -> Result<bool> {
    Ok(thread.has_lapsed(cx.now())
        && load_current_if_limited(cx, thread)?.is_some_and(|found| !found.exceeded_limits().is_empty()))
}

/// Returns the error for a thread whose limits `exceeded` are used up.
fn exhausted_error(exceeded: &[BudgetLimit]) -> Error {
    let names: Vec<&str> = exceeded.iter().map(|limit| limit.name()).collect();
    let detail = format!("the thread's budget is used up: {}", names.join(" and "));
    Error::new(Code::BudgetExhausted, detail).with("exceeded", names)
}

/// Replaces the limits of a thread's budget.
pub(in crate::coordination) fn set_limits(
    cx: &mut Write<'_>,
    thread: ThreadId,
    limits: BudgetLimits,
) -> Result<()> {
    let BudgetLimits { max_tokens, max_usd_micros, max_turns, max_wall_secs, max_attempts } = limits;
    cx.execute(
        1,
        SET_LIMITS,
        &[&thread, &max_tokens, &max_usd_micros, &max_turns, &max_wall_secs, &max_attempts],
    )?;
    cx.execute(1, SET_BUDGETED, &[&thread, &!limits.is_unlimited()])
}

const SET_LIMITS: &str = "
    insert into thread_budgets (thread_id, max_tokens, max_usd_micros, max_turns, max_wall_secs, max_attempts)
    values ($1, $2, $3, $4, $5, $6)
    on conflict (thread_id) do update set max_tokens = excluded.max_tokens,
        max_usd_micros = excluded.max_usd_micros, max_turns = excluded.max_turns,
        max_wall_secs = excluded.max_wall_secs, max_attempts = excluded.max_attempts";

const SET_BUDGETED: &str = "update threads set budgeted = $2 where id = $1";

/// Updates the thread's column `exhausted` after a change of the budget, and posts a notice for each newly
/// low limit.
///
/// A limit is low once [`BUDGET_LOW_PERCENT`] percent of it is used. Another notice for the same limit can
/// follow after the limit was raised or its used amount was reset. `budget` must be the budget that the
/// thread's row has at the end of the transaction.
pub(in crate::coordination) fn update_exhausted_column(
    cx: &mut Write<'_>,
    thread: &Thread,
    budget: &Budget,
) -> Result<()> {
    let exhausted = !budget.exceeded_limits().is_empty();
    if exhausted != thread.exhausted {
        cx.execute(1, SET_EXHAUSTED, &[&thread.id, &exhausted])?;
    }
    let now_low = budget.low_limits();
    let bits = now_low.iter().fold(0, |bits, limit| bits | limit.bit());
    if bits != budget.notified_limits {
        cx.execute(1, SET_LOW, &[&thread.id, &bits])?;
    }
    for (limit, allowed, used) in budget.amounts() {
        if now_low.contains(&limit) && budget.notified_limits & limit.bit() == 0 {
            post_low_notice(cx, thread.id, limit, allowed.unwrap_or_default(), used)?;
        }
    }
    Ok(())
}

const SET_EXHAUSTED: &str = "update threads set exhausted = $2 where id = $1";

const SET_LOW: &str = "update thread_budgets set low = $2 where thread_id = $1";

/// Replays the column `exhausted` of an event's thread, which [`update_exhausted_column`] has set.
///
/// `claim_micros` is the time under the claim in the thread's row, in microseconds, or `None` if that time is
/// not known.
pub(in crate::coordination) fn replay_exhausted_column(
    event: &ReplayedEvent<'_>,
    claim_micros: Option<i64>,
) -> Result<()> {
    let thread = event.row("threads", [event.thread()])?;
    if thread.value("budgeted") == Some(&false.into()) {
        return Ok(());
    }
    let limits = event.row("thread_budgets", [event.thread()])?;
    let exhausted = is_exhausted(&thread, &limits, claim_micros);
    thread.set_known("exhausted", exhausted.map(Value::from)).keep()
}

/// Returns whether a limit is used up, or `None` if an amount or limit is not known.
fn is_exhausted(thread: &RowChange<'_>, limits: &RowChange<'_>, claim_micros: Option<i64>) -> Option<bool> {
    let number = |column| thread.value(column).and_then(Value::as_i64);
    let worked = number("worked_micros")
        .zip(claim_micros)
        .map(|(worked, claim_micros)| worked.saturating_add(claim_micros));
    let amounts = [
        (BudgetLimit::Tokens, number("spent_tokens")),
        (BudgetLimit::UsdMicros, number("spent_usd_micros")),
        (BudgetLimit::Turns, number("spent_turns")),
        (BudgetLimit::WallSecs, worked.map(|micros| micros / MICROS_PER_SEC)),
        (BudgetLimit::Attempts, number("attempts")),
    ];
    let mut exhausted = false;
    for (limit, used) in amounts {
        let allowed = limits.value(limit.name())?;
        exhausted |= !allowed.is_null() && used? >= allowed.as_i64()?;
    }
    Some(exhausted)
}

/// Returns the time under the current claim of an event's thread, in microseconds, or `None` if it is not
/// known.
pub(in crate::coordination) fn current_claim_micros(event: &ReplayedEvent<'_>) -> Result<Option<i64>> {
    let thread = event.row("threads", [event.thread()])?;
    let Some(from) = thread.value("claimed_at").filter(|from| !from.is_null()) else {
        return Ok(thread.value("claimed_at").map(|_| 0));
    };
    let lease = thread.value("assignment_expires_at").and_then(|until| micros_between(from, until));
    Ok(micros_between(from, &event.at()).zip(lease).map(|(running, lease)| running.min(lease)))
}

/// Returns the microseconds between two times in JSON, or 0 if `until` is not later than `from`. Returns
/// `None` if a value is not a time.
pub(in crate::coordination) fn micros_between(from: &Value, until: &Value) -> Option<i64> {
    let micros = |time: &Value| serde_json::from_value::<Time>(time.clone()).ok().map(Time::micros);
    Some(micros(until)?.saturating_sub(micros(from)?).max(0))
}

/// Posts a notice in a thread that a limit of the thread's budget is almost used up.
fn post_low_notice(
    cx: &mut Write<'_>,
    thread: ThreadId,
    limit: BudgetLimit,
    allowed: i64,
    used: i64,
) -> Result<()> {
    let unit = if limit == BudgetLimit::WallSecs { MICROS_PER_SEC } else { 1 };
    let name = limit.name();
    let allowed = allowed / unit;
    let used = used / unit;
    let text = match allowed {
        0 => format!("this thread's {name} is 0 and allows nothing"),
        _ => format!("{used} of {allowed} are used of this thread's {name}"),
    };
    let data = [("limit", json!(name)), ("allowed", json!(allowed)), ("used", json!(used))];
    let data = data.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
    post_notice(cx, thread, None, &NewNotice { name: "budget_low", text: &text, data })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_micros(1_000 * MICROS_PER_SEC);

    fn budget(limits: BudgetLimits, spent: BudgetUsed, wall_secs: i64) -> Budget {
        Budget { limits, spent, wall_micros: wall_secs * MICROS_PER_SEC, notified_limits: 0 }
    }

    #[test]
    fn a_limit_is_low_at_four_fifths_and_exceeded_once_nothing_is_left() {
        let all = BudgetLimits {
            max_tokens: Some(10),
            max_usd_micros: Some(10),
            max_turns: Some(10),
            max_wall_secs: Some(10),
            max_attempts: Some(10),
        };
        for (used, low, exceeded) in [(7, false, false), (8, true, false), (9, true, false), (10, true, true)]
        {
            let spent =
                BudgetUsed { tokens: used, usd_micros: used, turns: used, wall_secs: 0, attempts: used };
            let budget = budget(all, spent, used);
            assert_eq!(
                (budget.low_limits().len(), budget.exceeded_limits().len()),
                (if low { 5 } else { 0 }, if exceeded { 5 } else { 0 }),
                "{used}"
            );
        }
        for (at, limit) in ["max_tokens", "max_usd_micros", "max_turns", "max_wall_secs", "max_attempts"]
            .into_iter()
            .enumerate()
        {
            let over = |index: usize| if index == at { 11 } else { 0 };
            let spent = BudgetUsed {
                tokens: over(0),
                usd_micros: over(1),
                turns: over(2),
                wall_secs: 0,
                attempts: over(4),
            };
            let found = budget(all, spent, over(3)).exceeded_limits();
            assert_eq!(json!(found), json!([limit]));
            assert_eq!(found.iter().map(|limit| limit.name()).collect::<Vec<_>>(), [limit]);
        }
        let much = BudgetUsed { tokens: i64::MAX, usd_micros: 1, turns: 1, wall_secs: 0, attempts: 1 };
        assert_eq!(budget(BudgetLimits::default(), much, 1).exceeded_limits(), []);
        let nothing = BudgetLimits { max_turns: Some(0), ..BudgetLimits::default() };
        assert_eq!(budget(nothing, BudgetUsed::default(), 0).exceeded_limits(), [BudgetLimit::Turns]);
    }

    #[test]
    fn what_is_left_is_never_negative_and_seconds_are_whole() {
        let limits = BudgetLimits { max_tokens: Some(5), max_wall_secs: Some(3), ..BudgetLimits::default() };
        let spent = BudgetUsed { tokens: 7, ..BudgetUsed::default() };
        let budget = Budget { wall_micros: 1_999_999, ..budget(limits, spent, 0) };
        assert_eq!((budget.used_amounts().wall_secs, budget.remaining_amounts().wall_secs), (1, Some(2)));
        assert_eq!((budget.remaining_amounts().tokens, budget.remaining_amounts().turns), (Some(0), None));
    }

    #[test]
    fn no_lease_reaches_beyond_what_is_left() {
        let limited = |secs| BudgetLimits { max_wall_secs: secs, ..BudgetLimits::default() };
        for (allowed, used, left) in
            [(None, 5, None), (Some(60), 0, Some(60)), (Some(60), 45, Some(15)), (Some(60), 61, Some(0))]
        {
            let found = budget(limited(allowed), BudgetUsed::default(), used).latest_lease_end(NOW);
            assert_eq!(found, left.map(|left: i64| NOW.shifted(left * MICROS_PER_SEC)), "{allowed:?} {used}");
        }
    }

    #[test]
    fn each_limit_has_a_bit_of_its_own() {
        let limits = Budget::default().amounts().map(|(limit, ..)| limit);
        let bits = limits.iter().fold(0, |bits, limit| bits ^ limit.bit());
        assert_eq!(bits, 31);
    }
}
