//! Measures the effect of an attack by one workspace on another, on real servers.
//!
//! The servers have their default limits. Each request of the victim is made ten times a second, first on
//! idle servers and then under the attack. The servers withstand it if no request fails, its p99 is within 5
//! times the idle one or 200 ms, `/health` always responds with 200, and the servers end in time when they
//! are stopped under the attack.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use svc_core::Engine;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{median, percentile, round};
use crate::attacks::callers::initialize;
use crate::attacks::ground::{AttackGround, AttackSize, WantedRequest};
use crate::attacks::wire::{connect, handshake, head_of_json, status};
use crate::attacks::{ALL, Attack, AttackHandle, AttackTarget, prepare};
use crate::client::kept::KeptConnection;
use crate::site::{Server, Site};
use crate::world::SIGNS;

/// Time between two requests of a kind, and between two uses of the attacked resource.
const PACE: Duration = Duration::from_millis(100);
const SLOW_PACE: Duration = Duration::from_secs(1);
/// Timeout of the victim for a response.
const PATIENCE: Duration = Duration::from_secs(40);
/// Time for which the victim's requests, and then the attack, run before they are measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Maximum factor by which a request may be slower under an attack, and the time that is always acceptable.
const SLOWER_MAX: f64 = 5.0;
const SLOW_MAX_MS: f64 = 200.0;

/// Runs every attack, or one, each for `span`, and shows a report of each. Returns whether the servers
/// withstood them.
pub fn run(
    engine: Engine,
    only: Option<&str>,
    span: Duration,
    show: impl Fn(&Value),
) -> Result<bool, String> {
    let attacks: Vec<&Attack> =
        ALL.iter().filter(|attack| only.is_none_or(|only| attack.name == only)).collect();
    if attacks.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|attack| attack.name).collect();
        return Err(format!("no such attack; there are {}", names.join(", ")));
    }
    svc_http::raise_descriptor_limit();
    let several = match engine {
        Engine::Sqlite => 2,
        Engine::Postgres => 3,
    };
    let mut all_held = true;
    for servers in [1, several] {
        for attack in &attacks {
            let (report, held) = endure(engine, attack, servers, span);
            show(&report);
            all_held &= held;
        }
    }
    Ok(all_held)
}

fn endure(engine: Engine, attack: &Attack, servers: usize, span: Duration) -> (Value, bool) {
    let site = Site::found(engine);
    let mut ground = {
        let service = site.open_signing();
        prepare(&service, &site.founders.admin, attack.needs, AttackSize::FULL)
    };
    let mut running: Vec<Server> = (0..servers).map(|_| serve(&site, attack)).collect();
    ground.addresses = running.iter().map(Server::address).collect();
    let ground = Arc::new(ground);
    // The first requests fill caches.
    measure(&ground, attack.target, WARM_UP);
    let idle = measure(&ground, attack.target, (span / 4).max(Duration::from_secs(2)));
    let begun = AttackHandle::new(attack.run, &ground);
    std::thread::sleep(WARM_UP);
    let attacked = measure(&ground, attack.target, span);
    let memory: Vec<u64> = running.iter().map(|server| peak_mib(server.running.id())).collect();
    let ended: Vec<f64> = running.iter_mut().map(end).collect();
    let outcomes = begun.tally.report();
    drop(begun);
    let calls: BTreeMap<&str, Value> = attacked
        .calls
        .iter()
        .map(|(name, under)| (*name, compare(idle.calls.get(name).unwrap_or(&Calls::default()), under)))
        .collect();
    let slowest = ended.iter().copied().fold(0.0, f64::max);
    let held = calls.values().all(|call| call["holds"] == json!(true))
        && attacked.health.keys().all(|status| *status == 200)
        && slowest <= f64::from(attack.ends_in_secs);
    let health: BTreeMap<String, usize> =
        attacked.health.iter().map(|(status, count)| (status.to_string(), *count)).collect();
    let report = json!({
        "name": "attacks",
        "attack": attack.name,
        "engine": engine.name(),
        "servers": servers,
        "holds": held,
        "calls": calls,
        "health": health,
        "attacker_got": outcomes,
        "peak_mib": memory,
        "end_secs": ended.iter().map(|secs| round(*secs)).collect::<Vec<_>>(),
    });
    (report, held)
}

