//! Rules for who may judge the work in a thread, and for whether a judgement still counts.
//!
//! The same rules apply to approvals and to passes of the land gate. A judgement under delegation has two
//! authors, the member and the delegate. Neither author may own the thread or have worked on it. A later
//! judgement by either author replaces the judgement. The server checks the rules when a judgement is
//! submitted and again whenever the judgement is read, because the thread may have changed in between. A
//! judgement does not count while one of its authors is frozen or deactivated.
//!
//! Ownership matters only at those two moments. A former owner of a thread may judge it, unless the former
//! owner has worked on it. The server never forgets the members who have worked on a thread.

use std::collections::BTreeSet;

use crate::Result;
use crate::coordination::thread_row::Thread;
use crate::coordination::workers;
use crate::error::Error;
use crate::id::MemberId;
use crate::op::{Caller, Read};
use crate::store::named_enum;

named_enum! {
    /// Reason why an approval of a review or a pass of the land gate does not count.
    ///
    /// `verdict`: the verdict is not an approval or a pass. `superseded`: the author has submitted a later
    /// verdict. `outdated`: the thread has a later result, or was reopened later. `owner`: the author owns
    /// the thread. `worker`: the author has worked on the thread. `unqualified`: the author is not a listed
    /// reviewer and lacks the required skill. `inactive`: the author is frozen or deactivated. `owner`,
    /// `worker` and `unqualified` also apply if they applied when the verdict was submitted. Under
    /// delegation, all reasons except `unqualified` apply to the delegate too.
    #[non_exhaustive]
    pub enum Objection {
        Verdict = "verdict",
        Superseded = "superseded",
        Outdated = "outdated",
        Owner = "owner",
        Worker = "worker",
        Unqualified = "unqualified",
        Inactive = "inactive",
    }
}

/// Author of a judgement: a member and, under delegation, the delegate whose credential was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerdictAuthor {
    pub member: MemberId,
    /// The delegate; equal to `member` if the member acted directly.
    pub actor: MemberId,
}

impl VerdictAuthor {
    /// Returns the author of a judgement by this caller. Fails unless the caller acts as a member.
    pub fn of(caller: &Caller) -> Result<Self> {
        let member = caller.member_id()?;
        Ok(Self { member, actor: caller.actor.unwrap_or(member) })
    }

    /// Returns the delegate who acted for the member, or `None` if the member acted directly.
    pub fn delegate(self) -> Option<MemberId> {
        (self.actor != self.member).then_some(self.actor)
    }

    /// Returns the member and the delegate. Both ids are equal if the member acted directly.
    pub fn member_and_delegate(self) -> [MemberId; 2] {
        [self.member, self.actor]
    }
}

/// A stored judgement: its author, its position, and the objection at the time of submission.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlierVerdict {
    pub author: VerdictAuthor,
    /// Position of the judgement in the workspace's event log.
    pub lsn: i64,
    /// Reason why the judgement did not count when it was submitted.
    pub objection: Option<Objection>,
    /// Whether the member and the delegate may both act now: neither is frozen or deactivated.
    pub active: bool,
}

/// Data for judging a thread: the owner and the workers, who may not judge it, and the qualified members.
#[derive(Debug)]
pub(super) struct VerdictRules {
    owner: Option<MemberId>,
    workers: BTreeSet<MemberId>,
    qualified: BTreeSet<MemberId>,
    /// Position of the thread's last result or reopening. Judgements before this position are outdated.
    judged_from: i64,
}

impl VerdictRules {
    /// Returns the rules for judging a thread. The members in `qualified` have the required qualification.
    pub fn of_thread(cx: &Read<'_>, thread: &Thread, qualified: BTreeSet<MemberId>) -> Result<Self> {
        let workers = workers::of(cx, thread.id)?;
        Ok(Self { owner: thread.owner_id, workers, qualified, judged_from: thread.judged_from })
    }

