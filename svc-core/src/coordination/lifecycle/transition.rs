//! The table of a thread's transitions between states, and their conditions.
//!
//! Any feature may add a condition. Two conditions are in this file: a parent cannot close while a child is
//! unfinished, and a child cannot be reopened while its parent is finished. Cancelling is a separate
//! transition, without conditions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::ThreadTransition;
use crate::coordination::claims::{self, ClaimEnd};
use crate::coordination::thread_row::{Thread, ThreadState, visible_thread};
use crate::coordination::{blocked, dead_letters, dependencies};
use crate::error::{Code, Error};
use crate::id::{LeaseId, MemberId, ThreadId};
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Condition, Effect, Feature, Read, UnmetRequirement, Write, changing};
use crate::request::request;
use crate::time::Time;

/// A transition that a caller can request for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[schemars(rename = "Action")]
pub enum ThreadAction {
    StartReview,
    ReturnToOpen,
    Close,
    Reopen,
    Archive,
}

crate::argument::arguments! { ThreadAction }

const START_REVIEW: &str = "start_review";
const RETURN_TO_OPEN: &str = "return_to_open";
/// The name of the action that closes a thread. Features register conditions of a close under this name.
pub(crate) const CLOSE: &str = "close";
const REOPEN: &str = "reopen";
const ARCHIVE: &str = "archive";

/// An entry of the transition table: the states between which an action moves a thread.
struct Transition {
    action: ThreadAction,
    name: &'static str,
    from: &'static [ThreadState],
    to: ThreadState,
}

const TRANSITIONS: &[Transition] = &[
    Transition {
        action: ThreadAction::StartReview,
        name: START_REVIEW,
        from: &[ThreadState::Open],
        to: ThreadState::InReview,
    },
    Transition {
        action: ThreadAction::ReturnToOpen,
        name: RETURN_TO_OPEN,
        from: &[ThreadState::InReview],
        to: ThreadState::Open,
    },
    Transition {
        action: ThreadAction::Close,
        name: CLOSE,
        from: &[ThreadState::Open, ThreadState::InReview],
        to: ThreadState::Closed,
    },
    Transition {
        action: ThreadAction::Reopen,
        name: REOPEN,
        from: &[ThreadState::Closed],
        to: ThreadState::Open,
    },
    Transition {
        action: ThreadAction::Archive,
        name: ARCHIVE,
        from: &[ThreadState::Closed],
        to: ThreadState::Archived,
    },
];

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "threads",
            vec![
                changing("transition_thread", Effect::Write)
                    .in_steps(transition_thread)
                    .title("Move a thread to another state")
                    .when(
                        "Move a thread to another state, such as closed. Use `set_thread_result` to submit \
                         work, `cancel_thread` to drop the task.",
                    )
                    .post("/threads/{thread_id}")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState, Code::CloseRefused, Code::StaleClaim, Code::ClaimNotHeld])
                    .example(|w| {
                        json!({
                            "thread_id": w.id("claimed_thread"), "action": "start_review",
                            "claim_lease_id": w.id("lease"),
                        })
                    }),
            ],
        )
        .events(vec![EventKind::of::<ThreadStateChanged>()])
        .condition(Condition { name: "children", action: CLOSE, unmet: unfinished_children })
        .condition(Condition { name: "parent", action: REOPEN, unmet: finished_parent })
}

/// A thread moved to another state.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ThreadStateChanged {
    /// The thread's previous state.
    from: ThreadState,
    /// The thread's new state.
    to: ThreadState,
    /// The name of the action: an action of `transition_thread`, or `cancel`.
    action: &'static str,
}

impl Event for ThreadStateChanged {
    const KIND: &'static str = "ThreadStateChanged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let row = event.row_of("threads", "$thread")?.set_to("state", "to");
        let row = match event.text("to") {
            Some("open") => {
                let row = row.set("has_result", false).clear("cancelled_at");
                row.set("judged_from", event.lsn())
            }
            Some("closed") => row.set("dead", false),
            _ => row,
        };
        row.keep()?;
        if event.text("to") == Some("closed") {
            dead_letters::replay_settlement(event)?;
        }
        blocked::replay_state_change(event)
    }
}

