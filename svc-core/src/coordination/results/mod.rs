//! Results: the outcome of a thread, as a JSON object that its worker sets.
//!
//! Setting a result ends the claim; the thread stays open and cannot be claimed again until it is reopened. A
//! reopened thread can have another result; reads return the latest result. One call can submit a result and
//! move the thread to another state. A result is stored as the canonical text whose hash the event contains.

mod kind;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::claims::{ClaimEnd, check_holder, end_claim};
use super::workers;
use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::conversation::inbox::{self, InboxReason, Recipients};
use crate::conversation::visibility::visible;
use crate::coordination::lifecycle::transition::{self, ThreadAction};
use crate::coordination::thread_row::{ThreadState, visible_thread};
use crate::error::{Code, Error};
use crate::hash::{format_hash, sha256};
use crate::id::{LeaseId, MemberId, ThreadId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::JSON_MAX_BYTES;
use crate::log::bus::EventFilter;
use crate::log::canonical;
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Answer, DestroyPermit, Effect, Feature, LongPoll, Poll, Read, Records, Sample, SharedState, WaitSecs,
    Write, changing, read, wait,
};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::{dereferences, request};
use crate::schema::brief;
use crate::store::columns;
use crate::time::Time;
use kind::ResultKind;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "results",
            vec![
                changing("set_thread_result", Effect::Write)
                    .prepare(prepare_result)
                    .run(set_thread_result)
                    .title("Set a thread's result")
                    .when(
                        "Submit the result of a thread that you have claimed, which ends your claim. Use \
                         `release_claim` if you cannot finish.",
                    )
                    .put("/threads/{thread_id}/result")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState, Code::CloseRefused, Code::StaleClaim, Code::ClaimNotHeld])
                    .example(|w| {
                        json!({
                            "thread_id": w.id("claimed_thread"), "claim_lease_id": w.id("lease"),
                            "result": {"summary": "The parser is ported.", "tests": 42},
                            "result_kind": "example.port/1", "action": "start_review",
                        })
                    }),
                read("get_thread_result", get_thread_result)
                    .title("Read a thread's result")
                    .when("Get a thread's latest result. Use `wait_for_result` to wait for one.")
                    .get("/threads/{thread_id}/result")
                    .needs(&[WorkspaceRead])
                    .refuses(&[Code::NotFound])
                    .example(|w| json!({"thread_id": w.id("done_thread")})),
                read("list_thread_results", list_thread_results)
                    .title("List the results of a workspace")
                    .when(
                        "List the latest results of the workspace's threads. Use `get_thread_result` for one \
                         thread.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/results")
                    .needs(&[WorkspaceRead])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "result_kind": "example.port/1",
                               "limit": 10})
                    }),
                wait("wait_for_result", wait_for_result)
                    .title("Wait for a thread's result")
                    .when(
                        "Wait until a thread, such as a child, has a result. Use `get_thread_result` to read \
                         without waiting.",
                    )
                    .get("/threads/{thread_id}/wait/result")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"thread_id": w.id("done_thread"), "timeout_secs": 1})),
            ],
        )
        .events(vec![EventKind::of::<ThreadResultSet>()])
        .sample(
            Sample::new(
                "done_thread",
                "create_thread",
                |w| json!({"channel_id": w.id("channel"), "title": "Choose a name"}),
            )
            .then("claim_thread", |w| json!({"thread_id": w.id("done_thread")}))
            .then(
                "set_thread_result",
                |w| json!({"thread_id": w.id("done_thread"), "result": {"name": "svc"}}),
            ),
        )
        .records(vec![
            Records::table("results", "lsn thread_id")
                .after("threads")
                .ids("thread_id workspace_id produced_by")
                .ints("lsn")
                .times("produced_at")
                .texts("result_kind")
                .words("result", purge_results)
                .proven("thread_id lsn", "result_kind produced_by produced_at result"),
        ])
}

