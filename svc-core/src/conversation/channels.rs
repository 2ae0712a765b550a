//! Channels: the places of threads, public or private.
//!
//! A private channel and everything in it exists only for its members. A public channel may have members too,
//! which does not affect access. Only the creator of a channel and members with `channel:admin` change its
//! privacy and remove others from a private one, so that no member takes a channel away from those who
//! created and administer it. What archiving and privacy mean for the tasks inside follows from the events of
//! this file, in coordination.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::places::{self, check_not_archived, visible, visible_channel};
use crate::Result;
use crate::capability::Capability::{ChannelAdmin, WorkspaceRead, WorkspaceWrite};
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::identity::members::load_member;
use crate::identity::workspaces::own_workspace;
use crate::limits::{NAME_MAX, TOPIC_MAX};
use crate::log::event::{Event, EventKind, Invalidates, Subject};
use crate::op::{Caller, Feature, Read, Sample, Write, destructive, idempotent, read, write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::store::{columns, new_row};
use crate::text::{Change, Patch, Text};
use crate::time::Time;

/// A channel.
#[derive(Debug, Serialize, JsonSchema)]
struct Channel {
    /// The channel.
    id: ChannelId,
    /// The workspace it belongs to.
    workspace_id: WorkspaceId,
    /// Its name. Names need not be unique.
    name: String,
    /// What it is for; null if not set.
    topic: Option<String>,
    /// Whether only its members may see it and what is in it.
    private: bool,
    /// Whether it is archived and takes nothing new.
    archived: bool,
    /// When it was archived; null while it is live.
    archived_at: Option<Time>,
    /// Who created it; null for the service itself.
    created_by: Option<MemberId>,
    /// When it was created.
    created_at: Time,
    /// The position of its creation in the workspace's log.
    lsn: i64,
}

columns! {
    channel_columns: Channel as c {
        id,
        workspace_id,
        name,
        topic,
        private,
        archived_at: Option<Time>,
        created_by,
        created_at,
        lsn,
    }
    make { archived: archived_at.is_some() }
    insert "insert into channels" {}
}

/// A member of a channel.
#[derive(Debug, Serialize, JsonSchema)]
struct ChannelMember {
    /// The channel.
    channel_id: ChannelId,
    /// The member.
    member_id: MemberId,
    /// The member's handle.
    handle: String,
    /// Who added the member; null for the service itself.
    added_by: Option<MemberId>,
    /// When the member was added.
    added_at: Time,
    /// The position of the addition in the workspace's log.
    lsn: i64,
}

columns! {
    channel_member_columns: ChannelMember as s {
        channel_id,
        member_id,
        handle = "m.handle",
        added_by,
        added_at,
        lsn,
    }
}

/// A member that was removed from a channel.
#[derive(Debug, Serialize, JsonSchema)]
struct RemovedChannelMember {
    /// The channel.
    channel_id: ChannelId,
    /// The member that was removed.
    member_id: MemberId,
}

/// A channel was created.
#[derive(Serialize, JsonSchema)]
struct ChannelCreated {
    /// The channel.
    channel_id: ChannelId,
    /// Its name.
    name: String,
    /// What it is for.
    topic: Option<String>,
    /// Whether only members may see it.
    private: bool,
}

impl Event for ChannelCreated {
    const KIND: &'static str = "ChannelCreated";
}

/// A channel's name, topic or privacy was changed.
///
/// The fields hold the values after the change.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChannelUpdated {
    /// The channel.
    channel_id: ChannelId,
    /// Its name.
    name: String,
    /// What it is for.
    topic: Option<String>,
    /// Whether only members may see it.
    private: bool,
}

impl Event for ChannelUpdated {
    const KIND: &'static str = "ChannelUpdated";
}

/// A channel was archived and takes nothing new.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChannelArchived {
    /// The channel.
    channel_id: ChannelId,
}

impl Event for ChannelArchived {
    const KIND: &'static str = "ChannelArchived";
}

