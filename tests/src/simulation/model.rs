//! Predicts the result of each call, independently of the implementation of the claim engine.
//!
//! It examines every thread each time, without queues, indexes or transactions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The conflicts of a footprint: the reason, the item, and the thread of the claim.
pub type Conflicts = BTreeSet<(String, String, Option<String>)>;

/// The content of an event: its kind, its subject, and the compared part of its payload.
pub type RecordedEvent = (&'static str, String, String);

/// SplitMix64, so that a seed gives the same run everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }

    pub fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Returns whether an event of probability 1 in `times` happens.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A kind of item, and its value.
type Item = (&'static str, &'static str);

/// The items of footprints: few, so that many overlap.
const ITEMS: [Item; 16] = [
    ("path", "."),
    ("path", "src"),
    ("path", "src/a"),
    ("path", "src/a/x.rs"),
    ("path", "src/b"),
    ("path", "srcs"),
    ("glob", "src/*"),
    ("glob", "src/a*"),
    ("glob", "src/b/[xy]"),
    ("crate", "core"),
    ("crate", "src"),
    ("lane", "docs"),
    ("branch", "main"),
    ("branch", "next"),
    ("slot", "gpu"),
    ("slot", "GPU"),
];

/// A footprint in the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footprint {
    pub repo: String,
    shared: bool,
    items: Vec<Item>,
    /// The prefix of each item that is a path or a glob.
    prefixes: Vec<Option<String>>,
}

impl Footprint {
    pub fn random(random: &mut Random) -> Self {
        let count = random.of(&[0, 1, 1, 1, 2, 2, 3]);
        let mut items: Vec<Item> = Vec::new();
        for _ in 0..count {
            let item = random.of(&ITEMS);
            let repeats =
                |(kind, value): &Item| *kind == item.0 && value.to_lowercase() == item.1.to_lowercase();
            if !items.iter().any(repeats) {
                items.push(item);
            }
        }
        let repo = random.of(&["acme/app", "ACME/App", "acme/lib"]);
        let shared = random.once_in(3);
        if items.is_empty() {
            return Self::default();
        }
        // A slot belongs to the workspace, whatever the repository.
        let is_slots = items.iter().all(|(kind, _)| *kind == "slot");
        let repo = if is_slots && random.once_in(2) { "" } else { repo };
        let prefixes = items.iter().map(|item| Self::prefix(*item)).collect();
        Self { repo: repo.to_owned(), shared, items, prefixes }
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn json(&self) -> Value {
        let items: Vec<Value> =
            self.items.iter().map(|(kind, value)| json!({"kind": kind, "value": value})).collect();
        let mode = if self.shared { "shared" } else { "exclusive" };
        let mut json = json!({"mode": mode, "items": items});
        if !self.repo.is_empty() {
            json["repo"] = json!(self.repo);
        }
        json
    }

    fn prefix((kind, value): Item) -> Option<String> {
        match kind {
            "path" if value == "." => Some(String::new()),
            "path" => Some(format!("{value}/")),
            "glob" => Some(value[..value.find(['*', '[']).unwrap()].to_owned()),
            _ => None,
        }
    }

    /// Returns whether the item `at` of this footprint conflicts with another footprint.
    fn conflicts(&self, at: usize, other: &Self) -> bool {
        let item = self.items[at];
        let prefix = &self.prefixes[at];
        if item.0 == "slot" || !self.repo.eq_ignore_ascii_case(&other.repo) {
            return false;
        }
        other.items.iter().zip(&other.prefixes).any(|(theirs, their_prefix)| {
            let overlap = match (prefix, their_prefix) {
                (Some(a), Some(b)) => a.starts_with(b.as_str()) || b.starts_with(a.as_str()),
                _ => item == *theirs,
            };
            overlap && (!self.shared || !other.shared || item.0 == "branch")
        })
    }

    pub fn uses_the_slot(&self) -> bool {
        self.items.iter().any(|(kind, _)| *kind == "slot")
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    Open,
    InReview,
    Closed,
}

/// A channel, whose creator is the first member.
#[derive(Clone, Debug, Default)]
pub struct Channel {
    pub private: bool,
    pub archived: bool,
    pub members: BTreeSet<usize>,
}

/// The right of a member to work on a thread. Times are in seconds.
#[derive(Clone, Debug)]
pub struct Claim {
    pub member: usize,
    pub lease: String,
    pub since: i64,
    pub until: i64,
}

/// The names of the limits.
pub const LIMITS: [&str; 5] = ["max_tokens", "max_usd_micros", "max_turns", "max_wall_secs", "max_attempts"];

/// Amounts for the limits, in that order; the time is in seconds.
pub type Amounts = [i64; 5];

/// The limits of a thread, and its usage without time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    pub limits: [Option<i64>; 5],
    /// The reported usage: tokens, millionths of a dollar, turns.
    pub spent: [i64; 3],
    /// Claims that ended without a result since the thread was requeued.
    pub attempts: i64,
    /// The limits that were nearly used up at the last check.
    low: Vec<&'static str>,
}

impl Budget {
    /// Returns the limits of which `used` is at least this percentage.
    fn reached(&self, used: Amounts, percent: i64) -> Vec<&'static str> {
        let limits = LIMITS.iter().zip(self.limits).zip(used);
        limits
            .filter(|((_, limit), used)| limit.is_some_and(|limit| used * 100 >= limit * percent))
            .map(|((name, _), _)| *name)
            .collect()
    }
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub id: String,
    pub parent: Option<usize>,
    /// Its depth of nesting; 1 without a parent.
    pub depth: i64,
    /// Number of children that it has ever had.
    pub children: i64,
    pub channel: usize,
    pub priority: i64,
    pub footprint: Footprint,
    pub skilled: bool,
    /// Whether it has a current result.
    pub done: bool,
    pub state: State,
    /// The threads that it waits for.
    pub waits_for: BTreeSet<usize>,
    pub claim: Option<Claim>,
    /// The seconds of work under claims that have ended.
    pub worked: i64,
    pub budget: Budget,
    /// Whether it has a dead letter that is not settled.
    pub dead: bool,
}

