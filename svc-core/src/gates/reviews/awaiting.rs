//! Pending reviews: threads that lack the caller's verdict and for which the caller's approval would count.
//!
//! The SQL statement applies the rules of [`verdict_rules`](crate::gates::verdict_rules) and
//! [`verdicts`](super::verdicts) to many threads in one query. A test compares the results of the statement
//! with those rules.

use crate::Result;
use crate::capability::Capability::ThreadTransition;
use crate::conversation::visibility::visible;
use crate::coordination::thread_row::{self, Thread, thread_select};
use crate::coordination::workers::worked_on;
use crate::gates::verdict_rules::VerdictAuthor;
use crate::identity::members::{self, has_skill, may_act};
use crate::limits::CONTEXT_SCAN_MAX;
use crate::op::Read;

/// Returns the oldest threads in review that await the caller's review, up to `limit`.
///
/// A thread awaits the caller's review if it lacks the caller's verdict and the caller's approval would
/// count. Only the oldest 1000 threads in review are examined.
///
/// Under delegation, a verdict of either the member or the delegate counts as the caller's verdict.
pub(crate) fn threads_to_review(cx: &Read<'_>, limit: i64) -> Result<Vec<Thread>> {
    let caller = cx.caller();
    if !caller.is_member() || !caller.capabilities.has(ThreadTransition) || caller.frozen {
        return Ok(Vec::new());
    }
    let (workspace, VerdictAuthor { member, actor }) = (caller.workspace_id, VerdictAuthor::of(caller)?);
    let last = cx.horizon_within(THREAD_HORIZON, &[&workspace], 0, CONTEXT_SCAN_MAX)?.up_to();
    let params = caller.visibility.params();
    let params = params.and(&[&workspace, &member, &actor, &members::REVIEW_SKILL, &last, &limit]);
    thread_row::select_first_threads(cx, THREADS_TO_REVIEW, &params)
}

/// SQL condition: member `$member` is a listed reviewer of thread `t`, or has the skill `review` (parameter
/// `$8`).
macro_rules! is_reviewer {
    ($member:literal) => {
        concat!(
            "(",
            has_skill!($member, "$8"),
            " or exists (
                select 1 from reviewers listed where listed.thread_id = t.id and listed.member_id = ",
            $member,
            "))"
        )
    };
}

/// SQL condition: no member in the list `$people` owns thread `t` or has worked on it.
macro_rules! are_uninvolved {
    ($people:literal) => {
        concat!(
            "(t.owner_id is null or t.owner_id not in (",
            $people,
            ")) and not ",
            worked_on!("t.id", $people)
        )
    };
}

/// Query that uses the indexes of threads in review and of last verdicts.
const THREADS_TO_REVIEW: &str = thread_select!(
    "join channels c on c.id = t.channel_id
     where t.workspace_id = $5 and t.state = 'in_review' and t.lsn <= $9 and c.archived_at is null
        and not c.dm and ",
    are_uninvolved!("$6, $7"),
    " and ",
    is_reviewer!("$6"),
    " and not exists (
        select 1 from reviews r
        where r.thread_id = t.id and r.lsn >= t.judged_from and not r.superseded
            and (r.member_id in ($6, $7) or r.actor_id in ($6, $7))
            and (r.verdict = 'request_changes' or r.verdict = 'approve' and r.objection is null and ",
    are_uninvolved!("r.member_id, r.actor_id"),
    " and ",
    is_reviewer!("r.member_id"),
    " and ",
    may_act!("r.member_id"),
    " and ",
    may_act!("r.actor_id"),
    ")) and ",
    visible!(c),
    " order by t.lsn limit $10"
);

const THREAD_HORIZON: &str = "
    select lsn from threads where workspace_id = $1 and state = 'in_review' and lsn > $2
    order by lsn limit 1 offset $3";