/// An archived channel was reopened.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChannelUnarchived {
    /// The channel.
    channel_id: ChannelId,
}

impl Event for ChannelUnarchived {
    const KIND: &'static str = "ChannelUnarchived";
}

/// A member was added to a channel.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChannelMemberAdded {
    /// The channel.
    channel_id: ChannelId,
    /// The member that was added.
    member_id: MemberId,
}

impl Event for ChannelMemberAdded {
    const KIND: &'static str = "ChannelMemberAdded";
}

/// A member left a channel or was removed from it.
#[derive(Serialize, JsonSchema)]
struct ChannelMemberRemoved {
    /// The channel.
    channel_id: ChannelId,
    /// The member that was removed.
    member_id: MemberId,
}

impl Event for ChannelMemberRemoved {
    const KIND: &'static str = "ChannelMemberRemoved";
}

pub(crate) fn feature() -> Feature {
    let rows = vec![
        write("create_channel", create_channel)
            .title("Create a channel")
            .post("/workspaces/{workspace_id}/channels")
            .needs(&[WorkspaceWrite])
            .created()
            .example(|w| {
                json!({"workspace_id": w.id("workspace"), "name": "build",
                       "topic": "The build and its failures", "private": true})
            }),
        read("list_channels", list_channels)
            .title("List channels")
            .get("/workspaces/{workspace_id}/channels")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"workspace_id": w.id("workspace"), "archived": false, "limit": 10})),
        read("get_channel", get_channel)
            .quick()
            .title("Read a channel")
            .get("/channels/{channel_id}")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"channel_id": w.id("private_channel")})),
        idempotent("update_channel", update_channel)
            .title("Change a channel")
            .patch("/channels/{channel_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::Forbidden, Code::WrongState, Code::NotVisibleToAll])
            .example(|w| {
                json!({"channel_id": w.id("channel"), "name": "release", "topic": "What ships next",
                       "private": true})
            }),
        idempotent("archive_channel", archive_channel)
            .title("Archive a channel")
            .post("/channels/{channel_id}/archive")
            .needs(&[ChannelAdmin])
            .example(|w| json!({"channel_id": w.id("channel")})),
        idempotent("unarchive_channel", unarchive_channel)
            .title("Unarchive a channel")
            .post("/channels/{channel_id}/unarchive")
            .needs(&[ChannelAdmin])
            .example(|w| json!({"channel_id": w.id("archived_channel")})),
        read("list_channel_members", list_channel_members)
            .title("List a channel's members")
            .get("/channels/{channel_id}/members")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"channel_id": w.id("private_channel"), "limit": 10})),
        idempotent("add_channel_member", add_channel_member)
            .title("Add a member to a channel")
            .put("/channels/{channel_id}/members/{member_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"channel_id": w.id("channel"), "member_id": w.id("agent")})),
        destructive("remove_channel_member", remove_channel_member)
            .title("Remove a member from a channel")
            .delete("/channels/{channel_id}/members/{member_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::Forbidden, Code::NotFound])
            .example(|w| json!({"channel_id": w.id("private_channel"), "member_id": w.id("agent")})),
    ];
    Feature::new()
        .operations("channels", rows)
        .events(vec![
            EventKind::of::<ChannelCreated>(),
            EventKind::of::<ChannelUpdated>().invalidates(Invalidates::Access),
            EventKind::of::<ChannelArchived>().invalidates(Invalidates::Access),
            EventKind::of::<ChannelUnarchived>().invalidates(Invalidates::Access),
            EventKind::of::<ChannelMemberAdded>(),
            EventKind::of::<ChannelMemberRemoved>().invalidates(Invalidates::Access),
        ])
        .sample(Sample::new(
            "channel",
            "create_channel",
            |w| json!({"workspace_id": w.id("workspace"), "name": "general"}),
        ))
        .sample(
            Sample::new(
                "private_channel",
                "create_channel",
                |w| json!({"workspace_id": w.id("workspace"), "name": "closed", "private": true}),
            )
            .then(
                "add_channel_member",
                |w| json!({"channel_id": w.id("private_channel"), "member_id": w.id("agent")}),
            ),
        )
        .sample(
            Sample::new(
                "archived_channel",
                "create_channel",
                |w| json!({"workspace_id": w.id("workspace"), "name": "attic"}),
            )
            .then("archive_channel", |w| json!({"channel_id": w.id("archived_channel")})),
        )
}

