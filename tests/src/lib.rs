//! The foundation of tests and benchmarks.
//!
//! It has databases on both engines, a [`World`] with one of everything in it, clients that call the service
//! in process, over REST and over MCP, and the real programs on a [`site::Site`]. The tests are in
//! `tests/it`.

/// Implements for an operation of a test that repeats keep none of its answer.
#[macro_export]
macro_rules! keeps_nothing {
    ($input:ty => $output:ty) => {
        impl svc_core::op::Answer<$input> for $output {
            type Kept = ();

            fn kept(&self) -> Option<()> {
                None
            }

            fn answer_repeat(_: &svc_core::op::Read<'_>, _: &$input, (): ()) -> svc_core::Result<Self> {
                Err(svc_core::Error::internal("nothing is kept of this answer"))
            }
        }
    };
}

pub mod attacks;
pub mod bench;
pub mod browser;
pub mod client;
pub mod database;
pub mod golden;
pub mod home;
pub mod mcp_fixtures;
pub mod ordeal;
mod original;
mod person;
mod pool;
mod prepare;
pub mod process;
pub mod provider;
pub mod push_service;
pub mod refusals;
pub mod search;
mod server;
pub mod simulation;
pub mod site;
pub mod state;
pub mod witness;
mod unlimited;
mod world;

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

pub use person::Person;
pub use prepare::People;
pub use world::{
    MAIL_DELAY, ORIGIN, SIGNS, Setup, World, answer_of, call, on_both_engines, session_key, text,
};

/// Returns the runtime of clients and servers in this process.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

/// Does `work` for each of `0..count` on a separate thread, and collects the results.
pub fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
