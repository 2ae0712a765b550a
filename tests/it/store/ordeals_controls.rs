//! Controls of the checker: it finds nothing after a good run, and names every defect that a fault can leave.
//!
//! These are a lost acknowledged write, a rejected write that happened, a claim granted twice, rows and
//! events that disagree, and a head that is not at the end of the log. And `svc verify` reports a log that
//! continues beyond its head.

use std::time::Duration;

use svc_core::Engine;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::ordeal::callers::{Workload, WriteProbe, summary};
use svc_tests::ordeal::checker::{Defect, assert_sound, check};
use svc_tests::ordeal::record::{Record, Verdict, Write};
use svc_tests::site::Site;

/// The writes of the good run: each step once.
const STEPS: usize = 48;

/// A site after a good run, and the records of its callers.
struct GoodRun {
    site: Site,
    records: Vec<Record>,
}

fn good_run(engine: Engine) -> GoodRun {
    let site = Site::found(engine);
    let workload = Workload::prepare(&site, 3);
    let server = site.serve(&[]);
    let mut records = Vec::new();
    for number in 0..3 {
        let mut caller = workload.caller(number, server.address());
        for _ in 0..STEPS {
            caller.step();
        }
        records.extend(caller.records);
    }
    drop(server);
    GoodRun { site, records }
}

/// The tables that the controls damage.
const TABLES: [&str; 6] = ["events", "heads", "threads", "messages", "message_edits", "results"];

fn without_keys(engine: Engine, sql: &str) -> String {
    match engine {
        Engine::Sqlite => format!("pragma foreign_keys = off; {sql}"),
        Engine::Postgres => {
            format!("set session_replication_role = replica; {sql} set session_replication_role = origin;")
        }
    }
}

fn keep(database: &TestDatabase) {
    let keep = TABLES.iter().map(|table| format!("create table kept_{table} as select * from {table};"));
    database.execute(&keep.collect::<String>());
}

fn restore(database: &TestDatabase) {
    let restore = TABLES
        .iter()
        .map(|table| format!("delete from {table}; insert into {table} select * from kept_{table};"));
    let restore = format!("begin; {} commit;", restore.collect::<String>());
    database.execute(&without_keys(database.engine(), &restore));
}

/// A damage, in SQL or in the records of the callers, and the defect that must be reported for it.
struct Control {
    name: &'static str,
    sql: String,
    records: Vec<Record>,
    named: Box<dyn Fn(&Defect) -> bool>,
}

/// The last acknowledged write of a kind: its record, its id in the reply, and that as a literal.
struct PickedWrite<'a> {
    record: &'a Record,
    id: String,
    literal: String,
    lsn: Option<i64>,
}

impl GoodRun {
    fn literal(&self, id: &str) -> String {
        self.site.database.id(id.parse::<uuid::Uuid>().unwrap())
    }

    fn workspace(&self) -> String {
        self.literal(&self.site.founders.workspace_id)
    }

