//! Errors: one enum for the whole service.
//!
//! Each code has a status, a title and a sentence with the next step. The detail of a single error describes
//! the fault in this request; the next step is defined with the code. Causes are written to the server's log
//! and never returned to the caller. The shells map a [`Problem`] to RFC 9457 bodies, JSON-RPC errors and
//! exit codes, without further decisions.

pub(crate) mod blocked;
mod causes;
mod exit;
pub(crate) mod problem;

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::text::{redact_secrets, shortened};
pub use exit::EXIT_CODES;
pub use problem::{Problem, ProblemType};

/// The result type of the service.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Path prefix of every problem type, before its code.
pub const PROBLEM_BASE: &str = "/problems/";

macro_rules! codes {
    ($(
        $(#[doc = $doc:literal])*
        $variant:ident = $code:literal, $status:literal, $title:literal, $next:literal;
    )*) => {
        /// The stable codes of failures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[doc = $doc])* $variant),* }

        impl Code {
            /// Every code, in the order of the manual.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// Returns the stable identifier, which is the last segment of the problem type.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            /// Returns the HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$variant => $status),* }
            }

            /// Returns the short title, which is the same at every occurrence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }

            /// Returns the meaning of the code.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc,)*).trim_ascii()),* }
            }

            /// Returns the meaning of the code and the remedy.
            pub fn manual(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc,)* " ", $next).trim_ascii()),* }
            }

            /// Returns the next step for the caller, in one or two sentences.
            pub fn next(self) -> &'static str {
                match self { $(Self::$variant => $next),* }
            }
        }
    };
}