/// Creates a channel, the place for threads about one subject, and returns it.
///
/// The creator of a private channel becomes its first member; other members see it only after they were added
/// with `add_channel_member`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateChannel {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
    /// A name for people. It need not be unique.
    name: Text<1, NAME_MAX>,
    /// What the channel is for.
    #[serde(default)]
    topic: Option<Text<1, TOPIC_MAX>>,
    /// Whether only members may see the channel and what is in it. Default: false.
    #[serde(default)]
    private: Option<bool>,
}

fn create_channel(cx: &mut Write<'_>, input: &CreateChannel) -> Result<Channel> {
    own_workspace(cx, input.workspace_id)?;
    let id: ChannelId = cx.new_id()?;
    let topic = input.topic.as_deref().map(str::to_owned);
    let private = input.private.unwrap_or(false);
    let event =
        ChannelCreated { channel_id: id, name: input.name.to_string(), topic: topic.clone(), private };
    let lsn = cx.emit(Subject::channel(id), &event)?.lsn;
    let channel = Channel {
        id,
        workspace_id: input.workspace_id,
        name: event.name,
        topic,
        private,
        archived: false,
        archived_at: None,
        created_by: cx.caller().member,
        created_at: cx.now(),
        lsn,
    };
    channel.with_new_row(|row| cx.insert(row))?;
    if let (true, Some(creator)) = (channel.private, channel.created_by) {
        insert_member(cx, channel.id, creator)?;
    }
    Ok(channel)
}

/// Returns the channels that you may see, oldest first.
///
/// Private channels are returned only to their members. One page covers at most 2000 channels, so it may be
/// short or empty although there is more: continue while `next_cursor` is not null.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListChannels {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
    /// True for archived channels only, false for live ones only. Default: both.
    #[serde(default)]
    archived: Option<bool>,
    #[serde(default)]
    cursor: Option<Cursor>,
    #[serde(default)]
    limit: Option<Limit>,
}

fn list_channels(cx: &Read<'_>, input: &ListChannels) -> Result<Page<Channel>> {
    own_workspace(cx, input.workspace_id)?;
    let (after, limit) = (Cursor::after(input.cursor), rows_to_read(input.limit));
    let horizon = cx.horizon(HORIZON_OF_CHANNELS, &[&input.workspace_id], after)?;
    let (sight, last) = (cx.caller().sight.params(), horizon.up_to());
    let params = sight.and(&[&input.workspace_id, &after, &limit, &input.archived, &last]);
    Ok(Page::within(horizon, cx.rows(LIST_CHANNELS, &params)?, input.limit, |channel: &Channel| channel.lsn))
}

const LIST_CHANNELS: &str = concat!(
    "select ",
    channel_columns!(),
    " from channels c
     where c.workspace_id = $5 and c.lsn > $6 and c.lsn <= $9
       and (cast($8 as boolean) is null or (c.archived_at is not null) = cast($8 as boolean)) and ",
    visible!(c),
    " order by c.lsn limit $7"
);

const HORIZON_OF_CHANNELS: &str =
    "select lsn from channels where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

/// Returns a channel.
///
/// A private channel that you are not a member of is not found.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetChannel {
    /// The channel.
    channel_id: ChannelId,
}

fn get_channel(cx: &Read<'_>, input: &GetChannel) -> Result<Channel> {
    load_visible(cx, input.channel_id)
}

