//! Dependencies: a thread waits for other threads before it can be claimed.
//!
//! A dependency is finished when its thread is closed (also by a cancel) or archived. `threads.blocked` is
//! always the number of a thread's unfinished dependencies: each change that affects the number updates it in
//! the same transaction. The graph has no cycle, regardless of the states of its threads.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::conversation::visibility::{self, visible};
use crate::coordination::rules::is_claimable;
use crate::coordination::thread_row::{Thread, ThreadState, threads_of_workspace, visible_thread};
use crate::coordination::{blocked, queue};
use crate::error::{Code, Error};
use crate::id::{ChannelId, ThreadId};
use crate::limits::{DEPENDENCIES_MAX, DEPENDENCY_WALK_MAX, DEPENDENTS_MAX};
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Feature, Read, Records, Sample, Write, destructive, idempotent, read};
use crate::page::{Cursor, Page};
use crate::request::request;
use crate::store::{Engine, columns};
use crate::text::Items;

/// The ids of threads for which a new thread waits.
pub(crate) type DependsOn = Items<ThreadId, DEPENDENCIES_MAX>;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "threads",
            vec![
                idempotent("add_thread_dependency", add_thread_dependency)
                    .title("Add a dependency to a thread")
                    .when(
                        "Make a thread wait until another thread is finished. For a new thread, pass \
                         `depends_on` to `create_thread`.",
                    )
                    .put("/threads/{thread_id}/dependencies/{depends_on_id}")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState, Code::DependencyCycle, Code::NotVisibleToAll])
                    .example(
                        |w| json!({"thread_id": w.id("claimed_thread"), "depends_on_id": w.id("thread")}),
                    ),
                destructive("remove_thread_dependency", remove_thread_dependency)
                    .title("Remove a dependency from a thread")
                    .when(
                        "Make a thread stop waiting for another thread. Use `list_thread_dependencies` to \
                         see which threads it waits for.",
                    )
                    .reversible()
                    .delete("/threads/{thread_id}/dependencies/{depends_on_id}")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::NotFound, Code::WrongState])
                    .example(
                        |w| json!({"thread_id": w.id("blocked_thread"), "depends_on_id": w.id("thread")}),
                    ),
                read("list_thread_dependencies", list_thread_dependencies)
                    .detailed()
                    .title("List a thread's dependencies")
                    .when("List the threads that a thread waits for, finished or not.")
                    .get("/threads/{thread_id}/dependencies")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"thread_id": w.id("blocked_thread")})),
            ],
        )
        .events(vec![
            EventKind::of::<ThreadDependencyAdded>(),
            EventKind::of::<ThreadDependencyRemoved>(),
            EventKind::of::<ThreadReady>(),
        ])
        .sample(Sample::new("blocked_thread", "create_thread", |w| {
            json!({
                "channel_id": w.id("channel"), "title": "Port the parser", "depends_on": [w.id("thread")],
            })
        }))
        .records(vec![
            Records::table("thread_dependencies", "thread_id depends_on_id")
                .through("thread_id", "threads")
                .ids("thread_id depends_on_id")
                .ints("lsn")
                .proven("depends_on_id thread_id", "lsn"),
        ])
}

/// A thread was made to wait for another thread.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadDependencyAdded {
    /// The thread that must finish first.
    depends_on_id: ThreadId,
}

impl Event for ThreadDependencyAdded {
    const KIND: &'static str = "ThreadDependencyAdded";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        blocked::replay_dependency_change(event, true)
    }
}

/// A thread no longer waits for another thread.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadDependencyRemoved {
    /// Id of the thread that the event's thread no longer waits for.
    depends_on_id: ThreadId,
}

impl Event for ThreadDependencyRemoved {
    const KIND: &'static str = "ThreadDependencyRemoved";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        blocked::replay_dependency_change(event, false)
    }
}

/// The last unfinished dependency of a thread was finished or removed, so the thread can be claimed.
///
/// Emitted once, for the last dependency only. Also emitted in an archived channel, where the thread can be
/// claimed only after the channel is unarchived. Not emitted if the dependency was cancelled, although the
/// thread can be claimed then too.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadReady {
    /// Id of the thread that can be claimed.
    thread_id: ThreadId,
}

impl Event for ThreadReady {
    const KIND: &'static str = "ThreadReady";

    fn replay(_: &ReplayedEvent<'_>) -> Result<()> {
        Ok(())
    }
}

