//! Random sequences of changes to grants, tokens and people, checked against a model.

use std::time::Duration;

use serde_json::json;
use svc_tests::simulation::Random;
use svc_tests::{Person, World, on_both_engines, text};

use super::{DAY, grant_of, revoke, set_ceiling, subject_and_delegate, try_to_exchange};

/// A grant in the model.
struct ModelGrant {
    grant: String,
    ends: i64,
    revoked: bool,
}

/// A delegated token in the model: its grant, the calling token, its own end.
struct DelegatedToken {
    secret: String,
    grant: usize,
    by: usize,
    ends: i64,
}

/// A random sequence of changes to grants and tokens, and their expected effects.
struct RandomStory<'w> {
    world: &'w World,
    people: [Person; 2],
    random: Random,
    /// Whether subject and delegate are frozen, and whether they are deactivated.
    frozen: [bool; 2],
    gone: [bool; 2],
    ceiling_days: i64,
    /// The delegate's own tokens: secret, id, whether revoked.
    own: Vec<(String, String, bool)>,
    grants: Vec<ModelGrant>,
    held: Vec<DelegatedToken>,
    /// Seconds since the beginning.
    now: i64,
}

impl<'w> RandomStory<'w> {
    fn begin(world: &'w World, seed: u64) -> Self {
        let people = subject_and_delegate(world);
        let random = Random(seed);
        let frozen = [false; 2];
        let gone = [false; 2];
        let own = Vec::new();
        let grants = Vec::new();
        let held = Vec::new();
        let mut story =
            Self { world, people, random, frozen, gone, ceiling_days: 90, own, grants, held, now: 0 };
        story.mint();
        story.lend();
        story
    }

    fn mint(&mut self) {
        let input = json!({"workspace_id": self.world.id("workspace"), "member_id": self.people[1].id,
                           "capability_set": "svc.agent.worker"});
        let minted = self.world.call(&self.world.people.admin, "mint_token", input);
        if self.gone[1] {
            minted.refused(409, "wrong-state");
        } else {
            let minted = minted.output();
            self.own.push((text(&minted["secret"]), text(&minted["id"]), false));
        }
    }

    fn lend(&mut self) {
        let secs = self.random.of(&[600, 3 * DAY, 40 * DAY]);
        let input = grant_of(self.world, &self.people, json!({"expires_in_secs": secs}));
        let made = self.world.call(&self.world.people.admin, "create_delegation_grant", input);
        if secs > self.ceiling_days * DAY {
            made.refused(400, "malformed-request");
        } else if self.gone.contains(&true) {
            made.refused(409, "wrong-state");
        } else {
            let grant = text(&made.output()["grant_id"]);
            self.grants.push(ModelGrant { grant, ends: self.now + secs, revoked: false });
        }
    }

    fn exchange(&mut self) {
        let by = self.random.below(self.own.len());
        let grant = self.random.below(self.grants.len());
        let (secret, _, revoked) = &self.own[by];
        let lent = &self.grants[grant];
        let answer = try_to_exchange(self.world, secret, &lent.grant, json!({}));
        if *revoked || self.gone[1] {
            answer.refused(401, "unauthenticated");
        } else if self.frozen[1] {
            answer.refused(403, "member-frozen");
        } else if lent.revoked || lent.ends <= self.now || self.gone[0] {
            answer.refused(409, "wrong-state");
        } else {
            let secret = text(&answer.output()["secret"]);
            let ends = lent.ends.min(self.now + 900);
            self.held.push(DelegatedToken { secret, grant, by, ends });
        }
    }

    fn narrow(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.below(self.held.len());
        let DelegatedToken { grant, by, ends, .. } = self.held[at];
        let input = json!({"capabilities": ["workspace:read", "message:post"]});
        let answer = self.world.call(&self.held[at].secret, "attenuate_token", input);
        match self.outcome(&self.held[at], true) {
            (200, _) => {
                let secret = text(&answer.output()["secret"]);
                self.held.push(DelegatedToken { secret, grant, by, ends });
            }
            (status, code) => drop(answer.refused(status, code)),
        }
    }

    fn step(&mut self) {
        let world = self.world;
        match self.random.below(14) {
            0 => self.mint(),
            1 | 2 => self.lend(),
            3..=6 => self.exchange(),
            7 | 8 => self.narrow(),
            9 => {
                let at = self.random.below(self.grants.len());
                revoke(world, &self.grants[at].grant);
                self.grants[at].revoked = true;
            }
            10 => {
                let at = self.random.below(self.own.len());
                world.admin("revoke_token", json!({"token_id": self.own[at].1}));
                self.own[at].2 = true;
            }
            11 => {
                let who = self.random.of(&[0, 1]);
                let column = self.random.of(&[0, 0, 1]);
                let flags = if column == 0 { &mut self.frozen } else { &mut self.gone };
                flags[who] = !flags[who];
                let column = ["frozen_at", "deactivated_at"][column];
                self.people[who].set_time(world, column, flags[who]);
            }
            12 => {
                self.ceiling_days = self.random.of(&[1, 30, 90]);
                set_ceiling(world, self.ceiling_days).output();
            }
            _ => {
                let secs = self.random.of(&[60, 600, 900]);
                world.clock.advance(Duration::from_secs(secs));
                self.now += i64::try_from(secs).unwrap();
            }
        }
    }

    /// Returns the outcome of a request with a delegated token.
    fn outcome(&self, held: &DelegatedToken, changes: bool) -> (u16, &'static str) {
        let is_dead = held.ends <= self.now
            || self.grants[held.grant].revoked
            || self.own[held.by].2
            || self.gone.contains(&true);
        match (is_dead, changes && self.frozen.contains(&true)) {
            (true, _) => (401, "unauthenticated"),
            (false, true) => (403, "member-frozen"),
            (false, false) => (200, ""),
        }
    }

    fn check(&self) {
        let post = json!({"thread_id": self.world.id("thread"), "body": "a"});
        for held in &self.held {
            for (operation, input, changes) in
                [("whoami", json!({}), false), ("post_message", post.clone(), true)]
            {
                let answer = self.world.call(&held.secret, operation, input);
                let status = if answer.is_success() { 200 } else { answer.status };
                let code = if answer.is_success() { "" } else { answer.code() };
                assert_eq!((status, code), self.outcome(held, changes), "{operation}: {:#}", answer.body);
            }
        }
    }
}

#[test]
fn delegated_tokens_work_exactly_as_long_as_everything_behind_them_does() {
    on_both_engines(|world| {
        let mut story = RandomStory::begin(world, 11);
        let mut seen = [0; 3];
        for _ in 0..120 {
            story.step();
            story.check();
            // Tokens that ended long ago need no more checks.
            let outcomes = story.held.iter().map(|held| story.outcome(held, true).0);
            outcomes
                .for_each(|status| seen[[200, 403, 401].iter().position(|it| *it == status).unwrap()] += 1);
            let first = story.held.len().saturating_sub(8);
            story.held.drain(..first);
        }
        assert!(seen.iter().all(|count| *count > 20), "the story shows too little: {seen:?}");
    });
}
