//! Reading reviews: their texts, the ones that count, and the approvals that a thread lacks before it may
//! close.

use schemars::JsonSchema;
use serde::Serialize;

use super::findings::{self, Finding};
use super::requirement::required_approvals;
use super::review_text;
use super::submit::{Review, SubmitReview};
use super::verdicts::{self, ReviewRow, Verdict, review_columns};
use crate::Result;
use crate::conversation::messages;
use crate::coordination::thread_row::visible_thread;
use crate::error::Error;
use crate::gates::verdict_rules::Objection;
use crate::id::{FindingId, MemberId, ReviewId, ThreadId};
use crate::op::{Answer, Read, UnmetRequirement};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::time::Time;

request! {
    /// Returns a thread's reviews with their text and findings, oldest first.
    ///
    /// The text is blank if its message was withdrawn or cannot be opened. `get_review_status` shows which
    /// reviews count.
    pub(super) struct ListReviews {
        /// Id of the thread.
        thread_id: ThreadId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_reviews(thread_id: ThreadId) -> Page<Review>
}

pub(super) fn list_reviews(cx: &Read<'_>, input: &ListReviews) -> Result<Page<Review>> {
    let thread = visible_thread(cx, input.thread_id)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let given = cx.rows(REVIEWS_OF_THREAD, &[&thread.id, &after, &rows])?;
    let mut page = Page::of(given, input.limit, |given: &ReviewRow| given.lsn);
    let last = page.items().last().map_or(after, |given| given.lsn);
    let mut findings = findings::findings_of_reviews(cx, thread.id, after, last)?;
    if let Some(cut) = findings.first_incomplete {
        let whole = page.items().iter().position(|given| given.id == cut).unwrap_or_default();
        page.keep(whole.max(1), |given| given.lsn);
    }
    page.try_fill(
        |review: &Review| review.lsn,
        |given| {
            let of_review = findings.by_review.remove(&given.id).unwrap_or_default();
            load_review(cx, given, of_review)
        },
    )
}

const REVIEWS_OF_THREAD: &str = concat!(
    "select ",
    review_columns!(),
    " from reviews r where r.thread_id = $1 and r.lsn > $2 order by r.lsn limit $3"
);

/// Returns a review with its findings and its text. The text is read from the review's message.
fn load_review(cx: &Read<'_>, row: ReviewRow, mut findings: Vec<Finding>) -> Result<Review> {
    let words = messages::body_and_metadata(cx, row.message_id)?;
    let body = words.map(|(text, metadata)| review_text::split_review(&text, &metadata, &mut findings));
    Ok(Review::of(row, body.unwrap_or_default(), findings))
}

impl Answer<SubmitReview> for Review {
    type Kept = (ThreadId, ReviewId);

    fn kept(&self) -> Option<(ThreadId, ReviewId)> {
        Some((self.thread_id, self.id))
    }

    fn answer_repeat(cx: &Read<'_>, _: &SubmitReview, (thread, id): (ThreadId, ReviewId)) -> Result<Self> {
        let thread = visible_thread(cx, thread)?;
        let found: Option<ReviewRow> = cx.one(REVIEW_BY_ID, &[&id, &thread.id])?;
        let given = found.ok_or_else(|| Error::not_found("review"))?;
        let mut findings =
            findings::findings_of_reviews(cx, thread.id, given.lsn.saturating_sub(1), given.lsn)?;
        let of_review = findings.by_review.remove(&given.id).unwrap_or_default();
        load_review(cx, given, of_review)
    }
}

const REVIEW_BY_ID: &str =
    concat!("select ", review_columns!(), " from reviews r where r.id = $1 and r.thread_id = $2");

/// Verdict of a review, and whether the review counts as an approval.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WeighedReview {
    /// Id of the review.
    pub review_id: ReviewId,
    /// The member who submitted the review.
    pub member_id: MemberId,
    /// The delegate who submitted the review for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<MemberId>,
    /// Verdict of the reviewer on the work.
    pub verdict: Verdict,
    /// Whether the review counts as an approval.
    pub counts: bool,
    /// Reason why the review does not count as an approval; null if the review counts.
    pub why_not: Option<Objection>,
    /// Time at which the review was submitted.
    pub submitted_at: Time,
    /// Position of the review in the workspace's event log.
    pub lsn: i64,
}

