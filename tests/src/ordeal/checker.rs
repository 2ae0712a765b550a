//! The checker: compares the records of callers with the state of the service.
//!
//! Every acknowledged write must be in the rows, in the log and in the results of reads; no rejected one may
//! be; rows and events must agree; no member may get a thread that another held; and the log must be intact.
//! It reports every defect, so that a control can say which one it must find.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Service;

use super::record::{Record, Verdict, Write, plain};
use super::replay::ReplayedState;
use super::rows::{Rows, events};
use crate::site::Site;

/// A defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A write was acknowledged, but its effect is missing or differs from the response.
    Lost(String),
    /// A write was rejected, but it happened.
    RefusedDone(String),
    /// A write was requested once, but happened more than once.
    DoneTwice(String),
    /// A row whose event is not in the log.
    RowWithoutEvent {
        /// Its table.
        table: &'static str,
        /// Its id, or that of its parent.
        id: String,
    },
    /// An event whose row is missing.
    EventWithoutRow {
        /// Its kind.
        kind: &'static str,
        /// Its position.
        lsn: i64,
    },
    /// A row that contradicts its events.
    RowDiffers {
        /// Its table.
        table: &'static str,
        /// Its id.
        id: String,
    },
    /// The log assigns a thread to a member while another one holds it.
    SecondHolder {
        /// The thread.
        thread: String,
        /// The position of the second claim.
        lsn: i64,
    },
    /// An event that cannot follow those before it.
    Impossible {
        /// Its kind.
        kind: String,
        /// Its position.
        lsn: i64,
    },
    /// A log that `svc verify` does not accept.
    Chain {
        /// The first broken position.
        lsn: i64,
        /// The defect.
        defect: String,
    },
    /// A message, or a thread's list of messages, that can no longer be read.
    Unreadable(String),
    /// A server that accepted no write for too long after the end of the fault.
    Slow(Duration),
    /// A response that came too late.
    Late(String),
    /// An external fault that was reported as the service's own, as 500.
    Internal(String),
}

impl fmt::Display for Defect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:?}")
    }
}

/// Returns the calls that failed with an internal error.
pub fn internal_errors(records: &[Record]) -> impl Iterator<Item = Defect> {
    let internal = records.iter().filter(|record| matches!(record.verdict, Verdict::Refused(500, _)));
    internal.map(|record| Defect::Internal(record.to_string()))
}

/// Returns the calls that took longer than `limit`.
pub fn late(records: &[Record], limit: Duration) -> impl Iterator<Item = Defect> {
    let late = records.iter().filter(move |record| record.took > limit);
    late.map(|record| Defect::Late(format!("{record} took {:?}", record.took)))
}

