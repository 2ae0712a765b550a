//! Replays the claim in a thread's row from the events that begin and end claims.

use serde_json::Value;

use crate::Result;
use crate::coordination::{budget, workers};
use crate::log::replay::{ReplayedEvent, RowChange};

/// Sets the new claim from an event that changes the holder, or clears the previous claim.
pub(super) fn replay_assignment(event: &ReplayedEvent<'_>) -> Result<()> {
    match event.field("assignee_id") {
        Some(Value::Null) => replay_end(event),
        Some(holder) => replay_begin(event, holder.clone()),
        None => Ok(()),
    }
}

fn replay_begin(event: &ReplayedEvent<'_>, holder: Value) -> Result<()> {
    let is_handed_off = event.text("reason") == Some("handed_off");
    let row = event.row_of("threads", "thread_id")?;
    let row = if is_handed_off { add_worked_time(event, row) } else { row };
    let row = row.copy("assignee_id claim_lease_id claimed_at acknowledge_by");
    let row = row.set_to("assignment_expires_at", "expires_at").clear("acknowledged_at");
    row.set("claim_lsn", event.lsn()).keep()?;
    workers::replay_workers(event, holder)?;
    // The time worked before the hand-off has just been added.
    if is_handed_off { budget::replay_exhausted_column(event, Some(0)) } else { Ok(()) }
}

fn replay_end(event: &ReplayedEvent<'_>) -> Result<()> {
    let row = add_worked_time(event, event.row_of("threads", "thread_id")?);
    let row = clear_claim(row);
    let is_attempt = event.text("reason").is_some_and(|reason| ATTEMPT_REASONS.contains(&reason));
    row.add("attempts", i64::from(is_attempt)).keep()?;
    budget::replay_exhausted_column(event, Some(0))
}

/// Clears the claim in a thread's row.
pub(in crate::coordination) fn clear_claim(row: RowChange<'_>) -> RowChange<'_> {
    CLAIM_COLUMNS.into_iter().fold(row, RowChange::clear)
}

/// The columns of a thread's row that describe its claim.
const CLAIM_COLUMNS: [&str; 7] = [
    "assignee_id",
    "claim_lease_id",
    "claimed_at",
    "assignment_expires_at",
    "acknowledged_at",
    "acknowledge_by",
    "claim_lsn",
];

/// The reasons for which the end of a claim counts as a failed attempt.
const ATTEMPT_REASONS: [&str; 5] = ["released", "expired", "failed", "frozen", "deactivated"];

/// Adds the time under the claim in the thread's row to the thread's wall time.
fn add_worked_time<'e>(event: &ReplayedEvent<'_>, row: RowChange<'e>) -> RowChange<'e> {
    let until = event.field("worked_until");
    match until.and_then(|until| budget::micros_between(row.value("claimed_at")?, until)) {
        Some(worked) => row.add("worked_micros", worked),
        None => row.set_known("worked_micros", None),
    }
}
