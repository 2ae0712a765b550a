//! Findings: the faults that a review found, each with a severity, until a member resolves it.

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
    /// How severe a finding is. A critical one prevents the close until it is resolved.
    pub(super) enum Severity {
        Critical = "critical",
        Major = "major",
        Minor = "minor",
        Info = "info",
    }
}

named_enum! {
    /// How a finding was resolved.
    pub(super) enum Resolution { Fixed = "fixed", Invalid = "invalid", WontFix = "wont_fix" }
}

/// A finding was resolved.
#[derive(Serialize, JsonSchema)]
pub(super) struct FindingResolved {
    /// The finding.
    finding_id: FindingId,
    /// The review that it belongs to.
    review_id: ReviewId,
    /// How it was resolved.
    resolution: Resolution,
    /// The member who resolved it.
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
    /// The review that it belongs to.
    pub review_id: ReviewId,
    /// How severe it is.
    pub severity: Severity,
    /// The file that it is about; null if none was named, and whenever `body` is blank.
    pub path: Option<String>,
    /// The line of the file.
    pub line: Option<i64>,
    /// The fault; blank once the review's message is withdrawn, or if it cannot be opened.
    pub body: String,
    /// How it was resolved; null while it is unresolved.
    ///
    /// A critical finding prevents the close again once its resolver has worked on the thread.
    pub resolution: Option<Resolution>,
    /// The member who resolved it.
    pub resolved_by: Option<MemberId>,
    /// The delegate who resolved it for that member; absent if the member acted for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_actor_id: Option<MemberId>,
    /// When it was resolved.
    pub resolved_at: Option<Time>,
    /// Its number among the findings of its review, from 0.
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
    // The text is in the review's message.
    make { path: None, body: String::new() }
}

/// Findings of reviews, without their text.
pub(super) struct ReviewFindings {
    /// The findings of each review, in order.
    pub of_each: HashMap<ReviewId, Vec<Finding>>,
    /// The first review whose findings may not all have been read.
    pub cut: Option<ReviewId>,
}

/// Returns the findings of a thread's reviews after one position and up to another, within a page's limits.
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
/// Resolving it again replaces the resolution. A resolution no longer counts once its author has worked on
/// the thread: a critical finding prevents the close again until another member resolves it.
///
/// Fails with 403 `forbidden` if you are neither its author nor have the skill `review`, or if you have
/// worked on the thread, yourself or by a delegate; 404 `not-found` if the thread has no such finding; 409
/// `wrong-state` if the thread is archived.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResolveFinding {
    /// The thread.
    thread_id: ThreadId,
    /// The finding.
    finding_id: FindingId,
    /// How it was resolved.
    resolution: Resolution,
}

/// A resolved finding.
#[derive(Serialize, JsonSchema)]
pub(super) struct ResolvedFinding {
    /// The finding's id.
    id: FindingId,
    /// The review that it belongs to.
    review_id: ReviewId,
    /// How severe it is.
    severity: Severity,
    /// How it was resolved.
    resolution: Resolution,
    /// The member who resolved it.
    resolved_by: Option<MemberId>,
    /// The delegate who resolved it for that member; absent if the member acted for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_actor_id: Option<MemberId>,
    /// When it was resolved.
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

/// Loads a finding of a thread that the caller sees.
fn visible_finding(cx: &Read<'_>, thread: ThreadId, id: FindingId) -> Result<(Thread, Finding)> {
    let thread = visible_thread(cx, thread)?;
    let found: Option<Finding> = cx.one(ONE, &[&id, &thread.id])?;
    Ok((thread, found.ok_or_else(|| Error::not_found("finding"))?))
}

const ONE: &str =
    concat!("select ", finding_columns!(), " from findings f where f.id = $1 and f.thread_id = $2");

impl Finding {
    /// Returns whether one of these members has resolved it, itself or for another.
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

/// Fails unless the caller is the author or a reviewer by skill, and has not worked on the thread.
fn check_may_resolve(
    cx: &Read<'_>,
    workers: &BTreeSet<MemberId>,
    author: VerdictAuthor,
    resolver: VerdictAuthor,
) -> Result<()> {
    let people = resolver.people();
    if people.iter().any(|member| workers.contains(member)) {
        return Err(Error::forbidden("a member who has worked on a thread cannot resolve a finding about it"));
    }
    let is_author = people.iter().any(|member| author.people().contains(member));
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

/// Returns the number of unresolved critical findings of a thread, up to [`BLOCKING_MAX`], and the first of
/// them.
///
/// A finding whose resolver has worked on the thread since counts as unresolved.
pub(super) fn blocking(cx: &Read<'_>, thread: ThreadId) -> Result<(i64, Vec<FindingId>)> {
    let found: Vec<(FindingId, i64)> = cx.query(BLOCKING, &[&thread, &REASON_IDS_MAX, &BLOCKING_MAX])?;
    let count = found.first().map_or(0, |(_, count)| *count);
    Ok((count, found.into_iter().map(|(id, _)| id).collect()))
}

/// Maximum number of unresolved findings that are counted.
const BLOCKING_MAX: i64 = 1000;

const BLOCKING: &str = concat!(
    "select b.id, count(*) over () from (
     select f.id, f.lsn, f.number from findings f
     where f.thread_id = $1 and f.severity = 'critical' and (f.resolution is null or ",
    worked_on!("f.thread_id", "f.resolved_by, f.resolved_actor_id"),
    ") order by f.lsn, f.number limit $3) b order by b.lsn, b.number limit $2"
);