    fn pick(&self, wanted: impl Fn(&Record) -> bool) -> PickedWrite<'_> {
        let record = self.records.iter().rev().find(|record| record.is_acknowledged() && wanted(record));
        let record = record.expect("the good run has every kind of write");
        let Verdict::Acknowledged { id, lsn, .. } = &record.verdict else {
            unreachable!("it is acknowledged")
        };
        PickedWrite { record, id: id.clone(), literal: self.literal(id), lsn: *lsn }
    }

    /// Returns a control with a lost acknowledged write.
    fn lost(&self, name: &'static str, of: &PickedWrite<'_>, sql: String) -> Control {
        let lost = Defect::Lost(of.record.to_string());
        Control { name, sql, records: self.records.clone(), named: Box::new(move |defect| *defect == lost) }
    }

    /// Returns a control with a write that happened, although its record says that it was rejected.
    fn refused(&self, of: &PickedWrite<'_>) -> Control {
        let mut records = self.records.clone();
        let at = self.records.iter().position(|record| std::ptr::eq(record, of.record)).unwrap();
        records[at].verdict = Verdict::Refused(503, "unavailable".to_owned());
        let named: Box<dyn Fn(&Defect) -> bool> = if records[at].write == Write::Claim {
            Box::new(|defect| matches!(defect, Defect::RefusedDone(what) if what.contains("claim")))
        } else {
            let done = Defect::RefusedDone(records[at].to_string());
            Box::new(move |defect| *defect == done)
        };
        Control { name: "refused and done", sql: String::new(), records, named }
    }

    fn damaged(&self, name: &'static str, sql: String, named: impl Fn(&Defect) -> bool + 'static) -> Control {
        Control { name, sql, records: self.records.clone(), named: Box::new(named) }
    }

    /// Returns SQL that deletes the events of a kind about a message or a thread.
    fn delete_events(&self, kind: &str, id: &str) -> String {
        let dashed = id.parse::<uuid::Uuid>().unwrap();
        let workspace = self.workspace();
        let thread = self.literal(id);
        format!(
            "delete from events where workspace_id = {workspace} and kind = '{kind}'
                 and (thread_id = {thread} or payload like '%\"message_id\":\"{dashed}\"%');"
        )
    }

    fn lost_writes(&self) -> Vec<Control> {
        let thread = self.pick(|record| matches!(record.write, Write::Thread(_)));
        let claimed: Vec<String> = self.ids(|record| record.write == Write::Claim);
        let edited = self.pick(|record| matches!(record.write, Write::Edit { .. }));
        let withdrawn = self.pick(|record| matches!(record.write, Write::Withdraw(_)));
        let cancelled = self.pick(|record| matches!(record.write, Write::Cancel(_)));
        let result = self.pick(|record| matches!(record.write, Write::Result { .. }));
        let kept: Vec<String> =
            self.ids(|record| matches!(record.write, Write::Edit { .. } | Write::Withdraw(_)));
        let post = self.pick(|record| {
            matches!((&record.write, &record.verdict),
                (Write::Post { .. }, Verdict::Acknowledged { id, .. }) if !kept.contains(id))
        });
        assert!(!claimed.is_empty());
        let claim = self.pick(|record| record.write == Write::Claim);
        let lsn = result.lsn.unwrap();
        vec![
            self.lost(
                "a thread",
                &thread,
                format!(
                    "delete from threads where id = {}; {}",
                    thread.literal,
                    self.delete_events("ThreadCreated", &thread.id)
                ),
            ),
            self.lost(
                "a message",
                &post,
                format!(
                    "delete from messages where id = {}; {}",
                    post.literal,
                    self.delete_events("MessagePosted", &post.id)
                ),
            ),
            self.lost(
                "an edit",
                &edited,
                format!(
                    "update messages set edits = 0, edited_at = null where id = {0};
                 delete from message_edits where message_id = {0}; {1}",
                    edited.literal,
                    self.delete_events("MessageEdited", &edited.id)
                ),
            ),
            self.lost(
                "a withdrawal",
                &withdrawn,
                format!(
                    "update messages set withdrawn_at = null where id = {}; {}",
                    withdrawn.literal,
                    self.delete_events("MessageTombstoned", &withdrawn.id)
                ),
            ),
            self.lost(
                "a cancel",
                &cancelled,
                format!(
                    "update threads set cancelled_at = null, state = 'open' where id = {}; {}",
                    cancelled.literal,
                    self.delete_events("ThreadCancelled", &cancelled.id)
                ),
            ),
            self.lost(
                "a claim",
                &claim,
                format!(
                    "delete from events where kind = 'ThreadAssignmentChanged' and payload like '%{}%';",
                    claim.id.parse::<uuid::Uuid>().unwrap()
                ),
            ),
            self.lost(
                "a result",
                &result,
                format!(
                    "delete from results where lsn = {lsn} and thread_id = {}; {}",
                    result.literal,
                    self.delete_events("ThreadResultSet", &result.id)
                ),
            ),
        ]
    }

    fn ids(&self, wanted: impl Fn(&Record) -> bool) -> Vec<String> {
        let ids =
            self.records.iter().filter(|record| wanted(record)).filter_map(|record| match &record.verdict {
                Verdict::Acknowledged { id, .. } => Some(id.clone()),
                _ => None,
            });
        ids.collect()
    }

    fn refused_writes(&self) -> Vec<Control> {
        let kinds: [fn(&Write) -> bool; 7] = [
            |write| matches!(write, Write::Thread(_)),
            |write| matches!(write, Write::Post { .. }),
            |write| matches!(write, Write::Edit { .. }),
            |write| matches!(write, Write::Withdraw(_)),
            |write| matches!(write, Write::Cancel(_)),
            |write| matches!(write, Write::Claim),
            |write| matches!(write, Write::Result { .. }),
        ];
        let changed: Vec<String> =
            self.ids(|record| matches!(record.write, Write::Edit { .. } | Write::Withdraw(_)));
        let untouched = |record: &Record| match (&record.write, &record.verdict) {
            (Write::Post { .. }, Verdict::Acknowledged { id, .. }) => !changed.contains(id),
            _ => true,
        };
        kinds
            .iter()
            .map(|is| self.refused(&self.pick(|record| is(&record.write) && untouched(record))))
            .collect()
    }

    fn damages(&self) -> Vec<Control> {
        let workspace = self.workspace();
        let thread = self.pick(|record| matches!(record.write, Write::Thread(_)));
        let cancelled = self.pick(|record| matches!(record.write, Write::Cancel(_)));
        let result = self.pick(|record| matches!(record.write, Write::Result { .. }));
        let created = thread.lsn.unwrap();
        let set = result.lsn.unwrap();
        let id = thread.id.clone();
        let cancelled_id = cancelled.id.clone();
        let at = |lsn: &str| format!("workspace_id = {workspace} and lsn = {lsn}");
        let behind = format!(
            "update heads set lsn = lsn - 2, hash = (select content_hash from events e
                 where e.workspace_id = heads.workspace_id and e.lsn = heads.lsn - 2)
                     where workspace_id = {workspace};"
        );
        let last =
            self.site.database.number(&format!("select lsn from heads where workspace_id = {workspace}"));
        let claim = self.pick(|record| record.write == Write::Claim);
        let lease = claim.id.parse::<uuid::Uuid>().unwrap();
        let other = uuid::Uuid::from_u128(7);
        // The same claim again, by another member, after the last event.
        let doubled = format!(
            "insert into events (workspace_id, lsn, kind, at, channel_id, thread_id, member_id, prev_hash,
                 content_hash, payload)
             select workspace_id, {last} + 1, kind, at, channel_id,
                 thread_id, member_id, prev_hash, content_hash,
                 replace(replace(payload, '{lease}', '{other}'), '\"assignee_id\":\"', '\"assignee_id\":\"f')
             from events where kind = 'ThreadAssignmentChanged'
                 and payload like '%\"claim_lease_id\":\"{lease}\"%'
                 and payload like '%\"reason\":\"claimed\"%';
             delete from events where lsn < {last} + 1 and lsn > (select min(e.lsn) from events e
                 where e.payload like '%\"claim_lease_id\":\"{lease}\"%') and kind = 'ThreadAssignmentChanged'
                 and thread_id = (select e.thread_id from events e where e.lsn = {last} + 1);"
        );
        vec![
            self.damaged("a row without its event", self.delete_events("ThreadCreated", &thread.id), {
                let id = id.clone();
                move |defect| *defect == Defect::RowWithoutEvent { table: "threads", id: id.clone() }
            }),
            self.damaged(
                "an event without its row",
                format!("delete from threads where id = {};", thread.literal),
                move |defect| *defect == Defect::EventWithoutRow { kind: "ThreadCreated", lsn: created },
            ),
            self.damaged(
                "a result's event without its row",
                format!("delete from results where {};", at(&set.to_string())),
                move |defect| *defect == Defect::EventWithoutRow { kind: "ThreadResultSet", lsn: set },
            ),
            self.damaged(
                "events that say cancelled, and a row that does not",
                format!("update threads set cancelled_at = null where id = {};", cancelled.literal),
                move |defect| *defect == Defect::RowDiffers { table: "threads", id: cancelled_id.clone() },
            ),
            self.damaged(
                "a claim given twice",
                doubled,
                move |defect| matches!(defect, Defect::SecondHolder { lsn, .. } if *lsn == last + 1),
            ),
            self.damaged(
                "a head behind its log",
                behind,
                move |defect| matches!(defect, Defect::Chain { lsn, .. } if *lsn == last),
            ),
            self.damaged(
                "a log behind its head",
                format!("delete from events where {};", at(&last.to_string())),
                move |defect| matches!(defect, Defect::Chain { lsn, .. } if *lsn == last),
            ),
        ]
    }
}

