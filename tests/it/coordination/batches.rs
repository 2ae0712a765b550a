//! Jobs that share a commit have the same answers, events and refusals as when they run one after another.
//!
//! Two worlds with the same seed get the same random jobs. One calls each job alone. The other queues all
//! jobs of a round while the first job blocks the writer, so that they run together.

use std::collections::BTreeSet;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::capability::Capability::WorkspaceRead;
use svc_core::op::{Feature, Request, Surface, Write, write};
use svc_core::time::Clock;
use svc_core::{Engine, Error, RecordedEvent, Result};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::simulation::Random;
use svc_tests::{Setup, World, answer_of};

use crate::coordination::budgets::with;

const ROUNDS: usize = 10;
const JOBS: usize = 40;

/// An operation called by a member.
type Job = (String, &'static str, Value);

/// Blocks the callers of [`hold_up`].
static HELD_UP: Mutex<()> = Mutex::new(());

/// Waits until the test releases it, and blocks all other changes of the workspace.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HoldUp {}

svc_core::without_requests! { HoldUp }

#[derive(Serialize, JsonSchema)]
struct Over {}

svc_tests::keeps_nothing!(HoldUp => Over);

fn hold_up(_: &mut Write<'_>, _: &HoldUp) -> Result<Over> {
    drop(HELD_UP.lock().unwrap());
    Ok(Over {})
}

/// The clock that [`let_pass`] advances.
static CLOCK: Mutex<Option<Clock>> = Mutex::new(None);

/// Advances the clock for the jobs behind it in its batch.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LetPass {
    millis: u64,
}

svc_core::without_requests! { LetPass }

svc_tests::keeps_nothing!(LetPass => Over);

fn let_pass(_: &mut Write<'_>, input: &LetPass) -> Result<Over> {
    if let Some(clock) = &*CLOCK.lock().unwrap() {
        clock.advance(Duration::from_millis(input.millis));
    }
    Ok(Over {})
}

fn features() -> Vec<Feature> {
    let hold_up = write("hold_up", hold_up)
        .title("Hold up")
        .post("/hold-up")
        .needs(&[WorkspaceRead])
        .example(|_| json!({}));
    let let_pass = write("let_pass", let_pass)
        .title("Let pass")
        .post("/let-pass")
        .needs(&[WorkspaceRead])
        .example(|_| json!({"millis": 0}));
    vec![Feature::new().operations("hold-up", vec![hold_up, let_pass])]
}

/// A function that runs jobs in one world, and returns their answers.
type RunJobs = fn(&World, &[Job]) -> Vec<(u16, Value)>;

fn one_by_one(world: &World, jobs: &[Job]) -> Vec<(u16, Value)> {
    let call = |(token, operation, input): &Job| {
        let answer = world.call(token, operation, input.clone());
        (answer.status, answer.body)
    };
    world.admin("hold_up", json!({}));
    jobs.iter().map(call).collect()
}

fn together(world: &World, jobs: &[Job]) -> Vec<(u16, Value)> {
    let mut answers = submitted(world, jobs);
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| (answer.status, answer.body)).collect()
}

/// Queues jobs while the writer is blocked, and returns their answers as they come, each with its number.
fn submitted(world: &World, jobs: &[Job]) -> Vec<(usize, Answer)> {
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
    let answers: Vec<(usize, Answer)> = receiver.iter().take(1 + jobs.len()).collect();
    answers.into_iter().filter_map(|(number, answer)| Some((number.checked_sub(1)?, answer))).collect()
}

/// The source of random jobs: the same in both worlds as long as their answers are.
///
/// None of the jobs posts a message: its content is sealed when the call arrives, before the jobs ahead of
/// it, so one of the worlds would draw random bytes in another order.
struct RandomJobs {
    random: Random,
    members: [String; 3],
    ids: [String; 3],
    channels: [String; 2],
    workspace: String,
    threads: Vec<String>,
    /// Claims that were granted: the holder, the thread and the lease.
    claims: Vec<(String, String, String)>,
    reports: usize,
    kinds: Vec<usize>,
}

/// Returns the kinds of jobs that are drawn on an engine.
///
/// On Postgres it omits those after which the two worlds draw their ids from different places of the random
/// source.
fn kinds(engine: Engine) -> Vec<usize> {
    match engine {
        Engine::Sqlite => (0..34).collect(),
        Engine::Postgres => (0..16).chain(25..29).chain(32..34).collect(),
    }
}

