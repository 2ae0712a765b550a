//! Callers that send requests one after another, as many at once as an attack has connections.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::ground::{AttackGround, AttackTeam, OutcomeTally, large_body};
use super::wire::{connect, source};
use crate::client::kept::KeptConnection;

/// Pause of a caller that is over its rate limit, so that it continues as soon as it may.
const OVER_RATE: Duration = Duration::from_millis(200);
/// Pause of a caller that was rejected for another reason.
const REJECTED: Duration = Duration::from_millis(20);

/// The shortest pace that a timer can keep.
const LEAST: Duration = Duration::from_millis(1);

/// A request: method, target and body.
pub type RequestParts = (Method, String, Option<Value>);

/// Sends requests forever, over `each` connections to each server for each token.
pub async fn keep_asking(
    ground: Arc<AttackGround>,
    tally: Arc<OutcomeTally>,
    tokens: Vec<String>,
    each: usize,
    request: impl Fn(usize) -> RequestParts + Clone + Send + 'static,
) {
    keep_asking_paced(ground, tally, tokens, each, Duration::ZERO, request).await;
}

/// Sends requests like [`keep_asking`], but no more than one per `pace` over all connections.
pub async fn keep_asking_paced(
    ground: Arc<AttackGround>,
    tally: Arc<OutcomeTally>,
    tokens: Vec<String>,
    each: usize,
    pace: Duration,
    request: impl Fn(usize) -> RequestParts + Clone + Send + 'static,
) {
    let mut callers = JoinSet::new();
    let servers = ground.addresses.len();
    let count = tokens.len() * each * servers;
    // The connections take turns.
    let own = pace * u32::try_from(count).unwrap_or(u32::MAX);
    for number in 0..count {
        let first = pace * u32::try_from(number).unwrap_or(u32::MAX);
        let token = tokens[number / servers % tokens.len()].clone();
        let ground = Arc::clone(&ground);
        let tally = Arc::clone(&tally);
        let request = request.clone();
        callers.spawn(async move {
            let mut kept = None;
            let mut turns = interval_at(Instant::now() + first, own.max(LEAST));
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for turn in number.. {
                if !own.is_zero() {
                    turns.tick().await;
                }
                let (method, target, body) = request(turn);
                let outcome = ask(&ground, &mut kept, number, &token, (method, &target, body.as_ref())).await;
                tally.add(outcome.map_or_else(|| "broken".to_owned(), |status| status.to_string()));
                match outcome {
                    Some(200..300) => {}
                    Some(429) => sleep(OVER_RATE).await,
                    _ => sleep(REJECTED).await,
                }
            }
        });
    }
    callers.join_all().await;
}

/// Sends a request over a connection, which it opens first if necessary, and returns the status.
async fn ask(
    ground: &AttackGround,
    kept: &mut Option<KeptConnection>,
    number: usize,
    token: &str,
    (method, target, body): (Method, &str, Option<&Value>),
) -> Option<u16> {
    if kept.is_none() {
        let address = ground.address(number);
        let stream = connect(address, source(number)).await.ok()?;
        *kept = Some(KeptConnection::over(stream, address, token).await.ok()?);
    }
    let answer = kept.as_mut()?.ask(method, target, body).await;
    if answer.is_err() {
        *kept = None;
    }
    answer.ok().map(|(status, _)| status)
}

/// Sends slow reads of a worker who has created much, 128 at once with one token.
pub async fn expensive_reads(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let tokens = ground.attacker.agents[..1].to_vec();
    let request = expensive(&ground);
    keep_asking(ground, tally, tokens, 128, request).await;
}

/// Exceeds the limit of requests in flight: 9 tokens with 130 slow reads each.
pub async fn in_flight(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let tokens = ground.attacker.agents[..9].to_vec();
    let request = expensive(&ground);
    keep_asking(ground, tally, tokens, 130, request).await;
}

/// Returns slow reads, of one kind after another.
pub fn expensive(ground: &AttackGround) -> impl Fn(usize) -> RequestParts + Clone + Send + 'static {
    let workspace = ground.attacker.workspace_id.clone();
    let thread = ground.attacker.thread_id.clone();
    let targets = [
        format!("/workspaces/{workspace}/deferred"),
        format!("/workspaces/{workspace}/occupancy"),
        format!("/workspaces/{workspace}/kind-census?thread_id={thread}"),
    ];
    move |turn| (Method::GET, targets[turn % targets.len()].clone(), None)
}

/// Posts at full speed as every agent.
pub async fn writes(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let body = "more and more of it ".repeat(15);
    let tokens = ground.attacker.agents.clone();
    let request = posting(&ground.attacker, body);
    keep_asking(ground, tally, tokens, 32, request).await;
}

/// Posts messages of nearly the maximum size as every agent.
pub async fn large_writes(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let tokens = ground.attacker.agents.clone();
    let request = posting(&ground.attacker, large_body());
    keep_asking(ground, tally, tokens, 8, request).await;
}

/// Returns the requests of members who post `body`.
fn posting(team: &AttackTeam, body: String) -> impl Fn(usize) -> RequestParts + Clone + Send + 'static {
    let target = format!("/threads/{}/messages", team.thread_id);
    let body = json!({"body": body});
    move |_| (Method::POST, target.clone(), Some(body.clone()))
}

/// Imports copies of the attacker's workspace as new ones, at full speed.
pub async fn imports(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let tokens = ground.arms.admins.clone();
    let envelope: Value = serde_json::from_slice(&ground.arms.export).expect("an export");
    let request = move |_| (Method::POST, "/workspaces/import?mode=new".to_owned(), Some(envelope.clone()));
    keep_asking(ground, tally, tokens, 2, request).await;
}

/// Opens sessions of the MCP revision that has them, as ten agents.
pub async fn sessions(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let tokens = ground.attacker.agents.clone();
    let request = |_| (Method::POST, "/mcp/streamable".to_owned(), Some(initialize()));
    keep_asking(ground, tally, tokens, 4, request).await;
}

/// Returns the message that begins a session.
pub fn initialize() -> Value {
    let client = json!({"name": "svc-tests", "version": "0"});
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}
