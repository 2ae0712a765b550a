//! Operations that read threads: one thread with its notices and result, lists of threads, and a thread's
//! events.
//!
//! No function in this file makes a change.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::conversation::messages::{self, OpenedEvent};
use crate::conversation::visibility;
use crate::coordination::context::get_thread_context;
use crate::coordination::notices::{self, Notice};
use crate::coordination::queue::{self, QueueRequest, QueueScope};
use crate::coordination::results;
use crate::coordination::thread_row::{self, Thread, ThreadState, thread_select, visible_thread};
use crate::coordination::workspace_threads::list_workspace_threads;
use crate::error::Code;
use crate::id::{ChannelId, MemberId, ThreadId};
use crate::log::stored_event::{StoredEvent, event_columns};
use crate::op::{Feature, Read, read};
use crate::page::{Cursor, Limit, Page, PageRows, ScanHorizon, rows_to_read};
use crate::request::{dereferences, request};
use crate::schema::brief;
use crate::store::ToParam;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "threads",
        vec![
            read("get_thread", get_thread)
                .quick()
                .title("Read a thread")
                .when(
                    "Get a thread with its last notices and result. Use `get_thread_context` to work on it \
                     or read its messages.",
                )
                .get("/threads/{thread_id}")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"thread_id": w.id("done_thread")})),
            read("list_threads", list_threads)
                .title("List a channel's threads")
                .when("List the threads of one channel. Use `list_workspace_threads` for all channels.")
                .detailed()
                .get("/channels/{channel_id}/threads")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"channel_id": w.id("channel"), "state": "open", "limit": 10})),
            read("list_child_threads", list_child_threads)
                .title("List a thread's children")
                .when("List the child threads (subtasks) of a thread, oldest first.")
                .detailed()
                .get("/threads/{thread_id}/children")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"thread_id": w.id("thread"), "limit": 10})),
            read("list_workspace_threads", list_workspace_threads)
                .title("List a workspace's threads")
                .when("List the threads of all channels. Use `claim_next_workspace_thread` to get work.")
                .detailed()
                .get("/workspaces/{workspace_id}/threads")
                .needs(&[WorkspaceRead])
                .example(|w| {
                    json!({
                        "workspace_id": w.id("workspace"), "state": "open", "assignee_id": w.id("admin"),
                        "limit": 10,
                    })
                }),
            read("get_thread_context", get_thread_context)
                .title("Read the context of a thread")
                .when(
                    "Get a thread's task, state and last messages. Use before you work on, review or reply \
                     to it. Use `list_messages` for older messages.",
                )
                .detailed()
                .get("/threads/{thread_id}/context")
                .needs(&[WorkspaceRead])
                .refuses(&[Code::MustRefetch])
                .example(|w| json!({"thread_id": w.id("thread"), "include_glossary": true})),
            read("list_thread_events", list_thread_events)
                .title("List a thread's events")
                .when("List the events of one thread, oldest first. Use `list_messages` for its messages.")
                .detailed()
                .get("/threads/{thread_id}/events")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"thread_id": w.id("thread"), "newest_first": true, "limit": 10})),
        ],
    )
}

/// A thread with its latest notices and its latest result.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ThreadDetail {
    #[serde(flatten)]
    pub thread: Thread,
    /// The latest result, even after the thread was reopened; null if no result was set or the result was
    /// purged.
    pub result: Option<Value>,
    /// The member who set the latest result; null if no result was set.
    pub produced_by: Option<MemberId>,
    /// The last 10 notices, newest first.
    pub notices: Vec<Notice>,
}

dereferences! { ThreadDetail => thread: Thread }