fn shows_every_damage(engine: Engine) {
    let good = good_run(engine);
    let refused = good.records.iter().filter(|record| !record.is_acknowledged()).count();
    assert!(refused * 4 < good.records.len(), "{}", summary(&good.records));
    assert_sound("a good run", &check(&good.site, &good.records));
    let controls = [good.lost_writes(), good.refused_writes(), good.damages()];
    keep(&good.site.database);
    for control in controls.iter().flatten() {
        good.site.database.execute(&without_keys(engine, &control.sql));
        let found = check(&good.site, &control.records);
        assert!(
            found.iter().any(&control.named),
            "{} on {}: not reported in {found:?}",
            control.name,
            engine.name()
        );
        restore(&good.site.database);
    }
    assert_sound("the original, put back", &check(&good.site, &good.records));
}

#[test]
fn the_checker_reports_every_defect_that_a_fault_can_leave() {
    for engine in engines() {
        shows_every_damage(engine);
    }
}

#[test]
fn the_checker_reports_a_server_that_accepts_nothing() {
    let site = Site::found(Engine::Sqlite);
    let workload = Workload::prepare(&site, 1);
    let server = site.serve(&[]);
    let address = server.address();
    let mut probe = WriteProbe::prepare(workload.caller(0, address));
    assert_eq!(probe.check_recovery(), None);
    drop(server);
    let mut probe = WriteProbe::within(probe.caller, Duration::from_millis(500));
    assert!(matches!(probe.check_recovery(), Some(Defect::Slow(_))));
}