fn serve(site: &Site, attack: &Attack) -> Server {
    let mut command = site.command("svc-http", &["--listen", "127.0.0.1:0"]);
    command.env_remove("SVC_RATE_LIMIT_MAX").env_remove("SVC_WORKSPACE_RATE_LIMIT_MAX");
    command.env("SVC_EXPORT_SIGNING_KEY", hex::encode(SIGNS)).envs(attack.variables.iter().copied());
    Server::begin(&mut command)
}

/// Stops a server, and returns the seconds until it ended.
fn end(server: &mut Server) -> f64 {
    let begun = Instant::now();
    server.running.end();
    begun.elapsed().as_secs_f64()
}

fn peak_mib(process: u32) -> u64 {
    super::memory::kib(&format!("/proc/{process}/status"), "VmHWM:") >> 10
}

/// The times and failures of one kind of request.
#[derive(Default)]
struct Calls {
    latencies: Vec<Duration>,
    failures: BTreeMap<String, usize>,
}

/// The measurements of the victim.
#[derive(Default)]
struct Measured {
    calls: BTreeMap<&'static str, Calls>,
    health: BTreeMap<u16, usize>,
}

fn compare(idle: &Calls, under: &Calls) -> Value {
    let of = |calls: &Calls| {
        let mut latencies = calls.latencies.clone();
        latencies.sort_unstable();
        (percentile(&latencies, 50), percentile(&latencies, 99))
    };
    let (idle_p50, idle_p99) = of(idle);
    let (p50, p99) = of(under);
    let holds = under.failures.is_empty() && p99 <= (idle_p99 * SLOWER_MAX).max(SLOW_MAX_MS);
    json!({
        "idle_p50_ms": idle_p50, "idle_p99_ms": idle_p99, "p50_ms": p50, "p99_ms": p99,
        "ratio": round(p99 / idle_p99), "requests": under.latencies.len(), "failures": under.failures,
        "holds": holds,
    })
}

/// Measures the victim's requests for a while, on a separate thread.
fn measure(ground: &Arc<AttackGround>, target: AttackTarget, span: Duration) -> Measured {
    let ground = Arc::clone(ground);
    let measuring = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let until = Instant::now() + span;
            let [me, threads, post, claim] = ground.victim.requests();
            let (me, threads, post, claim, taken, health) = tokio::join!(
                ask_until(&ground, me, until),
                ask_until(&ground, threads, until),
                ask_until(&ground, post, until),
                ask_until(&ground, claim, until),
                use_until(&ground, target, until),
                check_health(&ground, until),
            );
            let mut calls = BTreeMap::from([me, threads, post, claim]);
            calls.extend(taken);
            Measured { calls, health }
        })
    });
    measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Repeats one request at all servers in turn.
async fn ask_until(ground: &AttackGround, wanted: WantedRequest, until: Instant) -> (&'static str, Calls) {
    let mut calls = Calls::default();
    let mut turns = paced(PACE);
    let mut open: Vec<Option<KeptConnection>> = ground.addresses.iter().map(|_| None).collect();
    for turn in 0.. {
        turns.tick().await;
        if Instant::now() >= until {
            break;
        }
        let at = turn % open.len();
        let Some(kept) = open.get_mut(at) else { break };
        if kept.is_none() {
            *kept = keep(ground, at, &wanted.token).await;
        }
        let begun = Instant::now();
        let outcome = match kept {
            None => Err("no connection".to_owned()),
            Some(connection) => {
                let asked = connection.ask(wanted.method.clone(), &wanted.target, wanted.body.as_ref());
                match timeout(PATIENCE, asked).await {
                    Ok(Ok((200..300, _))) => Ok(()),
                    Ok(Ok((status, _))) => Err(status.to_string()),
                    Ok(Err(broken)) => Err(format!("{broken:?}")),
                    Err(_) => Err("no response".to_owned()),
                }
            }
        };
        calls.latencies.push(begun.elapsed());
        if let Err(failure) = outcome {
            *kept = None;
            *calls.failures.entry(failure).or_default() += 1;
        }
    }
    (wanted.name, calls)
}

