//! Simultaneous reads, collected so that they share one transaction on a caller's thread.
//!
//! For a lone caller, waiting for others costs more than its read. The sizes of previous batches show whether
//! others are likely to come.

use std::sync::Mutex;

use super::queue::BatchCapacity;
use super::readers::ReadTask;
use crate::limits::{BATCH_BYTES_MAX, READ_BATCH_MAX};
use crate::sync::lock;

/// Number of consecutive single-read batches after which callers no longer wait for others.
const LONE_MAX: u32 = 8;

/// Number of single-read batches after which one caller waits again, to check whether others come.
const PROBE_EVERY: u32 = 32;

/// Reads that wait to run together in one transaction.
pub(super) struct BatchedReads<N>(Mutex<ReadBatches<N>>);

struct ReadBatches<N> {
    current: ReadBatch<N>,
    /// Number of consecutive single-read batches.
    lone: u32,
}

struct ReadBatch<N> {
    tasks: Vec<Box<dyn ReadTask<N>>>,
    capacity: BatchCapacity,
}

impl<N> Default for ReadBatch<N> {
    fn default() -> Self {
        Self { tasks: Vec::new(), capacity: BatchCapacity::new(READ_BATCH_MAX, BATCH_BYTES_MAX) }
    }
}

impl<N> Default for BatchedReads<N> {
    fn default() -> Self {
        Self(Mutex::new(ReadBatches { current: ReadBatch::default(), lone: 0 }))
    }
}

/// The caller's responsibility for the batch to which it has added a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchRole {
    /// Another caller runs the batch.
    Others,
    /// The caller must run the batch at once.
    Now,
    /// The caller must run the batch, after a pause in which others can add their reads.
    AfterOthers,
}

/// The result of adding a read.
pub(super) struct AddedRead<N> {
    /// A full batch, to be run now.
    pub full: Vec<Box<dyn ReadTask<N>>>,
    pub turn: BatchRole,
}

impl<N> BatchedReads<N> {
    /// Adds a read to the current batch, or to a new batch if the current one is full.
    pub fn add(&self, task: Box<dyn ReadTask<N>>) -> AddedRead<N> {
        let mut batches = lock(&self.0);
        let full = if batches.current.capacity.is_any_left() { Vec::new() } else { batches.take() };
        let batch = &mut batches.current;
        batch.capacity.take(task.bytes());
        batch.tasks.push(task);
        let turn = match batch.tasks.len() {
            1 if batches.has_lone_reads() => BatchRole::Now,
            1 => BatchRole::AfterOthers,
            _ => BatchRole::Others,
        };
        AddedRead { full, turn }
    }

    /// Returns the current batch, and begins an empty one.
    pub fn take(&self) -> Vec<Box<dyn ReadTask<N>>> {
        lock(&self.0).take()
    }
}

impl<N> ReadBatches<N> {
    fn has_lone_reads(&self) -> bool {
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