impl Thread {
    /// Returns the usage, with the time of the current claim.
    pub fn used(&self, now: i64) -> Amounts {
        let running = self.claim.as_ref().map_or(0, |claim| (now.min(claim.until) - claim.since).max(0));
        let [tokens, usd_micros, turns] = self.budget.spent;
        [tokens, usd_micros, turns, self.worked + running, self.budget.attempts]
    }

    /// Returns the limits that are used up.
    pub fn exceeded(&self, now: i64) -> Vec<&'static str> {
        self.budget.reached(self.used(now), 100)
    }

    /// Returns the end of a lease of this many seconds.
    pub fn lease_end(&self, now: i64, secs: i64) -> i64 {
        let left = self.budget.limits[3].map_or(secs, |limit| (limit - self.used(now)[3]).max(0));
        now + secs.min(left)
    }

    /// Returns the thread after the end of a lapsed claim.
    pub fn without_lapsed_claim(&self, now: i64) -> Self {
        let mut thread = self.clone();
        if self.claim.as_ref().is_some_and(|claim| claim.until <= now) {
            thread.end_claim(now);
            thread.budget.attempts += 1;
            thread.dead |= !thread.exceeded(now).is_empty();
        }
        thread
    }

    /// Ends the claim. Only the time before the end of its lease counts as work.
    pub fn end_claim(&mut self, now: i64) -> Claim {
        let claim = self.claim.take().expect("a claim to end");
        self.worked += (now.min(claim.until) - claim.since).max(0);
        claim
    }
}

/// The expected outcome of the calls so far.
#[derive(Default)]
pub struct Model {
    pub now: i64,
    pub threads: BTreeMap<usize, Thread>,
    pub capacity: Option<usize>,
    pub paused: BTreeSet<String>,
    pub channels: [Channel; 3],
    /// The members that have the skill.
    pub skilled: [bool; MEMBERS],
    /// The limits on children of a thread, depth and tools.
    pub spawn: [Option<i64>; 3],
    /// The expected events since the log was compared.
    pub log: Vec<RecordedEvent>,
}

