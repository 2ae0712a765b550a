//! Threads as tasks: their states, claims, dependencies and workers.

mod claims;
mod dependencies;
mod thread;
mod workers;
