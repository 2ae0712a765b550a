//! The feed: what subscribers of this process share.
//!
//! Each workspace with subscribers has a [`Room`], which the bus's thread fills as long as somebody holds it.
//! Who may see an event, and what it says in plaintext, is up to who delivers it.

mod event;
mod room;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Weak};

use crate::id::WorkspaceId;
use crate::sync::lock;
use crate::time::Clock;
pub(crate) use event::FeedEvent;
pub use event::{FrameBytes, FrameForm};
pub(crate) use room::{Room, RoomHead, RoomView, service_time};

/// The rooms of this process.
#[derive(Default)]
pub(crate) struct Feed {
    rooms: Mutex<HashMap<WorkspaceId, Weak<Room>>>,
    /// Bytes in the rings of all rooms.
    bytes: Arc<AtomicUsize>,
}

impl Feed {
    /// Returns the room of a workspace; a new one begins after `lsn`.
    pub fn enter(&self, workspace: WorkspaceId, lsn: i64, clock: &Clock) -> Arc<Room> {
        let mut rooms = lock(&self.rooms);
        if let Some(room) = rooms.get(&workspace).and_then(Weak::upgrade) {
            return room;
        }
        rooms.retain(|_, room| room.strong_count() > 0);
        let room = Arc::new(Room::new(workspace, lsn, clock, Arc::clone(&self.bytes)));
        rooms.insert(workspace, Arc::downgrade(&room));
        room
    }

    /// Returns the room of a workspace, if it has one.
    pub fn room(&self, workspace: WorkspaceId) -> Option<Arc<Room>> {
        lock(&self.rooms).get(&workspace).and_then(Weak::upgrade)
    }
}
