//! An agent with an independent client: that of rmcp, for the Model Context Protocol.
//!
//! ```text
//! mcp-client rmcp|rmcp-legacy URL          calls a server
//! mcp-client rmcp|rmcp-legacy SVC DATA     starts `SVC mcp-stdio --data DATA`
//! ```
//!
//! The token is in `SVC_TOKEN`; the steps are one JSON object on standard input. It prints the outcome of
//! each step as one line of JSON, after it has closed the connection.

use std::error::Error;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ClientRequest, GetPromptRequestParams, JsonObject, ProgressNotificationParam,
    ProtocolVersion, ReadResourceRequestParams, Request,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, ServiceError};
use serde_json::{Map, Value, json};
use svc_tests::runtime;
use tokio::process::Command;

/// A counter of progress notifications.
#[derive(Clone, Default)]
struct ProgressCounter(Arc<AtomicUsize>);

impl ClientHandler for ProgressCounter {
    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

type Client = RunningService<RoleClient, ProgressCounter>;
type Failure = Box<dyn Error>;

/// The service, and the protocol used with it.
struct ConnectedService {
    mode: ClientLifecycleMode,
    server: String,
    data: Option<String>,
}

impl ConnectedService {
    async fn connect(&self, token: &str) -> Result<Client, Failure> {
        let heard = ProgressCounter::default();
        let mode = self.mode.clone();
        let Some(data) = &self.data else {
            let config = StreamableHttpClientTransportConfig::with_uri(&*self.server).auth_header(token);
            let transport = StreamableHttpClientTransport::from_config(config);
            return Ok(heard.serve_with_lifecycle(transport, mode).await?);
        };
        let mut svc = Command::new(&self.server);
        svc.args(["mcp-stdio", "--data", data]).env("SVC_TOKEN", token);
        let mut child = svc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Ok(heard.serve_with_lifecycle(pipes, mode).await?)
    }
}

fn object(value: &Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

async fn call(client: &Client, tool: &str, arguments: &Value) -> Result<Value, Failure> {
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(object(arguments));
    Ok(serde_json::to_value(client.call_tool(params).await?)?)
}

/// Returns the outcome of a step: its result, or its failure.
fn outcome(step: Result<Value, Failure>) -> Value {
    match step {
        Ok(result) => json!({"result": result}),
        Err(failure) => {
            let code = match failure.downcast_ref() {
                Some(ServiceError::McpError(error)) => Some(error.code.0),
                _ => None,
            };
            json!({"thrown": failure.to_string(), "code": code})
        }
    }
}

async fn read_first(client: &Client, outcomes: &mut Map<String, Value>) -> Result<Value, Failure> {
    let listed = client.list_resources(None).await?.resources;
    let first = listed.first().ok_or("no resource is listed")?.uri.clone();
    outcomes.insert("resources".to_owned(), json!({"result": listed}));
    Ok(serde_json::to_value(client.read_resource(ReadResourceRequestParams::new(first)).await?)?)
}

async fn tools(client: &Client) -> Result<Value, Failure> {
    let listed = client.list_tools(None).await?.tools;
    Ok(listed.iter().map(|tool| json!(tool.name)).collect())
}

async fn prompts(client: &Client) -> Result<Value, Failure> {
    let listed = client.list_prompts(None).await?.prompts;
    Ok(listed.iter().map(|prompt| json!(prompt.name)).collect())
}

async fn prompt(client: &Client, step: &Value) -> Result<Value, Failure> {
    let name = step[0].as_str().unwrap();
    let params = GetPromptRequestParams::new(name).with_arguments(object(&step[1]));
    Ok(serde_json::to_value(client.get_prompt(params).await?)?)
}

fn waiting(secs: u64) -> ClientRequest {
    let arguments = object(&json!({"timeout_secs": secs}));
    let params = CallToolRequestParams::new("wait_for_ready").with_arguments(arguments);
    ClientRequest::CallToolRequest(Request::new(params))
}

/// Waits for longer than the timeout, which progress resets.
async fn wait(client: &Client, steps: &Value) -> Result<Value, Failure> {
    let secs = |name: &str| steps[name].as_u64().unwrap();
    let timeout = Duration::from_secs(secs("timeout_secs"));
    let options = PeerRequestOptions::with_timeout(timeout).reset_timeout_on_progress();
    let handle = client.send_request_with_option(waiting(secs("wait_secs")), options).await?;
    Ok(serde_json::to_value(handle.await_response().await?)?)
}

async fn leave(client: &Client) -> Result<(), Failure> {
    let handle = client.send_request_with_option(waiting(300), PeerRequestOptions::no_options()).await?;
    Ok(handle.cancel(Some("the work is done otherwise".to_owned())).await?)
}

async fn work(client: &Client, steps: &Value) -> Map<String, Value> {
    let mut outcomes = Map::new();
    outcomes.insert("list".to_owned(), outcome(tools(client).await));
    let read = read_first(client, &mut outcomes).await;
    outcomes.insert("read".to_owned(), outcome(read));
    outcomes.insert("prompts".to_owned(), outcome(prompts(client).await));
    outcomes.insert("prompt".to_owned(), outcome(prompt(client, &steps["prompt"]).await));
    for step in steps["calls"].as_array().unwrap() {
        let [name, tool] = [0, 1].map(|at| step[at].as_str().unwrap());
        outcomes.insert(name.to_owned(), outcome(call(client, tool, &step[2]).await));
    }
    let mut waited = outcome(wait(client, steps).await);
    waited["heard"] = json!(client.service().0.load(Ordering::Relaxed));
    outcomes.insert("wait".to_owned(), waited);
    let left =
        leave(client).await.map_or_else(|failure| outcome(Err(failure)), |()| json!({"thrown": "left"}));
    outcomes.insert("left".to_owned(), left);
    outcomes.insert("afterwards".to_owned(), outcome(call(client, "whoami", &json!({})).await));
    outcomes
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().ok_or("which client?")?;
    let server = arguments.next().ok_or("which server?")?;
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let mode = match &*kind {
        "rmcp" => ClientLifecycleMode::Discover { preferred_versions },
        _ => ClientLifecycleMode::Initialize,
    };
    let reached = ConnectedService { mode, server, data: arguments.next() };
    let steps: Value = serde_json::from_reader(std::io::stdin())?;
    let token = std::env::var("SVC_TOKEN")?;
    runtime().block_on(async {
        let client = reached.connect(&token).await?;
        let mut outcomes = work(&client, &steps).await;
        client.cancel().await?;

        // The token is used, revoked and then used once more.
        let doomed = steps["doomed"]["secret"].as_str().ok_or("no token is to be revoked")?;
        let client = reached.connect(doomed).await?;
        call(&client, "revoke_token", &json!({"token_id": steps["doomed"]["id"]})).await?;
        outcomes.insert("revoked".to_owned(), outcome(call(&client, "whoami", &json!({})).await));
        client.cancel().await?;
        let dead = reached.connect(doomed).await.map(|_| Value::Null);
        outcomes.insert("dead".to_owned(), outcome(dead));
        println!("{}", Value::Object(outcomes));
        Ok(())
    })
}
