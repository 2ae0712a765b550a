//! Changing a channel: its name, topic and privacy, archiving and unarchiving.
//!
//! A change of privacy is checked before the first write. When a channel becomes private, its creator and the
//! member who makes the channel private become members of the channel.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::members::{find_member, insert_member};
use super::privacy::{
    check_may_change_privacy, check_no_hidden_dependencies, check_no_outside_dependents,
    check_no_outside_refutations,
};
use super::{Channel, load_visible_channel};
use crate::Result;
use crate::capability::Capability::{ChannelAdmin, WorkspaceWrite};
use crate::conversation::visibility::{check_is_not_dm, check_not_archived, visible_channel};
use crate::error::Code;
use crate::id::{ChannelId, MemberId};
use crate::limits::{NAME_MAX, TOPIC_MAX};
use crate::log::event::{Event, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Operation, Read, Write, idempotent};
use crate::request::request;
use crate::text::{Change, Patch, Text};
use crate::time::Time;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        idempotent("update_channel", update_channel)
            .title("Change a channel")
            .when("Change a channel's name, topic or privacy. Use `archive_channel` to close a channel.")
            .patch("/channels/{channel_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::Forbidden, Code::WrongState, Code::NotVisibleToAll])
            .example(|w| {
                json!({"channel_id": w.id("channel"), "name": "release", "topic": "What ships next",
                       "private": true})
            }),
        idempotent("archive_channel", archive_channel)
            .title("Archive a channel")
            .when("Archive a channel, so that it accepts no new content.")
            .post("/channels/{channel_id}/archive")
            .needs(&[ChannelAdmin])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"channel_id": w.id("channel")})),
        idempotent("unarchive_channel", unarchive_channel)
            .title("Unarchive a channel")
            .when("Unarchive a channel, so that it accepts new content again.")
            .post("/channels/{channel_id}/unarchive")
            .needs(&[ChannelAdmin])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"channel_id": w.id("archived_channel")})),
    ]
}

/// The name, topic or privacy of a channel was changed.
///
/// The fields contain the values after the change.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChannelUpdated {
    /// Id of the channel.
    channel_id: ChannelId,
    /// Name of the channel; other channels may have the same name.
    name: String,
    /// Topic of the channel; null if not set.
    topic: Option<String>,
    /// Whether only members of the channel may see it.
    private: bool,
}

impl Event for ChannelUpdated {
    const KIND: &'static str = "ChannelUpdated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("channels", "channel_id")?.copy("name topic private").keep()
    }
}

/// A channel was archived. An archived channel accepts no new content.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChannelArchived {
    /// Id of the channel.
    pub(super) channel_id: ChannelId,
}

impl Event for ChannelArchived {
    const KIND: &'static str = "ChannelArchived";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("channels", "channel_id")?.set("archived_at", event.at()).keep()
    }
}

/// An archived channel was unarchived and accepts new content again.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChannelUnarchived {
    /// Id of the channel.
    channel_id: ChannelId,
}

impl Event for ChannelUnarchived {
    const KIND: &'static str = "ChannelUnarchived";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("channels", "channel_id")?.clear("archived_at").keep()
    }
}

request! {
    /// Changes the name, topic or privacy of a channel and returns the channel.
    ///
    /// Absent fields keep their value. A channel that becomes private keeps its members, and its creator and
    /// you become members too; all other members lose access immediately.
    ///
    /// Fails with 403 `forbidden` if you change the privacy, did not create the channel and lack
    /// `channel:admin`; 409 `wrong-state` if the channel is archived or a direct message; 409
    /// `not-visible-to-all`, with up to 10 threads in `thread_ids`, if the channel would become private while
    /// threads of other, public channels wait for its threads, or while refutations in it keep threads of
    /// other channels open, or if the channel would become public while its threads wait for threads of
    /// other, private channels.
    #[derive(Serialize)]
    pub(super) struct UpdateChannel {
        /// Id of the channel.
        channel_id: ChannelId,
        /// New name of the channel.
        #[serde(default, skip_serializing_if = "Change::is_keep")]
        name: Change<Text<1, NAME_MAX>>,
        /// New topic of the channel; null removes it.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        topic: Patch<Text<1, TOPIC_MAX>>,
        /// Whether only its members may see the channel.
        #[serde(default, skip_serializing_if = "Change::is_keep")]
        private: Change<bool>,
    }

    update_channel(channel_id: ChannelId) clears(topic => clear_topic) -> Channel
}