codes! {
    /// The request could not be read: a path, query or body field is missing, unknown or of the wrong form.
    ///
    /// `errors` lists up to 8 faulty fields, each with the expected value.
    Malformed = "malformed-request", 400, "The request could not be read",
        "Correct the fields that the detail names.";
    /// The request has no credential, or the credential is unknown, expired or revoked.
    Unauthenticated = "unauthenticated", 401, "A valid credential is needed",
        "Use a live token; over HTTP, send the token as `Authorization: Bearer`.";
    /// The credential is valid, but lacks a capability that the operation needs. The detail names the
    /// capability.
    MissingCapability = "missing-capability", 403, "The credential lacks a capability",
        "Use a token with the capability, or ask a holder of `token:admin` for such a token; `whoami` \
         lists the capabilities of your token.";
    /// A rule for this caller and this object forbids the change, such as editing the message of another
    /// member.
    Forbidden = "forbidden", 403, "Not allowed for this caller",
        "Leave the change to a member who may make it; the detail names such members if they are known.";
    /// A person has to accept this approval. `link` has the address of the page and the time when the link
    /// expires.
    NeedsPerson = "needs-person", 403, "A person has to accept this",
        "Give the address in `link` to a person, who decides on that page; `get_approval_gate` returns the \
         outcome.";
    /// The member is frozen and may only read until an administrator unfreezes it.
    MemberFrozen = "member-frozen", 403, "The member is frozen",
        "Ask an administrator to unfreeze the member, and change nothing until then.";
    /// The object does not exist, or the caller may not see it.
    NotFound = "not-found", 404, "Not found",
        "Check the id; if the object is in a private channel, ask a member of that channel to add you.";
    /// The service has no route with this path.
    UnknownRoute = "unknown-route", 404, "No such route",
        "Choose a route that `GET /openapi.json` lists.";
    /// The route exists, but does not accept this method; the `Allow` header lists the accepted methods.
    MethodNotAllowed = "method-not-allowed", 405, "Wrong method",
        "Use a method that the `Allow` header lists.";
    /// The handle is already in use in this workspace.
    HandleTaken = "handle-taken", 409, "The handle is taken",
        "Choose another handle.";
    /// The name is already in use.
    NameTaken = "name-taken", 409, "The name is taken",
        "Choose another name.";
    /// The object's current state does not allow the change.
    WrongState = "wrong-state", 409, "The state does not allow this",
        "Read the object again, and do what its state allows.";
    /// The object does not have the expected version: `version` is the current version, and `updated_by` is
    /// the member who wrote it.
    VersionConflict = "version-conflict", 409, "The object has changed since",
        "Read the object again, and make the change to its current version.";
    /// The thread cannot be closed yet: the detail and `reasons` list the conditions that are not met.
    CloseRefused = "close-refused", 409, "The thread may not close yet",
        "Meet the conditions in `reasons` and close the thread again, or cancel the thread.";
    /// The workspace is under a legal hold, so nothing in it is destroyed before the last hold is released.
    LegalHold = "legal-hold", 409, "The workspace is under a legal hold",
        "Leave the data unchanged, or have the holds released that `list_legal_holds` returns.";
    /// The operation needs a feature of the service that the operator has not enabled.
    NotEnabled = "not-enabled", 409, "Not enabled here",
        "Do without the operation, or ask the operator to set the variable that the detail names.";
    /// The lease id is not the lease id of the live claim: the claim lapsed, or was released or handed over.
    StaleClaim = "stale-claim", 409, "The claim is no longer current",
        "Stop working on the thread, or claim it again with `claim_thread`.";
    /// The change requires a claim that the caller does not hold: another member holds the claim, or no
    /// member does.
    ClaimNotHeld = "claim-not-held", 409, "The caller does not hold the claim",
        "Claim the thread with `claim_thread` if it is free, or leave the thread to the holder. If the \
         holder has disappeared, a member with `channel:admin` can release or hand off the claim.";
    /// This member cannot claim the thread now; the detail states the reason.
    NotClaimable = "not-claimable", 409, "The thread cannot be claimed",
        "Take another thread, or wait for one with `wait_for_ready`.";
    /// Live claims, a paused repository or a full slot conflict with the footprint: `conflicts` lists each
    /// conflict.
    FootprintConflict = "footprint-conflict", 409, "The footprint conflicts with others",
        "Take another thread, or wait for one with `wait_for_ready` until the conflicting claims have ended.";
    /// A limit of the thread's budget is used up: `exceeded` lists each such limit.
    BudgetExhausted = "budget-exhausted", 409, "The thread's budget is used up",
        "Take another thread, or have the limits in `exceeded` raised and the thread requeued.";
    /// The spawn budget of the workspace does not allow the child: `limit` is the name of the limit.
    SpawnRejected = "spawn-rejected", 409, "The spawn budget does not allow this child",
        "Do the work in the thread itself, or ask an administrator to raise the limit.";
    /// A different report of the thread's usage has this id.
    ReportTaken = "report-taken", 409, "The report id is taken",
        "Send a new report with a new id, and repeat an earlier report without changes.";
    /// The dependency would form a cycle in which every thread waits for itself.
    DependencyCycle = "dependency-cycle", 409, "The dependency would form a cycle",
        "Remove another dependency of the cycle first, or do without the new dependency.";
    /// You used this idempotency key for another request in the last 24 hours; nothing was changed.
    IdempotencyMismatch = "idempotency-mismatch", 422, "The key was used for another request",
        "Use a new key for each new request, and the same key only to repeat a request.";
    /// The first request with this idempotency key created the object `id`; its secret is shown only once.
    IdempotencyReplayed = "idempotency-replayed", 409, "The secret was already shown",
        "If you lost the secret, revoke the object `id` and create another one with a new key.";
    /// A thread cannot depend on a thread in a private channel other than its own, which some members may not
    /// see.
    ///
    /// A channel cannot become private while threads of public channels depend on its threads. A channel
    /// cannot become public while its threads depend on threads of other private channels. A message cannot
    /// refute a message that is visible to members who cannot see the refuting message.
    NotVisibleToAll = "not-visible-to-all", 409, "Not visible to all who would learn of it",
        "Keep related threads and messages in one channel, or remove the dependency or the refutation.";
    /// The event log does not verify: `lsn` is the position of the first broken event.
    EventLogBroken = "event-log-broken", 409, "The event log is broken",
        "Stop everything that uses the database, keep a copy of it, and restore a backup or truncate the \
         event log; `svc verify` in svc(1) describes how.";
    /// The tables of a workspace differ from the state that its log determines.
    StateDiffers = "state-differs", 409, "The tables differ from the log",
        "Stop everything that uses the database, keep a copy of it, and restore a backup; `svc verify` in \
         svc(1) describes how.";
    /// The log lacks the events after the cursor: they were pruned, or the log is older than the cursor.
    ///
    /// `floor` is the position of the oldest remaining event, and `snapshot` is the address of the current
    /// state.
    MustRefetch = "must_refetch", 409, "The cursor is no longer in the log",
        "Read the state again from `snapshot`, and continue from a position at or after `floor`.";
    /// The instance already has the workspace in the file, or is importing this workspace.
    WorkspaceExists = "workspace-exists", 409, "The workspace exists",
        "Use the existing workspace, or import the file as a new workspace.";
    /// The file is not a complete export that a known key has signed: `reason` is not-an-export, truncated,
    /// order, hash, signature, unknown-key, credential-field, unknown-field or chain. `record` is the number
    /// of the faulty record, if there is one.
    ExportInvalid = "export-invalid", 400, "The export is refused",
        "Export the workspace again; to import an export of another instance, add its public key to \
         SVC_EXPORT_VERIFY_KEYS.";
    /// The expected head is older than the log's floor: the log verifies, but does not prove anything about
    /// this head.
    BelowFloor = "below-floor", 409, "The expected head is below the floor",
        "Expect a head that is at least as new as the event before the floor.";
    /// The service is already set up; nothing was changed.
    AlreadyInitialised = "already-initialised", 409, "Already set up",
        "Use the existing service; `svc token mint --as-instance` creates a new token.";
    /// A variable or file of the configuration is missing, unknown or has a value that is not allowed.
    Configuration = "configuration", 500, "The configuration is refused",
        "Correct the variable or file that the detail names; svc-env(7) lists every variable.";
    /// The body is larger than the server accepts (`SVC_MAX_BODY_BYTES`).
    BodyTooLarge = "body-too-large", 413, "The body is too large",
        "Send a smaller body, or several requests.";
    /// The body is not sent as JSON.
    UnsupportedMediaType = "unsupported-media-type", 415, "The body is not JSON",
        "Send the body as `Content-Type: application/json`, in UTF-8 and without a content coding.";
    /// The `Expect` header expects something other than `100-continue`.
    ExpectationFailed = "expectation-failed", 417, "The expectation cannot be met",
        "Omit the `Expect` header, or send `Expect: 100-continue`.";
    /// There is no disk space for a file in a request or a response: other transfers have used up the limit,
    /// or the remaining space is reserved for the database.
    InsufficientStorage = "insufficient-storage", 507, "No space for the file",
        "Read or close the exports that you have begun, and try again once other transfers have ended; if \
         the failure persists, ask the operator to free space on the disk or to raise SVC_SPOOL_MAX_BYTES.";
    /// The body uses a transfer coding other than `chunked`.
    UnsupportedTransferCoding = "unsupported-transfer-coding", 501, "The transfer coding is not known",
        "Send the body without a transfer coding, or as `Transfer-Encoding: chunked`.";
    /// A limit is used up, for example on requests, imports, confirmation codes or concurrent long reads.
    RateLimited = "rate-limited", 429, "Too many requests",
        "Try again after the number of seconds in `Retry-After` or `retry_after_secs`.";
    /// The service failed because of an internal fault.
    Internal = "internal", 500, "Internal error",
        "Report the failure to the operator, who finds the cause in the server's log, and do not try again \
         immediately.";
    /// The service is overloaded and did not accept the request.
    Overloaded = "overloaded", 503, "Overloaded",
        "Try again in a second, or after the number of seconds that the response states.";
    /// The read has used up the time that one read may take (`SVC_READ_BUDGET_MS`), and has no pages that
    /// could end early.
    ReadTooExpensive = "read-too-expensive", 503, "The read takes too long",
        "Request less data: a smaller `limit`, a narrower filter or a single object.";
    /// The server is shutting down and did not accept the request, or ended a wait.
    Closing = "closing", 503, "The server is closing",
        "Try again: another server will respond, or the same server after its restart.";
    /// The database cannot serve the request now. Nothing was changed, unless the detail says that the change
    /// was begun.
    ///
    /// The database did not respond in time, its disk is full or failing, another process or server holds a
    /// lock that the request needs, or too many requests were ahead of this request.
    Unavailable = "unavailable", 503, "The database is unavailable",
        "Try again shortly; if the failure persists, report it to the operator.";
    /// The identity provider does not respond, or responds incorrectly.
    ProviderUnavailable = "provider-unavailable", 503, "The identity provider is unavailable",
        "Sign in again shortly, or with a token; if the failure persists, report it to the operator.";
    /// The database failed during the commit, so the change may or may not have happened.
    ///
    /// The connection broke, the reply did not arrive in time, or the disk failed.
    OutcomeUnknown = "outcome-unknown", 503, "The outcome is unknown",
        "Read the object to see whether the change was made before you send the request again.";
}

