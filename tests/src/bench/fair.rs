//! The throughput of one workspace while another uses all that its limits allow.
//!
//! The floor is the victim alone: 16 connections of four members that read `/me`, list threads and post. The
//! attacker has four members and 512 connections, as many requests as a workspace may have in flight while
//! others wait, and sends the most expensive reads, as many as the default rate limit of a workspace permits.
//! The server is a separate process without rate limits, which would also limit the victim; so the attacker
//! limits itself. Beside the ratio it reports the throughput of the victim if the attacker has no rate limit
//! and sends cheap requests.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::limits::{RATE_LIMIT_WINDOW_SECS, WORKSPACE_RATE_LIMIT_MAX};
use tokio::runtime::Runtime;

use super::load::{Connection, drive_over};
use super::{Finding, Sample, alternate};
use crate::attacks::callers::{expensive, keep_asking, keep_asking_paced};
use crate::attacks::ground::{AttackGround, AttackSize, AttackTeam, OutcomeTally};
use crate::attacks::{AttackHandle, AttackNeeds, RunningAttack, prepare};
use crate::client::kept::KeptConnection;
use crate::site::Site;

const SPAN: Duration = Duration::from_secs(3);
const CONNECTIONS: usize = 16;
/// Connections of each of the attacker's four members.
const ATTACKERS: usize = 128;
/// The share of its throughput that the victim should keep.
const WANTED: f64 = 0.4;

/// Measures it on one server.
pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let site = Site::found(engine);
    let size = AttackSize { tasks: 50, ..AttackSize::FULL };
    let mut ground = {
        let service = site.open();
        let ground = prepare(&service, &site.founders.admin, AttackNeeds::Footprints, size);
        ground.attacker.add_tasks(&service, size.tasks);
        ground
    };
    // All connections of the attacker come from a few addresses here.
    let server = site.serve(&[("SVC_MAX_CONNECTIONS", "0")]);
    ground.addresses.push(server.address());
    let ground = Arc::new(ground);
    let victim = || drive(&ground, runtime);
    let under = |attack: fn(Arc<AttackGround>, Arc<OutcomeTally>) -> RunningAttack| {
        let attacking = AttackHandle::new(attack, &ground);
        std::thread::sleep(SPAN / 6);
        let sample = victim();
        eprintln!("the attacker: {}", attacking.tally.report());
        sample
    };
    let pairs = alternate(pairs, || under(at_full_limits), victim);
    let alone = super::median(pairs.iter().map(|(_, alone)| alone.per_second));
    let unlimited = under(without_limits).per_second / alone;
    Finding {
        name: "fair",
        engine,
        pairs,
        floor_is: "the same without an attacker",
        extra: json!({
            "connections": CONNECTIONS,
            "attackers": 4 * ATTACKERS,
            "without_rate_limit_to_alone": super::round(unlimited),
            "wanted": WANTED,
        }),
    }
}

/// Returns a function for the n-th request of a member of a team.
fn request(team: &AttackTeam) -> impl Fn(usize) -> (Method, String, Option<Value>) + Clone + Send + 'static {
    let threads = team.threads();
    let messages = format!("/threads/{}/messages", team.thread_id);
    move |turn| match turn % 3 {
        0 => (Method::GET, "/me".to_owned(), None),
        1 => (Method::GET, threads.clone(), None),
        _ => (Method::POST, messages.clone(), Some(json!({"body": "once more"}))),
    }
}

fn at_full_limits(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) -> RunningAttack {
    let tokens = ground.attacker.agents[..4].to_vec();
    let request = expensive(&ground);
    let requests = u32::try_from(WORKSPACE_RATE_LIMIT_MAX).unwrap_or(u32::MAX);
    let pace = Duration::from_secs(RATE_LIMIT_WINDOW_SECS.unsigned_abs()) / requests;
    Box::pin(keep_asking_paced(ground, tally, tokens, ATTACKERS, pace, request))
}

fn without_limits(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) -> RunningAttack {
    let tokens = ground.attacker.agents[..4].to_vec();
    let request = request(&ground.attacker);
    Box::pin(keep_asking(ground, tally, tokens, ATTACKERS, request))
}

fn drive(ground: &AttackGround, runtime: &Runtime) -> Sample {
    let next = request(&ground.victim);
    let open = async |connection: usize| {
        let token = &ground.victim.agents[connection % ground.victim.agents.len()];
        let kept = KeptConnection::open(ground.address(0), token).await.expect("a connection");
        Member { kept, next: next.clone() }
    };
    drive_over(runtime, CONNECTIONS, SPAN, open)
}

struct Member<N> {
    kept: KeptConnection,
    next: N,
}

impl<N: Fn(usize) -> (Method, String, Option<Value>) + Send + 'static> Connection for Member<N> {
    async fn exchange(&mut self, number: usize) {
        let (method, target, body) = (self.next)(number);
        let (status, body) = self.kept.ask(method, &target, body.as_ref()).await.expect("a response");
        assert!((200..300).contains(&status), "{target}: {status} {body}");
    }
}