/// The result of a thread.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ThreadResult {
    /// Id of the thread that has the result.
    pub thread_id: ThreadId,
    /// The result as it was set, with numbers in canonical form (RFC 8785): `-0` is `0`, `1.0` is `1`. Null
    /// if the result was purged.
    pub result: Option<Map<String, Value>>,
    /// Whether the result was purged, so that `result` is null and only the log keeps its hash.
    pub purged: bool,
    /// The kind of the result, as `<namespace>.<name>/<n>`; null if the worker sent no kind.
    pub result_kind: Option<String>,
    /// The member who set the result.
    pub produced_by: MemberId,
    /// Time at which the result was set.
    pub produced_at: Time,
    /// Position in the event log at which the result was set.
    pub lsn: i64,
}

columns! {
    result_columns: ThreadResult as r {
        thread_id,
        result,
        purged = "r.result is null",
        result_kind,
        produced_by,
        produced_at,
        lsn,
    }
}

/// The holder of a thread's claim set the thread's result.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadResultSet<'a> {
    /// Id of the thread whose result was set.
    thread_id: ThreadId,
    /// The kind of the result; null if the worker sent no kind.
    result_kind: Option<&'a str>,
    /// The member who set the result.
    produced_by: MemberId,
    /// The SHA-256 of the result's canonical JSON (RFC 8785), as `sha256:{hex}`.
    result_hash: &'a str,
    /// The length of the result's canonical JSON, in bytes.
    bytes: u64,
}

impl Event for ThreadResultSet<'_> {
    const KIND: &'static str = "ThreadResultSet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let thread = event.row_of("threads", "thread_id")?;
        thread.set("has_result", true).set("judged_from", event.lsn()).keep()?;
        let row = event.row("results", [event.thread(), event.lsn().into()])?.made();
        let row = row.copy("result_kind produced_by").set_to("result", "result_hash");
        row.set("produced_at", event.at()).keep()?;
        workers::replay_delegate(event)
    }
}

request! {
    /// Sets the result of a thread that you have claimed, ends the claim, and returns the result.
    ///
    /// The thread stays open, but cannot be claimed again unless it is reopened. Pass `action` to also change
    /// its state; if that is not allowed, the result is not set either.
    ///
    /// Fails with 409 `wrong-state` if `action` does not start at the thread's state; 409 `close-refused`
    /// with `reasons` if the thread may not close yet; 409 `stale-claim` if the claim has lapsed, or if
    /// `claim_lease_id` is not that of the live claim; 409 `claim-not-held` if you do not hold the claim.
    #[derive(Serialize)]
    struct SetThreadResult {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The result: any JSON object of up to 262144 bytes.
        ///
        /// Numbers from 2^53 on are rejected: send them as strings.
        result: Map<String, Value>,
        /// The kind of the result, such as `example.port/1`, by which results can be filtered.
        ///
        /// Its form is `<namespace>.<name>/<n>`.
        result_kind: Option<ResultKind>,
        /// The lease id of your claim. If given, it must be the lease id of the live claim.
        #[schemars(transform = brief("Lease id of your claim: always send it."))]
        claim_lease_id: Option<LeaseId>,
        /// Transition to make afterwards, as by `transition_thread`. Default: none.
        action: Option<FollowUpTransition>,
    }

    set_thread_result(thread_id: ThreadId, result: Map<String, Value>) -> NewResult
}

/// A transition that follows when a thread's result is set.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Then")]
#[non_exhaustive]
pub enum FollowUpTransition {
    StartReview,
    Close,
}

crate::argument::arguments! { FollowUpTransition }

impl From<FollowUpTransition> for ThreadAction {
    fn from(transition: FollowUpTransition) -> Self {
        match transition {
            FollowUpTransition::StartReview => Self::StartReview,
            FollowUpTransition::Close => Self::Close,
        }
    }
}

/// A result that was just set.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct NewResult {
    #[serde(flatten)]
    pub set: ThreadResult,
    /// The thread's state after the action. Absent without an `action`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ThreadState>,
}

dereferences! { NewResult => set: ThreadResult }

impl Answer<SetThreadResult> for NewResult {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, input: &SetThreadResult, (): ()) -> Result<Self> {
        let thread = visible_thread(cx, input.thread_id)?;
        let set = get_thread_result(cx, &GetThreadResult { thread_id: thread.id })?;
        Ok(Self { set, state: input.action.map(|_| thread.state) })
    }
}

