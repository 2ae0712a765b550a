//! Threads: a thread is a task in a channel, and may have child threads.
//!
//! This file defines the row of a thread, which includes the thread's claim, and how a thread is loaded. The
//! other files of this folder change threads: each file updates the thread's columns and records its changes
//! by an event of the thread, from which the ready queue is updated.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};
use uuid::Uuid;

use crate::Result;
use crate::conversation::visibility;
use crate::coordination::footprint::{Footprint, FootprintMode, Repo, StoredItems};
use crate::coordination::skill_sets::SkillSet;
use crate::error::{Code, Error};
use crate::id::{ChannelId, LeaseId, MemberId, ThreadId, WorkspaceId};
use crate::log::cache::{Cached, Lifetime, SINGLE_ENTRY};
use crate::log::event::Subject;
use crate::op::{Answer, Read, Write};
use crate::page::PageRows;
use crate::store::{Engine, ToParam, columns, named_enum};
use crate::time::Time;

named_enum! {
    /// The state of a thread: open, in review, closed, archived.
    #[non_exhaustive]
    pub enum ThreadState {
        Open = "open",
        InReview = "in_review",
        Closed = "closed",
        Archived = "archived",
    }
}

impl ThreadState {
    /// Returns whether a thread in this state no longer blocks threads that wait for it.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Closed | Self::Archived)
    }
}

/// A thread: a task with its state and its current claim.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Thread {
    /// Id of the thread.
    pub id: ThreadId,
    /// The thread's address: `svc://{workspace}/channels/{channel}/threads/{thread}`.
    pub uri: String,
    /// Id of the thread's workspace.
    pub workspace_id: WorkspaceId,
    /// Id of the channel that the thread is in.
    pub channel_id: ChannelId,
    /// Id of the parent thread; null if the thread has no parent.
    pub parent_id: Option<ThreadId>,
    /// The thread's title: the task in one line.
    pub title: String,
    /// The state of the thread.
    pub state: ThreadState,
    /// The thread's priority: claimable threads with a higher priority are claimed first.
    pub priority: i64,
    /// The skills that a member must have to claim the thread, sorted.
    pub required_skills: Vec<String>,
    /// The tools that the thread's creator advises its worker to use.
    pub tools: Vec<String>,
    /// The thread's footprint; null if the thread has no footprint.
    pub footprint: Option<Footprint>,
    /// Number of unfinished threads that the thread waits for. The thread can be claimed only if this number
    /// is 0.
    pub blocked: i64,
    /// Whether the thread has a current result. Such a thread cannot be claimed until it is reopened.
    pub has_result: bool,
    /// Whether a limit of the thread's budget is used up. Such a thread cannot be claimed.
    pub exhausted: bool,
    /// Whether the thread has an unsettled dead letter. Such a thread cannot be claimed until the dead letter
    /// is requeued.
    pub dead: bool,
    /// The member who is responsible for the thread: its creator, unless the owner was changed. Null without
    /// an owner.
    pub owner_id: Option<MemberId>,
    /// The holder of the live claim; null if the thread is not claimed.
    pub assignee_id: Option<MemberId>,
    /// The fencing id of the live claim; null if the thread is not claimed.
    pub claim_lease_id: Option<LeaseId>,
    /// Time at which the live claim lapses unless it is renewed; null if the thread is not claimed.
    pub assignment_expires_at: Option<Time>,
    /// Time at which the holder acknowledged the live claim; null if the claim is not acknowledged.
    pub acknowledged_at: Option<Time>,
    /// Whether the thread was closed by cancelling it.
    pub cancelled: bool,
    /// Time at which the thread was cancelled; null if the thread is not cancelled.
    pub cancelled_at: Option<Time>,
    /// The member who created the thread; null for the service itself.
    pub created_by: Option<MemberId>,
    /// Time at which the thread was created.
    pub created_at: Time,
    /// Position of the thread's creation in the workspace's event log.
    pub lsn: i64,
    /// Position in the log of the last result or reopening. Verdicts before this position apply to earlier
    /// work.
    #[serde(skip)]
    pub judged_from: i64,
    /// Nesting depth of the thread; 1 without a parent.
    #[serde(skip)]
    pub depth: i64,
    /// The id of the stored set of required skills.
    #[serde(skip)]
    pub skill_set: i64,
    /// The id of the stored footprint; 0 without a footprint.
    #[serde(skip)]
    pub footprint_id: i64,
    /// Whether a holder has stored a checkpoint.
    #[serde(skip)]
    pub has_checkpoint: bool,
    /// Number of children that the thread has ever had.
    #[serde(skip)]
    pub children_ever: i64,
    /// Whether the thread's budget has a limit.
    #[serde(skip)]
    pub budgeted: bool,
    /// The claim in the thread's row. A lapsed claim has no effect and is not returned to callers.
    #[serde(skip)]
    pub held: Option<HeldClaim>,
}

