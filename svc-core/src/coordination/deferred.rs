//! Deferred threads: open threads without a claim that cannot be claimed now, with the conflicts that block
//! them.
//!
//! The list is exact at the time of the read. It does not depend on which threads are parked, because parking
//! happens only during a claim.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::visibility::visible;
use crate::coordination::conflicts::{
    self, ConflictDetail, ConflictReport, DeferralReason, WaitingCandidate, candidate_columns, is_waiting,
};
use crate::coordination::footprint::{Footprint, Repo, RepoKey};
use crate::coordination::obstacles::Conflict;
use crate::coordination::thread_row::{Thread, thread_of_workspace};
use crate::id::{ChannelId, ThreadId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::PAGE_BYTES;
use crate::op::{Feature, Read, read};
use crate::page::{BoundedCount, Cursor, Limit, Page, PageRows, ScanHorizon, json_bytes, rows_to_read};
use crate::request::request;
use crate::store::ToParam;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "claims",
        vec![
            read("list_deferred_threads", list_deferred_threads)
                .title("List blocked threads")
                .when(
                    "List unclaimed threads that cannot be claimed because their footprints conflict. Pass \
                     `reason` to add other causes.",
                )
                .detailed()
                .get("/workspaces/{workspace_id}/deferred")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
        ],
    )
}

request! {
    /// Returns unclaimed open threads that cannot be claimed now, with the conflicts that block each thread.
    ///
    /// The threads are ordered by creation.
    ///
    /// Each page examines up to 500 threads, and footprints with up to 500 items, so it may be short or empty
    /// although more follow: continue while `next_cursor` is not null.
    struct ListDeferredThreads {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// Also list threads that wait for unfinished threads (`dependencies`), whose required skills no
        /// active, unfrozen member has (`skills`), with a used-up budget limit (`budget`), or with an
        /// unsettled dead letter (`dead-letter`); `any` for all these reasons. Default: only threads whose
        /// footprint conflicts.
        reason: Option<DeferralReason>,
        /// Only threads whose footprint is in this repository: `owner/name` or a clone URL.
        repo: Option<Repo>,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_deferred_threads() -> Page<DeferredThread>
}

/// A thread that cannot be claimed now, with the conflicts that block it.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct DeferredThread {
    /// Id of the thread that cannot be claimed.
    pub thread_id: ThreadId,
    /// The channel of the thread.
    pub channel_id: ChannelId,
    /// The thread's title: the task in one line.
    pub title: String,
    /// The thread's priority: a higher number is more urgent.
    pub priority: i64,
    /// The thread's footprint; null if the thread has no footprint.
    pub footprint: Option<Footprint>,
    /// The conflicts that block the thread, up to 1000.
    pub obstacles: Vec<Conflict>,
    /// The thread's `lsn`, by which the list is ordered.
    #[serde(skip)]
    lsn: i64,
}

