//! Usage: the tokens, money and turns that the holders of claims report for their work.
//!
//! A report is stored once, even if it exhausts the budget, and a repeated report returns the first answer. A
//! workspace stores sums by day, member and model, so the cost of reading these sums does not depend on the
//! number of reports. Because a report may contain any model name, only a limited number of models per member
//! and day have their own sums.

pub(crate) mod sums;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::coordination::budget::{self, BudgetLimit, BudgetRemaining, BudgetUsed};
use crate::coordination::claims::check_holder;
use crate::coordination::thread_row::visible_thread;
use crate::coordination::workers;
use crate::error::{Code, Error};
use crate::hash::sha256;
use crate::id::{LeaseId, MemberId, ThreadId};
use crate::limits::{REPORT_ID_MAX, USAGE_MAX, USAGE_MODELS_MAX};
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Read, Records, Write, idempotent, read};
use crate::page::{Cursor, Limit as PageLimit, Page, rows_to_read};
use crate::request::request;
use crate::schema::default_is;
use crate::store::{ToParam, columns, new_row};
use crate::text::{Count, Text};
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "budgets",
            vec![
                idempotent("report_usage", report_usage)
                    .title("Report usage of a thread")
                    .when(
                        "Report the tokens, money and turns used under your claim. Use before you submit the \
                         result.",
                    )
                    .post("/threads/{thread_id}/usage")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::StaleClaim, Code::ClaimNotHeld, Code::ReportTaken])
                    .example(|w| {
                        json!({
                            "thread_id": w.id("claimed_thread"), "claim_lease_id": w.id("lease"),
                            "report_id": "turn-7", "tokens": 18_200, "usd_micros": 96_000, "turns": 1,
                            "model": "large-2",
                        })
                    }),
                read("list_thread_usage", list_thread_usage)
                    .title("List the usage reports of a thread")
                    .when(
                        "List the reports of tokens, money and turns used on a thread. Use \
                         `get_workspace_usage` for totals.",
                    )
                    .detailed()
                    .get("/threads/{thread_id}/usage")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"thread_id": w.id("thread"), "limit": 10})),
                read("get_workspace_usage", sums::get_workspace_usage)
                    .detailed()
                    .title("Sum up the usage of a workspace")
                    .when(
                        "Get the tokens, money and turns used, by member and model. Use `list_thread_usage` \
                         for one thread.",
                    )
                    .get("/workspaces/{workspace_id}/usage")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "since": "2026-01-31T00:00:00Z"})),
            ],
        )
        .events(vec![EventKind::of::<UsageReported>()])
        .records(vec![
            Records::table("usage_reports", "lsn thread_id report_id")
                .after("threads")
                .ids("thread_id workspace_id member_id actor_id claim_lease_id")
                .texts("report_id model answer")
                .digest("digest", |row| {
                    let numbers = ["tokens", "usd_micros", "turns"].map(|column| row.int(column));
                    Ok(report_digest(
                        row.id("member_id"),
                        row.id("claim_lease_id"),
                        numbers,
                        row.text("model"),
                    ))
                })
                .ints("tokens usd_micros turns lsn")
                .times("reported_at")
                .proven(
                    "thread_id report_id",
                    "member_id actor_id claim_lease_id model tokens usd_micros turns reported_at lsn",
                )
                .unproven("answer", "what was answered then, which follows from the budget")
                .unproven("digest", "a digest of other columns"),
            Records::table("usage_totals", "day member_id model")
                .after("members")
                .ids("workspace_id member_id")
                .texts("model")
                .ints("day reports tokens usd_micros turns")
                .unproven("day member_id model reports tokens usd_micros turns", "sums of usage reports"),
        ])
}

type UsageText = Text<1, REPORT_ID_MAX>;

type ReportedAmount = Count<0, USAGE_MAX>;