/// Fails with all defects, shortened.
#[track_caller]
pub fn assert_sound(what: &str, defects: &[Defect]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for defect in defects {
        let name = format!("{defect:?}");
        let name = name.split([' ', '(', '{']).next().unwrap_or_default();
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    let some: Vec<String> = defects.iter().take(12).map(|defect| format!("  {defect}")).collect();
    assert!(
        defects.is_empty(),
        "{what}: {} defects, {counts:?}, such as\n{}",
        defects.len(),
        some.join("\n")
    );
}

/// Returns every defect of a site whose callers have `records`.
pub fn check(site: &Site, records: &[Record]) -> Vec<Defect> {
    let mut defects = chain(site);
    let id = site.database.id(site.founders.workspace_id.parse::<uuid::Uuid>().unwrap());
    let log = ReplayedState::of(&events(&site.database, &id));
    let rows = Rows::read(&site.database, &id);
    defects.extend(rows.disagreements(&log));
    let (bodies, unreadable) = read_bodies(site, records);
    defects.extend(unreadable);
    let found = ServiceState { log: &log, rows: &rows, bodies: &bodies, texts: texts(&rows, &bodies) };
    defects.extend(records.iter().filter_map(|record| found.judge(record)));
    defects.extend(found.claims(records));
    defects.extend(found.repeated(records));
    defects.extend(log.defects.iter().cloned());
    defects
}

/// Returns the count of each title, each text of a message and each mark of a result.
fn texts(rows: &Rows, bodies: &Bodies) -> BTreeMap<String, usize> {
    let titles = rows.threads.values().map(|thread| thread.title.clone());
    let said = bodies.values().flatten().cloned();
    let marks = rows.results.values().filter_map(|(_, result)| {
        let result: Value = serde_json::from_str(result).ok()?;
        Some(result["mark"].as_str()?.to_owned())
    });
    let mut texts = BTreeMap::new();
    for text in titles.chain(said).chain(marks) {
        *texts.entry(text).or_default() += 1;
    }
    texts
}

/// Returns the defects that `svc verify` reports.
fn chain(site: &Site) -> Vec<Defect> {
    let outcome = site.svc(&["verify", "--json"]);
    if outcome.code == Some(0) {
        return Vec::new();
    }
    let report: Value = serde_json::from_str(&outcome.out).unwrap_or_default();
    let broken = report["logs"].as_array().into_iter().flatten().filter(|log| !log["broken"].is_null());
    let named: Vec<Defect> = broken
        .map(|log| Defect::Chain {
            lsn: log["broken"]["lsn"].as_i64().unwrap_or_default(),
            defect: log["broken"]["defect"].as_str().unwrap_or_default().to_owned(),
        })
        .collect();
    if named.is_empty() {
        return vec![Defect::Chain { lsn: -1, defect: format!("{:?} {}", outcome.code, outcome.err) }];
    }
    named
}

/// The bodies of messages by id; `None` if withdrawn.
type Bodies = BTreeMap<String, Option<String>>;

/// Reads the bodies of every thread with posts.
fn read_bodies(site: &Site, records: &[Record]) -> (Bodies, Vec<Defect>) {
    let threads: BTreeSet<&str> = records
        .iter()
        .filter_map(|record| match &record.write {
            Write::Post { thread, .. } => Some(thread.as_str()),
            _ => None,
        })
        .collect();
    let service = site.open();
    let mut bodies = Bodies::new();
    let mut unreadable = Vec::new();
    for thread in threads {
        let mut cursor = Value::Null;
        loop {
            let Some(page) = page(&service, site, thread, &cursor) else {
                unreadable.push(Defect::Unreadable(thread.to_owned()));
                break;
            };
            for message in page["items"].as_array().into_iter().flatten() {
                if message["unreadable"] == json!(true) {
                    unreadable.push(Defect::Unreadable(plain(&message["id"])));
                }
                let body = message["body"].as_str().unwrap_or_default();
                let withdrawn = message["withdrawn"] == json!(true) && body.is_empty();
                bodies.insert(plain(&message["id"]), (!withdrawn).then(|| body.to_owned()));
            }
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
    }
    (bodies, unreadable)
}

fn page(service: &Service, site: &Site, thread: &str, cursor: &Value) -> Option<Value> {
    let mut input = json!({"thread_id": thread.parse::<uuid::Uuid>().unwrap(), "limit": 500});
    if !cursor.is_null() {
        input["cursor"] = cursor.clone();
    }
    let answer = crate::answer_of(crate::call(service, Some(&site.founders.admin), "list_messages", &input));
    answer.is_success().then_some(answer.body)
}

/// The state of the service.
struct ServiceState<'a> {
    log: &'a ReplayedState,
    rows: &'a Rows,
    bodies: &'a Bodies,
    texts: BTreeMap<String, usize>,
}

impl ServiceState<'_> {
    /// Compares one write with the state; claims are compared together.
    fn judge(&self, record: &Record) -> Option<Defect> {
        match &record.verdict {
            Verdict::Acknowledged { id, lsn, .. } => {
                (!self.is_there(&record.write, id, *lsn)).then(|| Defect::Lost(record.to_string()))
            }
            Verdict::Refused(..) => {
                self.was_done(&record.write).then(|| Defect::RefusedDone(record.to_string()))
            }
            Verdict::Unknown => None,
        }
    }

    /// Returns whether an acknowledged write is there, at the position of its response.
    fn is_there(&self, write: &Write, id: &str, lsn: Option<i64>) -> bool {
        let message = |id: &str| self.rows.messages.get(id);
        match write {
            Write::Thread(title) => {
                let thread = self.rows.threads.get(id);
                thread.is_some_and(|thread| thread.title == *title && Some(thread.lsn) == lsn)
            }
            Write::Post { .. } => {
                self.bodies.contains_key(id) && message(id).is_some_and(|message| Some(message.lsn) == lsn)
            }
            Write::Edit { body, .. } => {
                let says =
                    self.bodies.get(id).is_some_and(|said| said.as_ref().is_none_or(|said| said == body));
                says && message(id).is_some_and(|message| message.edits == 1)
            }
            Write::Withdraw(_) => {
                self.bodies.get(id) == Some(&None) && message(id).is_some_and(|message| message.withdrawn)
            }
            Write::Cancel(_) => {
                let thread = self.rows.threads.get(id);
                thread.is_some_and(|thread| thread.cancelled && thread.state == "closed")
            }
            Write::Claim => self.log.claims.contains_key(id),
            Write::Result { mark, .. } => {
                lsn.and_then(|lsn| self.rows.results.get(&lsn)).is_some_and(|(_, text)| text.contains(mark))
            }
        }
    }

    /// Returns whether a rejected write left anything.
    fn was_done(&self, write: &Write) -> bool {
        match write {
            Write::Thread(text) | Write::Post { body: text, .. } | Write::Result { mark: text, .. } => {
                self.texts.contains_key(text)
            }
            Write::Edit { message, .. } => {
                self.rows.messages.get(message).is_some_and(|found| found.edits > 0)
            }
            Write::Withdraw(message) => self.rows.messages.get(message).is_some_and(|found| found.withdrawn),
            Write::Cancel(thread) => self.rows.threads.get(thread).is_some_and(|found| found.cancelled),
            Write::Claim => false,
        }
    }

    /// Returns the claims that no caller received.
    ///
    /// Those that may have had an unknown outcome are omitted: the rejection of a claim does not name its
    /// thread.
    fn claims(&self, records: &[Record]) -> Vec<Defect> {
        let claims = || records.iter().filter(|record| record.write == Write::Claim);
        let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
        for record in claims().filter(|record| record.verdict == Verdict::Unknown) {
            *unknown.entry(&record.member).or_default() += 1;
        }
        let acknowledged: BTreeMap<&str, (&str, Option<&str>)> = claims()
            .filter_map(|record| match &record.verdict {
                Verdict::Acknowledged { id, thread, .. } => {
                    Some((id.as_str(), (record.member.as_str(), thread.as_deref())))
                }
                _ => None,
            })
            .collect();
        let mut defects = Vec::new();
        for (lease, claim) in &self.log.claims {
            match acknowledged.get(lease.as_str()) {
                Some(&(member, thread)) if member == claim.member && thread == Some(&claim.thread) => {}
                Some(_) => {
                    defects.push(Defect::Lost(format!("lease {lease} is of another claim: {claim:?}")))
                }
                None => match unknown.get_mut(claim.member.as_str()).filter(|left| **left > 0) {
                    Some(left) => *left -= 1,
                    None => {
                        defects.push(Defect::RefusedDone(format!("a claim that nobody received: {claim:?}")))
                    }
                },
            }
        }
        defects
    }

    /// Returns the writes that were requested once and happened more than once.
    fn repeated(&self, records: &[Record]) -> Vec<Defect> {
        let asked = records.iter().filter(|record| match &record.write {
            Write::Thread(text) | Write::Post { body: text, .. } | Write::Result { mark: text, .. } => {
                self.texts.get(text).is_some_and(|count| *count > 1)
            }
            _ => false,
        });
        asked.map(|record| Defect::DoneTwice(record.to_string())).collect()
    }
}
