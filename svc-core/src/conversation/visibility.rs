//! Channels and threads as places, and the rule for which of them the caller may see.
//!
//! This file defines the one SQL condition with which every statement omits rows that the caller may not see,
//! and the loaders of channels and of threads' places that every feature uses. An object of another
//! workspace, or of a channel that the caller may not see, is not found. Visibility is cached per member; an
//! event that ends a channel or a member's access invalidates the cache. This file only reads. Only
//! `channels`, which lists and changes channel members and privacy, and the graph of a snapshot, which
//! contains all rows, read the members of a channel or its privacy elsewhere.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use crate::Result;
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::log::cache::{Cached, Lifetime};
use crate::log::event::Invalidates;
use crate::op::{Read, Visibility};
use crate::store::{Engine, FromRow, columns};

/// SQL condition that the caller may see the row `$c` of `channels`.
///
/// The statement takes the caller's visibility as $1 to $4, through
/// [`VisibilityParams::and`](crate::op::VisibilityParams::and), and its own parameters from $5 on. Membership
/// is a scalar subquery, which runs for one channel at a time: for `exists`, Postgres may read all channels
/// of the caller.
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

/// SQL condition that the caller may see a row whose column `$at` contains its channel, left-joined as `$c`.
///
/// A row whose `$at` is null belongs to the workspace itself, and every member may see it.
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

/// SQL condition that the member with id `$member` belongs to the row `$c` of `channels`.
///
/// The condition is a scalar subquery for the same reason as in `visible!`.
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

/// SQL subquery for the ids of the members of the channel with the given id.
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

/// SQL condition that the workspace member with id `$member` may see the row `$c` of `channels`.
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

/// SQL expression for the audience of the row `$c` of `channels`.
///
/// This is the channel's id if the channel is private, otherwise the id of the workspace.
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

/// A channel that the caller may see, with the fields that other features check.
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

/// The workspace and channel of a thread that the caller may see. A thread never changes its channel.
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

/// Cache entry of a connection for a channel that a member may see. A channel that was not found is not
/// cached.
#[derive(Clone)]
struct CachedChannel(ChannelPlace);

impl Cached for CachedChannel {
    const LIFETIME: Lifetime = Lifetime::Epoch(Invalidates::Access);
}

/// Cache entry of a connection for the place of a thread that a member may see.
#[derive(Clone)]
struct CachedThread(ThreadPlace);

impl Cached for CachedThread {
    const LIFETIME: Lifetime = Lifetime::Epoch(Invalidates::Access);
}

/// Loads a channel, or fails with *not found* if the caller may not see it.
pub(crate) fn visible_channel(cx: &Read<'_>, id: ChannelId) -> Result<ChannelPlace> {
    let place = seen_channel(cx, id)?;
    cx.loaded_in(place.id, place.dm);
    Ok(place)
}

/// Loads a channel like [`visible_channel`], but does not record it as a channel that the request changes.
pub(crate) fn seen_channel(cx: &Read<'_>, id: ChannelId) -> Result<ChannelPlace> {
    let load = || channel_seen_by(cx, cx.caller().visibility, id)?.ok_or_else(|| Error::not_found("channel"));
    match cx.caller().visibility {
        Visibility::Member(member) => {
            let seen = cx.cached_or_load(&(id, member), || load().map(CachedChannel));
            seen.map(|CachedChannel(place)| place)
        }
        _ => load(),
    }
}

/// Loads a channel of the caller's workspace if `visibility` covers it.
fn channel_seen_by(cx: &Read<'_>, visibility: Visibility, id: ChannelId) -> Result<Option<ChannelPlace>> {
    cx.one(VISIBLE_CHANNEL, &visibility.params().and(&[&id, &cx.caller().workspace_id]))
}

const VISIBLE_CHANNEL: &str = concat!(
    "select ",
    channel_place_columns!(),
    " from channels c where c.id = $5 and c.workspace_id = $6 and ",
    visible!(c)
);

/// Loads the place of a thread, or fails with *not found* if the caller may not see its channel.
pub(crate) fn visible_place(cx: &Read<'_>, id: ThreadId) -> Result<ThreadPlace> {
    let load = || place_seen_by(cx, cx.caller().visibility, id)?.ok_or_else(|| Error::not_found("thread"));
    let place = match cx.caller().visibility {
        Visibility::Member(member) => {
            let seen = cx.cached_or_load(&(id, member), || load().map(CachedThread));
            seen.map(|CachedThread(place)| place)
        }
        _ => load(),
    }?;
    cx.loaded_in(place.channel_id, place.dm);
    Ok(place)
}

/// Loads the place of a thread for the service itself, which sees threads of private channels too.
pub(crate) fn place_of_workspace(cx: &Read<'_>, id: ThreadId) -> Result<ThreadPlace> {
    place_seen_by(cx, Visibility::Whole, id)?.ok_or_else(|| Error::not_found("thread"))
}

/// Loads the place of a thread of the caller's workspace if `visibility` covers its channel.
fn place_seen_by(cx: &Read<'_>, visibility: Visibility, id: ThreadId) -> Result<Option<ThreadPlace>> {
    cx.one(VISIBLE_PLACE, &visibility.params().and(&[&id, &cx.caller().workspace_id]))
}

const VISIBLE_PLACE: &str = concat!(
    "select ",
    thread_place_columns!(),
    " from threads t join channels c on c.id = t.channel_id
     where t.id = $5 and t.workspace_id = $6 and ",
    visible!(c)
);

/// Returns whether another member of the workspace, such as the receiver of a hand-off, may see a channel.
pub(crate) fn channel_visible_to(cx: &Read<'_>, id: ChannelId, member: MemberId) -> Result<bool> {
    Ok(channel_seen_by(cx, Visibility::Member(member), id)?.is_some())
}

