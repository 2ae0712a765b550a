//! Hooks: functions of a feature that lower layers call.
//!
//! A guard may reject a change before the change begins. A projector processes the events of a change inside
//! the transaction of the change. A condition returns the unmet requirements for a thread's state change. A
//! cleaner removes rows that refer to withdrawn or purged messages. The lower layers call hooks without
//! knowing them, so these layers do not depend on the features that register the hooks.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Result;
use crate::id::{MemberId, MessageId, ThreadId};
use crate::log::event::RecordedEvent;
use crate::op::call::caller::Surface;
use crate::op::declare::operation::Operation;
use crate::op::run::context::{Read, Write};
use crate::op::run::permit::DestroyPermit;

/// The data of a call on which a guard bases its decision.
#[derive(Clone, Debug, Default)]
pub struct GuardedCall {
    /// The surface through which the call arrived.
    pub surface: Surface,
    /// The string fields of the input whose names end in `_id`, by name.
    pub(in crate::op) ids: Map<String, Value>,
}

impl GuardedCall {
    /// Returns the id in the input field `field`, if the call has that field.
    pub fn id<T: FromStr>(&self, field: &str) -> Option<T> {
        self.ids.get(field)?.as_str()?.parse().ok()
    }
}

/// A function that may reject a change with an error. It runs inside the transaction of every requested
/// change, before the change's own function.
///
/// No guard runs for changes by the service itself.
pub type Guard = fn(&Read<'_>, &Operation, &GuardedCall) -> Result<()>;

/// A function that processes events inside the transaction that emitted them.
///
/// The function receives the events of certain kinds and of one workspace, in log order, and changes that
/// workspace. The projectors also process the events that the function emits.
pub type ProjectEvents = fn(&mut Write<'_>, &[RecordedEvent]) -> Result<()>;

/// A projector, with the kinds of events that it processes.
pub(in crate::op) struct Projector {
    pub kinds: Vec<&'static str>,
    pub run: ProjectEvents,
}

/// Ends some of the objects, such as claims, that a deactivated member still holds. Returns whether more may
/// remain.
pub(crate) type EndHeldObjects = fn(&mut Write<'_>, MemberId) -> Result<bool>;

impl Write<'_> {
    /// Ends some of the objects, such as claims, that a deactivated member still holds. Returns whether more
    /// may remain.
    pub(crate) fn end_some(&mut self, member: MemberId) -> Result<bool> {
        self.table().end_held_objects().map_or(Ok(false), |end_some| end_some(self, member))
    }
}

/// Marks members that are connected to this process as online.
pub(crate) type KeepMembersOnline = fn(&mut Write<'_>, &[Uuid]) -> Result<()>;

/// Removes the rows of a table that refer to withdrawn or purged messages, before the messages themselves are
/// removed.
pub(crate) type CleanRows = fn(&mut Write<'_>, &DestroyPermit<'_>, &[MessageId]) -> Result<()>;

/// Cleaner for a table whose rows outlive the content of a message. Removes nothing.
pub(crate) const KEEP_ROWS: CleanRows = |_, _, _| Ok(());

/// The cleaners of a table that refers to messages: one for withdrawals, one for purges.
pub(in crate::op) struct MessageCleaner {
    pub table: &'static str,
    /// Cleaner for withdrawals, or `None` if a withdrawal keeps the rows.
    pub at_withdrawal: Option<CleanRows>,
    pub at_purge: CleanRows,
}

/// A requirement that must be met before a thread may change its state.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The name of the condition in errors.
    pub name: &'static str,
    /// The action of the state change, such as `close`.
    pub action: &'static str,
    /// Returns the unmet requirements of this thread, or an empty list if the thread may change its state.
    pub unmet: fn(&Read<'_>, ThreadId) -> Result<Vec<UnmetRequirement>>,
}

/// An unmet requirement for a thread's state change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetRequirement {
    /// A description of the requirement for people.
    pub detail: String,
    /// The ids of the objects that the requirement concerns, such as child threads. May be empty.
    pub ids: Vec<String>,
}

/// Calls the projectors with the events that the job has emitted.
///
/// Events that projectors emit are also passed to the projectors, until no new events appear.
pub(in crate::op) fn run_projectors(cx: &mut Write<'_>) -> Result<()> {
    let mut seen = 0;
    loop {
        let events = cx.emitted(seen);
        if events.is_empty() {
            return Ok(());
        }
        seen += events.len();
        let workspaces: BTreeSet<_> = events.iter().map(|event| event.workspace_id).collect();
        let table = cx.table();
        for (workspace, projector) in
            workspaces.iter().flat_map(|workspace| table.projectors().map(move |each| (*workspace, each)))
        {
            let followed = |event: &&RecordedEvent| {
                event.workspace_id == workspace && projector.kinds.contains(&event.kind)
            };
            let followed: Vec<RecordedEvent> = events.iter().filter(followed).cloned().collect();
            if !followed.is_empty() {
                cx.in_workspace(workspace, |cx| (projector.run)(cx, &followed))?;
            }
        }
    }
}
