//! Rules for a channel's privacy: which members may change the privacy, and under which conditions.
//!
//! Only the creator of a channel and members with `channel:admin` may change its privacy, and remove other
//! members from a private channel. Other members therefore cannot take the channel away from its creator and
//! the administrators. A dependency must never reveal a thread to members who may not see the thread, so a
//! change of privacy that would do this fails.

use super::Channel;
use crate::Result;
use crate::capability::Capability::ChannelAdmin;
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, ThreadId};
use crate::op::{Caller, Read};

/// Fails unless the caller is the creator of the channel or has `channel:admin`.
pub(super) fn check_may_change_privacy(caller: &Caller, channel: &Channel) -> Result<()> {
    let created = channel.created_by.is_some() && channel.created_by == caller.member;
    if created || caller.capabilities.has(ChannelAdmin) {
        return Ok(());
    }
    Err(Error::forbidden("only the creator of a channel or a member with channel:admin decides who sees it"))
}

/// Fails if making the channel private would hide threads for which threads of other, public channels wait.
///
/// Members who see the waiting threads would otherwise learn when the hidden threads are finished.
pub(super) fn check_no_outside_dependents(cx: &Read<'_>, channel: ChannelId) -> Result<()> {
    let detail = "threads of public channels wait for threads of this one: remove those dependencies first";
    reject_if_any_waits(cx.query(OUTSIDE_DEPENDENTS, &[&channel])?, detail)
}

/// Fails if making the channel public would reveal threads that wait for threads of other, private channels.
pub(super) fn check_no_hidden_dependencies(cx: &Read<'_>, channel: ChannelId) -> Result<()> {
    let detail = "threads of this channel wait for threads of private ones: remove those dependencies first";
    reject_if_any_waits(cx.query(THREADS_WITH_HIDDEN_DEPENDENCIES, &[&channel])?, detail)
}

/// Fails if making the channel private would hide refutations that keep threads of other channels open.
///
/// Members who see these threads could not read why the threads stay open.
pub(super) fn check_no_outside_refutations(cx: &Read<'_>, channel: ChannelId) -> Result<()> {
    let detail = "messages of this channel refute messages of other channels: the authors of these \
                  refutations must resolve or remove them first";
    let refuted: Vec<(Option<ThreadId>,)> = cx.query(OUTSIDE_REFUTED_THREADS, &[&channel])?;
    if refuted.is_empty() {
        return Ok(());
    }
    let ids: Vec<ThreadId> = refuted.into_iter().filter_map(|(id,)| id).collect();
    Err(Error::new(Code::NotVisibleToAll, detail).with("thread_ids", ids))
}

/// Fails with `detail` and the ids of the given waiting threads, unless there are none.
fn reject_if_any_waits(waiting: Vec<(ThreadId, i64)>, detail: &'static str) -> Result<()> {
    if waiting.is_empty() {
        return Ok(());
    }
    let ids: Vec<ThreadId> = waiting.into_iter().map(|(id, _)| id).collect();
    Err(Error::new(Code::NotVisibleToAll, detail).with("thread_ids", ids))
}

/// Selects the first 10 threads of the channel that wait for threads of other, private channels.
const THREADS_WITH_HIDDEN_DEPENDENCIES: &str = "
    select distinct w.id, w.lsn
    from threads w
    join thread_dependencies d on d.thread_id = w.id
    join threads t on t.id = d.depends_on_id
    join channels c on c.id = t.channel_id
    where w.channel_id = $1 and t.channel_id <> $1 and w.state <> 'archived' and c.private
    order by w.lsn limit 10";

/// Selects the first 10 threads of other channels that wait for threads of this channel.
///
/// Waiting threads of private channels are omitted, because the caller may not be allowed to see these
/// threads.
const OUTSIDE_DEPENDENTS: &str = "
    select distinct w.id, w.lsn
    from threads t
    join thread_dependencies d on d.depends_on_id = t.id
    join threads w on w.id = d.thread_id
    join channels c on c.id = w.channel_id
    where t.channel_id = $1 and w.channel_id <> $1 and w.state <> 'archived' and not c.private
    order by w.lsn limit 10";

/// Selects the first 10 threads of other channels that messages of this channel refute. The id is null for a
/// thread of a private channel, which the caller may not be allowed to see.
///
/// A refutation that another member than its author has resolved is included, because the refutation opens
/// again once that member works on the thread.
const OUTSIDE_REFUTED_THREADS: &str = "
    select case when c.private then null else t.id end
    from relations r join threads t on t.id = r.to_thread_id join channels c on c.id = t.channel_id
        join messages m on m.id = r.to_id
    where r.from_channel_id = $1 and r.kind = 'refutes' and r.to_channel_id <> $1
        and (r.resolved_at is null or r.resolved_by is distinct from r.made_by)
        and m.withdrawn_at is null and t.state <> 'archived'
    group by t.id, c.private, t.lsn order by t.lsn limit 10";

/// Fails unless the caller may remove `member` from the channel.
///
/// Every member may leave. Membership of a public channel does not affect access, so any member may remove
/// other members from a public channel, except its creator.
pub(super) fn check_may_remove(caller: &Caller, channel: &Channel, member: MemberId) -> Result<()> {
    if caller.member == Some(member) || caller.capabilities.has(ChannelAdmin) {
        return Ok(());
    }
    if channel.created_by == Some(member) {
        return Err(Error::forbidden("only a member with channel:admin can remove the creator of a channel"));
    }
    if channel.private { check_may_change_privacy(caller, channel) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::channel;
    use super::*;
    use crate::capability::Capability;
    use crate::capability::Capability::WorkspaceWrite;

    #[test]
    fn only_its_creator_and_administrators_decide_who_sees_a_channel() {
        let member = |n: u128| MemberId::from(Uuid::from_u128(n));
        let creator = member(1);
        let other = member(2);
        let third = member(3);
        let caller = |member, capabilities: &[Capability]| {
            Caller::bearer_for_tests(Uuid::from_u128(2).into(), member, capabilities)
        };
        let of = |created_by, private| Channel { created_by, private, ..channel() };
        let plain = &[WorkspaceWrite][..];
        let admin = &[WorkspaceWrite, ChannelAdmin][..];
        for (who, capabilities, created_by, decides) in [
            (creator, plain, Some(creator), true),
            (other, plain, Some(creator), false),
            (other, admin, Some(creator), true),
            (other, plain, None, false),
        ] {
            let decided = check_may_change_privacy(&caller(who, capabilities), &of(created_by, false));
            assert_eq!(decided.is_ok(), decides, "{who} {capabilities:?} {created_by:?}");
        }
        for (who, capabilities, removed, private, allowed) in [
            (creator, plain, other, true, true),
            (other, plain, third, true, false),
            (other, plain, other, true, true),
            (other, plain, third, false, true),
            (other, plain, creator, false, false),
            (other, admin, creator, true, true),
            (creator, plain, creator, true, true),
        ] {
            let done = check_may_remove(&caller(who, capabilities), &of(Some(creator), private), removed);
            assert_eq!(done.is_ok(), allowed, "{who} {capabilities:?} removes {removed}, private {private}");
        }
    }
}
