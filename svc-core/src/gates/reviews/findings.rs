//! Findings: faults reported in a review, each with a severity and, once resolved, a resolution.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
use crate::log::replay::Replayed;
use crate::op::{Answer, Read, UnmetRequirement, Write};
use crate::store::{columns, named_enum};
use crate::time::Time;

named_enum! {
    /// Severity of a finding. A `critical` finding keeps the thread from closing until it is resolved.
    pub(super) enum Severity {
        Critical = "critical",
        Major = "major",
        Minor = "minor",
        Info = "info",
    }
}

named_enum! {
    /// Outcome with which a finding was resolved.
    pub(super) enum Resolution { Fixed = "fixed", Invalid = "invalid", WontFix = "wont_fix" }
}

/// A finding was resolved.
#[derive(Serialize, JsonSchema)]
pub(super) struct FindingResolved {
    /// The finding.
    finding_id: FindingId,
    /// The review that contains the finding.
    review_id: ReviewId,
    /// How the finding was resolved.
    resolution: Resolution,
    /// The member who resolved the finding.
    resolved_by: MemberId,
}

impl Event for FindingResolved {
    const KIND: &'static str = "FindingResolved";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        let finding = event.row_of("findings", "finding_id")?.copy("resolution resolved_by");
        finding.set("resolved_actor_id", event.actor()).set("resolved_at", event.at()).keep()
    }
}

/// A finding of a review.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Finding {
    /// The finding's id.
    pub id: FindingId,
    /// The review that contains the finding.
    pub review_id: ReviewId,
    /// Severity of the finding.
    pub severity: Severity,
    /// The file with the fault; null if the reviewer named none, and whenever `body` is blank.
    pub path: Option<String>,
    /// The line in that file; null if the reviewer named none.
    pub line: Option<i64>,
    /// Description of the fault; blank if the review's message was withdrawn or cannot be opened.
    pub body: String,
    /// How the finding was resolved; null while it is unresolved.
    ///
    /// A critical finding keeps the thread from closing again if its resolver later works on the thread.
    pub resolution: Option<Resolution>,
    /// The member who resolved the finding.
    pub resolved_by: Option<MemberId>,
    /// The delegate who resolved the finding for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_actor_id: Option<MemberId>,
    /// When the finding was resolved.
    pub resolved_at: Option<Time>,
    /// Index of the finding within its review, from 0.
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

/// The findings of several reviews, without their text.
pub(super) struct ReviewFindings {
    /// The findings of each review, in the reviewer's order.
    pub of_each: HashMap<ReviewId, Vec<Finding>>,
    /// The first review that may have more findings than were read.
    pub cut: Option<ReviewId>,
}

/// Returns the findings of a thread's reviews between two positions, within a page's limits.
pub(super) fn of_reviews(cx: &Read<'_>, thread: ThreadId, after: i64, last: i64) -> Result<ReviewFindings> {
    let rows: Vec<Finding> = cx.query(OF_REVIEWS, &[&thread, &after, &last, &PAGE_SCAN_MAX])?;
    let is_cut = i64::try_from(rows.len()).is_ok_and(|count| count >= PAGE_SCAN_MAX);
    let cut = rows.last().filter(|_| is_cut).map(|finding| finding.review_id);
    let mut of_each: HashMap<ReviewId, Vec<Finding>> = HashMap::new();
    for finding in rows {
        of_each.entry(finding.review_id).or_default().push(finding);
    }
    Ok(ReviewFindings { of_each, cut })
}

const OF_REVIEWS: &str = concat!(
    "select ",
    finding_columns!(),
    " from (
         select id, lsn from reviews where thread_id = $1 and lsn > $2 and lsn <= $3) r
     join findings f on f.review_id = r.id order by r.lsn, f.number limit $4"
);

/// Resolves a finding of a review, and returns the resolution.
///
/// Resolving it again replaces the resolution. A resolution stops counting if its author later works on the
/// thread: a critical finding then keeps the thread from closing until another member resolves it.
///
/// Fails with 403 `forbidden` if you are neither the author of the review nor have the skill `review`, or if
/// you have worked on the thread, directly or through a delegate; 404 `not-found` if the thread has no such
/// finding; 409 `wrong-state` if the thread is archived.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResolveFinding {
    /// The thread.
    thread_id: ThreadId,
    /// The finding.
    finding_id: FindingId,
    /// How the finding was resolved.
    resolution: Resolution,
}

