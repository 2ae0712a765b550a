//! Verdicts: the decisions of reviewers, and the rules that determine which verdicts count.
//!
//! Only the last verdict of each author counts: a new verdict permanently supersedes all earlier verdicts of
//! its author. A verdict under delegation has two authors, the member and the delegate, and supersedes the
//! earlier verdicts of both authors.

use std::cmp::Reverse;

use super::requirement::qualified_members;
use crate::Result;
use crate::coordination::thread_row::Thread;
use crate::error::Error;
use crate::gates::commit::CommitHash;
use crate::gates::verdict_rules::{EarlierVerdict, Objection, VerdictAuthor, VerdictRules};
use crate::id::{MemberId, MessageId, ReviewId, ThreadId};
use crate::limits::REVIEWS_READ_MAX;
use crate::log::replay::ReplayedEvent;
use crate::op::{Read, Write};
use crate::store::{columns, named_enum};
use crate::time::Time;

named_enum! {
    /// Verdict of a reviewer on the work. Only `approve` counts, and only while it is the author's last
    /// verdict: a later `request_changes` or `comment` supersedes it. A `comment` decides nothing.
    pub enum Verdict { Approve = "approve", RequestChanges = "request_changes", Comment = "comment" }
}

/// Row of a review: the verdict, without the review's text and findings.
#[derive(Clone, Debug)]
pub struct ReviewRow {
    pub id: ReviewId,
    pub thread_id: ThreadId,
    pub member_id: MemberId,
    /// The delegate who submitted the review; equal to `member_id` if the member acted directly.
    pub actor_id: MemberId,
    pub verdict: Verdict,
    pub objection: Option<Objection>,
    pub head_sha: Option<CommitHash>,
    pub message_id: MessageId,
    pub submitted_at: Time,
    pub lsn: i64,
    /// Whether the member or the delegate has submitted a later verdict.
    pub superseded: bool,
    /// Whether the member and the delegate may both act now: neither is frozen or deactivated.
    pub active: bool,
}

columns! {
    pub(super) review_columns: ReviewRow as r {
        id,
        thread_id,
        member_id,
        actor_id,
        verdict,
        objection,
        head_sha,
        message_id,
        submitted_at,
        lsn,
        superseded,
        active = (
            crate::identity::members::may_act!("r.member_id"),
            " and ",
            crate::identity::members::may_act!("r.actor_id")
        ),
    }
    insert "insert into reviews" {}
}

impl ReviewRow {
    /// Returns the member and the delegate who submitted the review.
    pub fn author(&self) -> VerdictAuthor {
        VerdictAuthor { member: self.member_id, actor: self.actor_id }
    }

    /// Returns the reason why the review does not count as an approval, or `None` if the review counts.
    fn approval_objection(&self, rules: &VerdictRules) -> Option<Objection> {
        if self.verdict != Verdict::Approve {
            return Some(Objection::Verdict);
        }
        if self.superseded {
            return Some(Objection::Superseded);
        }
        rules.objection_to_verdict(&EarlierVerdict {
            author: self.author(),
            lsn: self.lsn,
            objection: self.objection,
            active: self.active,
        })
    }
}

/// Inserts the row of a new review, and marks the earlier verdicts of the review's authors as superseded.
pub(super) fn insert_review(cx: &mut Write<'_>, review: &ReviewRow) -> Result<()> {
    cx.execute_any(SUPERSEDE_EARLIER_VERDICTS, &[&review.thread_id, &review.member_id, &review.actor_id])?;
    review.with_new_row(|row| cx.insert(row))
}

/// Statement that uses the index of last verdicts, which contains one verdict per member and thread.
const SUPERSEDE_EARLIER_VERDICTS: &str = "
    update reviews set superseded = true
    where thread_id = $1 and not superseded and (member_id in ($2, $3) or actor_id in ($2, $3))";

/// Name of the replay table that maps a thread and an author to the author's last verdict.
const LAST_VERDICTS: &str = "last verdicts";

/// During replay, marks the earlier verdicts of a review's authors as superseded.
pub(super) fn replay_superseded(event: &ReplayedEvent<'_>) -> Result<()> {
    for person in [event.member(), event.actor()] {
        event.rows(LAST_VERDICTS, &[event.thread(), person], |standing| {
            let review = standing.key().last().cloned();
            standing.forget()?;
            event.row("reviews", review)?.set("superseded", true).keep()
        })?;
    }
    event.row_of(LAST_VERDICTS, "$thread $member review_id")?.keep()?;
    let by_actor = event.field("review_id").map(|review| [event.thread(), event.actor(), review.clone()]);
    by_actor.map_or(Ok(()), |key| event.row(LAST_VERDICTS, key)?.keep())
}

