//! Jobs that share a commit have the answers, events and refusals of the same jobs one after the other.
//!
//! Two worlds of one seed get the same random jobs. In one each is called alone. In the other all of a round
//! are queued while the first job holds up the writer, and so run together.

use std::sync::{Mutex, mpsc};

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::capability::Capability::WorkspaceRead;
use svc_core::op::{Feature, Request, Surface, Write, write};
use svc_core::{Engine, Result};
use svc_tests::database::engines;
use svc_tests::simulation::Random;
use svc_tests::{Setup, World, answer_of};

const ROUNDS: usize = 10;
const JOBS: usize = 40;

/// An operation called by a member.
type Job = (String, &'static str, Value);

/// Holds up whoever calls [`hold_up`].
static HELD_UP: Mutex<()> = Mutex::new(());

/// Waits until the test lets it go on, and with it all changes of the workspace.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HoldUp {}

#[derive(Serialize, JsonSchema)]
struct Over {}

fn hold_up(_: &mut Write<'_>, _: &HoldUp) -> Result<Over> {
    drop(HELD_UP.lock().unwrap());
    Ok(Over {})
}

fn features() -> Vec<Feature> {
    let operation = write("hold_up", hold_up)
        .title("Hold up")
        .post("/hold-up")
        .needs(&[WorkspaceRead])
        .example(|_| json!({}));
    vec![Feature::new().operations("hold-up", vec![operation])]
}

/// Runs jobs in one world, and returns their answers.
type Run = fn(&World, &[Job]) -> Vec<(u16, Value)>;

fn one_by_one(world: &World, jobs: &[Job]) -> Vec<(u16, Value)> {
    let call = |(token, operation, input): &Job| {
        let answer = world.call(token, operation, input.clone());
        (answer.status, answer.body)
    };
    world.admin("hold_up", json!({}));
    jobs.iter().map(call).collect()
}

fn together(world: &World, jobs: &[Job]) -> Vec<(u16, Value)> {
    let held_up = HELD_UP.lock().unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut tickets = Vec::new();
    let first = (world.people.admin.clone(), "hold_up", json!({}));
    for (number, (token, operation, input)) in std::iter::once(&first).chain(jobs).enumerate() {
        let request = Request::json(Surface::Rest, Some(SecretString::from(&**token)), input.to_string());
        let sender = sender.clone();
        let done = Box::new(move |reply| sender.send((number, answer_of(reply))).unwrap());
        tickets.push(world.service.submit(world.service.operation(operation).unwrap(), request, done));
    }
    drop(held_up);
    let mut answers: Vec<_> = receiver.iter().take(1 + jobs.len()).collect();
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().skip(1).map(|(_, answer)| (answer.status, answer.body)).collect()
}

/// What the jobs are drawn from: the same in both worlds as long as their answers are.
struct Drawn {
    random: Random,
    members: [String; 3],
    channels: [String; 2],
    workspace: String,
    threads: Vec<String>,
    /// Claims that were given out: the holder, the thread and the lease.
    claims: Vec<(String, String, String)>,
}

impl Drawn {
    fn begin(world: &World, seed: u64) -> Self {
        let channels = [world.new_channel("one"), world.new_private_channel("two")];
        let (_, skilled) = world.new_agent("skilled");
        world.call(&skilled, "set_skills", json!({"skills": ["rust"]})).output();
        let (_, plain) = world.new_agent("plain");
        let members = [world.people.admin.clone(), skilled, plain];
        let workspace = world.id("workspace").to_string();
        Self { random: Random(seed), members, channels, workspace, threads: Vec::new(), claims: Vec::new() }
    }

    fn jobs(&mut self) -> Vec<Job> {
        (0..JOBS).map(|_| self.job()).collect()
    }

    fn job(&mut self) -> Job {
        let member = self.random.of(&self.members);
        let channel = self.random.of(&self.channels);
        let lease_secs = 60 + 10 * self.random.below(30);
        let next = json!({"channel_id": channel, "lease_secs": lease_secs});
        if self.threads.is_empty() {
            return (member, "create_thread", self.task(&channel));
        }
        let thread = self.random.of(&self.threads);
        match self.random.below(21) {
            0..=4 => (member, "claim_next_thread", next),
            5 | 6 => {
                let input = json!({"workspace_id": self.workspace, "lease_secs": lease_secs});
                (member, "claim_next_workspace_thread", input)
            }
            7 => {
                let input = json!({"channel_id": channel, "lease_secs": lease_secs, "repo": "acme/app"});
                (member, "claim_next_thread", input)
            }
            8..=10 => (member, "create_thread", self.task(&channel)),
            11 => (member, "claim_thread", json!({"thread_id": thread, "lease_secs": lease_secs})),
            12 => {
                let input = json!({"thread_id": thread, "priority": self.random.below(3)});
                (self.members[0].clone(), "set_thread_priority", input)
            }
            13 => {
                let input = json!({"thread_id": thread, "footprint": self.footprint()});
                (self.members[0].clone(), "set_thread_footprint", input)
            }
            14 => {
                let capacity = self.random.below(3);
                let input = json!({"workspace_id": self.workspace, "slot": "gpu", "capacity": capacity});
                (self.members[0].clone(), "set_slot_capacity", input)
            }
            15 => (self.members[0].clone(), "cancel_thread", json!({"thread_id": thread})),
            _ if self.claims.is_empty() => (member, "claim_next_thread", next),
            kind => {
                let (holder, thread, lease) = self.random.of(&self.claims);
                let mut input = json!({"thread_id": thread, "claim_lease_id": lease});
                let operation = match kind {
                    16 => "release_claim",
                    17 => "renew_claim",
                    18 => "acknowledge_claim",
                    _ => {
                        input["result"] = json!({"done": true});
                        "set_thread_result"
                    }
                };
                (holder, operation, input)
            }
        }
    }

    fn task(&mut self, channel: &str) -> Value {
        let mut input = json!({
            "channel_id": channel, "title": "a task", "priority": self.random.below(3),
        });
        if self.random.once_in(4) {
            input["required_skills"] = json!(["rust"]);
        }
        if self.random.once_in(3) {
            input["footprint"] = self.footprint();
        }
        input
    }

    fn footprint(&mut self) -> Value {
        let item = match self.random.below(4) {
            0 => return json!({"items": []}),
            1 => json!({"kind": "slot", "value": "gpu"}),
            2 => json!({"kind": "path", "value": format!("src/{}", self.random.below(3))}),
            _ => json!({"kind": "glob", "value": "src/*"}),
        };
        json!({"repo": "acme/app", "items": [item]})
    }

    /// Learns threads and claims from the answers.
    fn learn(&mut self, jobs: &[Job], answers: &[(u16, Value)]) {
        for ((member, operation, _), (_, answer)) in jobs.iter().zip(answers) {
            let (Some(id), true) = (answer["id"].as_str(), operation.contains("thread")) else { continue };
            if *operation == "create_thread" {
                self.threads.push(id.to_owned());
            }
            if let (true, Some(lease)) = (operation.starts_with("claim"), answer["claim_lease_id"].as_str()) {
                self.claims.push((member.clone(), id.to_owned(), lease.to_owned()));
            }
        }
        let surplus = self.claims.len().saturating_sub(2 * JOBS);
        self.claims.drain(..surplus);
    }
}

/// Runs the rounds of a seed; returns the jobs, their answers, and the end of the log with its hash.
fn course(engine: Engine, seed: u64, run: Run) -> (Vec<Job>, Vec<(u16, Value)>, Vec<Vec<Value>>) {
    let world = World::with(engine, Setup { features, ..Setup::default() });
    let mut drawn = Drawn::begin(&world, seed);
    let (mut all, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let jobs = drawn.jobs();
        let answers = run(&world, &jobs);
        drawn.learn(&jobs, &answers);
        all.extend(jobs);
        answered.extend(answers);
    }
    let workspace = world.database.id(world.id("workspace"));
    let head = format!("select lsn, hash, audit_seq from heads where workspace_id = {workspace}");
    (all, answered, world.database.rows(&head))
}

#[test]
fn jobs_of_one_commit_do_what_they_do_one_after_the_other() {
    for engine in engines() {
        for seed in 1..=2 {
            let (jobs, alone, head) = course(engine, seed, one_by_one);
            let (_, batched, head_of_batches) = course(engine, seed, together);
            for (number, ((job, alone), batched)) in jobs.iter().zip(&alone).zip(&batched).enumerate() {
                assert_eq!(alone, batched, "job {number} of seed {seed} on {}: {job:?}", engine.name());
            }
            assert_eq!(head, head_of_batches, "seed {seed} on {}", engine.name());
            let given = alone.iter().filter(|(_, answer)| answer.get("pin").is_some()).count();
            assert!(given * 12 > jobs.len(), "{given} claims in {} jobs", jobs.len());
        }
    }
}
