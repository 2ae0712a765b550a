//! The replayed log: the rows that must result if every event of it happened.
//!
//! It also finds sequences of events that must not occur, such as a second holder of a claim during the lease
//! of the first.

use std::collections::BTreeMap;

use serde_json::Value;

use super::checker::Defect;
use super::record::plain;

/// A stored event.
pub struct LoggedEvent {
    /// Its position.
    pub lsn: i64,
    /// Its kind.
    pub kind: String,
    /// The thread of the event.
    pub thread: Option<String>,
    /// Its payload.
    pub payload: Value,
}

/// A thread, by its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The position at which it was created.
    pub lsn: i64,
    /// Its title.
    pub title: String,
    /// Its state.
    pub state: String,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// The holder, and the lease.
    pub holder: Option<(String, String)>,
}

/// A message, by its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The position at which it was posted.
    pub lsn: i64,
    /// The thread.
    pub thread: String,
    /// Number of edits.
    pub edits: i64,
    /// Whether it was withdrawn.
    pub withdrawn: bool,
}

/// A claim at its beginning.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The position.
    pub lsn: i64,
    /// The thread.
    pub thread: String,
    /// The holder.
    pub member: String,
}

/// The state that follows from a log.
#[derive(Default)]
pub struct ReplayedState {
    /// The threads, by id.
    pub threads: BTreeMap<String, Thread>,
    /// The messages that were not purged, by id.
    pub messages: BTreeMap<String, Message>,
    /// The claims, by lease.
    pub claims: BTreeMap<String, Claim>,
    /// The results: their positions, and the threads.
    pub results: BTreeMap<i64, String>,
    /// The edits: their positions, and the messages.
    pub edits: BTreeMap<i64, String>,
    /// Events that cannot follow those before them.
    pub defects: Vec<Defect>,
}

impl ReplayedState {
    /// Replays events in the order of the log.
    pub fn of(events: &[LoggedEvent]) -> Self {
        let mut replayed = Self::default();
        events.iter().for_each(|event| replayed.apply(event));
        replayed
    }

    fn apply(&mut self, event: &LoggedEvent) {
        match event.kind.as_str() {
            "ThreadCreated" => self.thread_created(event),
            "ThreadUpdated" => self.change_thread(event, |thread, payload| {
                thread.title = payload["title"].as_str().unwrap_or(&thread.title).to_owned();
            }),
            "ThreadStateChanged" => self.change_thread(event, |thread, payload| {
                thread.state = payload["to"].as_str().unwrap_or_default().to_owned();
                thread.cancelled &= payload["action"] != "reopen";
            }),
            "ThreadCancelled" => self.change_thread(event, |thread, _| thread.cancelled = true),
            "ThreadAssignmentChanged" => self.assigned(event),
            "ThreadResultSet" => drop(self.results.insert(event.lsn, thread_of(event))),
            "MessagePosted" => self.posted(event),
            "MessageEdited" => {
                self.edits.insert(event.lsn, plain(&event.payload["message_id"]));
                self.change_message(event, |message, payload| {
                    message.edits += 1;
                    payload["edit"].as_i64() == Some(message.edits)
                });
            }
            "MessageTombstoned" => {
                self.change_message(event, |message, _| !std::mem::replace(&mut message.withdrawn, true));
            }
            "MessagePurged" => drop(self.messages.remove(&plain(&event.payload["message_id"]))),
            _ => {}
        }
    }

    fn impossible(&mut self, event: &LoggedEvent) {
        self.defects.push(Defect::Impossible { kind: event.kind.clone(), lsn: event.lsn });
    }

    fn thread_created(&mut self, event: &LoggedEvent) {
        let title = event.payload["title"].as_str().unwrap_or_default().to_owned();
        let thread = Thread { lsn: event.lsn, title, state: "open".to_owned(), ..Thread::default() };
        if self.threads.insert(thread_of(event), thread).is_some() {
            self.impossible(event);
        }
    }

    fn change_thread(&mut self, event: &LoggedEvent, change: impl FnOnce(&mut Thread, &Value)) {
        match self.threads.get_mut(&thread_of(event)) {
            Some(thread) => change(thread, &event.payload),
            None => self.impossible(event),
        }
    }

    fn posted(&mut self, event: &LoggedEvent) {
        let message = Message { lsn: event.lsn, thread: thread_of(event), ..Message::default() };
        if self.messages.insert(plain(&event.payload["message_id"]), message).is_some() {
            self.impossible(event);
        }
    }

    /// Changes a message; `change` returns whether that was possible.
    fn change_message(&mut self, event: &LoggedEvent, change: impl FnOnce(&mut Message, &Value) -> bool) {
        let message = self.messages.get_mut(&plain(&event.payload["message_id"]));
        if !message.is_some_and(|message| change(message, &event.payload)) {
            self.impossible(event);
        }
    }

    fn assigned(&mut self, event: &LoggedEvent) {
        let id = thread_of(event);
        let holder = |name: &str| Some(plain(&event.payload[name])).filter(|member| !member.is_empty());
        let next = holder("assignee_id");
        let before = holder("previous_assignee_id");
        let lease = plain(&event.payload["claim_lease_id"]);
        let Some(thread) = self.threads.get_mut(&id) else { return self.impossible(event) };
        let stood = thread.holder.take().map(|(member, _)| member);
        thread.holder = next.clone().map(|member| (member, lease.clone()));
        if stood != before {
            let second = stood.is_some() && before.is_none() && next.is_some();
            self.defects.push(match second {
                true => Defect::SecondHolder { thread: id.clone(), lsn: event.lsn },
                false => Defect::Impossible { kind: event.kind.clone(), lsn: event.lsn },
            });
        }
        if let Some(member) = next {
            let claim = Claim { lsn: event.lsn, thread: id, member };
            if self.claims.insert(lease, claim).is_some() {
                self.impossible(event);
            }
        }
    }
}

fn thread_of(event: &LoggedEvent) -> String {
    event.thread.clone().unwrap_or_default()
}