impl Code {
    /// The codes with which every operation can fail, in the order of [`Code::ALL`].
    ///
    /// An operation declares all other codes with which it can fail.
    pub const OF_EVERY_OPERATION: &[Self] = &[
        Self::Malformed,
        Self::Unauthenticated,
        Self::MissingCapability,
        Self::MemberFrozen,
        Self::NotFound,
        Self::BodyTooLarge,
        Self::UnsupportedMediaType,
        Self::ExpectationFailed,
        Self::UnsupportedTransferCoding,
        Self::RateLimited,
        Self::Internal,
        Self::Overloaded,
        Self::ReadTooExpensive,
        Self::Closing,
        Self::Unavailable,
        Self::OutcomeUnknown,
    ];
}

impl Code {
    /// Returns the code whose identifier is `name`, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }

    /// Returns the problem type, which is the path of its documentation page.
    pub fn address(self) -> String {
        format!("{PROBLEM_BASE}{}", self.name())
    }

    /// Returns the documentation page of the problem type.
    pub fn page(self) -> ProblemType {
        ProblemType {
            kind: self.address(),
            title: self.title(),
            status: self.status(),
            description: self.manual(),
        }
    }
}

/// Name of the member of a problem document that lists each fault of an input, with its field.
pub(crate) const ERRORS: &str = "errors";

