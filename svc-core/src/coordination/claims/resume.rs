//! Resuming a claim: a claiming operation returns a claim that the caller already holds.

use super::holder_check::check_lease_is_current;
use super::{ClaimedThread, Pin};
use crate::Result;
use crate::conversation::visibility::visible;
use crate::coordination::checkpoint;
use crate::coordination::footprint::RepoKey;
use crate::coordination::thread_row::{Thread, visible_thread};
use crate::error::Code;
use crate::id::{ChannelId, LeaseId, ThreadId};
use crate::identity::floor::LogRange;
use crate::limits::PAGE_SCAN_MAX;
use crate::op::{Answer, Read};
use crate::store::ToParam;

/// Returns the thread of the caller's newest live claim, optionally only in one channel or in one repository.
///
/// Searches the newest 2000 claims of the caller.
pub(in crate::coordination) fn find_newest_claimed_thread(
    cx: &Read<'_>,
    channel: Option<ChannelId>,
    repo: Option<&RepoKey>,
) -> Result<Option<ThreadId>> {
    let member = cx.caller().member_id()?;
    let now = cx.now();
    let repo = repo.cloned();
    let params: [&dyn ToParam; 5] = [&member, &now, &PAGE_SCAN_MAX, &channel, &repo];
    let found: Option<(ThreadId,)> = cx.one(NEWEST, &cx.caller().visibility.params().and(&params))?;
    Ok(found.map(|(thread,)| thread))
}

const NEWEST: &str = concat!(
    "select t.id from (
         select id, workspace_id, channel_id, footprint, coalesce(claim_lsn, 0) as newest from threads
         where assignee_id = $5 and assignment_expires_at > $6
         order by coalesce(claim_lsn, 0) desc limit $7) t
     join channels c on c.id = t.channel_id
     where (cast($8 as uuid) is null or t.channel_id = $8)
         and (cast($9 as text) is null or exists (
             select 1 from footprints f
             where f.workspace_id = t.workspace_id and f.id = t.footprint and f.repo_key = $9)) and ",
    visible!(c),
    " order by t.newest desc limit 1"
);

/// Answers a repeated claim or hand-off, while the claim that the first request began is still live.
impl<I> Answer<I> for ClaimedThread {
    type Kept = (ThreadId, LeaseId);
    const REFUSES: &'static [Code] = &[Code::StaleClaim];

    fn kept(&self) -> Option<Self::Kept> {
        self.thread.held.map(|held| (self.thread_id, held.lease_id))
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (thread, lease): Self::Kept) -> Result<Self> {
        let thread = visible_thread(cx, thread)?;
        check_lease_is_current(&thread, lease)?;
        load_claimed_thread(cx, thread)
    }
}

/// Returns a thread with a live claim in the form that the claiming operations return.
pub(in crate::coordination) fn load_claimed_thread(cx: &Read<'_>, thread: Thread) -> Result<ClaimedThread> {
    let checkpoint = checkpoint::last_checkpoint(cx, &thread)?;
    let pin = load_pin(cx, thread.id)?;
    Ok(ClaimedThread { thread_id: thread.id, thread, pin, checkpoint })
}

/// Returns a reference to the event that created a thread's claim, or `None` if the log no longer contains
/// the event.
fn load_pin(cx: &Read<'_>, thread: ThreadId) -> Result<Option<Pin>> {
    let found: Option<(Option<i64>,)> = cx.one(CLAIM_LSN, &[&thread])?;
    let Some((Some(lsn),)) = found else { return Ok(None) };
    let hash = match cx.hash_of_emitted_event(lsn) {
        Some(hash) => Some(hash),
        None => LogRange::read(cx)?.event_hash_at(cx, lsn)?,
    };
    Ok(hash.map(|hash| Pin::of(lsn, &hash)))
}

const CLAIM_LSN: &str = "select claim_lsn from threads where id = $1";
