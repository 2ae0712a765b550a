//! Replays the column `blocked` of threads: the number of unfinished threads that a thread waits for.
//!
//! The number is known if the log still contains all events since the thread's creation, and the states of
//! the threads that it waits for are known.

use serde_json::Value;

use crate::Result;
use crate::coordination::thread_row::ThreadState;
use crate::log::replay::ReplayedEvent;

/// Returns the number of unfinished threads in `awaited`, or `None` if the state of a thread in `awaited` is
/// not known.
pub(super) fn count_unfinished(event: &ReplayedEvent<'_>, awaited: &[Value]) -> Result<Option<i64>> {
    let mut count: i64 = 0;
    for id in awaited {
        let thread = event.row("threads", [id.clone()])?;
        let Some(finished) = thread.value("state").and_then(is_finished) else { return Ok(None) };
        count = count.saturating_add(i64::from(!finished));
    }
    Ok(Some(count))
}

fn is_finished(state: &Value) -> Option<bool> {
    let state = state.as_str()?;
    ThreadState::ALL.iter().find(|known| known.name() == state).map(|known| known.is_finished())
}

/// Adds the dependencies that the event of a new thread lists.
pub(super) fn replay_initial_dependencies(event: &ReplayedEvent<'_>) -> Result<()> {
    event.list("depends_on").iter().try_for_each(|awaited| {
        let row = event.row("thread_dependencies", [awaited.clone(), event.thread()])?;
        row.made().set("lsn", event.lsn()).keep()
    })
}

/// Adds or removes the dependency in an event's payload, and updates `blocked` of the event's thread.
pub(super) fn replay_dependency_change(event: &ReplayedEvent<'_>, is_added: bool) -> Result<()> {
    let row = event.row_of("thread_dependencies", "depends_on_id $thread")?;
    if is_added {
        row.made().set("lsn", event.lsn()).keep()?
    } else {
        row.remove()?
    }
    let Some(awaited) = event.field("depends_on_id") else { return Ok(()) };
    let unfinished = count_unfinished(event, std::slice::from_ref(awaited))?;
    let change = unfinished.map(|count| if is_added { count } else { count.saturating_neg() });
    add_to_blocked(event, event.thread(), change)
}

/// Updates `blocked` of the threads that wait for an event's thread, after the state of the event's thread
/// changed.
pub(super) fn replay_state_change(event: &ReplayedEvent<'_>) -> Result<()> {
    let finished = |field| event.field(field).and_then(is_finished);
    let change = match (finished("from"), finished("to")) {
        (Some(false), Some(true)) => -1,
        (Some(true), Some(false)) => 1,
        _ => return Ok(()),
    };
    event.rows("thread_dependencies", &[event.thread()], |dependency| match dependency.key() {
        [_, waiting] => add_to_blocked(event, waiting.clone(), Some(change)),
        _ => Ok(()),
    })
}

/// Adds `change` to the column `blocked` of a thread, or marks the column as unknown if `change` is `None`.
fn add_to_blocked(event: &ReplayedEvent<'_>, thread: Value, change: Option<i64>) -> Result<()> {
    let row = event.row("threads", [thread])?;
    match change {
        Some(change) => row.add("blocked", change).keep(),
        None => row.set_known("blocked", None).keep(),
    }
}
