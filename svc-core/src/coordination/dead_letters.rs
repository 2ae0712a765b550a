//! Dead letters: threads whose claim ended without a result while a limit of their budget was used up.
//!
//! Such a thread leaves the ready queue until its dead letter is requeued. A dead letter is settled when it
//! is requeued, or when its thread is closed or cancelled. A thread has at most one unsettled dead letter.
//! Raising a limit does not settle a dead letter: a member should check the thread first.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::conversation::visibility::visible;
use crate::coordination::budget::{self, BudgetLimit};
use crate::coordination::thread_row::{HeldClaim, Thread, visible_thread};
use crate::error::{Code, Error};
use crate::id::{ChannelId, DeadLetterId, LeaseId, MemberId, ThreadId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::{Event, EventKind, RecordedEvent};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Read, Records, Sample, Write, idempotent, read};
use crate::page::{BoundedCount, Cursor, Limit as PageLimit, Page, rows_to_read};
use crate::request::request;
use crate::schema::brief;
use crate::store::{columns, new_row};
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "claims",
            vec![
                read("list_dead_letters", list_dead_letters)
                    .title("List the dead letters of a workspace")
                    .when(
                        "List dead letters: threads whose claim ended without a result after a budget limit \
                         was used up.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/dead-letters")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
                idempotent("requeue_dead_letter", requeue_dead_letter)
                    .title("Requeue a dead letter")
                    .when(
                        "Make a thread from `list_dead_letters` claimable again, and reset its count of \
                         attempts.",
                    )
                    .post("/workspaces/{workspace_id}/dead-letters/{dead_letter_id}/requeue")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::NotFound, Code::BudgetExhausted])
                    .example(
                        |w| json!({"workspace_id": w.id("workspace"), "dead_letter_id": w.id("dead_letter")}),
                    ),
            ],
        )
        .events(vec![EventKind::of::<ClaimFailed>(), EventKind::of::<DeadLetterRequeued>()])
        .sample(
            Sample::new(
                "dead_thread",
                "create_thread",
                |w| json!({"channel_id": w.id("channel"), "title": "Prove the theorem"}),
            )
            .then("set_thread_budget", |w| json!({"thread_id": w.id("dead_thread"), "max_attempts": 1})),
        )
        .sample(
            Sample::new("dead_claim", "claim_thread", |w| json!({"thread_id": w.id("dead_thread")}))
                .id_at("/claim_lease_id")
                .then(
                    "release_claim",
                    |w| json!({"thread_id": w.id("dead_thread"), "claim_lease_id": w.id("dead_claim")}),
                ),
        )
        .sample(
            Sample::new("dead_letter", "list_dead_letters", |w| json!({"workspace_id": w.id("workspace")}))
                .id_at("/items/0/id"),
        )
        .records(vec![
            Records::table("dead_letters", "lsn id")
                .after("threads")
                .ids("id workspace_id thread_id holder claim_lease_id")
                .texts("exceeded")
                .times("failed_at settled_at")
                .ints("lsn")
                .proven("thread_id id", "exceeded holder claim_lease_id failed_at settled_at lsn"),
        ])
}

/// A claim ended without a result while a budget limit was used up, and the thread got a dead letter.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ClaimFailed<'a> {
    /// Id of the thread whose claim ended.
    thread_id: ThreadId,
    /// The member who held the claim.
    member_id: MemberId,
    /// The fencing id of the claim.
    claim_lease_id: LeaseId,
    /// The budget limits that were used up when the claim ended.
    exceeded: &'a [BudgetLimit],
    /// Id of the dead letter that was added to the thread.
    dead_letter_id: DeadLetterId,
}

impl Event for ClaimFailed<'_> {
    const KIND: &'static str = "ClaimFailed";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("threads", "thread_id")?.set("dead", true).keep()?;
        let exceeded = event.field("exceeded").map(|exceeded| exceeded.to_string().into());
        let row = event.row_of("dead_letters", "thread_id dead_letter_id")?.made();
        let row = row.set_known("exceeded", exceeded).set_to("holder", "member_id").copy("claim_lease_id");
        row.set("failed_at", event.at()).clear("settled_at").set("lsn", event.lsn()).keep()
    }
}