/// The holder of a claim reported the usage of its work.
#[derive(Serialize, JsonSchema)]
struct UsageReported<'a> {
    /// Id of the thread to whose budget the usage is charged.
    thread_id: ThreadId,
    /// The report's id, chosen by the holder.
    report_id: &'a str,
    /// The fencing id of the claim.
    claim_lease_id: LeaseId,
    /// Tokens that the report adds.
    tokens: i64,
    /// Money that the report adds, in millionths of a US dollar.
    usd_micros: i64,
    /// Turns that the report adds.
    turns: i64,
    /// The model that was used; null if the report contains no model.
    model: Option<&'a str>,
}

impl Event for UsageReported<'_> {
    const KIND: &'static str = "UsageReported";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let more = |field| event.int(field).unwrap_or_default();
        let thread = event.row_of("threads", "thread_id")?.add("spent_tokens", more("tokens"));
        let thread = thread.add("spent_usd_micros", more("usd_micros"));
        thread.add("spent_turns", more("turns")).keep()?;
        let row = event.row_of("usage_reports", "thread_id report_id")?.made();
        let row = row.copy("claim_lease_id tokens usd_micros turns model").set("lsn", event.lsn());
        let row = row.set("member_id", event.subject()).set("actor_id", event.actor());
        row.set("reported_at", event.at()).keep()?;
        workers::replay_delegate(event)?;
        budget::replay_exhausted_column(event, budget::current_claim_micros(event)?)
    }
}

request! {
    /// Reports the usage of your work under a claim, and returns the remaining budget of the thread.
    ///
    /// Choose a `report_id` for each report; a report that is sent twice counts once.
    ///
    /// Send the report again until you receive a response: a repeat returns the first response, even after
    /// the claim has ended. The report is stored even if a limit is then used up.
    ///
    /// Fails with 409 `stale-claim` if the claim has lapsed, or if `claim_lease_id` is not that of the live
    /// claim; 409 `claim-not-held` if you do not hold the claim; 409 `report-taken` if a different report of
    /// the thread has this id.
    #[derive(Serialize)]
    struct ReportUsage {
        /// Id of the thread.
        thread_id: ThreadId,
        /// An id for the report, unique within the thread.
        report_id: UsageText,
        /// The lease id of your claim.
        claim_lease_id: LeaseId,
        /// Tokens since the previous report.
        #[schemars(transform = default_is("0"))]
        tokens: Option<ReportedAmount>,
        /// Millionths of a US dollar since the previous report.
        #[schemars(transform = default_is("0"))]
        usd_micros: Option<ReportedAmount>,
        /// Turns since the previous report.
        #[schemars(transform = default_is("0"))]
        turns: Option<ReportedAmount>,
        /// The model that was used.
        ///
        /// Per member and day, 50 models have their own sums in the workspace's usage; the usage of further
        /// models is added to one sum named `other`.
        model: Option<UsageText>,
    }

    report_usage(thread_id: ThreadId, report_id: UsageText, claim_lease_id: LeaseId) -> ReportedUsage
}

/// The amounts of a usage report.
#[derive(Clone, Copy)]
struct UsageAmounts {
    tokens: i64,
    usd_micros: i64,
    turns: i64,
}

impl ReportUsage {
    fn amounts(&self) -> UsageAmounts {
        let number = |reported: Option<ReportedAmount>| reported.map_or(0, Count::get);
        let tokens = self.tokens;
        let usd_micros = self.usd_micros;
        let turns = self.turns;
        UsageAmounts { tokens: number(tokens), usd_micros: number(usd_micros), turns: number(turns) }
    }

    fn digest(&self, member: MemberId) -> [u8; 32] {
        let UsageAmounts { tokens, usd_micros, turns } = self.amounts();
        let member = Some(member.uuid());
        let lease = Some(self.claim_lease_id.uuid());
        report_digest(member, lease, [tokens, usd_micros, turns], self.model.as_deref())
    }
}

/// Returns a digest of a report without its id, to compare a repeated report with the stored report.
fn report_digest(
    member: Option<Uuid>,
    lease: Option<Uuid>,
    amounts: [i64; 3],
    model: Option<&str>,
) -> [u8; 32] {
    let [tokens, usd_micros, turns] = amounts;
    sha256(json!([member, lease, tokens, usd_micros, turns, model]).to_string().as_bytes())
}

