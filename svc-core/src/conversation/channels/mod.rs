//! Channels, which contain threads and are public or private.
//!
//! A private channel and its contents are visible only to the members of the channel. A public channel may
//! also have members, but this does not affect access. This file defines, creates and reads channels;
//! `change` changes and archives channels, `members` manages their members, `privacy` checks changes of
//! privacy, and `direct` implements direct messages. The layer `coordination` reacts to the events of this
//! folder, and applies archiving and privacy to the threads in the channel.

mod privacy;
pub(crate) mod members;
pub(crate) mod change;
pub(crate) mod direct;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{WorkspaceRead, WorkspaceWrite};
use crate::conversation::visibility::{self, visible};
use crate::error::Error;
use crate::id::{ChannelId, MemberId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{NAME_MAX, TOPIC_MAX};
use crate::log::event::{CachedEntryKind, Event, EventKind, RecordedEvent, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Operation, Read, Records, Sample, Write, read, write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::schema::default_is;
use crate::store::{FromValue, Param, ToParam, Value, columns};
use crate::text::Text;
use crate::time::Time;
pub(crate) use change::{ChannelArchived, ChannelUnarchived, ChannelUpdated};
pub(crate) use members::ChannelMemberAdded;
use members::{ChannelMemberRemoved, insert_member};

/// A channel: a container of threads that all members of the workspace can see, or only the channel's
/// members.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Channel {
    /// Id of the channel.
    pub id: ChannelId,
    /// Id of the workspace that contains the channel.
    pub workspace_id: WorkspaceId,
    /// Name of the channel. Other channels may have the same name.
    pub name: String,
    /// Topic of the channel; null if not set.
    pub topic: Option<String>,
    /// Whether only members of the channel may see the channel and its contents.
    pub private: bool,
    /// Kind of the channel: an ordinary channel or a direct message.
    pub kind: ChannelKind,
    /// Whether the channel is a group direct message, to which members can be added.
    #[serde(skip)]
    is_group: bool,
    /// Whether the channel is archived and accepts no new content.
    pub archived: bool,
    /// Time at which the channel was archived; null if it is not archived.
    pub archived_at: Option<Time>,
    /// Whether the channel has a boot text. `get_channel_boot` returns the text.
    pub has_boot: bool,
    /// Id of the member who created the channel; null if the service itself created it.
    pub created_by: Option<MemberId>,
    /// Time at which the channel was created.
    pub created_at: Time,
    /// Position in the workspace's log at which the channel was created.
    pub lsn: i64,
}

columns! {
    channel_columns: Channel as c {
        id,
        workspace_id,
        name,
        topic,
        private,
        kind = dm,
        is_group,
        archived_at: Option<Time>,
        has_boot = "coalesce((select b.text <> '' from boots b where b.channel_id = c.id), false)",
        created_by,
        created_at,
        lsn,
    }
    make { archived: archived_at.is_some() }
    insert "insert into channels" {}
}

impl<I> Answer<I> for Channel {
    type Kept = ChannelId;

    fn kept(&self) -> Option<ChannelId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: ChannelId) -> Result<Self> {
        load_visible_channel(cx, id)
    }
}

/// Kind of a channel: an ordinary channel for threads, or a direct message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChannelKind {
    Channel,
    Dm,
}

impl ToParam for ChannelKind {
    fn param(&self) -> Param<'_> {
        Param::Bool(*self == Self::Dm)
    }
}

impl FromValue for ChannelKind {
    fn from_value(value: Value) -> Result<Self> {
        bool::from_value(value).map(|dm| if dm { Self::Dm } else { Self::Channel })
    }
}

/// A channel was created.
#[derive(Serialize, JsonSchema)]
struct ChannelCreated {
    /// Id of the channel.
    channel_id: ChannelId,
    /// Name of the channel; other channels may have the same name.
    name: String,
    /// Topic of the channel; null if not set.
    topic: Option<String>,
    /// Whether only members of the channel may see it.
    private: bool,
    /// Kind of the channel: an ordinary channel or a direct message.
    kind: ChannelKind,
    /// Whether the channel is a group direct message, to which members can be added.
    group: bool,
}

impl Event for ChannelCreated {
    const KIND: &'static str = "ChannelCreated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let channel = event.row_of("channels", "channel_id")?.made();
        let channel = channel.copy("name topic private").set_to("is_group", "group");
        let channel = channel.set_known("dm", event.text("kind").map(|kind| (kind == "dm").into()));
        let channel = channel.set("created_by", event.subject()).set("created_at", event.at());
        channel.clear("archived_at").set("lsn", event.lsn()).keep()
    }
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("channels", operations())
        .operations("channels", change::operations())
        .operations("channels", members::operations())
        .events(vec![
            EventKind::of::<ChannelCreated>(),
            EventKind::of::<ChannelUpdated>().invalidates(CachedEntryKind::Access),
            EventKind::of::<ChannelArchived>().invalidates(CachedEntryKind::Access),
            EventKind::of::<ChannelUnarchived>().invalidates(CachedEntryKind::Access),
            EventKind::of::<ChannelMemberAdded>(),
            EventKind::of::<ChannelMemberRemoved>().invalidates(CachedEntryKind::Access),
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
        .records(vec![
            Records::table("channels", "lsn id")
                .after("members")
                .ids("id workspace_id created_by")
                .texts("name topic")
                .bools("private dm is_group")
                .times("created_at archived_at")
                .ints("lsn")
                .proven("id", "name topic private dm is_group created_by created_at archived_at lsn"),
            Records::table("channel_members", "channel_id member_id")
                .through("channel_id", "channels")
                .ids("channel_id member_id added_by")
                .times("added_at")
                .ints("lsn")
                .proven("channel_id member_id", "added_by added_at lsn"),
        ])
}

fn operations() -> Vec<Operation> {
    vec![
        write("create_channel", create_channel)
            .title("Create a channel")
            .when("Create a channel for threads about a new subject.")
            .post("/workspaces/{workspace_id}/channels")
            .needs(&[WorkspaceWrite])
            .created()
            .example(|w| {
                json!({"workspace_id": w.id("workspace"), "name": "build",
                       "topic": "The build and its failures", "private": true})
            }),
        read("list_channels", list_channels)
            .title("List channels")
            .when("List channels, for example to find one for `create_thread`.")
            .detailed()
            .get("/workspaces/{workspace_id}/channels")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"workspace_id": w.id("workspace"), "archived": false, "limit": 10})),
        read("get_channel", get_channel)
            .quick()
            .title("Read a channel")
            .when("Return one channel by its id. Use `list_channels` to find the id.")
            .get("/channels/{channel_id}")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"channel_id": w.id("private_channel")})),
    ]
}