/// State of a thread's reviews: the required approvals, the ones that count, and the last verdicts.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ReviewStatus {
    /// Id of the reviewed thread.
    pub thread_id: ThreadId,
    /// Whether the reviews let the thread close: enough approvals count, and all critical findings are
    /// resolved.
    pub satisfied: bool,
    /// Number of approvals that the thread requires before it may close.
    pub required: i64,
    /// Number of approvals that count.
    pub approvals: i64,
    /// Number of unresolved critical findings in the thread; 1000 means 1000 or more.
    pub blocking: i64,
    /// Ids of the first 10 unresolved critical findings.
    pub blocking_findings: Vec<FindingId>,
    /// Up to 1000 verdicts, newest first. The last verdict of each author takes precedence over superseded
    /// verdicts. `list_reviews` returns all reviews.
    pub reviews: Vec<WeighedReview>,
}

request! {
    /// Returns a thread's reviews, whether each one counts, and how many approvals the thread needs to close.
    ///
    /// An approval counts if it is its author's last verdict, newer than the thread's last result and
    /// reopening, and the author is a listed reviewer or has the skill `review`, does not own the thread and
    /// has never worked on it.
    ///
    /// The server checks these rules when the approval is submitted and again when approvals are counted.
    /// Ownership between these two moments does not matter. A delegate who submitted the approval must also
    /// meet these rules, but need not be a listed reviewer or have the skill. An approval does not count
    /// while its author or the delegate is frozen or deactivated.
    pub(super) struct GetReviewStatus {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    get_review_status(thread_id: ThreadId) -> ReviewStatus
}

pub(super) fn get_review_status(cx: &Read<'_>, input: &GetReviewStatus) -> Result<ReviewStatus> {
    let thread = visible_thread(cx, input.thread_id)?;
    let required = required_approvals(cx, thread.id)?;
    let (blocking, blocking_findings) = findings::unresolved_critical_findings(cx, thread.id)?;
    let approvals =
        i64::try_from(verdicts::counting_approvals(cx, &thread)?.len()).map_err(Error::internal)?;
    let weighed = verdicts::reviews_with_objections(cx, &thread)?;
    Ok(ReviewStatus {
        thread_id: thread.id,
        satisfied: approvals >= required && blocking == 0,
        required,
        approvals,
        blocking,
        blocking_findings,
        reviews: weighed.into_iter().map(WeighedReview::of).collect(),
    })
}

impl WeighedReview {
    fn of((row, why_not): (ReviewRow, Option<Objection>)) -> Self {
        Self {
            review_id: row.id,
            member_id: row.member_id,
            actor_id: row.author().delegate(),
            verdict: row.verdict,
            counts: why_not.is_none(),
            why_not,
            submitted_at: row.submitted_at,
            lsn: row.lsn,
        }
    }
}

/// Returns the number of approvals that a thread lacks, as a reason why the thread cannot close yet.
pub(super) fn missing_approvals(cx: &Read<'_>, thread_id: ThreadId) -> Result<Vec<UnmetRequirement>> {
    let required = required_approvals(cx, thread_id)?;
    if required == 0 {
        return Ok(Vec::new());
    }
    let counting = verdicts::counting_approvals(cx, &visible_thread(cx, thread_id)?)?;
    let approvals = counting.len();
    if i64::try_from(approvals).is_ok_and(|approvals| approvals >= required) {
        return Ok(Vec::new());
    }
    let noun = if required == 1 { "approval" } else { "approvals" };
    let verb = if approvals == 1 { "counts" } else { "count" };
    let detail = format!("the thread requires {required} {noun}, and {approvals} {verb}");
    Ok(vec![UnmetRequirement { detail, ids: counting.iter().map(ToString::to_string).collect() }])
}
