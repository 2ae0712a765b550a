//! Threads and claims, from their beginning to their end.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::checks::{listed, words};
use super::model::{Budget, Claim, Conflicts, Footprint, MEMBERS, State, Thread, exhausted};
use super::{LEASE_SECS, Simulation};
use crate::client::Answer;
use crate::world::text;

/// Maximum open threads: enough that many wait for the same resource.
const OPEN_MAX: usize = 40;

/// Returns the reason that a refusal of a claim names.
#[track_caller]
fn not_claimable(answer: Answer) -> String {
    if answer.body["type"] == json!("/problems/budget-exhausted") {
        let refusal = answer.refused(409, "budget-exhausted");
        return exhausted(&[&words(&refusal["exceeded"])]);
    }
    let refusal = answer.refused(409, "not-claimable");
    assert!(refusal["reason"].is_string(), "a refusal without a reason: {refusal:#}");
    text(&refusal["reason"])
}

/// Checks that the context of a thread names the outcome of its claim: success, or the same refusal first.
fn check_context(refusals: &Value, answer: &Answer) {
    let first = &refusals[0];
    let same = |field: &str| first[field] == answer.body[field];
    let is_same = match answer.status {
        404 => refusals.is_null(),
        200 => first.is_null(),
        _ => ["type", "detail", "reason", "exceeded"].into_iter().all(same),
    };
    assert!(is_same, "claimed: {:#}\nafter the context: {refusals:#}", answer.body);
}

