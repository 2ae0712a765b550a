//! The queue of callers that wait for places of a ceiling.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::scope::CeilingScope;
use crate::id::WorkspaceId;
use crate::limits::{WAITING_PER_CLIENT_MAX, WAITING_PER_WORKSPACE_MAX};
use crate::rate::{Client, Holder};
use crate::round_robin::RoundRobin;

/// The waiting callers, in the order in which they receive places. Workspaces take turns, and so do the
/// clients of each workspace.
pub(super) struct CallerTurns<T>(RoundRobin<WorkspaceId, WaitingClients<T>>);

/// The waiting clients of a workspace, each with the queue of its waiting callers.
type WaitingClients<T> = RoundRobin<Client, VecDeque<PlaceWaiter<T>>>;

/// A caller that waits for `size` places.
pub(super) struct PlaceWaiter<T> {
    pub size: usize,
    /// Channel that delivers the granted places to the caller.
    pub sender: oneshot::Sender<T>,
}

impl<T> Default for CallerTurns<T> {
    fn default() -> Self {
        Self(RoundRobin::default())
    }
}

impl<T> CallerTurns<T> {
    /// Returns whether no caller waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first waiter of each client. Workspaces are in the order of their turns, and so are the
    /// clients of each workspace.
    pub fn first_waiters(&self) -> impl Iterator<Item = (Holder, &PlaceWaiter<T>)> {
        self.0.keys().flat_map(|workspace| self.first_waiters_of(workspace))
    }

    /// Returns the first waiter of each client in a workspace, in the order of the clients' turns.
    pub fn first_waiters_of(
        &self,
        workspace: WorkspaceId,
    ) -> impl Iterator<Item = (Holder, &PlaceWaiter<T>)> {
        let clients = self.0.get(workspace).into_iter().flat_map(RoundRobin::iter);
        clients.filter_map(move |(client, waiters)| Some((Holder { client, workspace }, waiters.front()?)))
    }

    /// Returns whether any caller of a client waits in a workspace.
    pub fn has_waiter(&self, holder: Holder) -> bool {
        self.0.get(holder.workspace).is_some_and(|clients| clients.get(holder.client).is_some())
    }

    /// Adds a waiter to the end of its client's queue. Fails with the scope that already has the maximum
    /// number of waiters.
    pub fn add_waiter(
        &mut self,
        holder: Holder,
        size: usize,
    ) -> std::result::Result<oneshot::Receiver<T>, CeilingScope> {
        let clients = self.0.entry(holder.workspace);
        if clients.iter().map(|(_, waiters)| waiters.len()).sum::<usize>() >= WAITING_PER_WORKSPACE_MAX {
            return Err(CeilingScope::Workspace);
        }
        let waiters = clients.entry(holder.client);
        if waiters.len() >= WAITING_PER_CLIENT_MAX {
            return Err(CeilingScope::Client);
        }
        let (sender, receiver) = oneshot::channel();
        waiters.push_back(PlaceWaiter { size, sender });
        Ok(receiver)
    }

    /// Removes and returns the first waiter of a client. The client and its workspace then take their next
    /// turns after all others.
    pub fn take_first_waiter(&mut self, holder: Holder) -> Option<PlaceWaiter<T>> {
        let clients = self.0.get_mut(holder.workspace)?;
        let waiter = clients.pop(holder.client);
        if clients.is_empty() {
            self.0.remove(holder.workspace)
        } else {
            self.0.end_turn(holder.workspace)
        }
        waiter
    }

    /// Removes the waiters of a client whose callers no longer wait.
    pub fn remove_closed(&mut self, holder: Holder) {
        let Some(clients) = self.0.get_mut(holder.workspace) else { return };
        let Some(waiters) = clients.get_mut(holder.client) else { return };
        waiters.retain(|waiter| !waiter.sender.is_closed());
        if waiters.is_empty() {
            clients.remove(holder.client);
        }
        if clients.is_empty() {
            self.0.remove(holder.workspace);
        }
    }
}