request! {
    /// Creates a channel for threads about one subject, and returns the channel.
    ///
    /// The creator of a private channel becomes its first member. Other members see the channel only after
    /// `add_channel_member` has added them.
    #[derive(Serialize)]
    struct CreateChannel {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// Name of the channel. It need not be unique.
        name: Text<1, NAME_MAX>,
        /// Topic of the channel.
        #[serde(default)]
        topic: Option<Text<1, TOPIC_MAX>>,
        /// Whether only its members may see the channel and its contents.
        #[schemars(transform = default_is("false"))]
        #[serde(default)]
        private: Option<bool>,
    }

    create_channel(name: Text<1, NAME_MAX>) -> Channel
}

fn create_channel(cx: &mut Write<'_>, input: &CreateChannel) -> Result<Channel> {
    let workspace_id = input.workspace_id.of(cx)?;
    let id: ChannelId = cx.new_id()?;
    let topic = input.topic.as_deref().map(str::to_owned);
    let private = input.private.unwrap_or(false);
    let kind = ChannelKind::Channel;
    let event = ChannelCreated {
        channel_id: id,
        name: input.name.to_string(),
        topic: topic.clone(),
        private,
        kind,
        group: false,
    };
    let RecordedEvent { at: created_at, lsn, .. } = cx.emit(Subject::channel(id), &event)?;
    let channel = Channel {
        id,
        workspace_id,
        name: event.name,
        topic,
        private,
        kind,
        is_group: false,
        archived: false,
        archived_at: None,
        has_boot: false,
        created_by: cx.caller().member,
        created_at,
        lsn,
    };
    channel.with_new_row(|row| cx.insert(row))?;
    if let (true, Some(creator)) = (channel.private, channel.created_by) {
        insert_member(cx, channel.id, creator)?;
    }
    Ok(channel)
}

request! {
    /// Returns the channels that you may see, oldest first.
    ///
    /// Private channels are returned only to their members. Use `list_dms` for direct messages.
    ///
    /// One page covers up to 2000 channels, so it may be short or empty although more channels follow:
    /// continue while `next_cursor` is not null.
    struct ListChannels {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// True: only archived channels. False: only live channels. Default: all.
        #[serde(default)]
        archived: Option<bool>,
        #[serde(default)]
        cursor: Option<Cursor>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_channels() -> Page<Channel>
}

fn list_channels(cx: &Read<'_>, input: &ListChannels) -> Result<Page<Channel>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let limit = rows_to_read(input.limit);
    let horizon = cx.horizon(CHANNEL_SCAN_HORIZON, &[&workspace_id], after)?;
    let visibility = cx.caller().visibility.params();
    let last = horizon.up_to();
    let params = visibility.and(&[&workspace_id, &after, &limit, &input.archived, &last]);
    Ok(Page::within(horizon, cx.rows(LIST_CHANNELS, &params)?, input.limit, |channel: &Channel| channel.lsn))
}

const LIST_CHANNELS: &str = concat!(
    "select ",
    channel_columns!(),
    " from channels c
     where c.workspace_id = $5 and c.lsn > $6 and c.lsn <= $9 and not c.dm
       and (cast($8 as boolean) is null or (c.archived_at is not null) = cast($8 as boolean)) and ",
    visible!(c),
    " order by c.lsn limit $7"
);

const CHANNEL_SCAN_HORIZON: &str =
    "select lsn from channels where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

request! {
    /// Returns one channel by its id.
    ///
    /// A private channel that you are not a member of is not found.
    struct GetChannel {
        /// Id of the channel.
        channel_id: ChannelId,
    }

    get_channel(channel_id: ChannelId) -> Channel
}

fn get_channel(cx: &Read<'_>, input: &GetChannel) -> Result<Channel> {
    load_visible_channel(cx, input.channel_id)
}

/// Loads a channel with all its fields. Fails with *not found* if the caller may not see the channel.
fn load_visible_channel(cx: &Read<'_>, id: ChannelId) -> Result<Channel> {
    let place = visibility::visible_channel(cx, id)?;
    cx.one(LOAD_CHANNEL, &[&place.id])?.ok_or_else(|| Error::not_found("channel"))
}

const LOAD_CHANNEL: &str = concat!("select ", channel_columns!(), " from channels c where c.id = $1");

/// Returns a public channel, for unit tests of rules.
#[cfg(test)]
fn channel() -> Channel {
    Channel {
        id: uuid::Uuid::from_u128(1).into(),
        workspace_id: uuid::Uuid::from_u128(2).into(),
        name: "build".to_owned(),
        topic: Some("red".to_owned()),
        private: false,
        kind: ChannelKind::Channel,
        is_group: false,
        archived: false,
        archived_at: None,
        has_boot: false,
        created_by: None,
        created_at: Time::from_micros(0),
        lsn: 1,
    }
}
