//! Findings: faults that a review reports, each with a severity and, after it is resolved, a resolution.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::verdicts;
use crate::Result;
use crate::coordination::thread_row::{Thread, visible_thread};
use crate::coordination::workers::{self, worked_on};
use crate::error::Error;
use crate::gates::verdict_rules::VerdictAuthor;
use crate::id::{FindingId, MemberId, ReviewId, ThreadId};
use crate::identity::members;
use crate::limits::{PAGE_SCAN_MAX, REASON_IDS_MAX};
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Read, UnmetRequirement, Write};
use crate::request::request;
use crate::store::{columns, named_enum};
use crate::time::Time;

named_enum! {
    /// Severity of a finding. A `critical` finding prevents its thread from closing until the finding is
    /// resolved.
    #[non_exhaustive]
    pub enum Severity {
        Critical = "critical",
        Major = "major",
        Minor = "minor",
        Info = "info",
    }
}

named_enum! {
    /// Resolution of a finding: the fault was fixed, is not a fault, or will not be fixed.
    pub enum Resolution { Fixed = "fixed", Invalid = "invalid", WontFix = "wont_fix" }
}

/// A finding of a review was resolved.
#[derive(Serialize, JsonSchema)]
pub(super) struct FindingResolved {
    /// Id of the resolved finding.
    finding_id: FindingId,
    /// Id of the review that contains the finding.
    review_id: ReviewId,
    /// Resolution of the finding, such as `fixed`.
    resolution: Resolution,
    /// The member who resolved the finding.
    resolved_by: MemberId,
}

impl Event for FindingResolved {
    const KIND: &'static str = "FindingResolved";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let finding = event.row_of("findings", "finding_id")?.copy("resolution resolved_by");
        finding.set("resolved_actor_id", event.actor()).set("resolved_at", event.at()).keep()
    }
}

/// A fault that a review reports.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Finding {
    /// Id of the finding.
    pub id: FindingId,
    /// Id of the review that contains the finding.
    pub review_id: ReviewId,
    /// Severity of the finding.
    pub severity: Severity,
    /// Path of the file that contains the fault; null if the reviewer specified no file, or if `body` is
    /// blank.
    pub path: Option<String>,
    /// Line number of the fault in that file, from 1; null if the reviewer specified no line.
    pub line: Option<i64>,
    /// Description of the fault; blank if the review's message was withdrawn or cannot be opened.
    pub body: String,
    /// Resolution of the finding; null while the finding is unresolved.
    ///
    /// A resolved critical finding prevents the thread from closing again if the resolver later works on the
    /// thread.
    pub resolution: Option<Resolution>,
    /// The member who resolved the finding; null while the finding is unresolved.
    pub resolved_by: Option<MemberId>,
    /// The delegate who resolved the finding for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_actor_id: Option<MemberId>,
    /// Time at which the finding was resolved; null while the finding is unresolved.
    pub resolved_at: Option<Time>,
    /// Index of the finding within the review, from 0.
    #[serde(skip)]
    pub number: i64,
}

columns! {
    finding_columns: Finding as f {
        id,
        review_id,
        severity,
        line,
        resolution,
        resolved_by,
        resolved_actor_id = "nullif(f.resolved_actor_id, f.resolved_by)",
        resolved_at,
        number,
    }
    // The path and the body are stored in the review's message.
    make { path: None, body: String::new() }
}

/// Findings of several reviews, without their text.
pub(super) struct ReviewFindings {
    /// Findings of each review, in the order in which the reviewer listed them.
    pub by_review: HashMap<ReviewId, Vec<Finding>>,
    /// The first review whose findings may be incomplete; `None` if all findings were read.
    pub first_incomplete: Option<ReviewId>,
}

/// Returns the findings of a thread's reviews at positions after `after_lsn` and up to `last_lsn`.
///
/// Reads no more rows than one page may examine.
pub(super) fn findings_of_reviews(
    cx: &Read<'_>,
    thread: ThreadId,
    after_lsn: i64,
    last_lsn: i64,
) -> Result<ReviewFindings> {
    let rows: Vec<Finding> =
        cx.query(FINDINGS_OF_REVIEWS, &[&thread, &after_lsn, &last_lsn, &PAGE_SCAN_MAX])?;
    let is_cut = i64::try_from(rows.len()).is_ok_and(|count| count >= PAGE_SCAN_MAX);
    let first_incomplete = rows.last().filter(|_| is_cut).map(|finding| finding.review_id);
    let mut by_review: HashMap<ReviewId, Vec<Finding>> = HashMap::new();
    for finding in rows {
        by_review.entry(finding.review_id).or_default().push(finding);
    }
    Ok(ReviewFindings { by_review, first_incomplete })
}