/// Number of members: the first has created all channels.
pub const MEMBERS: usize = 3;

impl Model {
    pub fn thread(&mut self, number: usize) -> &mut Thread {
        self.threads.get_mut(&number).unwrap()
    }

    /// Returns the threads with a live claim.
    pub fn live(&self) -> impl Iterator<Item = (&usize, &Thread)> {
        self.threads
            .iter()
            .filter(|(_, thread)| thread.claim.as_ref().is_some_and(|claim| self.now < claim.until))
    }

    pub fn is_live(&self, number: usize) -> bool {
        self.threads[&number].claim.as_ref().is_some_and(|claim| self.now < claim.until)
    }

    fn is_paused(&self, footprint: &Footprint) -> bool {
        self.paused.iter().any(|repo| repo.eq_ignore_ascii_case(&footprint.repo))
    }

    /// Returns all conflicts of a footprint: the reason, the item, and the thread of the claim.
    pub fn conflicts(&self, footprint: &Footprint, own: Option<usize>) -> Conflicts {
        let mut found = BTreeSet::new();
        if !footprint.is_empty() && self.is_paused(footprint) {
            found.insert(("repo-paused".to_owned(), String::new(), None));
        }
        let others: Vec<&Thread> =
            self.live().filter(|(number, _)| Some(**number) != own).map(|(_, other)| other).collect();
        for (at, (kind, value)) in footprint.items.iter().enumerate() {
            let named = format!("{kind} {value}");
            if *kind == "slot"
                && let Some(capacity) = self.capacity
            {
                let holders: Vec<_> = others.iter().filter(|other| other.footprint.uses_the_slot()).collect();
                if holders.len() >= capacity {
                    let full = |thread: Option<String>| ("slot-full".to_owned(), named.clone(), thread);
                    found.extend(holders.iter().map(|other| full(Some(other.id.clone()))));
                    found.extend(holders.is_empty().then(|| full(None)));
                }
            }
            let overlapping = others.iter().filter(|other| footprint.conflicts(at, &other.footprint));
            found.extend(
                overlapping.map(|other| ("overlap".to_owned(), named.clone(), Some(other.id.clone()))),
            );
        }
        found
    }

    /// Returns whether a footprint has no conflicts with these threads, which have live claims.
    fn is_free(&self, footprint: &Footprint, live: &[&Thread]) -> bool {
        let is_full = |capacity| {
            live.iter().filter(|other| other.footprint.uses_the_slot()).count() >= capacity
                && footprint.uses_the_slot()
        };
        let overlaps =
            |other: &&Thread| (0..footprint.items.len()).any(|at| footprint.conflicts(at, &other.footprint));
        footprint.is_empty()
            || (!self.is_paused(footprint)
                && !self.capacity.is_some_and(is_full)
                && !live.iter().any(overlaps))
    }

    /// Returns whether a member sees a thread.
    pub fn sees(&self, member: usize, thread: &Thread) -> bool {
        let channel = &self.channels[thread.channel];
        !channel.private || member == 0 || channel.members.contains(&member)
    }

    /// Returns whether a thread is open in an active channel and not claimed.
    pub fn is_to_do(&self, number: usize) -> bool {
        let thread = &self.threads[&number];
        let is_open = thread.state == State::Open && !thread.done;
        is_open && !self.is_live(number) && !self.channels[thread.channel].archived
    }

    pub fn is_blocked(&self, thread: &Thread) -> bool {
        thread.waits_for.iter().any(|other| self.threads[other].state != State::Closed)
    }

    pub fn lacks_skills(&self, thread: &Thread, member: usize) -> bool {
        thread.skilled && !self.skilled[member]
    }

    /// Returns the reason why a member cannot claim a thread that it sees, whatever its footprint.
    pub fn refusal(&self, number: usize, member: usize) -> Option<String> {
        let thread = self.threads[&number].without_lapsed_claim(self.now);
        let exceeded = thread.exceeded(self.now);
        let over = exhausted(&exceeded);
        let reasons = [
            ("claimed", self.is_live(number)),
            ("state", thread.state != State::Open),
            ("has-result", thread.done),
            (&*over, !exceeded.is_empty()),
            ("dead-letter", thread.dead),
            ("blocked", self.is_blocked(&thread)),
            ("missing-skills", self.lacks_skills(&thread, member)),
            ("channel-archived", self.channels[thread.channel].archived),
        ];
        reasons.into_iter().find(|(_, holds)| *holds).map(|(reason, _)| reason.to_owned())
    }

