//! Tampering with the stored log.
//!
//! Whatever is changed in it without the service, `svc verify` exits with code 3 and names the workspace and
//! the first event that differs. Changes that a hash chain cannot show by itself, such as a log that was cut
//! off or rewritten up to its head, show against a head that was kept.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_core::Engine;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::ExitedProgram;
use svc_tests::site::{Site, done};

/// The exit code for a broken log.
const BROKEN: Option<i32> = Some(3);
/// An id that does not exist in the database.
const FORGED_ID: uuid::Uuid = uuid::Uuid::from_u128(0xbad);

/// A stored event.
struct StoredEventRow {
    lsn: i64,
    prev_hash: String,
    content_hash: String,
    payload: String,
}

/// The log of one workspace.
struct Log {
    workspace_id: String,
    events: Vec<StoredEventRow>,
}

impl Log {
    fn read(database: &TestDatabase, workspace_id: &str) -> Self {
        let sql = format!(
            "select lsn, prev_hash, content_hash, payload from events where workspace_id = {} order by lsn",
            literal_id(database, workspace_id)
        );
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let event = |row: &Vec<Value>| StoredEventRow {
            lsn: row[0].as_i64().unwrap(),
            prev_hash: text(&row[1]),
            content_hash: text(&row[2]),
            payload: text(&row[3]),
        };
        Self {
            workspace_id: workspace_id.to_owned(),
            events: database.rows(&sql).iter().map(event).collect(),
        }
    }

    fn last(&self) -> i64 {
        self.events.last().unwrap().lsn
    }

    fn at(&self, lsn: i64) -> &StoredEventRow {
        self.events.iter().find(|event| event.lsn == lsn).unwrap()
    }

    /// Returns the head to keep when the log ended at `lsn`.
    fn head(&self, lsn: i64) -> String {
        format!("{lsn}:sha256:{}", self.at(lsn).content_hash)
    }
}

/// Two logs, and their site.
struct PreparedLogs {
    site: Site,
    logs: [Log; 2],
}

/// Sets the original aside.
const KEEP: &str = "
    create table kept_events as select * from events; create table kept_heads as select * from heads;
    create table kept_audit as select * from audit; create table kept_workspaces as select *
        from workspaces;";

/// Restores everything.
const RESTORE: &str = "
    begin;
    delete from events; insert into events select * from kept_events;
    delete from heads; insert into heads select * from kept_heads;
    delete from audit; insert into audit select * from kept_audit;
    delete from workspaces; insert into workspaces select * from kept_workspaces;
    commit;";

/// Runs statements without checking foreign keys.
fn unchecked(database: &TestDatabase, sql: &str) {
    database.execute(&match database.engine() {
        Engine::Sqlite => format!("pragma foreign_keys = off; {sql}"),
        Engine::Postgres => {
            format!("set session_replication_role = replica; {sql}; set session_replication_role = origin")
        }
    });
}

fn prepare(engine: Engine) -> PreparedLogs {
    let site = Site::found(engine);
    let service = site.open();
    let founders = site.founders.clone();
    fill(&service, &founders.admin, &founders.workspace_id);
    let other =
        done(&service, &founders.admin, "create_workspace", json!({"name": "Other", "admin_handle": "eve"}));
    let eve = text(&other["token"]["secret"]);
    let other = text(&other["workspace"]["id"]);
    fill(&service, &eve, &other);
    drop(service);
    let logs = [Log::read(&site.database, &founders.workspace_id), Log::read(&site.database, &other)];
    assert!(logs.iter().all(|log| log.last() >= 12), "the logs are too short to be tampered with");
    site.database.execute(KEEP);
    PreparedLogs { site, logs }
}

