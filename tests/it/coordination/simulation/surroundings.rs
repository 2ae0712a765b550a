//! What goes on around claims: states, dependencies, skills and channels change.

use serde_json::json;

use super::Simulation;
use super::model::{MEMBERS, State, Thread};

impl Simulation<'_> {
    pub(super) fn change_surroundings(&mut self) {
        match self.random.below(12) {
            0..=1 => self.finish_or_reopen(),
            2 => self.review(),
            3..=4 => self.require(),
            5 => self.learn(),
            6..=7 => self.wait_for_another(),
            8 => self.archive(),
            9 => self.hide(),
            10 => self.join_or_leave(),
            _ => self.clear(),
        }
    }

    fn change(&mut self, number: usize, change: impl FnOnce(&mut Thread)) {
        change(self.model.threads.get_mut(&number).unwrap());
    }

    fn transition(&self, number: usize, action: &str) {
        let input = json!({"thread_id": self.model.threads[&number].id, "action": action});
        self.admin("transition_thread", input);
    }

    fn finish_or_reopen(&mut self) {
        let Some(number) = self.any_thread() else { return };
        let thread = &self.model.threads[&number];
        if self.model.channels[thread.channel].archived {
            return;
        }
        if thread.state == State::Closed {
            self.transition(number, "reopen");
            self.change(number, |thread| (thread.state, thread.done) = (State::Open, false));
        } else {
            self.admin("cancel_thread", json!({"thread_id": thread.id, "reason": "not needed"}));
            self.change(number, |thread| (thread.state, thread.claim) = (State::Closed, None));
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
        self.admin("set_required_skills", input);
        self.change(number, |thread| thread.skilled = skilled);
    }

    fn learn(&mut self) {
        let (member, skilled) = (self.random.below(MEMBERS), self.random.below(2) == 0);
        let skills = if skilled { json!(["rust", "other"]) } else { json!([]) };
        self.world.call(&self.members[member], "set_skills", json!({"skills": skills})).output();
        self.model.skilled[member] = skilled;
    }

    /// A thread waits for an older one of its channel, or no longer does.
    fn wait_for_another(&mut self) {
        let (Some(one), Some(two)) = (self.any_thread(), self.any_thread()) else { return };
        let (older, newer) = (one.min(two), one.max(two));
        let thread = &self.model.threads[&newer];
        if older == newer || thread.channel != self.model.threads[&older].channel {
            return;
        }
        let input = json!({"thread_id": thread.id, "depends_on_id": self.model.threads[&older].id});
        if thread.waits_for.contains(&older) {
            self.admin("remove_thread_dependency", input);
            self.change(newer, |thread| thread.waits_for.retain(|other| *other != older));
        } else if thread.state != State::Closed && self.random.below(3) == 0 {
            self.admin("add_thread_dependency", input);
            self.change(newer, |thread| thread.waits_for.extend([older]));
        }
    }

    fn archive(&mut self) {
        let channel = self.random.below(3);
        let input = json!({"channel_id": self.channels[channel]});
        let archived = &mut self.model.channels[channel].archived;
        let operation = if *archived { "unarchive_channel" } else { "archive_channel" };
        *archived = !*archived;
        self.admin(operation, input);
    }

    /// A channel becomes private or public.
    fn hide(&mut self) {
        let channel = self.random.below(3);
        if self.model.channels[channel].archived {
            return;
        }
        let private = !self.model.channels[channel].private;
        self.admin("update_channel", json!({"channel_id": self.channels[channel], "private": private}));
        self.model.channels[channel].private = private;
    }

    fn join_or_leave(&mut self) {
        let (channel, member) = (self.random.below(3), 1 + self.random.below(MEMBERS - 1));
        if self.model.channels[channel].archived {
            return;
        }
        let input = json!({"channel_id": self.channels[channel], "member_id": self.ids[member]});
        let members = &mut self.model.channels[channel].members;
        if members.remove(&member) {
            self.admin("remove_channel_member", input);
        } else {
            members.insert(member);
            self.admin("add_channel_member", input);
        }
    }

    /// Archived channels come back, and what holds everything up is taken away.
    fn clear(&mut self) {
        if self.random.below(4) > 0 {
            return;
        }
        for channel in 0..self.channels.len() {
            if std::mem::take(&mut self.model.channels[channel].archived) {
                self.admin("unarchive_channel", json!({"channel_id": self.channels[channel]}));
            }
        }
        for repo in std::mem::take(&mut self.model.paused) {
            self.admin("resume_repo", json!({"workspace_id": self.world.id("workspace"), "repo": repo}));
        }
    }
}
