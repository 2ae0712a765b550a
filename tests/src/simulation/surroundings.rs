//! The changes around claims: footprints, slots, pauses, the clock, states, dependencies, skills, channels.

use serde_json::json;

use super::Simulation;
use super::checks::listed;
use super::model::{Footprint, MEMBERS, State, Thread};
use crate::world::{answer_of, call};

/// Maximum closed threads; older ones are archived.
const CLOSED_MAX: usize = 12;

impl Simulation<'_> {
    pub(super) fn change_surroundings(&mut self) {
        match self.random.below(17) {
            0..=2 => self.finish_or_reopen(),
            3 => self.review(),
            4..=5 => self.require(),
            6 => self.learn(),
            7..=8 => self.wait_for_another(),
            9 => self.archive(),
            10 => self.hide(),
            11 => self.join_or_leave(),
            12 => self.reprioritise(),
            13 => self.reap(),
            14 => self.freeze(),
            15 => self.send_home(),
            _ => self.clear(),
        }
    }

    pub(super) fn refine(&mut self) {
        let Some(number) = self.any_thread_or_a_claimed_one(4) else { return };
        let footprint = Footprint::random(&mut self.random);
        let id = self.model.threads[&number].id.clone();
        let mut input = footprint.json();
        input["thread_id"] = json!(id);
        let times = if self.is_lost() { 2 } else { 1 };
        for _ in 0..times {
            let answer = self.ask(0, "set_thread_footprint", &input);
            let live = self.model.is_live(number);
            let same = self.model.threads[&number].footprint == footprint;
            let conflicts = self.model.conflicts(&footprint, Some(number));
            if live && !same && !conflicts.is_empty() {
                let refusal = answer.refused(409, "footprint-conflict");
                return assert_eq!(listed(&refusal["conflicts"]), conflicts);
            }
            answer.output();
            self.model.expire();
            if !same {
                self.model.log.push(("ThreadFootprintChanged", id.clone(), String::new()));
                self.model.thread(number).footprint = footprint.clone();
            }
        }
    }

    pub(super) fn set_slot(&mut self) {
        let workspace = self.workspace();
        if self.random.once_in(4) && self.model.capacity.take().is_some() {
            let input = json!({"workspace_id": workspace, "slot": "gpu"});
            self.admin("clear_slot_capacity", &input);
            self.model.log.push(("SlotCapacityCleared", String::new(), String::new()));
            if self.is_lost() {
                self.ask(0, "clear_slot_capacity", &input).refused(404, "not-found");
            }
            return;
        }
        let capacity = self.random.of(&[0, 1, 1, 2, 3]);
        let input = json!({"workspace_id": workspace, "slot": "Gpu", "capacity": capacity});
        self.admin("set_slot_capacity", &input);
        if self.is_lost() {
            self.admin("set_slot_capacity", &input);
        }
        if self.model.capacity.replace(capacity) != Some(capacity) {
            self.model.log.push(("SlotCapacitySet", String::new(), capacity.to_string()));
        }
    }

    pub(super) fn pause(&mut self) {
        let repo = self.random.of(&["acme/app", "acme/lib"]);
        let input = json!({"workspace_id": self.workspace(), "repo": repo});
        if self.model.paused.remove(repo) {
            self.admin("resume_repo", &input);
            self.model.log.push(("RepoResumed", String::new(), repo.to_owned()));
            if self.is_lost() {
                self.ask(0, "resume_repo", &input).refused(404, "not-found");
            }
        } else if self.random.once_in(3) {
            let times = if self.is_lost() { 2 } else { 1 };
            for _ in 0..times {
                self.admin("pause_repo", &input);
            }
            self.model.paused.insert(repo.to_owned());
            self.model.log.push(("RepoPaused", String::new(), repo.to_owned()));
        }
    }

    /// Lets time pass, or sets the clock.
    pub(super) fn move_clock(&mut self) {
        let secs = self.random.of(&[1, 7, 7, 20, 51, 300, -1, -20, -60]);
        self.model.now += secs;
        if secs > 0 && self.random.once_in(2) {
            self.world.clock.advance(std::time::Duration::from_secs(secs.unsigned_abs()));
        } else {
            self.world.clock.set(self.time(self.model.now));
        }
    }

    /// Freezes a member, which tries to continue, and unfreezes it after a while.
    fn freeze(&mut self) {
        let member = 1 + self.random.below(MEMBERS - 1);
        let about = json!({"member_id": self.ids[member]});
        let frozen = self.model.log.len();
        let mut released = self.model.end_all(member, "frozen");
        self.model.log.insert(frozen, ("MemberFrozen", String::new(), format!("{member} {released}")));
        let times = if self.is_lost() { 2 } else { 1 };
        for _ in 0..times {
            assert_eq!(self.admin("freeze_member", &about)["claims_released"], json!(released));
            released = 0;
        }
        for _ in 0..self.random.below(3) {
            self.try_frozen(member);
        }
        if self.random.once_in(2) {
            self.move_clock();
        }
        self.admin("unfreeze_member", &about);
        self.model.log.push(("MemberUnfrozen", String::new(), member.to_string()));
    }

    /// Ends all claims of a member as its deactivation does.
    fn send_home(&mut self) {
        let member = self.random.below(MEMBERS);
        let mut ended = self.model.end_all(member, "deactivated");
        let about = json!({"member_id": self.ids[member]});
        let times = if self.is_lost() { 2 } else { 1 };
        for _ in 0..times {
            let answer = answer_of(call(&self.world.service, Some(&self.members[0]), "send_home", &about));
            assert_eq!(answer.output()["ended"], json!(ended));
            ended = 0;
        }
    }

    /// Claims as a frozen member the next thread, or lets it receive a hand-off.
    fn try_frozen(&mut self, member: usize) {
        let held = self.model.live().find_map(|(_, thread)| {
            let holder = thread.claim.as_ref()?.member;
            let is_able = self.model.sees(holder, thread) && thread.exceeded(self.model.now).is_empty();
            is_able.then(|| (holder, thread.id.clone()))
        });
        if let Some((holder, id)) = held {
            let input = json!({"thread_id": id, "to_member_id": self.ids[member]});
            let refusal = self.ask(holder, "hand_off_claim", &input).refused(409, "not-claimable");
            assert_eq!(refusal["reason"], json!("frozen"));
        }
        let input = json!({"workspace_id": self.workspace()});
        self.ask(member, "claim_next_workspace_thread", &input).refused(403, "member-frozen");
    }

    /// Lets the first service end lapsed claims.
    fn reap(&mut self) {
        self.world.service.housekeep().unwrap();
        self.model.expire();
    }

    fn reprioritise(&mut self) {
        let Some(number) = self.any_thread() else { return };
        let priority = self.random.of(&[0, 5, -5, 7]);
        let id = self.model.threads[&number].id.clone();
        self.admin("set_thread_priority", &json!({"thread_id": id, "priority": priority}));
        self.prioritised(number, priority);
    }

    /// Sets the priority of a thread.
    pub(super) fn prioritised(&mut self, number: usize, priority: i64) {
        let id = self.model.threads[&number].id.clone();
        if std::mem::replace(&mut self.model.thread(number).priority, priority) != priority {
            self.model.log.push(("ThreadPriorityChanged", id, String::new()));
        }
    }

    fn change(&mut self, number: usize, change: impl FnOnce(&mut Thread)) {
        change(self.model.threads.get_mut(&number).unwrap());
    }

    fn transition(&mut self, number: usize, action: &str) {
        let input = json!({"thread_id": self.model.threads[&number].id, "action": action});
        self.admin("transition_thread", &input);
    }

    fn finish_or_reopen(&mut self) {
        let Some(number) = self.any_thread_or_a_claimed_one(3) else { return };
        let thread = self.model.threads[&number].clone();
        let id = thread.id;
        if self.model.channels[thread.channel].archived {
            return;
        }
        let is_finished = |number: &usize| {
            self.model.threads.get(number).is_none_or(|thread| thread.state == State::Closed)
        };
        if thread.state == State::Closed {
            if thread.parent.as_ref().is_some_and(is_finished) {
                let input = json!({"thread_id": id, "action": "reopen"});
                self.ask(0, "transition_thread", &input).refused(409, "wrong-state");
                return;
            }
            self.transition(number, "reopen");
            self.change(number, |thread| (thread.state, thread.done) = (State::Open, false));
            return;
        }
        let is_open_child = |child: &Thread| child.parent == Some(number) && child.state != State::Closed;
        let has_children = self.model.threads.values().any(is_open_child);
        let reason = if self.random.once_in(2) {
            if has_children {
                let input = json!({"thread_id": id, "action": "close"});
                self.ask(0, "transition_thread", &input).refused(409, "close-refused");
                return;
            }
            self.transition(number, "close");
            "closed"
        } else {
            let input = json!({"thread_id": id, "reason": "not needed"});
            self.admin("cancel_thread", &input);
            if self.is_lost() {
                self.admin("cancel_thread", &input);
            }
            self.model.log.push(("ThreadCancelled", id, String::new()));
            "cancelled"
        };
        self.model.expire();
        self.model.end(number, reason);
        self.change(number, |thread| (thread.state, thread.dead) = (State::Closed, false));
        self.archive_the_oldest();
    }

    /// Keeps only a few closed threads, so that changes also reach others.
    fn archive_the_oldest(&mut self) {
        let is_closed = |(_, thread): &(&usize, &Thread)| thread.state == State::Closed;
        if self.model.threads.iter().filter(is_closed).count() <= CLOSED_MAX {
            return;
        }
        let oldest = self.model.threads.iter().find(|(_, thread)| {
            thread.state == State::Closed && !self.model.channels[thread.channel].archived
        });
        let Some(number) = oldest.map(|(number, _)| *number) else { return };
        self.transition(number, "archive");
        self.model.threads.remove(&number);
        for thread in self.model.threads.values_mut() {
            thread.waits_for.remove(&number);
        }
    }

    fn review(&mut self) {
        let Some(number) = self.any_thread() else { return };
        let (action, next) = match self.model.threads[&number].state {
            State::Open => ("start_review", State::InReview),
            State::InReview => ("return_to_open", State::Open),
            State::Closed => return,
        };
        self.transition(number, action);
        let reopened = next == State::Open;
        self.change(number, |thread| (thread.state, thread.done) = (next, thread.done && !reopened));
    }

    fn require(&mut self) {
        let Some(number) = self.any_thread() else { return };
        let skilled = self.random.below(2) == 0;
        let required = if skilled { json!(["rust"]) } else { json!([]) };
        let input = json!({"thread_id": self.model.threads[&number].id, "required_skills": required});
        self.admin("set_required_skills", &input);
        self.change(number, |thread| thread.skilled = skilled);
    }

    fn learn(&mut self) {
        let member = self.random.below(MEMBERS);
        let skilled = self.random.below(2) == 0;
        let skills = if skilled { json!(["rust", "other"]) } else { json!([]) };
        self.ask(member, "set_skills", &json!({"skills": skills})).output();
        self.model.skilled[member] = skilled;
    }

    /// Makes a thread wait for an older one of its channel, or ends such a dependency.
    fn wait_for_another(&mut self) {
        let (Some(one), Some(two)) = (self.any_thread(), self.any_thread()) else { return };
        let older = one.min(two);
        let newer = one.max(two);
        let thread = &self.model.threads[&newer];
        if older == newer || thread.channel != self.model.threads[&older].channel {
            return;
        }
        let input = json!({"thread_id": thread.id, "depends_on_id": self.model.threads[&older].id});
        if thread.waits_for.contains(&older) {
            self.admin("remove_thread_dependency", &input);
            self.change(newer, |thread| thread.waits_for.retain(|other| *other != older));
        } else if thread.state != State::Closed && self.random.below(3) == 0 {
            self.admin("add_thread_dependency", &input);
            self.change(newer, |thread| thread.waits_for.extend([older]));
        }
    }

    fn archive(&mut self) {
        let channel = self.random.below(3);
        let input = json!({"channel_id": self.channels[channel]});
        let archived = &mut self.model.channels[channel].archived;
        let operation = if *archived { "unarchive_channel" } else { "archive_channel" };
        *archived = !*archived;
        self.admin(operation, &input);
    }

    /// Makes a channel private or public.
    fn hide(&mut self) {
        let channel = self.random.below(3);
        if self.model.channels[channel].archived {
            return;
        }
        let private = !self.model.channels[channel].private;
        let input = json!({"channel_id": self.channels[channel], "private": private});
        self.admin("update_channel", &input);
        self.model.channels[channel].private = private;
    }

    fn join_or_leave(&mut self) {
        let channel = self.random.below(3);
        let member = 1 + self.random.below(MEMBERS - 1);
        if self.model.channels[channel].archived {
            return;
        }
        let input = json!({"channel_id": self.channels[channel], "member_id": self.ids[member]});
        let members = &mut self.model.channels[channel].members;
        if members.remove(&member) {
            self.admin("remove_channel_member", &input);
        } else {
            members.insert(member);
            self.admin("add_channel_member", &input);
        }
    }

    /// Unarchives channels, and removes slots and pauses that block everything.
    fn clear(&mut self) {
        if self.random.below(4) > 0 {
            return;
        }
        for channel in 0..self.channels.len() {
            if std::mem::take(&mut self.model.channels[channel].archived) {
                let input = json!({"channel_id": self.channels[channel]});
                self.admin("unarchive_channel", &input);
            }
        }
        for repo in std::mem::take(&mut self.model.paused) {
            let input = json!({"workspace_id": self.workspace(), "repo": repo});
            self.admin("resume_repo", &input);
            self.model.log.push(("RepoResumed", String::new(), repo));
        }
    }
}
