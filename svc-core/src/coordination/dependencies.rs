//! Dependencies: which threads a thread waits for. A dependency is finished when it is closed (also by a cancel)
//! or archived. `threads.blocked` is at all times the number of a thread's unfinished dependencies: it is counted
//! in the transaction of whatever changes it. The graph has no circle, whatever the states of its threads.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::conversation::places::{self, visible};
use crate::coordination::queue;
use crate::coordination::thread::{Thread, ThreadState, visible_thread};
use crate::error::{Code, Error};
use crate::id::{ChannelId, ThreadId};
use crate::limits::{DEPENDENCIES_MAX, DEPENDENCY_WALK_MAX, DEPENDENTS_MAX};
use crate::log::event::{Event, EventKind, Subject};
use crate::op::{Feature, Read, Write, destructive, idempotent, read};
use crate::page::Page;
use crate::store::{Engine, columns};
use crate::text::Items;

/// The threads that a new thread waits for.
pub(crate) type DependsOn = Items<ThreadId, DEPENDENCIES_MAX>;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "threads",
            vec![
                idempotent("add_thread_dependency", add_thread_dependency)
                    .title("Make a thread wait for another")
                    .put("/threads/{thread_id}/dependencies/{depends_on_id}")
                    .needs(&[ThreadTransition])
                    .example(|w| json!({"thread_id": w.claimed_thread_id, "depends_on_id": w.thread_id})),
                destructive("remove_thread_dependency", remove_thread_dependency)
                    .title("Make a thread no longer wait for another")
                    .delete("/threads/{thread_id}/dependencies/{depends_on_id}")
                    .needs(&[ThreadTransition])
                    .example(|w| json!({"thread_id": w.blocked_thread_id, "depends_on_id": w.thread_id})),
                read("list_thread_dependencies", list_thread_dependencies)
                    .title("List what a thread waits for")
                    .get("/threads/{thread_id}/dependencies")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"thread_id": w.blocked_thread_id})),
            ],
        )
        .events(vec![
            EventKind::of::<ThreadDependencyAdded>(),
            EventKind::of::<ThreadDependencyRemoved>(),
            EventKind::of::<ThreadReady>(),
        ])
}

/// A thread waits for another one from now on.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadDependencyAdded {
    /// The thread that is waited for.
    depends_on_id: ThreadId,
}

impl Event for ThreadDependencyAdded {
    const KIND: &'static str = "ThreadDependencyAdded";
}

/// A thread no longer waits for another one.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadDependencyRemoved {
    /// The thread that was waited for.
    depends_on_id: ThreadId,
}

impl Event for ThreadDependencyRemoved {
    const KIND: &'static str = "ThreadDependencyRemoved";
}

/// The last unfinished dependency of a thread is gone: it can be claimed. Sent once, when the last one is gone and not
/// for each; also in an archived channel, where the thread can be claimed only after that is unarchived. Not sent
/// when that dependency was cancelled, although the thread can be claimed then too.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadReady {
    /// The thread that can be claimed.
    thread_id: ThreadId,
}

impl Event for ThreadReady {
    const KIND: &'static str = "ThreadReady";
}

/// Makes a thread wait for another one: it cannot be claimed until that one is closed or cancelled. Both may stand
/// in different channels of the workspace, but one of a private channel is waited for only there: 409
/// `not-visible-to-all`. A claim that is held goes on. Answers the waiting thread; 409 `dependency-cycle` when the other one waits for it already, 409 `wrong-state` when it is finished, when it waits
/// for 100 threads already, when 1000 wait for the other one, or when both stand among more than 5000 threads that
/// wait for each other.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddThreadDependency {
    /// The thread that is to wait.
    thread_id: ThreadId,
    /// The thread to wait for.
    depends_on_id: ThreadId,
}