/// Changes a channel's name, topic or privacy and returns the channel.
///
/// Absent fields keep their value. A channel that becomes private keeps its members, and its creator and you
/// become members too; all others lose sight of it at once.
///
/// Fails with 403 `forbidden` if you change the privacy and are neither its creator nor have `channel:admin`;
/// 409 `wrong-state` if the channel is archived; 409 `not-visible-to-all`, naming up to 10 threads in
/// `thread_ids`, if the channel would become private while threads of other, public channels wait for its
/// threads, or public while its threads wait for threads of other, private channels.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateChannel {
    /// The channel.
    channel_id: ChannelId,
    /// The new name.
    #[serde(default)]
    name: Change<Text<1, NAME_MAX>>,
    /// The new topic; null removes it.
    #[serde(default)]
    topic: Patch<Text<1, TOPIC_MAX>>,
    /// Whether only members may see the channel.
    #[serde(default)]
    private: Change<bool>,
}

fn update_channel(cx: &mut Write<'_>, input: &UpdateChannel) -> Result<Channel> {
    check_not_archived(&visible_channel(cx, input.channel_id)?)?;
    let mut channel = load_visible(cx, input.channel_id)?;
    let was_private = channel.private;
    if !apply(&mut channel, input) {
        return Ok(channel);
    }
    if channel.private != was_private {
        check_decides_who_sees(cx.caller(), &channel)?;
    }
    let newcomers = match (was_private, channel.private) {
        (false, true) => {
            check_not_waited_for_outside(cx, channel.id)?;
            newcomers(cx, &channel)?
        }
        (true, false) => {
            check_waits_for_nothing_hidden(cx, channel.id)?;
            Vec::new()
        }
        _ => Vec::new(),
    };
    let event = ChannelUpdated {
        channel_id: channel.id,
        name: channel.name.clone(),
        topic: channel.topic.clone(),
        private: channel.private,
    };
    cx.emit(Subject::channel(channel.id), &event)?;
    cx.execute(1, UPDATE_CHANNEL, &[&channel.id, &channel.name, &channel.topic, &channel.private])?;
    for member in newcomers {
        insert_member(cx, channel.id, member)?;
    }
    Ok(channel)
}

const UPDATE_CHANNEL: &str = "update channels set name = $2, topic = $3, private = $4 where id = $1";

/// Applies the requested values and returns whether anything changed.
fn apply(channel: &mut Channel, wanted: &UpdateChannel) -> bool {
    let before = (channel.name.clone(), channel.topic.clone(), channel.private);
    if let Some(name) = wanted.name.get() {
        channel.name = name.to_string();
    }
    match &wanted.topic {
        Patch::Keep => {}
        Patch::Clear => channel.topic = None,
        Patch::Set(topic) => channel.topic = Some(topic.to_string()),
    }
    if let Some(private) = wanted.private.get() {
        channel.private = *private;
    }
    before != (channel.name.clone(), channel.topic.clone(), channel.private)
}

/// Fails unless the caller created the channel or has `channel:admin`.
fn check_decides_who_sees(caller: &Caller, channel: &Channel) -> Result<()> {
    let created = channel.created_by.is_some() && channel.created_by == caller.member;
    if created || caller.capabilities.has(ChannelAdmin) {
        return Ok(());
    }
    Err(Error::forbidden(
        "only the creator of a channel or a member with channel:admin decides who sees it; ask one of them",
    ))
}

/// Fails if the channel's threads would be hidden while visible ones wait for them.
///
/// Members who see the waiting threads would learn when the hidden ones are finished.
fn check_not_waited_for_outside(cx: &Read<'_>, channel: ChannelId) -> Result<()> {
    let detail = "threads of public channels wait for threads of this one: remove those dependencies first";
    refuse_waiting(cx.query(WAIT_OUTSIDE, &[&channel])?, detail)
}