/// Creates events to tamper with.
fn fill(service: &svc_core::Service, token: &str, workspace_id: &str) {
    let call = |operation, input| done(service, token, operation, input);
    let channel = call("create_channel", json!({"workspace_id": workspace_id, "name": "general"}));
    for title in ["Port the lexer", "Port the parser"] {
        let thread = call("create_thread", json!({"channel_id": channel["id"], "title": title}));
        call("claim_thread", json!({"thread_id": thread["id"]}));
        call("post_message", json!({"thread_id": thread["id"], "body": "under way"}));
        call("set_thread_result", json!({"thread_id": thread["id"], "result": {"lines": 412}}));
        call("transition_thread", json!({"thread_id": thread["id"], "action": "close"}));
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn literal_id(database: &TestDatabase, id: &str) -> String {
    database.id(id.parse::<uuid::Uuid>().unwrap())
}

/// One kind of tampering, and where it must be found.
struct Case {
    name: String,
    sql: String,
    /// The broken workspaces, by their place in [`PreparedLogs::logs`], and the positions.
    broken: Vec<(usize, i64)>,
    /// The expected head of the first workspace; without it, the tampering must pass unnoticed.
    kept_head: Option<String>,
}

fn case(name: impl Into<String>, sql: impl Into<String>, lsn: i64) -> Case {
    Case { name: name.into(), sql: sql.into(), broken: vec![(0, lsn)], kept_head: None }
}

/// Writes SQL against the logs.
struct Forger<'a> {
    engine: Engine,
    logs: &'a [Log; 2],
}

impl Forger<'_> {
    fn id(&self, id: &str) -> String {
        let id: uuid::Uuid = id.parse().unwrap();
        match self.engine {
            Engine::Sqlite => format!("x'{}'", id.simple()),
            Engine::Postgres => format!("'{id}'::uuid"),
        }
    }

    fn bytes(&self, hex: &str) -> String {
        match self.engine {
            Engine::Sqlite => format!("x'{hex}'"),
            Engine::Postgres => format!("'\\x{hex}'::bytea"),
        }
    }

    /// Returns the condition that finds an event.
    fn event(&self, log: usize, lsn: i64) -> String {
        format!("workspace_id = {} and lsn = {lsn}", self.id(&self.logs[log].workspace_id))
    }

    fn update(&self, lsn: i64, change: &str) -> String {
        format!("update events set {change} where {};", self.event(0, lsn))
    }

    fn head(&self, change: &str) -> String {
        format!("update heads set {change} where workspace_id = {};", self.id(&self.logs[0].workspace_id))
    }

    /// Replaces the payload of an event, and updates its hash.
    fn rewrite(&self, lsn: i64, payload: &str) -> String {
        let hash = self.bytes(&hash(payload));
        self.update(lsn, &format!("payload = '{}', content_hash = {hash}", payload.replace('\'', "''")))
    }

    /// Returns a case for every column of the first, a middle and the last event.
    fn columns(&self) -> Vec<Case> {
        let forged = self.id(&FORGED_ID.to_string());
        let zeros = self.bytes(&"00".repeat(32));
        let changes = [
            ("workspace_id", forged.as_str()),
            ("lsn", "lsn + 1000"),
            ("kind", "'Forged'"),
            ("at", "at + 1"),
            ("channel_id", &forged),
            ("thread_id", &forged),
            ("member_id", &forged),
            ("prev_hash", &zeros),
            ("content_hash", &zeros),
            ("payload", "payload || ' '"),
        ];
        let last = self.logs[0].last();
        let at = |lsn: i64| {
            changes.map(|(column, value)| {
                case(format!("{column} of {lsn}"), self.update(lsn, &format!("{column} = {value}")), lsn)
            })
        };
        [1, last / 2, last].into_iter().flat_map(at).collect()
    }

    fn deleted(&self) -> Vec<Case> {
        let last = self.logs[0].last();
        let delete = |lsn| {
            case(format!("{lsn} deleted"), format!("delete from events where {};", self.event(0, lsn)), lsn)
        };
        let mut cases = Vec::from([1, last / 2, last].map(delete));
        let kept = last - 3;
        let tail = format!(
            "delete from events where workspace_id = {} and lsn > {kept};",
            self.id(&self.logs[0].workspace_id)
        );
        let hash = self.bytes(&self.logs[0].at(kept).content_hash);
        cases.push(case("the tail deleted", tail.clone(), kept + 1));
        let at = "at = (select max(at) from events e where e.workspace_id = heads.workspace_id)";
        let head = self.head(&format!("lsn = {kept}, hash = {hash}, {at}"));
        cases.push(Case {
            kept_head: Some(self.logs[0].head(last)),
            ..case("the tail cut off", tail + &head, kept + 1)
        });
        cases
    }

    fn swapped(&self) -> Vec<Case> {
        let a = self.logs[0].last() / 2;
        let b = self.logs[0].last() / 2 + 1;
        let within = self.update(a, "lsn = -1")
            + &self.update(b, &format!("lsn = {a}"))
            + &self.update(-1, &format!("lsn = {b}"));
        let move_to = |from: &str, to: &str| {
            format!("update events set workspace_id = {to} where workspace_id = {from} and lsn = {a};")
        };
        let one = self.id(&self.logs[0].workspace_id);
        let other = self.id(&self.logs[1].workspace_id);
        let aside = self.id(&FORGED_ID.to_string());
        let across = move_to(&one, &aside) + &move_to(&other, &one) + &move_to(&aside, &other);
        vec![
            case("two swapped", within, a),
            Case { broken: vec![(0, a), (1, a)], ..case("two swapped across workspaces", across, a) },
        ]
    }

    fn rewritten(&self) -> Vec<Case> {
        let log = &self.logs[0];
        let lsn = log.last() / 2;
        let last = log.last();
        let forged = forge(&log.at(lsn).payload);
        let one = self.rewrite(lsn, &forged);
        let link = format!("prev_hash = {}", self.bytes(&hash(&forged)));

        let mut all = one.clone();
        let mut before = hash(&forged);
        for event in log.events.iter().filter(|event| event.lsn > lsn) {
            let payload = relink(event, &before);
            all += &self.update(event.lsn, &format!("prev_hash = {}", self.bytes(&before)));
            all += &self.rewrite(event.lsn, &payload);
            before = hash(&payload);
        }
        all += &self.head(&format!("hash = {}", self.bytes(&before)));

        let unlinked = Case { broken: vec![(0, lsn + 1)], ..case("one rewritten", one.clone(), lsn) };
        let linked =
            case("one rewritten, and its successor's link", one + &self.update(lsn + 1, &link), lsn + 1);
        let against = |head: i64| Case {
            kept_head: Some(log.head(head)),
            ..case(format!("all rewritten from {lsn} on, {head} kept"), all.clone(), head)
        };
        vec![unlinked, linked, against(last), against(lsn), against(lsn + 1)]
    }

    fn heads(&self) -> Vec<Case> {
        let last = self.logs[0].last();
        let workspace = self.id(&self.logs[0].workspace_id);
        let zeros = self.bytes(&"00".repeat(32));
        let behind = self.bytes(&self.logs[0].at(last - 3).content_hash);
        vec![
            case("events beyond the head", self.head(&format!("lsn = lsn - 3, hash = {behind}")), last),
            case("the head too far", self.head("lsn = lsn + 1"), last + 1),
            case("the head too near", self.head("lsn = lsn - 1"), last),
            case("the head's hash", self.head(&format!("hash = {zeros}")), last),
            case("no head", format!("delete from heads where workspace_id = {workspace};"), last),
        ]
    }
}

