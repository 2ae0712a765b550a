//! The MCP server on top of the service.
//!
//! The operations that the caller may use become the list of tools, a tool call becomes an operation, and its
//! outcome becomes a result. Authorization is left to the core, at each call.

use std::borrow::Cow;
use std::sync::Arc;

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
use svc_core::limits::WAIT_INPUT_MAX_BYTES;
use svc_core::op::Input;
use svc_core::op::mcp::{self, ErrorForm};
use svc_core::text::echo;
use svc_core::{Code, Error, Result, Service};
use tokio::sync::watch;

use crate::catalogue::{Catalogue, Entry};
use crate::permits;
use crate::principal::Principal;

/// How long a client may cache results that hardly ever change, in milliseconds.
const CACHE_TTL_MS: u64 = 3_600_000;
/// The methods that exist, to distinguish invalid parameters from unknown methods.
const METHODS: &[&str] = &["server/discover", "tools/list", "tools/call"];
/// The methods that revision 2026-07-28 has removed.
const LEGACY_METHODS: &[&str] = &["initialize", "ping"];

const INSTRUCTIONS: &str = "\
This server coordinates agents. Work is a thread: a task in a channel with messages, a state and a result.\n\
1. `whoami` returns who you are; `list_channels` and `list_threads` list the existing work.\n\
2. `claim_next_thread` claims the next task that you can do and returns it with a lease. If it returns no \
thread there is nothing to do, and `wait_for_ready` waits until there is. Call `acknowledge_claim` when you \
start.\n\
3. `get_thread_context` returns the brief: read it before you start. Use `post_message` to tell the others \
what you are doing.\n\
4. While you work, call `renew_claim` before the lease expires. A lapsed claim goes to somebody else, and \
its lease id is rejected from then on.\n\
5. `set_thread_result` records the outcome, then `transition_thread` changes the thread's state. If you \
cannot finish, call `release_claim`.\n\
An error says what was rejected, with a stable code in brackets, why, and what to do.";

/// The MCP server. Clones serve the same service.
#[derive(Clone)]
pub struct Mcp {
    service: Service,
    catalogue: Arc<Catalogue>,
    caller: CallerSource,
}

/// The tool that a message calls, looked up by its name once.
///
/// A transport that looks it up before the message is handled puts it into the head of the request.
#[derive(Clone, Debug)]
pub struct CalledTool(Option<Arc<Entry>>);

impl CalledTool {
    /// Returns whether the call may be parked; false if there is no such tool.
    pub fn waits(&self) -> bool {
        self.0.as_ref().is_some_and(|entry| entry.waits())
    }

    /// Returns whether the call may change state; false if there is no such tool.
    pub fn changes(&self) -> bool {
        self.0.as_ref().is_some_and(|entry| entry.changes())
    }
}

#[derive(Clone)]
enum CallerSource {
    /// The bearer of this token, until the input ends.
    Fixed(SecretString, watch::Receiver<bool>),
    /// The [`Principal`] in each request.
    PerRequest,
}

impl Mcp {
    /// Creates a server for requests that carry a [`Principal`].
    pub fn for_many(service: Service) -> Result<Self> {
        Self::new(service, CallerSource::PerRequest)
    }

    /// Creates a server for one caller. Its waits end when `ended` becomes true.
    pub(crate) fn for_one(
        service: Service,
        token: SecretString,
        ended: watch::Receiver<bool>,
    ) -> Result<Self> {
        Self::new(service, CallerSource::Fixed(token, ended))
    }

    fn new(service: Service, caller: CallerSource) -> Result<Self> {
        let catalogue = Arc::new(Catalogue::of(service.table())?);
        Ok(Self { service, catalogue, caller })
    }

    /// Looks up a tool by its name.
    pub fn tool(&self, name: &str) -> CalledTool {
        CalledTool(self.catalogue.entry(name).cloned())
    }

    /// Returns the tool of a call, which the transport may have looked up.
    fn called(&self, name: &str, cx: &RequestContext<RoleServer>) -> CalledTool {
        let parts = cx.extensions.get::<http::request::Parts>();
        let known = parts.and_then(|parts| parts.extensions.get::<CalledTool>());
        known.cloned().unwrap_or_else(|| self.tool(name))
    }

    fn principal(&self, cx: &RequestContext<RoleServer>) -> Result<Principal> {
        match &self.caller {
            CallerSource::Fixed(token, _) => Ok(Principal::local(token.clone())),
            CallerSource::PerRequest => {
                let parts = cx.extensions.get::<http::request::Parts>();
                let principal = parts.and_then(|parts| parts.extensions.get::<Principal>());
                principal.cloned().ok_or_else(|| Error::internal("the request has no principal"))
            }
        }
    }

    /// Resolves when the input has ended, so that no client waits for a response any more.
    async fn ended(&self) {
        match &self.caller {
            CallerSource::Fixed(_, ended) => {
                // The sender is dropped only when the input has ended.
                let _ = ended.clone().wait_for(|ended| *ended).await;
            }
            CallerSource::PerRequest => std::future::pending().await,
        }
    }

    async fn call(&self, request: CallToolRequestParams, cx: &RequestContext<RoleServer>) -> ToolOutcome {
        let principal = self.principal(cx)?;
        let outcome = self.run(&principal, request, cx).await;
        if let Err(Failure::Refused(error)) = &outcome {
            principal.record_refusal(error);
        }
        outcome
    }

