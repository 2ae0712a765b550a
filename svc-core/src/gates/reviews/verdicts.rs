//! Verdicts: what reviewers decided, and which of it counts.
//!
//! A comment decides nothing, so it leaves the author's last verdict as it is.

use std::collections::BTreeSet;

use super::requirement::qualified;
use crate::Result;
use crate::coordination::thread::Thread;
use crate::error::Error;
use crate::gates::commit::CommitHash;
use crate::gates::judges::{Judge, Judgement, Judges, Objection};
use crate::id::{MemberId, MessageId, ReviewId, ThreadId};
use crate::op::{Read, Write};
use crate::store::{columns, named_enum};
use crate::time::Time;

named_enum! {
    /// What a review decides about the work. Only `approve` counts; `request_changes` takes the author's
    /// approval back, and `comment` decides nothing.
    pub(super) enum Verdict { Approve = "approve", RequestChanges = "request_changes", Comment = "comment" }
}

/// A review's row: its verdict, without its words and findings.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub id: ReviewId,
    pub thread_id: ThreadId,
    pub member_id: MemberId,
    pub actor_id: MemberId,
    pub verdict: Verdict,
    pub objection: Option<Objection>,
    pub head_sha: Option<CommitHash>,
    pub message_id: MessageId,
    pub submitted_at: Time,
    pub lsn: i64,
    pub active: bool,
}

columns! {
    pub(super) given_columns: Given as r {
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
        active = (
            crate::identity::members::may_act!("r.member_id"),
            " and ",
            crate::identity::members::may_act!("r.actor_id")
        ),
    }
    insert "insert into reviews" {}
}

impl Given {
    pub fn judge(&self) -> Judge {
        Judge { member: self.member_id, actor: self.actor_id }
    }

    fn judgement(&self) -> Judgement {
        Judgement { by: self.judge(), lsn: self.lsn, objection: self.objection, active: self.active }
    }
}

/// Inserts the row of a new review.
pub(super) fn insert(cx: &mut Write<'_>, given: &Given) -> Result<()> {
    given.with_new_row(|row| cx.insert(row))
}

/// Returns who wrote a review.
pub(super) fn author(cx: &Read<'_>, review: ReviewId) -> Result<Judge> {
    let author: Option<(MemberId, MemberId)> = cx.one(AUTHOR, &[&review])?;
    let (member, actor) = author.ok_or_else(|| Error::internal("a finding has no review"))?;
    Ok(Judge { member, actor })
}

const AUTHOR: &str = "select member_id, actor_id from reviews where id = $1";

/// Returns who may approve a thread.
pub(super) fn judges(cx: &Read<'_>, thread: &Thread) -> Result<Judges> {
    Judges::among(cx, thread, qualified(cx, thread.id)?)
}

/// Returns every review of a thread, newest first, each with what stands against counting it as an approval.
pub(super) fn weighed(cx: &Read<'_>, thread: &Thread) -> Result<Vec<(Given, Option<Objection>)>> {
    let given: Vec<Given> = cx.query(NEWEST_FIRST, &[&thread.id])?;
    Ok(weigh(given, &judges(cx, thread)?))
}

const NEWEST_FIRST: &str =
    concat!("select ", given_columns!(), " from reviews r where r.thread_id = $1 order by r.lsn desc");

/// Adds to each review what stands against it; they come newest first.
///
/// No member gives two approvals that count: a verdict is superseded by a later one of either of its people.
fn weigh(newest_first: Vec<Given>, judges: &Judges) -> Vec<(Given, Option<Objection>)> {
    let mut decided: BTreeSet<MemberId> = BTreeSet::new();
    let weigh_one = |given: Given| {
        if given.verdict == Verdict::Comment {
            return (given, Some(Objection::Verdict));
        }
        let people = given.judge().people();
        let is_superseded = people.iter().any(|member| decided.contains(member));
        decided.extend(people);
        let objection = if given.verdict == Verdict::RequestChanges {
            Some(Objection::Verdict)
        } else if is_superseded {
            Some(Objection::Superseded)
        } else {
            judges.objection_against(&given.judgement())
        };
        (given, objection)
    };
    newest_first.into_iter().map(weigh_one).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::gates::judges::judges_for_tests;

    fn given(lsn: i64, member: u128, actor: u128, verdict: Verdict) -> Given {
        let id = Uuid::from_u128;
        Given {
            id: id(lsn.unsigned_abs().into()).into(),
            thread_id: id(1).into(),
            member_id: id(member).into(),
            actor_id: id(actor).into(),
            verdict,
            objection: None,
            head_sha: None,
            message_id: id(2).into(),
            submitted_at: Time::from_micros(lsn),
            lsn,
            active: true,
        }
    }

    /// Members from 10 on are reviewers; position 5 is that of the last result.
    fn counted(reviews: &[(i64, u128, u128, Verdict)]) -> Vec<(i64, Option<Objection>)> {
        let judges = judges_for_tests(5, (10..20).map(|n| Uuid::from_u128(n).into()));
        let newest_first =
            reviews.iter().rev().map(|(lsn, member, actor, verdict)| given(*lsn, *member, *actor, *verdict));
        let weighed = weigh(newest_first.collect(), &judges);
        weighed.into_iter().rev().map(|(given, objection)| (given.lsn, objection)).collect()
    }

    #[test]
    fn the_last_verdict_of_each_author_counts_once() {
        use Verdict::{Approve, Comment, RequestChanges};
        let (none, superseded) = (Some(Objection::Verdict), Some(Objection::Superseded));
        assert_eq!(counted(&[(6, 10, 10, Approve), (7, 11, 11, Approve)]), [(6, None), (7, None)]);
        assert_eq!(counted(&[(6, 10, 10, Approve), (7, 10, 10, Approve)]), [(6, superseded), (7, None)]);
        assert_eq!(
            counted(&[(6, 10, 10, Approve), (7, 10, 10, RequestChanges)]),
            [(6, superseded), (7, none)]
        );
        assert_eq!(counted(&[(6, 10, 10, Approve), (7, 10, 10, Comment)]), [(6, None), (7, none)]);
        assert_eq!(
            counted(&[(4, 10, 10, Approve), (6, 10, 10, RequestChanges), (7, 10, 10, Approve)]),
            [(4, superseded), (6, none), (7, None)]
        );
        assert_eq!(counted(&[(4, 10, 10, Approve)]), [(4, Some(Objection::Outdated))]);
        // A delegate's verdict is its own too, whichever way round.
        assert_eq!(counted(&[(6, 10, 11, Approve), (7, 11, 11, Approve)]), [(6, superseded), (7, None)]);
        assert_eq!(
            counted(&[(6, 11, 11, Approve), (7, 10, 11, RequestChanges)]),
            [(6, superseded), (7, none)]
        );
        assert_eq!(counted(&[(6, 20, 20, Approve)]), [(6, Some(Objection::Unqualified))]);
    }
}