/// Returns another valid payload.
fn forge(payload: &str) -> String {
    format!("{},\"zz\":\"forged\"}}", payload.strip_suffix('}').unwrap())
}

/// Returns the payload of an event with another predecessor.
fn relink(event: &StoredEventRow, before: &str) -> String {
    let link = |hash: &str| format!("\"prev_hash\":\"sha256:{hash}\"");
    assert!(event.payload.contains(&link(&event.prev_hash)), "{}", event.payload);
    event.payload.replacen(&link(&event.prev_hash), &link(before), 1)
}

fn hash(payload: &str) -> String {
    hex::encode(Sha256::digest(payload.as_bytes()))
}

/// Returns the report of `svc verify --json` on a workspace.
fn report_of<'a>(output: &'a Value, workspace_id: &str) -> Option<&'a Value> {
    match output {
        Value::Object(members) if members.get("workspace_id") == Some(&json!(workspace_id)) => Some(output),
        Value::Object(members) => members.values().find_map(|value| report_of(value, workspace_id)),
        Value::Array(items) => items.iter().find_map(|value| report_of(value, workspace_id)),
        _ => None,
    }
}

fn json_of(outcome: &ExitedProgram) -> Value {
    serde_json::from_str(&outcome.out).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

fn verify(site: &Site) -> ExitedProgram {
    site.svc(&["verify", "--json"])
}

fn verify_against(site: &Site, workspace_id: &str, head: &str) -> ExitedProgram {
    site.svc(&["verify", "--json", "--workspace", workspace_id, "--expect-head", head])
}

fn check(prepared: &PreparedLogs, case: &Case) {
    let name = &case.name;
    let logs = &prepared.logs;
    let site = &prepared.site;
    let engine = site.engine().name();
    site.database.execute(&case.sql);
    let outcome = match &case.kept_head {
        None => verify(site),
        Some(head) => {
            let plain = verify(site);
            assert_eq!(plain.code, Some(0), "{name}: found without a kept head? {plain:?}");
            verify_against(site, &logs[0].workspace_id, head)
        }
    };
    assert_eq!(outcome.code, BROKEN, "{name} on {engine}: {outcome:?}");
    let output = json_of(&outcome);
    for (log, lsn) in &case.broken {
        let report = report_of(&output, &logs[*log].workspace_id);
        let named = report.map(|report| &report["broken"]["lsn"]);
        assert_eq!(named, Some(&json!(lsn)), "{name} on {engine}: {output:#}");
    }
    unchecked(&site.database, RESTORE);
}

#[test]
fn every_change_of_the_log_is_found_and_named() {
    for engine in engines() {
        let prepared = prepare(engine);
        let forger = Forger { engine, logs: &prepared.logs };
        let cases =
            [forger.columns(), forger.deleted(), forger.swapped(), forger.rewritten(), forger.heads()];
        for case in cases.iter().flatten() {
            check(&prepared, case);
        }
        assert_eq!(verify(&prepared.site).code, Some(0), "the original was not put back after a case");
    }
}

#[test]
fn an_untouched_log_passes_with_its_head_and_with_every_earlier_one() {
    for engine in engines() {
        let prepared = prepare(engine);
        let site = &prepared.site;
        let outcome = verify(site);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let output = json_of(&outcome);
        for log in &prepared.logs {
            let report = report_of(&output, &log.workspace_id).unwrap_or_else(|| panic!("{output:#}"));
            let hash = format!("sha256:{}", log.at(log.last()).content_hash);
            assert_eq!(report["head"], json!({"lsn": log.last(), "hash": hash}), "{output:#}");
            for lsn in [1, log.last() / 2, log.last()] {
                let outcome = verify_against(site, &log.workspace_id, &log.head(lsn));
                assert_eq!(outcome.code, Some(0), "{lsn}: {outcome:?}");
            }
        }
    }
}

/// The id of the instance, which has a log like a workspace.
const INSTANCE: &str = "00000000-0000-0000-0000-000000000000";

/// A missing or surplus item: the workspace whose log must be named for it, the position, and the defect.
struct ExpectedDefect<'a> {
    name: &'a str,
    sql: String,
    workspace_id: &'a str,
    lsn: i64,
    defect: &'a str,
}

