//! Changing a thread's own fields: its title, priority, owner and required skills.
//!
//! Setting a field to its present value changes nothing, and emits no event.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Priority, Title};
use crate::Result;
use crate::conversation::inbox::{self, InboxReason, Recipients};
use crate::conversation::visibility;
use crate::coordination::skill_sets::{self, Skill, SkillSet};
use crate::coordination::thread_row::{Thread, visible_thread};
use crate::error::Error;
use crate::id::{MemberId, ThreadId};
use crate::identity::members;
use crate::limits::SKILLS_MAX;
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{Read, Write};
use crate::request::request;
use crate::text::{Change, Items};

/// A thread's title was changed.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadUpdated<'a> {
    /// The thread's new title.
    title: &'a str,
}

impl Event for ThreadUpdated<'_> {
    const KIND: &'static str = "ThreadUpdated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("threads", "$thread")?.copy("title").keep()
    }
}

request! {
    /// Changes a thread's title and returns the thread.
    ///
    /// Omitted fields keep their value.
    ///
    /// Fails with 409 `wrong-state` if the thread is archived.
    #[derive(Serialize)]
    pub(super) struct UpdateThread {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The new title.
        #[serde(default, skip_serializing_if = "Change::is_keep")]
        title: Change<Title>,
    }

    update_thread(thread_id: ThreadId) -> Thread
}

pub(super) fn update_thread(cx: &mut Write<'_>, input: &UpdateThread) -> Result<Thread> {
    let mut thread = visible_thread(cx, input.thread_id)?;
    thread.check_not_archived()?;
    if let Some(title) = input.title.get().filter(|title| ***title != *thread.title) {
        cx.execute(1, SET_TITLE, &[&thread.id, title])?;
        cx.emit(thread.place(), &ThreadUpdated { title })?;
        thread.title = (**title).to_owned();
    }
    Ok(thread)
}

const SET_TITLE: &str = "update threads set title = $2 where id = $1";

/// A thread's priority was changed.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ThreadPriorityChanged {
    /// The thread's previous priority.
    from: i64,
    /// The thread's new priority.
    to: i64,
}

impl Event for ThreadPriorityChanged {
    const KIND: &'static str = "ThreadPriorityChanged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("threads", "$thread")?.set_to("priority", "to").keep()
    }
}

request! {
    /// Sets a thread's priority and returns the thread.
    ///
    /// The next thread that a member claims is the one with the highest priority among those it can claim.
    ///
    /// Fails with 409 `wrong-state` if the thread is archived.
    #[derive(Serialize)]
    pub(super) struct SetThreadPriority {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The priority, from -100 to 100.
        priority: Priority,
    }

    set_thread_priority(thread_id: ThreadId, priority: Priority) -> Thread
}

pub(super) fn set_thread_priority(cx: &mut Write<'_>, input: &SetThreadPriority) -> Result<Thread> {
    let mut thread = visible_thread(cx, input.thread_id)?;
    thread.check_not_archived()?;
    let from = thread.priority;
    let to = input.priority.get();
    if from != to {
        cx.execute(1, SET_PRIORITY, &[&thread.id, &to])?;
        cx.emit(thread.place(), &ThreadPriorityChanged { from, to })?;
        thread.priority = to;
    }
    Ok(thread)
}

const SET_PRIORITY: &str = "update threads set priority = $2 where id = $1";

/// The owner of a thread changed.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadOwnerChanged {
    /// The thread's previous owner; null if the thread had no owner.
    from: Option<MemberId>,
    /// The thread's new owner; null if the thread has no owner now.
    to: Option<MemberId>,
}

impl Event for ThreadOwnerChanged {
    const KIND: &'static str = "ThreadOwnerChanged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("threads", "$thread")?.set_to("owner_id", "to").keep()
    }
}

request! {
    /// Sets or clears the owner of a thread, and returns the thread.
    ///
    /// The owner stays responsible while other members work on the thread: the owner is notified if a claim
    /// is not acknowledged, and the owner's own approval does not count. A live claim is not affected.
    ///
    /// Fails with 404 `not-found` also if the workspace has no such member; 409 `wrong-state` if the thread
    /// is archived, or if the member is deactivated or may not see the thread's channel.
    #[derive(Serialize)]
    pub(super) struct SetThreadOwner {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The new owner; null or absent for no owner.
        owner_id: Option<MemberId>,
    }

    set_thread_owner(thread_id: ThreadId) -> Thread
}

pub(super) fn set_thread_owner(cx: &mut Write<'_>, input: &SetThreadOwner) -> Result<Thread> {
    let mut thread = visible_thread(cx, input.thread_id)?;
    thread.check_not_archived()?;
    let from = thread.owner_id;
    let to = input.owner_id;
    if from == to {
        return Ok(thread);
    }
    if let Some(owner) = to {
        check_may_own(cx, &thread, owner)?;
    }
    cx.execute(1, SET_OWNER, &[&thread.id, &to])?;
    let recorded = cx.emit(thread.place(), &ThreadOwnerChanged { from, to })?;
    let owner: Vec<MemberId> = to.into_iter().collect();
    inbox::notify(cx, &recorded, InboxReason::Owner, None, Recipients::Members(&owner))?;
    thread.owner_id = to;
    Ok(thread)
}

fn check_may_own(cx: &Read<'_>, thread: &Thread, owner: MemberId) -> Result<()> {
    if !members::load_member(cx, owner)?.active {
        return Err(Error::wrong_state("the member is deactivated"));
    }
    if !visibility::is_channel_visible_to(cx, thread.channel_id, owner)? {
        let detail = "the member may not see the thread's channel: add the member to it first";
        return Err(Error::wrong_state(detail));
    }
    Ok(())
}

const SET_OWNER: &str = "update threads set owner_id = $2 where id = $1";

/// The required skills of a thread were replaced.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ThreadSkillsChanged<'a> {
    /// The skills that a member must now have to claim the thread.
    required_skills: &'a [String],
}

impl Event for ThreadSkillsChanged<'_> {
    const KIND: &'static str = "ThreadSkillsChanged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let skills = skill_sets::skills_in_event(event).map(Value::from);
        event.row_of("threads", "$thread")?.set_known("skill_set", skills).keep()
    }
}

request! {
    /// Replaces the skills that a member must have to claim a thread, and returns the thread.
    ///
    /// With an empty list, any member can claim the thread. A live claim is not affected.
    ///
    /// Fails with 409 `wrong-state` if the thread is archived, or if the set is new and the workspace already
    /// has 5000 different sets.
    #[derive(Serialize)]
    pub(super) struct SetRequiredSkills {
        /// Id of the thread.
        thread_id: ThreadId,
        /// All skills that the thread requires from now on.
        required_skills: Items<Skill, SKILLS_MAX>,
    }

    set_required_skills(thread_id: ThreadId, required_skills: Items<Skill, SKILLS_MAX>) -> Thread
}

pub(super) fn set_required_skills(cx: &mut Write<'_>, input: &SetRequiredSkills) -> Result<Thread> {
    let mut thread = visible_thread(cx, input.thread_id)?;
    thread.check_not_archived()?;
    let set = SkillSet::of(&input.required_skills);
    if set.names() == thread.required_skills {
        return Ok(thread);
    }
    let id = skill_sets::intern(cx, &set)?;
    cx.execute(1, SET_SKILLS, &[&thread.id, &id])?;
    cx.emit(thread.place(), &ThreadSkillsChanged { required_skills: set.names() })?;
    thread.skill_set = id;
    thread.required_skills = set.into_names();
    Ok(thread)
}

const SET_SKILLS: &str = "update threads set skill_set = $2 where id = $1";
