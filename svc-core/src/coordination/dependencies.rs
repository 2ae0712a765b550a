//! Dependencies: which threads a thread waits for.
//!
//! A dependency is finished when it is closed (also by a cancel) or archived. `threads.blocked` is always the
//! number of a thread's unfinished dependencies: it is updated in the transaction of whatever changes it. The
//! graph has no cycle, whatever the states of its threads.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
use crate::log::replay::Replayed;
use crate::op::{Feature, Read, Records, Sample, Write, destructive, idempotent, read};
use crate::page::{Cursor, Page};
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
                    .when(
                        "Use when a thread must wait for another one; for new threads, `depends_on` of \
                         `create_thread` does it at once.",
                    )
                    .put("/threads/{thread_id}/dependencies/{depends_on_id}")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState, Code::DependencyCycle, Code::NotVisibleToAll])
                    .example(
                        |w| json!({"thread_id": w.id("claimed_thread"), "depends_on_id": w.id("thread")}),
                    ),
                destructive("remove_thread_dependency", remove_thread_dependency)
                    .title("Make a thread no longer wait for another")
                    .when("Use when a thread need not wait for another one any more.")
                    .reversible()
                    .delete("/threads/{thread_id}/dependencies/{depends_on_id}")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::NotFound, Code::WrongState])
                    .example(
                        |w| json!({"thread_id": w.id("blocked_thread"), "depends_on_id": w.id("thread")}),
                    ),
                read("list_thread_dependencies", list_thread_dependencies)
                    .detailed()
                    .title("List what a thread waits for")
                    .when("Use to see what a thread waits for, finished or not.")
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

/// A thread waits for another one.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadDependencyAdded {
    /// The thread that it waits for.
    depends_on_id: ThreadId,
}

impl Event for ThreadDependencyAdded {
    const KIND: &'static str = "ThreadDependencyAdded";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        blocked::replay_change(event, true)
    }
}

/// A thread no longer waits for another one.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadDependencyRemoved {
    /// The thread that it waited for.
    depends_on_id: ThreadId,
}

impl Event for ThreadDependencyRemoved {
    const KIND: &'static str = "ThreadDependencyRemoved";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        blocked::replay_change(event, false)
    }
}

/// The last unfinished dependency of a thread is gone, so that it can be claimed.
///
/// Emitted once, for the last dependency and not for each; also in an archived channel, where the thread can
/// be claimed only after the channel is unarchived. Not emitted if the dependency was cancelled, although the
/// thread can be claimed then too.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadReady {
    /// The thread that can be claimed.
    thread_id: ThreadId,
}

impl Event for ThreadReady {
    const KIND: &'static str = "ThreadReady";

    fn replay(_: &Replayed<'_>) -> Result<()> {
        Ok(())
    }
}

/// Makes a thread wait for another one, and returns the waiting thread.
///
/// It cannot be claimed until the other one is closed or cancelled; a live claim goes on.
///
/// The two may be in different channels of the workspace. Adding a dependency again changes nothing.
///
/// Fails with 409 `wrong-state` if the waiting thread is finished, if it waits for 100 threads already, if
/// 1000 threads wait for the other one, or if 5000 threads wait for the waiting one and the other one waits
/// for 5000, directly or not; 409 `dependency-cycle` if the two are the same, or if the other one waits for
/// this one already, directly or not; 409 `not-visible-to-all` if the other one is in another, private
/// channel.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddThreadDependency {
    /// The thread that waits.
    thread_id: ThreadId,
    /// The thread that it waits for.
    depends_on_id: ThreadId,
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

/// Fails if a thread that has `dependents` dependents cannot have one more.
fn check_room_for_dependent(dependents: i64) -> Result<()> {
    if dependents >= DEPENDENTS_MAX {
        return Err(Error::wrong_state(format!(
            "{DEPENDENTS_MAX} threads wait for that thread, the maximum: wait for one of these instead"
        )));
    }
    Ok(())
}

const INSERT: &str = "insert into thread_dependencies (thread_id, depends_on_id, lsn) values ($1, $2, $3)";

