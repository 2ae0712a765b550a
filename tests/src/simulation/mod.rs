//! A simulation of the claim engine against an independent model.
//!
//! It makes random calls through the public API, on a mock clock, from a seed: threads with footprints in
//! public and private channels, claims and their ends, lapsed leases, slots, pauses, refined footprints; the
//! changes around claims, in `surroundings`; and the limits of work, in `budgets`. On Postgres, where the
//! calls of a commit share their reads and writes, it queues some at once, in `together`. The clock jumps,
//! also backward; answers are lost, and callers repeat their requests; two services can share the database.
//! The model predicts the result of each call: the claimed thread and the content of each refusal. Every few
//! steps the whole state and the log are compared, in `checks`.

mod model;
mod claims;
mod surroundings;
mod budgets;
mod together;
mod checks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::time::Time;
use svc_core::{Engine, Service};

use crate::client::Answer;
use crate::home::features;
use crate::refusals;
use crate::state::assert_state;
use crate::world::{Setup, World, answer_of, call, text};
pub use model::Random;
use model::{Channel, MEMBERS, Model};

/// Seconds of a lease, unless a step takes another.
const LEASE_SECS: i64 = 50;
/// Steps between two comparisons of all state.
const CHECKED_EVERY: usize = 40;
/// One in this many answers is lost.
const LOST: usize = 10;
/// One in this many steps on Postgres queues calls at once.
const TOGETHER: usize = 16;
/// Steps in one world: longer runs rarely reach new states, and a new world costs little.
const STEPS_MAX: usize = 2500;

/// A run of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct SimulationRun {
    pub engine: Engine,
    pub seed: u64,
    pub steps: usize,
    /// Number of services that share the database.
    pub services: u64,
}

/// A disagreement between the service and the model.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// The number of the step.
    pub step: usize,
    /// The difference.
    pub what: String,
}

/// Returns the courses of a run of `steps`, each in a separate world and with its own seed.
///
/// `sharing` has the number of services that share the database, for each course in turn.
pub fn courses(engine: Engine, first_seed: u64, steps: usize, sharing: &[u64]) -> Vec<SimulationRun> {
    let course = |(seed, (begun, services)): (u64, (usize, &u64))| SimulationRun {
        engine,
        seed,
        steps: (steps - begun).min(STEPS_MAX),
        services: *services,
    };
    let begun = (0..steps).step_by(STEPS_MAX);
    (first_seed..).zip(begun.zip(sharing.iter().cycle())).map(course).collect()
}

impl std::fmt::Display for Disagreement {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "step {}: {}", self.step, self.what)
    }
}

impl SimulationRun {
    /// Takes the steps, and returns the events of the workspace.
    ///
    /// Fails with the first step whose outcome differs from the model.
    pub fn run(self) -> Result<Vec<Value>, Disagreement> {
        let world = World::with(self.engine, Setup { in_memory: true, features, ..Setup::default() });
        let mut simulation = Simulation::new(&world, self.seed, self.services);
        for step in 1..=self.steps {
            let is_checked = step % CHECKED_EVERY == 0 || step == self.steps;
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                simulation.step();
                if is_checked {
                    simulation.check_everything();
                }
            }));
            if let Err(panic) = outcome {
                let said = panic.downcast_ref::<String>().cloned();
                let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
                return Err(Disagreement { step, what: said.unwrap_or_default() });
            }
        }
        assert_state(&world.database.address());
        Ok(simulation.events_after(0))
    }
}