fn gone_cases<'a>(prepared: &'a PreparedLogs, forger: &Forger<'_>) -> Vec<ExpectedDefect<'a>> {
    let [one, other] = prepared.logs.each_ref().map(|log| log.workspace_id.as_str());
    let gone = |name, sql: String, workspace_id, lsn, defect| ExpectedDefect {
        name,
        sql,
        workspace_id,
        lsn,
        defect,
    };
    let log_of = |id: &str| {
        let id = forger.id(id);
        format!("delete from events where workspace_id = {id}; delete from heads where workspace_id = {id};")
    };
    let row_of_other = format!("delete from workspaces where id = {};", forger.id(other));
    let nil = forger.id(INSTANCE);
    let unnamed = format!(
        "delete from events where workspace_id = {nil} and lsn = 2;
         update heads set lsn = 1, hash = (select content_hash from events where workspace_id = {nil}
             and lsn = 1)
         where workspace_id = {nil};"
    );
    let rows = format!("from audit where workspace_id = {}", forger.id(one));
    let last = prepared.site.database.number(&format!("select max(seq) {rows}"));
    let moved = |seq: i64, to: i64| {
        format!("update audit set seq = {to} where workspace_id = {} and seq = {seq};", forger.id(one))
    };
    let end = prepared.logs[0].last();
    let torn = format!(
        "delete from events where {}; {}",
        forger.event(0, end - 2),
        forger.head(&format!(
            "lsn = {}, hash = {}",
            end - 3,
            forger.bytes(&prepared.logs[0].at(end - 3).content_hash)
        ))
    );
    let behind = forger.head(&format!(
        "lsn = {}, hash = {}",
        end - 2,
        forger.bytes(&prepared.logs[0].at(end - 2).content_hash)
    ));
    vec![
        gone("the instance's log", log_of(INSTANCE), INSTANCE, 1, "log_missing"),
        gone("a log", log_of(other), other, 1, "log_missing"),
        gone("a log and its workspace", log_of(other) + &row_of_other, other, 1, "log_missing"),
        gone("a name in the instance's log", unnamed, other, 1, "unlisted"),
        gone("an audit row", format!("delete {rows} and seq = 3;"), one, 3, "audit"),
        gone("the last audit row", format!("delete {rows} and seq = {last};"), one, last, "audit"),
        gone("every audit row", format!("delete {rows};"), one, 1, "audit"),
        gone("an audit row's number", moved(last, last + 1), one, last, "audit"),
        gone("the first audit row's number", moved(1, 0), one, 0, "audit"),
        gone("what the head counts", forger.head("audit_seq = audit_seq - 1"), one, last, "audit"),
        gone("the end of a torn transaction", behind, one, end, "head"),
        gone("the middle of a torn transaction", torn, one, end - 2, "missing"),
    ]
}

