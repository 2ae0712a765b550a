//! The core of the Agent Collaboration Service: one place where a team of agents and people coordinate work.
//! Workspaces hold channels, channels hold threads, a thread is a task; threads carry messages, claims and
//! results. This crate owns storage, the claim engine, sealing and the event chain; the shells (`svc-http`,
//! `svc-mcp-stdio`, `svc-cli`) frame bytes and ask it.
//!
//! # The way of a request
//!
//! A shell hands a [`Service`] the [`op::Head`] of a request with the name of an operation, and its [`op::Input`] once
//! that is let in. What it passes stands in `op/run/pipeline.rs`.
//!
//! 1. [`op`] *admits* the head: rate limit, credential, capability, from a cache if that holds.
//! 2. It finds the row in the operation table and *binds* the input: decodes it and does what needs no database, on the
//!    caller's side.
//! 3. The job waits for a core thread. A writer gathers what is waiting into one transaction ([`store`]).
//! 4. Inside it the credential and the capability are asked for again, which decides; then guards, the row's function,
//!    projectors, audit.
//! 5. Commit; the bus ([`log`]) tells who waits; the answer is encoded on the caller's side.
//!
//! # The map
//!
//! Folders are layers; a module uses only those above it, and a test checks that.
//!
//! | layer | what it holds |
//! |---|---|
//! | vocabulary | [`id`], [`time`], [`text`], [`json`], [`page`], [`error`], [`limits`], [`capability`], [`entropy`], `sync`, `timers`, [`config`], [`data_dir`], `rate`: one file each |
//! | `store` | the only place that names an engine: connections, values, the executor, migrations |
//! | `log` | the event chain, canonical JSON, the batch that extends the chain, the bus, sealing, verifying |
//! | [`op`] | rows, input decoding, contexts, the pipeline, waits; OpenAPI, MCP and contracts as projections |
//! | `identity` | workspaces, members, tokens, set-up |
//! | `conversation` | channels, messages, what is visible to whom |
//! | `coordination` | threads, dependencies, the ready queue, claims, results, the reaper |
//! | `integrity` | reading the event log and the audit trail |
//!
//! A higher feature hears of a lower one through the hooks that it registers: guards, projectors and conditions. What it
//! does from time to time is a chore.
//!
//! Above all of them, and exempt from the rule: [`service`], `opening`, [`setup`], `scheduler` and `housekeeping` put things
//! together, `table` lists the features.
//!
//! # What always holds
//!
//! - The acting identity comes from the credential, and it is looked up inside the transaction that it opens.
//! - Every change leaves an event or an audit row, in the transaction of the change.
//! - Positions (LSNs) are dense per workspace. They are given out under the workspace's head row, so the order of
//!   allocation, of commit and of visibility is one.
//! - `content_hash = SHA-256(payload bytes)`, and the payload begins with every column of its row; one remembered
//!   head pins the whole history.
//! - Message words are stored sealed. Destroying a message's key destroys them everywhere; the chain still
//!   verifies.
//! - One member holds a claim, under a lease with a fencing id. A thread enters and leaves the ready queue in the
//!   transaction of whatever changes it.
//! - A function may run again: it is pure apart from its context, and nothing it does counts before the commit.
//! - Nothing that decides is trusted across transactions unless a key that is read again inside the transaction
//!   says that it still holds.
//!
//! # How to add an operation
//!
//! 1. In the file of its feature, write an input type with `deny_unknown_fields`. Its doc comment is the
//!    operation's description and its fields' comments are the API's documentation; limits are types
//!    ([`text::Text`], [`text::Count`]). Write an output type.
//! 2. Write the function: `fn(&Read, &Input) -> Result<Output>` to look, `fn(&mut Write, &Input) -> Result<Output>` to
//!    change. Load objects through the loaders, which answer *not found* for what the caller may not see. Check
//!    before the first write. Emit an event.
//! 3. Add the row to the feature's list: name, title, path, capability, and an example that succeeds.
//!
//! REST, OpenAPI, MCP, the contracts, the authorisation matrix and the test that REST and MCP agree follow from
//! the row. A new feature adds a line to `table.rs`.
//!
//! # What is left to the shells
//!
//! The environment, the terminal, sockets and framing. The core reads no environment variable and prints nothing;
//! causes of failures go to `tracing`.

pub mod capability;
pub mod config;
mod conversation;
mod coordination;
pub mod data_dir;
pub mod entropy;
pub mod error;
pub mod hash;
mod host;
pub mod id;
mod identity;
mod integrity;
pub mod json;
pub mod limits;
mod log;
pub mod op;
pub mod page;
mod rate;
mod schema;
mod store;
mod sync;
pub mod text;
pub mod time;
mod timers;

pub use error::{Code, EXIT_CODES, Error, PROBLEM_BASE, Problem, ProblemType, Result};
pub use host::features::operation_table;
pub use host::service::{Options, PartHealth, Service};
pub use host::{service, setup};
pub use log::bus::EventFilter;
pub use log::cache::Cached;
pub use log::event::{Attribution, Event, EventKind, Invalidates, Recorded, Subject};
pub use log::{chain, key_tree, seal, verify};
pub use op::WaitCounts;
pub use rate::{Client, RateSettings};
pub use store::{
    Conn, Database, Engine, FromRow, FromValue, OpenMode, Param, Row, StatementCounts, ToParam, Value,
};