/// The world, the model of it, and the connection between the two.
struct Simulation<'w> {
    world: &'w World,
    services: Vec<Service>,
    random: Random,
    model: Model,
    /// The time at which the model's clock shows 0.
    start: Time,
    /// Two public channels and a private one.
    channels: [String; 3],
    members: [String; MEMBERS],
    ids: [String; MEMBERS],
    /// A frozen member, and one of another workspace.
    unfit: [(String, &'static str); 2],
    created: usize,
    /// Number of usage reports so far.
    reported: usize,
    /// The last compared position of the log.
    compared: i64,
}

impl<'w> Simulation<'w> {
    fn new(world: &'w World, seed: u64, services: u64) -> Self {
        let channels =
            [world.new_channel("one"), world.new_channel("two"), world.new_private_channel("three")];
        let (_, skilled) = world.new_agent("skilled");
        world.call(&skilled, "set_skills", json!({"skills": ["rust"]})).output();
        let (_, plain) = world.new_agent("plain");
        let members = [world.people.admin.clone(), skilled, plain];
        cancel_all(world, &members);
        let mut model = Model { skilled: [false, true, false], ..Model::default() };
        model.channels[2] = Channel { private: true, ..Channel::default() };
        let id = |token: &String| text(&world.call(token, "whoami", json!({})).output()["member_id"]);
        let others = (1..services).map(|number| world.another_service(number + 100));
        Self {
            services: std::iter::once(world.service.clone()).chain(others).collect(),
            random: Random(seed),
            model,
            start: world.clock.now(),
            channels,
            ids: members.each_ref().map(id),
            members,
            unfit: [(id(&world.people.frozen), "frozen"), (id(&world.people.outsider), "member")],
            created: 0,
            reported: 0,
            compared: world.lsn(),
            world,
        }
    }

    /// Calls an operation of one of the services.
    fn ask(&mut self, member: usize, operation: &str, input: &Value) -> Answer {
        let service = &self.services[self.random.below(self.services.len())];
        let answer = answer_of(call(service, Some(&self.members[member]), operation, input));
        refusals::check(self.world.operation(operation), answer)
    }

    /// Calls a wait of one of the services, whose timeout passes once it waits.
    fn wait(&mut self, member: usize, operation: &str, input: &Value) -> Answer {
        let service = &self.services[self.random.below(self.services.len())];
        let token = &self.members[member];
        let asked = || answer_of(call(service, Some(token), operation, input));
        self.world.once_time_is_over_for(service, Duration::from_secs(2), asked)
    }

    /// Calls an operation as the first member. The call must succeed.
    #[track_caller]
    fn admin(&mut self, operation: &str, input: &Value) -> Value {
        self.ask(0, operation, input).output()
    }

    fn workspace(&self) -> String {
        self.world.id("workspace").to_string()
    }

    fn any_thread(&mut self) -> Option<usize> {
        let numbers: Vec<usize> = self.model.threads.keys().copied().collect();
        (!numbers.is_empty()).then(|| self.random.of(&numbers))
    }

    /// Returns a random thread; once in `times` a claimed one, where a change frees resources.
    fn any_thread_or_a_claimed_one(&mut self, times: usize) -> Option<usize> {
        let claimed: Vec<usize> = self.model.live().map(|(number, _)| *number).collect();
        let is_claimed = self.random.once_in(times) && !claimed.is_empty();
        if is_claimed { Some(self.random.of(&claimed)) } else { self.any_thread() }
    }

    /// Returns whether the answer to a call is lost, so that its caller repeats it.
    fn is_lost(&mut self) -> bool {
        self.random.once_in(LOST)
    }

    fn step(&mut self) {
        if self.world.engine() == Engine::Postgres && self.random.once_in(TOGETHER) {
            return self.act_together();
        }
        match self.random.below(36) {
            0..=3 => self.create(),
            4..=8 => self.claim_next(),
            9..=10 => self.claim_one(),
            11..=13 => self.end_one(),
            14 => self.renew(),
            15 => self.hand_off(),
            16 => self.act_late(),
            17 => self.refine(),
            18 => self.set_slot(),
            19 => self.pause(),
            20..=21 => self.move_clock(),
            22 => self.check_footprint(),
            23..=28 => self.change_budgets(),
            _ => self.change_surroundings(),
        }
    }
}

/// Cancels the threads that every world has, which are not in the model.
fn cancel_all(world: &World, members: &[String]) {
    let cancel =
        |id: Value| world.admin("cancel_thread", json!({"thread_id": id, "reason": "not simulated"}));
    cancel(json!(world.id("claimed_thread")));
    cancel(json!(world.id("dead_thread")));
    for member in members {
        let next = || {
            let input = json!({"workspace_id": world.id("workspace")});
            world.call(member, "claim_next_workspace_thread", input).output()["id"].clone()
        };
        while let id @ Value::String(_) = next() {
            cancel(id);
        }
    }
}
