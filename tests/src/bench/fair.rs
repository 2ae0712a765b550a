//! How much one workspace still gets while another asks for all that the server has.
//!
//! The floor is the victim alone: 16 connections of four members that read `/me`, list threads and post. The
//! attacker does the same over 512 connections of four members, as many requests as a workspace may have in
//! flight while others wait. The server is a process of its own and has no rate limits, so that nothing but
//! the shares of queues and places keeps the attacker back.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::load::{Connection, drive_over};
use super::{Finding, Sample, alternate};
use crate::attacks::callers::keep_asking;
use crate::attacks::ground::{Ground, Size, Tally, Team};
use crate::attacks::{Attacking, Begun, Needs, prepare};
use crate::client::kept::Kept;
use crate::site::Site;

const SPAN: Duration = Duration::from_secs(3);
const CONNECTIONS: usize = 16;
/// Connections of each of the attacker's four members.
const ATTACKERS: usize = 128;
/// The part of its throughput that the victim should keep.
const WANTED: f64 = 0.4;

/// Measures it on one server.
pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let site = Site::found(engine);
    let size = Size { tasks: 50, ..Size::SMALL };
    let mut ground = {
        let service = site.open();
        let ground = prepare(&service, &site.founders.admin, Needs::Nothing, size);
        ground.attacker.add_tasks(&service, size.tasks);
        ground
    };
    // All connections of the attacker come from few addresses here.
    let server = site.serve(&[("SVC_MAX_CONNECTIONS", "0")]);
    ground.addresses.push(server.address());
    let ground = Arc::new(ground);
    let victim = || drive(&ground, runtime);
    let attacked = || {
        let attacking = Begun::new(|ground, tally| attack(&ground, tally), &ground);
        std::thread::sleep(SPAN / 6);
        let sample = victim();
        eprintln!("the attacker: {}", attacking.tally.report());
        sample
    };
    Finding {
        name: "fair",
        engine,
        pairs: alternate(pairs, attacked, victim),
        floor_is: "the same without an attacker",
        extra: json!({"connections": CONNECTIONS, "attackers": 4 * ATTACKERS, "wanted": WANTED}),
    }
}

/// The n-th request of a member of a team.
fn request(team: &Team) -> impl Fn(usize) -> (Method, String, Option<Value>) + Clone + Send + 'static {
    let (threads, messages) = (team.threads(), format!("/threads/{}/messages", team.thread_id));
    move |turn| match turn % 3 {
        0 => (Method::GET, "/me".to_owned(), None),
        1 => (Method::GET, threads.clone(), None),
        _ => (Method::POST, messages.clone(), Some(json!({"body": "once more"}))),
    }
}

fn attack(ground: &Arc<Ground>, tally: Arc<Tally>) -> Attacking {
    let tokens = ground.attacker.agents[..4].to_vec();
    Box::pin(keep_asking(Arc::clone(ground), tally, tokens, ATTACKERS, request(&ground.attacker)))
}

fn drive(ground: &Ground, runtime: &Runtime) -> Sample {
    let next = request(&ground.victim);
    let open = async |connection: usize| {
        let token = &ground.victim.agents[connection % ground.victim.agents.len()];
        let kept = Kept::open(ground.address(0), token).await.expect("a connection");
        Member { kept, next: next.clone() }
    };
    drive_over(runtime, CONNECTIONS, SPAN, open)
}

struct Member<N> {
    kept: Kept,
    next: N,
}

impl<N: Fn(usize) -> (Method, String, Option<Value>) + Send + 'static> Connection for Member<N> {
    async fn exchange(&mut self, number: usize) {
        let (method, target, body) = (self.next)(number);
        let (status, body) = self.kept.ask(method, &target, body.as_ref()).await.expect("a response");
        assert!((200..300).contains(&status), "{target}: {status} {body}");
    }
}
