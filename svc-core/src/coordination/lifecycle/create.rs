//! Creating threads, in a channel or below another thread.
//!
//! A new thread is open. The event of its creation adds it to the ready queue unless it waits for other
//! threads. The first message is posted in the same transaction, so that no member can claim the thread
//! before it is described.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Priority, Title};
use crate::Result;
use crate::capability::Capability::MessagePost;
use crate::conversation::mentions::{MentionedMember, ReachedMembers, UnreachedMention};
use crate::conversation::messages::{self, SealedPost};
use crate::conversation::visibility::{self, ChannelPlace, ThreadPlace};
use crate::coordination::blocked;
use crate::coordination::budget_ops::spawn;
use crate::coordination::claims::clear_claim;
use crate::coordination::dependencies::{self, DependsOn};
use crate::coordination::footprint::{self, Footprint};
use crate::coordination::skill_sets::{self, Skill, SkillSet};
use crate::coordination::thread_row::{self, Thread, ThreadState, visible_thread};
use crate::error::Error;
use crate::id::{ChannelId, MemberId, MessageId, ThreadId};
use crate::limits::{MESSAGE_MAX, SKILLS_MAX, THREAD_DEPTH_MAX, TOOL_MAX, TOOLS_MAX};
use crate::log::event::{Event, Subject};
use crate::log::replay::{ReplayedEvent, RowChange};
use crate::op::{Answer, Read, RecordedRefusal, SharedState, Write};
use crate::request::{dereferences, request};
use crate::schema::{brief, default_is, mark_explained_elsewhere};
use crate::text::{Items, Prose, Text};
use crate::time::Time;

/// A thread was created. The thread can be claimed once it waits for no unfinished thread.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ThreadCreated<'a> {
    /// The thread's title: the task in one line.
    title: &'a str,
    /// Id of the parent thread; null if the thread has no parent.
    parent_id: Option<ThreadId>,
    /// The thread's priority: threads with a higher priority are claimed first.
    priority: i64,
    /// The skills that a member must have to claim the thread.
    required_skills: &'a [String],
    /// The threads that must be finished before this thread can be claimed.
    depends_on: &'a [ThreadId],
    /// The tools that the creator advises the thread's worker to use.
    tools: &'a [&'a str],
    /// The thread's footprint; null if the thread has no footprint.
    footprint: Option<&'a Footprint>,
    /// The member who created the thread; null for the service itself.
    created_by: Option<MemberId>,
}

impl Event for ThreadCreated<'_> {
    const KIND: &'static str = "ThreadCreated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let parent = event.field("parent_id").filter(|parent| !parent.is_null());
        let parent = parent.map(|parent| event.row("threads", [parent.clone()])).transpose()?;
        let above = match &parent {
            Some(parent) => parent.value("depth").and_then(Value::as_i64),
            None => Some(0),
        };
        if let Some(parent) = parent {
            parent.add("children_ever", 1).keep()?;
        }
        let tools = event.list("tools");
        let tools = if tools.is_empty() { Value::Null } else { json!(tools).to_string().into() };
        let row = event.row("threads", [event.thread()])?.made();
        let row = row.copy("title parent_id priority created_by").set_to("owner_id", "created_by");
        let row = row.set("channel_id", event.channel()).set("state", "open").set("tools", tools);
        let row = row.set_known("skill_set", skill_sets::skills_in_event(event).map(Value::from));
        let row = row.set_known("footprint", footprint::footprint_in_event(event));
        let row = row.set_known("depth", above.map(|above| above.saturating_add(1).into()));
        let blocked = blocked::count_unfinished(event, event.list("depends_on"))?;
        let row = row.set_known("blocked", blocked.map(Value::from));
        set_initial_columns(row).set("created_at", event.at()).set("lsn", event.lsn()).keep()?;
        blocked::replay_initial_dependencies(event)
    }
}

