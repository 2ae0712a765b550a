//! Callers: members that write through real servers, each at its own pace, and record the outcomes.
//!
//! They create threads, post, edit, withdraw, cancel, claim and set results. Each writes on its own objects,
//! except for the tasks, for which all compete.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_core::op::{Operation, Table};

use super::RECOVERY;
use super::checker::Defect;
use super::record::{Record, Verdict, Write, plain, verdict};
use crate::client::agent::Agent;
use crate::client::kept::{BreakMoment, KeptConnection};
use crate::client::{mcp, rest};
use crate::process::TEST_TIMEOUT;
use crate::runtime;
use crate::site::{Site, done};
use crate::witness::{self, ClockHistory, assert_kept};

/// Callers over HTTP in an ordeal.
pub const CALLERS: usize = 24;

/// The timeout of a call; its write may have happened nevertheless.
const CALL_TIMEOUT: Duration = Duration::from_secs(45);
/// Pause of a caller after a response that says to try again.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// A slot that some threads need.
const SLOT: &str = "gpu";

/// Number of writes of a probe before a fault.
const PROBES: u32 = 8;

/// A member, with its own thread to write in.
#[derive(Clone)]
struct Person {
    member: String,
    token: String,
    home: String,
    number: usize,
}

/// All members, and the workspace that they write in.
pub struct Workload {
    workspace: String,
    channel: String,
    people: Vec<Person>,
    table: Table,
    /// Number of titles, texts and marks of all callers of a member.
    texts: AtomicUsize,
    /// Characters of padding in each message.
    padding: AtomicUsize,
}

impl Workload {
    /// Creates `count` members with a thread each.
    pub fn prepare(site: &Site, count: usize) -> Self {
        let service = site.open();
        let workspace = site.founders.workspace_id.clone();
        let admin = &site.founders.admin;
        let call = |operation, input| done(&service, admin, operation, input);
        let id = |value: &Value| value["id"].as_str().unwrap().to_owned();
        let channel = |name| id(&call("create_channel", json!({"workspace_id": workspace, "name": name})));
        let homes = channel("homes");
        let tasks = channel("tasks");
        call("set_slot_capacity", json!({"workspace_id": workspace, "slot": SLOT, "capacity": 4}));
        let person = |number: usize| {
            let handle = format!("caller-{number}");
            let agent = json!({"workspace_id": workspace, "handle": handle, "display_name": handle});
            let made = call("create_agent", agent);
            let home =
                call("create_thread", json!({"channel_id": homes, "title": format!("home of {handle}")}));
            Person {
                member: plain(&made["member"]["id"]),
                token: made["token"]["secret"].as_str().unwrap().to_owned(),
                home: plain(&home["id"]),
                number,
            }
        };
        let people = (0..count).map(person).collect();
        Self {
            workspace,
            channel: tasks,
            people,
            table: svc_core::operation_table().unwrap(),
            texts: AtomicUsize::new(0),
            padding: AtomicUsize::new(0),
        }
    }

    /// Pads the messages of all callers by this many characters from now on.
    pub fn pad(&self, characters: usize) {
        self.padding.store(characters, Ordering::Relaxed);
    }

    /// Checks with the witness that claims followed the rules.
    ///
    /// There must be some claims.
    pub fn assert_claims_kept(&self, what: &str, site: &Site) {
        let events = witness::events(&site.open(), &site.founders.admin, &self.workspace, 0);
        assert_kept(what, &events, ClockHistory::Steady, 1);
    }

    /// Returns a caller that writes through a server.
    pub fn caller(&self, number: usize, address: SocketAddr) -> Caller<'_> {
        self.caller_by(number, Transport::Http { address, kept: None })
    }

    /// Returns a caller that writes through a separate process.
    pub fn agent(&self, number: usize, site: &Site) -> Caller<'_> {
        self.caller_by(number, Transport::Stdio(Agent::start(site, &self.people[number].token)))
    }

    fn caller_by(&self, number: usize, way: Transport) -> Caller<'_> {
        let person = self.people[number].clone();
        // Each begins with another write, so that some claim even if all are interrupted early.
        Caller { workload: self, person, way, own: OwnObjects::default(), turn: number, records: Vec::new() }
    }

    fn operation(&self, name: &str) -> &Operation {
        self.table.operation(name).unwrap_or_else(|| panic!("there is no operation {name}"))
    }
}

