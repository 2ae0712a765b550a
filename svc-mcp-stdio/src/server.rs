//! The protocol's server over the service: what the caller may see becomes the list of tools, a tool call becomes
//! an operation, an outcome becomes a result. It decides nothing: who may do what is asked of the core each time.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ContentBlock, CustomRequest, CustomResult, DiscoverResult,
    ErrorCode, ErrorData, Implementation, InitializeRequestParams, InitializeResult, InitializeResultMethod,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::capability::Capabilities;
use svc_core::limits::WAIT_INPUT_MAX_BYTES;
use svc_core::op::mcp::{self, ErrorForm};
use svc_core::op::{Admission, Head, Input, Operation, Reply, Surface};
use svc_core::text::echo;
use svc_core::{Client, Code, Error, Result, Service};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::catalogue::{Catalogue, Entry};
use crate::permits::{self, RequestPermit};

/// The path that audit rows give for a tool call.
const PATH: &str = "/mcp";
/// How long a client may keep what hardly ever changes.
const FRESH_MS: u64 = 3_600_000;
/// The operation that tells a credential what it can do.
const WHOAMI: &str = "whoami";
/// The methods that are served; parameters of the wrong form are told apart from methods that are not there.
const METHODS: &[&str] = &["server/discover", "tools/list", "tools/call"];
/// Those that revision 2026-07-28 has no more.
const LEGACY_METHODS: &[&str] = &["initialize", "ping"];

const INSTRUCTIONS: &str = "\
This server coordinates agents. Work is a thread: a task in a channel with messages, a state and a result.\n\
1. `whoami` says who you are; `list_channels` and `list_threads` show what there is.\n\
2. `claim_next_thread` gives you the next task that you can do, and with it a lease; no thread means there is \
nothing to do, and `wait_for_ready` waits for some. Call `acknowledge_claim` when you begin.\n\
3. `get_thread_context` is the brief: read it before you work. `post_message` tells the others what you do.\n\
4. While you work, `renew_claim` before the lease ends; a lapsed claim goes to somebody else, and its lease id is \
refused from then on.\n\
5. `set_thread_result` records what came of it, then `transition_thread` moves the thread on. If you cannot finish, \
`release_claim`.\n\
A refusal says what was refused, with a stable code in brackets, why, and what to do.";

/// Who a request comes from, for a server that has many callers: put into the extensions of the HTTP request.
#[derive(Clone, Debug)]
pub struct Principal {
    head: Head,
    admission: Arc<Mutex<Admitted>>,
    client: Option<Client>,
    capabilities: Option<Capabilities>,
    /// When its waits are over, whatever they ask for.
    deadline: Option<Instant>,
    refusal: Arc<OnceLock<Error>>,
    room_lsn: Arc<AtomicI64>,
    /// That of the message or of its answer, while one of them is parsed.
    permit: Arc<Mutex<Option<RequestPermit>>>,
}

/// By what a message is let in. It is counted, and recorded, once: by what it asks first.
#[derive(Debug, Default)]
enum Admitted {
    /// Whatever it asks is let in by itself.
    #[default]
    Never,
    /// It has asked nothing yet.
    Unasked(Admission),
    Asked(Admission),
}

impl Admitted {
    /// What the next question is asked by.
    fn next(&mut self) -> Option<Admission> {
        let (admission, follow_up) = match std::mem::take(self) {
            Self::Never => return None,
            Self::Unasked(admission) => (admission.clone(), admission.follow_up()),
            Self::Asked(admission) => (admission.clone(), admission),
        };
        *self = Self::Asked(follow_up);
        Some(admission)
    }
}

impl Principal {
    /// Whoever sends `head`. What it asks is counted each time, and decides about the credential.
    pub fn new(head: Head) -> Self {
        Self {
            head,
            admission: Arc::default(),
            client: None,
            capabilities: None,
            deadline: None,
            refusal: Arc::default(),
            room_lsn: Arc::new(AtomicI64::new(UNKNOWN)),
            permit: Arc::default(),
        }
    }