fn update_channel(cx: &mut Write<'_>, input: &UpdateChannel) -> Result<Channel> {
    let place = visible_channel(cx, input.channel_id)?;
    check_is_not_dm(&place)?;
    check_not_archived(&place)?;
    let mut channel = load_visible_channel(cx, input.channel_id)?;
    let was_private = channel.private;
    if !apply_change(&mut channel, input) {
        return Ok(channel);
    }
    if channel.private != was_private {
        check_may_change_privacy(cx.caller(), &channel)?;
    }
    let newcomers = match (was_private, channel.private) {
        (false, true) => {
            check_no_outside_dependents(cx, channel.id)?;
            check_no_outside_refutations(cx, channel.id)?;
            members_to_add(cx, &channel)?
        }
        (true, false) => {
            check_no_hidden_dependencies(cx, channel.id)?;
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

/// Applies the requested changes to `channel`, and returns whether any value differs from before.
fn apply_change(channel: &mut Channel, update: &UpdateChannel) -> bool {
    let before = (channel.name.clone(), channel.topic.clone(), channel.private);
    if let Some(name) = update.name.get() {
        channel.name = name.to_string();
    }
    match &update.topic {
        Patch::Keep => {}
        Patch::Clear => channel.topic = None,
        Patch::Set(topic) => channel.topic = Some(topic.to_string()),
    }
    if let Some(private) = update.private.get() {
        channel.private = *private;
    }
    before != (channel.name.clone(), channel.topic.clone(), channel.private)
}

/// Returns the members to add to a channel that becomes private: the creator and the caller, unless they are
/// members already.
fn members_to_add(cx: &Read<'_>, channel: &Channel) -> Result<Vec<MemberId>> {
    let mut newcomers = Vec::new();
    for member in creator_and_caller(channel.created_by, cx.caller().member) {
        if find_member(cx, channel.id, member)?.is_none() {
            newcomers.push(member);
        }
    }
    Ok(newcomers)
}

/// Returns the creator and the caller, but only once if they are the same member.
fn creator_and_caller(creator: Option<MemberId>, caller: Option<MemberId>) -> impl Iterator<Item = MemberId> {
    creator.into_iter().chain(caller.filter(|caller| Some(*caller) != creator))
}

request! {
    /// Archives a channel, so that it accepts no new content, and returns the channel.
    ///
    /// An archived channel can still be read, but accepts no new threads, messages or members until it is
    /// unarchived.
    ///
    /// Archiving an archived channel changes nothing.
    ///
    /// Fails with 409 `wrong-state` if the channel is a direct message.
    #[derive(Serialize)]
    pub(super) struct ArchiveChannel {
        /// Id of the channel.
        channel_id: ChannelId,
    }

    archive_channel(channel_id: ChannelId) -> Channel
}

fn archive_channel(cx: &mut Write<'_>, input: &ArchiveChannel) -> Result<Channel> {
    check_is_not_dm(&visible_channel(cx, input.channel_id)?)?;
    let channel = load_visible_channel(cx, input.channel_id)?;
    if channel.archived {
        return Ok(channel);
    }
    let archived = cx.emit(Subject::channel(channel.id), &ChannelArchived { channel_id: channel.id })?;
    set_archived(cx, channel, Some(archived.at))
}

request! {
    /// Unarchives a channel and returns it.
    ///
    /// Unarchiving a channel that is not archived changes nothing.
    ///
    /// Fails with 409 `wrong-state` if the channel is a direct message.
    #[derive(Serialize)]
    pub(super) struct UnarchiveChannel {
        /// Id of the channel.
        channel_id: ChannelId,
    }

    unarchive_channel(channel_id: ChannelId) -> Channel
}

fn unarchive_channel(cx: &mut Write<'_>, input: &UnarchiveChannel) -> Result<Channel> {
    check_is_not_dm(&visible_channel(cx, input.channel_id)?)?;
    let channel = load_visible_channel(cx, input.channel_id)?;
    if !channel.archived {
        return Ok(channel);
    }
    cx.emit(Subject::channel(channel.id), &ChannelUnarchived { channel_id: channel.id })?;
    set_archived(cx, channel, None)
}

/// Sets or clears the time at which a channel was archived, and returns the changed channel.
fn set_archived(cx: &mut Write<'_>, channel: Channel, archived_at: Option<Time>) -> Result<Channel> {
    cx.execute(1, SET_ARCHIVED, &[&channel.id, &archived_at])?;
    Ok(Channel { archived: archived_at.is_some(), archived_at, ..channel })
}

pub(super) const SET_ARCHIVED: &str = "update channels set archived_at = $2 where id = $1";

#[cfg(test)]
mod tests {
    use super::super::channel;
    use super::*;
    use serde_json::{Value, json};
    use uuid::Uuid;

    fn wanted(mut fields: Value) -> UpdateChannel {
        fields["channel_id"] = json!(Uuid::from_u128(1));
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn an_update_without_a_difference_is_no_change() {
        let mut probe = channel();
        for nothing in [json!({}), json!({"name": "build", "topic": "red", "private": false})] {
            assert!(!apply_change(&mut probe, &wanted(nothing)));
        }
        assert!(apply_change(&mut probe, &wanted(json!({"topic": null}))));
        assert_eq!((probe.name.as_str(), &probe.topic, probe.private), ("build", &None, false));
        assert!(apply_change(&mut probe, &wanted(json!({"name": "release", "private": true}))));
        assert_eq!((probe.name.as_str(), probe.private), ("release", true));
    }

    #[test]
    fn creator_and_caller_keep_a_channel_that_becomes_private() {
        let a = MemberId::from(Uuid::from_u128(1));
        let b = MemberId::from(Uuid::from_u128(2));
        let cases = [
            (Some(a), Some(b), vec![a, b]),
            (Some(a), Some(a), vec![a]),
            (None, Some(b), vec![b]),
            (Some(a), None, vec![a]),
            (None, None, vec![]),
        ];
        for (creator, caller, kept) in cases {
            assert_eq!(creator_and_caller(creator, caller).collect::<Vec<_>>(), kept);
        }
    }
}
