//! The claim engine against a model that knows nothing of it.
//!
//! Random calls through the public API, on a mock clock, from a seed: threads with footprints in public and
//! private channels, claims and their ends, lapsed leases, slots, pauses, refined footprints; and what goes
//! on around them, in `surroundings`. After each call the model says what had to come of it: who is given
//! which thread, what each refusal names, and what each waiting thread waits for. `SVC_TEST_SIM_STEPS` is the
//! number of calls on SQLite, and `SVC_TEST_SIM_SEED` the seed.

mod model;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::engines;
use svc_tests::{World, text};

use model::{Channel, Conflicts, Footprint, MEMBERS, Model, Random, State, Thread};

const STEPS: &str = "SVC_TEST_SIM_STEPS";
const SEED: &str = "SVC_TEST_SIM_SEED";

/// Threads that are open at most: enough that many wait for the same.
const OPEN_MAX: usize = 60;
const LEASE_SECS: u64 = 50;

struct Simulation<'w> {
    world: &'w World,
    random: Random,
    model: Model,
    /// Two public channels and a private one.
    channels: [String; 3],
    members: [String; MEMBERS],
    ids: [String; MEMBERS],
    created: usize,
}

/// The conflicts that an answer lists, as the model has them.
fn listed(conflicts: &Value) -> Conflicts {
    let item = |conflict: &Value| match &conflict["item"] {
        Value::Null => String::new(),
        item => format!("{} {}", text(&item["kind"]), text(&item["value"])),
    };
    let found = conflicts.as_array().unwrap_or_else(|| panic!("no list of conflicts: {conflicts:#}")).iter();
    found
        .map(|conflict| {
            (text(&conflict["reason"]), item(conflict), conflict["thread_id"].as_str().map(str::to_owned))
        })
        .collect()
}

impl<'w> Simulation<'w> {
    fn new(world: &'w World, seed: u64) -> Self {
        let channels =
            [world.new_channel("one"), world.new_channel("two"), world.new_private_channel("three")];
        let (_, skilled) = world.new_agent("skilled");
        world.call(&skilled, "set_skills", json!({"skills": ["rust"]})).output();
        let (_, plain) = world.new_agent("plain");
        let members = [world.people.admin.clone(), skilled, plain];
        // The threads that every world has are none of the model's.
        let cancel =
            |id: Value| world.admin("cancel_thread", json!({"thread_id": id, "reason": "not simulated"}));
        cancel(json!(world.id("claimed_thread")));
        for member in &members {
            let next = || {
                let input = json!({"workspace_id": world.id("workspace")});
                world.call(member, "claim_next_workspace_thread", input).output()["id"].clone()
            };
            while let id @ Value::String(_) = next() {
                cancel(id);
            }
        }
        let mut model = Model { skilled: [false, true, false], ..Model::default() };
        model.channels[2] = Channel { private: true, ..Channel::default() };
        let ids = members
            .each_ref()
            .map(|token| text(&world.call(token, "whoami", json!({})).output()["member_id"]));
        Self { world, random: Random(seed), model, channels, members, ids, created: 0 }
    }

    fn admin(&self, operation: &str, input: Value) -> Value {
        self.world.admin(operation, input)
    }

    fn any_thread(&mut self) -> Option<usize> {
        let numbers: Vec<usize> = self.model.threads.keys().copied().collect();
        (!numbers.is_empty()).then(|| self.random.of(&numbers))
    }

    fn step(&mut self) {
        match self.random.below(26) {
            0..=3 => self.create(),
            4..=8 => self.claim_next(),
            9..=10 => self.claim_one(),
            11..=13 => self.end_one(),
            14 => self.refine(),
            15 => self.set_slot(),
            16 => self.pause(),
            17 => self.advance(),
            18 => self.hand_off(),
            19 => self.reprioritise(),
            _ => self.change_surroundings(),
        }
        if self.random.below(8) == 0 {
            self.check_waiting();
        }
    }