/// The transport of a caller.
enum Transport {
    Http { address: SocketAddr, kept: Option<KeptConnection> },
    Stdio(Agent),
}

/// The end of a call.
enum CallEnd {
    Answered(u16, Value),
    /// It was not sent.
    NotSent,
    /// It was sent, but the response did not arrive.
    CutOff,
}

impl Transport {
    fn call(&mut self, token: &str, row: &Operation, input: &Value) -> CallEnd {
        match self {
            Self::Http { address, kept } => {
                let (target, body) = rest::address(row, row.http().path, input);
                runtime().block_on(over_http(*address, kept, token, row, &target, body.as_ref()))
            }
            Self::Stdio(agent) => {
                let id = agent.ask(row.name(), input.clone());
                let (status, body) = mcp::outcome(&agent.response(id), 500, row);
                CallEnd::Answered(status, body)
            }
        }
    }
}

async fn over_http(
    address: SocketAddr,
    kept: &mut Option<KeptConnection>,
    token: &str,
    row: &Operation,
    target: &str,
    body: Option<&Value>,
) -> CallEnd {
    if kept.is_none() {
        *kept = KeptConnection::open(address, token).await.ok();
    }
    let Some(open) = kept else { return CallEnd::NotSent };
    let method = row.http().method.name().parse().unwrap();
    match tokio::time::timeout(CALL_TIMEOUT, open.ask(method, target, body)).await {
        Ok(Ok((status, answer))) => CallEnd::Answered(status, answer),
        Ok(Err(broken)) => {
            *kept = None;
            if broken == BreakMoment::Idle { CallEnd::NotSent } else { CallEnd::CutOff }
        }
        Err(_) => {
            *kept = None;
            CallEnd::CutOff
        }
    }
}

/// The objects of a caller that it can change.
#[derive(Default)]
struct OwnObjects {
    threads: Vec<String>,
    messages: Vec<String>,
    claims: Vec<(String, String)>,
}

/// A member that writes, and records the outcomes.
pub struct Caller<'a> {
    workload: &'a Workload,
    person: Person,
    way: Transport,
    own: OwnObjects,
    turn: usize,
    /// The outcomes of its writes.
    pub records: Vec<Record>,
}