fn list_deferred_threads(cx: &Read<'_>, input: &ListDeferredThreads) -> Result<Page<DeferredThread>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let repo: Option<RepoKey> = input.repo.as_ref().map(Repo::key);
    let wants_more = input.reason.is_some();
    let after = Cursor::after(input.cursor);
    let horizon = if wants_more { HORIZON } else { HORIZON_OF_FOOTPRINTS };
    let mut horizon = conflicts::candidate_horizon(cx, horizon, &[&workspace_id], after)?;
    let now = cx.now();
    let last = horizon.up_to();
    let params: [&dyn ToParam; 5] = [&workspace_id, &now, &after, &last, &repo];
    let candidates = if wants_more { CANDIDATES } else { CANDIDATES_WITH_FOOTPRINT };
    let candidates: Vec<WaitingCandidate> =
        cx.query(candidates, &cx.caller().visibility.params().and(&params))?;
    let mut waiting = ConflictReport::find(cx, input.reason, ConflictDetail::All, &candidates)?;
    let mut deferred = Vec::new();
    let mut bytes = 0_usize;
    let mut covered = after;
    let max_rows = usize::try_from(rows_to_read(input.limit)).unwrap_or(usize::MAX);
    for candidate in candidates {
        let Some(obstacles) = waiting.find_obstacles(cx, &candidate)? else {
            horizon = ScanHorizon(Some(covered));
            break;
        };
        covered = candidate.lsn;
        let ends = cx.must_end_page();
        let thread = if obstacles.is_empty() { None } else { thread_of_workspace(cx, candidate.id)? };
        if let Some(thread) = thread {
            let row = DeferredThread::of(thread, obstacles);
            // A footprint and the items of its conflicts can be long, so rows are limited in bytes.
            bytes = bytes.saturating_add(json_bytes(&row)?);
            deferred.push(row);
        }
        if deferred.len() >= max_rows || bytes >= PAGE_BYTES {
            break;
        }
        if ends {
            horizon = ScanHorizon(Some(covered));
            break;
        }
    }
    let rows = PageRows::collected(deferred, bytes >= PAGE_BYTES);
    Ok(Page::within(horizon, rows, input.limit, |thread: &DeferredThread| thread.lsn))
}

/// Counts the open threads without a claim whose footprints conflict.
///
/// The count covers as many threads with a footprint as one page would.
pub(in crate::coordination) fn count_deferred(cx: &Read<'_>) -> Result<BoundedCount> {
    let workspace = cx.caller().workspace_id;
    let horizon = conflicts::candidate_horizon(cx, HORIZON_OF_FOOTPRINTS, &[&workspace], 0)?;
    let (repo, after, last, now): (Option<RepoKey>, i64, _, _) = (None, 0, horizon.up_to(), cx.now());
    let params: [&dyn ToParam; 5] = [&workspace, &now, &after, &last, &repo];
    let candidates: Vec<WaitingCandidate> =
        cx.query(CANDIDATES_WITH_FOOTPRINT, &cx.caller().visibility.params().and(&params))?;
    let mut waiting = ConflictReport::find(cx, None, ConflictDetail::Any, &candidates)?;
    let mut count = 0_i64;
    let mut is_all = horizon.0.is_none();
    for candidate in candidates {
        let Some(obstacles) = waiting.find_obstacles(cx, &candidate)? else {
            is_all = false;
            break;
        };
        if !obstacles.is_empty() {
            count = count.saturating_add(1);
        }
    }
    Ok(BoundedCount { count, is_all })
}

impl DeferredThread {
    fn of(thread: Thread, obstacles: Vec<Conflict>) -> Self {
        let Thread { id: thread_id, channel_id, title, priority, footprint, lsn, .. } = thread;
        Self { thread_id, channel_id, title, priority, footprint, obstacles, lsn }
    }
}

/// Selects open threads without a live claim and without a current result.
macro_rules! candidates {
    ($which:literal) => {
        concat!(
            "select ",
            candidate_columns!(),
            " from threads t join channels c on c.id = t.channel_id
             where t.workspace_id = $5 and ",
            is_waiting!(),
            " and t.lsn > $7 and t.lsn <= $8 ",
            $which,
            " and (cast($9 as text) is null or exists (
                 select 1 from footprints f
                 where f.workspace_id = t.workspace_id and f.id = t.footprint and f.repo_key = $9)) and ",
            visible!(c),
            " order by t.lsn"
        )
    };
}

const CANDIDATES: &str = candidates!("");

/// Selects the candidates that have a footprint, by the index of open threads with a footprint.
const CANDIDATES_WITH_FOOTPRINT: &str = candidates!("and t.footprint <> 0");

/// Selects the position at which one page of open threads with a footprint ends, by the index of such
/// threads.
const HORIZON_OF_FOOTPRINTS: &str = "
    select lsn from threads
    where workspace_id = $1 and footprint <> 0 and state = 'open' and lsn > $2
    order by lsn limit 1 offset $3";

const HORIZON: &str = "
    select lsn from threads where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";
