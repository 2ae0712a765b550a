//! The event log, restricted to the events that each reader may see.
//!
//! Events in a private channel are returned only to its members; all other events are visible to every member
//! of the workspace. Payloads are returned in the form that was hashed. Messages are sealed in payloads;
//! their plaintext is returned next to the payload.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::capability::Capability::{EventSubscribe, WorkspaceRead};
use crate::conversation::messages::{OpenedEvent, add_message_content};
use crate::conversation::visibility::{visible_at, visible_thread_place};
use crate::error::{Code, Error, Result};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::identity::enrol::MemberCreated;
use crate::identity::floor::LogRange;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::bus::EventFilter;
use crate::log::event::Event;
use crate::log::stored_event::{StoredEvent, event_columns};
use crate::log::verify::{
    Break, ChainHead, ChainReport, ExpectedFound, ExpectedHead, LogVerification, Source,
};
use crate::op::{Feature, LongPoll, Poll, Read, Records, SharedState, WaitSecs, read, reading, wait};
use crate::page::{Cursor, Limit, Page, ScanHorizon, rows_to_read};
use crate::request::{dereferences, paged_outputs, request};
use crate::store::{ToParam, Visitor};
use crate::stream::{catch_up, tombstones};
use crate::text::{Count, Text};
use crate::time::Time;

/// Maximum number of characters in the name of an event kind.
const KIND_NAME_MAX: usize = 100;

/// Name of an event kind, as sent by a caller.
pub type KindName = Text<1, KIND_NAME_MAX>;

/// Maximum number of characters in an expected head: a position, a colon, and a hash with its algorithm.
const EXPECTED_HEAD_MAX: usize = 100;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "events",
            vec![
                read("list_events", list_events)
                    .title("Read the event log")
                    .when(
                        "List the events of the workspace's log, oldest first. Use `wait_for_event` to wait \
                         for new events, `list_thread_events` for one thread.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/events")
                    .needs(&[WorkspaceRead])
                    .refuses(&[Code::MustRefetch])
                    .example(|w| {
                        json!({
                            "workspace_id": w.id("workspace"), "after_id": 1, "thread_id": w.id("thread"),
                            "limit": 10,
                        })
                    }),
                reading("verify_event_chain")
                    .prepare(begin_verification)
                    .in_pages(verify_next_page)
                    .title("Verify the event log")
                    .when(
                        "Verify the hash chain of the whole event log, to prove that the log was not \
                         changed.",
                    )
                    .get("/workspaces/{workspace_id}/events/verify")
                    .needs(&[WorkspaceRead])
                    .refuses(&[Code::EventLogBroken])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
                wait("wait_for_event", wait_for_event)
                    .title("Wait for an event")
                    .when(
                        "Wait for new events and return them as `list_events` does. Use `wait_for_ready` to \
                         wait for a task, `wait_for_mention` for messages to you.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/wait/event")
                    .needs(&[EventSubscribe])
                    .refuses(&[Code::MustRefetch])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "after_id": 0, "kind": MemberCreated::KIND,
                        "timeout_secs": 5})
                    }),
                catch_up::operation(),
                tombstones::operation(),
            ],
        )
        .records(vec![
            Records::table("events", "lsn")
                .after("workspaces")
                .ids("workspace_id channel_id thread_id member_id")
                .ints("lsn")
                .texts("kind payload")
                .times("at")
                .hashes("prev_hash content_hash")
                .unproven(
                    "lsn kind at channel_id thread_id member_id payload prev_hash content_hash",
                    "is the log itself, which its chain proves",
                ),
            Records::table("heads", "workspace_id").stays(),
            Records::table("taps", "name workspace_id").stays(),
            Records::of_instance("schema_migrations"),
            Records::of_instance("leases"),
            Records::of_instance("key_checks"),
            Records::of_instance("rate_windows"),
        ])
}

