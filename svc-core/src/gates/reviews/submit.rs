//! Submitting a review.
//!
//! Its text is sealed before the request is queued, like that of any message. Whether its verdict counts is
//! decided and stored when it is given; later changes can only make it stop counting.

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
use crate::log::replay::Replayed;
use crate::op::{SharedState, Write};
use crate::schema::default_is;
use crate::store::new_row;
use crate::text::{Count, Items, Prose, Text};
use crate::time::Time;

/// A thread was reviewed.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReviewSubmitted<'a> {
    /// The review.
    review_id: ReviewId,
    /// Its decision about the work.
    verdict: Verdict,
    /// The commit that was reviewed, if one was named.
    head_sha: Option<&'a CommitHash>,
    /// Its findings.
    findings: Vec<FoundIn>,
    /// The message with its text.
    message_id: MessageId,
    /// The reason why an approval by its author did not count when it was given; null if it counted.
    objection: Option<Objection>,
}

/// A finding, as the event of its review names it.
#[derive(Serialize, JsonSchema)]
struct FoundIn {
    /// The finding.
    id: FindingId,
    /// How severe it is.
    severity: Severity,
    /// The line of the file that it is about; null if none was named.
    line: Option<i64>,
}

impl FoundIn {
    fn of(finding: &Finding) -> Self {
        Self { id: finding.id, severity: finding.severity, line: finding.line }
    }
}

impl Event for ReviewSubmitted<'_> {
    const KIND: &'static str = "ReviewSubmitted";

    fn replay(event: &Replayed<'_>) -> Result<()> {
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

/// A review with its text and its findings.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Review {
    /// The review's id.
    pub id: ReviewId,
    /// The thread.
    pub thread_id: ThreadId,
    /// The member who gave it.
    pub member_id: MemberId,
    /// The delegate who gave it for that member; absent if the member acted for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<MemberId>,
    /// Its decision about the work.
    pub verdict: Verdict,
    /// The commit that was reviewed; null if none was named.
    pub head_sha: Option<CommitHash>,
    /// Its own text; blank if there is none, or once its message is withdrawn.
    pub body: String,
    /// Its findings, in the order in which they were given.
    pub findings: Vec<Finding>,
    /// The message of the thread with all its text. The verdict stays when that is withdrawn.
    pub message_id: MessageId,
    /// When it was submitted.
    pub submitted_at: Time,
    /// The position of the review in the workspace's event log.
    pub lsn: i64,
}

impl Review {
    pub fn of(given: ReviewRow, body: String, findings: Vec<Finding>) -> Self {
        Self {
            id: given.id,
            thread_id: given.thread_id,
            member_id: given.member_id,
            actor_id: given.judge().delegate(),
            verdict: given.verdict,
            head_sha: given.head_sha,
            body,
            findings,
            message_id: given.message_id,
            submitted_at: given.submitted_at,
            lsn: given.lsn,
        }
    }
}

/// A finding of a new review.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewFinding {
    /// How severe it is. A critical one prevents the close until it is resolved.
    severity: Severity,
    /// The fault.
    body: Prose<1, FINDING_MAX>,
    /// The file that it is about.
    path: Option<Text<1, FINDING_PATH_MAX>>,
    /// The line of the file, from 1.
    line: Option<Count<1, LINE_MAX>>,
}

/// Reviews a thread and returns the review with its findings.
///
/// Anyone who sees the thread may review it; `get_review_status` says which approvals count. An unresolved
/// finding that is `critical` prevents the close, whatever the verdict.
///
/// The text is posted as one message of yours, which cannot be edited; if it is withdrawn, the verdict and
/// the findings stay. An approval of yours counts while it is your last verdict: `request_changes` takes it
/// back, and so does a `comment`. Neither prevents anything by itself.
///
/// Fails with 409 `wrong-state` if the thread is finished or has 1000 reviews of yours, or if its channel is
/// archived.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmitReview {
    /// The thread.
    thread_id: ThreadId,
    /// Your decision about the work.
    verdict: Verdict,
    /// The text of the review, in Markdown.
    #[schemars(transform = default_is("nothing"))]
    body: Option<Prose<0, REVIEW_MAX>>,
    /// The git commit that you reviewed: the hash, or at least 4 digits of it.
    #[schemars(transform = default_is("none"))]
    head_sha: Option<CommitHash>,
    /// Your findings.
    #[schemars(transform = default_is("nothing"))]
    #[serde(default)]
    findings: Items<NewFinding, FINDINGS_MAX>,
}

/// A review whose text is sealed.
pub(super) struct SealedReview {
    id: ReviewId,
    findings: Vec<FindingId>,
    post: SealedPost,
}

pub(super) fn seal_review(input: &SubmitReview, shared: &SharedState, now: Time) -> Result<SealedReview> {
    let id = shared.entropy.id(now)?;
    let findings = input.findings.iter().map(|_| shared.entropy.id(now)).collect::<Result<_>>()?;
    let parts: Vec<FindingText<'_>> = input.findings.iter().map(NewFinding::part).collect();
    let (text, metadata) = review_text::compose(id, input.verdict, own_words(input), &parts);
    Ok(SealedReview { id, findings, post: messages::seal_post(shared, now, &text, &metadata)? })
}

fn own_words(input: &SubmitReview) -> &str {
    input.body.as_deref().unwrap_or_default()
}

impl NewFinding {
    fn part(&self) -> FindingText<'_> {
        FindingText {
            severity: self.severity,
            path: self.path.as_deref(),
            line: self.line.map(Count::get),
            body: &self.body,
        }
    }

    fn numbered(&self, id: FindingId, review_id: ReviewId, number: i64) -> Finding {
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
    let place = visibility::visible_place(cx, thread.id)?;
    place.check_not_archived()?;
    let (count,): (i64,) = cx.one(COUNT, &[&thread.id, &judge.member, &REVIEWS_MAX])?.unwrap_or_default();
    if count >= REVIEWS_MAX {
        return Err(Error::wrong_state(format!("a thread has at most {REVIEWS_MAX} reviews of one member")));
    }
    let objection = verdicts::judges(cx, &thread)?.objection_to(judge);
    let numbered = (0_i64..).zip(input.findings.iter().zip(&sealed.findings));
    let findings: Vec<Finding> =
        numbered.map(|(number, (finding, id))| finding.numbered(*id, sealed.id, number)).collect();
    let submitted = ReviewSubmitted {
        review_id: sealed.id,
        verdict: input.verdict,
        head_sha: input.head_sha.as_ref(),
        findings: findings.iter().map(FoundIn::of).collect(),
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
    verdicts::insert(cx, &given)?;
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
    Ok(Review::of(given, own_words(input).to_owned(), findings))
}

const COUNT: &str = "
    select count(*) from (select 1 from reviews where thread_id = $1 and member_id = $2 limit $3) counted";
