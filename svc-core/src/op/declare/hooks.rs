//! Hooks: functions of a feature that lower layers call.
//!
//! A guard may reject a change before it begins, a projector processes the events of a change inside its
//! transaction, a condition returns the unmet requirements of a thread's move, and a cleaner removes rows
//! that refer to messages which are withdrawn or purged. No caller names a hook, so the lower layers need not
//! know which features have one.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Result;
use crate::id::{MemberId, MessageId, ThreadId};
use crate::log::event::Recorded;
use crate::op::call::caller::Surface;
use crate::op::declare::operation::Operation;
use crate::op::run::context::{Read, Write};
use crate::op::run::permit::DestroyPermit;

/// The part of a call that a guard may base its decision on.
#[derive(Clone, Debug, Default)]
pub struct GuardedCall {
    /// The surface that it came in over.
    pub surface: Surface,
    /// The input's fields whose names end in `_id`, by name.
    pub(in crate::op) ids: Map<String, Value>,
}

impl GuardedCall {
    /// Returns the id in the input's field `field`, if the call has that field.
    pub fn id<T: FromStr>(&self, field: &str) -> Option<T> {
        self.ids.get(field)?.as_str()?.parse().ok()
    }
}

/// Runs inside the transaction of every requested change, before its function; rejects it with an error.
///
/// Changes by the service itself pass no guard.
pub type Guard = fn(&Read<'_>, &Operation, &GuardedCall) -> Result<()>;

/// Processes events inside the transaction that emitted them.
///
/// It is called with events of the kinds it names and of one workspace, in the order of the log, and acts in
/// that workspace. The events that it emits are projected in turn.
pub type ProjectEvents = fn(&mut Write<'_>, &[Recorded]) -> Result<()>;

/// A projector and its kinds of events.
pub(in crate::op) struct Projector {
    pub kinds: Vec<&'static str>,
    pub run: ProjectEvents,
}

/// Ends some of what a deactivated member still holds. Returns whether there may be more.
pub(crate) type EndHeldObjects = fn(&mut Write<'_>, MemberId) -> Result<bool>;

impl Write<'_> {
    /// Ends some of what a deactivated member still holds. Returns whether there may be more.
    pub(crate) fn end_some(&mut self, member: MemberId) -> Result<bool> {
        self.table().ends_some().map_or(Ok(false), |end_some| end_some(self, member))
    }
}

/// Keeps members online while they are connected to this process.
pub(crate) type KeepMembersOnline = fn(&mut Write<'_>, &[Uuid]) -> Result<()>;

/// Removes the rows of a table about messages that are withdrawn, or purged, before the messages' rows.
pub(crate) type CleanRows = fn(&mut Write<'_>, &DestroyPermit<'_>, &[MessageId]) -> Result<()>;

/// For a table whose rows outlive the content of a message.
pub(crate) const KEEP: CleanRows = |_, _, _| Ok(());

/// How the rows of a table that name a message are treated when it is withdrawn, and when it is purged.
pub(in crate::op) struct MessageCleaner {
    pub table: &'static str,
    /// `None` if they stay.
    pub at_withdrawal: Option<CleanRows>,
    pub at_purge: CleanRows,
}

/// A requirement before a thread may make a move.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The name of the condition in errors.
    pub name: &'static str,
    /// The name of the move's action, such as `close`.
    pub action: &'static str,
    /// Returns the unmet requirements of this thread; empty if it may move.
    pub unmet: fn(&Read<'_>, ThreadId) -> Result<Vec<UnmetRequirement>>,
}

/// One unmet requirement of a thread's move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetRequirement {
    /// The requirement, for people.
    pub detail: String,
    /// The ids of the objects that it concerns, such as child threads; may be empty.
    pub ids: Vec<String>,
}

/// Calls projectors with the events that the job has emitted.
///
/// The events that they emit are projected in turn, until there are no new ones.
pub(in crate::op) fn project(cx: &mut Write<'_>) -> Result<()> {
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
            let followed =
                |event: &&Recorded| event.workspace_id == workspace && projector.kinds.contains(&event.kind);
            let followed: Vec<Recorded> = events.iter().filter(followed).cloned().collect();
            if !followed.is_empty() {
                cx.in_workspace(workspace, |cx| (projector.run)(cx, &followed))?;
            }
        }
    }
}
