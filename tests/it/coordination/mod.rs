//! Threads as tasks: their states, claims, dependencies and workers.

mod batches;
mod budgets;
mod checkpoint;
mod claimability;
mod claims;
mod dependencies;
mod emitters;
mod ends;
mod first_message;
mod footprints;
mod freezing;
mod handing_in;
mod lapses;
mod names;
mod notices;
mod occupancy;
mod overlaps;
mod simulation;
mod since;
mod spawn;
mod taking_up;
mod thread;
mod usage;
mod wakes;
mod witness;
mod workers;
