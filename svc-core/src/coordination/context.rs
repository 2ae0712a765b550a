//! The context of a thread: the task, its state and its discussion, in one answer.
//!
//! The answer contains its position in the log. A member passes that position in its next call to get only
//! what is new.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::conversation::boot::{self, ChannelBoot};
use crate::conversation::glossary::{self, GlossaryTerm};
use crate::conversation::memory::{self, AttachedBlock};
use crate::conversation::messages::pins::{self, PinnedMessage};
use crate::conversation::messages::{self, ContextMessage};
use crate::coordination::checkpoint::{self, Checkpoint};
use crate::coordination::lifecycle::transition::{self, TransitionReason};
use crate::coordination::notices::{self, Notice};
use crate::coordination::rules;
use crate::coordination::thread_row::{Thread, ThreadState, visible_thread};
use crate::error::Problem;
use crate::id::ThreadId;
use crate::identity::floor::LogRange;
use crate::limits::CONTEXT_MESSAGES_MAX;
use crate::op::Read;
use crate::request::request;
use crate::schema::default_is;
use crate::text::Count;

/// The state of a thread, and the transitions that the caller can make.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Fsm {
    /// The state of the thread.
    pub state: ThreadState,
    /// The actions of `transition_thread` that would now succeed for you.
    pub transitions: Vec<&'static str>,
}

/// The context that a member needs to work on a thread.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ThreadContext {
    /// The thread, including its live claim.
    pub thread: Thread,
    /// The thread's state, and the transitions that you can make now.
    pub fsm: Fsm,
    /// The problems that now prevent you from claiming the thread; empty if you can claim it.
    pub claim_refusals: Vec<Problem>,
    /// The unmet conditions that now prevent the thread from closing; empty if it can close or is already
    /// finished.
    pub close_refusals: Vec<TransitionReason>,
    /// The last checkpoint of the thread; null if no holder has stored one.
    pub checkpoint: Option<Checkpoint>,
    /// The boot text of the thread's channel; null if the channel has no boot.
    pub boot: Option<ChannelBoot>,
    /// The memory blocks of the thread, in the order in which they were attached; fewer if they would exceed
    /// 1 MiB.
    pub memory_blocks: Vec<AttachedBlock>,
    /// The last 30 messages after `since`, oldest first, reviews included; fewer if they would exceed 1 MiB.
    pub messages: Vec<ContextMessage>,
    /// Number of older messages after `since` that are omitted, among the last 2000 messages; null if none is
    /// omitted.
    pub messages_omitted: Option<i64>,
    /// The last 10 messages pinned in the thread's channel, newest first; fewer if they would exceed 256 KiB.
    pub pins: Vec<PinnedMessage>,
    /// Up to 100 terms of the workspace's glossary; fewer if they would exceed 256 KiB. Terms that occur in
    /// the title, the boot, the memory blocks or the newest messages come first. Only if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glossary: Option<Vec<GlossaryTerm>>,
    /// The last 10 notices after `since`, newest first.
    pub notices: Vec<Notice>,
    /// The position of the workspace's log at which this context was read: pass it as `since` next time.
    pub lsn: i64,
}

request! {
    /// Returns the context that you need to work on a thread.
    ///
    /// To omit messages and notices that you already have, pass the last `lsn` as `since`; other fields are
    /// current.
    ///
    /// The context contains the thread, the transitions that you can make now, the problems that prevent you
    /// from claiming it and any member from closing it, the last checkpoint, the channel's boot, the thread's
    /// memory blocks, its last messages, the pinned messages of its channel, and its notices.
    ///
    /// Fails with 409 `must_refetch` if the log no longer has all events after `since`: call again without
    /// `since`.
    pub(super) struct GetThreadContext {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Whether to return the workspace's glossary.
        #[schemars(transform = default_is("false"))]
        #[serde(default)]
        include_glossary: bool,
        /// Only messages and notices after this position: `lsn` of an earlier answer. Default: the latest.
        since: Option<Count<0, { i64::MAX }>>,
    }

    get_thread_context(thread_id: ThreadId) -> ThreadContext
}

pub(super) fn get_thread_context(cx: &Read<'_>, input: &GetThreadContext) -> Result<ThreadContext> {
    let thread = visible_thread(cx, input.thread_id)?;
    let since = input.since.map(Count::get);
    if let Some(since) = since {
        LogRange::read(cx)?.check_has_all_events_after(thread.workspace_id, since)?;
    }
    load_context(cx, thread, since, input.include_glossary)
}

/// Returns the context of a thread that the caller may see.
pub(in crate::coordination) fn load_context(
    cx: &Read<'_>,
    thread: Thread,
    since: Option<i64>,
    include_glossary: bool,
) -> Result<ThreadContext> {
    let since = since.unwrap_or(0);
    let close_refusals = transition::unmet_close_conditions(cx, &thread)?;
    let transitions = transition::possible_actions(cx, &thread, &close_refusals)?;
    let boot = Some(boot::load_boot(cx, thread.channel_id)?).filter(|boot| !boot.text.is_empty());
    let memory_blocks = memory::attached_blocks(cx, thread.id)?;
    let (messages, older) = messages::context_messages(cx, thread.id, since, CONTEXT_MESSAGES_MAX)?;
    let glossary = if include_glossary {
        let blocks = memory_blocks.iter().map(|attached| &*attached.block.value);
        let newest = messages.iter().rev().map(|message| &*message.body);
        let texts = [&*thread.title].into_iter().chain(boot.iter().map(|boot| &*boot.text));
        Some(glossary::terms_for_texts(cx, texts.chain(blocks).chain(newest))?)
    } else {
        None
    };
    Ok(ThreadContext {
        fsm: Fsm { state: thread.state, transitions },
        claim_refusals: rules::claim_refusals(cx, &thread)?,
        close_refusals,
        checkpoint: checkpoint::last_checkpoint(cx, &thread)?,
        boot,
        memory_blocks,
        messages,
        messages_omitted: Some(older).filter(|older| *older > 0),
        pins: pins::context_pins(cx, thread.channel_id)?,
        glossary,
        notices: notices::last_notices_since(cx, thread.id, since)?,
        lsn: cx.lsn()?,
        thread,
    })
}