impl Caller<'_> {
    /// Performs the next write, and returns whether it was acknowledged.
    pub fn step(&mut self) -> bool {
        self.turn += 1;
        match self.turn % 8 {
            0 => self.claim(),
            1 | 4 => self.create_thread(),
            2 | 6 => self.post(),
            3 => self.edit(),
            5 => {
                if self.turn % 16 == 5 {
                    self.set_result()
                } else {
                    self.withdraw()
                }
            }
            _ => {
                if self.turn % 16 == 7 {
                    self.cancel()
                } else {
                    self.claim()
                }
            }
        }
    }

    /// Creates a thread.
    pub fn create_thread(&mut self) -> bool {
        let title = self.unique("thread");
        let mut input = json!({"channel_id": self.workload.channel, "title": title});
        if let Some(footprint) = footprint(self.turn.wrapping_add(7 * self.person.number)) {
            input["footprint"] = footprint;
        }
        let made = self.write("create_thread", &input, Write::Thread(title));
        self.keep(made, |own, id, _| own.threads.push(id))
    }

    /// Posts a message.
    pub fn post(&mut self) -> bool {
        let body = format!(
            "{} {}",
            self.unique("message"),
            "x".repeat(self.workload.padding.load(Ordering::Relaxed))
        );
        let thread = self.person.home.clone();
        let input = json!({"thread_id": dashed(&thread), "body": body});
        let made = self.write("post_message", &input, Write::Post { thread, body });
        self.keep(made, |own, id, _| own.messages.push(id))
    }

    /// Edits the last message, and keeps its id to withdraw it. Posts if there is no message.
    pub fn edit(&mut self) -> bool {
        let Some(message) = self.own.messages.last().cloned() else { return self.post() };
        let body = self.unique("edited");
        if self
            .records
            .iter()
            .rev()
            .any(|record| matches!(&record.write, Write::Edit { message: edited, .. } if *edited == message))
        {
            return self.post();
        }
        let input = json!({"message_id": dashed(&message), "body": body});
        self.write("edit_message", &input, Write::Edit { message, body }).is_some()
    }

    /// Withdraws the last message. Posts if there is no message.
    pub fn withdraw(&mut self) -> bool {
        let Some(message) = self.own.messages.pop() else { return self.post() };
        let input = json!({"message_id": dashed(&message)});
        self.write("delete_message", &input, Write::Withdraw(message)).is_some()
    }

    /// Cancels the last thread. Creates one if there is no thread.
    pub fn cancel(&mut self) -> bool {
        let Some(thread) = self.own.threads.pop() else { return self.create_thread() };
        let input = json!({"thread_id": dashed(&thread), "reason": "an ordeal"});
        self.write("cancel_thread", &input, Write::Cancel(thread)).is_some()
    }

    /// Claims the next task.
    pub fn claim(&mut self) -> bool {
        let input = json!({"workspace_id": self.workload.workspace, "lease_secs": 86_400});
        let made = self.write("claim_next_workspace_thread", &input, Write::Claim);
        self.keep(made, |own, lease, thread| own.claims.extend(thread.map(|thread| (thread, lease))))
    }

    /// Sets the result of a claimed task. Claims one if there is no claim.
    pub fn set_result(&mut self) -> bool {
        let Some((thread, lease)) = self.own.claims.pop() else { return self.claim() };
        let mark = self.unique("result");
        let input =
            json!({"thread_id": dashed(&thread), "claim_lease_id": dashed(&lease), "result": {"mark": mark}});
        self.write("set_thread_result", &input, Write::Result { thread, mark }).is_some()
    }

    /// Returns the outcome of the last write.
    pub fn last(&self) -> Option<&Record> {
        self.records.last()
    }

    fn unique(&self, what: &str) -> String {
        let number = self.workload.texts.fetch_add(1, Ordering::Relaxed);
        format!("{what} {number} of caller {}", self.person.number)
    }

    fn keep(
        &mut self,
        made: Option<(String, Option<String>)>,
        keep: impl FnOnce(&mut OwnObjects, String, Option<String>),
    ) -> bool {
        made.is_some_and(|(id, thread)| {
            keep(&mut self.own, id, thread);
            true
        })
    }

    /// Performs a write and records the outcome; returns the ids if it was acknowledged.
    fn write(&mut self, operation: &str, input: &Value, write: Write) -> Option<(String, Option<String>)> {
        let began = Instant::now();
        let reply = self.way.call(&self.person.token, self.workload.operation(operation), input);
        let took = began.elapsed();
        let verdict = match reply {
            CallEnd::Answered(status, answer) => verdict(&write, status, &answer)?,
            CallEnd::NotSent => {
                std::thread::park_timeout(RETRY_PAUSE);
                return None;
            }
            CallEnd::CutOff => Verdict::Unknown,
        };
        let ids = match &verdict {
            Verdict::Acknowledged { id, thread, .. } => Some((id.clone(), thread.clone())),
            _ => None,
        };
        if matches!(verdict, Verdict::Refused(status, _) if status >= 500) {
            std::thread::park_timeout(RETRY_PAUSE);
        }
        self.records.push(Record { member: self.person.member.clone(), write, verdict, took });
        ids
    }
}

/// Returns the footprint of the thread of a turn: none, a path, or a shared item.
fn footprint(turn: usize) -> Option<Value> {
    let path = json!({"kind": "path", "value": format!("src/{turn}")});
    let items = match turn % 6 {
        1 | 4 => json!([path]),
        2 => json!([path, {"kind": "slot", "value": SLOT}]),
        5 => json!([{"kind": "glob", "value": format!("docs/{}*", turn % 4)}]),
        _ => return None,
    };
    Some(json!({"repo": "acme/app", "items": items}))
}