/// The claim in a thread's row, live or lapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldClaim {
    pub holder: MemberId,
    pub lease_id: LeaseId,
    pub until: Time,
}

impl HeldClaim {
    /// Builds a claim from three columns of a thread's row, which are either all null or all set.
    pub fn of(holder: Option<MemberId>, lease_id: Option<LeaseId>, until: Option<Time>) -> Option<Self> {
        Some(Self { holder: holder?, lease_id: lease_id?, until: until? })
    }

    /// Returns whether the lease has not lapsed.
    pub fn is_live(&self, now: Time) -> bool {
        now < self.until
    }
}

/// A thread as stored in its row, where the claim may be live or lapsed.
#[derive(Clone)]
struct StoredThread(Thread);

impl StoredThread {
    /// Returns the thread at the time `now`, whose claim is shown only if it is live.
    fn at_time(self, now: Time) -> Thread {
        let Self(thread) = self;
        let held = thread.held;
        thread.with_claim(held, now)
    }
}

columns! {
    pub(crate) thread_columns: Thread in StoredThread as t {
        id,
        workspace_id,
        channel_id,
        parent_id,
        title,
        state,
        priority,
        blocked,
        has_result,
        exhausted,
        dead,
        budgeted,
        children_ever,
        owner_id,
        acknowledged_at,
        cancelled_at: Option<Time>,
        created_by,
        created_at,
        lsn,
        judged_from,
        depth,
        skill_set,
        footprint_id = footprint,
        has_checkpoint,
    }
    read {
        skills: SkillSet = "s.skills",
        repo: Option<Repo> = "f.repo",
        mode: Option<FootprintMode> = "f.mode",
        items: Option<StoredItems> = "f.items",
        tool_names: Option<Json> = tools,
        holder = assignee_id,
        lease_id = claim_lease_id,
        until = assignment_expires_at,
    }
    make {
        uri: thread_uri(workspace_id, channel_id, id),
        required_skills: skills.into_names(),
        footprint: mode.zip(items).map(|(mode, StoredItems(items))| Footprint { repo, mode, items }),
        tools: tool_names.map_or_else(|| Ok(Vec::new()), serde_json::from_value).map_err(Error::internal)?,
        cancelled: cancelled_at.is_some(),
        // The fields of a claim depend on the time, so `StoredThread::at_time` sets them.
        held: HeldClaim::of(holder, lease_id, until),
        assignee_id: None,
        claim_lease_id: None,
        assignment_expires_at: None,
    }
    insert "insert into threads" { worked_micros: 0_i64 }
}

/// Runs a [`thread_select`] statement, and returns one page of the selected threads.
pub(crate) fn select_page(
    cx: &Read<'_>,
    sql: &'static str,
    params: &[&dyn ToParam],
) -> Result<PageRows<Thread>> {
    let found: PageRows<StoredThread> = cx.rows(sql, params)?;
    Ok(found.map(|stored| stored.at_time(cx.now())))
}

/// Runs a [`thread_select`] statement, and returns as many of the selected threads as fit on a page.
pub(crate) fn select_first_threads(
    cx: &Read<'_>,
    sql: &'static str,
    params: &[&dyn ToParam],
) -> Result<Vec<Thread>> {
    let found: Vec<StoredThread> = cx.query_first_page(sql, params)?;
    Ok(found.into_iter().map(|stored| stored.at_time(cx.now())).collect())
}

/// A statement that selects whole threads as `t`; `$rest` contains the clauses after `from`.
macro_rules! thread_select {
    ($($rest:tt)*) => {
        concat!(
            "select ",
            $crate::coordination::thread_row::thread_columns!(),
            " from threads t
             join skill_sets s on s.workspace_id = t.workspace_id and s.id = t.skill_set
             left join footprints f on f.workspace_id = t.workspace_id and f.id = t.footprint ",
            $($rest)*
        )
    };
}
pub(crate) use thread_select;

/// Returns the address of a thread, as in `Thread::uri`.
pub(in crate::coordination) fn thread_uri(
    workspace: WorkspaceId,
    channel: ChannelId,
    thread: ThreadId,
) -> String {
    format!("svc://{workspace}/channels/{channel}/threads/{thread}")
}

impl Thread {
    /// Returns the thread with `held` as the claim in its row, and with the fields that depend on the claim.
    pub fn with_claim(self, held: Option<HeldClaim>, now: Time) -> Self {
        let live = held.filter(|held| held.is_live(now));
        Self {
            held,
            assignee_id: live.map(|held| held.holder),
            claim_lease_id: live.map(|held| held.lease_id),
            assignment_expires_at: live.map(|held| held.until),
            acknowledged_at: live.and(self.acknowledged_at),
            ..self
        }
    }

