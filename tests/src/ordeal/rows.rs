//! The rows in the database, and their comparison with the replayed log.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::checker::Defect;
use super::replay::{LoggedEvent, Message, ReplayedState, Thread};
use crate::database::TestDatabase;

/// The rows of one workspace.
pub struct Rows {
    /// The threads, by id.
    pub threads: BTreeMap<String, Thread>,
    /// The messages, by id.
    pub messages: BTreeMap<String, Message>,
    /// The results: thread and text, by position.
    pub results: BTreeMap<i64, (String, String)>,
    edits: BTreeMap<i64, String>,
    /// The threads that are in the queue, and those that should be.
    queue: [BTreeSet<String>; 2],
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

impl Rows {
    /// Reads them.
    pub fn read(database: &TestDatabase, workspace: &str) -> Self {
        let rows = |sql: &str| database.rows(&sql.replace("$1", workspace));
        let thread = |row: &Vec<Value>| {
            let holder = row[5].as_str().map(|member| (member.to_owned(), text(&row[6])));
            let lsn = number(&row[1]);
            let cancelled = number(&row[4]) > 0;
            (text(&row[0]), Thread { lsn, title: text(&row[2]), state: text(&row[3]), cancelled, holder })
        };
        let message = |row: &Vec<Value>| {
            let lsn = number(&row[1]);
            let edits = number(&row[3]);
            let withdrawn = number(&row[4]) > 0;
            (text(&row[0]), Message { lsn, thread: text(&row[2]), edits, withdrawn })
        };
        let ids = |sql: &str| rows(sql).iter().map(|row| text(&row[0])).collect();
        Self {
            threads: rows(THREADS).iter().map(thread).collect(),
            messages: rows(MESSAGES).iter().map(message).collect(),
            results: rows(RESULTS)
                .iter()
                .map(|row| (number(&row[0]), (text(&row[1]), text(&row[2]))))
                .collect(),
            edits: rows(EDITS).iter().map(|row| (number(&row[0]), text(&row[1]))).collect(),
            queue: [ids(QUEUED), ids(CLAIMABLE)],
        }
    }

    /// Returns the disagreements of rows and events.
    pub fn disagreements(&self, log: &ReplayedState) -> Vec<Defect> {
        let mut defects = compare("threads", "ThreadCreated", &self.threads, &log.threads, |t| t.lsn);
        defects.extend(compare("messages", "MessagePosted", &self.messages, &log.messages, |m| m.lsn));
        let results: BTreeMap<i64, String> =
            self.results.iter().map(|(lsn, (thread, _))| (*lsn, thread.clone())).collect();
        defects.extend(compare_at("results", "ThreadResultSet", &results, &log.results));
        let kept = |message: &String| log.messages.contains_key(message);
        let edits = log.edits.iter().filter(|(_, message)| kept(message));
        let edits = edits.map(|(lsn, message)| (*lsn, message.clone())).collect();
        defects.extend(compare_at("message_edits", "MessageEdited", &self.edits, &edits));
        let [queued, claimable] = &self.queue;
        let queue = |id: &String| Defect::RowDiffers { table: "ready", id: id.clone() };
        defects.extend(queued.symmetric_difference(claimable).map(queue));
        defects
    }
}

/// Compares rows with their events, by id.
fn compare<T: PartialEq>(
    table: &'static str,
    kind: &'static str,
    rows: &BTreeMap<String, T>,
    log: &BTreeMap<String, T>,
    lsn: impl Fn(&T) -> i64,
) -> Vec<Defect> {
    let mut defects = Vec::new();
    for (id, row) in rows {
        match log.get(id) {
            None => defects.push(Defect::RowWithoutEvent { table, id: id.clone() }),
            Some(said) if said != row => defects.push(Defect::RowDiffers { table, id: id.clone() }),
            Some(_) => {}
        }
    }
    let missing = log.iter().filter(|(id, _)| !rows.contains_key(*id));
    defects.extend(missing.map(|(_, said)| Defect::EventWithoutRow { kind, lsn: lsn(said) }));
    defects
}

/// Compares rows with their events, by position.
fn compare_at(
    table: &'static str,
    kind: &'static str,
    rows: &BTreeMap<i64, String>,
    log: &BTreeMap<i64, String>,
) -> Vec<Defect> {
    let without = |lsn: &i64, id: &String, other: &BTreeMap<i64, String>| other.get(lsn) != Some(id);
    let rows_alone = rows.iter().filter(|(lsn, id)| without(lsn, id, log));
    let mut defects: Vec<Defect> =
        rows_alone.map(|(_, id)| Defect::RowWithoutEvent { table, id: id.clone() }).collect();
    let events_alone = log.iter().filter(|(lsn, id)| without(lsn, id, rows));
    defects.extend(events_alone.map(|(lsn, _)| Defect::EventWithoutRow { kind, lsn: *lsn }));
    defects
}

/// Reads the events of a workspace's log.
pub fn events(database: &TestDatabase, workspace: &str) -> Vec<LoggedEvent> {
    let event = |row: &Vec<Value>| LoggedEvent {
        lsn: number(&row[0]),
        kind: text(&row[1]),
        thread: row[2].as_str().map(str::to_owned),
        payload: serde_json::from_str(row[3].as_str().unwrap_or_default()).unwrap_or_default(),
    };
    database.rows(&EVENTS.replace("$1", workspace)).iter().map(event).collect()
}

const EVENTS: &str = "select lsn, kind, thread_id, payload from events where workspace_id = $1 order by lsn";

const THREADS: &str = "
    select id, lsn, title, state, case when cancelled_at is null then 0 else 1 end,
        assignee_id, claim_lease_id
    from threads where workspace_id = $1";

const MESSAGES: &str = "
    select id, lsn, thread_id, edits, case when withdrawn_at is null then 0 else 1 end
    from messages where workspace_id = $1";

const RESULTS: &str = "select lsn, thread_id, result from results where workspace_id = $1";

const EDITS: &str = "
    select e.lsn, e.message_id from message_edits e join messages m on m.id = e.message_id
    where m.workspace_id = $1";

/// Threads with an obstacle are parked beside the queue.
const QUEUED: &str = "
    select q.thread_id from (select thread_id from ready union all select thread_id from parked) q
    join threads t on t.id = q.thread_id where t.workspace_id = $1";

const CLAIMABLE: &str = "
    select t.id from threads t join channels c on c.id = t.channel_id
    where t.workspace_id = $1 and t.state = 'open' and t.blocked = 0 and t.has_result = (1 = 0)
        and t.assignee_id is null and c.archived_at is null";
