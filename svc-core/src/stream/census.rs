//! The census: the number of events of each kind in a log.
//!
//! A table stores the counts of each channel up to a position that a chore advances. A census reads that
//! table and counts only the events after that position, so its cost does not depend on the length of the
//! log. It reads both in pages, and starts over if the chore moves the position in between. Pruned events are
//! subtracted when the floor moves. Posting an event writes nothing to the table.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::visibility::visible_at;
use crate::id::{ChannelId, ThreadId, WorkspaceId};
use crate::identity::floor::LogRange;
use crate::identity::workspaces::{self, OwnWorkspaceId};
use crate::limits::{
    CENSUS_NEW_EVENTS_MIN, CENSUS_PAGE_READS_MAX, CENSUS_STEP_EVENTS_MAX, CENSUS_STEP_WORKSPACES_MAX,
    CENSUS_TAIL_MAX,
};
use crate::op::{
    Chore, ChoreProcesses, ChoreRound, Feature, Read, Records, SharedState, StepOutcome, Write, reading,
};
use crate::page::Page;
use crate::request::{dereferences, paged_outputs, request};
use crate::stream::events::can_see_thread;
use crate::sync::lock;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    let pass = Mutex::default();
    Feature::new()
        .operations(
            "events",
            vec![
                reading("get_kind_census")
                    .prepare(begin_census)
                    .in_pages(count_next_page)
                    .short()
                    .title("Count the events of a log by kind")
                    .when(
                        "Count the events in the log by kind, such as to choose a `kind` for `list_events`.",
                    )
                    .get("/workspaces/{workspace_id}/kind-census")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
            ],
        )
        .chore(Chore {
            name: "census",
            every: |_| Some(SCAN_INTERVAL),
            lease: LEASE,
            who: ChoreProcesses::OneLeader,
            run: Box::new(move |round| count_in_next_log(round, &pass)),
        })
        .records(vec![
            Records::table("kind_counts", "workspace_id channel_id kind").stays(),
            Records::table("census_at", "workspace_id").stays(),
        ])
}

/// Time between two scans for logs with new events.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// Duration of the lease of the process that counts events. If that process dies, another one takes over
/// after the lease expires.
const LEASE: Duration = Duration::from_secs(10);

request! {
    /// Returns the number of events of each kind in the log, most frequent first.
    ///
    /// Events in private channels that you are not in, and pruned events, are not counted.
    ///
    /// The call itself counts up to 20,000 events that the service has not counted yet. If there are more, as
    /// in a long thread or after many events within seconds, `head_lsn` is the position of the last counted
    /// event, and later events are missing. Only one such read runs per workspace at a time.
    struct GetKindCensus {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Only events in this channel.
        channel_id: Option<ChannelId>,
        /// Only events in this thread.
        thread_id: Option<ThreadId>,
    }

    get_kind_census() -> KindCensus
}

/// The number of events of each kind in a log.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct KindCensus {
    /// The kinds, sorted by count, highest first.
    #[serde(flatten)]
    pub kinds: Page<KindCount>,
    /// The total number of events counted.
    pub total: i64,
    /// The position of the oldest event that remains in the log.
    pub floor: i64,
    /// The position of the last event that was counted.
    pub head_lsn: i64,
}

dereferences! { KindCensus => kinds: Page<KindCount> }
paged_outputs! { KindCensus => kinds: KindCount }

/// The number of events of one kind in a log.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct KindCount {
    /// Name of the kind, such as `ThreadCreated`.
    pub kind: String,
    /// The number of events of this kind.
    pub count: i64,
}

/// The counts of a census that is in progress.
#[derive(Default)]
struct CensusCounts {
    counts: BTreeMap<String, i64>,
    /// The position up to which the table had counts when the census began; `None` before the first page.
    table_position: Option<i64>,
    /// The channel and kind of the last table row that was added to the counts; `None` once all rows are
    /// added.
    last_row: Option<(Uuid, String)>,
    /// The position up to which events were counted one by one. The census ends at `up_to`.
    after: i64,
    up_to: i64,
    /// Number of further events of a thread that this census may count.
    events_left: i64,
}

fn begin_census(_: &GetKindCensus, _: &SharedState, _: Time) -> Result<CensusCounts> {
    Ok(CensusCounts::default())
}