request! {
    /// Makes a thread wait until another thread is finished, and returns the waiting thread.
    ///
    /// The waiting thread cannot be claimed until the other thread is closed or cancelled; a live claim
    /// continues.
    ///
    /// The two threads may be in different channels of the workspace. Adding a dependency again changes
    /// nothing.
    ///
    /// Fails with 409 `wrong-state` if the waiting thread is finished, if it already waits for 100 threads,
    /// if 1000 threads already wait for the other thread, or if 5000 or more threads wait for the waiting
    /// thread and the other thread waits for 5000 or more threads, directly or indirectly; 409
    /// `dependency-cycle` if the two threads are the same, or if the other thread already waits for the
    /// waiting thread, directly or indirectly; 409 `not-visible-to-all` if the other thread is in another,
    /// private channel.
    #[derive(Serialize)]
    struct AddThreadDependency {
        /// The thread that waits.
        thread_id: ThreadId,
        /// The thread that must finish first.
        depends_on_id: ThreadId,
    }

    add_thread_dependency(thread_id: ThreadId, depends_on_id: ThreadId) -> Thread
}

fn add_thread_dependency(cx: &mut Write<'_>, input: &AddThreadDependency) -> Result<Thread> {
    let mut thread = visible_thread(cx, input.thread_id)?;
    let awaited = visible_thread(cx, input.depends_on_id)?;
    let (count, present): (i64, bool) = cx
        .one(COUNT, &[&thread.id, &awaited.id])?
        .ok_or_else(|| Error::internal("a count returned no row"))?;
    if present {
        return Ok(thread);
    }
    visibility::check_visible_to_all(
        &visibility::visible_channel(cx, awaited.channel_id)?,
        thread.channel_id,
    )?;
    thread.check_unfinished()?;
    if usize::try_from(count).is_ok_and(|count| count >= DEPENDENCIES_MAX) {
        return Err(Error::wrong_state(format!("a thread waits for at most {DEPENDENCIES_MAX} others")));
    }
    let (dependents,): (i64,) =
        cx.one(DEPENDENTS, &[&awaited.id])?.ok_or_else(|| Error::internal("a count returned no row"))?;
    check_dependent_limit(dependents)?;
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

/// Fails if a thread that has `dependents` dependents cannot have one more.
fn check_dependent_limit(dependents: i64) -> Result<()> {
    if dependents >= DEPENDENTS_MAX {
        return Err(Error::wrong_state(format!(
            "{DEPENDENTS_MAX} threads wait for that thread, the maximum: wait for one of these instead"
        )));
    }
    Ok(())
}

const INSERT: &str = "insert into thread_dependencies (thread_id, depends_on_id, lsn) values ($1, $2, $3)";

const BLOCK_ONE: &str = "update threads set blocked = blocked + 1 where id = $1";

/// Fails if a dependency of `thread` on `awaited` would close a cycle.
///
/// A cycle would lead from `thread` through its dependents to `awaited` and back. The search can start from
/// either end, so it succeeds if `thread` has few dependents or `awaited` has few dependencies.
fn check_no_cycle(cx: &Read<'_>, thread: &Thread, awaited: &Thread) -> Result<()> {
    let refusal = |detail: &'static str| Err(Error::new(Code::DependencyCycle, detail));
    if thread.id == awaited.id {
        return refusal("a thread cannot wait for itself");
    }
    let found = match walk_dependencies(cx, DOWNSTREAM, thread.id, awaited.id)? {
        DependencyWalk::Unfinished => walk_dependencies(cx, UPSTREAM, awaited.id, thread.id)?,
        found => found,
    };
    match found {
        DependencyWalk::NoPath => Ok(()),
        DependencyWalk::Found => refusal("the other thread waits for this one already, directly or not"),
        DependencyWalk::Unfinished => Err(Error::wrong_state(format!(
            "{DEPENDENCY_WALK_MAX} or more threads wait for this one, and the other one waits for as many: \
             remove finished dependencies first"
        ))),
    }
}

/// The result of a search along dependencies for one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DependencyWalk {
    /// The walk reached the thread that it searched for.
    Found,
    /// The walk visited every reachable thread, and none is the thread that it searched for.
    NoPath,
    /// The walk stopped, because there were at least [`DEPENDENCY_WALK_MAX`] threads to visit.
    Unfinished,
}

/// Searches for the thread `to` along dependencies from the thread `from`. `sql` determines the direction.
fn walk_dependencies(
    cx: &Read<'_>,
    sql: &'static str,
    from: ThreadId,
    to: ThreadId,
) -> Result<DependencyWalk> {
    let (visited, met): (i64, bool) = cx
        .one(sql, &[&from, &to, &DEPENDENCY_WALK_MAX])?
        .ok_or_else(|| Error::internal("a count returned no row"))?;
    Ok(match met {
        true => DependencyWalk::Found,
        false if visited < DEPENDENCY_WALK_MAX => DependencyWalk::NoPath,
        false => DependencyWalk::Unfinished,
    })
}

