//! Transitions: the moves of a thread between its states, in one table, and the conditions under which it may
//! close. A finished parent has no unfinished child, unless it was cancelled: a child cannot outrun its parent.
//! Cancelling is a move of its own and goes around the conditions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::claims::{self, ClaimEnd};
use super::dependencies;
use super::threads::{Thread, ThreadState, visible_thread};
use crate::Result;
use crate::capability::Capability::ThreadTransition;
use crate::error::{Code, Error};
use crate::id::{LeaseId, MemberId, ThreadId};
use crate::log::event::{Event, EventKind};
use crate::op::{Feature, Read, Write, write};
use crate::time::Time;

/// A move of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    StartReview,
    ReturnToOpen,
    Close,
    Reopen,
    Archive,
}

/// One line of the table: what a move does to the state.
struct Transition {
    action: Action,
    name: &'static str,
    from: &'static [ThreadState],
    to: ThreadState,
}

const TRANSITIONS: &[Transition] = &[
    Transition {
        action: Action::StartReview,
        name: "start_review",
        from: &[ThreadState::Open],
        to: ThreadState::InReview,
    },
    Transition {
        action: Action::ReturnToOpen,
        name: "return_to_open",
        from: &[ThreadState::InReview],
        to: ThreadState::Open,
    },
    Transition {
        action: Action::Close,
        name: "close",
        from: &[ThreadState::Open, ThreadState::InReview],
        to: ThreadState::Closed,
    },
    Transition {
        action: Action::Reopen,
        name: "reopen",
        from: &[ThreadState::Closed],
        to: ThreadState::Open,
    },
    Transition {
        action: Action::Archive,
        name: "archive",
        from: &[ThreadState::Closed],
        to: ThreadState::Archived,
    },
];

/// What must hold before a thread may close.
pub(crate) struct CloseCondition {
    /// The condition's name, as a refusal states it.
    name: &'static str,
    /// What is missing, if anything.
    missing: fn(&Read<'_>, &Thread) -> Result<Option<String>>,
}

/// Every condition of a close. All of them are asked, so that a refusal names all that is missing.
pub(crate) const CLOSE_CONDITIONS: &[CloseCondition] =
    &[CloseCondition { name: "children", missing: unfinished_children }];

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "threads",
            vec![
                write("transition_thread", transition_thread)
                    .title("Move a thread to another state")
                    .post("/threads/{thread_id}")
                    .needs(&[ThreadTransition])
                    .example(|w| {
                        json!({
                            "thread_id": w.claimed_thread_id, "action": "start_review",
                            "claim_lease_id": w.lease_id,
                        })
                    }),
            ],
        )
        .events(vec![EventKind::of::<ThreadStateChanged>()])
}

/// A thread moved to another state.
#[derive(Serialize, JsonSchema)]
struct ThreadStateChanged {
    /// The state until now.
    from: ThreadState,
    /// The state from now on.
    to: ThreadState,
    /// The move: an action of `transition_thread`, or `cancel`.
    action: &'static str,
}

impl Event for ThreadStateChanged {
    const KIND: &'static str = "ThreadStateChanged";
}

/// Moves a thread to another state: `start_review` (open to in_review; a live claim goes on, and lapses unless it is
/// renewed), `return_to_open`
/// (in_review to open), `close` (open or in_review to closed; ends a live claim), `reopen` (closed to open, also
/// after a cancel) and `archive` (closed to archived, for good). A thread that is open again is given out again.
/// Answers where the thread stands now; 409 `wrong-state` when the move does not begin at the thread's state or
/// its parent is finished, 409 `close-refused` with `reasons` when it may not close yet, 409 `stale-claim` when
/// the claim that `claim_lease_id` names is over.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TransitionThread {
    /// The thread.
    thread_id: ThreadId,
    /// The move.
    action: Action,
    /// The lease id of the claim under which you act; the move is refused unless you hold the live claim it names.
    claim_lease_id: Option<LeaseId>,
}

/// Where a thread stands after a move.
#[derive(Serialize, JsonSchema)]
struct Moved {
    /// The state.
    state: ThreadState,
    /// The holder of the live claim.
    assignee_id: Option<MemberId>,
}

fn transition_thread(cx: &mut Write<'_>, input: &TransitionThread) -> Result<Moved> {
    let thread = visible_thread(cx, input.thread_id)?;
    if input.claim_lease_id.is_some() {
        claims::check_holder(cx, &thread, input.claim_lease_id)?;
    }
    let transition = allowed(input.action, thread.state)?;
    match transition.action {
        Action::Close => check_close(cx, &thread)?,
        Action::Reopen => check_parent(cx, &thread)?,
        Action::StartReview | Action::ReturnToOpen | Action::Archive => {}
    }
    enter(cx, &thread, transition.to, transition.name, None)?;
    match transition.action {
        Action::Close => {
            claims::end_claim(cx, &thread, ClaimEnd::Closed)?;
            dependencies::unblock_dependents(cx, &thread, true)?;
            return Ok(Moved { state: transition.to, assignee_id: None });
        }
        Action::Reopen => dependencies::block_dependents(cx, &thread)?,
        Action::StartReview | Action::ReturnToOpen | Action::Archive => {}
    }
    Ok(Moved { state: transition.to, assignee_id: thread.assignee_id })
}

