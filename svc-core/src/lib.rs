//! The core of the Agent Collaboration Service: one place where a team of agents and people coordinate work.
//!
//! Workspaces contain channels, channels contain threads, and a thread is a task; threads contain messages,
//! claims and results. This crate owns storage, the claim engine, sealing and the event chain, and defines
//! every operation. The shells (`svc-http`, `svc-mcp-stdio`, `svc-cli`) frame bytes and call this crate.
//!
//! [`setup`] creates a database, on SQLite or Postgres ([`Database`]), with its first workspace. [`Service`]
//! opens a database with [`ServiceOptions`]. A service owns the connections and the threads that use them,
//! and runs requests:
//!
//! - [`Service::admit`] admits a request by its head: rate limit, credential, capability.
//! - [`Service::run`] runs the operation with its input ([`op::Input`]) and returns an [`op::Reply`], or an
//!   [`Error`] with a [`Code`] and a status.
//!
//! [`operation_table`] lists every operation with its input and output schema. [`verify`] checks the event
//! chain of a database or an export without a service.
//!
//! The core reads no environment variable and prints nothing; it reports the causes of failures to
//! `tracing`.
//!
//! `ARCHITECTURE.md` beside the sources explains how the crate is built, with a glossary; `CONVENTIONS.md`
//! explains how its code is written, and `DECISIONS.md` explains the design of its large parts.

#[cfg(test)]
mod strangers;
pub mod limits;
mod sync;
pub mod hash;
pub mod mark;
pub mod text;
mod token_text;
pub mod ignored;
pub mod error;
pub mod time;
pub mod id;
pub mod json;
pub mod lenient;
pub mod entropy;
pub mod capability;
mod schema;
pub mod page;
pub mod mailbox;
pub mod egress;
pub mod data_access;
pub mod spool;
mod argument;
pub mod config;
pub mod data_dir;
mod monitor;
mod timers;
mod round_robin;
mod rate;
pub mod share;
mod bisect;
mod store;
mod log;
pub mod op;
mod request;
mod identity;
mod conversation;
mod coordination;
mod gates;
mod stream;
mod retention;
mod portability;
mod sharing;
mod audit;
mod outreach;
mod host;
pub mod api;
mod embed;

pub use audit::state::{Compared, Difference, DifferenceKind, StateReport, TableCounts};
pub use coordination::claims::{ClaimEnd, end_all_claims};
pub use coordination::notices::{NewNotice, post_notice};
pub use embed::{
    Builder, Claim, ClaimOptions, Event, Events, Filter, Member, Since, Stopper, Worker, WorkerOptions,
};
pub use error::{Code, EXIT_CODES, Error, PROBLEM_BASE, Problem, ProblemType, Result};
pub use host::features::{operation_table, verify_export, verify_state};
pub use host::rewrap::RewrapReport;
pub use host::service::{Service, ServiceOptions};
pub use host::setup::{Established, IssuedToken, NamedMember, NamedWorkspace};
pub use host::{ops, service, setup};
pub use log::bus::EventFilter;
pub use log::cache::{Cached, Lifetime};
pub use log::event::{
    Attribution, CachedEntryKind, Event as EventPayload, EventKind, RecordedEvent, Subject,
};
pub use log::replay::ReplayedEvent;
pub use log::{chain, key_tree, seal, signed_note, verify};
pub use op::{HealthResult, WaitCounts};
pub use outreach::mail::{Letter, MAIL, MAIL_REFUSALS_MAX};
pub use rate::{Client, Holder, LimitState, Peer, RateSettings};
pub use share::{Ceiling, PlaceGuard};
pub use store::{
    Conn, Database, Engine, ExecutedStatement, FromRow, FromValue, OpenMode, Param, Row, StatementCounts,
    ToParam, Value, Watcher,
};
pub use time::Clock;
