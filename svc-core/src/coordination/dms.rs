//! Direct messages: private conversations of a few members.
//!
//! A direct message is a private channel with a first thread for its messages. It has no tasks: none of its
//! threads can be claimed. The channel stores its participants (`conversation/channels/direct.rs`); the
//! operations are here, because opening a direct message creates its first thread.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{MessagePost, WorkspaceRead};
use crate::conversation::channels::direct::{self, DirectMessage, ListedDm, Participant, load_participants};
use crate::coordination::lifecycle::create_dm_thread;
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, ThreadId};
use crate::identity::members::{Member, load_member};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::DM_OTHERS_MAX;
use crate::op::{Answer, Feature, Operation, Read, Records, Sample, Write, destructive, idempotent, read};
use crate::page::{Cursor, Limit, Page};
use crate::request::request;
use crate::schema::brief;
use crate::text::Items;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("dms", operations())
        .sample(Sample::new(
            "group_dm",
            "open_dm",
            |w| json!({"workspace_id": w.id("workspace"), "member_ids": [w.id("agent"), w.id("judge")]}),
        ))
        .records(vec![Records::table("dm_sets", "workspace_id set_key").after("channels").stays()])
}

fn operations() -> Vec<Operation> {
    vec![
        idempotent("open_dm", open_dm)
            .title("Open a direct message")
            .when("Open your direct message with certain members, creating it if necessary.")
            .post("/workspaces/{workspace_id}/dms")
            .needs(&[MessagePost])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"workspace_id": w.id("workspace"), "member_ids": [w.id("agent")]})),
        read("list_dms", list_dms)
            .title("List your direct messages")
            .when("List your direct messages. Use `open_dm` to open the one with certain members.")
            .detailed()
            .get("/workspaces/{workspace_id}/dms")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
        idempotent("add_dm_participant", add_dm_participant)
            .title("Add a member to a direct message")
            .when(
                "Add a member to a group direct message, one opened for three or more members. Use `open_dm` \
                 to start a new one.",
            )
            .put("/dms/{channel_id}/participants/{member_id}")
            .needs(&[MessagePost])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"channel_id": w.id("group_dm"), "member_id": w.id("agent")})),
        destructive("leave_dm", leave_dm)
            .title("Leave a direct message")
            .when("Leave a group direct message, one opened for three or more members.")
            .reversible()
            .delete("/dms/{channel_id}/participants/me")
            .needs(&[MessagePost])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"channel_id": w.id("group_dm")})),
    ]
}

/// A direct message: the private channel of a few members, with its first thread.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Dm {
    /// The id of the direct message's channel.
    pub id: ChannelId,
    /// The direct message's first thread, in which participants post messages.
    pub thread_id: ThreadId,
    /// The participants, including you, in the order in which they joined the workspace.
    pub participants: Vec<Participant>,
}

impl<I> Answer<I> for Dm {
    type Kept = ChannelId;

    fn kept(&self) -> Option<ChannelId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: ChannelId) -> Result<Self> {
        load_dm(cx, direct::load(cx, id)?.id)
    }
}

request! {
    /// Opens the direct message between you and other members, creating it if necessary, and returns it.
    ///
    /// Each set of members has one direct message. Post in its thread with `post_message`; add threads with
    /// `create_thread`. Only the participants can see it, regardless of capabilities. Its threads are not
    /// tasks, and cannot be claimed.
    ///
    /// Fails with 409 `wrong-state` if one of the members is deactivated.
    #[derive(Serialize)]
    struct OpenDm {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// The other members of the direct message, 1 to 10. Your own id is optional.
        #[schemars(length(min = 1))]
        member_ids: Items<MemberId, DM_OTHERS_MAX>,
    }

    open_dm(member_ids: Items<MemberId, DM_OTHERS_MAX>) -> Dm
}

fn open_dm(cx: &mut Write<'_>, input: &OpenDm) -> Result<Dm> {
    input.workspace_id.of(cx)?;
    cx.discreet();
    if input.member_ids.is_empty() {
        return Err(Error::in_field("member_ids", "expected 1 to 10 members"));
    }
    let mut set = BTreeSet::from([cx.caller().member_id()?]);
    for id in input.member_ids.iter() {
        check_active(&load_member(cx, *id)?)?;
        set.insert(*id);
    }
    if let Some(known) = direct::find_by_members(cx, &set)? {
        return load_dm(cx, known);
    }
    let channel = direct::create(cx, &set)?;
    create_dm_thread(cx, &channel, "Direct message")?;
    load_dm(cx, channel.id)
}