/// Fails if threads that wait for hidden ones would be shown to members who do not see those.
fn check_waits_for_nothing_hidden(cx: &Read<'_>, channel: ChannelId) -> Result<()> {
    let detail = "threads of this channel wait for threads of private ones: remove those dependencies first";
    refuse_waiting(cx.query(WAIT_FOR_HIDDEN, &[&channel])?, detail)
}

fn refuse_waiting(waiting: Vec<(ThreadId, i64)>, detail: &'static str) -> Result<()> {
    if waiting.is_empty() {
        return Ok(());
    }
    let ids: Vec<ThreadId> = waiting.into_iter().map(|(id, _)| id).collect();
    Err(Error::new(Code::NotVisibleToAll, detail).with("thread_ids", ids))
}

/// The first 10 threads of the channel that wait for threads of other, private channels.
const WAIT_FOR_HIDDEN: &str = "
    select distinct w.id, w.lsn
    from threads w
    join thread_dependencies d on d.thread_id = w.id
    join threads t on t.id = d.depends_on_id
    join channels c on c.id = t.channel_id
    where w.channel_id = $1 and t.channel_id <> $1 and w.state <> 'archived' and c.private
    order by w.lsn limit 10";

/// The first 10 threads of other channels that wait for threads of this one.
///
/// Threads of private channels are left out: not everybody may know that they wait.
const WAIT_OUTSIDE: &str = "
    select distinct w.id, w.lsn
    from threads t
    join thread_dependencies d on d.depends_on_id = t.id
    join threads w on w.id = d.thread_id
    join channels c on c.id = w.channel_id
    where t.channel_id = $1 and w.channel_id <> $1 and w.state <> 'archived' and not c.private
    order by w.lsn limit 10";

/// The creator and the caller, as far as they are not members yet of a channel that becomes private.
fn newcomers(cx: &Read<'_>, channel: &Channel) -> Result<Vec<MemberId>> {
    let mut newcomers = Vec::new();
    for member in keepers(channel.created_by, cx.caller().member) {
        if find_member(cx, channel.id, member)?.is_none() {
            newcomers.push(member);
        }
    }
    Ok(newcomers)
}

/// The creator and the caller, each once.
fn keepers(creator: Option<MemberId>, caller: Option<MemberId>) -> impl Iterator<Item = MemberId> {
    creator.into_iter().chain(caller.filter(|caller| Some(*caller) != creator))
}

/// Archives a channel and returns it.
///
/// An archived channel can be read as before, but takes no new threads, messages or members until it is
/// unarchived. Archiving it again changes nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArchiveChannel {
    /// The channel.
    channel_id: ChannelId,
}

fn archive_channel(cx: &mut Write<'_>, input: &ArchiveChannel) -> Result<Channel> {
    let channel = load_visible(cx, input.channel_id)?;
    if channel.archived {
        return Ok(channel);
    }
    let now = cx.now();
    cx.emit(Subject::channel(channel.id), &ChannelArchived { channel_id: channel.id })?;
    set_archived(cx, channel, Some(now))
}

/// Unarchives a channel and returns it.
///
/// Unarchiving a live channel changes nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UnarchiveChannel {
    /// The channel.
    channel_id: ChannelId,
}

fn unarchive_channel(cx: &mut Write<'_>, input: &UnarchiveChannel) -> Result<Channel> {
    let channel = load_visible(cx, input.channel_id)?;
    if !channel.archived {
        return Ok(channel);
    }
    cx.emit(Subject::channel(channel.id), &ChannelUnarchived { channel_id: channel.id })?;
    set_archived(cx, channel, None)
}

fn set_archived(cx: &mut Write<'_>, channel: Channel, archived_at: Option<Time>) -> Result<Channel> {
    cx.execute(1, SET_ARCHIVED, &[&channel.id, &archived_at])?;
    Ok(Channel { archived: archived_at.is_some(), archived_at, ..channel })
}

const SET_ARCHIVED: &str = "update channels set archived_at = $2 where id = $1";