const FINDINGS_OF_REVIEWS: &str = concat!(
    "select ",
    finding_columns!(),
    " from (
         select id, lsn from reviews where thread_id = $1 and lsn > $2 and lsn <= $3) r
     join findings f on f.review_id = r.id order by r.lsn, f.number limit $4"
);

request! {
    /// Resolves a finding of a review, and returns the resolved finding.
    ///
    /// Resolving it again replaces the resolution. A resolution stops counting if its author later works on
    /// the thread: a critical finding then prevents the thread from closing until another member resolves it.
    ///
    /// Fails with 403 `forbidden` if you are neither the author of the review nor have the skill `review`, or
    /// if you have worked on the thread, directly or through a delegate; 404 `not-found` if the thread has no
    /// such finding; 409 `wrong-state` if the thread is archived.
    #[derive(Serialize)]
    pub(super) struct ResolveFinding {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Id of the finding.
        finding_id: FindingId,
        /// Resolution of the finding, such as `fixed`.
        resolution: Resolution,
    }

    resolve_finding(thread_id: ThreadId, finding_id: FindingId, resolution: Resolution) -> ResolvedFinding
}

/// A resolved finding of a review.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ResolvedFinding {
    /// Id of the finding.
    pub id: FindingId,
    /// Id of the review that contains the finding.
    pub review_id: ReviewId,
    /// Severity of the finding.
    pub severity: Severity,
    /// Resolution of the finding, such as `fixed`.
    pub resolution: Resolution,
    /// The member who resolved the finding.
    pub resolved_by: Option<MemberId>,
    /// The delegate who resolved the finding for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_actor_id: Option<MemberId>,
    /// Time at which the finding was resolved.
    pub resolved_at: Option<Time>,
}

pub(super) fn resolve_finding(cx: &mut Write<'_>, input: &ResolveFinding) -> Result<ResolvedFinding> {
    let (thread, finding) = visible_finding(cx, input.thread_id, input.finding_id)?;
    let author = verdicts::load_author(cx, finding.review_id)?;
    let resolver = VerdictAuthor::of(cx.caller())?;
    let workers = workers::of(cx, thread.id)?;
    check_may_resolve(cx, &workers, author, resolver)?;
    thread.check_not_archived()?;
    if finding.resolution == Some(input.resolution) && !finding.is_resolved_by_one_of(&workers) {
        return Ok(ResolvedFinding::of(finding, input.resolution));
    }
    let resolved = FindingResolved {
        finding_id: finding.id,
        review_id: finding.review_id,
        resolution: input.resolution,
        resolved_by: resolver.member,
    };
    let resolved_at = cx.emit(thread.place().about(author.member), &resolved)?.at;
    let finding = Finding {
        resolution: Some(input.resolution),
        resolved_by: Some(resolver.member),
        resolved_actor_id: resolver.delegate(),
        resolved_at: Some(resolved_at),
        ..finding
    };
    cx.execute(
        1,
        SET_RESOLUTION,
        &[&finding.id, &finding.resolution, &resolver.member, &resolver.actor, &finding.resolved_at],
    )?;
    Ok(ResolvedFinding::of(finding, input.resolution))
}

/// Loads a finding and its thread. Fails with *not found* unless the caller can see the thread.
fn visible_finding(cx: &Read<'_>, thread: ThreadId, id: FindingId) -> Result<(Thread, Finding)> {
    let thread = visible_thread(cx, thread)?;
    let found: Option<Finding> = cx.one(FINDING_BY_ID, &[&id, &thread.id])?;
    Ok((thread, found.ok_or_else(|| Error::not_found("finding"))?))
}

const FINDING_BY_ID: &str =
    concat!("select ", finding_columns!(), " from findings f where f.id = $1 and f.thread_id = $2");

