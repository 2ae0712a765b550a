//! Direct messages: private channels for a set of members, visible only to these members.
//!
//! Each set of members has at most one direct message, which is found by a hash of the set. The hash is
//! stored in a separate table and never leaves the instance. An imported direct message has no stored hash,
//! and is found by its members.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::change::{ChannelArchived, SET_ARCHIVED};
use super::members::{DELETE_MEMBER, insert_member, invalidate_audiences};
use super::{Channel, ChannelCreated, ChannelKind, ChannelMemberRemoved};
use crate::Result;
use crate::conversation::visibility::{ChannelPlace, visible_channel};
use crate::error::Error;
use crate::hash::sha256;
use crate::id::{ChannelId, MemberId, ThreadId};
use crate::limits::{DM_UNREAD_MAX, PAGE_SCAN_MAX};
use crate::log::event::{RecordedEvent, Subject};
use crate::op::{Read, Write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::store::{Engine, ToParam, columns};

/// Name of every direct-message channel. The name cannot be changed.
const NAME: &str = "Direct message";

/// A direct message of which the caller is a member.
pub(crate) struct DirectMessage {
    pub id: ChannelId,
    /// Whether the direct message is a group: it was opened for more than two members, so members can be
    /// added and can leave.
    pub is_group: bool,
}

columns! { direct_columns: DirectMessage as c { id, is_group } }

/// Loads a direct message. Fails with *not found* if the caller is not a member of the direct message.
pub(crate) fn load(cx: &Read<'_>, id: ChannelId) -> Result<DirectMessage> {
    let channel = visible_channel(cx, id)?;
    let found = if channel.dm { cx.one(SELECT_DM, &[&channel.id])? } else { None };
    found.ok_or_else(|| Error::not_found("direct message"))
}

const SELECT_DM: &str = concat!("select ", direct_columns!(), " from channels c where c.id = $1");

/// A member of a direct message.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Participant {
    /// Id of the member.
    pub member_id: MemberId,
    /// Handle of the member.
    pub handle: String,
}

/// Row of a member of a direct message, with the id of the direct message's channel.
struct ParticipantRow {
    channel_id: ChannelId,
    member_id: MemberId,
    handle: String,
}

columns! { participant_columns: ParticipantRow as s { channel_id, member_id, handle = "m.handle" } }

/// Returns the members of each of the given direct messages, by the id of the channel.
pub(crate) fn load_participants(
    cx: &Read<'_>,
    dms: &[ChannelId],
) -> Result<BTreeMap<ChannelId, Vec<Participant>>> {
    let mut found: BTreeMap<ChannelId, Vec<Participant>> = BTreeMap::new();
    if dms.is_empty() {
        return Ok(found);
    }
    let ids: Vec<Uuid> = dms.iter().map(|id| id.uuid()).collect();
    let sql = match cx.engine() {
        Engine::Sqlite => PARTICIPANTS_SQLITE,
        Engine::Postgres => PARTICIPANTS_POSTGRES,
    };
    for ParticipantRow { channel_id, member_id, handle } in cx.query(sql, &[&ids])? {
        found.entry(channel_id).or_default().push(Participant { member_id, handle });
    }
    Ok(found)
}

macro_rules! participants {
    ($which:literal) => {
        concat!(
            "select ",
            participant_columns!(),
            " from channel_members s join members m on m.id = s.member_id
             where s.channel_id ",
            $which,
            " order by m.lsn"
        )
    };
}

const PARTICIPANTS_SQLITE: &str = participants!("in (select unhex(value) from json_each($1))");

const PARTICIPANTS_POSTGRES: &str = participants!("= any($1)");

/// A direct message with its number of unread messages.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ListedDm {
    /// Id of the direct message's channel.
    pub id: ChannelId,
    /// Id of the direct message's first thread, in which members post messages.
    pub thread_id: ThreadId,
    /// Members of the direct message including you, in the order in which they joined the workspace.
    pub participants: Vec<Participant>,
    /// Number of the direct message's messages that are unread in your inbox, up to 100; null for a delegate,
    /// who cannot read the inbox.
    pub unread: Option<i64>,
    /// Position in the workspace's log of the last message in the direct message; null if it has no messages,
    /// or if its last 100 messages are all withdrawn.
    pub last_lsn: Option<i64>,
    /// Position in the workspace's log at which the direct message was opened.
    pub lsn: i64,
    /// Position in the workspace's log at which the caller joined the direct message.
    #[serde(skip)]
    joined_lsn: i64,
}

