//! The store: how a database is opened, what every fault of disk, network and process leaves of it, and how
//! many work on it at once.

mod contention;
mod crash;
mod file_modes;
mod ordeals_controls;
mod ordeals_postgres;
mod ordeals_sqlite;
mod readers;
mod sqlite;
mod starting;
mod time;