/// Returns a channel's members, in the order in which they were added.
///
/// Every member of the workspace may list the members of a public channel.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListChannelMembers {
    /// The channel.
    channel_id: ChannelId,
    #[serde(default)]
    cursor: Option<Cursor>,
    #[serde(default)]
    limit: Option<Limit>,
}

fn list_channel_members(cx: &Read<'_>, input: &ListChannelMembers) -> Result<Page<ChannelMember>> {
    let channel = visible_channel(cx, input.channel_id)?;
    let rows =
        cx.rows(LIST_MEMBERS, &[&channel.id, &Cursor::after(input.cursor), &rows_to_read(input.limit)])?;
    Ok(Page::of(rows, input.limit, |member: &ChannelMember| member.lsn))
}

const LIST_MEMBERS: &str = concat!(
    "select ",
    channel_member_columns!(),
    " from channel_members s join members m on m.id = s.member_id
     where s.channel_id = $1 and s.lsn > $2
     order by s.lsn limit $3"
);

/// Adds a member of the workspace to a channel and returns the membership.
///
/// Only a member of a private channel can add others to it. Adding a member again changes nothing.
///
/// Fails with 409 `wrong-state` if the channel is archived.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddChannelMember {
    /// The channel.
    channel_id: ChannelId,
    /// The member to add.
    member_id: MemberId,
}

fn add_channel_member(cx: &mut Write<'_>, input: &AddChannelMember) -> Result<ChannelMember> {
    let channel = visible_channel(cx, input.channel_id)?;
    load_member(cx, input.member_id)?;
    if let Some(member) = find_member(cx, channel.id, input.member_id)? {
        return Ok(member);
    }
    check_not_archived(&channel)?;
    insert_member(cx, channel.id, input.member_id)?;
    find_member(cx, channel.id, input.member_id)?
        .ok_or_else(|| Error::internal("a member that was just added to a channel is missing"))
}

/// Removes a member from a channel and returns which; remove yourself to leave.
///
/// A member that is removed from a private channel loses sight of it at once.
///
/// Fails with 403 `forbidden` if you remove another member from a private channel and are neither its creator
/// nor have `channel:admin`, or if you remove its creator from any channel without `channel:admin`; 404
/// `not-found` if the member is not in the channel.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemoveChannelMember {
    /// The channel.
    channel_id: ChannelId,
    /// The member to remove.
    member_id: MemberId,
}

fn remove_channel_member(cx: &mut Write<'_>, input: &RemoveChannelMember) -> Result<RemovedChannelMember> {
    let channel = load_visible(cx, input.channel_id)?;
    let member =
        find_member(cx, channel.id, input.member_id)?.ok_or_else(|| Error::not_found("channel member"))?;
    check_may_remove(cx.caller(), &channel, member.member_id)?;
    let removed = RemovedChannelMember { channel_id: channel.id, member_id: member.member_id };
    cx.emit(
        Subject::channel(channel.id).about(removed.member_id),
        &ChannelMemberRemoved { channel_id: channel.id, member_id: removed.member_id },
    )?;
    cx.execute(1, DELETE_MEMBER, &[&channel.id, &removed.member_id])?;
    Ok(removed)
}

/// Fails if the caller may not remove `member`.
///
/// Everybody may leave. Membership of a public channel does not affect access, so anybody may remove others
/// from it, except the creator.
fn check_may_remove(caller: &Caller, channel: &Channel, member: MemberId) -> Result<()> {
    if caller.member == Some(member) || caller.capabilities.has(ChannelAdmin) {
        return Ok(());
    }
    if channel.created_by == Some(member) {
        return Err(Error::forbidden("only a member with channel:admin can remove the creator of a channel"));
    }
    if channel.private { check_decides_who_sees(caller, channel) } else { Ok(()) }
}

const DELETE_MEMBER: &str = "delete from channel_members where channel_id = $1 and member_id = $2";