    /// Whoever sends `head`, if its credential is live; for one message, which is counted.
    pub async fn admitted(service: &Service, head: Head) -> Result<Self> {
        Self::new(head).again(service).await
    }

    /// The same for one more message, which is counted.
    pub async fn again(&self, service: &Service) -> Result<Self> {
        let admission = service.admit(None, self.head.clone()).await?;
        let client = admission.client();
        let admission = Arc::new(Mutex::new(Admitted::Unasked(admission)));
        Ok(Self { admission, client, refusal: Arc::default(), ..self.clone() })
    }

    /// The same, whose waits are over at `deadline`: together they take no longer than one.
    #[must_use]
    pub fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Whom its requests are charged to, if it was admitted.
    pub fn client(&self) -> Option<Client> {
        self.client
    }

    /// Whether nothing has been asked for the message, so that nothing has decided about its credential.
    pub fn is_unasked(&self) -> bool {
        matches!(*self.lock(), Admitted::Unasked(_))
    }

    fn lock(&self) -> MutexGuard<'_, Admitted> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of a message of so many bytes. It is over when something is asked.
    pub async fn take_turn(&self, bytes: usize) {
        let turn = permits::take(bytes).await;
        self.set_permit(turn);
    }

    /// Says that nothing of a message or of its answer is parsed any more.
    pub fn end_turn(&self) {
        self.set_permit(None);
    }

    fn set_permit(&self, permit: Option<RequestPermit>) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    /// What the next question is asked by.
    async fn admission(&self, service: &Service, operation: Option<&Operation>) -> Result<Admission> {
        // Whoever waits for the database keeps nobody waiting.
        self.end_turn();
        let admission = self.lock().next();
        match admission {
            Some(admission) => Ok(admission),
            None => service.admit(operation, self.head.clone()).await,
        }
    }

    /// The same, with what the bearer can do.
    pub async fn with_capabilities(self, service: &Service) -> Result<Self> {
        let held = self.capabilities(service).await?;
        Ok(Self { capabilities: Some(held), ..self })
    }

    /// Over MCP, the bearer of `token` on this machine.
    fn local(token: SecretString) -> Self {
        Self::new(head(Some(token), None))
    }

    /// How far the log of the bearer's workspace reached when the core last answered.
    pub fn room_lsn(&self) -> Option<i64> {
        Some(self.room_lsn.load(Ordering::Relaxed)).filter(|lsn| *lsn != UNKNOWN)
    }