impl Finding {
    /// Returns whether one of `members` resolved the finding, directly or as a delegate.
    fn is_resolved_by_one_of(&self, members: &BTreeSet<MemberId>) -> bool {
        self.resolved_by.iter().chain(&self.resolved_actor_id).any(|member| members.contains(member))
    }
}

impl ResolvedFinding {
    fn of(finding: Finding, resolution: Resolution) -> Self {
        Self {
            id: finding.id,
            review_id: finding.review_id,
            severity: finding.severity,
            resolution,
            resolved_by: finding.resolved_by,
            resolved_actor_id: finding.resolved_actor_id,
            resolved_at: finding.resolved_at,
        }
    }
}

impl Answer<ResolveFinding> for ResolvedFinding {
    type Kept = FindingId;

    fn kept(&self) -> Option<FindingId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, input: &ResolveFinding, id: FindingId) -> Result<Self> {
        let (_, finding) = visible_finding(cx, input.thread_id, id)?;
        let resolution = finding.resolution.unwrap_or(input.resolution);
        Ok(Self::of(finding, resolution))
    }
}

const SET_RESOLUTION: &str = "
    update findings set resolution = $2, resolved_by = $3, resolved_actor_id = $4, resolved_at = $5
    where id = $1";

/// Fails if the resolver has worked on the thread, or neither wrote the review nor has the skill `review`.
fn check_may_resolve(
    cx: &Read<'_>,
    workers: &BTreeSet<MemberId>,
    author: VerdictAuthor,
    resolver: VerdictAuthor,
) -> Result<()> {
    let people = resolver.member_and_delegate();
    if people.iter().any(|member| workers.contains(member)) {
        return Err(Error::forbidden(
            "a member who has worked on a thread cannot resolve a finding about it",
        ));
    }
    let is_author = people.iter().any(|member| author.member_and_delegate().contains(member));
    if is_author || members::member_has_skill(cx, resolver.member, members::REVIEW_SKILL)? {
        return Ok(());
    }
    Err(Error::forbidden("only its author, or a member with the skill review, resolves a finding"))
}

/// Returns the unresolved critical findings of a thread as a reason why the thread cannot close.
pub(super) fn blocking_findings(cx: &Read<'_>, thread_id: ThreadId) -> Result<Vec<UnmetRequirement>> {
    let (count, ids) = unresolved_critical_findings(cx, thread_id)?;
    let detail = match count {
        0 => return Ok(Vec::new()),
        1 => "a critical finding is not resolved".to_owned(),
        CRITICAL_FINDINGS_MAX.. => {
            format!("at least {CRITICAL_FINDINGS_MAX} critical findings are not resolved")
        }
        more => format!("{more} critical findings are not resolved"),
    };
    Ok(vec![UnmetRequirement { detail, ids: ids.iter().map(ToString::to_string).collect() }])
}

/// Returns the number of unresolved critical findings of a thread, and the ids of the first 10.
///
/// The number does not exceed [`CRITICAL_FINDINGS_MAX`].
///
/// A finding counts as unresolved again if its resolver has ever worked on the thread.
pub(super) fn unresolved_critical_findings(cx: &Read<'_>, thread: ThreadId) -> Result<(i64, Vec<FindingId>)> {
    let found: Vec<(FindingId, i64)> =
        cx.query(UNRESOLVED_CRITICAL_FINDINGS, &[&thread, &REASON_IDS_MAX, &CRITICAL_FINDINGS_MAX])?;
    let count = found.first().map_or(0, |(_, count)| *count);
    Ok((count, found.into_iter().map(|(id, _)| id).collect()))
}

/// Maximum number of unresolved critical findings of one thread that are counted.
const CRITICAL_FINDINGS_MAX: i64 = 1000;

const UNRESOLVED_CRITICAL_FINDINGS: &str = concat!(
    "select b.id, count(*) over () from (
     select f.id, f.lsn, f.number from findings f
     where f.thread_id = $1 and f.severity = 'critical' and (f.resolution is null or ",
    worked_on!("f.thread_id", "f.resolved_by, f.resolved_actor_id"),
    ") order by f.lsn, f.number limit $3) b order by b.lsn, b.number limit $2"
);
