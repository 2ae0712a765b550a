//! The operation table: what a row is, how a request becomes a row's input, what a function may do while it
//! runs, what a feature can hook into, and the one way in. The documents and contracts in here are projections of the table and decide nothing.

mod access;
mod audit;
mod chore;
mod context;
pub mod contract;
mod example;
mod hooks;
mod input;
pub mod manual;
pub mod mcp;
pub mod openapi;
mod request;
mod row;
mod run;
mod table;
mod wait;

pub(crate) use access::secret_hash;
pub use access::{Caller, Sight, SightParams, Surface, Via};
pub(crate) use chore::Leases;
pub use chore::{Chore, Lead, Round, Run, Step, Who};
pub use context::{Read, Settings, Shared, Write};
pub use example::Fixture;
pub use hooks::{Call, Condition, Guard, Project, Unmet};
pub use request::{Head, Input, Request};
pub use row::{
    Effect, LongPoll, Method, Operation, Poll, Success, Supply, Wants, destructive, idempotent, long_read,
    prepared, read, wait, wanting, write,
};
pub use run::{Admission, Dispatch, Reply, Ticket};
pub(crate) use run::{Credentials, RunOn};
pub use table::{Feature, Table};
pub(crate) use wait::Rounds;
pub use wait::WaitCounts;