fn count_next_page(
    cx: &Read<'_>,
    input: &GetKindCensus,
    census: &mut CensusCounts,
) -> Result<Option<KindCensus>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let range = LogRange::read(cx)?;
    match input.thread_id {
        // As in event lists, a hidden thread is treated as one that does not exist.
        Some(thread) if !can_see_thread(cx, thread)? => census.up_to = range.head,
        Some(thread) => {
            if census.table_position.is_none() {
                let after = range.beginning();
                let table_position = Some(after);
                let events_left = CENSUS_TAIL_MAX;
                *census = CensusCounts {
                    table_position,
                    after,
                    up_to: range.head,
                    events_left,
                    ..CensusCounts::default()
                };
            }
            if !census.add_thread_events(cx, thread, input.channel_id)? {
                return Ok(None);
            }
        }
        None => {
            let at = load_table_position(cx, workspace_id)?.max(range.beginning());
            let is_reading_table = census.table_position.is_none() || census.last_row.is_some();
            if census.table_position != Some(at) && (is_reading_table || range.beginning() > census.after) {
                let up_to = range.head.min(at.saturating_add(CENSUS_TAIL_MAX));
                let row = Some((Uuid::nil(), String::new()));
                *census = CensusCounts {
                    table_position: Some(at),
                    last_row: row,
                    after: at,
                    up_to,
                    ..CensusCounts::default()
                };
            }
            if !census.add_stored_counts(cx, workspace_id, input.channel_id)?
                || !census.add_events(cx, workspace_id, input.channel_id)?
            {
                return Ok(None);
            }
        }
    }
    let counts = std::mem::take(&mut census.counts);
    let total = counts.values().fold(0_i64, |sum, count| sum.saturating_add(*count));
    let kinds = counts.into_iter().map(|(kind, count)| KindCount { kind, count });
    let mut kinds: Vec<KindCount> = kinds.collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    Ok(Some(KindCensus { kinds: Page::whole(kinds), total, floor: range.floor, head_lsn: census.up_to }))
}

impl CensusCounts {
    /// Adds the next rows of the table to the counts, and returns whether the table has no further rows.
    fn add_stored_counts(
        &mut self,
        cx: &Read<'_>,
        workspace: WorkspaceId,
        channel: Option<ChannelId>,
    ) -> Result<bool> {
        let Some((last_channel, last_kind)) = self.last_row.take() else { return Ok(true) };
        let params = cx.caller().visibility.params();
        let rows: Vec<(Uuid, String, i64, bool)> = cx.query(
            SELECT_TABLE_COUNTS,
            &params.and(&[
                &workspace,
                &last_channel,
                &last_kind,
                &Uuid::nil(),
                &channel,
                &CENSUS_PAGE_READS_MAX,
            ]),
        )?;
        if i64::try_from(rows.len()).unwrap_or(i64::MAX) >= CENSUS_PAGE_READS_MAX {
            self.last_row = rows.last().map(|(channel, kind, ..)| (*channel, kind.clone()));
        }
        let seen = rows.into_iter().filter(|(.., is_seen)| *is_seen);
        self.add_counts(seen.map(|(_, kind, count, _)| (kind, count)));
        Ok(self.last_row.is_none())
    }

    /// Counts the next events of the workspace, and returns whether all events up to `up_to` are counted.
    fn add_events(
        &mut self,
        cx: &Read<'_>,
        workspace: WorkspaceId,
        channel: Option<ChannelId>,
    ) -> Result<bool> {
        let to = self.up_to.min(self.after.saturating_add(CENSUS_PAGE_READS_MAX));
        let params = cx.caller().visibility.params();
        self.add_counts(
            cx.query(COUNT_LATER_EVENTS, &params.and(&[&workspace, &self.after, &to, &channel]))?,
        );
        self.after = to;
        Ok(to >= self.up_to)
    }

