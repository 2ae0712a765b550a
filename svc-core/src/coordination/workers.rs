//! Who worked on a thread: the members who claimed it, were given it or set its result, and the delegates who did so for
//! them. Whoever is in here is no independent judge of what came of it. A member is added at its first such deed and
//! never removed, whatever becomes of the claim.

use std::collections::BTreeSet;

use crate::Result;
use crate::id::{MemberId, ThreadId};
use crate::op::Write;

/// Records that the caller has worked on the thread, told at position `lsn`: the member it acts as and, when that is
/// delegated, the delegate; and that `holder` does from now on.
pub(super) fn add(cx: &mut Write<'_>, thread: ThreadId, lsn: i64, holder: MemberId) -> Result<()> {
    let caller = cx.caller();
    let mut workers = BTreeSet::from([holder]);
    workers.extend(caller.member.into_iter().chain(caller.actor));
    workers.into_iter().try_for_each(|worker| cx.execute_any(ADD, &[&thread, &worker, &lsn]))
}

const ADD: &str = "
    insert into thread_workers (thread_id, member_id, lsn) values ($1, $2, $3) on conflict do nothing";
