//! Random histories: edits, withdrawals, holds and prunings, and an import that continues in another
//! instance. All of them verify, and no change of a column passes.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::id::WorkspaceId;
use svc_core::verify::{ChainReport, verify_database};
use svc_core::{Database, Engine};
use svc_tests::client::Answer;
use svc_tests::ordeal::rounds;
use svc_tests::simulation::Random;
use svc_tests::state::differences;
use svc_tests::{Setup, World, text};

use crate::portability::origin::{export, ways};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// The kinds of steps of a history.
const STEPS: [&str; 11] =
    ["post", "post", "edit", "withdraw", "purge", "age", "hold", "release", "claim", "rotate", "purge all"];

/// A workspace with random activity.
pub struct History {
    pub world: World,
    pub workspace: WorkspaceId,
    pub random: Random,
    admin: String,
    agent: String,
    thread: String,
    messages: Vec<Value>,
    holds: Vec<Value>,
}

impl History {
    /// Returns a history that began on `from`, was imported on `to` and continued there, and was pruned on
    /// both.
    pub fn new((from, to): (Engine, Engine), seed: u64) -> Self {
        let mut history = Self::begin(from, seed);
        (0..80).for_each(|_| history.step());
        let mut history = history.moved(to);
        (0..40).for_each(|_| history.step());
        while let Some(hold) = history.holds.pop() {
            history.release(&hold);
        }
        for _ in 0..4 {
            history.world.pass(DAY);
            history.post();
        }
        history
    }

    fn begin(engine: Engine, seed: u64) -> Self {
        let world = World::with(engine, Setup { seed: 40 + seed, in_memory: true, ..Setup::default() });
        let made = world.admin("create_workspace", json!({"name": "Moving", "admin_handle": "ada"}));
        let workspace: WorkspaceId = text(&made["workspace"]["id"]).parse().unwrap();
        let admin = text(&made["token"]["secret"]);
        let call = |operation: &str, input: Value| world.call(&admin, operation, input).output();
        let agent = call("create_agent", json!({"workspace_id": workspace, "handle": "builder"}));
        let channel = call("create_channel", json!({"workspace_id": workspace, "name": "general"}));
        let thread = call("create_thread", json!({"channel_id": channel["id"], "title": "a task"}));
        let kept = json!({"workspace_id": workspace, "messages_days": 2, "events_days": 3});
        call("set_retention_policy", kept);
        let agent = text(&agent["token"]["secret"]);
        let thread = text(&thread["id"]);
        let messages = Vec::new();
        let holds = Vec::new();
        Self { world, workspace, random: Random(seed), admin, agent, thread, messages, holds }
    }

    /// Moves the history to another instance: restored, or as a copy.
    fn moved(mut self, engine: Engine) -> Self {
        let file = export(&self.world, self.workspace);
        let seed = 4000 + self.random.0 % 1000;
        let world = World::with(engine, Setup { seed, in_memory: true, ..Setup::default() });
        world.clock.set(self.world.clock.now());
        let mode = self.random.of(&["restore", "new"]);
        let import = json!({"mode": mode, "envelope": file, "admin_handle": "ada"});
        let imported = world.admin("import_workspace", import);
        let workspace: WorkspaceId = text(&imported["workspace_id"]).parse().unwrap();
        let admin = text(&imported["admin_token"]["secret"]);
        if mode == "new" {
            // Holds are not imported, and a copy has other ids.
            (self.messages, self.holds) = (Vec::new(), Vec::new());
            let channels = world.call(&admin, "list_channels", json!({"workspace_id": workspace})).output();
            let thread = json!({"channel_id": channels["items"][0]["id"], "title": "another task"});
            self.thread = text(&world.call(&admin, "create_thread", thread).output()["id"]);
        }
        Self { world, workspace, agent: admin.clone(), admin, ..self }
    }

    fn call(&self, operation: &str, input: Value) -> Answer {
        self.world.call(&self.admin, operation, input)
    }

    fn post(&self) -> Value {
        let input = json!({"thread_id": self.thread, "body": "a word"});
        self.world.call(&self.agent, "post_message", input).output()["id"].clone()
    }

    fn release(&self, hold: &Value) {
        self.call("release_legal_hold", json!({"workspace_id": self.workspace, "hold_id": hold})).output();
    }

    /// Takes one step, which the service may refuse.
    fn step(&mut self) {
        match self.random.of(&STEPS) {
            "post" => self.messages.push(self.post()),
            "age" => {
                self.world.clock.advance(HOUR * (1 + u32::try_from(self.random.below(40)).unwrap()));
                self.world.service.housekeep().unwrap();
            }
            "hold" => {
                let placed = json!({"workspace_id": self.workspace, "reason": "one"});
                self.holds.push(self.call("place_legal_hold", placed).output()["id"].clone());
            }
            // The claim lapses as time passes.
            "claim" => {
                let thread = json!({"thread_id": self.thread});
                let answer = self.world.call(&self.agent, "claim_thread", thread);
                assert!([200, 409].contains(&answer.status), "{:#}", answer.body);
            }
            "rotate" => {
                let token = self.call("whoami", json!({})).output()["token_id"].clone();
                let rotated = self.call("rotate_token", json!({"token_id": token})).output();
                let secret = text(&rotated["secret"]);
                if self.agent == self.admin {
                    self.agent.clone_from(&secret);
                }
                self.admin = secret;
            }
            "purge all" => {
                let purge = json!({"workspace_id": self.workspace, "confirm": "Moving"});
                let answer = self.call("purge_workspace", purge);
                assert!([200, 409].contains(&answer.status), "{:#}", answer.body);
            }
            "release" => {
                if let Some(hold) = self.holds.pop() {
                    self.release(&hold);
                }
            }
            _ if self.messages.is_empty() => {}
            change => {
                let message = self.random.of(&self.messages);
                let (operation, input) = match change {
                    "edit" => {
                        let body = self.random.below(1000).to_string();
                        ("edit_message", json!({"message_id": message, "body": body}))
                    }
                    "withdraw" => ("delete_message", json!({"message_id": message})),
                    _ => ("purge_message", json!({"message_id": message})),
                };
                let answer = self.world.call(&self.agent, operation, input.clone());
                let answer = if answer.status == 403 { self.call(operation, input) } else { answer };
                assert!([200, 403, 404, 409].contains(&answer.status), "{change}: {:#}", answer.body);
            }
        }
    }