    /// Counts the next events of a thread, and returns whether all events up to `up_to` are counted.
    fn add_thread_events(
        &mut self,
        cx: &Read<'_>,
        thread: ThreadId,
        channel: Option<ChannelId>,
    ) -> Result<bool> {
        let limit = self.events_left.min(CENSUS_PAGE_READS_MAX);
        let last: Option<(i64,)> =
            cx.one(SELECT_THREAD_POSITION, &[&thread, &self.after, &limit.saturating_sub(1)])?;
        let to = last.map_or(self.up_to, |(lsn,)| lsn.min(self.up_to));
        self.events_left = self.events_left.saturating_sub(limit);
        if self.events_left == 0 {
            self.up_to = to;
        }
        let params = cx.caller().visibility.params();
        self.add_counts(cx.query(COUNT_THREAD_EVENTS, &params.and(&[&thread, &self.after, &to, &channel]))?);
        self.after = to;
        Ok(to >= self.up_to)
    }

    /// Adds the number of events of each kind to the counts.
    fn add_counts(&mut self, rows: impl IntoIterator<Item = (String, i64)>) {
        for (kind, count) in rows {
            let sum = self.counts.entry(kind).or_default();
            *sum = sum.saturating_add(count);
        }
    }
}

const SELECT_THREAD_POSITION: &str =
    "select lsn from events where thread_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

const COUNT_THREAD_EVENTS: &str = concat!(
    "select e.kind, count(*) from events e left join channels c on c.id = e.channel_id
     where e.thread_id = $5 and e.lsn > $6 and e.lsn <= $7
       and (cast($8 as uuid) is null or e.channel_id = $8) and ",
    visible_at!("e.channel_id", c),
    " group by e.kind"
);

const SELECT_TABLE_COUNTS: &str = concat!(
    "select e.at, e.kind, e.n, coalesce((cast($9 as uuid) is null or e.channel_id = $9) and ",
    visible_at!("e.channel_id", c),
    ", false) from (
         select channel_id as at, nullif(channel_id, $8) as channel_id, kind, n from kind_counts
         where workspace_id = $5 and (channel_id, kind) > ($6, $7)
         order by channel_id, kind limit $10
     ) e left join channels c on c.id = e.channel_id
     order by e.at, e.kind"
);

const COUNT_LATER_EVENTS: &str = concat!(
    "select e.kind, count(*) from events e left join channels c on c.id = e.channel_id
     where e.workspace_id = $5 and e.lsn > $6 and e.lsn <= $7
       and (cast($8 as uuid) is null or e.channel_id = $8) and ",
    visible_at!("e.channel_id", c),
    " group by e.kind"
);

/// Returns the position up to which the table has counts for a workspace.
fn load_table_position(cx: &Read<'_>, workspace: WorkspaceId) -> Result<i64> {
    let at: Option<(i64,)> = cx.one(SELECT_TABLE_POSITION, &[&workspace])?;
    Ok(at.map_or(0, |(lsn,)| lsn))
}

const SELECT_TABLE_POSITION: &str = "select lsn from census_at where workspace_id = $1";

/// Event counts by channel and kind. The channel is `None` for events outside of channels.
pub(crate) type KindCounts = BTreeMap<(Option<ChannelId>, String), i64>;

/// A range of events in a log, with the number of events by channel and kind.
struct EventRange {
    workspace: WorkspaceId,
    after: i64,
    up_to: i64,
    counts: KindCounts,
}

/// The result of searching workspaces for events to count.
enum ScanResult {
    /// The pass has reached the last workspace.
    EndOfPass,
    /// No workspace up to this one has enough new events.
    NoneUpTo(WorkspaceId),
    RangeFound(EventRange),
}

/// Progress of a pass over all workspaces, in the order of their ids.
#[derive(Default)]
struct WorkspacePass {
    last_workspace: Option<WorkspaceId>,
    /// Whether this pass has counted events. If so, another pass follows.
    has_counted: bool,
}

/// Counts the next events of the next log that has enough new events, and adds the counts to the table.
///
/// Workspaces take turns, so no workspace delays the others.
fn count_in_next_log(round: &ChoreRound<'_>, pass: &Mutex<WorkspacePass>) -> Result<StepOutcome> {
    let WorkspacePass { last_workspace, has_counted } = std::mem::take(&mut *lock(pass));
    match round.read(move |cx| find_events_to_count(cx, last_workspace))? {
        ScanResult::EndOfPass => return Ok(if has_counted { StepOutcome::More } else { StepOutcome::Done }),
        ScanResult::NoneUpTo(workspace) => {
            *lock(pass) = WorkspacePass { last_workspace: Some(workspace), has_counted }
        }
        ScanResult::RangeFound(counted) => {
            let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
            *lock(pass) = WorkspacePass { last_workspace: Some(counted.workspace), has_counted: true };
            lead.write(counted.workspace, move |cx| store_counts(cx, &counted))?;
        }
    }
    Ok(StepOutcome::More)
}