/// Sets the columns that have the same initial value in every new thread.
fn set_initial_columns(row: RowChange<'_>) -> RowChange<'_> {
    let zero = [
        "worked_micros",
        "judged_from",
        "spent_tokens",
        "spent_usd_micros",
        "spent_turns",
        "attempts",
        "children_ever",
    ];
    let no = ["has_result", "budgeted", "exhausted", "dead"];
    let row = clear_claim(row).clear("cancelled_at");
    let row = zero.into_iter().fold(row, |row, column| row.set(column, 0));
    no.into_iter().fold(row, |row, column| row.set(column, false))
}

/// Declares the input of an operation that creates a thread: the location, followed by the task.
///
/// Inputs are flat, so each input struct repeats the fields of the task.
macro_rules! creates_thread {
    (
        $(#[$($doc:tt)*])*
        $operation:ident: $name:ident { $(#[$($place_doc:tt)*])* $place:ident: $id:ty }
    ) => {
        request! {
            $(#[$($doc)*])*
            #[derive(Serialize)]
            pub(super) struct $name {
                $(#[$($place_doc)*])*
                $place: $id,
                /// The thread's title: the task in one line.
                title: Title,
                /// The thread's priority, from -100 to 100; a higher one is more urgent.
                #[schemars(transform = brief("From -100 to 100."), transform = default_is("0"))]
                priority: Option<Priority>,
                /// The skills that a member must have to claim the thread.
                #[schemars(transform = brief("Needed for a claim."), transform = default_is("none"))]
                #[serde(default)]
                required_skills: Items<Skill, SKILLS_MAX>,
                /// The threads that must be finished before this thread can be claimed.
                #[schemars(transform = brief("Threads to finish first."), transform = default_is("none"))]
                #[serde(default)]
                depends_on: DependsOn,
                /// The tools that you advise the thread's worker to use. Default: none in particular.
                #[schemars(transform = brief("Suggested tools."))]
                #[serde(default)]
                tools: Items<ToolName, TOOLS_MAX>,
                /// The footprint, as in `set_thread_footprint`.
                #[schemars(transform = default_is("nothing"), transform = mark_explained_elsewhere)]
                footprint: Option<Footprint>,
                /// The first message: the information that the thread's worker needs. The message is posted
                /// under your name, as by `post_message`, and needs `message:post` too.
                #[schemars(transform = brief("The task description."), transform = default_is("none"))]
                body: Option<FirstBody>,
            }

            $operation($place: $id, title: Title) -> CreatedThread
        }

        impl $name {
            fn task(&self) -> NewTask<'_> {
                NewTask {
                    title: &self.title,
                    priority: self.priority,
                    required_skills: &self.required_skills,
                    depends_on: &self.depends_on,
                    tools: &self.tools,
                    footprint: self.footprint.as_ref(),
                }
            }
        }

        impl Answer<$name> for CreatedThread {
            type Kept = (ThreadId, Option<MessageId>);

            fn kept(&self) -> Option<Self::Kept> {
                Some((self.thread.id, self.first.as_ref().map(|first| first.first_message_id)))
            }

            fn answer_repeat(cx: &Read<'_>, _: &$name, (thread, first): Self::Kept) -> Result<Self> {
                load_created_thread(cx, thread, first)
            }
        }
    };
}

/// The task of a new thread.
struct NewTask<'a> {
    title: &'a str,
    priority: Option<Priority>,
    required_skills: &'a [Skill],
    depends_on: &'a [ThreadId],
    tools: &'a [ToolName],
    footprint: Option<&'a Footprint>,
}

/// A newly created thread, with its first message if one was posted.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CreatedThread {
    #[serde(flatten)]
    pub thread: Thread,
    #[serde(flatten)]
    pub first: Option<FirstMessage>,
}

dereferences! { CreatedThread => thread: Thread }

/// The first message of a new thread.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FirstMessage {
    /// Id of the first message, which contains `body`. Absent without a `body`.
    pub first_message_id: MessageId,
    /// The members that the first message mentions by their handles, except yourself. Absent without a
    /// `body`.
    pub mentioned: Vec<MentionedMember>,
    /// The mentions in the first message that reach no member. Absent without a `body`.
    pub not_reached: Vec<UnreachedMention>,
}

/// Answers a repeated call: returns the created thread, and the members that its first message would reach
/// now.
fn load_created_thread(
    cx: &Read<'_>,
    thread: ThreadId,
    first_message: Option<MessageId>,
) -> Result<CreatedThread> {
    let thread = visible_thread(cx, thread)?;
    let Some(first_message_id) = first_message else { return Ok(CreatedThread { thread, first: None }) };
    let first =
        messages::reaches(cx, first_message_id)?.map(|ReachedMembers { mentioned, not_reached, .. }| {
            FirstMessage { first_message_id, mentioned, not_reached }
        });
    Ok(CreatedThread { thread, first })
}

/// The name of a tool.
type ToolName = Text<1, TOOL_MAX>;

creates_thread! {
    /// Creates a thread, which is a task, in a channel and returns the thread.
    ///
    /// Pass `body` to post the task description in the same step, before an agent can claim the thread.
    ///
    /// The thread can be claimed by a member with the required skills once every thread in `depends_on` is
    /// finished and nothing conflicts with the footprint. Threads with a higher priority are claimed first,
    /// and older threads before newer threads.
    ///
    /// Fails with 409 `wrong-state` if the channel is archived, if 1000 threads already wait for a thread in
    /// `depends_on`, or if `required_skills` is a new set and the workspace already has 5000 different sets;
    /// 409 `not-visible-to-all` if a thread in `depends_on` is in another, private channel.
    create_thread: CreateThread {
        /// Id of the channel.
        channel_id: ChannelId
    }
}

pub(super) fn seal_first_message(
    input: &CreateThread,
    shared: &SharedState,
    now: Time,
) -> Result<Option<SealedPost>> {
    seal_body(input.body.as_ref(), shared, now)
}

pub(super) fn create_thread(
    cx: &mut Write<'_>,
    input: &CreateThread,
    first: &Option<SealedPost>,
) -> Result<CreatedThread> {
    check_may_post(cx, first.as_ref())?;
    let channel = visibility::visible_channel(cx, input.channel_id)?;
    visibility::check_not_archived(&channel)?;
    let thread = create_thread_unchecked(cx, &channel, None, &input.task())?;
    post_first_message(cx, &channel, thread, first.as_ref())
}

creates_thread! {
    /// Creates a child of a thread, in the same channel, and returns the child thread.
    ///
    /// Pass `body` to post the task description in the same step, before an agent can claim the thread.
    /// A parent cannot close while a child is open or in review, but a child may close before its parent.
    ///
    /// Fails with 409 `wrong-state` if the parent is closed or archived, if the channel is archived, if
    /// threads would be nested more than 16 deep, if 1000 threads already wait for a thread in `depends_on`,
    /// or if `required_skills` is a new set and the workspace already has 5000 different sets; 409
    /// `spawn-rejected` with `limit` if the workspace's spawn budget does not allow the child; 409
    /// `not-visible-to-all` if a thread in `depends_on` is in another, private channel.
    create_child_thread: CreateChildThread {
        /// The parent of the new thread.
        thread_id: ThreadId
    }
}

pub(super) fn seal_first_message_of_child(
    input: &CreateChildThread,
    shared: &SharedState,
    now: Time,
) -> Result<Option<SealedPost>> {
    seal_body(input.body.as_ref(), shared, now)
}

pub(super) fn create_child_thread(
    cx: &mut Write<'_>,
    input: &CreateChildThread,
    first: &Option<SealedPost>,
) -> Result<CreatedThread, RecordedRefusal> {
    check_may_post(cx, first.as_ref())?;
    let parent = visible_thread(cx, input.thread_id)?;
    let channel = visibility::visible_channel(cx, parent.channel_id)?;
    visibility::check_not_archived(&channel)?;
    if parent.state.is_finished() {
        return Err(parent.wrong_state("a child cannot be created below a finished thread").into());
    }
    if parent.depth >= THREAD_DEPTH_MAX {
        let detail = format!("threads can be nested at most {THREAD_DEPTH_MAX} deep");
        return Err(Error::wrong_state(detail).into());
    }
    spawn::check_spawn_budget(cx, &parent, input.tools.len())?;
    let child = create_thread_unchecked(cx, &channel, Some(&parent), &input.task())?;
    spawn::increment_child_count(cx, parent.id)?;
    Ok(post_first_message(cx, &channel, child, first.as_ref())?)
}

type FirstBody = Prose<1, MESSAGE_MAX>;

/// Seals the first message of a thread before the call enters the queue.
fn seal_body(body: Option<&FirstBody>, shared: &SharedState, now: Time) -> Result<Option<SealedPost>> {
    body.map(|body| messages::seal_post(shared, now, body, &json!({}))).transpose()
}

/// Fails if the call contains a first message and the caller may not post messages.
fn check_may_post(cx: &Write<'_>, first: Option<&SealedPost>) -> Result<()> {
    if first.is_some() { cx.caller().check_capability(MessagePost) } else { Ok(()) }
}

/// Posts the first message, if any, in a thread that was created in this transaction.
fn post_first_message(
    cx: &mut Write<'_>,
    channel: &ChannelPlace,
    thread: Thread,
    first: Option<&SealedPost>,
) -> Result<CreatedThread> {
    let Some(post) = first else { return Ok(CreatedThread { thread, first: None }) };
    let ChannelPlace { id: channel_id, workspace_id, archived, dm, .. } = *channel;
    let place = ThreadPlace { thread_id: thread.id, channel_id, workspace_id, archived, dm };
    let author = cx.caller().member;
    let posted = messages::post_sealed(cx, &place, author, post)?;
    let first = FirstMessage {
        first_message_id: posted.id,
        mentioned: posted.mentioned,
        not_reached: posted.not_reached,
    };
    Ok(CreatedThread { thread, first: Some(first) })
}

/// Creates a thread in a direct message, without checking the channel. Such a thread is not a task.
pub(in crate::coordination) fn create_dm_thread(
    cx: &mut Write<'_>,
    channel: &ChannelPlace,
    title: &str,
) -> Result<Thread> {
    let task =
        NewTask { title, priority: None, required_skills: &[], depends_on: &[], tools: &[], footprint: None };
    create_thread_unchecked(cx, channel, None, &task)
}

/// Creates a thread in a channel, as a child of `parent` if not `None`, without checking the channel or the
/// parent.
fn create_thread_unchecked(
    cx: &mut Write<'_>,
    channel: &ChannelPlace,
    parent: Option<&Thread>,
    task: &NewTask<'_>,
) -> Result<Thread> {
    let awaited = dependencies::load_dependencies(cx, task.depends_on, channel.id)?;
    let touched = task.footprint.cloned().map_or(Ok(None), |sent| sent.into_stored_form("footprint.repo"))?;
    let set = SkillSet::of(task.required_skills);
    let skill_set = skill_sets::intern(cx, &set)?;
    let required_skills = set.into_names();
    let footprint_id = footprint::intern(cx, touched.as_ref())?;
    let tools: Vec<&str> = task.tools.iter().map(|tool| &**tool).collect();
    let creator = cx.caller().member;
    let id: ThreadId = cx.new_id()?;
    let parent_id = parent.map(|parent| parent.id);
    let priority = task.priority.map_or(0, Priority::get);
    let created = ThreadCreated {
        title: task.title,
        parent_id,
        priority,
        required_skills: &required_skills,
        depends_on: &awaited.ids,
        tools: &tools,
        footprint: touched.as_ref(),
        created_by: creator,
    };
    let lsn = cx.emit(Subject::thread(channel.id, id), &created)?.lsn;
    let thread = Thread {
        id,
        uri: thread_row::thread_uri(channel.workspace_id, channel.id, id),
        workspace_id: channel.workspace_id,
        channel_id: channel.id,
        parent_id,
        title: task.title.to_owned(),
        state: ThreadState::Open,
        priority,
        required_skills,
        tools: tools.into_iter().map(str::to_owned).collect(),
        footprint: touched,
        blocked: awaited.unfinished,
        has_result: false,
        exhausted: false,
        dead: false,
        budgeted: false,
        children_ever: 0,
        owner_id: creator,
        assignee_id: None,
        claim_lease_id: None,
        assignment_expires_at: None,
        acknowledged_at: None,
        cancelled: false,
        cancelled_at: None,
        created_by: creator,
        created_at: cx.now(),
        lsn,
        judged_from: 0,
        depth: parent.map_or(0, |parent| parent.depth).saturating_add(1),
        skill_set,
        footprint_id,
        has_checkpoint: false,
        held: None,
    };
    thread_row::insert_thread_row(cx, &thread)?;
    dependencies::insert_dependencies(cx, thread.id, &awaited.ids, thread.lsn)?;
    Ok(thread)
}