request! {
    /// Moves a thread to another state and returns the new state, with the holder of the live claim.
    ///
    /// The actions are `start_review` (open to in_review), `return_to_open` (in_review to open), `close`
    /// (open or in_review to closed, which ends a live claim), `reopen` (closed to open, also after a cancel)
    /// and `archive` (closed to archived, permanently).
    ///
    /// A live claim continues under review, and lapses unless it is renewed. Closing settles a dead letter. A
    /// reopened thread can be claimed again, unless a limit of its budget is used up: its usage and its
    /// attempts are kept.
    ///
    /// Fails with 409 `wrong-state` if the action does not start at the thread's state, or if the thread
    /// cannot be reopened because its parent is finished; 409 `close-refused` with `reasons` if the thread
    /// may not close yet; 409 `stale-claim` if the claim with the lease id `claim_lease_id` has ended or
    /// lapsed; 409 `claim-not-held` if another member holds that claim.
    #[derive(Serialize)]
    struct TransitionThread {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The transition to make.
        ///
        /// `state` of the response is the new state.
        action: ThreadAction,
        /// The lease id of the claim under which you act.
        ///
        /// With this field, the call fails unless you hold the live claim with this lease id.
        claim_lease_id: Option<LeaseId>,
    }

    transition_thread(thread_id: ThreadId, action: ThreadAction) -> StateAfterTransition
}

/// The state of a thread after a transition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Moved")]
#[non_exhaustive]
pub struct StateAfterTransition {
    /// The thread's new state.
    pub state: ThreadState,
    /// The holder of the live claim; null if the thread has no live claim.
    pub assignee_id: Option<MemberId>,
}

impl Answer<TransitionThread> for StateAfterTransition {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, input: &TransitionThread, (): ()) -> Result<Self> {
        let thread = visible_thread(cx, input.thread_id)?;
        Ok(Self { state: thread.state, assignee_id: thread.assignee_id })
    }
}

fn transition_thread(cx: &mut Write<'_>, input: &TransitionThread) -> Result<Option<StateAfterTransition>> {
    // A lapsed claim is ended as expired first. If this adds a dead letter, the dead letter is settled below.
    if input.action == ThreadAction::Close && claims::expire_lapsed_claims(cx)? {
        return Ok(None);
    }
    let thread = visible_thread(cx, input.thread_id)?;
    if input.claim_lease_id.is_some() {
        claims::check_holder(cx, &thread, input.claim_lease_id)?;
    }
    make_transition(cx, &thread, input.action).map(Some)
}

/// Moves a thread to another state. Fails if the transition is not possible now.
pub(in crate::coordination) fn make_transition(
    cx: &mut Write<'_>,
    thread: &Thread,
    action: ThreadAction,
) -> Result<StateAfterTransition> {
    let transition = find_possible_transition(cx, thread, action)?;
    enter_state(cx, thread, transition.to, transition.name, None)?;
    match transition.action {
        ThreadAction::Close => {
            claims::end_claim(cx, thread, ClaimEnd::Closed)?;
            dead_letters::settle(cx, thread)?;
            dependencies::unblock_dependents(cx, thread, true)?;
            return Ok(StateAfterTransition { state: transition.to, assignee_id: None });
        }
        ThreadAction::Reopen => dependencies::block_dependents(cx, thread)?,
        ThreadAction::StartReview | ThreadAction::ReturnToOpen | ThreadAction::Archive => {}
    }
    Ok(StateAfterTransition { state: transition.to, assignee_id: thread.assignee_id })
}

/// Fails if a transition of a thread is not possible now.
pub(in crate::coordination) fn check_transition(
    cx: &Read<'_>,
    thread: &Thread,
    action: ThreadAction,
) -> Result<()> {
    find_possible_transition(cx, thread, action).map(drop)
}