const BLOCK_ONE: &str = "update threads set blocked = blocked + 1 where id = $1";

/// Fails if `thread` waiting for `awaited` would close a cycle.
///
/// A cycle would lead from `thread` over its dependents to `awaited` and back. The search starts from either
/// end, so it is enough if one of them has few threads around it.
fn check_no_cycle(cx: &Read<'_>, thread: &Thread, awaited: &Thread) -> Result<()> {
    let refusal = |detail: &'static str| Err(Error::new(Code::DependencyCycle, detail));
    if thread.id == awaited.id {
        return refusal("a thread cannot wait for itself");
    }
    let found = match walk(cx, DOWNSTREAM, thread.id, awaited.id)? {
        DependencyWalk::Unfinished => walk(cx, UPSTREAM, awaited.id, thread.id)?,
        found => found,
    };
    match found {
        DependencyWalk::NoPath => Ok(()),
        DependencyWalk::Met => refusal("the other thread waits for this one already, directly or not"),
        DependencyWalk::Unfinished => Err(Error::wrong_state(format!(
            "{DEPENDENCY_WALK_MAX} or more threads wait for this one, and the other one waits for as many: \
             remove finished dependencies first"
        ))),
    }
}

/// The result of a walk along dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DependencyWalk {
    /// It reached the thread that it searched for.
    Met,
    /// It visited everything without reaching that thread.
    NoPath,
    /// There were at least [`DEPENDENCY_WALK_MAX`] threads to visit.
    Unfinished,
}

fn walk(cx: &Read<'_>, sql: &'static str, from: ThreadId, to: ThreadId) -> Result<DependencyWalk> {
    let (visited, met): (i64, bool) = cx
        .one(sql, &[&from, &to, &DEPENDENCY_WALK_MAX])?
        .ok_or_else(|| Error::internal("a count returned no row"))?;
    Ok(match met {
        true => DependencyWalk::Met,
        false if visited < DEPENDENCY_WALK_MAX => DependencyWalk::NoPath,
        false => DependencyWalk::Unfinished,
    })
}

/// A statement that visits up to `$3` threads along dependencies from `$1`.
///
/// It returns how many, and whether `$2` was among them.
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

/// From a thread to its dependents.
const DOWNSTREAM: &str = walk_sql!("depends_on_id", "thread_id");

/// From a thread to its dependencies.
const UPSTREAM: &str = walk_sql!("thread_id", "depends_on_id");

/// Makes a thread no longer wait for another one, and returns the thread that waited.
///
/// If that was its last unfinished dependency, it can be claimed.
///
/// Fails with 404 `not-found` if it does not wait for the other one; 409 `wrong-state` if it is archived.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemoveThreadDependency {
    /// The thread that waits.
    thread_id: ThreadId,
    /// The thread that it should no longer wait for.
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

