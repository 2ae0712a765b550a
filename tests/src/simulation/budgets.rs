//! Limits of work: budgets of threads, usage, dead letters, and the spawn budget.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Simulation;
use super::checks::words;
use super::model::{LIMITS, State, Thread};
use crate::world::text;

/// The names of reported amounts, as in usage reports.
const REPORTED: [&str; 3] = ["tokens", "usd_micros", "turns"];

/// The names of used amounts.
const USED: [&str; 5] = ["tokens", "usd_micros", "turns", "wall_secs", "attempts"];

/// The names of the limits of the spawn budget.
const SPAWN_LIMITS: [&str; 3] = ["max_children", "max_depth", "max_tools"];

/// Threads whose budgets are read at each comparison.
const READ_MAX: usize = 4;

impl Simulation<'_> {
    pub(super) fn change_budgets(&mut self) {
        match self.random.below(12) {
            0..=2 => self.limit(),
            3..=6 => self.report(),
            7..=8 => self.requeue(),
            9 => self.limit_children(),
            _ => self.create_child(),
        }
    }

    /// Returns a limit that is small enough to be reached, and large enough that work continues.
    fn random_limit(&mut self, at: usize) -> i64 {
        match at {
            0..=2 => self.random.of(&[0, 5, 10, 10, 30]),
            3 => self.random.of(&[0, 30, 60, 60, 120, 500]),
            _ => self.random.of(&[0, 1, 1, 2, 3]),
        }
    }

    /// Sets the budget of a thread as a whole, or changes one limit of it.
    fn limit(&mut self) {
        let Some(number) = self.any_thread() else { return };
        let mut input = json!({"thread_id": self.model.threads[&number].id});
        let mut limits = self.model.threads[&number].budget.limits;
        let operation = if self.random.once_in(2) {
            let at = self.random.below(LIMITS.len());
            limits[at] = if self.random.once_in(3) { None } else { Some(self.random_limit(at)) };
            input[LIMITS[at]] = json!(limits[at]);
            "update_thread_budget"
        } else {
            for (at, name) in LIMITS.into_iter().enumerate() {
                limits[at] = self.random.once_in(4).then(|| self.random_limit(at));
                if limits[at].is_some() {
                    input[name] = json!(limits[at]);
                }
            }
            "set_thread_budget"
        };
        self.set_limits(number, operation, &input, limits);
    }

    fn set_limits(&mut self, number: usize, operation: &str, input: &Value, limits: [Option<i64>; 5]) {
        let times = if self.is_lost() { 2 } else { 1 };
        for _ in 0..times {
            let answer = self.admin(operation, input);
            // The first call may have ended a lease, which the second call must see.
            self.model.expire();
            if self.model.threads[&number].budget.limits != limits {
                self.follow(number, limits);
            }
            self.check_budget(number, &answer);
        }
    }

    /// Updates the model after a change of limits.
    fn follow(&mut self, number: usize, limits: [Option<i64>; 5]) {
        let now = self.model.now;
        let thread = self.model.thread(number);
        thread.budget.limits = limits;
        let id = thread.id.clone();
        let mut log = vec![("ThreadBudgetSet", id.clone(), json!(limits).to_string())];
        let last = thread.lease_end(now, i64::from(i32::MAX));
        if let Some(claim) = thread.claim.as_mut().filter(|claim| now < claim.until && last < claim.until) {
            claim.until = last;
            log.push(("ClaimRenewed", id, claim.member.to_string()));
        }
        self.model.log.extend(log);
        self.model.look_at_budget(number);
    }

    /// Reports usage as a holder.
    fn report(&mut self) {
        let Some((number, claim, mut input)) = self.any_held() else { return };
        self.reported += 1;
        let id = format!("report {}", self.reported);
        input["report_id"] = json!(id);
        let thread = self.model.threads.get_mut(&number).unwrap();
        for (name, spent) in REPORTED.into_iter().zip(&mut thread.budget.spent) {
            let used = i64::try_from(self.random.below(7)).unwrap();
            if used > 0 {
                input[name] = json!(used);
                *spent += used;
            }
        }
        let about = thread.id.clone();
        if self.random.once_in(2) {
            input["model"] = json!("large");
        }
        let first = self.ask(claim.member, "report_usage", &input).output();
        self.model.log.push(("UsageReported", about, id));
        self.model.look_at_budget(number);
        self.check_used(number, &first);
        if self.is_lost() {
            assert_eq!(self.ask(claim.member, "report_usage", &input).output(), first);
            input["turns"] = json!(100);
            self.ask(claim.member, "report_usage", &input).refused(409, "report-taken");
        }
    }

    /// Requeues a thread that has failed.
    fn requeue(&mut self) {
        let letters = self.list("list_dead_letters", None);
        if letters.is_empty() {
            return;
        }
        let letter = self.random.of(&letters);
        let number = *self.number_of(&letter["thread_id"]).expect("a thread with a dead letter");
        let input = json!({"workspace_id": self.workspace(), "dead_letter_id": letter["id"]});
        let answer = self.ask(0, "requeue_dead_letter", &input);
        let now = self.model.now;
        let mut anew = self.model.threads[&number].clone();
        (anew.budget.attempts, anew.dead) = (0, false);
        let exceeded = anew.exceeded(now);
        if !exceeded.is_empty() {
            let refusal = answer.refused(409, "budget-exhausted");
            assert_eq!(words(&refusal["exceeded"]), exceeded.join(" "));
            if self.random.once_in(2) {
                // Raising a limit does not requeue the thread.
                self.set_limits(number, "set_thread_budget", &json!({"thread_id": anew.id}), [None; 5]);
                self.claim_thread(number);
            }
            return;
        }
        let settled = answer.output();
        self.model.log.push(("DeadLetterRequeued", anew.id.clone(), String::new()));
        *self.model.thread(number) = anew;
        self.model.look_at_budget(number);
        if self.is_lost() {
            assert_eq!(self.admin("requeue_dead_letter", &input), settled);
        }
    }

    fn number_of(&self, id: &Value) -> Option<&usize> {
        self.model.threads.iter().find(|(_, thread)| json!(thread.id) == *id).map(|(number, _)| number)
    }

    fn limit_children(&mut self) {
        let spawn = [&[1, 2, 4], &[1, 2, 3], &[0, 1, 1]]
            .map(|allowed: &[i64; 3]| self.random.once_in(2).then(|| self.random.of(allowed)));
        let mut input = json!({"workspace_id": self.workspace()});
        for (name, allowed) in SPAWN_LIMITS.into_iter().zip(spawn) {
            input[name] = json!(allowed);
        }
        let times = if self.is_lost() { 2 } else { 1 };
        for _ in 0..times {
            self.admin("set_spawn_budget", &input);
        }
        if std::mem::replace(&mut self.model.spawn, spawn) != spawn {
            self.model.log.push(("SpawnBudgetSet", String::new(), String::new()));
        }
        let read = self.admin("get_spawn_budget", &json!({"workspace_id": self.workspace()}));
        assert_eq!(read, json!({"max_children": spawn[0], "max_depth": spawn[1], "max_tools": spawn[2]}));
    }

    fn create_child(&mut self) {
        let Some(parent) = self.any_thread() else { return };
        let above = self.model.threads[&parent].clone();
        if above.state == State::Closed || self.model.channels[above.channel].archived || self.has_enough() {
            return;
        }
        let (child, mut input) = self.new_thread(above.channel, Some(parent));
        let tools = self.random.of(&[0, 0, 1, 2]);
        input["thread_id"] = json!(above.id);
        input["tools"] = json!(["hammer", "saw"][..tools]);
        let answer = self.ask(0, "create_child_thread", &input);
        let wanted = [above.children + 1, child.depth, i64::try_from(tools).unwrap()];
        let mut limits = SPAWN_LIMITS.into_iter().zip(self.model.spawn).zip(wanted);
        let over = limits.find(|((_, allowed), wanted)| allowed.is_some_and(|allowed| *wanted > allowed));
        if let Some(((limit, allowed), _)) = over {
            let refusal = answer.refused(409, "spawn-rejected");
            assert_eq!((&refusal["limit"], &refusal["allowed"]), (&json!(limit), &json!(allowed)));
            let denied = format!("{limit} {}", json!(allowed));
            return self.model.log.push(("ThreadSpawnDenied", above.id, denied));
        }
        self.add(child, text(&answer.output()["id"]));
        self.model.thread(parent).children += 1;
    }

    /// Checks the dead letters, and the budgets of some threads.
    pub(super) fn check_budgets(&mut self) {
        let ids =
            |found: Vec<Value>| found.iter().map(|row| text(&row["thread_id"])).collect::<BTreeSet<_>>();
        let letters = ids(self.list("list_dead_letters", None));
        let dead = |thread: &&Thread| thread.dead;
        let wanted = self.model.threads.values().filter(dead).map(|thread| thread.id.clone()).collect();
        assert_eq!(letters, wanted, "the threads with a dead letter");
        for _ in 0..READ_MAX {
            let Some(number) = self.any_thread() else { return };
            let input = json!({"thread_id": self.model.threads[&number].id});
            let read = self.admin("get_thread_budget", &input);
            self.check_budget(number, &read);
        }
    }

    /// Checks the budget of a thread in an answer.
    fn check_budget(&self, number: usize, answer: &Value) {
        let limits = json!(LIMITS.map(|limit| &answer[limit]));
        assert_eq!(limits, json!(self.model.threads[&number].budget.limits), "the limits");
        self.check_used(number, answer);
    }

    /// Checks the used and remaining amounts of a thread's budget in an answer.
    fn check_used(&self, number: usize, answer: &Value) {
        let now = self.model.now;
        let thread = self.model.threads[&number].without_lapsed_claim(now);
        let used = thread.used(now);
        assert_eq!(json!(USED.map(|name| &answer["used"][name])), json!(used), "what is used");
        let left = thread.budget.limits.iter().zip(used);
        let left: Vec<Option<i64>> =
            left.map(|(limit, used)| limit.map(|limit| (limit - used).max(0))).collect();
        assert_eq!(json!(USED.map(|name| &answer["remaining"][name])), json!(left), "what is left");
        assert_eq!(answer["exceeded"], json!(thread.exceeded(now)), "what is exceeded");
    }
}