    /// Returns the reason why a judgement submitted by `author` now would not count, or `None` if it would
    /// count.
    pub fn objection_to_author(&self, author: VerdictAuthor) -> Option<Objection> {
        let people = author.member_and_delegate();
        if people.iter().any(|member| self.owner == Some(*member)) {
            Some(Objection::Owner)
        } else if people.iter().any(|member| self.workers.contains(member)) {
            Some(Objection::Worker)
        } else if self.qualified.contains(&author.member) {
            None
        } else {
            Some(Objection::Unqualified)
        }
    }

    /// Returns the reason why a stored judgement does not count now, or `None` if it counts.
    pub fn objection_to_verdict(&self, verdict: &EarlierVerdict) -> Option<Objection> {
        if verdict.lsn < self.judged_from {
            return Some(Objection::Outdated);
        }
        let inactive = (!verdict.active).then_some(Objection::Inactive);
        verdict.objection.or_else(|| self.objection_to_author(verdict.author)).or(inactive)
    }
}

/// Fails if the caller has worked on the thread, directly or through a delegate.
///
/// Members who worked on a thread may not lower the requirements for closing it.
pub(super) fn check_may_lower_requirements(cx: &Read<'_>, thread: &Thread) -> Result<()> {
    let workers = workers::of(cx, thread.id)?;
    let caller = cx.caller();
    if caller.member.iter().chain(&caller.actor).any(|member| workers.contains(member)) {
        return Err(Error::forbidden(
            "a member who has worked on a thread can neither relax its close nor choose its reviewers",
        ));
    }
    Ok(())
}

/// Returns rules for a thread without an owner and workers, for unit tests.
#[cfg(test)]
pub(super) fn rules_for_tests(judged_from: i64, qualified: impl Iterator<Item = MemberId>) -> VerdictRules {
    VerdictRules { owner: None, workers: BTreeSet::new(), qualified: qualified.collect(), judged_from }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_qualified_members_who_neither_own_nor_worked_judge() {
        let id = |n: u128| MemberId::from(Uuid::from_u128(n));
        let [owner, worker, reviewer, delegate, stranger] = [1, 2, 3, 4, 5].map(id);
        let judges = VerdictRules {
            owner: Some(owner),
            workers: BTreeSet::from([worker]),
            qualified: BTreeSet::from([owner, worker, reviewer]),
            judged_from: 10,
        };
        let verdict = Some(Objection::Verdict);
        let unqualified = Some(Objection::Unqualified);
        let table = [
            (reviewer, reviewer, 11, None, None),
            (reviewer, delegate, 11, None, None),
            (reviewer, reviewer, 9, None, Some(Objection::Outdated)),
            (reviewer, reviewer, 9, unqualified, Some(Objection::Outdated)),
            (reviewer, reviewer, 11, unqualified, unqualified),
            (reviewer, reviewer, 11, verdict, verdict),
            (owner, owner, 11, None, Some(Objection::Owner)),
            (reviewer, owner, 11, None, Some(Objection::Owner)),
            (owner, delegate, 11, None, Some(Objection::Owner)),
            (worker, worker, 11, None, Some(Objection::Worker)),
            (reviewer, worker, 11, None, Some(Objection::Worker)),
            (worker, delegate, 11, None, Some(Objection::Worker)),
            (stranger, stranger, 11, None, unqualified),
            // The member must be qualified; the qualification of the delegate does not count.
            (stranger, reviewer, 11, None, unqualified),
        ];
        for (member, actor, lsn, objection, wanted) in table {
            let given =
                EarlierVerdict { author: VerdictAuthor { member, actor }, lsn, objection, active: true };
            assert_eq!(judges.objection_to_verdict(&given), wanted, "{given:?}");
            let given = EarlierVerdict { active: false, ..given };
            assert_eq!(
                judges.objection_to_verdict(&given),
                wanted.or(Some(Objection::Inactive)),
                "{given:?}"
            );
        }
        let unowned = VerdictRules { owner: None, ..judges };
        assert_eq!(unowned.objection_to_author(VerdictAuthor { member: reviewer, actor: reviewer }), None);
    }
}
