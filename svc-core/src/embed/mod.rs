//! The interface for Rust programs in whose process the service runs.
//!
//! A program opens a [`Service`](crate::Service), gets a [`Member`] for each token that it acts with, and
//! calls operations as that member, with the requests in [`api`](crate::api).

mod builder;
mod member;
mod lease;
mod claim;
mod events;
mod worker;

pub use builder::Builder;
pub use claim::{Claim, ClaimOptions};
pub use events::{Event, Events, Filter, Since, Stopper};
pub use member::Member;
pub use worker::{Worker, WorkerOptions};

use crate::error::{Error, Result};

/// Runs `work` on a thread where it may wait for a database on the network.
///
/// A thread of an async runtime may not, so its work runs on a new thread.
fn outside_runtime<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if tokio::runtime::Handle::try_current().is_err() {
        return work();
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("svc-open".to_owned()).spawn_scoped(scope, work);
        match thread.map_err(Error::internal)?.join() {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::internal("a thread of the service has panicked")),
        }
    })
}