request! {
    /// Returns the events of a workspace's log, oldest first.
    ///
    /// Start with `after_id`, and continue with the `after_id` of the result. Events in private channels that
    /// you are not in, and events that do not match the filters, are omitted.
    ///
    /// One page covers up to 2000 events and ends at 1 MiB, so it may be short or empty although there is
    /// more: you have caught up when `next_cursor` is null.
    ///
    /// The payload of a message's event contains the content as it was hashed: sealed. `message` next to it
    /// contains the plaintext, which is blank if the message was withdrawn.
    ///
    /// Fails with 409 `must_refetch` if the log lacks the events after the given position, because they were
    /// pruned or an older log was restored.
    struct ListEvents {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Only events after this id. Default: the whole log. Ignored if `cursor` is given.
        after_id: Option<Count<0, { i64::MAX }>>,
        cursor: Option<Cursor>,
        /// Only events in this channel.
        channel_id: Option<ChannelId>,
        /// Only events in this thread.
        thread_id: Option<ThreadId>,
        /// Only events about this member.
        member_id: Option<MemberId>,
        /// Only events of this kind, such as `ThreadCreated`.
        kind: Option<KindName>,
        limit: Option<Limit>,
    }

    list_events() -> EventPage
}

/// Events from a range of the log, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct EventPage {
    #[serde(flatten)]
    pub events: Page<OpenedEvent>,
    /// The position up to which the log was read, including omitted events.
    ///
    /// Pass it as `after_id` to continue, now or later.
    pub after_id: i64,
    /// The id of the last event in the log; 0 if the log is empty.
    pub room_lsn: i64,
}

dereferences! { EventPage => events: Page<OpenedEvent> }
paged_outputs! { EventPage => events: OpenedEvent }

fn list_events(cx: &Read<'_>, input: &ListEvents) -> Result<EventPage> {
    let selection = EventSelection {
        workspace_id: input.workspace_id.of(cx)?,
        channel_id: input.channel_id,
        thread_id: input.thread_id,
        member_id: input.member_id,
        kind: input.kind.clone(),
    };
    let after = input.cursor.map(|cursor| cursor.0).or(input.after_id.map(Count::get));
    load_event_page(cx, &selection, after, input.limit)
}

/// The filter of an event list. Inputs of operations are flat, so they repeat these fields.
struct EventSelection {
    workspace_id: WorkspaceId,
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
    member_id: Option<MemberId>,
    kind: Option<KindName>,
}

/// SQL statement that reads a page of events.
///
/// The conditions `$workspace` and `$thread` decide which index is used.
macro_rules! page_sql {
    ($workspace:literal, $thread:literal) => {
        concat!(
            "select ",
            event_columns!(),
            "
    from events e
    left join channels c on c.id = e.channel_id
    where ",
            $workspace,
            " and e.lsn > $6 and e.lsn <= $7 and ",
            visible_at!("e.channel_id", c),
            "
      and (cast($8 as uuid) is null or e.channel_id = $8)
      and ",
            $thread,
            "
      and (cast($10 as uuid) is null or e.member_id = $10)
      and (cast($11 as text) is null or e.kind = $11)
    order by e.lsn limit $12"
        )
    };
}

/// Reads a page of a workspace's events by the index on the workspace.
const SELECT_PAGE: &str = page_sql!("e.workspace_id = $5", "(cast($9 as uuid) is null or e.thread_id = $9)");

/// Reads a page of a thread's events by the index on the thread.
///
/// The workspace is compared in a form that no index serves, because SQLite would otherwise scan the whole
/// log.
const SELECT_THREAD_PAGE: &str = page_sql!("(e.workspace_id = $5) is true", "e.thread_id = $9");

const SELECT_THREAD_HORIZON: &str =
    "select lsn from events where thread_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

/// Returns whether a thread exists and the caller may see it.
pub(super) fn can_see_thread(cx: &Read<'_>, thread: ThreadId) -> Result<bool> {
    match visible_thread_place(cx, thread) {
        Err(error) if error.code() == Code::NotFound => Ok(false),
        found => found.map(|_| true),
    }
}