    fn saw(&self, lsn: Option<i64>) {
        self.room_lsn.store(lsn.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// Why the core has refused the credential as such, if it has.
    pub fn refusal(&self) -> Option<&Error> {
        self.refusal.get()
    }

    /// Comes back at the deadline.
    async fn is_over(&self) {
        match self.deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    async fn ask(&self, service: &Service, operation: &Arc<Operation>, input: &Input) -> Result<Reply> {
        let admission = self.admission(service, Some(operation)).await?;
        service.run(operation, admission, input).await
    }

    /// Why a message that calls no operation, or could not be read, is refused: for its credential, if that has ended by
    /// now.
    pub async fn refuse(&self, service: &Service, refusal: Error) -> Error {
        let error = match self.admission(service, None).await {
            Ok(admission) => service.refuse(None, admission, refusal).await,
            Err(error) => error,
        };
        self.saw(error.room_lsn());
        self.note(&error);
        error
    }

    /// Keeps why the core has refused the credential as such.
    fn note(&self, error: &Error) {
        if error.code() == Code::Unauthenticated {
            // A second refusal of the same request says nothing new.
            let _ = self.refusal.set(error.clone());
        }
    }

    async fn capabilities(&self, service: &Service) -> Result<Capabilities> {
        let reply = self.ask(service, service.operation(WHOAMI)?, &Input::json("{}")).await?;
        let answer: Value = serde_json::from_slice(&reply.body()?).map_err(Error::internal)?;
        self.saw(reply.lsn);
        serde_json::from_value(answer.get("capabilities").cloned().unwrap_or_default())
            .map_err(Error::internal)
    }
}

/// The head of a request over MCP.
pub fn head(credential: Option<SecretString>, peer: Option<IpAddr>) -> Head {
    Head { credential, surface: Surface::Mcp, path: PATH.to_owned(), peer }
}

/// Stands for a log whose end was not told.
const UNKNOWN: i64 = -1;

/// The server. Clones serve the same service.
#[derive(Clone)]
pub struct Mcp {
    service: Service,
    catalogue: Arc<Catalogue>,
    caller: CallerIs,
}

#[derive(Clone)]
enum CallerIs {
    /// The bearer of this token, until the input ends.
    Always(SecretString, watch::Receiver<bool>),
    /// Whoever the request's [`Principal`] is.
    InTheRequest,
}

impl Mcp {
    /// A server for requests that carry a [`Principal`].
    pub fn for_many(service: Service) -> Result<Self> {
        Self::new(service, CallerIs::InTheRequest)
    }

    /// A server for one caller. Waits are over when `ended` permits true.
    pub(crate) fn for_one(
        service: Service,
        token: SecretString,
        ended: watch::Receiver<bool>,
    ) -> Result<Self> {
        Self::new(service, CallerIs::Always(token, ended))
    }

    fn new(service: Service, caller: CallerIs) -> Result<Self> {
        let catalogue = Arc::new(Catalogue::of(service.table())?);
        Ok(Self { service, catalogue, caller })
    }

    /// Whether a call of `tool` may change something.
    pub fn changes(&self, tool: &str) -> bool {
        self.catalogue.entry(tool).is_some_and(Entry::changes)
    }

    /// Whether a call of `tool` may be parked.
    pub fn waits(&self, tool: &str) -> bool {
        self.catalogue.entry(tool).is_some_and(Entry::waits)
    }

    fn principal(&self, cx: &RequestContext<RoleServer>) -> Result<Principal> {
        match &self.caller {
            CallerIs::Always(token, _) => Ok(Principal::local(token.clone())),
            CallerIs::InTheRequest => {
                let parts = cx.extensions.get::<http::request::Parts>();
                let principal = parts.and_then(|parts| parts.extensions.get::<Principal>());
                principal.cloned().ok_or_else(|| Error::internal("the request has no principal"))
            }
        }
    }

    async fn held(&self, principal: &Principal) -> Result<Capabilities> {
        match principal.capabilities {
            Some(held) => Ok(held),
            None => principal.capabilities(&self.service).await,
        }
    }

    /// Comes back when nobody is left to wait for an answer.
    async fn ended(&self) {
        match &self.caller {
            CallerIs::Always(_, ended) => {
                // The other half goes away only when the input has ended.
                let _ = ended.clone().wait_for(|ended| *ended).await;
            }
            CallerIs::InTheRequest => std::future::pending().await,
        }
    }

    async fn call(&self, request: CallToolRequestParams, cx: &RequestContext<RoleServer>) -> Outcome {
        let principal = self.principal(cx)?;
        let outcome = self.run(&principal, request, cx).await;
        if let Err(Failure::Refused(error)) = &outcome {
            principal.note(error);
        }
        outcome
    }

    /// What the tool answers, and with it the turn of that. What cannot wait for its turn is dropped, and asked for
    /// again later, if it changes nothing.
    async fn answer(&self, principal: &Principal, entry: &Entry, input: &Input) -> Result<Vec<u8>> {
        loop {
            let outcome = principal.ask(&self.service, &entry.operation, input).await;
            principal.saw(outcome.as_ref().map_or_else(Error::room_lsn, |reply| reply.lsn));
            let body = outcome?.body()?;
            if entry.changes() {
                principal.take_turn(body.len()).await;
                return Ok(body);
            }
            if let Some(turn) = permits::take_ready(body.len()).await {
                principal.set_permit(turn);
                return Ok(body);
            }
            drop(body);
            permits::fewer_ready().await?;
        }
    }

    async fn run(
        &self,
        principal: &Principal,
        call: CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Outcome {
        let Some(entry) = self.catalogue.entry(&call.name) else {
            let message = format!("there is no tool called \"{}\"; see tools/list", echo(&call.name));
            return Err(match principal.refuse(&self.service, Error::malformed(message)).await {
                error if error.code() == Code::Malformed => Failure::NoSuchTool(error),
                error => Failure::Refused(error),
            });
        };
        if entry.waits() && cx.extensions.get::<Size>().is_some_and(|Size(size)| *size > WAIT_INPUT_MAX_BYTES)
        {
            return Err(principal.refuse(&self.service, large_wait()).await.into());
        }
        let arguments = serde_json::to_vec(&call.arguments.unwrap_or_default()).map_err(Error::internal)?;
        let input = Input::json(arguments);
        tokio::select! {
            outcome = self.answer(principal, entry, &input) => Ok(outcome?),
            () = cx.ct.cancelled() => Err(Failure::Cancelled),
            () = self.ended(), if entry.waits() => Ok(TIMED_OUT.to_vec()),
            () = principal.is_over(), if entry.waits() => Ok(TIMED_OUT.to_vec()),
        }
    }
}

/// The bytes of the message that a request came in, where the transport has not looked at them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub usize);

/// The refusal of a wait that came in too large a message.
pub fn large_wait() -> Error {
    let detail = format!("the message of a wait is larger than {WAIT_INPUT_MAX_BYTES} bytes");
    Error::new(Code::BodyTooLarge, detail)
}

/// What a wait answers when the input ends, or the time of its batch: the client's time is over.
const TIMED_OUT: &[u8] = br#"{"timed_out":true}"#;

/// The encoded answer of an operation.
type Outcome = std::result::Result<Vec<u8>, Failure>;

/// Why a tool call has no answer.
enum Failure {
    Refused(Error),
    NoSuchTool(Error),
    Cancelled,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

fn tool_result(tool: &str, outcome: Outcome) -> std::result::Result<CallToolResult, ErrorData> {
    match outcome {
        Ok(body) => answered(&body),
        Err(Failure::Refused(error)) => match mcp::error_form(error.code()) {
            ErrorForm::Error(code) => Err(refused(ErrorCode(code), &error)),
            ErrorForm::Result => Ok(refusal(tool, &error)),
        },
        Err(Failure::NoSuchTool(error)) => Err(refused(ErrorCode::INVALID_PARAMS, &error)),
        Err(Failure::Cancelled) => Err(ErrorData::internal_error("the request was cancelled", None)),
    }
}

/// A result: the JSON as structured content and, for clients that read text alone, as text.
fn answered(body: &[u8]) -> std::result::Result<CallToolResult, ErrorData> {
    let garbled = |_| ErrorData::internal_error("the answer could not be encoded", None);
    let structured: Value = serde_json::from_slice(body).map_err(garbled)?;
    let mut result = CallToolResult::default();
    result.content = vec![ContentBlock::text(String::from_utf8_lossy(body))];
    result.structured_content = Some(structured);
    result.is_error = Some(false);
    Ok(result)
}

/// A result that says why there is none: as text for the model, and for programs as the problem among the metadata.
/// Structured content would have to be of the tool's output schema, and clients refuse what is not.
fn refusal(tool: &str, error: &Error) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.content = vec![ContentBlock::text(mcp::refusal_text(tool, error))];
    result.is_error = Some(true);
    result.meta = Some(with_member(None, mcp::PROBLEM, json!(error.problem())));
    result
}

fn refused(code: ErrorCode, error: &Error) -> ErrorData {
    ErrorData::new(code, error.detail().to_owned(), Some(json!(error.problem())))
}

/// The error of what has no result in which a problem could stand.
fn failed(error: &Error) -> ErrorData {
    refused(ErrorCode(error.code().status().into()), error)
}

/// Whether the request is of revision 2026-07-28 or later, which each such request says of itself.
fn is_modern(cx: &RequestContext<RoleServer>) -> bool {
    cx.meta.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn server_info() -> Implementation {
    Implementation::new("svc", env!("CARGO_PKG_VERSION")).with_title("Agent Collaboration Service")
}

/// The metadata of a result with the server's name: since 2026-07-28 there is no handshake that would tell it.
fn meta(cx: &RequestContext<RoleServer>, of_result: Option<MetaObject>) -> Option<MetaObject> {
    if is_modern(cx) {
        Some(with_member(of_result, "io.modelcontextprotocol/serverInfo", json!(server_info())))
    } else {
        of_result
    }
}

fn with_member(meta: Option<MetaObject>, name: &str, value: Value) -> MetaObject {
    let mut meta = meta.unwrap_or_default();
    meta.0.insert(name.to_owned(), value);
    meta
}

fn tools_only() -> ServerCapabilities {
    ServerCapabilities::builder().enable_tools().build()
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(tools_only())
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(server_info())
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.catalogue.entry(name).map(|entry| entry.tool.clone())
    }

    /// The newest first.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(ProtocolVersion::KNOWN_VERSIONS.iter().rev().cloned().collect())
    }

    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> std::result::Result<InitializeResult, ErrorData> {
        if is_modern(&cx) {
            return Err(ErrorData::method_not_found::<InitializeResultMethod>());
        }
        let answer = self.negotiate_initialize(&request)?;
        request.protocol_version = answer.protocol_version.clone();
        cx.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn discover(
        &self,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<DiscoverResult, ErrorData> {
        let mut result = DiscoverResult::new(self.supported_protocol_versions().into_owned(), tools_only())
            .with_server_info(server_info());
        result.instructions = Some(INSTRUCTIONS.to_owned());
        result.ttl_ms = FRESH_MS;
        result.cache_scope = CacheScope::Public;
        Ok(result)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> std::result::Result<ListToolsResult, ErrorData> {
        let principal = self.principal(&cx).map_err(|error| failed(&error))?;
        let held = self.held(&principal).await.map_err(|error| failed(&error))?;
        let cursor = request.and_then(|request| request.cursor);
        let Some(page) = self.catalogue.page(held, cursor.as_deref()) else {
            let error = Error::malformed("the cursor is not one of this list");
            return Err(refused(ErrorCode::INVALID_PARAMS, &error));
        };
        let mut result = ListToolsResult::with_all_items(page.tools);
        result.next_cursor = page.next_cursor;
        if is_modern(&cx) {
            result.ttl_ms = Some(FRESH_MS);
            result.cache_scope = Some(CacheScope::Private);
            result.meta = meta(&cx, None);
        }
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let tool = request.name.clone();
        let mut result = tool_result(&tool, self.call(request, &cx).await)?;
        result.meta = meta(&cx, result.meta.take());
        Ok(result.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        cx: RequestContext<RoleServer>,
    ) -> std::result::Result<CustomResult, ErrorData> {
        let method = request.method.as_str();
        let (code, message) =
            if METHODS.contains(&method) || (LEGACY_METHODS.contains(&method) && !is_modern(&cx)) {
                let message = format!("the params of {method} are not of the form that it takes");
                (ErrorCode::INVALID_PARAMS, message)
            } else {
                (ErrorCode::METHOD_NOT_FOUND, format!("there is no method {}", echo(method)))
            };
        let principal = self.principal(&cx).map_err(|error| failed(&error))?;
        let error = principal.refuse(&self.service, Error::malformed(message)).await;
        Err(if error.code() == Code::Malformed { refused(code, &error) } else { failed(&error) })
    }

    // What is not declared among the capabilities is not there, rather than empty.

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }
}