async fn keep(ground: &AttackGround, at: usize, token: &str) -> Option<KeptConnection> {
    let address = ground.address(at);
    let stream = victims_connection(ground, at).await?;
    KeptConnection::over(stream, address, token).await.ok()
}

/// Returns a connection from the victim's own address.
async fn victims_connection(ground: &AttackGround, at: usize) -> Option<TcpStream> {
    let own: IpAddr = Ipv4Addr::new(127, 0, 0, 3).into();
    connect(ground.address(at), own).await.ok()
}

fn paced(pace: Duration) -> tokio::time::Interval {
    let mut turns = interval(pace);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turns
}

/// Uses the resource that is under attack.
async fn use_until(
    ground: &AttackGround,
    target: AttackTarget,
    until: Instant,
) -> Option<(&'static str, Calls)> {
    let name = match target {
        AttackTarget::Requests => return None,
        AttackTarget::Sockets => "open_socket",
        AttackTarget::Sessions => "begin_session",
        AttackTarget::Files => "verify_file",
    };
    let mut calls = Calls::default();
    let mut turns = paced(SLOW_PACE);
    for turn in 0.. {
        turns.tick().await;
        if Instant::now() >= until {
            break;
        }
        let begun = Instant::now();
        let outcome = timeout(PATIENCE, use_once(ground, target, turn)).await;
        calls.latencies.push(begun.elapsed());
        let wanted = if target == AttackTarget::Sockets { 101 } else { 200 };
        match outcome {
            Ok(Some(status)) if status == wanted => {}
            other => *calls.failures.entry(format!("{other:?}")).or_default() += 1,
        }
    }
    Some((name, calls))
}

async fn use_once(ground: &AttackGround, target: AttackTarget, turn: usize) -> Option<u16> {
    let victim = &ground.victim;
    if target == AttackTarget::Sessions {
        let mut kept = keep(ground, turn, &victim.agents[0]).await?;
        let body = initialize().to_string().into();
        let begun = kept.raw(Method::POST, "/mcp/streamable", &HeaderMap::new(), body).await.ok()?;
        return Some(begun.status().as_u16());
    }
    let mut stream = victims_connection(ground, turn).await?;
    let request = if target == AttackTarget::Sockets {
        handshake(Some(&victim.agents[0])).into_bytes()
    } else {
        let file = ground.arms.victims_export.as_ref();
        [head_of_json("/workspaces/export/verify", &victim.admin, file.len()).as_bytes(), file].concat()
    };
    stream.write_all(&request).await.ok()?;
    status(&mut stream).await
}

async fn check_health(ground: &AttackGround, until: Instant) -> BTreeMap<u16, usize> {
    let mut seen = BTreeMap::new();
    let mut turns = paced(PACE);
    for turn in 0.. {
        turns.tick().await;
        if Instant::now() >= until {
            break;
        }
        let asked = async {
            let mut kept = keep(ground, turn, "none").await?;
            kept.get("/health").await.ok().map(|(status, _)| status)
        };
        // 0: no response.
        let status = timeout(PATIENCE, asked).await.ok().flatten().unwrap_or_default();
        *seen.entry(status).or_default() += 1;
    }
    seen
}

/// Returns the line of a report that a person reads.
pub fn line(report: &Value) -> String {
    let calls = report["calls"].as_object().into_iter().flatten().map(|(name, call)| {
        let failed: u64 =
            call["failures"].as_object().into_iter().flatten().filter_map(|f| f.1.as_u64()).sum();
        format!(
            "{name} p50 {}/{} ms, p99 {}/{} ms, {} times, {failed} failed",
            call["p50_ms"], call["idle_p50_ms"], call["p99_ms"], call["idle_p99_ms"], call["ratio"],
        )
    });
    let verdict = if report["holds"] == json!(true) { "holds" } else { "FAILS" };
    format!(
        "{verdict} {} on {} ({} servers): {}; health {}; ended in {} s",
        report["attack"].as_str().unwrap_or_default(),
        report["engine"].as_str().unwrap_or_default(),
        report["servers"],
        calls.collect::<Vec<_>>().join("; "),
        report["health"],
        median(report["end_secs"].as_array().into_iter().flatten().filter_map(Value::as_f64)),
    )
}