#[test]
fn every_deletion_is_found_and_named() {
    for engine in engines() {
        let prepared = prepare(engine);
        let forger = Forger { engine, logs: &prepared.logs };
        for case in gone_cases(&prepared, &forger) {
            unchecked(&prepared.site.database, &case.sql);
            let outcome = verify(&prepared.site);
            assert_eq!(outcome.code, BROKEN, "{} on {engine:?}: {outcome:?}", case.name);
            let output = json_of(&outcome);
            let broken = report_of(&output, case.workspace_id).map(|report| &report["broken"]);
            let wanted = json!({"lsn": case.lsn, "defect": case.defect});
            assert_eq!(broken, Some(&wanted), "{} on {engine:?}: {output:#}", case.name);
            unchecked(&prepared.site.database, RESTORE);
        }
        assert_eq!(verify(&prepared.site).code, Some(0), "the original was not put back after a case");
    }
}

#[test]
fn an_empty_database_is_broken_for_a_caller_that_kept_a_head() {
    for engine in engines() {
        let prepared = prepare(engine);
        let site = &prepared.site;
        let log = &prepared.logs[0];
        let head = log.head(log.last());
        let unknown = site.svc(&["verify", "--json", "--workspace", &FORGED_ID.to_string()]);
        assert_eq!(unknown.code, BROKEN, "{unknown:?}");
        let everything =
            ["events", "heads", "audit", "workspaces"].map(|name| format!("delete from {name};"));
        unchecked(&site.database, &everything.concat());
        assert_eq!(verify(site).code, Some(0), "no head was given");
        let by_id = site.svc(&["verify", "--json", "--workspace", &log.workspace_id]);
        let by_head = site.svc(&["verify", "--json", "--expect-head", &head]);
        for outcome in [by_id, by_head] {
            assert_eq!(outcome.code, BROKEN, "{outcome:?}");
            let output = json_of(&outcome);
            assert_eq!(output["logs"][0]["broken"], json!({"lsn": 1, "defect": "log_missing"}), "{output:#}");
        }
    }
}