/// A resolved finding.
#[derive(Serialize, JsonSchema)]
pub(super) struct ResolvedFinding {
    /// The finding's id.
    id: FindingId,
    /// The review that contains the finding.
    review_id: ReviewId,
    /// Severity of the finding.
    severity: Severity,
    /// How the finding was resolved.
    resolution: Resolution,
    /// The member who resolved the finding.
    resolved_by: Option<MemberId>,
    /// The delegate who resolved the finding for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_actor_id: Option<MemberId>,
    /// When the finding was resolved.
    resolved_at: Option<Time>,
}

pub(super) fn resolve_finding(cx: &mut Write<'_>, input: &ResolveFinding) -> Result<ResolvedFinding> {
    let (thread, finding) = visible_finding(cx, input.thread_id, input.finding_id)?;
    let author = verdicts::author(cx, finding.review_id)?;
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
        RESOLVE,
        &[&finding.id, &finding.resolution, &resolver.member, &resolver.actor, &finding.resolved_at],
    )?;
    Ok(ResolvedFinding::of(finding, input.resolution))
}

/// Loads a finding of a thread that the caller can see.
fn visible_finding(cx: &Read<'_>, thread: ThreadId, id: FindingId) -> Result<(Thread, Finding)> {
    let thread = visible_thread(cx, thread)?;
    let found: Option<Finding> = cx.one(ONE, &[&id, &thread.id])?;
    Ok((thread, found.ok_or_else(|| Error::not_found("finding"))?))
}

const ONE: &str =
    concat!("select ", finding_columns!(), " from findings f where f.id = $1 and f.thread_id = $2");

impl Finding {
    /// Returns whether one of these members resolved the finding, directly or as a delegate.
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

const RESOLVE: &str = "
    update findings set resolution = $2, resolved_by = $3, resolved_actor_id = $4, resolved_at = $5
    where id = $1";

/// Fails unless the resolver wrote the review or has the skill `review`, and has not worked on the thread.
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
    if is_author || members::is_holder(cx, resolver.member, members::REVIEW)? {
        return Ok(());
    }
    Err(Error::forbidden("only its author, or a member with the skill review, resolves a finding"))
}

/// Returns the unresolved critical findings of a thread, which keep it from closing.
pub(super) fn blocking_findings(cx: &Read<'_>, id: ThreadId) -> Result<Vec<UnmetRequirement>> {
    let (count, ids) = blocking(cx, id)?;
    let detail = match count {
        0 => return Ok(Vec::new()),
        1 => "a critical finding is not resolved".to_owned(),
        BLOCKING_MAX.. => format!("at least {BLOCKING_MAX} critical findings are not resolved"),
        more => format!("{more} critical findings are not resolved"),
    };
    Ok(vec![UnmetRequirement { detail, ids: ids.iter().map(ToString::to_string).collect() }])
}

/// Returns the number and the first ids of the unresolved critical findings of a thread.
///
/// The number is at most [`BLOCKING_MAX`].
///
/// A finding counts as unresolved if its resolver has worked on the thread since.
pub(super) fn blocking(cx: &Read<'_>, thread: ThreadId) -> Result<(i64, Vec<FindingId>)> {
    let found: Vec<(FindingId, i64)> = cx.query(BLOCKING, &[&thread, &REASON_IDS_MAX, &BLOCKING_MAX])?;
    let count = found.first().map_or(0, |(_, count)| *count);
    Ok((count, found.into_iter().map(|(id, _)| id).collect()))
}

/// Maximum number of unresolved critical findings that are counted.
const BLOCKING_MAX: i64 = 1000;

const BLOCKING: &str = concat!(
    "select b.id, count(*) over () from (
     select f.id, f.lsn, f.number from findings f
     where f.thread_id = $1 and f.severity = 'critical' and (f.resolution is null or ",
    worked_on!("f.thread_id", "f.resolved_by, f.resolved_actor_id"),
    ") order by f.lsn, f.number limit $3) b order by b.lsn, b.number limit $2"
);