/// A stored usage report, and the thread's budget after the report.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ReportedUsage {
    /// Id of the thread to whose budget the usage was charged.
    pub thread_id: ThreadId,
    /// The id of the report.
    pub report_id: String,
    /// Time at which the report was stored.
    pub reported_at: Time,
    /// Position of the report's event in the workspace's log.
    pub lsn: i64,
    /// The thread's usage after the report.
    pub used: BudgetUsed,
    /// The remaining amount of each limit after the report.
    pub remaining: BudgetRemaining,
    /// The limits that were used up after the report.
    pub exceeded: Vec<BudgetLimit>,
}

impl Answer<ReportUsage> for ReportedUsage {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, input: &ReportUsage, (): ()) -> Result<Self> {
        let thread = visible_thread(cx, input.thread_id)?;
        let known = find_stored_answer(cx, thread.id, input)?;
        known.ok_or_else(|| Error::not_found("usage report"))
    }
}

fn report_usage(cx: &mut Write<'_>, input: &ReportUsage) -> Result<ReportedUsage> {
    let thread = visible_thread(cx, input.thread_id)?;
    let member_id = cx.caller().member_id()?;
    // Checked before the fence: a repeated report is answered even if the claim has ended.
    if let Some(known) = find_stored_answer(cx, thread.id, input)? {
        return Ok(known);
    }
    check_holder(cx, &thread, Some(input.claim_lease_id))?;
    let (UsageAmounts { tokens, usd_micros, turns }, model) = (input.amounts(), input.model.as_deref());
    let reported = UsageReported {
        thread_id: thread.id,
        report_id: &input.report_id,
        claim_lease_id: input.claim_lease_id,
        tokens,
        usd_micros,
        turns,
        model,
    };
    let lsn = cx.emit(thread.place().about(member_id), &reported)?.lsn;
    let now = cx.now();
    let actor_id = cx.caller().actor;
    workers::add_delegate(cx, thread.id, lsn)?;
    cx.execute(1, ADD_USAGE, &[&thread.id, &tokens, &usd_micros, &turns])?;
    let day = day_number(now);
    let key = summed_model_name(cx, day, member_id, model)?;
    cx.execute(1, ADD_TO_SUM, &[&thread.workspace_id, &day, &member_id, &key, &tokens, &usd_micros, &turns])?;
    let budget = budget::load(cx, thread.id)?;
    let answer = ReportedUsage {
        thread_id: thread.id,
        report_id: input.report_id.to_string(),
        reported_at: now,
        lsn,
        used: budget.used_amounts(),
        remaining: budget.remaining_amounts(),
        exceeded: budget.exceeded_limits(),
    };
    cx.insert(&new_row!("insert into usage_reports" {
        thread_id: thread.id,
        report_id: input.report_id,
        workspace_id: thread.workspace_id,
        digest: input.digest(member_id).as_slice(),
        answer: json!(answer).to_string(),
        member_id,
        actor_id,
        claim_lease_id: input.claim_lease_id,
        model,
        tokens,
        usd_micros,
        turns,
        reported_at: now,
        lsn,
    }))?;
    budget::update_exhausted_column(cx, &thread, &budget)?;
    Ok(answer)
}

/// Returns the stored answer to a usage report, or `None` if no report with this id is stored.
///
/// Fails with 409 `report-taken` if a different report has this id.
fn find_stored_answer(cx: &Read<'_>, thread: ThreadId, input: &ReportUsage) -> Result<Option<ReportedUsage>> {
    let known: Option<([u8; 32], Value)> = cx.one(FIND_REPORT, &[&thread, &input.report_id])?;
    let Some((digest, answer)) = known else { return Ok(None) };
    if digest != input.digest(cx.caller().member_id()?) {
        let taken = "a different report of the thread has this `report_id`";
        return Err(Error::new(Code::ReportTaken, taken));
    }
    serde_json::from_value(answer).map(Some).map_err(Error::internal)
}

const FIND_REPORT: &str = "select digest, answer from usage_reports where thread_id = $1 and report_id = $2";