    /// Returns whether the claim in the thread's row has lapsed.
    pub fn has_lapsed(&self, now: Time) -> bool {
        self.held.is_some_and(|held| !held.is_live(now))
    }

    /// Returns the subject under which the log records the thread's events.
    pub fn place(&self) -> Subject {
        Subject::thread(self.channel_id, self.id)
    }

    /// Fails if the thread is archived, because an archived thread no longer changes.
    pub fn check_not_archived(&self) -> Result<()> {
        if self.state == ThreadState::Archived {
            return Err(self.wrong_state("it can no longer be changed"));
        }
        Ok(())
    }

    /// Fails if the thread is finished, which means closed or archived.
    pub fn check_unfinished(&self) -> Result<()> {
        if self.state.is_finished() {
            return Err(self.wrong_state("it changes only once it is reopened"));
        }
        Ok(())
    }

    /// Returns the error of a change that the thread's state does not allow.
    pub(in crate::coordination) fn wrong_state(&self, why: &str) -> Error {
        let state = self.state.name();
        Error::wrong_state(format!("the thread is {state}: {why}")).with("state", state)
    }
}

impl Cached for StoredThread {
    const LIFETIME: Lifetime = Lifetime::Transaction;
}

/// Loads the thread `id` of the caller's workspace, without checking that the caller may see the thread.
pub(in crate::coordination) fn thread_of_workspace(cx: &Read<'_>, id: ThreadId) -> Result<Option<Thread>> {
    match cx.cached::<StoredThread>(&(id, cx.caller().workspace_id)) {
        Some(stored) => Ok(Some(stored.at_time(cx.now()))),
        None => Ok(threads_of_workspace(cx, &[id])?.pop()),
    }
}

/// Loads the threads `ids`, in this order, without checking that the caller may see the threads. Omits
/// missing threads.
///
/// On Postgres one statement loads all these threads. The first load of a batch also loads all threads that
/// its jobs name.
pub(in crate::coordination) fn threads_of_workspace(cx: &Read<'_>, ids: &[ThreadId]) -> Result<Vec<Thread>> {
    let workspace = cx.caller().workspace_id;
    let is_missing = |id: &ThreadId| cx.cached::<StoredThread>(&(*id, workspace)).is_none();
    let mut missing: BTreeSet<ThreadId> = ids.iter().copied().filter(is_missing).collect();
    if !missing.is_empty() {
        let found: Vec<StoredThread> = match cx.engine() {
            Engine::Sqlite => {
                let found = missing.iter().map(|id| cx.one(BY_ID, &[id, &workspace]));
                found.filter_map(Result::transpose).collect::<Result<_>>()?
            }
            Engine::Postgres => {
                missing.extend(cx.take_named_threads().into_iter().filter(is_missing));
                let missing: Vec<Uuid> = missing.into_iter().map(ThreadId::uuid).collect();
                cx.query(BY_IDS, &[&missing, &workspace])?
            }
        };
        found.into_iter().for_each(|stored| cx.keep(&(stored.0.id, workspace), stored));
    }
    let found = ids.iter().filter_map(|id| cx.cached::<StoredThread>(&(*id, workspace)));
    Ok(found.map(|stored| stored.at_time(cx.now())).collect())
}

/// Updates the row of the thread `id`, and applies `change` to the cached thread too.
pub(in crate::coordination) fn update_thread_row(
    cx: &mut Write<'_>,
    id: ThreadId,
    sql: &'static str,
    params: &[&dyn ToParam],
    change: impl FnOnce(Thread) -> Thread,
) -> Result<()> {
    cx.save(1, sql, params)?;
    let key = (id, cx.caller().workspace_id);
    if let Some(StoredThread(thread)) = cx.cached(&key) {
        let changed = change(thread);
        // A budget can limit a claim to less time than a lookup of lapsed claims searches ahead.
        let lapse = changed.held.map(|held| held.until);
        if let (Some(lapse), Some(EarliestLapse(next))) = (lapse, cx.cached(&SINGLE_ENTRY))
            && lapse < next
        {
            cx.keep(&SINGLE_ENTRY, EarliestLapse(lapse));
        }
        cx.keep(&key, StoredThread(changed));
    }
    Ok(())
}

/// A time before which no claim of the workspace lapses, cached for the jobs of one batch.
///
/// Saving a claim that lapses earlier lowers the time.
#[derive(Clone, Copy)]
pub(in crate::coordination) struct EarliestLapse(pub Time);

impl Cached for EarliestLapse {
    const LIFETIME: Lifetime = Lifetime::Transaction;
}

