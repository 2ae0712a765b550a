//! Reads of the same moment, collected so that they share one transaction on a caller's thread.
//!
//! Waiting for others costs a lone caller more than its read. Whether any come is learned from the batches
//! before.

use std::sync::Mutex;

use super::queue::Capacity;
use super::readers::ReadTask;
use crate::limits::{BATCH_BYTES_MAX, READ_BATCH_MAX};
use crate::sync::lock;

/// After how many batches of one read in a row no others are waited for.
const LONE_MAX: u32 = 8;

/// How many of those there are until others are waited for again, to learn whether that still holds.
const PROBE_EVERY: u32 = 32;

/// Reads that wait to run together.
pub(super) struct BatchedReads<N>(Mutex<Batches<N>>);

struct Batches<N> {
    current: ReadBatch<N>,
    /// How many batches before had one read, in a row.
    lone: u32,
}

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
        Self(Mutex::new(Batches { current: ReadBatch::default(), lone: 0 }))
    }
}

/// What the caller that added a read has to do about its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing: another caller runs it.
    Others,
    /// Run it, at once.
    Now,
    /// Run it, once others had the chance to add their reads.
    AfterOthers,
}

/// What comes of a read that was added.
pub(super) struct Added<N> {
    /// A full batch, to be run now.
    pub full: Vec<Box<dyn ReadTask<N>>>,
    pub turn: Turn,
}

impl<N> BatchedReads<N> {
    /// Adds a read to the current batch, or to a new one if that is full.
    pub fn add(&self, task: Box<dyn ReadTask<N>>) -> Added<N> {
        let mut batches = lock(&self.0);
        let full = if batches.current.capacity.is_any_left() { Vec::new() } else { batches.take() };
        let batch = &mut batches.current;
        batch.capacity.take(task.bytes());
        batch.tasks.push(task);
        let turn = match batch.tasks.len() {
            1 if batches.is_lonely() => Turn::Now,
            1 => Turn::AfterOthers,
            _ => Turn::Others,
        };
        Added { full, turn }
    }

    /// Returns what was added so far, and begins with an empty batch.
    pub fn take(&self) -> Vec<Box<dyn ReadTask<N>>> {
        lock(&self.0).take()
    }
}

impl<N> Batches<N> {
    fn is_lonely(&self) -> bool {
        self.lone >= LONE_MAX && !self.lone.is_multiple_of(PROBE_EVERY)
    }

    fn take(&mut self) -> Vec<Box<dyn ReadTask<N>>> {
        let tasks = std::mem::take(&mut self.current).tasks;
        match tasks.len() {
            0 => {}
            1 => self.lone = self.lone.wrapping_add(1),
            _ => self.lone = 0,
        }
        tasks
    }
}