/// Loads the whole channel, if the caller may see it.
fn load_visible(cx: &Read<'_>, id: ChannelId) -> Result<Channel> {
    let place = places::visible_channel(cx, id)?;
    cx.one(LOAD_CHANNEL, &[&place.id])?.ok_or_else(|| Error::not_found("channel"))
}

const LOAD_CHANNEL: &str = concat!("select ", channel_columns!(), " from channels c where c.id = $1");

fn find_member(cx: &Read<'_>, channel: ChannelId, member: MemberId) -> Result<Option<ChannelMember>> {
    cx.one(FIND_MEMBER, &[&channel, &member])
}

const FIND_MEMBER: &str = concat!(
    "select ",
    channel_member_columns!(),
    " from channel_members s join members m on m.id = s.member_id
     where s.channel_id = $1 and s.member_id = $2"
);

/// Adds a member that is not in the channel.
fn insert_member(cx: &mut Write<'_>, channel_id: ChannelId, member_id: MemberId) -> Result<()> {
    let place = Subject::channel(channel_id).about(member_id);
    let added = cx.emit(place, &ChannelMemberAdded { channel_id, member_id })?;
    let (added_by, added_at) = (cx.caller().member, cx.now());
    cx.insert(&new_row!("insert into channel_members" {
        channel_id, member_id, added_by, added_at, lsn: added.lsn
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::capability::Capability;

    fn channel() -> Channel {
        Channel {
            id: Uuid::from_u128(1).into(),
            workspace_id: Uuid::from_u128(2).into(),
            name: "build".to_owned(),
            topic: Some("red".to_owned()),
            private: false,
            archived: false,
            archived_at: None,
            created_by: None,
            created_at: Time::from_micros(0),
            lsn: 1,
        }
    }

    fn wanted(mut fields: Value) -> UpdateChannel {
        fields["channel_id"] = json!(Uuid::from_u128(1));
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn a_change_is_one_only_if_something_differs() {
        let mut probe = channel();
        for nothing in [json!({}), json!({"name": "build", "topic": "red", "private": false})] {
            assert!(!apply(&mut probe, &wanted(nothing)));
        }
        assert!(apply(&mut probe, &wanted(json!({"topic": null}))));
        assert_eq!((probe.name.as_str(), &probe.topic, probe.private), ("build", &None, false));
        assert!(apply(&mut probe, &wanted(json!({"name": "release", "private": true}))));
        assert_eq!((probe.name.as_str(), probe.private), ("release", true));
    }

    #[test]
    fn who_sees_a_channel_is_for_its_creator_and_for_administrators() {
        let member = |n: u128| MemberId::from(Uuid::from_u128(n));
        let (creator, other, third) = (member(1), member(2), member(3));
        let caller = |member, capabilities: &[Capability]| {
            Caller::bearer_for_tests(Uuid::from_u128(2).into(), member, capabilities)
        };
        let of = |created_by, private| Channel { created_by, private, ..channel() };
        let (plain, admin) = (&[WorkspaceWrite][..], &[WorkspaceWrite, ChannelAdmin][..]);
        for (who, capabilities, created_by, decides) in [
            (creator, plain, Some(creator), true),
            (other, plain, Some(creator), false),
            (other, admin, Some(creator), true),
            (other, plain, None, false),
        ] {
            let decided = check_decides_who_sees(&caller(who, capabilities), &of(created_by, false));
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

    #[test]
    fn creator_and_caller_keep_a_channel_that_becomes_private() {
        let (a, b) = (MemberId::from(Uuid::from_u128(1)), MemberId::from(Uuid::from_u128(2)));
        let cases = [
            (Some(a), Some(b), vec![a, b]),
            (Some(a), Some(a), vec![a]),
            (None, Some(b), vec![b]),
            (Some(a), None, vec![a]),
            (None, None, vec![]),
        ];
        for (creator, caller, kept) in cases {
            assert_eq!(keepers(creator, caller).collect::<Vec<_>>(), kept);
        }
    }
}