/// The table's line for `action`, if it begins at `state`.
fn allowed(action: Action, state: ThreadState) -> Result<&'static Transition> {
    let line = TRANSITIONS.iter().find(|line| line.action == action);
    let line = line.ok_or_else(|| Error::internal("an action has no line in the table"))?;
    if line.from.contains(&state) {
        return Ok(line);
    }
    let from: Vec<&str> = line.from.iter().map(|from| from.name()).collect();
    let detail = format!("{} begins at {}, and the thread is {}", line.name, from.join(" or "), state.name());
    Err(Error::wrong_state(detail).with("state", state.name()))
}

/// What a close is refused for.
#[derive(Serialize)]
struct Reason {
    condition: &'static str,
    detail: String,
}

fn check_close(cx: &Read<'_>, thread: &Thread) -> Result<()> {
    let reasons = reasons_against_close(cx, thread)?;
    if reasons.is_empty() {
        return Ok(());
    }
    let details: Vec<&str> = reasons.iter().map(|reason| reason.detail.as_str()).collect();
    Err(Error::new(Code::CloseRefused, details.join("; ")).with("reasons", &reasons))
}

fn reasons_against_close(cx: &Read<'_>, thread: &Thread) -> Result<Vec<Reason>> {
    let mut reasons = Vec::new();
    for condition in CLOSE_CONDITIONS {
        if let Some(detail) = (condition.missing)(cx, thread)? {
            reasons.push(Reason { condition: condition.name, detail });
        }
    }
    Ok(reasons)
}

fn unfinished_children(cx: &Read<'_>, thread: &Thread) -> Result<Option<String>> {
    let count: Option<(i64,)> = cx.one(UNFINISHED_CHILDREN, &[&thread.id])?;
    Ok(match count {
        None | Some((0,)) => None,
        Some((1,)) => Some("a child thread is not closed".to_owned()),
        Some((more,)) => Some(format!("{more} child threads are not closed")),
    })
}

const UNFINISHED_CHILDREN: &str =
    "select count(*) from threads where parent_id = $1 and state in ('open', 'in_review')";

/// Refuses to reopen a thread below a finished one.
fn check_parent(cx: &Read<'_>, thread: &Thread) -> Result<()> {
    if has_finished_parent(cx, thread)? {
        return Err(Error::wrong_state("the thread's parent is finished: reopen the parent first"));
    }
    Ok(())
}

fn has_finished_parent(cx: &Read<'_>, thread: &Thread) -> Result<bool> {
    let Some(parent) = thread.parent_id else { return Ok(false) };
    let state: Option<(ThreadState,)> = cx.one(STATE, &[&parent])?;
    Ok(state.is_some_and(|(state,)| state.is_finished()))
}

const STATE: &str = "select state from threads where id = $1";

/// The names of the actions that would not be refused now.
pub(crate) fn possible(cx: &Read<'_>, thread: &Thread) -> Result<Vec<&'static str>> {
    let mut names = Vec::new();
    for line in TRANSITIONS.iter().filter(|line| line.from.contains(&thread.state)) {
        let unhindered = match line.action {
            Action::Close => reasons_against_close(cx, thread)?.is_empty(),
            Action::Reopen => !has_finished_parent(cx, thread)?,
            Action::StartReview | Action::ReturnToOpen | Action::Archive => true,
        };
        if unhindered {
            names.push(line.name);
        }
    }
    Ok(names)
}

/// Puts a thread into a state. A thread that is open again has neither a result that stands nor a cancel behind it.
pub(crate) fn enter(
    cx: &mut Write<'_>,
    thread: &Thread,
    to: ThreadState,
    action: &'static str,
    cancelled_now: Option<Time>,
) -> Result<()> {
    let opens = to == ThreadState::Open;
    let settled = thread.has_result && !opens;
    let cancelled_at = if opens { None } else { cancelled_now.or(thread.cancelled_at) };
    cx.execute(1, ENTER, &[&thread.id, &to, &settled, &cancelled_at])?;
    cx.emit(thread.place(), &ThreadStateChanged { from: thread.state, to, action })?;
    Ok(())
}

const ENTER: &str = "update threads set state = $2, settled = $3, cancelled_at = $4 where id = $1";

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIONS: [Action; 5] =
        [Action::StartReview, Action::ReturnToOpen, Action::Close, Action::Reopen, Action::Archive];

    #[test]
    fn every_action_has_one_line_and_one_name() {
        assert_eq!(TRANSITIONS.len(), ACTIONS.len());
        for action in ACTIONS {
            let lines: Vec<_> = TRANSITIONS.iter().filter(|line| line.action == action).collect();
            assert_eq!(lines.len(), 1, "{action:?}");
            assert_eq!(json!(action), json!(lines[0].name));
        }
    }

    #[test]
    fn the_table_is_the_contract() {
        use ThreadState::{Archived, Closed, InReview, Open};
        let allowed_moves = [
            (Action::StartReview, Open, InReview),
            (Action::ReturnToOpen, InReview, Open),
            (Action::Close, Open, Closed),
            (Action::Close, InReview, Closed),
            (Action::Reopen, Closed, Open),
            (Action::Archive, Closed, Archived),
        ];
        for action in ACTIONS {
            for from in ThreadState::ALL {
                let wanted =
                    allowed_moves.iter().find(|(a, f, _)| (*a, *f) == (action, from)).map(|(_, _, to)| *to);
                match allowed(action, from) {
                    Ok(line) => assert_eq!(Some(line.to), wanted, "{action:?} from {from:?}"),
                    Err(error) => {
                        assert_eq!(
                            (error.code(), wanted),
                            (Code::WrongState, None),
                            "{action:?} from {from:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn an_archived_thread_stays_archived() {
        assert!(TRANSITIONS.iter().all(|line| !line.from.contains(&ThreadState::Archived)));
    }
}
