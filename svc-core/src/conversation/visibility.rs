//! Visibility: the channels and threads that a caller may see, and the loaders for their places.
//!
//! This file defines the SQL condition with which every statement omits rows that the caller may not see, and
//! the loaders of channels and of threads' places that every feature uses. Objects of another workspace, or
//! of a channel that the caller may not see, are reported as *not found*. Visibility is cached per member;
//! events that change a channel or end a member's access invalidate the cache. This file only reads. Only two
//! other modules read the members or the privacy of channels: `channels`, which lists and changes them, and
//! the graph of a snapshot, which contains all rows.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use crate::Result;
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::log::cache::{Cached, Lifetime};
use crate::log::event::CachedEntryKind;
use crate::op::{Read, Visibility};
use crate::store::{Engine, FromRow, columns};

/// SQL condition that the caller may see the row `$c` of `channels`.
///
/// The parameters $1 to $4 of the statement are the caller's visibility, passed with
/// [`VisibilityParams::and`](crate::op::VisibilityParams::and); the other parameters begin at $5. Membership
/// is checked by a scalar subquery, which runs for one channel at a time. With `exists`, Postgres might read
/// all channels of the caller.
macro_rules! visible {
    ($c:ident) => {
        concat!(
            "($1 or ($2 and not ",
            stringify!($c),
            ".private) or ",
            stringify!($c),
            ".id = $4 or (
                select true from channel_members seen where seen.channel_id = ",
            stringify!($c),
            ".id and seen.member_id = $3) is true)"
        )
    };
}
pub(crate) use visible;

/// SQL condition that the caller may see a row whose channel id is `$at`. `$c` is the left-joined row of
/// `channels`.
///
/// If `$at` is null, the row concerns the workspace itself, and every member may see the row.
macro_rules! visible_at {
    ($at:literal, $c:ident) => {
        concat!(
            "(",
            $crate::conversation::visibility::visible!($c),
            " or (",
            $at,
            " is null and cast($3 as uuid) is not null))"
        )
    };
}
pub(crate) use visible_at;

/// SQL condition that the member with id `$member` is a member of the channel in row `$c`.
///
/// The condition is a scalar subquery, for the same reason as in `visible!`.
macro_rules! in_channel {
    ($c:ident, $member:literal) => {
        concat!(
            "((select true from channel_members inside where inside.channel_id = ",
            stringify!($c),
            ".id and inside.member_id = ",
            $member,
            ") is true)"
        )
    };
}
pub(crate) use in_channel;

/// SQL subquery that selects the ids of a channel's members. `$channel` is the id of the channel.
macro_rules! members_in {
    ($channel:literal) => {
        concat!(
            "(select inside.member_id from channel_members inside where inside.channel_id = ",
            $channel,
            ")"
        )
    };
}
pub(crate) use members_in;

/// SQL condition that the workspace member with id `$member` may see the channel in row `$c`.
macro_rules! seen_by {
    ($c:ident, $member:literal) => {
        concat!(
            "(not ",
            stringify!($c),
            ".private or ",
            $crate::conversation::visibility::in_channel!($c, $member),
            ")"
        )
    };
}
pub(crate) use seen_by;

/// SQL expression for the audience of the channel in row `$c`.
///
/// The result is the id of the channel if the channel is private, otherwise the id of the workspace.
macro_rules! audience {
    ($c:ident) => {
        concat!(
            "case when ",
            stringify!($c),
            ".private then ",
            stringify!($c),
            ".id else ",
            stringify!($c),
            ".workspace_id end"
        )
    };
}
pub(crate) use audience;

/// The fields of a visible channel that other features check.
#[derive(Clone, Debug)]
pub(crate) struct ChannelPlace {
    pub id: ChannelId,
    pub workspace_id: WorkspaceId,
    pub archived: bool,
    pub private: bool,
    /// Whether the channel is a direct message.
    pub dm: bool,
}

columns! {
    channel_place_columns: ChannelPlace as c {
        id,
        workspace_id,
        archived = "c.archived_at is not null",
        private,
        dm,
    }
}

/// The workspace and the channel of a visible thread. A thread never changes its channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadPlace {
    pub thread_id: ThreadId,
    pub channel_id: ChannelId,
    pub workspace_id: WorkspaceId,
    pub archived: bool,
    /// Whether the thread's channel is a direct message.
    pub dm: bool,
}

columns! {
    thread_place_columns: ThreadPlace as t {
        thread_id = id,
        channel_id,
        workspace_id,
        archived = "c.archived_at is not null",
        dm = "c.dm",
    }
}