/// A thread that another one waits for.
#[derive(Serialize, JsonSchema)]
struct Dependency {
    /// The thread that it waits for.
    thread_id: ThreadId,
    /// The channel of that thread.
    channel_id: ChannelId,
    /// The task to do there, in one line.
    title: String,
    /// How far that thread has come.
    state: ThreadState,
    /// Whether it no longer blocks the waiting thread.
    finished: bool,
    /// The position in the event log at which the dependency was added.
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

/// Returns the threads that a thread waits for, finished or not, in the order in which they were added.
///
/// Those in channels that you may not see are omitted, although the thread's `blocked` counts them. The
/// result is one page, unless that would be too long.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListThreadDependencies {
    /// The thread that waits.
    thread_id: ThreadId,
    cursor: Option<Cursor<(i64, Uuid)>>,
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

/// The threads that a new thread waits for.
pub(super) struct NewDependencies {
    /// Their ids, without duplicates.
    pub ids: Vec<ThreadId>,
    /// How many of them are unfinished.
    pub unfinished: i64,
}

/// Loads the threads `ids`, which the caller and everybody who sees `channel` must be allowed to see.
pub(super) fn visible_all(cx: &Read<'_>, ids: &[ThreadId], channel: ChannelId) -> Result<NewDependencies> {
    let ids: Vec<ThreadId> = ids.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let found = standing(cx, &ids)?;
    if found.len() != ids.len() {
        return Err(not_found_in_list());
    }
    let visible = |(at, _, _): &(ChannelId, ThreadState, i64)| visibility::visible_channel(cx, *at);
    let stand_in = found.iter().map(visible).collect::<Result<Vec<_>>>().map_err(as_hidden_in_list)?;
    stand_in.iter().try_for_each(|place| visibility::check_visible_to_all(place, channel))?;
    let mut unfinished: i64 = 0;
    for (_, state, dependents) in found {
        check_room_for_dependent(dependents)?;
        unfinished = unfinished.saturating_add(i64::from(!state.is_finished()));
    }
    Ok(NewDependencies { ids, unfinished })
}

fn not_found_in_list() -> Error {
    Error::not_found("thread").with("field", "depends_on")
}

/// A thread that the caller may not see is reported like one that does not exist.
fn as_hidden_in_list(error: Error) -> Error {
    if error.code() == Code::NotFound { not_found_in_list() } else { error }
}

/// Returns the channel, state and number of dependents of each thread of the caller's workspace.
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

/// Inserts the dependencies of a thread whose `blocked` counts them already.
pub(super) fn insert(cx: &mut Write<'_>, thread: ThreadId, awaited: &[ThreadId], lsn: i64) -> Result<()> {
    awaited.iter().try_for_each(|id| cx.execute(1, INSERT, &[&thread, id, &lsn]))
}

/// Updates the dependents of a thread that is `finished`.
///
/// Those that can be claimed now are announced by ThreadReady if `announce`, or else only added to the ready
/// queue.
pub(crate) fn unblock_dependents(cx: &mut Write<'_>, finished: &Thread, announce: bool) -> Result<()> {
    if cx.change(UNBLOCK_ALL, &[&finished.id])? == 0 {
        return Ok(());
    }
    let freed: Vec<(ThreadId,)> = cx.query(FREED, &[&finished.id])?;
    let freed: Vec<ThreadId> = freed.into_iter().map(|(thread,)| thread).collect();
    for thread in threads_of_workspace(cx, &freed)? {
        if announce {
            cx.emit(thread.place(), &ThreadReady { thread_id: thread.id })?;
        } else {
            queue::refresh(cx, &thread)?;
        }
    }
    Ok(())
}

const UNBLOCK_ALL: &str = "
    update threads set blocked = blocked - 1
    where id in (select thread_id from thread_dependencies where depends_on_id = $1)";

/// The dependents that can be claimed now, which only this thread blocked.
const FREED: &str = concat!(
    "select t.id from thread_dependencies d join threads t on t.id = d.thread_id
     where d.depends_on_id = $1 and ",
    is_claimable!(),
    " order by t.lsn"
);

/// Blocks the dependents of a `reopened` thread. Those that could be claimed leave the ready queue.
pub(crate) fn block_dependents(cx: &mut Write<'_>, reopened: &Thread) -> Result<()> {
    if cx.change(BLOCK_ALL, &[&reopened.id])? == 0 {
        return Ok(());
    }
    let held_up: Vec<(ThreadId,)> = cx.query(HELD_UP, &[&reopened.id])?;
    let held_up: Vec<ThreadId> = held_up.into_iter().map(|(thread,)| thread).collect();
    threads_of_workspace(cx, &held_up)?.iter().try_for_each(|thread| queue::refresh(cx, thread))
}

const BLOCK_ALL: &str = "
    update threads set blocked = blocked + 1
    where id in (select thread_id from thread_dependencies where depends_on_id = $1)";

/// The dependents that were not blocked before.
const HELD_UP: &str = "
    select t.id from thread_dependencies d join threads t on t.id = d.thread_id
    where d.depends_on_id = $1 and t.blocked = 1 and t.state = 'open' order by t.lsn";
