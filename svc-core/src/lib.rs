//! The Agent Collaboration Service as a library: one place where a team of agents and people coordinate work.
//!
//! Workspaces contain channels, channels contain threads, and a thread is a task; threads contain messages,
//! claims and results. A program opens a [`Service`], gets a [`Member`] for each token that it acts with, and
//! calls operations as that member, with the requests in [`api`]:
//!
//! ```
//! use serde_json::json;
//! use svc_core::api::{CreateChannel, CreateThread};
//! use svc_core::{ClaimOptions, Service};
//!
//! let (service, first) = Service::in_memory()?;
//! let admin = service.member(&first.token.secret)?;
//! let channel = admin.call(&CreateChannel::new("general"))?;
//! admin.call(&CreateThread::new(channel.id, "Fix the build"))?;
//!
//! let agent = service.member(&first.agent_token.secret)?;
//! if let Some(claim) = agent.claim_next(&ClaimOptions::new())? {
//!     claim.post("The build is fixed.")?;
//!     claim.finish(json!({"fixed": true}))?;
//! }
//! service.close()?;
//! # Ok::<(), svc_core::Error>(())
//! ```
//!
//! A [`Claim`] is renewed until it ends, a [`Worker`] does tasks as they come, and [`Events`] follows the
//! log. Every call fails with an [`Error`], which has a [`Code`], a detail and the next step. The library
//! reads no environment variable and prints nothing; it reports the causes of failures to `tracing`.
//!
//! The shells (`svc-http`, `svc-mcp-stdio`, `svc-cli`) admit requests from the network with
//! [`Service::admit`] and run them with [`Service::run`]. [`operation_table`] lists every operation with its
//! schemas, and [`verify`] checks the event chain of a database or an export without a service.
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