/// Entry in a connection's cache: a channel that a member may see. The result *not found* is not cached.
#[derive(Clone)]
struct CachedChannel(ChannelPlace);

impl Cached for CachedChannel {
    const LIFETIME: Lifetime = Lifetime::Epoch(CachedEntryKind::Access);
}

/// Entry in a connection's cache: the workspace and the channel of a thread that a member may see.
#[derive(Clone)]
struct CachedThread(ThreadPlace);

impl Cached for CachedThread {
    const LIFETIME: Lifetime = Lifetime::Epoch(CachedEntryKind::Access);
}

/// Loads a channel. Fails with *not found* if the caller may not see the channel.
pub(crate) fn visible_channel(cx: &Read<'_>, id: ChannelId) -> Result<ChannelPlace> {
    let place = visible_channel_unaudited(cx, id)?;
    cx.record_loaded_channel(place.id, place.dm);
    Ok(place)
}

/// Loads a channel like [`visible_channel`], but does not record the channel for the request's audit row.
pub(crate) fn visible_channel_unaudited(cx: &Read<'_>, id: ChannelId) -> Result<ChannelPlace> {
    let load =
        || find_channel_for(cx, cx.caller().visibility, id)?.ok_or_else(|| Error::not_found("channel"));
    match cx.caller().visibility {
        Visibility::Member(member) => {
            let seen = cx.cached_or_load(&(id, member), || load().map(CachedChannel));
            seen.map(|CachedChannel(place)| place)
        }
        _ => load(),
    }
}

/// Loads a channel of the caller's workspace, or returns `None` if `visibility` does not cover the channel.
fn find_channel_for(cx: &Read<'_>, visibility: Visibility, id: ChannelId) -> Result<Option<ChannelPlace>> {
    cx.one(VISIBLE_CHANNEL, &visibility.params().and(&[&id, &cx.caller().workspace_id]))
}

const VISIBLE_CHANNEL: &str = concat!(
    "select ",
    channel_place_columns!(),
    " from channels c where c.id = $5 and c.workspace_id = $6 and ",
    visible!(c)
);

/// Loads the workspace and the channel of a thread. Fails with *not found* if the caller may not see the
/// channel.
pub(crate) fn visible_thread_place(cx: &Read<'_>, id: ThreadId) -> Result<ThreadPlace> {
    let load =
        || find_thread_place_for(cx, cx.caller().visibility, id)?.ok_or_else(|| Error::not_found("thread"));
    let place = match cx.caller().visibility {
        Visibility::Member(member) => {
            let seen = cx.cached_or_load(&(id, member), || load().map(CachedThread));
            seen.map(|CachedThread(place)| place)
        }
        _ => load(),
    }?;
    cx.record_loaded_channel(place.channel_id, place.dm);
    Ok(place)
}

/// Loads the workspace and the channel of a thread for the service itself, even if the channel is private.
pub(crate) fn thread_place_for_service(cx: &Read<'_>, id: ThreadId) -> Result<ThreadPlace> {
    find_thread_place_for(cx, Visibility::Whole, id)?.ok_or_else(|| Error::not_found("thread"))
}

/// Loads the workspace and the channel of a thread, or returns `None` if `visibility` does not cover the
/// channel.
fn find_thread_place_for(cx: &Read<'_>, visibility: Visibility, id: ThreadId) -> Result<Option<ThreadPlace>> {
    cx.one(VISIBLE_PLACE, &visibility.params().and(&[&id, &cx.caller().workspace_id]))
}

const VISIBLE_PLACE: &str = concat!(
    "select ",
    thread_place_columns!(),
    " from threads t join channels c on c.id = t.channel_id
     where t.id = $5 and t.workspace_id = $6 and ",
    visible!(c)
);

/// Returns whether `member`, such as the receiver of a hand-off, may see a channel of the caller's workspace.
pub(crate) fn is_channel_visible_to(cx: &Read<'_>, id: ChannelId, member: MemberId) -> Result<bool> {
    Ok(find_channel_for(cx, Visibility::Member(member), id)?.is_some())
}

/// Returns the private channels of a member, except for archived channels and direct messages.
pub(crate) fn load_private_channels_of(cx: &Read<'_>, member: MemberId) -> Result<Vec<ChannelId>> {
    let channels: Vec<(ChannelId,)> = cx.query(PRIVATE_CHANNELS, &[&member])?;
    Ok(channels.into_iter().map(|(id,)| id).collect())
}

const PRIVATE_CHANNELS: &str = "
    select c.id from channel_members m join channels c on c.id = m.channel_id
    where m.member_id = $1 and c.private and c.archived_at is null and not c.dm";