/// Returns the private channels that a member belongs to, without archived ones and direct messages.
pub(crate) fn private_channels_of(cx: &Read<'_>, member: MemberId) -> Result<Vec<ChannelId>> {
    let channels: Vec<(ChannelId,)> = cx.query(PRIVATE_CHANNELS, &[&member])?;
    Ok(channels.into_iter().map(|(id,)| id).collect())
}

const PRIVATE_CHANNELS: &str = "
    select c.id from channel_members m join channels c on c.id = m.channel_id
    where m.member_id = $1 and c.private and c.archived_at is null and not c.dm";

/// Members who may see a channel, not counting members who may see all channels.
#[derive(Clone, Debug)]
pub(crate) enum Audience {
    /// Every member of the workspace.
    Everybody,
    /// The members of the channel.
    Only(Arc<BTreeSet<MemberId>>),
}

impl Audience {
    /// Returns whether `visibility` covers the events of `channel`, where `self` is the audience of
    /// `channel`.
    ///
    /// This is the condition of `visible_at!` for callers that have already read the rows.
    pub(crate) fn is_seen_by(&self, visibility: Visibility, channel: ChannelId) -> bool {
        match (visibility, self) {
            (Visibility::Whole, _) | (Visibility::Public | Visibility::Member(_), Self::Everybody) => true,
            (Visibility::Member(member), Self::Only(members)) => members.contains(&member),
            (Visibility::Channel(own), _) => own == channel,
            (Visibility::Public, Self::Only(_)) | (Visibility::Nothing, _) => false,
        }
    }
}

/// Returns whether `visibility` covers the events of the workspace itself.
pub(crate) fn is_workspace_seen_by(visibility: Visibility) -> bool {
    matches!(visibility, Visibility::Whole | Visibility::Member(_))
}

/// Returns the audience of each given channel of the caller's workspace.
///
/// A channel that does not exist has an empty audience.
pub(crate) fn audiences(cx: &Read<'_>, channels: &[ChannelId]) -> Result<HashMap<ChannelId, Audience>> {
    let mut found: HashMap<ChannelId, Audience> =
        channels.iter().map(|id| (*id, Audience::Only(Arc::default()))).collect();
    let mut private = Vec::new();
    let mut members = HashMap::<ChannelId, BTreeSet<MemberId>>::new();
    for (id, is_private) in of_channels::<(ChannelId, bool)>(cx, channels, &PRIVACY)? {
        if is_private {
            private.push(id);
        } else {
            found.insert(id, Audience::Everybody);
        }
    }
    for (id, member) in of_channels::<(ChannelId, MemberId)>(cx, &private, &MEMBERS)? {
        members.entry(id).or_default().insert(member);
    }
    found.extend(members.into_iter().map(|(id, members)| (id, Audience::Only(Arc::new(members)))));
    Ok(found)
}

/// Runs a statement about the given channels of the caller's workspace and returns its rows.
fn of_channels<T: FromRow>(cx: &Read<'_>, channels: &[ChannelId], sql: &[&'static str; 2]) -> Result<Vec<T>> {
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

const PRIVACY: [&str; 2] =
    of_channels!("select c.id, c.private from channels c where c.workspace_id = $1 and c.id");

const MEMBERS: [&str; 2] = of_channels!(
    "select m.channel_id, m.member_id from channel_members m join channels c on c.id = m.channel_id
     where c.workspace_id = $1 and m.channel_id"
);

/// Fails if the channel is archived, because nothing can be added to an archived channel.
pub(crate) fn check_not_archived(channel: &ChannelPlace) -> Result<()> {
    refuse_archived(channel.archived)
}

/// Fails if the channel is a direct message, which only its own members may use.
pub(crate) fn check_no_dm(channel: &ChannelPlace) -> Result<()> {
    if channel.dm {
        return Err(Error::wrong_state("the channel is a direct message"));
    }
    Ok(())
}

/// Fails if members who see the channel `shown_in` could learn there of a `channel` that they may not see.
pub(crate) fn check_visible_to_all(channel: &ChannelPlace, shown_in: ChannelId) -> Result<()> {
    if !channel.private || channel.id == shown_in {
        return Ok(());
    }
    Err(Error::new(
        Code::NotVisibleToAll,
        "only threads of the same private channel can wait for its threads: others would learn of them",
    ))
}

impl ThreadPlace {
    /// Fails if the thread's channel is archived, because nothing can be added to an archived channel.
    pub(crate) fn check_not_archived(&self) -> Result<()> {
        refuse_archived(self.archived)
    }
}

fn refuse_archived(archived: bool) -> Result<()> {
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
        let only = Audience::Only(Arc::new([inside].into()));
        for (visibility, public, private, workspace) in [
            (Visibility::Whole, true, true, true),
            (Visibility::Public, true, false, false),
            (Visibility::Member(inside), true, true, true),
            (Visibility::Member(outside), true, false, true),
            (Visibility::Channel(channel), true, true, false),
            (Visibility::Channel(other), false, false, false),
            (Visibility::Nothing, false, false, false),
        ] {
            let seen = |audience: &Audience| audience.is_seen_by(visibility, channel);
            let seen = (seen(&Audience::Everybody), seen(&only), is_workspace_seen_by(visibility));
            assert_eq!(seen, (public, private, workspace), "{visibility:?}");
        }
    }

    #[test]
    fn an_archived_channel_accepts_nothing_new() {
        assert!(refuse_archived(false).is_ok());
        assert_eq!(refuse_archived(true).unwrap_err().code().status(), 409);
    }

    const SEEN: &str = concat!("select c.name from channels c where ", visible!(c), " order by c.name");

    /// Counts the visible test rows; there is one in each channel and one of the workspace itself.
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