    fn create(&mut self) {
        let is_open = |thread: &&Thread| !thread.done && thread.state != State::Closed;
        let (channel, priority) = (self.random.below(3), self.random.of(&[0, 0, 0, 5, -5]));
        let open = self.model.threads.values().filter(is_open).count();
        if open >= OPEN_MAX || self.model.channels[channel].archived {
            return self.claim_next();
        }
        let (footprint, skilled) = (Footprint::random(&mut self.random), self.random.below(5) == 0);
        let mut input = json!({
            "channel_id": self.channels[channel], "title": format!("thread {}", self.created),
            "priority": priority,
        });
        if skilled {
            input["required_skills"] = json!(["rust"]);
        }
        if !footprint.items.is_empty() {
            input["footprint"] = footprint.json();
        }
        let id = text(&self.admin("create_thread", input)["id"]);
        let (state, waits_for, claim) = (State::Open, BTreeSet::new(), None);
        let thread =
            Thread { id, channel, priority, footprint, skilled, done: false, state, waits_for, claim };
        self.model.threads.insert(self.created, thread);
        self.created += 1;
    }

    fn claim_next(&mut self) {
        let member = self.random.below(MEMBERS);
        let channel = self.random.below(3);
        let is_seen = !self.model.channels[channel].private || member == 0;
        let channel = (is_seen && self.random.below(2) == 0).then_some(channel);
        let repo = (self.random.below(4) == 0).then_some("acme/app");
        let wanted = self.model.next(member, channel, repo);
        let mut input = json!({"lease_secs": LEASE_SECS});
        input.as_object_mut().unwrap().extend(repo.map(|repo| ("repo".to_owned(), json!(repo))));
        let operation = match channel {
            Some(channel) => {
                input["channel_id"] = json!(self.channels[channel]);
                "claim_next_thread"
            }
            None => {
                input["workspace_id"] = json!(self.world.id("workspace"));
                "claim_next_workspace_thread"
            }
        };
        let ready = self.is_ready(member, channel).filter(|_| repo.is_none());
        let claimed = self.world.call(&self.members[member], operation, input).output();
        let given = claimed["id"].as_str().map(str::to_owned);
        let expected = wanted.map(|number| self.model.threads[&number].id.clone());
        assert_eq!(given, expected, "{operation} of member {member}, repo {repo:?}");
        if let Some(ready) = ready {
            assert_eq!(ready, expected, "a wait finds what a claim is given");
        }
        if let Some(number) = wanted {
            self.claimed(number, member, &claimed);
        }
    }

    /// The thread that a wait returns at once, if it is asked for.
    ///
    /// A wait that finds nothing lasts, so it is only begun where there is something. It only reads, so what
    /// is behind a lapsed claim is found once that was ended.
    fn is_ready(&mut self, member: usize, channel: Option<usize>) -> Option<Option<String>> {
        let now = self.model.now;
        let mut claims = self.model.threads.values().filter_map(|thread| thread.claim.as_ref());
        let lapsed = claims.any(|(.., until)| *until <= now);
        if lapsed || self.random.below(3) > 0 || self.model.next(member, channel, None).is_none() {
            return None;
        }
        let mut input = json!({"workspace_id": self.world.id("workspace"), "timeout_secs": 1});
        if let Some(channel) = channel {
            input["channel_id"] = json!(self.channels[channel]);
        }
        let found = self.world.call(&self.members[member], "wait_for_ready", input).output();
        Some(found["thread_id"].as_str().map(str::to_owned))
    }

    fn claimed(&mut self, number: usize, member: usize, answer: &Value) {
        self.forget_lapsed();
        let lease = text(&answer["claim_lease_id"]);
        let until = self.model.now + LEASE_SECS;
        self.model.threads.get_mut(&number).unwrap().claim = Some((member, lease, until));
    }