/// The members who may see a channel, in addition to callers who may see all channels.
#[derive(Clone, Debug)]
pub(crate) enum Audience {
    /// Every member of the workspace.
    Everybody,
    /// The members of the channel.
    Members(Arc<BTreeSet<MemberId>>),
}

impl Audience {
    /// Returns whether `visibility` covers the events of `channel`. `self` must be the audience of `channel`.
    ///
    /// This is the same condition as in `visible_at!`, for code that has already read the rows.
    pub(crate) fn is_visible_to(&self, visibility: Visibility, channel: ChannelId) -> bool {
        match (visibility, self) {
            (Visibility::Whole, _) | (Visibility::Public | Visibility::Member(_), Self::Everybody) => true,
            (Visibility::Member(member), Self::Members(members)) => members.contains(&member),
            (Visibility::Channel(own), _) => own == channel,
            (Visibility::Public, Self::Members(_)) | (Visibility::Nothing, _) => false,
        }
    }
}

/// Returns whether `visibility` covers the events that concern the workspace itself, not a channel.
pub(crate) fn is_workspace_visible_to(visibility: Visibility) -> bool {
    matches!(visibility, Visibility::Whole | Visibility::Member(_))
}

/// Returns the audiences of the given channels of the caller's workspace.
///
/// The audience of a channel that does not exist is empty.
pub(crate) fn audiences(cx: &Read<'_>, channels: &[ChannelId]) -> Result<HashMap<ChannelId, Audience>> {
    let mut found: HashMap<ChannelId, Audience> =
        channels.iter().map(|id| (*id, Audience::Members(Arc::default()))).collect();
    let mut private = Vec::new();
    let mut members = HashMap::<ChannelId, BTreeSet<MemberId>>::new();
    for (id, is_private) in query_channels::<(ChannelId, bool)>(cx, channels, &CHANNEL_PRIVACY)? {
        if is_private {
            private.push(id);
        } else {
            found.insert(id, Audience::Everybody);
        }
    }
    for (id, member) in query_channels::<(ChannelId, MemberId)>(cx, &private, &CHANNEL_MEMBERS)? {
        members.entry(id).or_default().insert(member);
    }
    found.extend(members.into_iter().map(|(id, members)| (id, Audience::Members(Arc::new(members)))));
    Ok(found)
}