/// A failure, with a report for the caller and a cause for the server's log.
#[derive(Clone, Debug)]
pub struct Error {
    code: Code,
    detail: Cow<'static, str>,
    extra: Map<String, Value>,
    /// The next step, if the advice of the code does not apply.
    next: Option<&'static str>,
    room_lsn: Option<i64>,
    is_repeated: bool,
    /// Maximum bytes of the answer, if the request has set a maximum.
    pub(crate) max_bytes: Option<NonZeroU32>,
    cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.detail)
    }
}

impl std::error::Error for Error {
    /// Returns the cause itself instead of its source, so that it can be downcast.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}

impl Error {
    /// Creates an error with the code `code`.
    ///
    /// `detail` describes the fault in this request. The middle of a long detail is omitted, and secrets of
    /// the service are removed from it.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: redact_secrets(shortened(detail.into())),
            extra: Map::new(),
            next: None,
            room_lsn: None,
            is_repeated: false,
            max_bytes: None,
            cause: None,
        }
    }

    /// Creates an error for a request that could not be read.
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Malformed, detail)
    }

    /// Creates an error for a field of an input. `detail` describes the expected value, or the fault.
    pub fn in_field(field: &str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::in_fields(&[field], detail)
    }

    /// Creates an error for several fields of an input. `detail` describes the fault in these fields.
    pub fn in_fields(fields: &[&str], detail: impl Into<Cow<'static, str>>) -> Self {
        let detail = redact_secrets(shortened(detail.into()));
        let names: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
        let faults: Vec<Value> =
            fields.iter().map(|field| json!({"field": field, "detail": detail})).collect();
        Self::malformed(format!("{}: {detail}", names.join(", "))).with(ERRORS, faults)
    }

    /// Attributes an error in a value to the input field `field`. Errors with other codes are unchanged.
    pub fn about(self, field: &str) -> Self {
        match self.code {
            Code::Malformed if !self.extra.contains_key(ERRORS) => Self::in_field(field, self.detail),
            _ => self,
        }
    }

    /// Creates an error for an object that does not exist for this caller. `what` is the kind of object.
    pub fn not_found(what: &'static str) -> Self {
        Self::new(Code::NotFound, format!("there is no such {what}, or you may not see it"))
    }

    /// Creates an error for a rule that forbids the action to this caller.
    pub fn forbidden(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Forbidden, detail)
    }

    /// Creates an error for a change that the object's state does not allow.
    pub fn wrong_state(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::WrongState, detail)
    }

    /// Creates an error for an invalid configuration of this service.
    pub fn configuration(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Configuration, detail)
    }

    /// Creates an error for a failure of the service itself. `cause` is written only to the server's log.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(Code::Internal, "internal error; the server's log has the cause").caused_by(cause)
    }

    /// Adds a member to the problem document.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.extra.insert(name.to_owned(), json!(value));
        self
    }

    /// Replaces the advice of the code on what to do next.
    #[must_use]
    pub fn with_next(self, next: &'static str) -> Self {
        Self { next: Some(next), ..self }
    }

    /// Returns the next step for the caller, in one or two sentences.
    pub fn next_step(&self) -> &str {
        self.next.unwrap_or_else(|| self.code.next())
    }

    /// Prefixes the error's `link` with the URL of the service, if the link is only a path.
    #[must_use]
    pub fn with_link_base(mut self, service: &str) -> Self {
        let url = self.extra.get_mut("link").and_then(|link| link.get_mut("url"));
        if let Some(Value::String(url)) =
            url.filter(|url| url.as_str().is_some_and(|url| url.starts_with('/')))
        {
            url.insert_str(0, service);
        }
        self
    }

    /// Adds the cause for the server's log.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.cause = Some(Arc::from(cause.into()));
        self
    }

    /// Records, in a failure of the service, that a step of the change was already committed.
    pub(crate) fn with_incomplete_change(self) -> Self {
        if !matches!(self.code, Code::Unavailable | Code::Overloaded | Code::Closing) {
            return self;
        }
        Self { detail: "the change was begun and is not complete".into(), ..self }
            .with_next("Send the request again: the change continues.")
    }

    /// Marks the error as the answer to a repeated request.
    pub(crate) fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// Returns whether the error is the answer to a repeated request.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Adds the last position in the log of the caller's workspace, once the caller is known.
    pub(crate) fn with_log_position(self, room_lsn: Option<i64>) -> Self {
        Self { room_lsn, ..self }
    }

    /// Returns the last position in the log of the caller's workspace, if the caller was known.
    ///
    /// Returns `None` for rejected callers (401, 403, 429) and for failures of the service (5xx), which
    /// reveal nothing about the log.
    pub fn room_lsn(&self) -> Option<i64> {
        let status = self.code.status();
        self.room_lsn.filter(|_| !matches!(status, 401 | 403 | 429) && status < 500)
    }

    /// Returns the code of the failure.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the HTTP status of the code.
    pub fn status(&self) -> u16 {
        self.code.status()
    }

    /// Returns the name of the first invalid field of the input, if the input was invalid.
    pub fn field(&self) -> Option<&str> {
        self.extra.get(ERRORS)?.get(0)?.get("field")?.as_str()
    }

    /// Returns the detail for the caller.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the cause for the server's log, if there is one.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.cause.as_deref()
    }

    /// Returns the number of seconds to wait before a retry, for the `Retry-After` header.
    pub fn retry_after_secs(&self) -> Option<u64> {
        match self.code {
            Code::RateLimited | Code::Overloaded if self.extra.contains_key("retry_after_secs") => {
                self.extra.get("retry_after_secs").and_then(Value::as_u64)
            }
            Code::Overloaded | Code::Closing | Code::Unavailable => Some(1),
            _ => None,
        }
    }
}