/// A statement that visits up to `$3` threads along dependencies from `$1`.
///
/// It returns the number of visited threads, and whether `$2` was among these threads.
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

/// Walks from a thread to the threads that wait for this thread, directly or indirectly.
const DOWNSTREAM: &str = walk_sql!("depends_on_id", "thread_id");

/// Walks from a thread to the threads that this thread waits for, directly or indirectly.
const UPSTREAM: &str = walk_sql!("thread_id", "depends_on_id");

request! {
    /// Makes a thread stop waiting for another thread, and returns the thread that waited.
    ///
    /// Once its last unfinished dependency is removed, the thread can be claimed.
    ///
    /// Fails with 404 `not-found` if the thread does not wait for the other thread; 409 `wrong-state` if the
    /// waiting thread is archived.
    #[derive(Serialize)]
    struct RemoveThreadDependency {
        /// The thread that waits.
        thread_id: ThreadId,
        /// The thread to stop waiting for.
        depends_on_id: ThreadId,
    }

    remove_thread_dependency(thread_id: ThreadId, depends_on_id: ThreadId) -> Thread
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
        if cx.one::<(ThreadId,)>(CLAIMABLE, &[&thread.id])?.is_some() {
            cx.emit(thread.place(), &ThreadReady { thread_id: thread.id })?;
        }
    }
    Ok(thread)
}

const DELETE: &str = "delete from thread_dependencies where thread_id = $1 and depends_on_id = $2";

const UNBLOCK_ONE: &str = "update threads set blocked = blocked - 1 where id = $1";

/// Selects a thread if a member could claim it now.
const CLAIMABLE: &str = concat!("select t.id from threads t where t.id = $1 and ", is_claimable!());

/// A thread that another thread waits for.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Dependency {
    /// The thread that must finish first.
    pub thread_id: ThreadId,
    /// The channel of the thread that must finish first.
    pub channel_id: ChannelId,
    /// The title of the thread that must finish first.
    pub title: String,
    /// The state of the thread that must finish first.
    pub state: ThreadState,
    /// Whether the dependency no longer blocks the waiting thread, because its thread is closed or archived.
    pub finished: bool,
    /// Position in the event log at which the dependency was added.
    pub lsn: i64,
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

request! {
    /// Returns the threads that a thread waits for, finished or not, in the order in which the dependencies
    /// were added.
    ///
    /// Threads in channels that you may not see are omitted, but included in `blocked` of the thread.
    ///
    /// The list is one page, unless it would be too long.
    struct ListThreadDependencies {
        /// The thread that waits.
        thread_id: ThreadId,
        cursor: Option<Cursor<(i64, Uuid)>>,
    }

    list_thread_dependencies(thread_id: ThreadId) -> Page<Dependency, (i64, Uuid)>
}

fn list_thread_dependencies(
    cx: &Read<'_>,
    input: &ListThreadDependencies,
) -> Result<Page<Dependency, (i64, Uuid)>> {
    let thread = visible_thread(cx, input.thread_id)?;
    let items = cx.query(LIST, &cx.caller().visibility.params().and(&[&thread.id]))?;
    Ok(Page::rest(items, input.cursor, |item: &Dependency| (item.lsn, item.thread_id.uuid())))
}

const LIST: &str = concat!(
    "select ",
    dependency_columns!(),
    " from thread_dependencies d join threads t on t.id = d.depends_on_id
     join channels c on c.id = t.channel_id
     where d.thread_id = $5 and ",
    visible!(c),
    " order by d.lsn, t.id"
);

/// The threads for which a new thread waits.
pub(super) struct NewDependencies {
    /// Ids of the threads that must finish first, without duplicates.
    pub ids: Vec<ThreadId>,
    /// Number of the threads in `ids` that are unfinished.
    pub unfinished: i64,
}

/// Loads the threads `ids`. Fails unless the caller, and every member who may see `channel`, may see all
/// these threads.
pub(super) fn load_dependencies(
    cx: &Read<'_>,
    ids: &[ThreadId],
    channel: ChannelId,
) -> Result<NewDependencies> {
    let ids: Vec<ThreadId> = ids.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let found = channels_and_states(cx, &ids)?;
    if found.len() != ids.len() {
        return Err(dependency_not_found());
    }
    let visible = |(at, _, _): &(ChannelId, ThreadState, i64)| visibility::visible_channel(cx, *at);
    let channels = found.iter().map(visible).collect::<Result<Vec<_>>>().map_err(as_dependency_not_found)?;
    channels.iter().try_for_each(|place| visibility::check_visible_to_all(place, channel))?;
    let mut unfinished: i64 = 0;
    for (_, state, dependents) in found {
        check_dependent_limit(dependents)?;
        unfinished = unfinished.saturating_add(i64::from(!state.is_finished()));
    }
    Ok(NewDependencies { ids, unfinished })
}