fn find_possible_transition(
    cx: &Read<'_>,
    thread: &Thread,
    action: ThreadAction,
) -> Result<&'static Transition> {
    let transition = find_transition(action, thread.state)?;
    check_conditions(cx, thread, transition)?;
    Ok(transition)
}

/// Returns the entry of the transition table for `action`. Fails if the action does not start at `state`.
fn find_transition(action: ThreadAction, state: ThreadState) -> Result<&'static Transition> {
    let line = TRANSITIONS.iter().find(|line| line.action == action);
    let line = line.ok_or_else(|| Error::internal("an action has no entry in the table"))?;
    if line.from.contains(&state) {
        return Ok(line);
    }
    let from: Vec<&str> = line.from.iter().map(|from| from.name()).collect();
    let detail = format!("{} starts at {}, and the thread is {}", line.name, from.join(" or "), state.name());
    Err(Error::wrong_state(detail).with("state", state.name()))
}

/// A reason that prevents a transition: one of its conditions, which the thread does not meet.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Reason")]
#[non_exhaustive]
pub struct TransitionReason {
    /// The name of the condition.
    pub condition: &'static str,
    /// A description of the missing requirement, for people.
    pub detail: String,
    /// The ids of the related objects, such as child threads; empty if the condition has no related objects.
    pub ids: Vec<String>,
}

/// Fails if a condition of the transition is not met.
///
/// All conditions are checked, so that the error lists every unmet condition.
fn check_conditions(cx: &Read<'_>, thread: &Thread, transition: &Transition) -> Result<()> {
    let reasons = unmet_conditions(cx, thread, transition.name)?;
    if reasons.is_empty() {
        return Ok(());
    }
    let details: Vec<&str> = reasons.iter().map(|reason| reason.detail.as_str()).collect();
    let code = if transition.action == ThreadAction::Close { Code::CloseRefused } else { Code::WrongState };
    Err(Error::new(code, details.join("; ")).with("reasons", &reasons))
}

/// Returns every condition of `action` that the thread does not meet now.
fn unmet_conditions(cx: &Read<'_>, thread: &Thread, action: &str) -> Result<Vec<TransitionReason>> {
    let mut reasons = Vec::new();
    for Condition { name, unmet, .. } in cx.conditions(action) {
        let unmet = unmet(cx, thread.id)?.into_iter();
        reasons.extend(unmet.map(|UnmetRequirement { detail, ids }| TransitionReason {
            condition: name,
            detail,
            ids,
        }));
    }
    Ok(reasons)
}

fn unfinished_children(cx: &Read<'_>, id: ThreadId) -> Result<Vec<UnmetRequirement>> {
    let children: Vec<(ThreadId, i64)> = cx.query(UNFINISHED_CHILDREN, &[&id])?;
    let detail = match children.first() {
        None => return Ok(Vec::new()),
        Some((_, 1)) => "a child thread is not closed".to_owned(),
        Some((_, more)) => format!("{more} child threads are not closed"),
    };
    let ids = children.iter().map(|(child, _)| child.to_string()).collect();
    Ok(vec![UnmetRequirement { detail, ids }])
}

/// Selects the first 10 unfinished children of a thread, each with the total number of unfinished children.
const UNFINISHED_CHILDREN: &str = "
    select id, count(*) over () from threads
    where parent_id = $1 and state in ('open', 'in_review') order by lsn limit 10";

/// Returns the unmet condition if the thread's parent is finished, so that the thread cannot be reopened.
fn finished_parent(cx: &Read<'_>, id: ThreadId) -> Result<Vec<UnmetRequirement>> {
    let parent: Option<(ThreadId, ThreadState)> = cx.one(PARENT, &[&id])?;
    let finished = parent.filter(|(_, state)| state.is_finished());
    Ok(finished.map_or_else(Vec::new, |(parent, _)| {
        let detail = "the thread's parent is finished: reopen the parent first".to_owned();
        vec![UnmetRequirement { detail, ids: vec![parent.to_string()] }]
    }))
}

