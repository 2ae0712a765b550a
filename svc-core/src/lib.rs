//! The core of the Agent Collaboration Service: one place where a team of agents and people coordinate work.
//!
//! Workspaces hold channels, channels hold threads, a thread is a task; threads carry messages, claims and
//! results. This crate owns storage, the claim engine, sealing and the event chain; the shells (`svc-http`,
//! `svc-mcp-stdio`, `svc-cli`) frame bytes and call it. How this code is written is said in `CONVENTIONS.md`
//! beside this folder.
//!
//! # A request, by its functions
//!
//! `POST /channels/{channel_id}/threads`, from the socket to the disk and back:
//!
//! 1. `svc-http/src/server.rs` finds the operation by method and path (`Routes::find`), and
//!    `svc-http/src/rest.rs` reads the head of the request into an [`op::RequestHead`].
//! 2. [`Service::admit`] lets it in from the head alone. `Dispatch::admit` runs `pipeline::admit`: rate
//!    limit, credential, capability, from the cache of live tokens if possible. It returns an
//!    [`op::Admission`].
//! 3. The shell reads the body into an [`op::Input`] and calls [`Service::run`]. `Dispatch::start` calls the
//!    operation's `prepare_call`, which decodes the input (`op/call/input.rs`) and returns a job.
//! 4. `Executor::write` queues the job for the lane of its workspace. `Writer::run` takes what is queued,
//!    begins one transaction for all of it, and locks the heads of their workspaces.
//! 5. In there `pipeline::run` finds the caller again and checks it, its capability, that it is not frozen,
//!    and the guards. This check decides; that of step 2 only keeps strangers out. If the request has an
//!    idempotency key and was answered before, a read answers it again (`op/run/retry.rs`). Else it runs the
//!    function, `create_thread` in `coordination/lifecycle/create.rs`, which calls `Write::emit` and inserts
//!    its row.
//! 6. Still in the transaction, the projectors run over the events, such as those of
//!    `coordination/queue_projector.rs`, and the audit row is written. `Batch::flush` writes the events;
//!    commit; `Batch::committed` announces the new LSN to the bus.
//! 7. The reply is encoded on the caller's side ([`op::Reply::body`]), cut to the bytes that its caller takes
//!    (`op/declare/fit.rs`), and framed by the shell.
//!
//! # A claim, by its functions
//!
//! `claim_next_thread` in `coordination/take.rs` asks `queue::first` for the best thread that the
//! caller's skills cover. If `obstacles::in_the_way` finds something in the way of its footprint,
//! `queue::park` puts it aside until `queue::free` brings it back; else `claims::begin` gives it a lease with
//! a fencing id and emits the event. The projector of the queue then takes the thread out of it. A claim of
//! one thread asks each rule in `coordination/rules.rs`. If nothing is there, an agent calls
//! `wait_for_ready`: `Parked::start` in `op/run/wait` polls once, listens at the bus from the position it has
//! read, and is polled again when an event matches its [`EventFilter`], in the order in which waits came.
//!
//! # The map
//!
//! Folders are layers; a module uses only those above it, and a test checks that.
//!
//! | layer | contents |
//! |---|---|
//! | vocabulary | one file each: [`id`], [`time`], [`mark`], [`text`], `token_text`,
//! | | [`ignored`], [`json`],
//! | | [`limits`], [`capability`], [`entropy`], [`mailbox`], [`egress`], [`spool`], [`config`],
//! | | [`data_dir`], [`data_access`] |
//! | | `schema`, `sync`, `monitor`, `timers`, `rate`, [`share`], `bisect` |
//! | `store` | the only place that names an engine: connections, values, columns, the executor, migrations |
//! | `log` | the event chain, canonical JSON, the batch that extends it, bus, feed, cache, seals, |
//! | | verifying and replaying it |
//! | [`op`] | `declare`: what an operation is; `call`: a request as a typed call; `run`: pipeline, waits |
//! | | `show`: OpenAPI, MCP, contracts, manual |
//! | `identity` | workspaces, members, tokens, delegation, apps, sessions, set-up, sign-in at a provider |
//! | `conversation` | channels, presence, messages, reactions and pins, follows, who sees what, addresses, |
//! | | votes, glossary, boots, memory, mentions, inboxes |
//! | `coordination` | threads, direct messages, dependencies, the queue, claims, freezing, budgets, |
//! | | results, the reaper |
//! | `gates` | what must be settled before a thread closes: reviews, land gate, approvals, refutations; |
//! | | what leads to a message |
//! | `integrity` | reading and following the event log, comparing tables with it, the audit trail, exports, |
//! | | retention, sharing a channel |
//! | `outreach` | what leaves the service: notification preferences, mail, web push; the board's pages |
//! | `host` | puts the parts together, exempt from the rule: [`service`], [`setup`], chores, the features |
//!
//! A lower feature reaches a higher one through what that registers: guards, projectors and conditions.
//! Periodic work is a chore.
//!
//! # Glossary
//!
//! The words that are ours, or that mean something narrower here than elsewhere:
//!
//! | word | meaning |
//! |---|---|
//! | thread | a task: a title, a state, messages, a result. Those of the system are "core threads" |
//! | claim | the right of one member to work on a thread, until its lease ends |
//! | footprint | what a thread will touch: items of one repository, and slots of the workspace |
//! | slot | a resource of the workspace that a number of claims may use at the same time |
//! | attempt | a claim that ended without a result: it was released, lapsed or taken away |
//! | exhausted | of a thread: nothing is left of a limit of its budget |
//! | obstacle | what is in the way of a footprint: an item that a claim touches, a full slot, a pause |
//! | park | to take a thread out of the ready queue, behind an obstacle that was in its way |
//! | fence | the id of a lease, which a change by its holder names; an older one is rejected |
//! | ceiling | a number of places, such as requests in flight, that workspaces and their clients share |
//! | place | a part of a ceiling that a client holds for a workspace, until it is dropped |
//! | pin | of a claim, the hash of the event that made it; of a channel, a message that is kept at hand |
//! | boot | of a channel: the text that an agent reads when it arrives there |
//! | mention | an `@` in the words of a message, and the handle or the group behind it |
//! | inbox | what concerns one member: an item for each message, else for each event, with its reasons |
//! | direct message | a private channel for talk, which belongs to a set of members and has no tasks |
//! | memory block | a text that members keep for each other and attach to threads |
//! | gate | what must be settled before a thread may close; an approval gate asks a person |
//! | link | of an approval gate: the sealed address of a page where a person decides; it gives no right |
//! | verdict | what a review or a land gate decides; whether it counts is up to the rules of judges |
//! | head | the row of a workspace with the last LSN, hash and epochs of its log |
//! | epoch | a number of a head that rises when cached entries of a kind become invalid |
//! | seal | to encrypt a message with a key of its own |
//! | tail | the newest events of a log, which its subscribers in a process share |
//! | floor | the position of the oldest event that a log still has |
//! | consumer | a durable subscription: a name of a member, and how far it has acknowledged the log |
//! | tap | a consumer inside the service, such as an index, and how far it has read each log |
//! | shelf | 4,096 LSNs of a workspace, whose message keys hang on one key tree |
//! | scrub | to remove the bytes of destroyed keys from the database's files |
//! | projector | a function that a change's events are shown to, in the transaction of the change |
//! | guard | a function that is asked before a change |
//! | condition | what must hold before a thread may make a move |
//! | framed row | a route that is no operation of the API: it has a typed function and a frame |
//! | frame | what surrounds the input and the output of a framed row on the wire |
//! | session | what a browser is signed in with: a signed cookie names it, and it ends by itself |
//! | provider | the OpenID Connect provider that people sign in at; also of what it says: its claims |
//! | login | a sign-in at the provider that has begun and not come back |
//! | sample | a thing that the world of the tests holds, under a name that examples use |
//! | way | how what members are told leaves the service: mail, web push |
//! | parcel | what one member has due on a way, leased to the process that sends it |
//! | chore | periodic work, in each process or under a lease |
//! | lane | a writer: one thread, one connection, one queue |
//! | repeat | a request that comes again with its idempotency key, and is answered as it was |
//! | refusal | an error with a code that an operation declares, as against a failure of the service |
//!
//! # What always holds
//!
//! - The acting identity comes from the credential, and it is looked up inside the transaction that it opens.
//! - Every change leaves an event or an audit row, in the transaction of the change. Only a sign-in that has
//!   begun, and nobody knows whose it is, leaves neither.
//! - Positions (LSNs) are dense per workspace. They are given out under the workspace's head row, so the
//!   order of allocation, of commit and of visibility is one.
//! - `content_hash = SHA-256(payload bytes)`, and the payload begins with every column of the event's
//!   row; whoever kept one head can verify the whole history before it.
//! - The plaintext of messages is stored sealed. Destroying a message's key destroys it everywhere; the chain
//!   still verifies.
//! - One member holds a claim, under a lease with a fencing id. A thread enters and leaves the ready queue in
//!   the transaction of whatever changes it.
//! - A request with an idempotency key changes something once; what is kept of its answer has no words and no
//!   secrets.
//! - A function may run again: it is pure apart from its context, and nothing it does counts before the
//!   commit.
//! - Nothing that decides is trusted across transactions unless a key that is read again inside the
//!   transaction says that it still holds.
//!
//! # How to add an operation
//!
//! 1. In the file of its feature, write an input type with `deny_unknown_fields`. Its doc comment is the
//!    operation's description and its fields' comments are the API's documentation; limits are types
//!    ([`text::Text`], [`text::Count`], [`text::Items`]), and so is a field that may be left as it is
//!    ([`text::Change`]) or cleared ([`text::Patch`]). Write an output type.
//! 2. Write the function: `fn(&Read, &Input) -> Result<Output>` reads, `fn(&mut Write, &Input) ->
//!    Result<Output>` changes. Load objects through the loaders, which fail with *not found* for what the
//!    caller may not see. Check before the first write; a rule about a field fails with
//!    [`Error::in_field`]. What a change returns is an [`op::Answer`], which says what of it is kept for a
//!    repeat of the request, and how that is answered. Emit an event with what the change has set, and with
//!    what was there before if a reader could not tell; add its kind to the feature. If something follows
//!    from it elsewhere, name the kind there: in a projector (the ready queue's is
//!    `coordination/queue_projector.rs`), in a wait's filter, or as what it [`Invalidates`].
//! 3. Add the operation to the feature's list by the builder that says what a call does: [`op::read`],
//!    [`op::long_read`], [`op::scan`], [`op::wait`], [`op::write`] (adds something each time),
//!    [`op::idempotent`], [`op::destructive`], [`op::homed`] (in a workspace that its input determines),
//!    [`op::looked`] (after a read that does what takes long), [`op::write_in_steps`] (takes the next thread
//!    of a queue), [`op::in_steps`], [`op::destructive_in_steps`],
//!    [`op::write_recording_refusals`] (adds something, and a refusal may leave an event). It has a title,
//!    when a model uses it, a path, the capability that [`capability`] says, an example that succeeds, and
//!    the codes that it can fail with beside those of
//!    every operation ([`Code::OF_EVERY_OPERATION`]). "Fails with" in the doc comment names the same codes,
//!    and some test has to see each of them: a whole `tests/run` fails otherwise. A model is shown the second
//!    paragraph of the doc comment, and the first one of each field's; later ones are for people.
//!    What of its answer is cut where that is too long follows from its type: name a long text and a JSON
//!    value as `op/declare/told.rs` knows them, and let the operation that reads one text alone read it on
//!    ([`op::Operation::reads_on`]).
//!    [`op::Operation`] has the other settings.
//! 4. A new column or table is a migration of the next number, in `migrations/sqlite` and
//!    `migrations/postgres` under one name, and a line in `store/migrate.rs`; one that was released is never
//!    changed. Times are `bigint`, in microseconds. The column is a field of its struct and a name in that
//!    struct's `columns!` list; the compiler finds who makes one. The feature declares what the columns hold
//!    ([`op::Records`]), and the table has an owner in `tests/it/house/tables.rs`.
//! 5. If the example names a thing that no world has yet, add a sample to the feature: a name, and the calls
//!    that make it ([`op::Sample`]).
//! 6. `UPDATE_GOLDEN=1 cargo test -p svc-tests agreed` writes the golden files, and
//!    `UPDATE_GOLDEN=1 cargo test -p svc-core manual` the manual pages; read their difference. Behaviour is
//!    tested in `tests/it/coordination` and the folders of the other layers.
//!
//! REST, OpenAPI, MCP, the contracts, the authorisation matrix and the test that REST and MCP agree follow
//! from that. A new feature adds a line to `host/features.rs`.
//!
//! # What is left to the shells
//!
//! The environment, the terminal, sockets and framing. The core reads no environment variable and prints
//! nothing; causes of failures go to `tracing`.

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
pub mod entropy;
pub mod capability;
mod schema;
pub mod page;
pub mod mailbox;
pub mod egress;
pub mod data_access;
pub mod spool;
pub mod config;
pub mod data_dir;
mod monitor;
mod timers;
mod rota;
mod rate;
pub mod share;
mod bisect;
mod store;
mod log;
pub mod op;
mod identity;
mod conversation;
mod coordination;
mod gates;
mod integrity;
mod outreach;
mod host;

pub use coordination::claims::{ClaimEnd, end_all};
pub use coordination::left_out::parts as claim_engine_parts;
pub use coordination::notices::{NewNotice, post_notice};
pub use error::{Code, EXIT_CODES, Error, PROBLEM_BASE, Problem, ProblemType, Result};
pub use host::features::{operation_table, verify_export, verify_state};
pub use host::rewrap::Rewrap;
pub use host::service::{Options, Service};
pub use host::{ops, service, setup};
pub use integrity::state::{Compared, Difference, DifferenceKind, StateReport, TableCounts};
pub use log::bus::EventFilter;
pub use log::cache::Cached;
pub use log::event::{Attribution, Event, EventKind, Invalidates, Recorded, Subject};
pub use log::replay::Replayed;
pub use log::{chain, key_tree, note, seal, verify};
pub use op::{PartHealth, WaitCounts};
pub use outreach::mail::{Letter, MAIL, MAIL_REFUSALS_MAX};
pub use rate::{Client, Holder, Peer, RateSettings, Standing};
pub use share::{Ceiling, Place};
pub use store::{
    Conn, Database, Engine, FromRow, FromValue, OpenMode, Param, Ran, Row, StatementCounts, ToParam, Value,
    Watcher,
};
