//! Operations: authorisation and visibility, and the reading, running, waiting and paging of requests.

mod access;
mod admission;
pub mod asking;
mod borders;
mod bounded;
mod callers;
pub mod chores;
pub mod cost;
mod extension;
mod faults;
mod homed;
mod hooks;
mod input;
mod keys;
mod long_reads;
mod nulls;
mod pages;
mod rate_limits;
mod read_budget;
mod refusals;
pub mod waits;
mod wait_ends;
mod without_credential;