    /// Runs the tool's operation and takes the permit to build its response.
    ///
    /// The response of a read that cannot wait for a permit is dropped, and the operation is run again later.
    async fn run_operation(&self, principal: &Principal, entry: &Entry, input: &Input) -> Result<ToolOutput> {
        loop {
            let outcome = principal.request(&self.service, &entry.operation, input).await;
            principal.record_lsn(outcome.as_ref().map_or_else(Error::room_lsn, |reply| reply.lsn));
            let text = outcome?.body()?;
            if entry.changes() {
                principal.take_turn(text.len()).await;
                return ToolOutput::of(text);
            }
            if let Some(permit) = permits::take_ready(text.len()).await {
                principal.set_permit(permit);
                return ToolOutput::of(text);
            }
            drop(text);
            permits::fewer_ready().await?;
        }
    }

    async fn run(
        &self,
        principal: &Principal,
        call: CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> ToolOutcome {
        let CalledTool(Some(entry)) = self.called(&call.name, cx) else {
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
            outcome = self.run_operation(principal, &entry, &input) => Ok(outcome?),
            () = cx.ct.cancelled() => Err(Failure::Cancelled),
            () = self.ended(), if entry.waits() => Ok(ToolOutput::timed_out()),
            () = principal.deadline_passed(), if entry.waits() => Ok(ToolOutput::timed_out()),
        }
    }
}

/// The size in bytes of the message of a request, where the transport has not checked it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub usize);

/// Returns the error for a wait in a message that is too large.
pub fn large_wait() -> Error {
    let detail = format!("the message of a wait is larger than {WAIT_INPUT_MAX_BYTES} bytes");
    Error::new(Code::BodyTooLarge, detail)
}

/// The output of an operation: as JSON text for clients that read only text, and as structured content.
struct ToolOutput {
    text: String,
    structured: Value,
}

impl ToolOutput {
    /// Parses the text, once there is a permit.
    ///
    /// Until then a response waits as text, because its values are many times as large.
    fn of(text: Vec<u8>) -> Result<Self> {
        let text = String::from_utf8(text).map_err(Error::internal)?;
        Ok(Self { structured: serde_json::from_str(&text).map_err(Error::internal)?, text })
    }

    /// Returns the output of a wait that ends with the input or at the deadline of its batch.
    fn timed_out() -> Self {
        let structured = json!({"timed_out": true});
        Self { text: structured.to_string(), structured }
    }
}

type ToolOutcome = std::result::Result<ToolOutput, Failure>;

/// Why a tool call has no result.
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

fn tool_result(tool: &str, outcome: ToolOutcome) -> std::result::Result<CallToolResult, ErrorData> {
    match outcome {
        Ok(output) => Ok(answered(output)),
        Err(Failure::Refused(error)) => match mcp::error_form(error.code()) {
            ErrorForm::Error(code) => Err(refused(ErrorCode(code), &error)),
            ErrorForm::Result => Ok(refusal(tool, &error)),
        },
        Err(Failure::NoSuchTool(error)) => Err(refused(ErrorCode::INVALID_PARAMS, &error)),
        Err(Failure::Cancelled) => Err(ErrorData::internal_error("the request was cancelled", None)),
    }
}

fn answered(output: ToolOutput) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.content = vec![ContentBlock::text(output.text)];
    result.structured_content = Some(output.structured);
    result.is_error = Some(false);
    result
}

/// Returns an error result: text for the model, and for programs the problem in the metadata.
///
/// The problem is not structured content, which would have to match the tool's output schema: clients reject
/// a result that does not.
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

/// Returns the JSON-RPC error for a request whose result cannot carry a problem.
fn failed(error: &Error) -> ErrorData {
    refused(ErrorCode(error.code().status().into()), error)
}

/// Returns whether the request is of revision 2026-07-28 or later. Such requests state their revision.
fn is_modern(cx: &RequestContext<RoleServer>) -> bool {
    cx.meta.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn server_info() -> Implementation {
    Implementation::new("svc", env!("CARGO_PKG_VERSION")).with_title("Agent Collaboration Service")
}

/// Returns the metadata of a result, with the server's name for revisions since 2026-07-28.
///
/// These have no handshake that would carry it.
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

    /// Returns the revisions, newest first.
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
        result.ttl_ms = CACHE_TTL_MS;
        result.cache_scope = CacheScope::Public;
        Ok(result)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> std::result::Result<ListToolsResult, ErrorData> {
        let principal = self.principal(&cx).map_err(|error| failed(&error))?;
        let held = principal.held(&self.service).await.map_err(|error| failed(&error))?;
        let cursor = request.and_then(|request| request.cursor);
        let Some(page) = self.catalogue.page(&principal, held, cursor.as_deref()) else {
            let error = Error::malformed("the cursor does not belong to this list");
            return Err(refused(ErrorCode::INVALID_PARAMS, &error));
        };
        let mut result = ListToolsResult::with_all_items(page.tools);
        result.next_cursor = page.next_cursor;
        if is_modern(&cx) {
            result.ttl_ms = Some(CACHE_TTL_MS);
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
                let message = format!("the params of {method} do not have the form that it takes");
                (ErrorCode::INVALID_PARAMS, message)
            } else {
                (ErrorCode::METHOD_NOT_FOUND, format!("there is no method {}", echo(method)))
            };
        let principal = self.principal(&cx).map_err(|error| failed(&error))?;
        let error = principal.refuse(&self.service, Error::malformed(message)).await;
        Err(if error.code() == Code::Malformed { refused(code, &error) } else { failed(&error) })
    }

    // Methods of capabilities that are not declared do not exist, rather than return empty lists.

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