fn add_thread_dependency(cx: &mut Write<'_>, input: &AddThreadDependency) -> Result<Thread> {
    let mut thread = visible_thread(cx, input.thread_id)?;
    let awaited = visible_thread(cx, input.depends_on_id)?;
    let (count, present): (i64, bool) = cx
        .one(COUNT, &[&thread.id, &awaited.id])?
        .ok_or_else(|| Error::internal("a count answers one row"))?;
    if present {
        return Ok(thread);
    }
    places::check_visible_to_all(&places::visible_channel(cx, awaited.channel_id)?, thread.channel_id)?;
    thread.check_unfinished()?;
    if usize::try_from(count).is_ok_and(|count| count >= DEPENDENCIES_MAX) {
        return Err(Error::wrong_state(format!("a thread waits for at most {DEPENDENCIES_MAX} others")));
    }
    let (dependents,): (i64,) =
        cx.one(DEPENDENTS, &[&awaited.id])?.ok_or_else(|| Error::internal("a count answers one row"))?;
    check_room_for_dependent(dependents)?;
    check_no_cycle(cx, &thread, &awaited)?;
    let added = cx.emit(thread.place(), &ThreadDependencyAdded { depends_on_id: awaited.id })?;
    cx.execute(1, INSERT, &[&thread.id, &awaited.id, &added.lsn])?;
    if !awaited.state.is_finished() {
        cx.execute(1, BLOCK_ONE, &[&thread.id])?;
        thread.blocked = thread.blocked.saturating_add(1);
    }
    Ok(thread)
}

const COUNT: &str = "
    select count(*), coalesce(max(case when depends_on_id = $2 then 1 else 0 end), 0) = 1
    from thread_dependencies where thread_id = $1";

const DEPENDENTS: &str = "select count(*) from thread_dependencies where depends_on_id = $1";

/// Refuses one more dependent of a thread that has `dependents`.
fn check_room_for_dependent(dependents: i64) -> Result<()> {
    if dependents >= DEPENDENTS_MAX {
        return Err(Error::wrong_state(format!(
            "{DEPENDENTS_MAX} threads wait for that thread, and more cannot: wait for one of these instead"
        )));
    }
    Ok(())
}

const INSERT: &str = "insert into thread_dependencies (thread_id, depends_on_id, lsn) values ($1, $2, $3)";

const BLOCK_ONE: &str = "update threads set blocked = blocked + 1 where id = $1";

/// A circle would lead from `thread` over those that wait for it to `awaited`, and from there back. It is looked for
/// from either end, so that one with few threads around it is enough to know.
fn check_no_cycle(cx: &Read<'_>, thread: &Thread, awaited: &Thread) -> Result<()> {
    let refusal = |detail: &'static str| Err(Error::new(Code::DependencyCycle, detail));
    if thread.id == awaited.id {
        return refusal("a thread cannot wait for itself");
    }
    let found = match walk(cx, DOWNSTREAM, thread.id, awaited.id)? {
        Walk::Unfinished => walk(cx, UPSTREAM, awaited.id, thread.id)?,
        found => found,
    };
    match found {
        Walk::NewEvent => Ok(()),
        Walk::Met => refusal("the other thread waits for this one already, perhaps through others"),
        Walk::Unfinished => Err(Error::wrong_state(format!(
            "more than {DEPENDENCY_WALK_MAX} threads wait for this one and the other one waits for as many: remove \
             dependencies that are finished first"
        ))),
    }
}

/// How a walk along dependencies ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// It came to the thread it was looking for.
    Met,
    /// It went everywhere and did not come to it.
    NewEvent,
    /// There was more to look at than [`DEPENDENCY_WALK_MAX`] threads.
    Unfinished,
}

fn walk(cx: &Read<'_>, sql: &'static str, from: ThreadId, to: ThreadId) -> Result<Walk> {
    let (visited, met): (i64, bool) = cx
        .one(sql, &[&from, &to, &DEPENDENCY_WALK_MAX])?
        .ok_or_else(|| Error::internal("a count answers one row"))?;
    Ok(match met {
        true => Walk::Met,
        false if visited < DEPENDENCY_WALK_MAX => Walk::NewEvent,
        false => Walk::Unfinished,
    })
}

/// A statement that visits at most `$3` threads along dependencies from `$1`, and says how many and whether `$2` was
/// among them.
macro_rules! walk_sql {
    ($from:literal, $to:literal) => {
        concat!(
            "with recursive reached (id) as (
                 select d.",
            $to,
            " from thread_dependencies d where d.",
            $from,
            " = $1
                 union
                 select d.",
            $to,
            " from reached r join thread_dependencies d on d.",
            $from,
            " = r.id
             )
             select count(*), coalesce(max(case when id = $2 then 1 else 0 end), 0) = 1
             from (select id from reached limit $3) visited"
        )
    };
}

/// From a thread to those that wait for it.
const DOWNSTREAM: &str = walk_sql!("depends_on_id", "thread_id");

/// From a thread to those that it waits for.
const UPSTREAM: &str = walk_sql!("thread_id", "depends_on_id");