/// A dead letter was requeued: its thread can be claimed again.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct DeadLetterRequeued {
    /// Id of the dead letter that was requeued.
    dead_letter_id: DeadLetterId,
    /// Id of the dead letter's thread, which can be claimed again.
    thread_id: ThreadId,
}

impl Event for DeadLetterRequeued {
    const KIND: &'static str = "DeadLetterRequeued";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        replay_settlement(event)?;
        event.row_of("threads", "thread_id")?.set("dead", false).set("attempts", 0).keep()?;
        budget::replay_exhausted_column(event, Some(0))
    }
}

/// Settles the unsettled dead letter of an event's thread, if the thread has one.
pub(in crate::coordination) fn replay_settlement(event: &ReplayedEvent<'_>) -> Result<()> {
    event.rows("dead_letters", &[event.thread()], |letter| match letter.value("settled_at") {
        Some(Value::Null) => letter.set("settled_at", event.at()).keep(),
        _ => Ok(()),
    })
}

/// A thread whose last claim ended without a result while a limit of its budget was used up.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The id of the dead letter.
    pub id: DeadLetterId,
    /// Id of the thread whose claim ended without a result.
    pub thread_id: ThreadId,
    /// The channel of the thread.
    pub channel_id: ChannelId,
    /// The thread's title: the task in one line.
    pub title: String,
    /// The budget limits that were used up when the claim ended.
    pub exceeded: Value,
    /// The member who held the ended claim.
    pub holder: MemberId,
    /// The fencing id of the ended claim.
    pub claim_lease_id: LeaseId,
    /// Time at which the claim ended.
    pub failed_at: Time,
    /// Time at which the dead letter was requeued, or its thread was closed or cancelled; null while it is
    /// unsettled.
    pub settled_at: Option<Time>,
    /// Position in the workspace's log of the event that added the dead letter.
    pub lsn: i64,
}

columns! {
    dead_letter_columns: DeadLetter as d {
        id,
        thread_id,
        channel_id = "t.channel_id",
        title = "t.title",
        exceeded,
        holder,
        claim_lease_id,
        failed_at,
        settled_at,
        lsn,
    }
}

impl<I> Answer<I> for DeadLetter {
    type Kept = DeadLetterId;

    fn kept(&self) -> Option<DeadLetterId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: DeadLetterId) -> Result<Self> {
        load_visible_letter(cx, id)
    }
}

/// Adds a dead letter to a thread whose claim `held` ends without a result while the limits `exceeded` are
/// used up.
pub(in crate::coordination) fn add_dead_letter(
    cx: &mut Write<'_>,
    thread: &Thread,
    held: HeldClaim,
    exceeded: &[BudgetLimit],
) -> Result<RecordedEvent> {
    let dead_letter_id: DeadLetterId = cx.new_id()?;
    let failed = ClaimFailed {
        thread_id: thread.id,
        member_id: held.holder,
        claim_lease_id: held.lease_id,
        exceeded,
        dead_letter_id,
    };
    let recorded = cx.emit(thread.place().about(held.holder), &failed)?;
    cx.insert(&new_row!("insert into dead_letters" {
        id: dead_letter_id,
        workspace_id: thread.workspace_id,
        thread_id: thread.id,
        exceeded: json!(exceeded).to_string(),
        holder: held.holder,
        claim_lease_id: held.lease_id,
        failed_at: cx.now(),
        lsn: recorded.lsn,
    }))?;
    cx.execute(1, SET_DEAD, &[&thread.id, &true])?;
    Ok(recorded)
}

const SET_DEAD: &str = "update threads set dead = $2 where id = $1";

/// Settles the unsettled dead letter of a thread, if the thread has one.
pub(in crate::coordination) fn settle(cx: &mut Write<'_>, thread: &Thread) -> Result<()> {
    if thread.dead {
        cx.execute(1, SETTLE, &[&thread.id, &cx.now()])?;
        cx.execute(1, SET_DEAD, &[&thread.id, &false])?;
    }
    Ok(())
}

const SETTLE: &str = "update dead_letters set settled_at = $2 where thread_id = $1 and settled_at is null";

request! {
    /// Returns the unsettled dead letters (threads out of budget) that you may see, oldest first.
    ///
    /// Each page examines up to 2000 dead letters, so it may be short or empty although more follow: continue
    /// while `next_cursor` is not null.
    #[schemars(transform = brief(""))]
    struct ListDeadLetters {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<PageLimit>,
    }

    list_dead_letters() -> Page<DeadLetter>
}

