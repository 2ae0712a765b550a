//! Attacks by one workspace on all others: who is served, in which order, and how many places are taken.
//!
//! The attacks are those of `bench attacks`. While one goes on, every request of the victim succeeds and the
//! service is healthy; how long that takes is what the benchmark measures.

mod arena;
mod queues;
mod places;
mod files;
mod ends;
