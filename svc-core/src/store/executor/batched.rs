//! Reads of the same moment, collected so that they share one transaction on a caller's thread.

use std::sync::Mutex;

use super::queue::Capacity;
use super::readers::ReadTask;
use crate::limits::{BATCH_BYTES_MAX, READ_BATCH_MAX};
use crate::sync::lock;

/// Reads that wait to run together.
pub(super) struct BatchedReads<N>(Mutex<ReadBatch<N>>);

struct ReadBatch<N> {
    tasks: Vec<Box<dyn ReadTask<N>>>,
    capacity: Capacity,
}

impl<N> Default for ReadBatch<N> {
    fn default() -> Self {
        Self { tasks: Vec::new(), capacity: Capacity::new(READ_BATCH_MAX, BATCH_BYTES_MAX) }
    }
}

impl<N> Default for BatchedReads<N> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// What the caller that added a read has to do.
pub(super) struct Added<N> {
    /// A full batch, to be run now.
    pub full: Vec<Box<dyn ReadTask<N>>>,
    /// The read is the first of its batch: no other caller will run it.
    pub is_first: bool,
}

impl<N> BatchedReads<N> {
    /// Adds a read to the current batch, or to a new one if that is full.
    pub fn add(&self, task: Box<dyn ReadTask<N>>) -> Added<N> {
        let mut batch = lock(&self.0);
        let full =
            if batch.capacity.is_any_left() { ReadBatch::default() } else { std::mem::take(&mut *batch) };
        batch.capacity.take(task.bytes());
        batch.tasks.push(task);
        Added { full: full.tasks, is_first: batch.tasks.len() == 1 }
    }

    /// Returns what was added so far, and begins with an empty batch.
    pub fn take(&self) -> Vec<Box<dyn ReadTask<N>>> {
        std::mem::take(&mut *lock(&self.0)).tasks
    }
}