/// Returns a page of the events after `after` that match the filter. Events that the caller may not see are
/// omitted.
///
/// The head is read first: everything up to it is committed, so a page without events has covered the log up
/// to the head.
fn load_event_page(
    cx: &Read<'_>,
    selection: &EventSelection,
    after: Option<i64>,
    limit: Option<Limit>,
) -> Result<EventPage> {
    let EventSelection { workspace_id, channel_id, thread_id, member_id, kind } = selection;
    let range = LogRange::read(cx)?;
    let room_lsn = range.head;
    let after = after.unwrap_or(range.beginning());
    range.check_has_all_events_after(*workspace_id, after)?;
    let (sql, horizon) = match *thread_id {
        // A hidden thread is treated as one that does not exist, because the position that a page reaches
        // would reveal the number of its events.
        Some(thread) if !can_see_thread(cx, thread)? => {
            let after_id = after.max(room_lsn);
            return Ok(EventPage { events: Page::whole(Vec::new()), after_id, room_lsn });
        }
        Some(thread) => (SELECT_THREAD_PAGE, cx.horizon(SELECT_THREAD_HORIZON, &[&thread], after)?),
        None => (SELECT_PAGE, ScanHorizon::above(after, room_lsn)),
    };
    let visibility = cx.caller().visibility.params();
    let last = room_lsn.min(horizon.up_to());
    let rows = rows_to_read(limit);
    let params =
        visibility.and(&[workspace_id, &after, &last, channel_id, thread_id, member_id, kind, &rows]);
    let stored = Page::within(horizon, cx.rows(sql, &params)?, limit, |event: &StoredEvent| event.lsn);
    let events = add_message_content(cx, stored)?;
    let after_id = events.next_cursor().map_or(after.max(room_lsn), |cursor| cursor.0);
    Ok(EventPage { events, after_id, room_lsn })
}

request! {
    /// Waits for events and returns them as `list_events` does.
    ///
    /// If there are matching events after `after_id`, the call returns immediately, otherwise as soon as one
    /// is added. Returns `{"timed_out": true}` on timeout; then wait again with the same `after_id`. Every
    /// result of `list_events` contains the id of the last event as `room_lsn`.
    ///
    /// If the call times out before it has read the whole log, the page is empty; continue with the page's
    /// `after_id`.
    ///
    /// Fails with 409 `must_refetch` if the log lacks the events after the given position, because they were
    /// pruned or an older log was restored.
    #[derive(Debug, Serialize)]
    pub struct WaitForEvent {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Only events after this id; 0 is the beginning of a log that was never pruned.
        after_id: Count<0, { i64::MAX }>,
        /// Only events in this channel.
        channel_id: Option<ChannelId>,
        /// Only events in this thread.
        thread_id: Option<ThreadId>,
        /// Only events about this member.
        member_id: Option<MemberId>,
        /// Only events of this kind, such as `ThreadCreated`.
        kind: Option<KindName>,
        limit: Option<Limit>,
        timeout_secs: Option<WaitSecs<0>>,
    }

    wait_for_event(after_id: Count<0, { i64::MAX }>) -> crate::op::WaitOutput<EventPage>
}

impl LongPoll for WaitForEvent {
    fn filter(&self) -> EventFilter {
        EventFilter::on(self.kind.as_deref())
            .in_channel(self.channel_id)
            .in_thread(self.thread_id)
            .about(self.member_id)
    }

    fn timeout(&self) -> Duration {
        WaitSecs::timeout(self.timeout_secs)
    }
}

fn wait_for_event(cx: &Read<'_>, input: &mut WaitForEvent) -> Result<Poll<EventPage>> {
    let selection = EventSelection {
        workspace_id: input.workspace_id.of(cx)?,
        channel_id: input.channel_id,
        thread_id: input.thread_id,
        member_id: input.member_id,
        kind: input.kind.clone(),
    };
    let page = load_event_page(cx, &selection, Some(input.after_id.get()), input.limit)?;
    if !page.events.items().is_empty() {
        return Ok(Poll::Ready(page));
    }
    // Do not read the same events again.
    input.after_id = Count::new(page.after_id).map_err(Error::internal)?;
    Ok(if page.events.next_cursor().is_some() { Poll::More(page) } else { Poll::Pending })
}

request! {
    /// Verifies the hash chain of a workspace's whole log and returns its head.
    ///
    /// Every column, hash and link, and the head, are checked against the stored bytes. A pruned log is
    /// verified from its floor on, from the start that its pruning event declares. Keep the head, and pass it
    /// later as `expect_head` to prove that no earlier event was changed.
    ///
    /// Only one verification runs per workspace at a time; a second one is rejected with 429 `rate-limited`.
    /// A verification of a long log may take a while; after 60 s it fails with 503 `overloaded`, and `svc
    /// verify` can be used instead.
    ///
    /// Fails with 409 `event-log-broken`, with the `lsn` of the first broken event, if the log is broken or
    /// does not contain `expect_head`.
    struct VerifyEventChain {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// A head that the log must contain, as `LSN:HASH`, such as one returned by an earlier call.
        #[schemars(regex(pattern = r"^[0-9]{1,18}:(sha256:)?[0-9A-Fa-f]{64}$"))]
        expect_head: Option<Text<3, EXPECTED_HEAD_MAX>>,
    }

    verify_event_chain() -> ChainVerifyReport
}

