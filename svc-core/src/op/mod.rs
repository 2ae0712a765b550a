//! The operation table, and the pipeline that every request goes through.
//!
//! - `declare`: declares operations, samples, guards, projectors, conditions, chores, delivery channels and
//!   health checks of features, and collects them in a table
//! - `call`: decodes the bytes of a request into a typed call, and finds its caller
//! - `run`: runs admission, the pipeline, functions and long polls
//! - `show`: projects the table to OpenAPI, MCP, contracts and manual pages, and decides nothing

mod call;
mod declare;
mod run;
mod show;

pub(crate) use crate::log::batch::ImportedHead;
pub use call::caller::{Caller, Sight, SightParams, Surface, Via};
pub(crate) use call::credential::secret_hash;
pub use call::credential::{Credential, SESSION_COOKIE, SessionKey, read_credential};
pub use call::input::{decode, decode_frame, decode_object};
pub use call::key::IdempotencyKey;
pub use call::request::{Input, Request, RequestHead};
pub(crate) use declare::answer::without_keys;
pub use declare::answer::{Answer, Repeats, Returned, secret_was_told};
pub(crate) use declare::chore::Leases;
pub use declare::chore::{Chore, ChoreFn, Lead, Round, Step, Who};
pub use declare::class::Class;
pub use declare::docs::Docs;
pub(crate) use declare::due::Due;
pub use declare::effect::Effect;
pub use declare::frame::{Frame, Takes};
pub use declare::functions::{
    AfterPreflight, Builder, changing, destructive, idempotent, read, reading, wait, write,
};
pub(crate) use declare::hooks::KEEP;
pub use declare::hooks::{Condition, Guard, GuardedCall, Project, Unmet};
pub use declare::http::{Http, Method, Success};
pub use declare::job::{
    Found, InputType, LongPoll, OutputType, Poll, Refused, Supply, TimedOut, WaitOutput, Wants,
};
pub use declare::operation::{Access, Operation};
pub use declare::part::{Depth, Gauges, Health, Part, PartStatus, Shell};
pub use declare::records::{Records, RowColumns};
pub(crate) use declare::records::{Removal, purged};
pub use declare::sample::{Fixture, Maker, Sample, SampleCall};
pub use declare::table::{Feature, Table, path_variables};
pub use declare::typed::TypedOperation;
pub use declare::wait_secs::WaitSecs;
pub use declare::way::{Arrival, Parcel, Settle, Take, Way};
pub use run::context::{Read, Write};
pub use run::health::PartHealth;
pub(crate) use run::health::{DATABASE, health_in_database, health_of_process, health_without_database};
pub(crate) use run::permit::DestroyPermit;
pub(crate) use run::presence::{Connection, Presence};
pub use run::settings::{MailSettings, Settings, Shared};
pub use run::wait::WaitCounts;
pub use run::{Admission, Dispatch, NotAdmitted, Reply, Ticket};
pub(crate) use run::{OwnWork, RunOn};
pub use show::routes::{FIXED, Fixed, FixedRoute};
pub use show::{contract, manual, mcp, openapi, routes};