/// Runs an engine's statement with the ids of channels of the caller's workspace, and returns the rows.
fn query_channels<T: FromRow>(
    cx: &Read<'_>,
    channels: &[ChannelId],
    sql: &[&'static str; 2],
) -> Result<Vec<T>> {
    if channels.is_empty() {
        return Ok(Vec::new());
    }
    let [sqlite, postgres] = *sql;
    let sql = match cx.engine() {
        Engine::Sqlite => sqlite,
        Engine::Postgres => postgres,
    };
    let ids: Vec<Uuid> = channels.iter().map(|id| id.uuid()).collect();
    cx.query(sql, &[&cx.caller().workspace_id, &ids])
}

macro_rules! of_channels {
    ($sql:literal) => {
        [concat!($sql, " in (select unhex(value) from json_each($2))"), concat!($sql, " = any($2)")]
    };
}

const CHANNEL_PRIVACY: [&str; 2] =
    of_channels!("select c.id, c.private from channels c where c.workspace_id = $1 and c.id");

const CHANNEL_MEMBERS: [&str; 2] = of_channels!(
    "select m.channel_id, m.member_id from channel_members m join channels c on c.id = m.channel_id
     where c.workspace_id = $1 and m.channel_id"
);

/// Fails if the channel is archived, because an archived channel accepts no new content.
pub(crate) fn check_not_archived(channel: &ChannelPlace) -> Result<()> {
    reject_if_archived(channel.archived)
}

/// Fails if the channel is a direct message.
pub(crate) fn check_is_not_dm(channel: &ChannelPlace) -> Result<()> {
    if channel.dm {
        return Err(Error::wrong_state("the channel is a direct message"));
    }
    Ok(())
}

/// Fails if the channel `shown_in` would reveal the private channel `channel` to members who may not see it.
pub(crate) fn check_visible_to_all(channel: &ChannelPlace, shown_in: ChannelId) -> Result<()> {
    if !channel.private || channel.id == shown_in {
        return Ok(());
    }
    Err(Error::new(
        Code::NotVisibleToAll,
        "only threads of the same private channel can wait for its threads",
    ))
}

impl ThreadPlace {
    /// Fails if the thread's channel is archived, because an archived channel accepts no new content.
    pub(crate) fn check_not_archived(&self) -> Result<()> {
        reject_if_archived(self.archived)
    }
}

/// Fails if `archived` is true, because an archived channel accepts no new content.
fn reject_if_archived(archived: bool) -> Result<()> {
    if archived {
        return Err(Error::wrong_state(
            "the channel is archived and accepts nothing new until it is unarchived",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::migrate::migrate;
    use crate::store::sqlite_for_tests;
    use crate::time::Time;

    #[test]
    fn an_audience_is_what_the_statements_say() {
        let [channel, other] = [1, 2].map(|n| ChannelId::from(Uuid::from_u128(n)));
        let [inside, outside] = [1, 2].map(|n| MemberId::from(Uuid::from_u128(n)));
        let only = Audience::Members(Arc::new([inside].into()));
        for (visibility, public, private, workspace) in [
            (Visibility::Whole, true, true, true),
            (Visibility::Public, true, false, false),
            (Visibility::Member(inside), true, true, true),
            (Visibility::Member(outside), true, false, true),
            (Visibility::Channel(channel), true, true, false),
            (Visibility::Channel(other), false, false, false),
            (Visibility::Nothing, false, false, false),
        ] {
            let seen = |audience: &Audience| audience.is_visible_to(visibility, channel);
            let seen = (seen(&Audience::Everybody), seen(&only), is_workspace_visible_to(visibility));
            assert_eq!(seen, (public, private, workspace), "{visibility:?}");
        }
    }

    #[test]
    fn an_archived_channel_accepts_nothing_new() {
        assert!(reject_if_archived(false).is_ok());
        assert_eq!(reject_if_archived(true).unwrap_err().code().status(), 409);
    }

    const SEEN: &str = concat!("select c.name from channels c where ", visible!(c), " order by c.name");

    /// Counts the visible test rows. There is one row in each channel, and one row for the workspace itself.
    const SEEN_AT: &str = concat!(
        "select count(*) from (select id as channel_id from channels union all select null) e
         left join channels c on c.id = e.channel_id where ",
        visible_at!("e.channel_id", c)
    );

    #[test]
    fn each_sight_has_its_channels() {
        let (_folder, conn) = sqlite_for_tests();
        migrate(&conn, Time::from_micros(1)).unwrap();
        conn.batch(
            "insert into workspaces (id, name, created_at, lsn) values (zeroblob(16), 'w', 0, 1);
             insert into members (id, workspace_id, handle, kind, created_at, lsn)
                 select x'000000000000000000000000000000aa', zeroblob(16), 'm', 'agent', 0, 2;
             insert into channels (id, workspace_id, name, private, created_at, lsn) values
                 (x'00000000000000000000000000000001', zeroblob(16), 'open', 0, 0, 3),
                 (x'00000000000000000000000000000002', zeroblob(16), 'own', 1, 0, 4),
                 (x'00000000000000000000000000000003', zeroblob(16), 'others', 1, 0, 5);
             insert into channel_members (channel_id, member_id, added_at, lsn) values
                 (x'00000000000000000000000000000002', x'000000000000000000000000000000aa', 0, 6);",
        )
        .unwrap();
        let id = uuid::Uuid::from_u128;
        let cases: [(Visibility, &[&str], i64); 6] = [
            (Visibility::Whole, &["open", "others", "own"], 4),
            (Visibility::Public, &["open"], 1),
            (Visibility::Member(id(0xaa).into()), &["open", "own"], 3),
            (Visibility::Member(id(0xbb).into()), &["open"], 2),
            (Visibility::Channel(id(3).into()), &["others"], 1),
            (Visibility::Nothing, &[], 0),
        ];
        for (visibility, channels, rows) in cases {
            let params = visibility.params();
            let mut found = conn.query(SEEN, &params.and(&[])).unwrap();
            let names: Vec<String> = found.iter_mut().map(|row| row.take().unwrap()).collect();
            assert_eq!(names, channels, "{visibility:?}");
            let mut found = conn.query(SEEN_AT, &params.and(&[])).unwrap();
            assert_eq!(found[0].take::<i64>().unwrap(), rows, "{visibility:?}");
        }
    }

    #[test]
    fn private_objects_are_revealed_only_in_their_own_channel() {
        let [one, other] = [1, 2].map(|id| ChannelId::from(uuid::Uuid::from_u128(id)));
        let channel = |id, private| ChannelPlace {
            id,
            workspace_id: WorkspaceId::INSTANCE,
            archived: false,
            private,
            dm: false,
        };
        assert!(check_visible_to_all(&channel(one, false), other).is_ok());
        assert!(check_visible_to_all(&channel(one, true), one).is_ok());
        let refusal = check_visible_to_all(&channel(one, true), other).unwrap_err();
        assert_eq!(refusal.code(), Code::NotVisibleToAll);
    }
}
