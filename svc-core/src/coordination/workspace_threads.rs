//! The operation that lists the threads in all channels of a workspace, filtered by holder or by whether a
//! member can claim the thread.

use crate::Result;
use crate::conversation::visibility::visible;
use crate::coordination::conflicts::{
    self, ConflictDetail, ConflictReport, DeferralReason, WaitingCandidate, candidate_columns,
};
use crate::coordination::thread_row::{self, Thread, ThreadState, thread_of_workspace, thread_select};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::PAGE_BYTES;
use crate::op::Read;
use crate::page::{Cursor, Limit, Page, PageRows, ScanHorizon, json_bytes, rows_to_read};
use crate::request::request;
use crate::store::ToParam;

request! {
    /// Returns the threads of all channels of a workspace that you may see, oldest first unless you request
    /// the newest first.
    ///
    /// Threads of direct messages are not tasks, and are omitted.
    ///
    /// Each page examines up to 2000 threads, or with `claimable` up to 500 threads and footprints with up to
    /// 500 items, so it may be short or empty although more follow: continue while `next_cursor` is not null.
    pub(in crate::coordination) struct ListWorkspaceThreads {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// Only threads in this state.
        state: Option<ThreadState>,
        /// Only threads whose live claim this member holds.
        assignee_id: Option<MemberId>,
        /// Only threads with (true) or without (false) a live claim.
        claimed: Option<bool>,
        /// Only threads that an active, unfrozen member with the skills can claim now; false for all other
        /// threads.
        claimable: Option<bool>,
        /// Newest first.
        #[serde(default)]
        newest_first: bool,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_workspace_threads() -> Page<Thread>
}

pub(in crate::coordination) fn list_workspace_threads(
    cx: &Read<'_>,
    input: &ListWorkspaceThreads,
) -> Result<Page<Thread>> {
    let workspace = input.workspace_id.of(cx)?;
    let is_claimed = input.claimed == Some(true) || input.assignee_id.is_some();
    // A thread with a live claim cannot be claimed.
    let excludes = is_claimed && (input.claimed == Some(false) || input.claimable == Some(true));
    match (input.assignee_id, input.claimable) {
        _ if excludes => Ok(Page::whole(Vec::new())),
        (Some(holder), _) => list_held_by(cx, input, workspace, holder),
        (None, Some(wanted)) if !is_claimed => list_by_claimability(cx, input, workspace, wanted),
        (None, _) => list_all_in_workspace(cx, input, workspace),
    }
}

/// The range of log positions that one page of the list covers: `first` to `last`, both included.
struct PageSpan {
    first: i64,
    last: i64,
    horizon: ScanHorizon,
}

impl PageSpan {
    /// Returns the span of the page that `input` requests; `horizon_statements` select where a page ends.
    fn of(
        cx: &Read<'_>,
        input: &ListWorkspaceThreads,
        horizon_statements: &OrderedStatements,
        params: &[&dyn ToParam],
    ) -> Result<Self> {
        let from = Cursor::beyond(input.cursor, input.newest_first);
        let horizon = cx.horizon(horizon_statements.in_order(input), params, from)?;
        Ok(Self::up_to(horizon, input))
    }

    /// Like [`PageSpan::of`], for a page that looks up obstacles and therefore covers fewer threads.
    fn of_candidates(
        cx: &Read<'_>,
        input: &ListWorkspaceThreads,
        horizon_statements: &OrderedStatements,
        params: &[&dyn ToParam],
    ) -> Result<Self> {
        let from = Cursor::beyond(input.cursor, input.newest_first);
        let horizon = conflicts::candidate_horizon(cx, horizon_statements.in_order(input), params, from)?;
        Ok(Self::up_to(horizon, input))
    }

    fn up_to(horizon: ScanHorizon, input: &ListWorkspaceThreads) -> Self {
        let from = Cursor::beyond(input.cursor, input.newest_first);
        if input.newest_first {
            Self { first: horizon.down_to(), last: from.saturating_sub(1), horizon }
        } else {
            Self { first: from.saturating_add(1), last: horizon.up_to(), horizon }
        }
    }
}

/// The two statements of a list, one for each order of its items.
struct OrderedStatements {
    oldest_first: &'static str,
    newest_first: &'static str,
}

impl OrderedStatements {
    fn in_order(&self, input: &ListWorkspaceThreads) -> &'static str {
        if input.newest_first { self.newest_first } else { self.oldest_first }
    }
}

fn list_all_in_workspace(
    cx: &Read<'_>,
    input: &ListWorkspaceThreads,
    workspace: WorkspaceId,
) -> Result<Page<Thread>> {
    let PageSpan { first, last, horizon } = PageSpan::of(cx, input, &HORIZON, &[&workspace])?;
    let now = cx.now();
    let rows = rows_to_read(input.limit);
    let params: [&dyn ToParam; 7] = [&workspace, &now, &first, &last, &input.state, &input.claimed, &rows];
    let sql = IN_WORKSPACE.in_order(input);
    let threads = thread_row::select_page(cx, sql, &cx.caller().visibility.params().and(&params))?;
    Ok(Page::within(horizon, threads, input.limit, |thread| thread.lsn))
}