/// A result in the form in which the database stores it.
struct StoredResult {
    /// The result in the form that reads return.
    result: Map<String, Value>,
    text: String,
    hash: String,
    bytes: u64,
}

fn prepare_result(input: &SetThreadResult, _: &SharedState, _: Time) -> Result<StoredResult> {
    let text = canonical::to_string(&input.result).map_err(|error| error.about("result"))?;
    if text.len() > JSON_MAX_BYTES {
        let length = text.len();
        return Err(Error::in_field(
            "result",
            format!(
                "{length} bytes as canonical JSON, expected at most {JSON_MAX_BYTES}; store large \
             parts elsewhere and refer to them in the result"
            ),
        ));
    }
    let bytes = u64::try_from(text.len()).map_err(Error::internal)?;
    let result = serde_json::from_str(&text).map_err(Error::internal)?;
    Ok(StoredResult { result, hash: format_hash(&sha256(text.as_bytes())), bytes, text })
}

fn set_thread_result(
    cx: &mut Write<'_>,
    input: &SetThreadResult,
    stored: &StoredResult,
) -> Result<NewResult> {
    let thread = visible_thread(cx, input.thread_id)?;
    check_holder(cx, &thread, input.claim_lease_id)?;
    let action = input.action.map(ThreadAction::from);
    if let Some(action) = action {
        // Setting the result can make the transition impossible, but not possible, so the transition is
        // checked again below.
        transition::check_transition(cx, &thread, action)?;
    }
    let worker = cx.caller().member_id()?;
    let now = cx.now();
    let event = ThreadResultSet {
        thread_id: thread.id,
        result_kind: input.result_kind.as_deref(),
        produced_by: worker,
        result_hash: &stored.hash,
        bytes: stored.bytes,
    };
    let recorded = cx.emit(thread.place().about(worker), &event)?;
    let lsn = recorded.lsn;
    let awaiting: Vec<MemberId> = thread.owner_id.into_iter().chain(thread.created_by).collect();
    inbox::notify(cx, &recorded, InboxReason::Result, None, Recipients::Members(&awaiting))?;
    let kind = &input.result_kind;
    cx.save(1, ADD, &[&thread.id, &lsn, &thread.workspace_id, kind, &stored.text, &worker, &now])?;
    workers::add_delegate(cx, thread.id, lsn)?;
    end_claim(cx, &thread, ClaimEnd::Result(lsn))?;
    let state = match action {
        Some(action) => {
            let done = visible_thread(cx, thread.id)?;
            Some(transition::make_transition(cx, &done, action)?.state)
        }
        None => None,
    };
    let set = ThreadResult {
        thread_id: thread.id,
        result: Some(stored.result.clone()),
        purged: false,
        result_kind: input.result_kind.as_deref().map(str::to_owned),
        produced_by: worker,
        produced_at: now,
        lsn,
    };
    Ok(NewResult { set, state })
}

const ADD: &str = "
    insert into results (thread_id, lsn, workspace_id, result_kind, result, produced_by, produced_at)
    values ($1, $2, $3, $4, $5, $6, $7)";

/// Clears the results up to the position `up_to` in the log, as the event of a purge states.
pub(crate) fn replay_purged(event: &ReplayedEvent<'_>, up_to: i64) -> Result<()> {
    event.rows("results", &[], |result| {
        let lsn = result.key().get(1).and_then(Value::as_i64);
        if lsn.is_some_and(|lsn| lsn <= up_to) { result.clear("result").keep() } else { Ok(()) }
    })
}

/// Purges the content of results. The rows remain, with the member who set each result and the time.
fn purge_results(
    cx: &mut Write<'_>,
    _: &DestroyPermit<'_>,
    (after, up_to): (i64, i64),
    limit: i64,
) -> Result<Option<(i64, i64)>> {
    let workspace = cx.caller().workspace_id;
    let last: Option<(i64, Option<i64>)> = cx.one(LAST_TO_PURGE, &[&workspace, &after, &up_to, &limit])?;
    let Some((rows, Some(last))) = last else { return Ok(None) };
    cx.execute_any(PURGE, &[&workspace, &after, &last])?;
    Ok(Some((rows, last)))
}

const LAST_TO_PURGE: &str = "
    select count(result), max(lsn) from (
        select result, lsn from results where workspace_id = $1 and lsn > $2 and lsn <= $3
        order by lsn limit $4) next";

