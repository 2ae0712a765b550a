//! Where things happen and whether the caller may look: the loaders of channels and of threads' places that
//! every feature uses. An object of another workspace, or in a private channel without the caller, is not found;
//! the service itself sees its whole workspace. A warm connection answers from memory: what takes a channel or the
//! sight of it away is told by events that invalidate access. Nothing here changes anything.

use crate::Result;
use crate::error::Error;
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::log::event::Invalidates;
use crate::log::memo::Cached;
use crate::op::Read;
use crate::store::{FromRow, Row, ToParam};

/// A channel that the caller may see.
#[derive(Clone, Debug)]
pub(crate) struct ChannelPlace {
    pub id: ChannelId,
    pub workspace_id: WorkspaceId,
    pub archived: bool,
}

/// Where a thread that the caller may see belongs. A thread never changes its channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadPlace {
    pub thread_id: ThreadId,
    pub channel_id: ChannelId,
    pub workspace_id: WorkspaceId,
    pub archived: bool,
}

/// What a connection remembers of a channel for one member. A channel that was not found is not remembered.
#[derive(Clone)]
struct SeenChannel(ChannelPlace);

impl Cached for SeenChannel {
    const ENDED_BY: Option<Invalidates> = Some(Invalidates::Access);
}

/// What a connection remembers of a thread for one member.
#[derive(Clone)]
struct SeenThread(ThreadPlace);

impl Cached for SeenThread {
    const ENDED_BY: Option<Invalidates> = Some(Invalidates::Access);
}

/// The channel, if the caller may see it.
pub(crate) fn visible_channel(cx: &Read<'_>, id: ChannelId) -> Result<ChannelPlace> {
    let caller = cx.caller();
    let load = || {
        let params: [&dyn ToParam; 4] = [&id, &caller.workspace_id, &caller.is_member(), &caller.member_id];
        cx.one(VISIBLE_CHANNEL, &params)?.map(SeenChannel).ok_or_else(|| Error::not_found("channel"))
    };
    cx.remembered(&(id, caller.member_id), load).map(|SeenChannel(place)| place)
}

const VISIBLE_CHANNEL: &str = "
    select c.id, c.workspace_id, c.archived_at is not null
    from channels c
    where c.id = $1 and c.workspace_id = $2
      and (not c.private or not $3
           or exists (select 1 from channel_members s where s.channel_id = c.id and s.member_id = $4))";

/// The place of the thread, if the caller may see its channel.
pub(crate) fn visible_place(cx: &Read<'_>, id: ThreadId) -> Result<ThreadPlace> {
    let caller = cx.caller();
    let load = || {
        let params: [&dyn ToParam; 4] = [&id, &caller.workspace_id, &caller.is_member(), &caller.member_id];
        cx.one(VISIBLE_PLACE, &params)?.map(SeenThread).ok_or_else(|| Error::not_found("thread"))
    };
    cx.remembered(&(id, caller.member_id), load).map(|SeenThread(place)| place)
}

const VISIBLE_PLACE: &str = "
    select t.id, t.channel_id, t.workspace_id, c.archived_at is not null
    from threads t join channels c on c.id = t.channel_id
    where t.id = $1 and t.workspace_id = $2
      and (not c.private or not $3
           or exists (select 1 from channel_members s where s.channel_id = c.id and s.member_id = $4))";

/// Whether another member of the workspace may see the channel: the receiver of a hand-over, say.
pub(crate) fn channel_visible_to(cx: &Read<'_>, id: ChannelId, member: MemberId) -> Result<bool> {
    let found: Option<(i64,)> = cx.one(VISIBLE_TO, &[&id, &cx.caller().workspace_id, &member])?;
    Ok(found.is_some())
}

const VISIBLE_TO: &str = "
    select cast(1 as bigint)
    from channels c join members m on m.workspace_id = c.workspace_id
    where c.id = $1 and c.workspace_id = $2 and m.id = $3
      and (not c.private
           or exists (select 1 from channel_members s where s.channel_id = c.id and s.member_id = m.id))";

/// Refuses to add anything to an archived channel.
pub(crate) fn check_not_archived(channel: &ChannelPlace) -> Result<()> {
    refuse_archived(channel.archived)
}

impl ThreadPlace {
    /// Refuses to add anything to a thread of an archived channel.
    pub(crate) fn check_not_archived(&self) -> Result<()> {
        refuse_archived(self.archived)
    }
}

fn refuse_archived(archived: bool) -> Result<()> {
    if archived {
        return Err(Error::wrong_state("the channel is archived and takes nothing new; unarchive it first"));
    }
    Ok(())
}

impl FromRow for ChannelPlace {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self { id: row.take()?, workspace_id: row.take()?, archived: row.take()? })
    }
}

impl FromRow for ThreadPlace {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            thread_id: row.take()?,
            channel_id: row.take()?,
            workspace_id: row.take()?,
            archived: row.take()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archived_channel_takes_nothing_new() {
        assert!(refuse_archived(false).is_ok());
        assert_eq!(refuse_archived(true).unwrap_err().code().status(), 409);
    }
}
