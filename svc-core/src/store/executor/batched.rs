//! Collects reads that arrive at the same time, so that they share one transaction on a caller's thread.
//!
//! For a single caller, waiting for other reads costs more than the read itself. The sizes of previous
//! batches show whether other reads are likely to arrive.

use std::sync::Mutex;

use super::queue::BatchCapacity;
use super::readers::ReadTask;
use crate::limits::{BATCH_BYTES_MAX, READ_BATCH_MAX};
use crate::sync::lock;

/// Number of consecutive single-read batches after which callers no longer wait for other reads.
const LONE_BATCHES_MAX: u32 = 8;

/// Interval, in single-read batches, at which one caller waits again to check whether other reads arrive.
const PROBE_INTERVAL: u32 = 32;

/// Reads that wait to run together in one transaction.
pub(super) struct BatchedReads<N>(Mutex<ReadBatches<N>>);

struct ReadBatches<N> {
    current: ReadBatch<N>,
    /// Number of consecutive single-read batches.
    lone_batches: u32,
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
        Self(Mutex::new(ReadBatches { current: ReadBatch::default(), lone_batches: 0 }))
    }
}

/// Whether the caller must run the batch that contains its read, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchFlush {
    /// Another caller runs the batch.
    Others,
    /// The caller must run the batch immediately.
    Now,
    /// The caller must run the batch, after a pause in which other callers can add their reads.
    AfterPause,
}

/// The result of adding a read to a batch.
pub(super) struct AddedRead<N> {
    /// The previous batch if it was full. The caller must run it now.
    pub full_batch: Vec<Box<dyn ReadTask<N>>>,
    pub role: BatchFlush,
}

impl<N> BatchedReads<N> {
    /// Adds a read to the current batch, or to a new batch if the current one is full.
    pub fn add(&self, task: Box<dyn ReadTask<N>>) -> AddedRead<N> {
        let mut batches = lock(&self.0);
        let full_batch =
            if batches.current.capacity.has_capacity() { Vec::new() } else { batches.take_batch() };
        let batch = &mut batches.current;
        batch.capacity.consume(task.bytes());
        batch.tasks.push(task);
        let role = match batch.tasks.len() {
            1 if batches.should_skip_wait() => BatchFlush::Now,
            1 => BatchFlush::AfterPause,
            _ => BatchFlush::Others,
        };
        AddedRead { full_batch, role }
    }

    /// Removes and returns the reads of the current batch, and begins an empty batch.
    pub fn take_batch(&self) -> Vec<Box<dyn ReadTask<N>>> {
        lock(&self.0).take_batch()
    }
}

impl<N> ReadBatches<N> {
    /// Returns whether a caller should run its read without waiting, because each recent batch had one read.
    fn should_skip_wait(&self) -> bool {
        self.lone_batches >= LONE_BATCHES_MAX && !self.lone_batches.is_multiple_of(PROBE_INTERVAL)
    }

    fn take_batch(&mut self) -> Vec<Box<dyn ReadTask<N>>> {
        let tasks = std::mem::take(&mut self.current).tasks;
        match tasks.len() {
            0 => {}
            1 => self.lone_batches = self.lone_batches.wrapping_add(1),
            _ => self.lone_batches = 0,
        }
        tasks
    }
}