fn dependency_not_found() -> Error {
    Error::not_found("thread").with("field", "depends_on")
}

/// Replaces the error of a channel that the caller may not see with the error of a missing thread.
fn as_dependency_not_found(error: Error) -> Error {
    if error.code() == Code::NotFound { dependency_not_found() } else { error }
}

/// Returns, for each thread in `ids`, its channel, its state and its number of dependents.
fn channels_and_states(cx: &Read<'_>, ids: &[ThreadId]) -> Result<Vec<(ChannelId, ThreadState, i64)>> {
    let workspace = cx.caller().workspace_id;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    match cx.engine() {
        Engine::Sqlite => {
            let rows = ids.iter().map(|id| cx.one(STATES_SQLITE, &[id, &workspace]));
            rows.filter_map(Result::transpose).collect()
        }
        Engine::Postgres => {
            let ids: Vec<uuid::Uuid> = ids.iter().map(|id| id.uuid()).collect();
            cx.query(STATES_POSTGRES, &[&ids, &workspace])
        }
    }
}

macro_rules! states_sql {
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

const STATES_SQLITE: &str = states_sql!("$1");

const STATES_POSTGRES: &str = states_sql!("any($1)");

/// Inserts the dependencies of a new thread, whose `blocked` already includes them.
pub(super) fn insert_dependencies(
    cx: &mut Write<'_>,
    thread: ThreadId,
    depends_on: &[ThreadId],
    lsn: i64,
) -> Result<()> {
    depends_on.iter().try_for_each(|id| cx.execute(1, INSERT, &[&thread, id, &lsn]))
}

/// Decreases `blocked` of each thread that waits for the `finished` thread.
///
/// Each thread that can be claimed now is announced by a ThreadReady event if `emits_ready_events`, and
/// otherwise only added to the ready queue.
pub(crate) fn unblock_dependents(
    cx: &mut Write<'_>,
    finished: &Thread,
    emits_ready_events: bool,
) -> Result<()> {
    if cx.change(UNBLOCK_ALL, &[&finished.id])? == 0 {
        return Ok(());
    }
    let freed: Vec<(ThreadId,)> = cx.query(NEWLY_CLAIMABLE, &[&finished.id])?;
    let freed: Vec<ThreadId> = freed.into_iter().map(|(thread,)| thread).collect();
    for thread in threads_of_workspace(cx, &freed)? {
        if emits_ready_events {
            cx.emit(thread.place(), &ThreadReady { thread_id: thread.id })?;
        } else {
            queue::refresh_thread(cx, &thread)?;
        }
    }
    Ok(())
}

const UNBLOCK_ALL: &str = "
    update threads set blocked = blocked - 1
    where id in (select thread_id from thread_dependencies where depends_on_id = $1)";

/// Selects the dependents of a finished thread that can be claimed now.
const NEWLY_CLAIMABLE: &str = concat!(
    "select t.id from thread_dependencies d join threads t on t.id = d.thread_id
     where d.depends_on_id = $1 and ",
    is_claimable!(),
    " order by t.lsn"
);

/// Increases `blocked` of each thread that waits for the `reopened` thread, and removes newly blocked threads
/// from the ready queue.
pub(crate) fn block_dependents(cx: &mut Write<'_>, reopened: &Thread) -> Result<()> {
    if cx.change(BLOCK_ALL, &[&reopened.id])? == 0 {
        return Ok(());
    }
    let blocked: Vec<(ThreadId,)> = cx.query(NEWLY_BLOCKED, &[&reopened.id])?;
    let blocked: Vec<ThreadId> = blocked.into_iter().map(|(thread,)| thread).collect();
    threads_of_workspace(cx, &blocked)?.iter().try_for_each(|thread| queue::refresh_thread(cx, thread))
}

const BLOCK_ALL: &str = "
    update threads set blocked = blocked + 1
    where id in (select thread_id from thread_dependencies where depends_on_id = $1)";

/// Selects the open dependents that were not blocked before.
const NEWLY_BLOCKED: &str = "
    select t.id from thread_dependencies d join threads t on t.id = d.thread_id
    where d.depends_on_id = $1 and t.blocked = 1 and t.state = 'open' order by t.lsn";
