//! The calls of the program in whose process the service runs.
//!
//! Closing the service ends the waits among them, and lets the others finish.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::error::Result;
use crate::op::{Reply, ReplyCallback};
use crate::store::budget::interrupted_error;
use crate::sync::lock;

/// The calls in progress.
#[derive(Default)]
pub(crate) struct Calls {
    state: Mutex<CallsState>,
    changed: Condvar,
}

#[derive(Default)]
struct CallsState {
    is_closed: bool,
    /// Number of calls in progress whose callers block.
    running: usize,
    /// Key of the next wait.
    next_wait: u64,
    /// The callbacks of the waits in progress.
    waits: BTreeMap<u64, Arc<SharedCallback>>,
}

/// The callback of a wait, which either the core or the end of the service calls.
struct SharedCallback(Mutex<Option<ReplyCallback>>);

impl SharedCallback {
    fn call(&self, outcome: Result<Reply>) {
        let done = lock(&self.0).take();
        if let Some(done) = done {
            done(outcome);
        }
    }
}

/// A call in progress. Dropping the value ends the call.
pub(crate) struct CallInProgress<'a> {
    calls: &'a Calls,
    wait: Option<u64>,
    /// Whether the caller blocks, so that closing waits for the call.
    blocks: bool,
}

impl Calls {
    /// Begins a call whose caller blocks. Fails with 503 `closing` once the service is closed.
    pub fn begin(&self) -> Result<CallInProgress<'_>> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(interrupted_error());
        }
        state.running = state.running.saturating_add(1);
        Ok(CallInProgress { calls: self, wait: None, blocks: true })
    }

    /// Begins a call whose caller awaits it. Fails with 503 `closing` once the service is closed.
    ///
    /// Closing does not wait for such a call, because it may never be polled again.
    pub fn begin_async(&self) -> Result<CallInProgress<'_>> {
        if self.is_closed() {
            return Err(interrupted_error());
        }
        Ok(CallInProgress { calls: self, wait: None, blocks: false })
    }

    /// Rejects further calls, ends the waits, and blocks until the calls that block their callers have
    /// finished.
    ///
    /// Returns whether this was the first call of this function.
    pub fn close(&self) -> bool {
        let mut state = lock(&self.state);
        let is_first = !std::mem::replace(&mut state.is_closed, true);
        let waits = std::mem::take(&mut state.waits);
        drop(state);
        for wait in waits.into_values() {
            wait.call(Err(interrupted_error()));
        }
        let mut state = lock(&self.state);
        while state.running > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        is_first
    }

    /// Returns whether the service is closed or being closed.
    pub fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }
}

impl CallInProgress<'_> {
    /// Makes the call a wait, which the end of the service ends. Returns the callback to pass to the core.
    pub fn as_wait(&mut self, done: ReplyCallback) -> ReplyCallback {
        let shared = Arc::new(SharedCallback(Mutex::new(Some(done))));
        let mut state = lock(&self.calls.state);
        if state.is_closed {
            drop(state);
            shared.call(Err(interrupted_error()));
        } else {
            let key = state.next_wait;
            state.next_wait = key.saturating_add(1);
            state.waits.insert(key, Arc::clone(&shared));
            self.wait = Some(key);
        }
        Box::new(move |outcome| shared.call(outcome))
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.calls.state);
        let wait = self.wait.and_then(|key| state.waits.remove(&key));
        if self.blocks {
            state.running = state.running.saturating_sub(1);
        }
        drop(state);
        self.calls.changed.notify_all();
        // Dropped outside of the lock, because its captured values may do anything.
        drop(wait);
    }
}