impl Simulation<'_> {
    pub(super) fn create(&mut self) {
        let channel = self.random.below(3);
        if self.has_enough() || self.model.channels[channel].archived {
            return self.claim_next();
        }
        let (thread, mut input) = self.new_thread(channel, None);
        input["channel_id"] = json!(self.channels[channel]);
        // If the caller repeats the request, it creates another thread.
        if self.is_lost() {
            let before = self.world.lsn();
            self.admin("create_thread", &input);
            let events = self.events_after(before);
            self.add(thread.clone(), text(&events[0]["payload"]["$chain"]["thread_id"]));
        }
        let id = text(&self.admin("create_thread", &input)["id"]);
        self.add(thread, id);
    }

    /// Returns whether the limit of open threads is reached, so that no more are created.
    pub(super) fn has_enough(&self) -> bool {
        let is_open = |thread: &&Thread| !thread.done && thread.state != State::Closed;
        self.model.threads.values().filter(is_open).count() >= OPEN_MAX
    }

    /// Returns a thread to create, and its description in a call without its place.
    pub(super) fn new_thread(&mut self, channel: usize, parent: Option<usize>) -> (Thread, Value) {
        let priority = self.random.of(&[0, 0, 0, 5, -5]);
        let footprint = Footprint::random(&mut self.random);
        let skilled = self.random.once_in(5);
        let mut input = json!({"title": "work", "priority": priority});
        if skilled {
            input["required_skills"] = json!(["rust"]);
        }
        if !footprint.is_empty() {
            input["footprint"] = footprint.json();
        }
        let thread = Thread {
            id: String::new(),
            parent,
            depth: parent.map_or(1, |parent| self.model.threads[&parent].depth + 1),
            children: 0,
            channel,
            priority,
            footprint,
            skilled,
            done: false,
            state: State::Open,
            waits_for: BTreeSet::new(),
            claim: None,
            worked: 0,
            budget: Budget::default(),
            dead: false,
        };
        (thread, input)
    }

    pub(super) fn add(&mut self, thread: Thread, id: String) {
        self.model.log.push(("ThreadCreated", id.clone(), String::new()));
        self.model.threads.insert(self.created, Thread { id, ..thread });
        self.created += 1;
    }

    /// Returns a random member, and a channel that it sees or the workspace.
    pub(super) fn any_place(&mut self) -> (usize, Option<usize>) {
        let member = self.random.below(MEMBERS);
        let channel = self.random.below(3);
        let is_seen = !self.model.channels[channel].private
            || member == 0
            || self.model.channels[channel].members.contains(&member);
        (member, (is_seen && self.random.below(2) == 0).then_some(channel))
    }

    pub(super) fn claim_next(&mut self) {
        let (member, channel) = self.any_place();
        let repo = self.random.once_in(4).then_some("acme/app");
        let ready = if repo.is_none() { self.is_ready(member, channel) } else { None };
        self.model.expire();
        if self.is_lost() {
            // If the caller repeats the request, it claims another thread.
            self.claim_next_of(member, channel, repo, true, ready);
            self.claim_next_of(member, channel, repo, false, None);
        } else {
            self.claim_next_of(member, channel, repo, false, ready);
        }
    }

    fn claim_next_of(
        &mut self,
        member: usize,
        channel: Option<usize>,
        repo: Option<&str>,
        is_lost: bool,
        ready: Option<Option<String>>,
    ) {
        let wanted = self.model.next(member, channel, repo);
        let (operation, input) = self.call_of_next(channel, repo);
        let claimed = self.ask(member, operation, &input).output();
        let expected = wanted.map(|number| self.model.threads[&number].id.clone());
        if !is_lost {
            let given = claimed["id"].as_str().map(str::to_owned);
            assert_eq!(given, expected, "{operation} of member {member}, repo {repo:?}");
        }
        if let Some(ready) = ready {
            assert_eq!(ready, expected, "a wait finds what a claim is given");
        }
        if let Some(number) = wanted {
            let lease =
                if is_lost { self.lease_of(number, member) } else { text(&claimed["claim_lease_id"]) };
            self.claimed(number, member, lease, "claimed");
        }
    }

    /// Returns the call that claims the next thread of a channel or of the workspace.
    pub(super) fn call_of_next(&self, channel: Option<usize>, repo: Option<&str>) -> (&'static str, Value) {
        let mut input = json!({"lease_secs": LEASE_SECS});
        input.as_object_mut().unwrap().extend(repo.map(|repo| ("repo".to_owned(), json!(repo))));
        match channel {
            Some(channel) => {
                input["channel_id"] = json!(self.channels[channel]);
                ("claim_next_thread", input)
            }
            None => {
                input["workspace_id"] = json!(self.workspace());
                ("claim_next_workspace_thread", input)
            }
        }
    }

    /// Returns the lease of a claim whose holder did not receive the answer.
    fn lease_of(&mut self, number: usize, member: usize) -> String {
        let input = json!({"thread_id": self.model.threads[&number].id});
        let claim = self.ask(0, "get_claim", &input).output();
        assert_eq!(claim["holder"], json!(self.ids[member]), "who holds a claim that was not answered");
        text(&claim["claim_lease_id"])
    }

    /// Returns the thread that a wait returns at once, if this step makes one.
    ///
    /// A wait that finds nothing lasts, so it is only begun if a thread is ready.
    fn is_ready(&mut self, member: usize, channel: Option<usize>) -> Option<Option<String>> {
        if self.random.below(4) > 0 || self.model.next(member, channel, None).is_none() {
            return None;
        }
        let mut input = json!({"workspace_id": self.workspace(), "timeout_secs": 1});
        if let Some(channel) = channel {
            input["channel_id"] = json!(self.channels[channel]);
        }
        let found = self.wait(member, "wait_for_ready", &input).output();
        Some(found["thread_id"].as_str().map(str::to_owned))
    }

    pub(super) fn claimed(&mut self, number: usize, member: usize, lease: String, reason: &str) {
        let since = self.model.now;
        let thread = self.model.thread(number);
        thread.claim = Some(Claim { member, lease, since, until: thread.lease_end(since, LEASE_SECS) });
        self.model.record_holder(number, reason, member);
    }

    pub(super) fn claim_one(&mut self) {
        if let Some(number) = self.any_thread() {
            self.claim_thread(number);
        }
    }

    /// Claims a thread as a random member.
    pub(super) fn claim_thread(&mut self, number: usize) {
        let member = self.random.below(MEMBERS);
        let thread = self.model.threads[&number].clone();
        let input = json!({"thread_id": thread.id, "lease_secs": LEASE_SECS});
        let context = self.ask(member, "get_thread_context", &json!({"thread_id": thread.id}));
        let answer = self.ask(member, "claim_thread", &input);
        check_context(&context.body["claim_refusals"], &answer);
        let Some(claimed) = self.may_claim(number, member, answer) else { return };
        let lease = if self.is_lost() {
            let again = self.ask(member, "claim_thread", &input);
            assert_eq!(not_claimable(again), "claimed");
            self.lease_of(number, member)
        } else {
            text(&claimed["claim_lease_id"])
        };
        self.claimed(number, member, lease, "claimed");
    }

    /// Checks the answer to a member who claims a thread. Returns `None` if the claim had to be refused.
    pub(super) fn may_claim(&mut self, number: usize, member: usize, answer: Answer) -> Option<Value> {
        let thread = self.model.threads[&number].clone();
        if !self.model.sees(member, &thread) {
            answer.refused(404, "not-found");
            return None;
        }
        if let Some(reason) = self.model.refusal(number, member) {
            assert_eq!(not_claimable(answer), reason);
            return None;
        }
        let conflicts = self.model.conflicts(&thread.footprint, Some(number));
        if !conflicts.is_empty() {
            let refusal = answer.refused(409, "footprint-conflict");
            assert_eq!(listed(&refusal["conflicts"]), self.seen_by(member, conflicts));
            return None;
        }
        self.model.expire();
        Some(answer.output())
    }

    /// Returns the conflicts as a member sees them: without the threads of the private channel.
    pub(super) fn seen_by(&self, member: usize, conflicts: Conflicts) -> Conflicts {
        let hidden = |id: &String| {
            self.model.threads.values().any(|thread| thread.id == *id && !self.model.sees(member, thread))
        };
        conflicts.into_iter().map(|(reason, item, id)| (reason, item, id.filter(|id| !hidden(id)))).collect()
    }

    /// Returns a thread with a live claim whose holder still sees it, its claim, and their fields in a call.
    pub(super) fn any_held(&mut self) -> Option<(usize, Claim, Value)> {
        let sees = |(_, thread): &(&usize, &Thread)| {
            thread.claim.as_ref().is_some_and(|claim| self.model.sees(claim.member, thread))
        };
        let live: Vec<usize> = self.model.live().filter(sees).map(|(number, _)| *number).collect();
        let number = (!live.is_empty()).then(|| self.random.of(&live))?;
        let thread = &self.model.threads[&number];
        let claim = thread.claim.clone()?;
        let named = json!({"thread_id": thread.id, "claim_lease_id": claim.lease});
        Some((number, claim, named))
    }

    pub(super) fn end_one(&mut self) {
        let Some((number, claim, mut input)) = self.any_held() else { return self.claim_next() };
        let is_result = self.random.once_in(3);
        let operation = if is_result { "set_thread_result" } else { "release_claim" };
        if is_result {
            input["result"] = json!({"done": true});
        }
        let answer = self.ask(claim.member, operation, &input).output();
        self.ended(number, &claim, is_result, &answer);
        if self.is_lost() {
            self.ask(claim.member, operation, &input).refused(409, "stale-claim");
        }
    }

    /// Updates the model at the end of a claim, with or without a result.
    pub(super) fn ended(&mut self, number: usize, claim: &Claim, is_result: bool, answer: &Value) {
        if is_result {
            let id = self.model.threads[&number].id.clone();
            self.model.log.push(("ThreadResultSet", id, claim.member.to_string()));
        }
        self.model.end(number, if is_result { "result" } else { "released" });
        let thread = self.model.thread(number);
        thread.done |= is_result;
        if !is_result {
            assert_eq!(answer["dead"], json!(thread.dead), "whether the thread has failed");
        }
    }

    pub(super) fn renew(&mut self) {
        let Some((number, claim, mut input)) = self.any_held() else { return };
        let secs = self.random.of(&[20, LEASE_SECS, 90]);
        input["lease_secs"] = json!(secs);
        let thread = &self.model.threads[&number];
        let until = thread.lease_end(self.model.now, secs);
        let exceeded = thread.exceeded(self.model.now);
        let times = if self.is_lost() { 2 } else { 1 };
        for _ in 0..times {
            let answer = self.ask(claim.member, "renew_claim", &input);
            if !exceeded.is_empty() {
                return assert_eq!(not_claimable(answer), exhausted(&exceeded));
            }
            assert_eq!(answer.output()["lease_expires_at"], json!(self.time(until)));
        }
        self.model.look_at_budget(number);
        if until != claim.until {
            self.model.log.push((
                "ClaimRenewed",
                self.model.threads[&number].id.clone(),
                claim.member.to_string(),
            ));
            self.model.thread(number).claim = Some(Claim { until, ..claim });
        }
    }

    pub(super) fn hand_off(&mut self) {
        let Some((number, claim, mut input)) = self.any_held() else { return };
        let thread = self.model.threads[&number].clone();
        let exceeded = thread.exceeded(self.model.now);
        let over = (exhausted(&exceeded), !exceeded.is_empty());
        input["lease_secs"] = json!(LEASE_SECS);
        if self.random.once_in(4) {
            let (unfit, reason) = self.random.of(&self.unfit.clone());
            input["to_member_id"] = json!(unfit);
            let answer = self.ask(claim.member, "hand_off_claim", &input);
            return assert_eq!(not_claimable(answer), if over.1 { &over.0 } else { reason });
        }
        let to = self.random.below(MEMBERS);
        input["to_member_id"] = json!(self.ids[to]);
        let answer = self.ask(claim.member, "hand_off_claim", &input);
        let reasons = [
            (&*over.0, over.1),
            ("claimed", to == claim.member),
            ("missing-skills", self.model.lacks_skills(&thread, to)),
            ("channel", !self.model.sees(to, &thread)),
        ];
        if let Some((reason, _)) = reasons.into_iter().find(|(_, holds)| *holds) {
            return assert_eq!(not_claimable(answer), reason);
        }
        self.model.expire();
        let handed = answer.output();
        let lease = if self.is_lost() {
            self.ask(claim.member, "hand_off_claim", &input).refused(409, "stale-claim");
            self.lease_of(number, to)
        } else {
            text(&handed["claim_lease_id"])
        };
        let now = self.model.now;
        self.model.thread(number).end_claim(now);
        self.model.look_at_budget(number);
        self.claimed(number, to, lease, "handed_off");
    }

    /// Tries to continue as the holder of a lapsed claim.
    pub(super) fn act_late(&mut self) {
        let lapsed = self.model.threads.values().find_map(|thread| {
            let claim = thread.claim.as_ref().filter(|claim| claim.until <= self.model.now)?;
            self.model.sees(claim.member, thread).then(|| (thread.id.clone(), claim.clone()))
        });
        let Some((id, claim)) = lapsed else { return };
        let (operation, more) = self.random.of(&[
            ("renew_claim", json!({"lease_secs": LEASE_SECS})),
            ("release_claim", json!({})),
            ("hand_off_claim", json!({"to_member_id": self.ids[0]})),
            ("set_thread_result", json!({"result": {"late": true}})),
            ("report_usage", json!({"report_id": "late", "tokens": 1})),
        ]);
        let mut input = json!({"thread_id": id, "claim_lease_id": claim.lease});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let state = self.model.threads.values().find(|thread| thread.id == id).map(|thread| thread.state);
        let answer = self.ask(claim.member, operation, &input);
        assert_ne!(state, Some(State::Closed), "a closed thread has no claim");
        answer.refused(409, "stale-claim");
    }
}