/// Returns an id in the form that the service accepts.
fn dashed(plain: &str) -> String {
    plain.parse::<uuid::Uuid>().unwrap().to_string()
}

/// The progress of all callers.
#[derive(Default)]
pub struct Progress {
    acknowledged: Mutex<usize>,
    in_flight: AtomicUsize,
    more: Condvar,
    stopped: AtomicBool,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of acknowledged writes so far.
    pub fn acknowledged(&self) -> usize {
        *self.lock()
    }

    /// Returns the number of callers that are waiting for a response.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Waits for `more` acknowledged writes, up to `limit`, and returns whether they came.
    pub fn wait_for(&self, more: usize, limit: Duration) -> bool {
        let acknowledged = self.lock();
        let wanted = *acknowledged + more;
        let waited = self.more.wait_timeout_while(acknowledged, limit, |count| *count < wanted);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn add_one(&self) {
        *self.lock() += 1;
        self.more.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Lets callers write during `happens`.
///
/// Returns their records, and the result of `happens`.
pub fn write_during<T>(callers: Vec<Caller<'_>>, happens: impl FnOnce(&Progress) -> T) -> (Vec<Record>, T) {
    let progress = Progress::default();
    /// Stops the callers, also if `happens` panics.
    struct Stop<'a>(&'a Progress);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.stopped.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let progress = &progress;
        let write = |mut caller: Caller<'_>| {
            while !progress.is_stopped() {
                progress.in_flight.fetch_add(1, Ordering::SeqCst);
                let acknowledged = caller.step();
                progress.in_flight.fetch_sub(1, Ordering::SeqCst);
                if acknowledged {
                    progress.add_one();
                }
            }
            caller.records
        };
        let threads: Vec<_> = callers.into_iter().map(|caller| scope.spawn(move || write(caller))).collect();
        let stop = Stop(progress);
        let came = happens(progress);
        drop(stop);
        (threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect(), came)
    })
}

/// An additional caller that measures how soon a server accepts writes after a fault.
pub struct WriteProbe<'a> {
    /// The caller.
    pub caller: Caller<'a>,
    /// Time in which it must be able to write again.
    pub limit: Duration,
}

impl<'a> WriteProbe<'a> {
    /// Lets the caller write a few times before any fault, beside all others.
    ///
    /// Recovery cannot be faster than that on this machine at this time.
    pub fn prepare(mut caller: Caller<'a>) -> Self {
        let usual = (0..PROBES).map(|_| until_it_writes(&mut caller, TEST_TIMEOUT)).max().unwrap_or_default();
        Self { caller, limit: RECOVERY + usual * PROBES }
    }

    /// Returns a probe with this limit.
    pub fn within(caller: Caller<'a>, limit: Duration) -> Self {
        Self { caller, limit }
    }

    /// Checks that the server soon accepts writes again.
    pub fn check_recovery(&mut self) -> Option<Defect> {
        let took = until_it_writes(&mut self.caller, self.limit);
        (took > self.limit).then_some(Defect::Slow(took))
    }
}

/// Writes through a server until a write is acknowledged, and returns the time that took.
///
/// It is more than `limit` if no write was acknowledged.
fn until_it_writes(caller: &mut Caller<'_>, limit: Duration) -> Duration {
    let began = Instant::now();
    while !caller.create_thread() && began.elapsed() <= limit {}
    began.elapsed()
}

/// Returns a summary of a run in one line.
pub fn summary(records: &[Record]) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for record in records {
        let name = match &record.verdict {
            Verdict::Acknowledged { .. } => "acknowledged".to_owned(),
            Verdict::Refused(status, code) => format!("{status} {code}"),
            Verdict::Unknown => "unknown".to_owned(),
        };
        *counts.entry(name).or_default() += 1;
    }
    let longest = records.iter().map(|record| record.took).max().unwrap_or_default();
    format!("{counts:?}, the longest call took {longest:.1?}")
}