columns! {
    dm_columns: ListedDm as c {
        id,
        thread_id = ("(select t.id from threads t where t.channel_id = c.id order by t.lsn limit 1)"),
        unread = ("(select count(*) from (
            select 1 from inbox i
            where i.member_id = own.member_id and i.read_at is null and i.channel_id = c.id
                and i.message_id is not null limit $4) x)"),
        last_lsn = (
            "(select max(m.lsn) from (
                 select m.lsn, m.withdrawn_at from messages m where m.channel_id = c.id
                 order by m.lsn desc limit $4) m
              where m.withdrawn_at is null)"
        ),
        lsn,
        joined_lsn = "own.lsn",
    }
    make { participants: Vec::new() }
}

/// Returns a page of the caller's direct messages, in the order in which the caller joined these direct
/// messages.
pub(crate) fn list_dms_of_caller(
    cx: &Read<'_>,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
) -> Result<Page<ListedDm>> {
    let member = cx.caller().member_id()?;
    let after = Cursor::after(cursor);
    let horizon = cx.horizon(DM_SCAN_HORIZON, &[&member], after)?;
    let last = horizon.up_to();
    let limit = Limit::capped(limit, DMS_PER_PAGE_MAX);
    let params: [&dyn ToParam; 6] =
        [&member, &after, &rows_to_read(limit), &DM_UNREAD_MAX, &last, &PAGE_SCAN_MAX];
    let rows = cx.rows(LIST_DMS, &params)?;
    let page = Page::within(horizon, rows, limit, |dm: &ListedDm| dm.joined_lsn);
    let listed: Vec<ChannelId> = page.items().iter().map(|dm| dm.id).collect();
    let mut found = load_participants(cx, &listed)?;
    let reads_inbox = !cx.caller().is_delegated();
    page.try_map(|dm| {
        let participants = found.remove(&dm.id).unwrap_or_default();
        Ok(ListedDm { participants, unread: dm.unread.filter(|_| reads_inbox), ..dm })
    })
}

/// Maximum direct messages on one page. The limit is low because a list counts the unread messages of each
/// direct message.
const DMS_PER_PAGE_MAX: i64 = 25;

const LIST_DMS: &str = concat!(
    "select ",
    dm_columns!(),
    " from (
         select channel_id, member_id, lsn from channel_members
         where member_id = $1 and lsn > $2 and lsn <= $5 order by lsn limit $6) own
     join channels c on c.id = own.channel_id
     where c.dm order by own.lsn limit $3"
);

const DM_SCAN_HORIZON: &str = "
    select lsn from channel_members where member_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

/// Finds the direct message of a set of members that includes the caller, or returns `None`.
pub(crate) fn find_by_members(cx: &mut Write<'_>, members: &BTreeSet<MemberId>) -> Result<Option<ChannelId>> {
    let workspace = cx.caller().workspace_id;
    let key = hash_members(members);
    if let Some((known,)) = cx.one(FIND_BY_HASH, &[&workspace, &key])? {
        return Ok(Some(known));
    }
    let sql = match cx.engine() {
        Engine::Sqlite => FIND_BY_MEMBERS_SQLITE,
        Engine::Postgres => FIND_BY_MEMBERS_POSTGRES,
    };
    let caller = cx.caller().member_id()?;
    let ids = sorted_uuids(members);
    let size = i64::try_from(ids.len()).map_err(Error::internal)?;
    let found = cx.one(sql, &[&caller, &size, &ids])?;
    if let Some((id,)) = found {
        store_members_hash(cx, (id, members.len() > PAIR_SIZE), members)?;
    }
    Ok(found.map(|(id,)| id))
}

const FIND_BY_HASH: &str = "select channel_id from dm_sets where workspace_id = $1 and set_key = $2";