fn check_active(member: &Member) -> Result<()> {
    if member.active {
        return Ok(());
    }
    Err(Error::wrong_state(format!("the member {} is deactivated", member.handle)))
}

/// Loads a direct message by its channel, without checking that the caller may see it.
fn load_dm(cx: &Read<'_>, id: ChannelId) -> Result<Dm> {
    let first = cx.one::<(ThreadId,)>(FIRST_THREAD, &[&id])?;
    let (thread_id,) = first.ok_or_else(|| Error::internal("a direct message without a thread"))?;
    Ok(Dm { id, thread_id, participants: load_participants(cx, &[id])?.remove(&id).unwrap_or_default() })
}

const FIRST_THREAD: &str = "select id from threads where channel_id = $1 order by lsn limit 1";

request! {
    /// Returns your direct messages, in the order in which you joined them.
    ///
    /// Each page examines up to 2000 channels that you are in and contains up to 25 direct messages, so it
    /// may be short or empty although more follow: continue while `next_cursor` is not null.
    #[schemars(transform = brief(""))]
    struct ListDms {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_dms() -> Page<ListedDm>
}

fn list_dms(cx: &Read<'_>, input: &ListDms) -> Result<Page<ListedDm>> {
    input.workspace_id.of(cx)?;
    direct::list_dms_of_caller(cx, input.cursor, input.limit)
}

request! {
    /// Adds a member to a group direct message, one opened for three or more members, and returns it.
    ///
    /// The member sees all earlier messages.
    ///
    /// Adding a member again changes nothing.
    ///
    /// Fails with 409 `wrong-state` if the direct message was opened for two members: open one with all three
    /// members instead; if 11 members are in the direct message; or if the member is deactivated.
    #[derive(Serialize)]
    struct AddDmParticipant {
        /// Id of the direct message's channel.
        channel_id: ChannelId,
        /// The member to add.
        member_id: MemberId,
    }

    add_dm_participant(channel_id: ChannelId, member_id: MemberId) -> Dm
}

fn add_dm_participant(cx: &mut Write<'_>, input: &AddDmParticipant) -> Result<Dm> {
    let found = direct::load(cx, input.channel_id)?;
    let member = load_member(cx, input.member_id)?;
    let set = load_participant_ids(cx, found.id)?;
    if set.contains(&member.id) {
        return load_dm(cx, found.id);
    }
    check_group(&found)?;
    if set.len() > DM_OTHERS_MAX {
        let detail = format!("{} members are in the direct message, the maximum", set.len());
        return Err(Error::wrong_state(detail));
    }
    check_active(&member)?;
    direct::add(cx, found.id, set, member.id)?;
    load_dm(cx, found.id)
}

fn check_group(dm: &DirectMessage) -> Result<()> {
    if dm.is_group {
        return Ok(());
    }
    Err(Error::wrong_state("the direct message was opened for two members, and cannot have others"))
}

fn load_participant_ids(cx: &Read<'_>, id: ChannelId) -> Result<BTreeSet<MemberId>> {
    let participants = load_participants(cx, &[id])?.remove(&id).unwrap_or_default();
    Ok(participants.into_iter().map(|participant| participant.member_id).collect())
}

/// A direct message that the caller has left.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LeftDm {
    /// The id of the direct message's channel.
    pub channel_id: ChannelId,
    /// Id of the caller, who left the direct message.
    pub member_id: MemberId,
    /// Whether the direct message is archived, because the last participant has left.
    pub archived: bool,
}

/// Answers a repeated request: fails with 404, unless the member was added again.
impl<I> Answer<I> for LeftDm {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(*self)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, left: Self) -> Result<Self> {
        direct::load(cx, left.channel_id).map(|_| left)
    }
}

request! {
    /// Leaves a group direct message, one opened for three or more members, and returns the id of its
    /// channel.
    ///
    /// You lose access immediately. The direct message is archived when its last participant leaves.
    ///
    /// Fails with 409 `wrong-state` if the direct message was opened for two members.
    #[derive(Serialize)]
    struct LeaveDm {
        /// Id of the direct message's channel.
        channel_id: ChannelId,
    }

    leave_dm(channel_id: ChannelId) -> LeftDm
}

fn leave_dm(cx: &mut Write<'_>, input: &LeaveDm) -> Result<LeftDm> {
    let found = direct::load(cx, input.channel_id)?;
    let member_id = cx.caller().member_id()?;
    check_group(&found)?;
    let set = load_participant_ids(cx, found.id)?;
    let archived = direct::leave(cx, found.id, set, member_id)?;
    Ok(LeftDm { channel_id: found.id, member_id, archived })
}