/// Returns whether an I/O operation failed because the disk has no space for the data.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_states_its_meaning_and_the_remedy() {
        for code in Code::ALL {
            let sentences = code.manual().trim_end_matches('.').split(". ").count();
            assert!(sentences > 1 || code.manual().contains(';'), "{}: {}", code.name(), code.manual());
        }
    }

    #[test]
    fn codes_are_unique_and_explained() {
        let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| Code::named(code.name()) == Some(*code)));
        assert_eq!(Code::named("no-such"), None);
        for code in Code::ALL {
            assert!(code.manual().len() > 20 && (400..600).contains(&code.status()), "{code:?}");
        }
    }

    #[test]
    fn every_code_maps_to_a_listed_exit_code() {
        for code in Code::ALL {
            let exit = code.exit_code();
            assert!(exit != 0 && EXIT_CODES.iter().any(|(known, _)| *known == exit), "{code:?}");
        }
    }

    #[test]
    fn exit_codes_distinguish_the_kinds_of_failure() {
        let cases = [
            (Code::Internal, 1),
            (Code::Unavailable, 1),
            (Code::Malformed, 2),
            (Code::Configuration, 2),
            (Code::EventLogBroken, 3),
            (Code::BelowFloor, 7),
            (Code::NotFound, 4),
            (Code::AlreadyInitialised, 5),
            (Code::WrongState, 5),
            (Code::Unauthenticated, 6),
            (Code::MissingCapability, 6),
        ];
        for (code, exit) in cases {
            assert_eq!(code.exit_code(), exit, "{code:?}");
        }
    }

    #[test]
    fn a_line_has_every_cause_exactly_once() {
        let inner =
            Error::new(Code::Unavailable, "it cannot be reached").caused_by("refused:\n  by the host");
        let outer = Error::configuration("correct the address").caused_by(inner);
        assert_eq!(outer.line(), "correct the address (it cannot be reached: refused: by the host)");
        assert_eq!(Error::wrong_state("no").line(), "no");
        let internal = Error::configuration("correct it").caused_by(Error::internal("it is wrong"));
        assert_eq!(internal.line(), "correct it (it is wrong)");
    }

    #[test]
    fn a_cause_never_reaches_the_caller() {
        let error = Error::internal("password in a connection string").with("lsn", 4);
        let body = serde_json::to_string(&error.problem()).unwrap();
        assert!(!body.contains("password"), "{body}");
        assert!(body.contains("\"type\":\"/problems/internal\"") && body.contains("\"lsn\":4"), "{body}");
    }
}