/// Makes a thread no longer wait for another one. If that was the last unfinished one, the thread can be claimed.
/// Answers the thread; 404 when it did not wait for the other one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemoveThreadDependency {
    /// The thread that waits.
    thread_id: ThreadId,
    /// The thread that it is no longer to wait for.
    depends_on_id: ThreadId,
}

fn remove_thread_dependency(cx: &mut Write<'_>, input: &RemoveThreadDependency) -> Result<Thread> {
    let mut thread = visible_thread(cx, input.thread_id)?;
    let awaited = visible_thread(cx, input.depends_on_id)?;
    thread.check_not_archived()?;
    if cx.change(DELETE, &[&thread.id, &awaited.id])? == 0 {
        return Err(Error::not_found("dependency"));
    }
    cx.emit(thread.place(), &ThreadDependencyRemoved { depends_on_id: awaited.id })?;
    if !awaited.state.is_finished() {
        cx.execute(1, UNBLOCK_ONE, &[&thread.id])?;
        thread.blocked = thread.blocked.saturating_sub(1);
        if is_claimable(&thread) {
            cx.emit(thread.place(), &ThreadReady { thread_id: thread.id })?;
        }
    }
    Ok(thread)
}

const DELETE: &str = "delete from thread_dependencies where thread_id = $1 and depends_on_id = $2";

const UNBLOCK_ONE: &str = "update threads set blocked = blocked - 1 where id = $1";

/// Whether somebody could claim the thread now; [`FREED`] says the same.
fn is_claimable(thread: &Thread) -> bool {
    thread.blocked == 0 && thread.state == ThreadState::Open && !thread.has_result && thread.held.is_none()
}

/// A thread that another one waits for.
#[derive(Serialize, JsonSchema)]
struct Dependency {
    /// The thread that is waited for.
    thread_id: ThreadId,
    /// The channel it stands in.
    channel_id: ChannelId,
    /// What is to be done there.
    title: String,
    /// Where it stands.
    state: ThreadState,
    /// Whether it no longer holds anybody up.
    finished: bool,
    /// The position in the event log at which the waiting began.
    lsn: i64,
}

columns! {
    dependency_columns: Dependency as t {
        thread_id = id,
        channel_id,
        title,
        state: ThreadState,
        lsn = "d.lsn",
    }
    make { finished: state.is_finished() }
}

/// Lists the threads that a thread waits for, finished or not, in the order in which they were added. Those in
/// channels that you may not see are left out, though the thread's `blocked` counts them. Always one page.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListThreadDependencies {
    /// The thread that waits.
    thread_id: ThreadId,
}

fn list_thread_dependencies(cx: &Read<'_>, input: &ListThreadDependencies) -> Result<Page<Dependency>> {
    let thread = visible_thread(cx, input.thread_id)?;
    let items = cx.query(LIST, &cx.caller().sight.params().and(&[&thread.id]))?;
    Ok(Page::whole(items))
}

const LIST: &str = concat!(
    "select ",
    dependency_columns!(),
    " from thread_dependencies d join threads t on t.id = d.depends_on_id join channels c on c.id = t.channel_id
     where d.thread_id = $5 and ",
    visible!(c),
    " order by d.lsn, t.id"
);

/// The threads that a new thread is to wait for.
pub(super) struct Awaited {
    /// Each once.
    pub ids: Vec<ThreadId>,
    /// How many of them are unfinished.
    pub unfinished: i64,
}

/// The threads `ids`, all of which the caller must see, and with it all who will see a thread in `channel`.
pub(super) fn visible_all(cx: &Read<'_>, ids: &[ThreadId], channel: ChannelId) -> Result<Awaited> {
    let ids: Vec<ThreadId> = ids.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let found = standing(cx, &ids)?;
    if found.len() != ids.len() {
        return Err(not_found_in_list());
    }
    let visible = |(at, _, _): &(ChannelId, ThreadState, i64)| places::visible_channel(cx, *at);
    let stand_in = found.iter().map(visible).collect::<Result<Vec<_>>>().map_err(as_hidden_in_list)?;
    stand_in.iter().try_for_each(|place| places::check_visible_to_all(place, channel))?;
    let mut unfinished: i64 = 0;
    for (_, state, dependents) in found {
        check_room_for_dependent(dependents)?;
        unfinished = unfinished.saturating_add(i64::from(!state.is_finished()));
    }
    Ok(Awaited { ids, unfinished })
}

fn not_found_in_list() -> Error {
    Error::not_found("thread").with("field", "depends_on")
}

