//! The threads of all channels of a workspace, by who works on them and who could.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Result;
use crate::conversation::places::visible;
use crate::coordination::thread::{self, Thread, ThreadState, thread_of_workspace, thread_select};
use crate::coordination::waiting::{Candidate, Reason, Waiting, candidate_columns};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::workspaces::Here;
use crate::limits::PAGE_BYTES;
use crate::op::Read;
use crate::page::{Cursor, Limit, Page, Rows, json_bytes, rows_to_read};
use crate::store::ToParam;

/// Returns the threads of all channels of a workspace that you may see, oldest first.
///
/// Those of direct messages are no tasks, and are left out. One page covers at most 2000 threads, so it may
/// be short or empty although there is more: continue while `next_cursor` is not null.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::coordination) struct ListWorkspaceThreads {
    /// The workspace. It must be yours.
    workspace_id: Here,
    /// Only threads in this state.
    state: Option<ThreadState>,
    /// Only threads whose live claim this member holds.
    assignee_id: Option<MemberId>,
    /// Whether they have a live claim.
    claimed: Option<bool>,
    /// Whether they can be claimed now, by you or by an active member who has the skills.
    claimable: Option<bool>,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
}

pub(in crate::coordination) fn list_workspace_threads(
    cx: &Read<'_>,
    input: &ListWorkspaceThreads,
) -> Result<Page<Thread>> {
    let workspace = input.workspace_id.of(cx)?;
    let is_claimed = input.claimed == Some(true) || input.assignee_id.is_some();
    // Nobody can claim what somebody works on.
    let excludes = is_claimed && (input.claimed == Some(false) || input.claimable == Some(true));
    match (input.assignee_id, input.claimable) {
        _ if excludes => Ok(Page::whole(Vec::new())),
        (Some(holder), _) => held_by(cx, input, workspace, holder),
        (None, Some(wanted)) if !is_claimed => by_claimability(cx, input, workspace, wanted),
        (None, _) => in_workspace(cx, input, workspace),
    }
}

fn in_workspace(cx: &Read<'_>, input: &ListWorkspaceThreads, workspace: WorkspaceId) -> Result<Page<Thread>> {
    let (after, rows) = (Cursor::after(input.cursor), rows_to_read(input.limit));
    let horizon = cx.horizon(HORIZON, &[&workspace], after)?;
    let (now, last) = (cx.now(), horizon.up_to());
    let params: [&dyn ToParam; 7] = [&workspace, &now, &after, &last, &input.state, &input.claimed, &rows];
    let threads = thread::select(cx, IN_WORKSPACE, &cx.caller().sight.params().and(&params))?;
    Ok(Page::within(horizon, threads, input.limit, |thread| thread.lsn))
}

/// The conditions of the list on a thread `t` and its channel `c`.
macro_rules! is_listed {
    () => {
        concat!(
            " t.workspace_id = $5 and t.lsn > $7 and t.lsn <= $8 and not c.dm
             and (cast($9 as text) is null or t.state = $9)
             and (cast($10 as boolean) is null
                 or $10 = (t.assignee_id is not null and t.assignment_expires_at > $6)) and ",
            visible!(c)
        )
    };
}

const IN_WORKSPACE: &str =
    thread_select!("join channels c on c.id = t.channel_id where", is_listed!(), " order by t.lsn limit $11");

const HORIZON: &str =
    "select lsn from threads where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

/// Returns the threads that somebody could claim now, or those that nobody could.
fn by_claimability(
    cx: &Read<'_>,
    input: &ListWorkspaceThreads,
    workspace: WorkspaceId,
    wanted: bool,
) -> Result<Page<Thread>> {
    let after = Cursor::after(input.cursor);
    let horizon = cx.horizon(HORIZON, &[&workspace], after)?;
    let (now, last) = (cx.now(), horizon.up_to());
    let params: [&dyn ToParam; 6] = [&workspace, &now, &after, &last, &input.state, &input.claimed];
    let candidates: Vec<Candidate> = cx.query(CANDIDATES, &cx.caller().sight.params().and(&params))?;
    let mut waiting = Waiting::for_reason(Some(Reason::Any), 1);
    let (mut threads, mut bytes) = (Vec::new(), 0_usize);
    let most = usize::try_from(rows_to_read(input.limit)).unwrap_or(usize::MAX);
    for candidate in candidates {
        let claimable = candidate.is_waiting && waiting.obstacles(cx, &candidate)?.is_empty();
        if claimable != wanted {
            continue;
        }
        let Some(thread) = thread_of_workspace(cx, candidate.id)? else { continue };
        bytes = bytes.saturating_add(json_bytes(&thread)?);
        threads.push(thread);
        if threads.len() >= most || bytes >= PAGE_BYTES {
            break;
        }
    }
    let rows = Rows::collected(threads, bytes >= PAGE_BYTES);
    Ok(Page::within(horizon, rows, input.limit, |thread: &Thread| thread.lsn))
}

const CANDIDATES: &str = concat!(
    "select ",
    candidate_columns!(),
    " from threads t join channels c on c.id = t.channel_id where",
    is_listed!(),
    " order by t.lsn"
);

/// By the index of claimed threads.
fn held_by(
    cx: &Read<'_>,
    input: &ListWorkspaceThreads,
    workspace: WorkspaceId,
    holder: MemberId,
) -> Result<Page<Thread>> {
    let (after, rows) = (Cursor::after(input.cursor), rows_to_read(input.limit));
    let horizon = cx.horizon(HORIZON_OF_HOLDER, &[&workspace, &holder], after)?;
    let (now, last) = (cx.now(), horizon.up_to());
    let params: [&dyn ToParam; 7] = [&workspace, &now, &after, &last, &input.state, &holder, &rows];
    let threads = thread::select(cx, HELD_BY, &cx.caller().sight.params().and(&params))?;
    Ok(Page::within(horizon, threads, input.limit, |thread| thread.lsn))
}

const HELD_BY: &str = thread_select!(
    "join channels c on c.id = t.channel_id
     where t.workspace_id = $5 and t.assignee_id = $10 and t.assignment_expires_at > $6
        and t.lsn > $7 and t.lsn <= $8 and (cast($9 as text) is null or t.state = $9) and ",
    visible!(c),
    " order by t.lsn limit $11"
);

const HORIZON_OF_HOLDER: &str = "
    select lsn from threads where workspace_id = $1 and assignee_id = $2 and lsn > $3
    order by lsn limit 1 offset $4";