/// Returns the member and the delegate who submitted a review.
pub(super) fn load_author(cx: &Read<'_>, review: ReviewId) -> Result<VerdictAuthor> {
    let author: Option<(MemberId, MemberId)> = cx.one(AUTHOR_OF_REVIEW, &[&review])?;
    let (member, actor) = author.ok_or_else(|| Error::internal("a finding has no review"))?;
    Ok(VerdictAuthor { member, actor })
}

const AUTHOR_OF_REVIEW: &str = "select member_id, actor_id from reviews where id = $1";

/// Returns the rules that decide whether an approval of a thread counts.
pub(super) fn approval_rules(cx: &Read<'_>, thread: &Thread) -> Result<VerdictRules> {
    VerdictRules::of_thread(cx, thread, qualified_members(cx, thread.id)?)
}

/// Returns reviews of a thread, newest first, each with the reason why it does not count as an approval.
///
/// The result contains the last verdict of each author and, if the limit is not reached, the newest
/// superseded verdicts.
pub(super) fn reviews_with_objections(
    cx: &Read<'_>,
    thread: &Thread,
) -> Result<Vec<(ReviewRow, Option<Objection>)>> {
    let mut given: Vec<ReviewRow> = cx.query(LAST_REVIEWS, &[&thread.id, &REVIEWS_READ_MAX])?;
    let room = REVIEWS_READ_MAX.saturating_sub(i64::try_from(given.len()).unwrap_or(i64::MAX));
    if room > 0 {
        given.extend(cx.query::<ReviewRow>(SUPERSEDED_REVIEWS, &[&thread.id, &room])?);
        given.sort_by_key(|given| Reverse(given.lsn));
    }
    let rules = approval_rules(cx, thread)?;
    let weigh = |given: ReviewRow| {
        let objection = given.approval_objection(&rules);
        (given, objection)
    };
    Ok(given.into_iter().map(weigh).collect())
}

/// Query that uses the index of last verdicts.
const LAST_REVIEWS: &str = concat!(
    "select ",
    review_columns!(),
    " from reviews r where r.thread_id = $1 and not r.superseded order by r.lsn desc limit $2"
);

const SUPERSEDED_REVIEWS: &str = concat!(
    "select ",
    review_columns!(),
    " from reviews r where r.thread_id = $1 and r.superseded order by r.lsn desc limit $2"
);

/// Returns the ids of the approvals of a thread that count, newest first.
///
/// Reads only last verdicts, so the cost does not depend on the number of superseded reviews.
pub(super) fn counting_approvals(cx: &Read<'_>, thread: &Thread) -> Result<Vec<ReviewId>> {
    let given: Vec<ReviewRow> =
        cx.query(LAST_APPROVALS, &[&thread.id, &thread.judged_from, &REVIEWS_READ_MAX])?;
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let rules = approval_rules(cx, thread)?;
    let counts = |given: &ReviewRow| given.approval_objection(&rules).is_none();
    Ok(given.into_iter().filter(counts).map(|given| given.id).collect())
}

/// Query that uses the index of last verdicts.
const LAST_APPROVALS: &str = concat!(
    "select ",
    review_columns!(),
    " from reviews r
     where r.thread_id = $1 and not r.superseded and r.lsn >= $2
        and r.verdict = 'approve' and r.objection is null
     order by r.lsn desc limit $3"
);

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::gates::verdict_rules::rules_for_tests;

    #[test]
    fn what_stands_against_an_approval() {
        use Verdict::{Approve, Comment, RequestChanges};
        let id = Uuid::from_u128;
        // Only member 10 is a reviewer, and the thread's last result is at position 5.
        let rules = rules_for_tests(5, std::iter::once(id(10).into()));
        for (lsn, member, verdict, superseded, wanted) in [
            (6, 10, Approve, false, None),
            (6, 10, RequestChanges, false, Some(Objection::Verdict)),
            (6, 10, Comment, false, Some(Objection::Verdict)),
            (6, 10, Approve, true, Some(Objection::Superseded)),
            (6, 10, Comment, true, Some(Objection::Verdict)),
            (4, 10, Approve, false, Some(Objection::Outdated)),
            (4, 10, Approve, true, Some(Objection::Superseded)),
            (6, 20, Approve, false, Some(Objection::Unqualified)),
        ] {
            let given = ReviewRow {
                id: id(3).into(),
                thread_id: id(1).into(),
                member_id: id(member).into(),
                actor_id: id(member).into(),
                verdict,
                objection: None,
                head_sha: None,
                message_id: id(2).into(),
                submitted_at: Time::from_micros(lsn),
                lsn,
                superseded,
                active: true,
            };
            assert_eq!(given.approval_objection(&rules), wanted, "{given:?}");
        }
    }
}
