//! Integration tests, in one program so that they link once. The generated ones go over the whole operation
//! table; the others tell what the service promises beyond it.

mod access;
mod chores;
mod claims;
mod cli;
mod contention;
mod crash;
mod extension;
mod fan_out;
mod hooks;
mod house;
mod invalidation;
mod log;
mod long_reads;
mod messages;
mod ordeals_controls;
mod ordeals_postgres;
mod ordeals_sqlite;
mod outside;
mod pages;
mod reading;
mod schema;
mod source;
mod starting;
mod story;
mod subscriptions;
mod table;
mod tampering;
mod threads;
mod time;
mod tokens;
mod transports;
mod waits;
mod withdrawing;
mod workers;