/// Loads the thread `id`. Fails if the caller may not see the thread.
pub(crate) fn visible_thread(cx: &Read<'_>, id: ThreadId) -> Result<Thread> {
    let thread = thread_of_workspace(cx, id)?.ok_or_else(|| Error::not_found("thread"))?;
    visibility::visible_channel(cx, thread.channel_id).map_err(as_thread_not_found)?;
    Ok(thread)
}

const BY_ID: &str = thread_select!("where t.id = $1 and t.workspace_id = $2");

const BY_IDS: &str = thread_select!("where t.id = any($1::uuid[]) and t.workspace_id = $2");

impl<I> Answer<I> for Thread {
    type Kept = ThreadId;

    fn kept(&self) -> Option<ThreadId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: ThreadId) -> Result<Self> {
        visible_thread(cx, id)
    }
}

/// Replaces the error of a channel that the caller may not see with the error of a missing thread.
fn as_thread_not_found(error: Error) -> Error {
    if error.code() == Code::NotFound { Error::not_found("thread") } else { error }
}

/// Inserts the row of a new thread.
pub(in crate::coordination) fn insert_thread_row(cx: &mut Write<'_>, thread: &Thread) -> Result<()> {
    thread.with_new_row(|row| cx.insert(row))?;
    if !thread.tools.is_empty() {
        cx.execute(1, SET_TOOLS, &[&thread.id, &json!(thread.tools).to_string()])?;
    }
    cx.keep(&(thread.id, thread.workspace_id), StoredThread(thread.clone()));
    Ok(())
}

const SET_TOOLS: &str = "update threads set tools = $2 where id = $1";

/// Returns a new, unchanged thread for unit tests of rules.
#[cfg(test)]
pub(crate) fn test_thread() -> Thread {
    let id = uuid::Uuid::from_u128;
    Thread {
        id: id(3).into(),
        uri: thread_uri(id(1).into(), id(2).into(), id(3).into()),
        workspace_id: id(1).into(),
        channel_id: id(2).into(),
        parent_id: None,
        title: "Port the parser".to_owned(),
        state: ThreadState::Open,
        priority: 0,
        required_skills: Vec::new(),
        tools: Vec::new(),
        footprint: None,
        blocked: 0,
        has_result: false,
        exhausted: false,
        dead: false,
        budgeted: false,
        children_ever: 0,
        owner_id: Some(id(4).into()),
        assignee_id: None,
        claim_lease_id: None,
        assignment_expires_at: None,
        acknowledged_at: None,
        cancelled: false,
        cancelled_at: None,
        created_by: Some(id(4).into()),
        created_at: Time::from_micros(0),
        lsn: 1,
        judged_from: 0,
        depth: 1,
        skill_set: 1,
        footprint_id: 0,
        has_checkpoint: false,
        held: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lapsed_claim_is_shown_as_none() {
        let id = uuid::Uuid::from_u128;
        let until = Time::from_micros(100);
        let held = Some(HeldClaim { holder: id(5).into(), lease_id: id(6).into(), until });
        let row = || StoredThread(Thread { held, acknowledged_at: Some(until), ..test_thread() });
        let live = row().at_time(Time::from_micros(99));
        assert_eq!((live.assignee_id, live.assignment_expires_at), (Some(id(5).into()), Some(until)));
        assert_eq!((live.claim_lease_id, live.acknowledged_at), (Some(id(6).into()), Some(until)));
        let lapsed = row().at_time(until);
        assert_eq!((lapsed.assignee_id, lapsed.assignment_expires_at), (None, None));
        assert_eq!((lapsed.claim_lease_id, lapsed.acknowledged_at), (None, None));
        assert_eq!(lapsed.held, held, "whoever ends it still finds it");
    }

    #[test]
    fn finished_threads_reject_work_and_archived_ones_every_change() {
        for &state in ThreadState::ALL {
            let thread = Thread { state, ..test_thread() };
            assert_eq!(
                thread.check_unfinished().is_ok(),
                matches!(state, ThreadState::Open | ThreadState::InReview)
            );
            assert_eq!(thread.check_not_archived().is_ok(), state != ThreadState::Archived);
        }
    }

    #[test]
    fn fields_for_the_service_alone_are_not_serialized() {
        let thread = serde_json::to_value(test_thread()).unwrap();
        assert!(thread.get("depth").is_none() && thread.get("skill_set").is_none());
        assert!(thread["assignee_id"].is_null() && thread["cancelled"] == json!(false));
    }

    #[test]
    fn an_address_names_workspace_channel_and_thread() {
        let id = uuid::Uuid::from_u128;
        let address = thread_uri(id(1).into(), id(2).into(), id(3).into());
        assert_eq!(address, format!("svc://{}/channels/{}/threads/{}", id(1), id(2), id(3)));
    }
}