const PARENT: &str =
    "select p.id, p.state from threads t join threads p on p.id = t.parent_id where t.id = $1";

/// Returns the conditions that now prevent a thread from closing, or an empty list if the thread is already
/// finished.
pub(crate) fn unmet_close_conditions(cx: &Read<'_>, thread: &Thread) -> Result<Vec<TransitionReason>> {
    find_transition(ThreadAction::Close, thread.state)
        .map_or_else(|_| Ok(Vec::new()), |line| unmet_conditions(cx, thread, line.name))
}

/// Returns the names of the actions that would now succeed for the caller.
///
/// `unmet_close_conditions` is the result of [`unmet_close_conditions`], which callers pass in because the
/// conditions of a close are the most expensive to check.
pub(crate) fn possible_actions(
    cx: &Read<'_>,
    thread: &Thread,
    unmet_close_conditions: &[TransitionReason],
) -> Result<Vec<&'static str>> {
    let mut names = Vec::new();
    let caller = cx.caller();
    if !caller.capabilities.has(ThreadTransition) || caller.check_not_frozen().is_err() {
        return Ok(names);
    }
    for line in TRANSITIONS.iter().filter(|line| line.from.contains(&thread.state)) {
        let is_met = match line.action {
            ThreadAction::Close => unmet_close_conditions.is_empty(),
            _ => unmet_conditions(cx, thread, line.name)?.is_empty(),
        };
        if is_met {
            names.push(line.name);
        }
    }
    Ok(names)
}

/// Stores a thread's new state, and emits the event of the change.
///
/// A thread that becomes open loses its current result and its cancelled mark, and earlier reviews no longer
/// count. `cancelled_now` is the time of the cancel if the change cancels the thread, and otherwise `None`.
pub(crate) fn enter_state(
    cx: &mut Write<'_>,
    thread: &Thread,
    to: ThreadState,
    action: &'static str,
    cancelled_now: Option<Time>,
) -> Result<()> {
    let opens = to == ThreadState::Open;
    let has_result = thread.has_result && !opens;
    let cancelled_at = if opens { None } else { cancelled_now.or(thread.cancelled_at) };
    let lsn = cx.emit(thread.place(), &ThreadStateChanged { from: thread.state, to, action })?.lsn;
    let judged_from = if opens { lsn } else { thread.judged_from };
    cx.execute(1, SET_STATE, &[&thread.id, &to, &has_result, &cancelled_at, &judged_from])
}

const SET_STATE: &str = "
    update threads set state = $2, has_result = $3, cancelled_at = $4, judged_from = $5 where id = $1";

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIONS: [ThreadAction; 5] = [
        ThreadAction::StartReview,
        ThreadAction::ReturnToOpen,
        ThreadAction::Close,
        ThreadAction::Reopen,
        ThreadAction::Archive,
    ];

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
            (ThreadAction::StartReview, Open, InReview),
            (ThreadAction::ReturnToOpen, InReview, Open),
            (ThreadAction::Close, Open, Closed),
            (ThreadAction::Close, InReview, Closed),
            (ThreadAction::Reopen, Closed, Open),
            (ThreadAction::Archive, Closed, Archived),
        ];
        for action in ACTIONS {
            for &from in ThreadState::ALL {
                let wanted =
                    allowed_moves.iter().find(|(a, f, _)| (*a, *f) == (action, from)).map(|(_, _, to)| *to);
                match find_transition(action, from) {
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
    fn every_condition_is_checked_by_some_action() {
        let table = crate::operation_table().unwrap();
        let named: Vec<_> = table.conditions().map(|condition| (condition.name, condition.action)).collect();
        assert!(named.starts_with(&[("children", CLOSE), ("parent", REOPEN)]), "{named:?}");
        for (_, action) in named {
            assert!(TRANSITIONS.iter().any(|line| line.name == action), "{action}");
        }
    }

    #[test]
    fn an_archived_thread_stays_archived() {
        assert!(TRANSITIONS.iter().all(|line| !line.from.contains(&ThreadState::Archived)));
    }
}