impl RandomJobs {
    fn begin(world: &World, seed: u64) -> Self {
        let channels = [world.new_channel("one"), world.new_private_channel("two")];
        let (skilled_id, skilled) = world.new_agent("skilled");
        world.call(&skilled, "set_skills", json!({"skills": ["rust"]})).output();
        let (plain_id, plain) = world.new_agent("plain");
        let member = json!({"channel_id": channels[1], "member_id": skilled_id});
        world.admin("add_channel_member", member);
        Self {
            random: Random(seed),
            members: [world.people.admin.clone(), skilled, plain],
            ids: [world.id("admin").to_string(), skilled_id, plain_id],
            channels,
            workspace: world.id("workspace").to_string(),
            threads: Vec::new(),
            claims: Vec::new(),
            reports: 0,
            kinds: kinds(world.engine()),
        }
    }

    fn jobs(&mut self) -> Vec<Job> {
        (0..JOBS).map(|_| self.job()).collect()
    }

    fn job(&mut self) -> Job {
        let member = self.random.of(&self.members);
        let admin = self.members[0].clone();
        let channel = self.random.of(&self.channels);
        let lease_secs = 60 + 10 * self.random.below(30);
        if self.threads.is_empty() {
            return (member, "create_thread", self.task(&channel));
        }
        let thread = self.random.of(&self.threads);
        let about = |more: Value| with(&thread, more);
        let workspace = json!(self.workspace);
        let repo = "acme/app";
        match self.random.of(&self.kinds) {
            0..=4 => (member, "claim_next_thread", json!({"channel_id": channel, "lease_secs": lease_secs})),
            5 | 6 => {
                let input = json!({"workspace_id": workspace, "lease_secs": lease_secs});
                (member, "claim_next_workspace_thread", input)
            }
            7 => {
                let input = json!({"channel_id": channel, "lease_secs": lease_secs, "repo": repo});
                (member, "claim_next_thread", input)
            }
            8..=11 => (member, "create_thread", self.task(&channel)),
            12 => (member, "claim_thread", about(json!({"lease_secs": lease_secs}))),
            13 => (admin, "set_thread_priority", about(json!({"priority": self.random.below(3)}))),
            14 => (admin, "set_thread_footprint", merged(about(json!({})), self.footprint())),
            15 => {
                let capacity = self.random.below(3);
                let input = json!({"workspace_id": workspace, "slot": "gpu", "capacity": capacity});
                (admin, "set_slot_capacity", input)
            }
            16 | 17 => (admin, "transition_thread", about(json!({"action": "close"}))),
            18 => (admin, "transition_thread", about(json!({"action": "reopen"}))),
            19 => (admin, "pause_repo", json!({"workspace_id": workspace, "repo": repo})),
            20 | 21 => (admin, "resume_repo", json!({"workspace_id": workspace, "repo": repo})),
            22 => (admin, "update_thread_budget", about(json!({"max_attempts": 1 + self.random.below(2)}))),
            23 => (admin, "set_thread_budget", about(json!({"max_turns": 5, "max_wall_secs": 500}))),
            24 => {
                let other = self.random.of(&self.threads);
                (admin, "add_thread_dependency", about(json!({"depends_on_id": other})))
            }
            _ if self.claims.is_empty() => {
                (member, "claim_next_thread", json!({"channel_id": channel, "lease_secs": lease_secs}))
            }
            kind => self.job_of_holder(kind, lease_secs),
        }
    }

    fn job_of_holder(&mut self, kind: usize, lease_secs: usize) -> Job {
        let (holder, thread, lease) = self.random.of(&self.claims);
        let (operation, more) = match kind {
            25 | 26 => ("release_claim", json!({})),
            27 => ("renew_claim", json!({"lease_secs": lease_secs})),
            28 => ("acknowledge_claim", json!({})),
            29 => ("hand_off_claim", json!({"to_member_id": self.random.of(&self.ids)})),
            30 | 31 => {
                self.reports += 1;
                let id = format!("report {}", self.reports / 2);
                ("report_usage", json!({"report_id": id, "tokens": 7, "turns": self.random.below(3)}))
            }
            _ => ("set_thread_result", json!({"result": {"done": true}})),
        };
        (holder, operation, with(&thread, merged(json!({"claim_lease_id": lease}), more)))
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
        for ((member, operation, input), (_, answer)) in jobs.iter().zip(answers) {
            let Some(id) = answer["id"].as_str() else { continue };
            if *operation == "create_thread" {
                self.threads.push(id.to_owned());
            }
            let to = self.ids.iter().position(|id| input["to_member_id"] == json!(id));
            let holder = to.map_or(member, |to| &self.members[to]);
            if let (true, Some(lease)) = (answer.get("pin").is_some(), answer["claim_lease_id"].as_str()) {
                self.claims.push((holder.clone(), id.to_owned(), lease.to_owned()));
            }
        }
        let surplus = self.claims.len().saturating_sub(JOBS / 2);
        self.claims.drain(..surplus);
        let surplus = self.threads.len().saturating_sub(JOBS);
        self.threads.drain(..surplus);
    }
}