    /// Whatever begins a claim ends those that have lapsed.
    fn forget_lapsed(&mut self) {
        let now = self.model.now;
        for thread in self.model.threads.values_mut() {
            thread.claim.take_if(|(.., until)| *until <= now);
        }
    }

    fn claim_one(&mut self) {
        let Some(number) = self.any_thread() else { return };
        let member = self.random.below(MEMBERS);
        let thread = self.model.threads[&number].clone();
        let input = json!({"thread_id": thread.id, "lease_secs": LEASE_SECS});
        let answer = self.world.call(&self.members[member], "claim_thread", input);
        if !self.model.sees(member, &thread) {
            return drop(answer.refused(404, "not-found"));
        }
        let free = Thread { footprint: Footprint::default(), ..thread.clone() };
        self.model.threads.insert(number, free);
        let is_claimable = self.model.is_claimable(number, member);
        self.model.threads.insert(number, thread.clone());
        if !is_claimable {
            return drop(answer.refused(409, "not-claimable"));
        }
        let conflicts = self.model.conflicts(&thread.footprint, Some(number));
        if conflicts.is_empty() {
            let claimed = answer.output();
            return self.claimed(number, member, &claimed);
        }
        let refusal = answer.refused(409, "footprint-conflict");
        assert_eq!(listed(&refusal["conflicts"]), self.seen_by(member, conflicts));
    }

    /// The conflicts as a member sees them: without the threads of the private channel.
    fn seen_by(&self, member: usize, conflicts: Conflicts) -> Conflicts {
        let hidden = |id: &String| {
            self.model.threads.values().any(|thread| thread.id == *id && !self.model.sees(member, thread))
        };
        conflicts.into_iter().map(|(reason, item, id)| (reason, item, id.filter(|id| !hidden(id)))).collect()
    }

    /// The threads with a live claim whose holder still sees them.
    fn ended_by_their_holders(&self) -> Vec<usize> {
        let sees = |(_, thread): &(&usize, &Thread)| {
            thread.claim.as_ref().is_some_and(|(member, ..)| self.model.sees(*member, thread))
        };
        self.model.live().filter(sees).map(|(number, _)| *number).collect()
    }

    fn end_one(&mut self) {
        let live = self.ended_by_their_holders();
        if live.is_empty() {
            return self.claim_next();
        }
        let number = self.random.of(&live);
        let thread = self.model.threads.get_mut(&number).unwrap();
        let (member, lease, _) = thread.claim.take().unwrap();
        let (id, token) = (thread.id.clone(), &self.members[member]);
        if self.random.below(3) == 0 {
            thread.done = true;
            let result = json!({"thread_id": id, "claim_lease_id": lease, "result": {"done": true}});
            self.world.call(token, "set_thread_result", result).output();
        } else {
            let input = json!({"thread_id": id, "claim_lease_id": lease});
            self.world.call(token, "release_claim", input).output();
        }
    }

    fn refine(&mut self) {
        let Some(number) = self.any_thread() else { return };
        let footprint = Footprint::random(&mut self.random);
        let mut input = footprint.json();
        input["thread_id"] = json!(self.model.threads[&number].id);
        let answer = self.world.call(&self.members[0], "set_thread_footprint", input);
        let live = self.model.is_live(number);
        let same = self.model.threads[&number].footprint == footprint;
        let conflicts = self.model.conflicts(&footprint, Some(number));
        if live && !same && !conflicts.is_empty() {
            let refusal = answer.refused(409, "footprint-conflict");
            return assert_eq!(listed(&refusal["conflicts"]), conflicts);
        }
        answer.output();
        self.forget_lapsed();
        self.model.threads.get_mut(&number).unwrap().footprint = footprint;
    }

