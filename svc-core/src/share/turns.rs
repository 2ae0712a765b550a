//! Who waits for places of a ceiling, and in which order.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::scope::Scope;
use crate::id::WorkspaceId;
use crate::rate::{Client, Holder};

/// Callers of one workspace that may wait for places of one ceiling.
const WAITING_OF_WORKSPACE_MAX: usize = 4096;
/// Callers of one client that may wait for places of one ceiling.
pub(super) const WAITING_OF_CLIENT_MAX: usize = WAITING_OF_WORKSPACE_MAX / 2;

/// Who waits, in the order in which they are served: workspaces in turn, inside a workspace clients in turn.
pub(super) struct Turns<T>(VecDeque<(WorkspaceId, Clients<T>)>);

/// The clients of a workspace that wait.
type Clients<T> = VecDeque<(Client, VecDeque<Waiter<T>>)>;

/// Who waits for a place of a size.
pub(super) struct Waiter<T> {
    pub size: usize,
    pub place: oneshot::Sender<T>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Turns<T> {
    /// Returns whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the workspaces that wait in the order in which they are served, with their clients.
    pub fn workspaces(&self) -> impl Iterator<Item = (WorkspaceId, &Clients<T>)> {
        self.0.iter().map(|(workspace, clients)| (*workspace, clients))
    }

    /// Returns whether a client waits.
    pub fn has(&self, holder: Holder) -> bool {
        self.0.iter().any(|(workspace, clients)| {
            *workspace == holder.workspace && clients.iter().any(|(client, _)| *client == holder.client)
        })
    }

    /// Adds a waiter as the last of its client, or returns whose waiters are too many.
    pub fn add(&mut self, holder: Holder, size: usize) -> std::result::Result<oneshot::Receiver<T>, Scope> {
        let (place, receiver) = oneshot::channel();
        let waiter = Waiter { size, place };
        let Some(clients) = entry(&mut self.0, holder.workspace) else {
            self.0.push_back((holder.workspace, [(holder.client, [waiter].into())].into()));
            return Ok(receiver);
        };
        if clients.iter().map(|(_, waiters)| waiters.len()).sum::<usize>() >= WAITING_OF_WORKSPACE_MAX {
            return Err(Scope::Workspace);
        }
        match entry(clients, holder.client) {
            Some(waiters) if waiters.len() >= WAITING_OF_CLIENT_MAX => return Err(Scope::Client),
            Some(waiters) => waiters.push_back(waiter),
            None => clients.push_back((holder.client, [waiter].into())),
        }
        Ok(receiver)
    }

    /// Takes the first waiter of a client. Both its client and its workspace are served last after that.
    pub fn take(&mut self, workspace: usize, client: usize) -> Option<(Holder, Waiter<T>)> {
        let (workspace, mut clients) = self.0.remove(workspace)?;
        let (client, mut waiters) = clients.remove(client)?;
        let waiter = waiters.pop_front()?;
        if !waiters.is_empty() {
            clients.push_back((client, waiters));
        }
        if !clients.is_empty() {
            self.0.push_back((workspace, clients));
        }
        Some((Holder { client, workspace }, waiter))
    }

    /// Removes the waiters of a client that have given up.
    pub fn remove_closed(&mut self, holder: Holder) {
        let Some(clients) = entry(&mut self.0, holder.workspace) else { return };
        if let Some(waiters) = entry(clients, holder.client) {
            waiters.retain(|waiter| !waiter.place.is_closed());
        }
        clients.retain(|(_, waiters)| !waiters.is_empty());
        self.0.retain(|(_, clients)| !clients.is_empty());
    }
}

/// Returns the entry of a key.
fn entry<K: PartialEq, V>(entries: &mut VecDeque<(K, V)>, key: K) -> Option<&mut V> {
    entries.iter_mut().find(|(known, _)| *known == key).map(|(_, value)| value)
}
