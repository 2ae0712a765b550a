//! The store: opening of a database, and its durability under faults and contention.
//!
//! The faults are of disk, network and process.

mod shared;
mod certificates;
mod contention;
mod crash;
mod deployed;
mod failed_starts;
mod file_modes;
mod killed;
mod ordeals_controls;
mod ordeals_postgres;
mod ordeals_sqlite;
mod readers;
mod rewrap;
mod schema;
mod sqlite;
pub mod starting;
mod time;
mod tls;