    /// Returns the thread that a member must be given.
    pub fn next(&self, member: usize, channel: Option<usize>, repo: Option<&str>) -> Option<usize> {
        let live: Vec<&Thread> = self.live().map(|(_, thread)| thread).collect();
        let is_named = |thread: &Thread| {
            repo.is_none_or(|repo| {
                !thread.footprint.is_empty() && thread.footprint.repo.eq_ignore_ascii_case(repo)
            })
        };
        let wanted = self.threads.iter().filter(|(number, thread)| {
            channel.is_none_or(|channel| thread.channel == channel)
                && is_named(thread)
                && self.sees(member, thread)
                && self.refusal(**number, member).is_none()
                && self.is_free(&thread.footprint, &live)
        });
        wanted.min_by_key(|(number, thread)| (-thread.priority, **number)).map(|(number, _)| *number)
    }

    /// Records a change of a thread's holder.
    pub fn record_holder(&mut self, number: usize, reason: &str, member: usize) {
        let id = self.threads[&number].id.clone();
        self.log.push(("ThreadAssignmentChanged", id, format!("{reason} {member}")));
    }

    /// Ends every claim that has lapsed.
    pub fn expire(&mut self) {
        let now = self.now;
        let lapsed = |thread: &Thread| thread.claim.as_ref().is_some_and(|claim| claim.until <= now);
        let numbers: Vec<usize> =
            self.threads.iter().filter(|(_, thread)| lapsed(thread)).map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.end(number, "expired"));
    }

    /// Ends every claim of a member, and returns how many of them were live.
    pub fn end_all(&mut self, member: usize, reason: &str) -> usize {
        let held = self.threads.iter().filter_map(|(number, thread)| {
            let claim = thread.claim.as_ref().filter(|claim| claim.member == member)?;
            Some((*number, claim.until > self.now))
        });
        let held: Vec<(usize, bool)> = held.collect();
        for (number, is_live) in &held {
            self.end(*number, if *is_live { reason } else { "expired" });
        }
        held.iter().filter(|(_, is_live)| *is_live).count()
    }

    /// Ends the claim on a thread, if there is one, for a reason other than a new holder.
    pub fn end(&mut self, number: usize, reason: &str) {
        let now = self.now;
        let thread = self.thread(number);
        if thread.claim.is_none() {
            return;
        }
        let member = thread.end_claim(now).member;
        let id = thread.id.clone();
        let is_attempt = ["released", "expired", "frozen", "deactivated"].contains(&reason);
        thread.budget.attempts += i64::from(is_attempt);
        let exceeded = if is_attempt { thread.exceeded(now) } else { Vec::new() };
        thread.dead |= !exceeded.is_empty();
        if !exceeded.is_empty() {
            self.log.push(("ClaimFailed", id, format!("{member} {}", exceeded.join(" "))));
            self.record_holder(number, "failed", member);
        } else {
            let expired = ("ClaimExpired", id, member.to_string());
            self.log.extend((reason == "expired").then_some(expired));
            self.record_holder(number, reason, member);
        }
        self.look_at_budget(number);
    }

    /// Records a notice about each limit that is newly almost used up.
    pub fn look_at_budget(&mut self, number: usize) {
        let now = self.now;
        let thread = self.thread(number);
        let low = thread.budget.reached(thread.used(now), 80);
        let before = std::mem::replace(&mut thread.budget.low, low.clone());
        let id = thread.id.clone();
        let news = low.into_iter().filter(|limit| !before.contains(limit));
        self.log.extend(news.map(|limit| ("ThreadNotice", id.clone(), limit.to_owned())));
    }
}

/// Returns the refusal for a thread whose budget is used up.
pub fn exhausted(exceeded: &[&str]) -> String {
    format!("exhausted: {}", exceeded.join(" "))
}