/// SQL query for the first direct message of member `$1` without a stored hash whose members are exactly the
/// `$2` members in `$3`. Groups with only two members are omitted.
macro_rules! by_members {
    ($in_set:literal) => {
        concat!(
            "select c.id from channel_members own join channels c on c.id = own.channel_id
             where own.member_id = $1 and c.dm
                 and (select count(*) from channel_members s where s.channel_id = c.id and s.member_id ",
            $in_set,
            ") = $2
                 and (select count(*) from channel_members s where s.channel_id = c.id) = $2
                 and not exists (select 1 from dm_sets d where d.channel_id = c.id)
                 and (not c.is_group or $2 > 2)
             order by c.lsn limit 1"
        )
    };
}

const FIND_BY_MEMBERS_SQLITE: &str = by_members!("in (select unhex(value) from json_each($3))");

const FIND_BY_MEMBERS_POSTGRES: &str = by_members!("= any($3)");

/// Creates a direct message for a set of members.
pub(crate) fn create(cx: &mut Write<'_>, members: &BTreeSet<MemberId>) -> Result<ChannelPlace> {
    let id: ChannelId = cx.new_id()?;
    let event = ChannelCreated {
        channel_id: id,
        name: NAME.to_owned(),
        topic: None,
        private: true,
        kind: ChannelKind::Dm,
        group: members.len() > PAIR_SIZE,
    };
    let RecordedEvent { at: created_at, lsn, .. } = cx.emit(Subject::channel(id), &event)?;
    let workspace_id = cx.caller().workspace_id;
    let channel = Channel {
        id,
        workspace_id,
        name: event.name,
        topic: None,
        private: true,
        kind: event.kind,
        is_group: event.group,
        archived: false,
        archived_at: None,
        has_boot: false,
        created_by: cx.caller().member,
        created_at,
        lsn,
    };
    channel.with_new_row(|row| cx.insert(row))?;
    for member in members {
        insert_member(cx, id, *member)?;
    }
    store_members_hash(cx, (id, members.len() > PAIR_SIZE), members)?;
    Ok(ChannelPlace { id, workspace_id, archived: false, private: true, dm: true })
}

/// Adds the member `new_member` to a group direct message, whose members before the change are `members`.
pub(crate) fn add(
    cx: &mut Write<'_>,
    id: ChannelId,
    mut members: BTreeSet<MemberId>,
    new_member: MemberId,
) -> Result<()> {
    insert_member(cx, id, new_member)?;
    invalidate_audiences(cx)?;
    members.insert(new_member);
    store_members_hash(cx, (id, true), &members)
}

/// Removes a member from a group direct message, and archives the direct message if no members remain.
///
/// Returns whether the removed member was the last one.
pub(crate) fn leave(
    cx: &mut Write<'_>,
    id: ChannelId,
    mut members: BTreeSet<MemberId>,
    member_id: MemberId,
) -> Result<bool> {
    let removed = ChannelMemberRemoved { channel_id: id, member_id };
    cx.emit(Subject::channel(id).about(member_id), &removed)?;
    cx.execute(1, DELETE_MEMBER, &[&id, &member_id])?;
    members.remove(&member_id);
    store_members_hash(cx, (id, true), &members)?;
    if members.is_empty() {
        let archived = cx.emit(Subject::channel(id), &ChannelArchived { channel_id: id })?;
        cx.execute(1, SET_ARCHIVED, &[&id, &Some(archived.at)])?;
    }
    Ok(members.is_empty())
}

/// Maximum members of a direct message that is not a group.
const PAIR_SIZE: usize = 2;

/// Stores the hash of a direct message's set of members, unless another direct message already has that hash.
///
/// A group with two or fewer members gets no hash. If it were found for two members, members added to the
/// group later could read the messages of these two.
fn store_members_hash(
    cx: &mut Write<'_>,
    (id, is_group): (ChannelId, bool),
    members: &BTreeSet<MemberId>,
) -> Result<()> {
    cx.execute_any(DELETE_MEMBERS_HASH, &[&id])?;
    if members.is_empty() || is_group && members.len() <= PAIR_SIZE {
        return Ok(());
    }
    let workspace = cx.caller().workspace_id;
    let key = hash_members(members);
    cx.execute_any(INSERT_MEMBERS_HASH, &[&workspace, &key, &id])
}

const DELETE_MEMBERS_HASH: &str = "delete from dm_sets where channel_id = $1";

const INSERT_MEMBERS_HASH: &str = "
    insert into dm_sets (workspace_id, set_key, channel_id) values ($1, $2, $3) on conflict do nothing";

/// Returns the hash that identifies a set of members.
fn hash_members(members: &BTreeSet<MemberId>) -> [u8; 32] {
    let ids: Vec<u8> = sorted_uuids(members).iter().flat_map(|id| *id.as_bytes()).collect();
    sha256(&ids)
}

fn sorted_uuids(members: &BTreeSet<MemberId>) -> Vec<Uuid> {
    let mut ids: Vec<Uuid> = members.iter().map(|member| member.uuid()).collect();
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_one_hash() {
        let member = |n: u128| MemberId::from(Uuid::from_u128(n));
        let key = |ids: &[u128]| hash_members(&ids.iter().map(|n| member(*n)).collect());
        assert_eq!(key(&[3, 1, 2]), key(&[2, 2, 1, 3]));
        assert_ne!(key(&[1, 2]), key(&[1, 2, 3]));
        assert_ne!(key(&[1]), key(&[2]));
    }
}
