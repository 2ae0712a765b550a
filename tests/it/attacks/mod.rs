//! Attacks by one workspace on all others: the served requests, their order, and the number of occupied
//! places.
//!
//! The attacks are those of `bench attacks`. During an attack, every request of the victim succeeds and the
//! service is healthy; the benchmark measures the latency.

mod arena;
mod queues;
mod places;
mod files;
mod ends;
