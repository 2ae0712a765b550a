//! Locking of mutexes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};

/// Locks a mutex, ignoring poison: a core thread catches its tasks' panics, so the guarded data is still
/// consistent.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the end of a thread, and returns whether the thread has not panicked.
///
/// Does not wait for the current thread, nor for `caller`, on behalf of which the current thread waits.
pub(crate) fn join(thread: JoinHandle<()>, caller: ThreadId) -> bool {
    let own = [caller, std::thread::current().id()];
    own.contains(&thread.thread().id()) || thread.join().is_ok()
}
