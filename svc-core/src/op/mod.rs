//! The operation table: what a row is, how a request becomes a row's input, what a function may do while it
//! runs, what a feature can hook into, and the one way in. The documents and contracts in here are projections of the table and decide nothing.

mod access;
mod audit;
mod chore;
mod context;
pub mod contract;
mod dispatch;
mod example;
mod hooks;
mod input;
mod long;
pub mod manual;
pub mod mcp;
pub mod openapi;
mod request;
mod row;
mod table;
mod wait;

pub(crate) use access::secret_hash;
pub use access::{Caller, Surface};
pub(crate) use chore::Leases;
pub use chore::{Chore, Lead, Round, Run, Step, Who};
pub use context::{Ambient, Read, Settings, Write};
pub(crate) use dispatch::Haste;
pub use dispatch::{Dispatch, Reply, Ticket};
pub use example::Fixture;
pub use hooks::{Call, Condition, Guard, Project, Unmet};
pub use request::Request;
pub use row::{
    Effect, Method, Operation, Success, Supply, Waited, Waits, Wants, destructive, idempotent, long_read,
    prepared, read, wait, wanting, write,
};
pub use table::{Feature, Table};
pub(crate) use wait::Rounds;
pub use wait::WaitCounts;
