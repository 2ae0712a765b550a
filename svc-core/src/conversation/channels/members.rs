//! The members of a channel: listing, adding and removing them.
//!
//! In a private channel, only members may see the channel. In a public channel, membership does not affect
//! access.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::load_visible_channel;
use super::privacy::check_may_remove;
use crate::Result;
use crate::capability::Capability::{WorkspaceRead, WorkspaceWrite};
use crate::conversation::inbox::{self, InboxReason, Recipients};
use crate::conversation::visibility::{check_is_not_dm, check_not_archived, visible_channel};
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId};
use crate::identity::members::load_member;
use crate::log::event::{CachedEntryKind, Event, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Operation, Read, Write, destructive, idempotent, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::{columns, new_row};
use crate::time::Time;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        read("list_channel_members", list_channel_members)
            .title("List a channel's members")
            .when("List a channel's members. Use `list_members` for all members of the workspace.")
            .detailed()
            .get("/channels/{channel_id}/members")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"channel_id": w.id("private_channel"), "limit": 10})),
        idempotent("add_channel_member", add_channel_member)
            .title("Add a member to a channel")
            .when("Add a member of the workspace to a channel.")
            .put("/channels/{channel_id}/members/{member_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"channel_id": w.id("channel"), "member_id": w.id("agent")})),
        destructive("remove_channel_member", remove_channel_member)
            .title("Remove a member from a channel")
            .when("Remove a member from a channel. To leave a channel, remove yourself.")
            .reversible()
            .delete("/channels/{channel_id}/members/{member_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::Forbidden, Code::NotFound, Code::WrongState])
            .example(|w| json!({"channel_id": w.id("private_channel"), "member_id": w.id("agent")})),
    ]
}

/// Membership of a member in a channel.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChannelMember {
    /// Id of the channel.
    pub channel_id: ChannelId,
    /// Id of the member.
    pub member_id: MemberId,
    /// Handle of the member.
    pub handle: String,
    /// Id of the member who added this member to the channel; null if the service itself did.
    pub added_by: Option<MemberId>,
    /// Time at which the member was added.
    pub added_at: Time,
    /// Position in the workspace's log at which the member was added.
    pub lsn: i64,
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

impl<I> Answer<I> for ChannelMember {
    type Kept = (ChannelId, MemberId, i64);

    fn kept(&self) -> Option<Self::Kept> {
        Some((self.channel_id, self.member_id, self.lsn))
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (channel, member, lsn): Self::Kept) -> Result<Self> {
        let found = find_member(cx, visible_channel(cx, channel)?.id, member)?;
        found.filter(|found| found.lsn == lsn).ok_or_else(|| Error::not_found("channel member"))
    }
}

/// A member who was removed from a channel.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RemovedChannelMember {
    /// Id of the channel.
    pub channel_id: ChannelId,
    /// Id of the member who was removed.
    pub member_id: MemberId,
}

impl<I> Answer<I> for RemovedChannelMember {
    type Kept = (ChannelId, MemberId);

    fn kept(&self) -> Option<(ChannelId, MemberId)> {
        Some((self.channel_id, self.member_id))
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (channel, member_id): (ChannelId, MemberId)) -> Result<Self> {
        Ok(Self { channel_id: visible_channel(cx, channel)?.id, member_id })
    }
}

/// A member was added to a channel.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChannelMemberAdded {
    /// Id of the channel.
    channel_id: ChannelId,
    /// Id of the member who was added.
    member_id: MemberId,
}

impl Event for ChannelMemberAdded {
    const KIND: &'static str = "ChannelMemberAdded";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let row = event.row_of("channel_members", "channel_id member_id")?.made();
        row.set("added_by", event.subject()).set("added_at", event.at()).set("lsn", event.lsn()).keep()
    }
}

/// A member left a channel or was removed from it.
#[derive(Serialize, JsonSchema)]
pub(super) struct ChannelMemberRemoved {
    /// Id of the channel.
    pub(super) channel_id: ChannelId,
    /// Id of the member who was removed.
    pub(super) member_id: MemberId,
}

impl Event for ChannelMemberRemoved {
    const KIND: &'static str = "ChannelMemberRemoved";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("channel_members", "channel_id member_id")?.remove()
    }
}