/// Returns the kind of a job, for counting.
fn kind_of((_, operation, input): &Job) -> String {
    format!("{operation} {}", input["action"].as_str().unwrap_or_default())
}

fn merged(mut input: Value, more: Value) -> Value {
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

/// Runs the rounds of a seed. Returns the jobs, their answers, and the end of the log with its hash, followed
/// by the contents of the inboxes.
fn course(engine: Engine, seed: u64, run: RunJobs) -> (Vec<Job>, Vec<(u16, Value)>, [Vec<Vec<Value>>; 2]) {
    let world = World::with(engine, Setup { features, ..Setup::default() });
    let mut drawn = RandomJobs::begin(&world, seed);
    let mut all = Vec::new();
    let mut answered = Vec::new();
    for _ in 0..ROUNDS {
        let jobs = drawn.jobs();
        if engine == Engine::Sqlite {
            // Some leases lapse.
            world.clock.advance(Duration::from_secs(100));
        }
        let answers = run(&world, &jobs);
        drawn.learn(&jobs, &answers);
        all.extend(jobs);
        answered.extend(answers);
    }
    let workspace = world.database.id(world.id("workspace"));
    let head = format!("select lsn, hash, audit_seq from heads where workspace_id = {workspace}");
    let told = "select member_id, lsn, reasons, thread_id, actor_id, at from inbox order by member_id, lsn";
    (all, answered, [&*head, told].map(|sql| world.database.rows(sql)))
}

#[test]
fn jobs_of_one_commit_do_what_they_do_one_after_the_other() {
    for engine in engines() {
        let mut drawn = BTreeSet::new();
        let mut succeeded = BTreeSet::new();
        let mut lapsed = 0;
        for seed in 1..=2 {
            let (jobs, alone, left) = course(engine, seed, one_by_one);
            let (_, batched, left_by_batches) = course(engine, seed, together);
            for (number, ((job, alone), batched)) in jobs.iter().zip(&alone).zip(&batched).enumerate() {
                assert_eq!(alone, batched, "job {number} of seed {seed} on {}: {job:?}", engine.name());
                drawn.insert(kind_of(job));
                succeeded.extend((alone.0 < 300).then(|| kind_of(job)));
                lapsed += usize::from(alone.1["type"] == json!("/problems/stale-claim"));
            }
            assert_eq!(left, left_by_batches, "seed {seed} on {}", engine.name());
            assert!(!left[1].is_empty(), "some are told");
            let given = alone.iter().filter(|(_, answer)| answer.get("pin").is_some()).count();
            assert!(given * 12 > jobs.len(), "{given} claims in {} jobs", jobs.len());
        }
        assert_eq!(succeeded, drawn, "each kind succeeds sometimes");
        let (kinds, lapses) = if engine == Engine::Sqlite { (20, 1) } else { (11, 0) };
        assert_eq!(drawn.len(), kinds, "{drawn:?}");
        assert!(lapsed >= lapses, "some claims have lapsed");
    }
}

/// Refuses the result of a thread with this title, after everything else is done for it.
fn refuse_doomed(cx: &mut Write<'_>, events: &[RecordedEvent]) -> Result<()> {
    let titled = "select title from threads where id = $1";
    let is_doomed = |event: &RecordedEvent| {
        let found: Option<(String,)> = cx.one(titled, &[&event.subject.thread_id])?;
        Ok(found.is_some_and(|(title,)| title == "doomed"))
    };
    let doomed: Vec<bool> = events.iter().map(is_doomed).collect::<Result<_>>()?;
    if doomed.contains(&true) { Err(Error::wrong_state("the thread is doomed")) } else { Ok(()) }
}

/// A job of a shared commit notifies its receivers at its turn; one that fails notifies no member.
#[test]
fn who_is_told_of_a_result_follows_from_the_jobs_before_it() {
    let with_doom = || {
        let doom = Feature::new().projector(&["ThreadResultSet"], refuse_doomed);
        features().into_iter().chain([doom]).collect()
    };
    for engine in engines() {
        let world = World::with(engine, Setup { features: with_doom, ..Setup::default() });
        let admin = world.people.admin.clone();
        let channel = world.new_channel("queue");
        let claim = |title: &str| {
            let id = world.new_thread(&channel, title);
            let claimed = world.call(&world.people.agent, "claim_thread", with(&id, json!({}))).output();
            let input = json!({"result": {"done": true}, "claim_lease_id": claimed["claim_lease_id"]});
            (world.people.agent.clone(), "set_thread_result", with(&id, input))
        };
        let mute = |muted: Value| (admin.clone(), "set_notification_preferences", json!({"muted": muted}));
        let results = ["one", "two", "three", "doomed", "four"].map(claim);
        let told = [0, 2, 4].map(|place| results[place].2["thread_id"].clone());
        let [one, two, three, doomed, four] = results;
        let jobs = [one, mute(json!([channel])), two, mute(json!([])), three, doomed, four];
        let failed = together(&world, &jobs).into_iter().map(|(status, _)| status >= 300);
        assert_eq!(failed.collect::<Vec<_>>(), [false, false, false, false, false, true, false]);
        let inbox = world.call(&admin, "list_inbox", json!({"unread": true, "limit": 500})).output();
        let items = inbox["items"].as_array().unwrap().iter().filter(|item| item["reason"] == "result");
        let found: Vec<Value> = items.map(|item| item["thread_id"].clone()).collect();
        assert_eq!(found, told, "on {}", engine.name());
    }
}

/// A claim that examines very many threads does so in steps, and does not delay later requests.
#[test]
fn other_jobs_run_between_the_steps_of_a_claim() {
    for engine in engines() {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let channel = world.new_channel("queue");
        let claim = || (world.people.admin.clone(), "claim_next_thread", json!({"channel_id": channel}));
        let other = || {
            let input = json!({"channel_id": world.id("channel"), "title": "meanwhile"});
            (world.people.admin.clone(), "create_thread", input)
        };
        assert_eq!(order_of(&world, &[claim(), other()]), [0, 1], "one step");
        world.admin("pause_repo", json!({"workspace_id": world.id("workspace"), "repo": "acme/app"}));
        for number in 0..200 {
            let item = json!({"kind": "path", "value": format!("src/{number}")});
            let footprint = json!({"repo": "acme/app", "items": [item]});
            let input = json!({"channel_id": channel, "title": "blocked", "footprint": footprint});
            world.admin("create_thread", input);
        }
        assert_eq!(order_of(&world, &[claim(), other()]), [1, 0], "many steps");
    }
}

/// Returns the order in which jobs that are queued at once are answered.
fn order_of(world: &World, jobs: &[Job]) -> Vec<usize> {
    submitted(world, jobs).into_iter().map(|(number, _)| number).collect()
}

/// A claim that lapses within the batch in which it begins, because little is left of a budget, is ended by a
/// later job of that batch, although an earlier one has found that no claim lapses within a second.
#[test]
fn a_claim_may_lapse_in_the_batch_in_which_it_begins() {
    for engine in engines() {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        *CLOCK.lock().unwrap() = Some(world.clock.clone());
        let channel = world.new_channel("queue");
        let [thread, other] = ["short", "other"].map(|title| world.new_thread(&channel, title));
        let agent = world.people.agent.clone();
        let admin = world.people.admin.clone();
        world.admin("set_thread_budget", with(&thread, json!({"max_wall_secs": 3})));
        let claimed = world.call(&agent, "claim_thread", with(&thread, json!({}))).output();
        // Less is left than a batch may last.
        world.clock.advance(Duration::from_millis(2_995));
        let lease = json!({"claim_lease_id": claimed["claim_lease_id"]});
        world.call(&agent, "release_claim", with(&thread, lease)).output();
        let jobs = [
            (admin.clone(), "claim_thread", with(&other, json!({}))),
            (agent, "claim_thread", with(&thread, json!({}))),
            (admin.clone(), "let_pass", json!({"millis": 6})),
            // It ends the claims that have lapsed, and finds nothing to claim.
            (admin.clone(), "claim_next_thread", json!({"channel_id": channel})),
        ];
        let answers = together(&world, &jobs);
        assert_eq!(answers[1].0, 200, "on {}: {answers:?}", engine.name());
        assert_eq!(answers[3], (200, json!({})), "on {}: {answers:?}", engine.name());
        let input = json!({"workspace_id": world.id("workspace")});
        let dead = world.call(&admin, "list_dead_letters", input).output();
        let mut dead = dead["items"].as_array().unwrap().iter().map(|item| &item["thread_id"]);
        assert!(dead.any(|id| *id == json!(thread)), "its claim has ended: {answers:?}");
    }
}
