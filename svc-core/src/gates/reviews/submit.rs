//! Submitting a review.
//!
//! The text is sealed before the request is queued, as for every message. The server decides and stores
//! whether the verdict counts when the review is submitted. Later changes can only make the verdict stop
//! counting.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::findings::{Finding, Severity};
use super::review_text::{self, FindingText};
use super::verdicts::{self, ReviewRow, Verdict};
use crate::Result;
use crate::conversation::messages::{self, SealedPost};
use crate::conversation::visibility;
use crate::coordination::thread_row::visible_thread;
use crate::error::Error;
use crate::gates::commit::CommitHash;
use crate::gates::verdict_rules::{Objection, VerdictAuthor};
use crate::id::{FindingId, MemberId, MessageId, ReviewId, ThreadId};
use crate::limits::{FINDING_MAX, FINDING_PATH_MAX, FINDINGS_MAX, LINE_MAX, REVIEW_MAX, REVIEWS_MAX};
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{SharedState, Write};
use crate::request::object;
use crate::request::request;
use crate::schema::default_is;
use crate::store::new_row;
use crate::text::{Count, Items, Prose, Text};
use crate::time::Time;

/// A member submitted a review of a thread.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReviewSubmitted<'a> {
    /// Id of the new review.
    review_id: ReviewId,
    /// Verdict of the reviewer on the work.
    verdict: Verdict,
    /// Commit that the member reviewed; null if the reviewer specified no commit.
    head_sha: Option<&'a CommitHash>,
    /// The findings of the review.
    findings: Vec<SubmittedFinding>,
    /// Id of the message that contains the text of the review.
    message_id: MessageId,
    /// Reason why an approval by this author would not have counted when the event occurred; null if the
    /// approval would have counted.
    objection: Option<Objection>,
}

/// A finding in the event `ReviewSubmitted`, without its text.
#[derive(Serialize, JsonSchema)]
struct SubmittedFinding {
    /// Id of the finding.
    id: FindingId,
    /// Severity of the finding.
    severity: Severity,
    /// Line number of the fault; null if the reviewer specified no line.
    line: Option<i64>,
}

impl SubmittedFinding {
    fn of(finding: &Finding) -> Self {
        Self { id: finding.id, severity: finding.severity, line: finding.line }
    }
}

impl Event for ReviewSubmitted<'_> {
    const KIND: &'static str = "ReviewSubmitted";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        verdicts::replay_superseded(event)?;
        let review = event.row_of("reviews", "review_id")?.made();
        let review = review.copy("verdict objection head_sha message_id").set_to("thread_id", "$thread");
        let review = review.set_to("member_id", "$member").set("actor_id", event.actor());
        let review = review.set("submitted_at", event.at()).set("lsn", event.lsn());
        review.set("superseded", false).keep()?;
        for (number, found) in (0_i64..).zip(event.list("findings")) {
            let Some(id) = found.get("id") else { continue };
            let finding = event.row("findings", [id.clone()])?.made().set_to("review_id", "review_id");
            let finding = finding.set_to("thread_id", "$thread").set("number", number);
            let finding = finding.set_known("severity", found.get("severity").cloned());
            let finding = finding.set_known("line", found.get("line").cloned()).set("lsn", event.lsn());
            let finding = finding.clear("resolution").clear("resolved_by").clear("resolved_actor_id");
            finding.clear("resolved_at").keep()?;
        }
        Ok(())
    }
}

/// A review of a thread with its text and its findings.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Review {
    /// Id of the review.
    pub id: ReviewId,
    /// Id of the reviewed thread.
    pub thread_id: ThreadId,
    /// The member who submitted the review.
    pub member_id: MemberId,
    /// The delegate who submitted the review for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<MemberId>,
    /// Verdict of the reviewer on the work.
    pub verdict: Verdict,
    /// Commit that the member reviewed; null if the reviewer specified no commit.
    pub head_sha: Option<CommitHash>,
    /// Text of the review without its findings; blank if the reviewer wrote none, or if the message was
    /// withdrawn or cannot be opened.
    pub body: String,
    /// Findings of the review, in the order in which the reviewer listed them.
    pub findings: Vec<Finding>,
    /// Id of the message that contains the text of the review and its findings. Withdrawing the message does
    /// not remove the verdict.
    pub message_id: MessageId,
    /// Time at which the review was submitted.
    pub submitted_at: Time,
    /// Position of the review in the workspace's event log.
    pub lsn: i64,
}

impl Review {
    pub fn of(row: ReviewRow, body: String, findings: Vec<Finding>) -> Self {
        Self {
            id: row.id,
            thread_id: row.thread_id,
            member_id: row.member_id,
            actor_id: row.author().delegate(),
            verdict: row.verdict,
            head_sha: row.head_sha,
            body,
            findings,
            message_id: row.message_id,
            submitted_at: row.submitted_at,
            lsn: row.lsn,
        }
    }
}

object! {
    /// A finding to submit with a review.
    #[derive(Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct NewFinding {
        /// Severity. A `critical` finding prevents the thread from closing until it is resolved.
        pub severity: Severity,
        /// Description of the fault.
        pub body: Prose<1, FINDING_MAX>,
        /// Path of the file with the fault.
        pub path: Option<Text<1, FINDING_PATH_MAX>>,
        /// Line number of the fault, from 1.
        pub line: Option<Count<1, LINE_MAX>>,
    }

    new_finding::NewFinding(severity: Severity, body: Prose<1, FINDING_MAX>) for super::NewFinding
}