    /// Returns the report of `svc verify` on its log.
    pub fn report(&self) -> ChainReport {
        verify_database(&self.database(), Some(self.workspace), None).unwrap().remove(0)
    }

    /// Checks that the tables agree with its log.
    fn check_state(&self, seed: u64) {
        let (told, reports) = differences(&self.database());
        assert_eq!(told, [], "seed {seed}");
        let report = reports.iter().find(|report| report.workspace_id == self.workspace).unwrap();
        let of = |table: &str| report.tables[table];
        assert!(of("messages").proven > 0 && of("members").unproven > 0, "seed {seed}: {report:?}");
    }

    pub fn database(&self) -> Database {
        self.world.database.address()
    }

    /// Returns a random position in its log.
    pub fn some(&mut self, report: &ChainReport) -> i64 {
        let events = usize::try_from(report.events).unwrap();
        report.floor + i64::try_from(self.random.below(events)).unwrap()
    }

    /// Runs `then` while the log is changed by a statement.
    pub fn tampered<T>(&self, tamper: &str, then: impl FnOnce() -> T) -> T {
        let database = &self.world.database;
        let own = format!("where workspace_id = {}", database.id(self.workspace));
        let tables = ["events", "heads"];
        let run = |sql: &dyn Fn(&str) -> String| {
            database.execute(&tables.map(sql).join(";\n"));
        };
        run(&|table| format!("create table kept_{table} as select * from {table} {own}"));
        database.execute(tamper);
        let outcome = then();
        run(&|table| {
            format!(
                "delete from {table} {own}; insert into {table} select * from kept_{table};
                 drop table kept_{table}"
            )
        });
        outcome
    }

    /// Returns statements that change a column of an event, or of the head.
    ///
    /// The head's other columns count cache epochs and audit rows, and are not in a log.
    pub fn tampers(&self, lsn: i64) -> Vec<String> {
        let workspace = self.world.database.id(self.workspace);
        let zeros = self.world.database.bytes(&[0; 32]);
        let of_event = [
            "lsn = lsn + 100000".to_owned(),
            "kind = 'Other'".to_owned(),
            "at = at + 1".to_owned(),
            format!("channel_id = case when channel_id is null then {workspace} end"),
            format!("thread_id = case when thread_id is null then {workspace} end"),
            format!("member_id = case when member_id is null then {workspace} end"),
            format!("prev_hash = {zeros}"),
            format!("content_hash = {zeros}"),
            "payload = replace(payload, 'attribution', 'attributiom')".to_owned(),
        ];
        let of_head = ["lsn", "floor", "pruned_at", "words_floor", "at"]
            .into_iter()
            .flat_map(|column| ["+ 1", "- 1"].map(|by| format!("{column} = {column} {by}")))
            .chain([format!("hash = {zeros}"), "words_floor = 0".to_owned()]);
        let events = of_event
            .into_iter()
            .map(|set| format!("update events set {set} where workspace_id = {workspace} and lsn = {lsn}"));
        let removed = format!("delete from events where workspace_id = {workspace} and lsn = {lsn}");
        let heads = of_head.map(|set| format!("update heads set {set} where workspace_id = {workspace}"));
        events.chain([removed]).chain(heads).collect()
    }
}

#[test]
fn random_histories_verify_and_no_column_of_them_can_be_changed() {
    for round in 0..u64::try_from(rounds()).unwrap() {
        for (way, seed) in ways().into_iter().zip(4 * round..) {
            let mut history = History::new(way, seed);
            let report = history.report();
            assert!(report.valid, "seed {seed}: {report:?}");
            history.check_state(seed);
            assert!(report.floor > 40, "seed {seed}: nothing was pruned, so this shows little: {report:?}");
            let lsn = history.some(&report);
            for tamper in history.tampers(lsn) {
                let found = history.tampered(&tamper, || history.report());
                assert!(!found.valid, "seed {seed}: {tamper} is not noticed: {found:?}");
            }
            assert_eq!(history.report(), report, "seed {seed}: what was changed is as it was");
        }
    }
}

/// Additional histories whose tables are compared, in each round.
const COMPARED: u64 = 6;

/// With `SVC_TEST_ROUNDS=10`, these are a hundred together with those above.
#[test]
fn the_tables_of_random_histories_are_what_their_logs_say() {
    let ways = ways();
    for seed in 0..COMPARED * u64::try_from(rounds()).unwrap() {
        let way = ways[usize::try_from(seed).unwrap() % ways.len()];
        History::new(way, 7000 + seed).check_state(seed);
    }
}