request! {
    /// Returns the members of a channel, in the order in which they were added.
    ///
    /// Every member of the workspace may list the members of a public channel.
    pub(super) struct ListChannelMembers {
        /// Id of the channel.
        channel_id: ChannelId,
        #[serde(default)]
        cursor: Option<Cursor>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_channel_members(channel_id: ChannelId) -> Page<ChannelMember>
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

request! {
    /// Adds a member of the workspace to a channel, and returns the new membership.
    ///
    /// Only a member of a private channel can add other members to it.
    ///
    /// Adding a member again changes nothing.
    ///
    /// Fails with 409 `wrong-state` if the channel is archived or a direct message.
    #[derive(Serialize)]
    pub(super) struct AddChannelMember {
        /// Id of the channel.
        channel_id: ChannelId,
        /// Id of the member to add.
        member_id: MemberId,
    }

    add_channel_member(channel_id: ChannelId, member_id: MemberId) -> ChannelMember
}

fn add_channel_member(cx: &mut Write<'_>, input: &AddChannelMember) -> Result<ChannelMember> {
    let channel = visible_channel(cx, input.channel_id)?;
    check_is_not_dm(&channel)?;
    load_member(cx, input.member_id)?;
    if let Some(member) = find_member(cx, channel.id, input.member_id)? {
        return Ok(member);
    }
    check_not_archived(&channel)?;
    insert_member(cx, channel.id, input.member_id)?;
    if channel.private {
        invalidate_audiences(cx)?;
    }
    find_member(cx, channel.id, input.member_id)?
        .ok_or_else(|| Error::internal("a member that was just added to a channel is missing"))
}

request! {
    /// Removes a member from a channel, and returns the ids of the channel and the member. To leave a
    /// channel, remove yourself.
    ///
    /// A member who is removed from a private channel loses access to it immediately.
    ///
    /// Fails with 403 `forbidden` if you remove another member from a private channel, did not create the
    /// channel and lack `channel:admin`, or if you remove the creator of any channel and lack
    /// `channel:admin`; 404 `not-found` if the member is not in the channel; 409 `wrong-state` if the channel
    /// is a direct message.
    #[derive(Serialize)]
    pub(super) struct RemoveChannelMember {
        /// Id of the channel.
        channel_id: ChannelId,
        /// Id of the member to remove.
        member_id: MemberId,
    }

    remove_channel_member(channel_id: ChannelId, member_id: MemberId) -> RemovedChannelMember
}

fn remove_channel_member(cx: &mut Write<'_>, input: &RemoveChannelMember) -> Result<RemovedChannelMember> {
    check_is_not_dm(&visible_channel(cx, input.channel_id)?)?;
    let channel = load_visible_channel(cx, input.channel_id)?;
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

pub(super) const DELETE_MEMBER: &str = "delete from channel_members where channel_id = $1 and member_id = $2";

pub(super) fn find_member(
    cx: &Read<'_>,
    channel: ChannelId,
    member: MemberId,
) -> Result<Option<ChannelMember>> {
    cx.one(FIND_MEMBER, &[&channel, &member])
}

const FIND_MEMBER: &str = concat!(
    "select ",
    channel_member_columns!(),
    " from channel_members s join members m on m.id = s.member_id
     where s.channel_id = $1 and s.member_id = $2"
);

/// Invalidates cached visibility on every server, after a member was added to a private channel.
///
/// Otherwise subscriptions of the new member might miss the next messages.
pub(super) fn invalidate_audiences(cx: &mut Write<'_>) -> Result<()> {
    cx.invalidate(CachedEntryKind::Access)
}

/// Adds a member who is not yet in the channel: emits the event, inserts the row, and notifies the member.
pub(super) fn insert_member(cx: &mut Write<'_>, channel_id: ChannelId, member_id: MemberId) -> Result<()> {
    let place = Subject::channel(channel_id).about(member_id);
    let added = cx.emit(place, &ChannelMemberAdded { channel_id, member_id })?;
    let added_by = cx.caller().member;
    cx.insert(&new_row!("insert into channel_members" {
        channel_id, member_id, added_by, added_at: added.at, lsn: added.lsn
    }))?;
    inbox::notify(cx, &added, InboxReason::Added, None, Recipients::Members(&[member_id]))
}