fn list_dead_letters(cx: &Read<'_>, input: &ListDeadLetters) -> Result<Page<DeadLetter>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let horizon = cx.horizon(HORIZON, &[&workspace_id], after)?;
    let visibility = cx.caller().visibility.params();
    let last = horizon.up_to();
    let params = visibility.and(&[&workspace_id, &after, &rows, &last]);
    Ok(Page::within(horizon, cx.rows(LIST, &params)?, input.limit, |letter: &DeadLetter| letter.lsn))
}

const LIST: &str = concat!(
    "select ",
    dead_letter_columns!(),
    " from dead_letters d join threads t on t.id = d.thread_id join channels c on c.id = t.channel_id
     where d.workspace_id = $5 and d.settled_at is null and d.lsn > $6 and d.lsn <= $8 and ",
    visible!(c),
    " order by d.lsn limit $7"
);

/// Counts the unsettled dead letters of threads that the caller may see, among the oldest `limit` letters.
pub(in crate::coordination) fn count_unsettled(cx: &Read<'_>, limit: i64) -> Result<BoundedCount> {
    let params = cx.caller().visibility.params();
    let found: Option<(i64, i64)> = cx.one(COUNT, &params.and(&[&cx.caller().workspace_id, &limit]))?;
    let (count, examined) = found.unwrap_or_default();
    Ok(BoundedCount::of(count, examined, limit))
}

const COUNT: &str = concat!(
    "select count(case when ",
    visible!(c),
    " then 1 end), count(*) from (
         select thread_id from dead_letters where workspace_id = $5 and settled_at is null
         order by lsn limit $6) d
     join threads t on t.id = d.thread_id join channels c on c.id = t.channel_id"
);

const HORIZON: &str = "
    select lsn from dead_letters where workspace_id = $1 and settled_at is null and lsn > $2
    order by lsn limit 1 offset $3";

request! {
    /// Requeues a dead letter, so that its thread can be claimed again, and returns the dead letter.
    ///
    /// If the dead letter is settled already, nothing changes.
    ///
    /// Fails with 404 `not-found` if the workspace has no such dead letter, or if you may not see its thread;
    /// 409 `budget-exhausted` with `exceeded` if a limit other than `max_attempts` is used up, or if
    /// `max_attempts` is 0, which allows no claim: raise the limit first.
    #[derive(Serialize)]
    struct RequeueDeadLetter {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// Id of the dead letter.
        dead_letter_id: DeadLetterId,
    }

    requeue_dead_letter(dead_letter_id: DeadLetterId) -> DeadLetter
}

fn requeue_dead_letter(cx: &mut Write<'_>, input: &RequeueDeadLetter) -> Result<DeadLetter> {
    input.workspace_id.of(cx)?;
    let letter = load_visible_letter(cx, input.dead_letter_id)?;
    if letter.settled_at.is_some() {
        return Ok(letter);
    }
    let thread = visible_thread(cx, letter.thread_id)?;
    let budget = budget::budget_after_requeue(cx, &thread)?;
    settle(cx, &thread)?;
    cx.execute(1, RESET_ATTEMPTS, &[&thread.id])?;
    budget::update_exhausted_column(cx, &thread, &budget)?;
    cx.emit(thread.place(), &DeadLetterRequeued { dead_letter_id: letter.id, thread_id: thread.id })?;
    Ok(DeadLetter { settled_at: Some(cx.now()), ..letter })
}

const RESET_ATTEMPTS: &str = "update threads set attempts = 0 where id = $1";

/// Loads a dead letter. Fails if the caller may not see the dead letter's thread.
fn load_visible_letter(cx: &Read<'_>, id: DeadLetterId) -> Result<DeadLetter> {
    let visibility = cx.caller().visibility.params();
    let found = cx.one(VISIBLE, &visibility.and(&[&id, &cx.caller().workspace_id]))?;
    found.ok_or_else(|| Error::not_found("dead letter"))
}

const VISIBLE: &str = concat!(
    "select ",
    dead_letter_columns!(),
    " from dead_letters d join threads t on t.id = d.thread_id join channels c on c.id = t.channel_id
     where d.id = $5 and d.workspace_id = $6 and ",
    visible!(c)
);
