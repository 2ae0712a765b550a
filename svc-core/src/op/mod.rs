//! The operation table, and the pipeline that every request passes through.
//!
//! - `declare`: declares operations, samples, guards, projectors, conditions, chores, delivery channels and
//!   health checks of features, and collects them in a table
//! - `call`: decodes the bytes of a request into a typed call, and finds its caller
//! - `run`: runs admission, the pipeline, functions and long polls
//! - `show`: projects the table to OpenAPI, MCP, contracts and manual pages, and decides nothing

mod call;
pub(crate) mod declare;
mod run;
mod show;

pub(crate) use crate::log::batch::ImportedHead;
pub use call::caller::{Caller, CredentialKind, Surface, Visibility, VisibilityParams};
pub(crate) use call::credential::secret_hash;
pub use call::credential::{Credential, SESSION_COOKIE, SessionKey, read_credential};
pub use call::input::{decode, decode_frame, decode_object};
pub use call::key::IdempotencyKey;
pub use call::request::{Input, Request, RequestHead};
pub(crate) use declare::answer::without_idempotency_keys;
pub use declare::answer::{Answer, ChangeOutput, RepeatPolicy, secret_shown_once_error};
pub(crate) use declare::chore::HeldLeases;
pub use declare::chore::{Chore, ChoreFn, ChoreLease, ChoreProcesses, ChoreRound, StepOutcome};
pub use declare::column_class::Class;
pub use declare::delivery_channel::{DeliveryBatch, DeliveryChannel, DeliveryResult, SettleBatch, TakeBatch};
pub use declare::docs::Docs;
pub(crate) use declare::due_objects::DueObjects;
pub use declare::effect::Effect;
pub use declare::frame::{AcceptedCredentials, Frame};
pub use declare::functions::{
    AfterPreflight, Builder, changing, destructive, idempotent, read, reading, wait, write,
};
pub use declare::health_check::{CheckMethod, Depth, Gauges, HealthCheck, MeasureDepth, Shell};
pub(crate) use declare::hooks::KEEP_ROWS;
pub use declare::hooks::{Condition, Guard, GuardedCall, ProjectEvents, UnmetRequirement};
pub use declare::http::{Http, Method, Success};
pub(crate) use declare::job::without_requests;
pub use declare::job::{
    CountAvailable, InputType, LongPoll, OutputType, Poll, PreflightResult, RecordedRefusal, RequestShape,
    TimedOut, WaitOutput, WriteNeeds,
};
pub use declare::operation::{Access, Operation};
pub use declare::records::{Records, RowColumns};
pub(crate) use declare::records::{Removal, purged};
pub use declare::sample::{Fixture, Sample, SampleCall, SampleCaller};
pub use declare::table::{Feature, Table, path_variables};
pub use declare::wait_secs::WaitSecs;
pub use run::context::{Read, Write};
pub use run::health::HealthResult;
pub(crate) use run::health::{DATABASE, health_in_database, health_of_process, health_without_database};
pub(crate) use run::permit::DestroyPermit;
pub(crate) use run::presence::{ConnectedMembers, MemberConnection};
pub use run::settings::{MailSettings, Settings, SharedState};
pub use run::wait::WaitCounts;
pub use run::{Admission, AdmissionFailure, Dispatch, Reply, RequestHandle};
pub(crate) use run::{ReplyCallback, RunOn, ServiceWork};
pub use show::routes::{FIXED, Fixed, FixedRoute};
pub use show::{contract, manual, mcp, openapi, routes};
