//! The store: how a database is opened, and what it keeps under faults and contention.
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