/// Microseconds of one day. Days are counted from the beginning of 1970, in UTC.
const DAY_MICROS: i64 = 86_400_000_000;

/// Returns the number of the UTC day that contains a time, counted from the beginning of 1970.
fn day_number(time: Time) -> i64 {
    time.micros().div_euclid(DAY_MICROS)
}

const ADD_USAGE: &str = "
    update threads set spent_tokens = spent_tokens + $2, spent_usd_micros = spent_usd_micros + $3,
        spent_turns = spent_turns + $4
    where id = $1";

/// Returns the model name under which a report's usage is summed.
///
/// Beyond the maximum number of models per member and day, further models share one sum. Reports without a
/// model are summed under the empty name.
fn summed_model_name<'m>(
    cx: &Read<'_>,
    day: i64,
    member: MemberId,
    model: Option<&'m str>,
) -> Result<&'m str> {
    let Some(model) = model else { return Ok("") };
    let place: [&dyn ToParam; 5] = [&cx.caller().workspace_id, &day, &member, &model, &USAGE_MODELS_MAX];
    let apart: Option<(bool,)> = cx.one(HAS_OWN_SUM, &place)?;
    Ok(if apart.is_some_and(|(apart,)| apart) { model } else { OTHER_MODELS })
}

/// Name of the sum for models without a separate sum.
const OTHER_MODELS: &str = "other";

/// Selects whether a model has its own sum, or a new sum can be added for the model.
const HAS_OWN_SUM: &str = "
    select exists (
        select 1 from usage_totals where workspace_id = $1 and day = $2 and member_id = $3 and model = $4)
    or $5 > (
        select count(*) from usage_totals
        where workspace_id = $1 and day = $2 and member_id = $3 and model not in ('', 'other'))";

const ADD_TO_SUM: &str = "
    insert into usage_totals (workspace_id, day, member_id, model, reports, tokens, usd_micros, turns)
    values ($1, $2, $3, $4, 1, $5, $6, $7)
    on conflict (workspace_id, day, member_id, model) do update set
        reports = usage_totals.reports + 1, tokens = usage_totals.tokens + excluded.tokens,
        usd_micros = usage_totals.usd_micros + excluded.usd_micros,
        turns = usage_totals.turns + excluded.turns";

/// One report of usage under a claim, sent by the claim's holder.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct UsageReport {
    /// The report's id, chosen by the holder.
    pub report_id: String,
    /// The member who held the claim.
    pub member_id: MemberId,
    /// The fencing id of the claim.
    pub claim_lease_id: LeaseId,
    /// The model that was used; null if the report contains no model.
    pub model: Option<String>,
    /// Tokens that the report added.
    pub tokens: i64,
    /// Money that the report added, in millionths of a US dollar.
    pub usd_micros: i64,
    /// Turns that the report added.
    pub turns: i64,
    /// Time at which the report was stored.
    pub reported_at: Time,
    /// Position of the report's event in the workspace's log.
    pub lsn: i64,
}

columns! {
    report_columns: UsageReport as u {
        report_id, member_id, claim_lease_id, model, tokens, usd_micros, turns, reported_at, lsn,
    }
}

request! {
    /// Returns the reports of tokens, money and turns used on a thread, oldest first.
    struct ListThreadUsage {
        /// Id of the thread.
        thread_id: ThreadId,
        cursor: Option<Cursor>,
        limit: Option<PageLimit>,
    }

    list_thread_usage(thread_id: ThreadId) -> Page<UsageReport>
}

fn list_thread_usage(cx: &Read<'_>, input: &ListThreadUsage) -> Result<Page<UsageReport>> {
    let thread = visible_thread(cx, input.thread_id)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let reports = cx.rows(REPORTS, &[&thread.id, &after, &rows])?;
    Ok(Page::of(reports, input.limit, |report: &UsageReport| report.lsn))
}

const REPORTS: &str = concat!(
    "select ",
    report_columns!(),
    " from usage_reports u where u.thread_id = $1 and u.lsn > $2 order by u.lsn limit $3"
);