/// Returns the next events to count in a workspace after `last`, if a log has enough new events.
fn find_events_to_count(cx: &Read<'_>, last: Option<WorkspaceId>) -> Result<ScanResult> {
    let next = workspaces::next(cx, last, CENSUS_STEP_WORKSPACES_MAX)?;
    for workspace in &next {
        let range = LogRange::of(cx, *workspace)?;
        let after = load_table_position(cx, *workspace)?.max(range.beginning());
        if range.head.saturating_sub(after) >= CENSUS_NEW_EVENTS_MIN {
            let up_to = range.head.min(after.saturating_add(CENSUS_STEP_EVENTS_MAX));
            return Ok(ScanResult::RangeFound(count_range(cx, *workspace, after, up_to)?));
        }
    }
    Ok(next.last().map_or(ScanResult::EndOfPass, |workspace| ScanResult::NoneUpTo(*workspace)))
}

fn count_range(cx: &Read<'_>, workspace: WorkspaceId, after: i64, up_to: i64) -> Result<EventRange> {
    let rows: Vec<(Option<ChannelId>, String, i64)> = cx.query(COUNT_RANGE, &[&workspace, &after, &up_to])?;
    let counts = rows.into_iter().map(|(channel, kind, count)| ((channel, kind), count)).collect();
    Ok(EventRange { workspace, after, up_to, counts })
}

const COUNT_RANGE: &str = "
    select channel_id, kind, count(*) from events where workspace_id = $1 and lsn > $2 and lsn <= $3
    group by channel_id, kind";

/// Adds counts to the table, unless another process has advanced the table's position in the meantime.
fn store_counts(cx: &mut Write<'_>, counted: &EventRange) -> Result<()> {
    let EventRange { workspace, after, up_to, counts } = counted;
    let now = load_table_position(cx, *workspace)?.max(LogRange::read(cx)?.beginning());
    if now != *after {
        return Ok(());
    }
    change_counts(cx, counts, 1)?;
    cx.execute(1, SET_TABLE_POSITION, &[workspace, up_to])
}

/// Subtracts the counts of pruned events from the table.
///
/// `counts` are the counts of the events below `floor`, the new floor of the caller's workspace.
pub(crate) fn subtract_pruned_counts(cx: &mut Write<'_>, floor: i64, counts: &KindCounts) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    let last = floor.saturating_sub(1);
    if load_table_position(cx, workspace)? >= last {
        change_counts(cx, counts, -1)?;
        return cx.execute_any(DELETE_ZERO_COUNTS, &[&workspace]);
    }
    // All events that the table has counted are below the floor.
    cx.execute_any(DELETE_COUNTS, &[&workspace])?;
    cx.execute(1, SET_TABLE_POSITION, &[&workspace, &last])
}

/// Adds the counts to the table if `sign` is 1, or subtracts them if `sign` is -1.
fn change_counts(cx: &mut Write<'_>, counts: &KindCounts, sign: i64) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    for ((channel, kind), count) in counts {
        let channel = channel.map_or(Uuid::nil(), ChannelId::uuid);
        let change = count.saturating_mul(sign);
        cx.execute_any(ADD_TO_COUNT, &[&workspace, &channel, kind, &change])?;
    }
    Ok(())
}

const ADD_TO_COUNT: &str = "
    insert into kind_counts (workspace_id, channel_id, kind, n) values ($1, $2, $3, $4)
    on conflict (workspace_id, channel_id, kind) do update set n = kind_counts.n + excluded.n";

const DELETE_ZERO_COUNTS: &str = "delete from kind_counts where workspace_id = $1 and n = 0";

const DELETE_COUNTS: &str = "delete from kind_counts where workspace_id = $1";

const SET_TABLE_POSITION: &str = "
    insert into census_at (workspace_id, lsn) values ($1, $2)
    on conflict (workspace_id) do update set lsn = excluded.lsn";