/// The conditions of the list on a thread `t` and its channel `c`.
macro_rules! is_listed {
    () => {
        concat!(
            " t.workspace_id = $5 and t.lsn >= $7 and t.lsn <= $8 and not c.dm
             and (cast($9 as text) is null or t.state = $9)
             and (cast($10 as boolean) is null
                 or $10 = (t.assignee_id is not null and t.assignment_expires_at > $6)) and ",
            visible!(c)
        )
    };
}

macro_rules! in_workspace {
    ($order:literal) => {
        thread_select!("join channels c on c.id = t.channel_id where", is_listed!(), $order, " limit $11")
    };
}

const IN_WORKSPACE: OrderedStatements = OrderedStatements {
    oldest_first: in_workspace!(" order by t.lsn"),
    newest_first: in_workspace!(" order by t.lsn desc"),
};

const HORIZON: OrderedStatements = OrderedStatements {
    oldest_first: "
        select lsn from threads where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3",
    newest_first: "
        select lsn from threads where workspace_id = $1 and lsn < $2 order by lsn desc limit 1 offset $3",
};

/// Returns the threads that a member could claim now if `is_claimable`, or all other threads if not.
fn list_by_claimability(
    cx: &Read<'_>,
    input: &ListWorkspaceThreads,
    workspace: WorkspaceId,
    is_claimable: bool,
) -> Result<Page<Thread>> {
    let PageSpan { first, last, mut horizon } = PageSpan::of_candidates(cx, input, &HORIZON, &[&workspace])?;
    let now = cx.now();
    let params: [&dyn ToParam; 6] = [&workspace, &now, &first, &last, &input.state, &input.claimed];
    let sql = CANDIDATES.in_order(input);
    let candidates: Vec<WaitingCandidate> = cx.query(sql, &cx.caller().visibility.params().and(&params))?;
    let mut waiting = ConflictReport::find(cx, Some(DeferralReason::Any), ConflictDetail::Any, &candidates)?;
    let mut threads = Vec::new();
    let mut bytes = 0_usize;
    let mut covered = None;
    let max_rows = usize::try_from(rows_to_read(input.limit)).unwrap_or(usize::MAX);
    for candidate in candidates {
        let obstacles =
            if candidate.is_waiting { waiting.find_obstacles(cx, &candidate)? } else { Some(Vec::new()) };
        let Some(obstacles) = obstacles else {
            horizon = ScanHorizon(covered);
            break;
        };
        covered = Some(candidate.lsn);
        let ends = cx.must_end_page();
        let can_be_claimed = candidate.is_waiting && obstacles.is_empty();
        let thread =
            if can_be_claimed == is_claimable { thread_of_workspace(cx, candidate.id)? } else { None };
        if let Some(thread) = thread {
            bytes = bytes.saturating_add(json_bytes(&thread)?);
            threads.push(thread);
        }
        if threads.len() >= max_rows || bytes >= PAGE_BYTES {
            break;
        }
        if ends {
            horizon = ScanHorizon(covered);
            break;
        }
    }
    let rows = PageRows::collected(threads, bytes >= PAGE_BYTES);
    Ok(Page::within(horizon, rows, input.limit, |thread: &Thread| thread.lsn))
}

macro_rules! candidates {
    ($order:literal) => {
        concat!(
            "select ",
            candidate_columns!(),
            " from threads t join channels c on c.id = t.channel_id where",
            is_listed!(),
            $order
        )
    };
}

const CANDIDATES: OrderedStatements = OrderedStatements {
    oldest_first: candidates!(" order by t.lsn"),
    newest_first: candidates!(" order by t.lsn desc"),
};

/// Returns the threads that one member has claimed, by the index of claimed threads.
fn list_held_by(
    cx: &Read<'_>,
    input: &ListWorkspaceThreads,
    workspace: WorkspaceId,
    holder: MemberId,
) -> Result<Page<Thread>> {
    let PageSpan { first, last, horizon } =
        PageSpan::of(cx, input, &HORIZON_OF_HOLDER, &[&workspace, &holder])?;
    let now = cx.now();
    let rows = rows_to_read(input.limit);
    let params: [&dyn ToParam; 7] = [&workspace, &now, &first, &last, &input.state, &holder, &rows];
    let sql = HELD_BY.in_order(input);
    let threads = thread_row::select_page(cx, sql, &cx.caller().visibility.params().and(&params))?;
    Ok(Page::within(horizon, threads, input.limit, |thread| thread.lsn))
}

macro_rules! held_by {
    ($order:literal) => {
        thread_select!(
            "join channels c on c.id = t.channel_id
             where t.workspace_id = $5 and t.assignee_id = $10 and t.assignment_expires_at > $6
                and t.lsn >= $7 and t.lsn <= $8 and (cast($9 as text) is null or t.state = $9) and ",
            visible!(c),
            $order,
            " limit $11"
        )
    };
}

const HELD_BY: OrderedStatements = OrderedStatements {
    oldest_first: held_by!(" order by t.lsn"),
    newest_first: held_by!(" order by t.lsn desc"),
};

const HORIZON_OF_HOLDER: OrderedStatements = OrderedStatements {
    oldest_first: "
        select lsn from threads where workspace_id = $1 and assignee_id = $2 and lsn > $3
        order by lsn limit 1 offset $4",
    newest_first: "
        select lsn from threads where workspace_id = $1 and assignee_id = $2 and lsn < $3
        order by lsn desc limit 1 offset $4",
};