const PURGE: &str = "
    update results set result = null
    where workspace_id = $1 and lsn > $2 and lsn <= $3 and result is not null";

request! {
    /// Returns a thread's latest result, which stays readable after the thread was reopened.
    ///
    /// Fails with 404 `not-found` if no result was ever set.
    struct GetThreadResult {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    get_thread_result(thread_id: ThreadId) -> ThreadResult
}

fn get_thread_result(cx: &Read<'_>, input: &GetThreadResult) -> Result<ThreadResult> {
    let thread = visible_thread(cx, input.thread_id)?;
    latest(cx, thread.id)?.ok_or_else(|| {
        Error::new(Code::NotFound, "the thread has no result yet")
            .with_next("`wait_for_result` waits for it.")
    })
}

/// Returns the latest result of a thread that the caller may see, or `None` if no result was ever set.
pub(crate) fn latest(cx: &Read<'_>, thread: ThreadId) -> Result<Option<ThreadResult>> {
    cx.one(LATEST, &[&thread])
}

const LATEST: &str = concat!(
    "select ",
    result_columns!(),
    " from results r where r.thread_id = $1 order by r.lsn desc limit 1"
);

request! {
    /// Returns the latest results of the threads that you may see, in the order in which they were set.
    ///
    /// Each page examines up to 2000 results, so it may be short or empty although more follow: continue
    /// while `next_cursor` is not null.
    #[schemars(transform = brief(""))]
    struct ListThreadResults {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// Only results of exactly this kind.
        result_kind: Option<ResultKind>,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_thread_results() -> Page<ThreadResult>
}

fn list_thread_results(cx: &Read<'_>, input: &ListThreadResults) -> Result<Page<ThreadResult>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let horizon = cx.horizon(HORIZON, &[&workspace_id], after)?;
    let visibility = cx.caller().visibility.params();
    let last = horizon.up_to();
    let params = visibility.and(&[&workspace_id, &after, &input.result_kind, &rows, &last]);
    Ok(Page::within(horizon, cx.rows(LIST, &params)?, input.limit, |result: &ThreadResult| result.lsn))
}

const LIST: &str = concat!(
    "select ",
    result_columns!(),
    " from results r join threads t on t.id = r.thread_id join channels c on c.id = t.channel_id
     where r.workspace_id = $5 and r.lsn > $6 and r.lsn <= $9
         and (cast($7 as text) is null or r.result_kind = $7)
         and not exists (
             select 1 from results later where later.thread_id = r.thread_id and later.lsn > r.lsn)
         and ",
    visible!(c),
    " order by r.lsn limit $8"
);

const HORIZON: &str =
    "select lsn from results where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

request! {
    /// Waits until a thread has a current result, and returns the result.
    ///
    /// An existing result is returned immediately. Returns `{"timed_out": true}` on a timeout.
    ///
    /// A result from before the thread was last reopened does not count.
    struct WaitForResult {
        /// Id of the thread.
        thread_id: ThreadId,
        timeout_secs: Option<WaitSecs>,
    }

    wait_for_result(thread_id: ThreadId) -> crate::op::WaitOutput<ThreadResult>
}

impl LongPoll for WaitForResult {
    fn filter(&self) -> EventFilter {
        EventFilter::on([ThreadResultSet::KIND]).in_thread(Some(self.thread_id))
    }

    fn timeout(&self) -> Duration {
        WaitSecs::timeout(self.timeout_secs)
    }
}

fn wait_for_result(cx: &Read<'_>, input: &mut WaitForResult) -> Result<Poll<ThreadResult>> {
    let thread = visible_thread(cx, input.thread_id)?;
    let standing = if thread.has_result { latest(cx, thread.id)? } else { None };
    Ok(standing.map_or(Poll::Pending, Poll::Ready))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_of_the_canonical_text() {
        let result = match json!({"b": 1, "a": [true, null]}) {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let text = canonical::to_string(&result).unwrap();
        assert_eq!(text, r#"{"a":[true,null],"b":1}"#);
        assert_eq!(format_hash(&sha256(text.as_bytes())).len(), 71);
    }
}