request! {
    /// Submits a review of a thread and returns the review with its findings.
    ///
    /// Any member who can see the thread may review it; `get_review_status` shows which approvals count. An
    /// unresolved `critical` finding prevents the thread from closing, whatever the verdict.
    ///
    /// The server posts the text as one message of yours, which cannot be edited. If the message is
    /// withdrawn, the verdict and the findings are kept without text. An approval of yours counts only while
    /// it is your last verdict: a later `request_changes` or `comment` supersedes it. A verdict of
    /// `request_changes` or `comment` alone does not prevent the thread from closing.
    ///
    /// Fails with 409 `wrong-state` if the thread is finished or already has 1000 reviews of yours, or if its
    /// channel is archived.
    #[derive(Serialize)]
    pub(super) struct SubmitReview {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Your verdict on the work.
        verdict: Verdict,
        /// The text of the review, in Markdown.
        #[schemars(transform = default_is("nothing"))]
        body: Option<Prose<0, REVIEW_MAX>>,
        /// The git commit that you reviewed: the hash, or at least its first 4 digits.
        #[schemars(transform = default_is("none"))]
        head_sha: Option<CommitHash>,
        /// Faults that you found.
        #[schemars(transform = default_is("nothing"))]
        #[serde(default)]
        findings: Items<NewFinding, FINDINGS_MAX>,
    }

    submit_review(thread_id: ThreadId, verdict: Verdict) -> Review
}

/// Content of a review that was prepared before the transaction: the ids and the sealed text.
pub(super) struct SealedReview {
    id: ReviewId,
    finding_ids: Vec<FindingId>,
    post: SealedPost,
}

/// Seals the text of a new review, before the transaction that submits the review.
pub(super) fn seal_review(input: &SubmitReview, shared: &SharedState, now: Time) -> Result<SealedReview> {
    let id = shared.entropy.id(now)?;
    let finding_ids = input.findings.iter().map(|_| shared.entropy.id(now)).collect::<Result<_>>()?;
    let parts: Vec<FindingText<'_>> = input.findings.iter().map(NewFinding::to_text).collect();
    let (text, metadata) = review_text::compose_review(id, input.verdict, review_body(input), &parts);
    Ok(SealedReview { id, finding_ids, post: messages::seal_post(shared, now, &text, &metadata)? })
}

/// Returns the text of a review without its findings; blank if the request contains none.
fn review_body(input: &SubmitReview) -> &str {
    input.body.as_deref().unwrap_or_default()
}

impl NewFinding {
    fn to_text(&self) -> FindingText<'_> {
        FindingText {
            severity: self.severity,
            path: self.path.as_deref(),
            line: self.line.map(Count::get),
            body: &self.body,
        }
    }

    /// Returns the unresolved finding with index `number` of the review.
    fn to_finding(&self, id: FindingId, review_id: ReviewId, number: i64) -> Finding {
        Finding {
            id,
            review_id,
            severity: self.severity,
            path: self.path.as_deref().map(str::to_owned),
            line: self.line.map(Count::get),
            body: self.body.to_string(),
            resolution: None,
            resolved_by: None,
            resolved_actor_id: None,
            resolved_at: None,
            number,
        }
    }
}

pub(super) fn submit_review(
    cx: &mut Write<'_>,
    input: &SubmitReview,
    sealed: &SealedReview,
) -> Result<Review> {
    let thread = visible_thread(cx, input.thread_id)?;
    let judge = VerdictAuthor::of(cx.caller())?;
    thread.check_unfinished()?;
    let place = visibility::visible_thread_place(cx, thread.id)?;
    place.check_not_archived()?;
    let (count,): (i64,) =
        cx.one(COUNT_REVIEWS_OF_MEMBER, &[&thread.id, &judge.member, &REVIEWS_MAX])?.unwrap_or_default();
    if count >= REVIEWS_MAX {
        return Err(Error::wrong_state(format!("a thread has at most {REVIEWS_MAX} reviews of one member")));
    }
    let objection = verdicts::approval_rules(cx, &thread)?.objection_to_author(judge);
    let numbered = (0_i64..).zip(input.findings.iter().zip(&sealed.finding_ids));
    let findings: Vec<Finding> =
        numbered.map(|(number, (finding, id))| finding.to_finding(*id, sealed.id, number)).collect();
    let submitted = ReviewSubmitted {
        review_id: sealed.id,
        verdict: input.verdict,
        head_sha: input.head_sha.as_ref(),
        findings: findings.iter().map(SubmittedFinding::of).collect(),
        message_id: sealed.post.message_id(),
        objection,
    };
    let recorded = cx.emit(thread.place().about(judge.member), &submitted)?;
    let lsn = recorded.lsn;
    let message_id = messages::post_sealed(cx, &place, Some(judge.member), &sealed.post)?.id;
    let given = ReviewRow {
        id: sealed.id,
        thread_id: thread.id,
        member_id: judge.member,
        actor_id: judge.actor,
        verdict: input.verdict,
        objection,
        head_sha: input.head_sha.clone(),
        message_id,
        submitted_at: recorded.at,
        lsn,
        superseded: false,
        active: true,
    };
    verdicts::insert_review(cx, &given)?;
    for finding in &findings {
        cx.insert(&new_row!("insert into findings" {
            id: finding.id,
            review_id: finding.review_id,
            thread_id: thread.id,
            number: finding.number,
            severity: finding.severity,
            line: finding.line,
            lsn,
        }))?;
    }
    Ok(Review::of(given, review_body(input).to_owned(), findings))
}

const COUNT_REVIEWS_OF_MEMBER: &str = "
    select count(*) from (select 1 from reviews where thread_id = $1 and member_id = $2 limit $3) counted";