/// A thread that the caller may not see is refused like one that is not there.
fn as_hidden_in_list(error: Error) -> Error {
    if error.code() == Code::NotFound { not_found_in_list() } else { error }
}

/// The channel, the state and the number of dependents of each thread that is in the caller's workspace.
fn standing(cx: &Read<'_>, ids: &[ThreadId]) -> Result<Vec<(ChannelId, ThreadState, i64)>> {
    let workspace = cx.caller().workspace_id;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    match cx.engine() {
        Engine::Sqlite => {
            let rows = ids.iter().map(|id| cx.one(STANDING_SQLITE, &[id, &workspace]));
            rows.filter_map(Result::transpose).collect()
        }
        Engine::Postgres => {
            let ids: Vec<uuid::Uuid> = ids.iter().map(|id| id.uuid()).collect();
            cx.query(STANDING_POSTGRES, &[&ids, &workspace])
        }
    }
}

macro_rules! standing_sql {
    ($which:literal) => {
        concat!(
            "select t.channel_id, t.state,
                 (select count(*) from thread_dependencies d where d.depends_on_id = t.id)
             from threads t where t.id = ",
            $which,
            " and t.workspace_id = $2"
        )
    };
}

const STANDING_SQLITE: &str = standing_sql!("$1");

const STANDING_POSTGRES: &str = standing_sql!("any($1)");

/// Makes `thread` wait for `awaited`, which its `blocked` counts already.
pub(super) fn insert(cx: &mut Write<'_>, thread: ThreadId, awaited: &[ThreadId], lsn: i64) -> Result<()> {
    awaited.iter().try_for_each(|id| cx.execute(1, INSERT, &[&thread, id, &lsn]))
}

/// `finished` no longer holds anybody up. Dependents that can be claimed now are announced by ThreadReady, or
/// put into the ready queue in silence.
pub(crate) fn unblock_dependents(cx: &mut Write<'_>, finished: &Thread, announce: bool) -> Result<()> {
    if cx.change(UNBLOCK_ALL, &[&finished.id])? == 0 {
        return Ok(());
    }
    for (thread_id, channel_id) in cx.query::<(ThreadId, ChannelId)>(FREED, &[&finished.id])? {
        if announce {
            cx.emit(Subject::thread(channel_id, thread_id), &ThreadReady { thread_id })?;
        } else {
            queue::refresh(cx, thread_id)?;
        }
    }
    Ok(())
}

const UNBLOCK_ALL: &str = "
    update threads set blocked = blocked - 1
    where id in (select thread_id from thread_dependencies where depends_on_id = $1)";

/// Dependents that can be claimed, of a thread that held all of them up until now.
const FREED: &str = "
    select t.id, t.channel_id from thread_dependencies d join threads t on t.id = d.thread_id
    where d.depends_on_id = $1 and t.blocked = 0 and t.state = 'open' and not t.settled and t.assignee_id is null
    order by t.lsn";

/// `reopened` holds its dependents up again; those that could be claimed leave the ready queue.
pub(crate) fn block_dependents(cx: &mut Write<'_>, reopened: &Thread) -> Result<()> {
    if cx.change(BLOCK_ALL, &[&reopened.id])? == 0 {
        return Ok(());
    }
    for (thread_id,) in cx.query::<(ThreadId,)>(HELD_UP, &[&reopened.id])? {
        queue::refresh(cx, thread_id)?;
    }
    Ok(())
}

const BLOCK_ALL: &str = "
    update threads set blocked = blocked + 1
    where id in (select thread_id from thread_dependencies where depends_on_id = $1)";

/// Dependents that were not blocked before.
const HELD_UP: &str = "
    select t.id from thread_dependencies d join threads t on t.id = d.thread_id
    where d.depends_on_id = $1 and t.blocked = 1 and t.state = 'open' order by t.lsn";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordination::claims::Held;
    use crate::coordination::thread::untouched;
    use crate::time::Time;

    #[test]
    fn a_thread_is_announced_only_when_somebody_could_claim_it() {
        let id = uuid::Uuid::from_u128;
        let held = Held { holder: id(9).into(), lease_id: id(8).into(), until: Time::from_micros(0) };
        assert!(is_claimable(&untouched()));
        assert!(!is_claimable(&Thread { blocked: 1, ..untouched() }));
        assert!(!is_claimable(&Thread { state: ThreadState::InReview, ..untouched() }));
        assert!(!is_claimable(&Thread { has_result: true, ..untouched() }));
        assert!(!is_claimable(&Thread { held: Some(held), ..untouched() }));
    }
}