    fn set_slot(&mut self) {
        let workspace = self.world.id("workspace");
        if self.random.below(4) == 0 && self.model.capacity.take().is_some() {
            self.admin("clear_slot_capacity", json!({"workspace_id": workspace, "slot": "gpu"}));
        } else {
            let capacity = self.random.of(&[0, 1, 1, 2, 3]);
            self.model.capacity = Some(capacity);
            let input = json!({"workspace_id": workspace, "slot": "Gpu", "capacity": capacity});
            self.admin("set_slot_capacity", input);
        }
    }

    fn pause(&mut self) {
        let repo = self.random.of(&["acme/app", "acme/lib"]);
        let input = json!({"workspace_id": self.world.id("workspace"), "repo": repo});
        if self.model.paused.remove(repo) {
            self.admin("resume_repo", input);
        } else if self.random.below(3) == 0 {
            self.model.paused.insert(repo.to_owned());
            self.admin("pause_repo", input);
        }
    }

    fn advance(&mut self) {
        let secs = self.random.of(&[1, 7, 20, 51]);
        self.world.clock.advance(Duration::from_secs(secs));
        self.model.now += secs;
    }

    fn hand_off(&mut self) {
        let live = self.ended_by_their_holders();
        if live.is_empty() {
            return;
        }
        let number = self.random.of(&live);
        let thread = self.model.threads[&number].clone();
        let (member, lease, _) = thread.claim.clone().unwrap();
        let to = (member + 1) % MEMBERS;
        let to_id = &self.ids[to];
        let input = json!({
            "thread_id": thread.id, "claim_lease_id": lease, "to_member_id": to_id, "lease_secs": LEASE_SECS,
        });
        let answer = self.world.call(&self.members[member], "hand_off_claim", input);
        if thread.skilled && !self.model.skilled[to] || !self.model.sees(to, &thread) {
            return drop(answer.refused(409, "not-claimable"));
        }
        let handed = answer.output();
        self.claimed(number, to, &handed);
    }

    fn reprioritise(&mut self) {
        let Some(number) = self.any_thread() else { return };
        let priority = self.random.of(&[0, 5, -5, 7]);
        let input = json!({"thread_id": self.model.threads[&number].id, "priority": priority});
        self.admin("set_thread_priority", input);
        self.model.threads.get_mut(&number).unwrap().priority = priority;
    }

    /// Compares the list of deferred threads with the model.
    fn check_waiting(&self) {
        let input = json!({"workspace_id": self.world.id("workspace"), "limit": 500});
        let page = self.admin("list_deferred_threads", input);
        let ours: BTreeSet<&str> = self.model.threads.values().map(|thread| thread.id.as_str()).collect();
        let found: BTreeMap<String, BTreeSet<_>> = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|thread| ours.contains(thread["thread_id"].as_str().unwrap()))
            .map(|thread| (text(&thread["thread_id"]), listed(&thread["obstacles"])))
            .collect();
        let waiting = self.model.threads.iter().filter(|(number, _)| self.model.is_to_do(**number));
        let wanted: BTreeMap<String, BTreeSet<_>> = waiting
            .map(|(_, thread)| (thread.id.clone(), self.model.conflicts(&thread.footprint, None)))
            .filter(|(_, conflicts)| !conflicts.is_empty())
            .collect();
        assert_eq!(found, wanted);
    }
}

fn simulate(engine: Engine, steps: usize) {
    let seed = std::env::var(SEED).map_or(11, |seed| seed.parse().unwrap());
    let world = World::open(engine);
    let mut simulation = Simulation::new(&world, seed);
    for step in 0..steps {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| simulation.step()));
        assert!(outcome.is_ok(), "step {step} of seed {seed} on {engine:?}");
    }
}

#[test]
fn claims_are_those_of_the_model_on_sqlite() {
    simulate(Engine::Sqlite, std::env::var(STEPS).map_or(4000, |steps| steps.parse().unwrap()));
}

#[test]
fn claims_are_those_of_the_model_on_postgres() {
    if engines().contains(&Engine::Postgres) {
        simulate(Engine::Postgres, 1000);
    }
}
