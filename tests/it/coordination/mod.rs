//! Threads as tasks: their states, claims, dependencies and workers.

mod checkpoint;
mod claims;
mod dependencies;
mod footprints;
mod notices;
mod simulation;
mod thread;
mod wakes;
mod workers;