/// The result of verifying an intact log.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChainVerifyReport {
    /// Id of the workspace whose log was verified.
    pub workspace_id: WorkspaceId,
    /// Always true: a broken log is reported as an error.
    pub valid: bool,
    /// The number of events verified.
    pub events: i64,
    /// The id of the oldest event that remains in the log.
    pub floor: i64,
    /// The position and hash of the last event.
    pub head: ChainHead,
    /// Whether the log contains `expect_head`; null if `expect_head` is absent.
    ///
    /// If the head is older than the floor, the value is `below-floor`: the event was pruned, so nothing is
    /// broken and nothing is proven.
    pub expected: Option<ExpectedFound>,
}

impl Source for Read<'_> {
    fn visit(&self, sql: &'static str, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()> {
        Read::visit(self, sql, params, each)
    }

    fn visit_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
        each: Visitor<'_>,
    ) -> Result<()> {
        Read::visit_within(self, bytes, sql, params, each)
    }
}

/// A verification of a log, which starts when its first page is read.
struct PagedVerification {
    expected: Option<ExpectedHead>,
    verification: Option<LogVerification>,
}

fn begin_verification(input: &VerifyEventChain, _: &SharedState, _: Time) -> Result<PagedVerification> {
    let expected = input.expect_head.as_deref().map(str::parse::<ExpectedHead>).transpose()?;
    Ok(PagedVerification { expected, verification: None })
}

fn verify_next_page(
    cx: &Read<'_>,
    input: &VerifyEventChain,
    paged: &mut PagedVerification,
) -> Result<Option<ChainVerifyReport>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let expected = paged.expected.take();
    let verification = paged.verification.get_or_insert_with(|| LogVerification::new(workspace_id, expected));
    verification.next_page(cx)?.map(report_or_error).transpose()
}

/// Returns the report of an intact log, or an error that contains the position of the broken event.
fn report_or_error(report: ChainReport) -> Result<ChainVerifyReport> {
    let ChainReport { workspace_id, valid, events, floor, head, expected, broken } = report;
    match broken {
        None => Ok(ChainVerifyReport { workspace_id, valid, events, floor, head, expected }),
        Some(broken) => Err(broken_log_error(workspace_id, broken)),
    }
}

/// Returns the error for a broken log, with the position and the defect of the broken event.
pub(crate) fn broken_log_error(workspace_id: WorkspaceId, broken: Break) -> Error {
    let reason = broken.defect.reason();
    Error::new(Code::EventLogBroken, format!("the event log is broken at {}: {reason}", broken.lsn))
        .with("workspace_id", workspace_id)
        .with("lsn", broken.lsn)
        .with("defect", broken.defect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::verify::Defect;

    #[test]
    fn a_broken_log_is_a_problem_that_names_the_event() {
        let report = |broken: Option<Break>| ChainReport {
            workspace_id: WorkspaceId::INSTANCE,
            valid: broken.is_none(),
            events: 6,
            floor: 1,
            head: ChainHead { lsn: 6, hash: "sha256:00".to_owned() },
            expected: None,
            broken,
        };
        assert_eq!(report_or_error(report(None)).unwrap().events, 6);
        let error = report_or_error(report(Some(Break { lsn: 7, defect: Defect::Content }))).unwrap_err();
        let body = serde_json::to_value(error.problem()).unwrap();
        assert_eq!(
            (error.code(), &body["lsn"], &body["defect"]),
            (Code::EventLogBroken, &7.into(), &"content".into())
        );
    }

    #[test]
    fn a_threads_events_are_read_by_thread() {
        assert!(SELECT_PAGE.contains("e.workspace_id = $5 and"));
        assert!(SELECT_THREAD_PAGE.contains("and e.thread_id = $9"));
    }
}