request! {
    /// Returns a thread with its last 10 notices and its latest result.
    struct GetThread {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    get_thread(thread_id: ThreadId) -> ThreadDetail
}

fn get_thread(cx: &Read<'_>, input: &GetThread) -> Result<ThreadDetail> {
    let thread = visible_thread(cx, input.thread_id)?;
    let latest = results::latest(cx, thread.id)?;
    let (result, produced_by) = latest.map(|latest| (latest.result, latest.produced_by)).unzip();
    let result = result.flatten().map(Value::Object);
    Ok(ThreadDetail { notices: notices::last_notices(cx, thread.id)?, thread, result, produced_by })
}

request! {
    /// Returns the threads of a channel, oldest first unless you request the newest first.
    ///
    /// Each page examines up to 2000 threads, so with a filter it may be short or empty although more follow:
    /// continue while `next_cursor` is not null.
    #[schemars(transform = brief(""))]
    struct ListThreads {
        /// Id of the channel.
        channel_id: ChannelId,
        /// Only threads in this state.
        state: Option<ThreadState>,
        /// Newest first.
        #[serde(default)]
        newest_first: bool,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_threads(channel_id: ChannelId) -> Page<Thread>
}

fn list_threads(cx: &Read<'_>, input: &ListThreads) -> Result<Page<Thread>> {
    if input.newest_first {
        return list_newest_threads(cx, input);
    }
    list_threads_in_channel(cx, input.channel_id, input.state, input.cursor, input.limit)
}

fn list_newest_threads(cx: &Read<'_>, input: &ListThreads) -> Result<Page<Thread>> {
    let channel = visibility::visible_channel(cx, input.channel_id)?;
    let before = Cursor::before(input.cursor);
    let rows = rows_to_read(input.limit);
    let horizon = match input.state {
        Some(_) => cx.horizon(HORIZON_OF_NEWEST, &[&channel.id], before)?,
        None => ScanHorizon(None),
    };
    let params: [&dyn ToParam; 5] = [&channel.id, &before, &input.state, &rows, &horizon.down_to()];
    Ok(thread_page(horizon, thread_row::select_page(cx, NEWEST_IN_CHANNEL, &params)?, input.limit))
}

const NEWEST_IN_CHANNEL: &str = thread_select!(
    "where t.channel_id = $1 and t.lsn < $2 and t.lsn >= $5 and (cast($3 as text) is null or t.state = $3)
     order by t.lsn desc limit $4"
);

const HORIZON_OF_NEWEST: &str =
    "select lsn from threads where channel_id = $1 and lsn < $2 order by lsn desc limit 1 offset $3";

/// Returns the threads of a channel that the caller may see, oldest first.
pub(crate) fn list_threads_in_channel(
    cx: &Read<'_>,
    channel: ChannelId,
    state: Option<ThreadState>,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
) -> Result<Page<Thread>> {
    let channel = visibility::visible_channel(cx, channel)?;
    let after = Cursor::after(cursor);
    let rows = rows_to_read(limit);
    let horizon = match state {
        Some(_) => cx.horizon(HORIZON_IN_CHANNEL, &[&channel.id], after)?,
        None => ScanHorizon(None),
    };
    let params: [&dyn ToParam; 5] = [&channel.id, &after, &state, &rows, &horizon.up_to()];
    Ok(thread_page(horizon, thread_row::select_page(cx, IN_CHANNEL, &params)?, limit))
}

const IN_CHANNEL: &str = thread_select!(
    "where t.channel_id = $1 and t.lsn > $2 and t.lsn <= $5 and (cast($3 as text) is null or t.state = $3)
     order by t.lsn limit $4"
);

const HORIZON_IN_CHANNEL: &str =
    "select lsn from threads where channel_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

fn thread_page(horizon: ScanHorizon, threads: PageRows<Thread>, limit: Option<Limit>) -> Page<Thread> {
    Page::within(horizon, threads, limit, |thread| thread.lsn)
}

request! {
    /// Returns the child threads of a thread, oldest first.
    struct ListChildThreads {
        /// The parent thread.
        thread_id: ThreadId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_child_threads(thread_id: ThreadId) -> Page<Thread>
}

fn list_child_threads(cx: &Read<'_>, input: &ListChildThreads) -> Result<Page<Thread>> {
    let parent = visible_thread(cx, input.thread_id)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let threads = thread_row::select_page(cx, CHILDREN, &[&parent.id, &after, &rows])?;
    Ok(thread_page(ScanHorizon(None), threads, input.limit))
}

/// Needs no check of visibility: the caller may see the parent, and children are in the same channel.
const CHILDREN: &str = thread_select!("where t.parent_id = $1 and t.lsn > $2 order by t.lsn limit $3");

/// Returns the thread that `claim_next_workspace_thread` would claim for the caller now, or `None` if there
/// is none.
pub(crate) fn find_next_thread_for_caller(cx: &Read<'_>) -> Result<Option<Thread>> {
    let caller = cx.caller();
    if !caller.is_member() || !caller.capabilities.has(ThreadTransition) || caller.frozen {
        return Ok(None);
    }
    let next = queue::find_next_thread(cx, &QueueRequest { scope: QueueScope::Workspace, repo: None })?;
    next.map(|next| visible_thread(cx, next.thread_id)).transpose()
}

request! {
    /// Returns a thread's events, oldest first unless you request the newest first.
    ///
    /// Returns the stored events with their chained hashes, as in the workspace's log.
    ///
    /// The payload of a message's event contains the content as it was hashed: sealed. `message` beside the
    /// payload contains the plaintext, which is blank once the message is withdrawn.
    struct ListThreadEvents {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Newest first.
        #[serde(default)]
        newest_first: bool,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_thread_events(thread_id: ThreadId) -> Page<OpenedEvent>
}

fn list_thread_events(cx: &Read<'_>, input: &ListThreadEvents) -> Result<Page<OpenedEvent>> {
    let thread = visible_thread(cx, input.thread_id)?;
    let sql = if input.newest_first { NEWEST_EVENTS } else { EVENTS };
    let from = Cursor::beyond(input.cursor, input.newest_first);
    let rows = rows_to_read(input.limit);
    let events = cx.rows(sql, &[&thread.id, &from, &cx.caller().workspace_id, &rows])?;
    messages::add_message_content(cx, Page::of(events, input.limit, |event: &StoredEvent| event.lsn))
}

/// Selects the events of a thread, except events before the log's floor.
macro_rules! thread_events {
    ($which:literal) => {
        concat!(
            "select ",
            event_columns!(),
            " from events e where e.thread_id = $1
                and e.lsn >= (select h.floor from heads h where h.workspace_id = $3) ",
            $which
        )
    };
}

const EVENTS: &str = thread_events!("and e.lsn > $2 order by e.lsn limit $4");

const NEWEST_EVENTS: &str = thread_events!("and e.lsn < $2 order by e.lsn desc limit $4");
