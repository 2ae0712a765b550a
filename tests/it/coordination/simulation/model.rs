//! What has to come of each call, without knowing how the claim engine does it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// What is in the way of a footprint: the reason, the item, and the thread of the claim.
pub type Conflicts = BTreeSet<(String, String, Option<String>)>;

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
}

/// A footprint as the model keeps it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footprint {
    pub repo: String,
    pub shared: bool,
    pub items: Vec<(&'static str, &'static str)>,
}

impl Footprint {
    pub fn random(random: &mut Random) -> Self {
        const ITEMS: [(&str, &str); 16] = [
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
        let count = [0, 1, 1, 1, 2, 2, 3][random.below(7)];
        let mut items: Vec<(&str, &str)> = Vec::new();
        for _ in 0..count {
            let item = random.of(&ITEMS);
            let repeats = |(kind, value): &(&str, &str)| {
                *kind == item.0 && value.to_lowercase() == item.1.to_lowercase()
            };
            if !items.iter().any(repeats) {
                items.push(item);
            }
        }
        Self {
            repo: random.of(&["acme/app", "ACME/App", "acme/lib"]).to_owned(),
            shared: random.below(3) == 0,
            items,
        }
    }

    pub fn json(&self) -> Value {
        let items: Vec<Value> =
            self.items.iter().map(|(kind, value)| json!({"kind": kind, "value": value})).collect();
        let mode = if self.shared { "shared" } else { "exclusive" };
        json!({"repo": self.repo, "mode": mode, "items": items})
    }

    /// What an item begins with, if it is a path or a glob.
    pub fn prefix((kind, value): (&str, &str)) -> Option<String> {
        match kind {
            "path" if value == "." => Some(String::new()),
            "path" => Some(format!("{value}/")),
            "glob" => Some(value[..value.find(['*', '[']).unwrap()].to_owned()),
            _ => None,
        }
    }

    /// Whether an item of this footprint conflicts with another footprint.
    pub fn conflicts(&self, item: (&str, &str), other: &Self) -> bool {
        if self.repo.to_lowercase() != other.repo.to_lowercase() || item.0 == "slot" {
            return false;
        }
        other.items.iter().any(|theirs| {
            let overlap = match (Self::prefix(item), Self::prefix(*theirs)) {
                (Some(a), Some(b)) => a.starts_with(&b) || b.starts_with(&a),
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

#[derive(Clone, Debug)]
pub struct Thread {
    pub id: String,
    pub channel: usize,
    pub priority: i64,
    pub footprint: Footprint,
    pub skilled: bool,
    /// Whether it has a result that stands.
    pub done: bool,
    pub state: State,
    /// The threads that it waits for.
    pub waits_for: BTreeSet<usize>,
    /// Who holds it, under which lease, until when.
    pub claim: Option<(usize, String, u64)>,
}

/// What had to come of the calls so far.
#[derive(Default)]
pub struct Model {
    pub now: u64,
    pub threads: BTreeMap<usize, Thread>,
    pub capacity: Option<usize>,
    pub paused: BTreeSet<String>,
    pub channels: [Channel; 3],
    /// Which members have the skill.
    pub skilled: [bool; MEMBERS],
}

/// The members: the first has created all channels.
pub const MEMBERS: usize = 3;

impl Model {
    pub fn live(&self) -> impl Iterator<Item = (&usize, &Thread)> {
        self.threads
            .iter()
            .filter(|(_, thread)| thread.claim.as_ref().is_some_and(|(.., until)| self.now < *until))
    }

    pub fn is_live(&self, number: usize) -> bool {
        self.live().any(|(live, _)| *live == number)
    }

    /// Everything in the way of a footprint: the reason, the item, and the thread of the claim.
    pub fn conflicts(&self, footprint: &Footprint, own: Option<usize>) -> Conflicts {
        let mut found = BTreeSet::new();
        if footprint.items.is_empty() {
            return found;
        }
        if self.paused.contains(&footprint.repo.to_lowercase()) {
            found.insert(("repo-paused".to_owned(), String::new(), None));
        }
        let others = || self.live().filter(|(number, _)| Some(**number) != own);
        for (kind, value) in &footprint.items {
            let named = format!("{kind} {value}");
            if *kind == "slot"
                && let Some(capacity) = self.capacity
            {
                let holders: Vec<_> = others().filter(|(_, other)| other.footprint.uses_the_slot()).collect();
                if holders.len() >= capacity {
                    let full = |thread: Option<String>| ("slot-full".to_owned(), named.clone(), thread);
                    found.extend(holders.iter().map(|(_, other)| full(Some(other.id.clone()))));
                    found.extend(holders.is_empty().then(|| full(None)));
                }
            }
            let overlapping =
                others().filter(|(_, other)| footprint.conflicts((kind, value), &other.footprint));
            found.extend(
                overlapping.map(|(_, other)| ("overlap".to_owned(), named.clone(), Some(other.id.clone()))),
            );
        }
        found
    }

    /// Whether a member sees a thread.
    pub fn sees(&self, member: usize, thread: &Thread) -> bool {
        let channel = &self.channels[thread.channel];
        !channel.private || member == 0 || channel.members.contains(&member)
    }

    /// Whether a thread is open in a channel that is in use, and nobody has worked on it.
    pub fn is_to_do(&self, number: usize) -> bool {
        let thread = &self.threads[&number];
        let is_open = thread.state == State::Open && !thread.done;
        is_open && !self.is_live(number) && !self.channels[thread.channel].archived
    }

    pub fn is_claimable(&self, number: usize, member: usize) -> bool {
        let thread = &self.threads[&number];
        self.is_to_do(number)
            && thread.waits_for.iter().all(|other| self.threads[other].state == State::Closed)
            && (!thread.skilled || self.skilled[member])
            && self.conflicts(&thread.footprint, Some(number)).is_empty()
    }

    /// The thread that a member has to be given.
    pub fn next(&self, member: usize, channel: Option<usize>, repo: Option<&str>) -> Option<usize> {
        let named = |thread: &Thread| {
            repo.is_none_or(|repo| {
                !thread.footprint.items.is_empty() && thread.footprint.repo.to_lowercase() == repo
            })
        };
        let wanted = self.threads.iter().filter(|(number, thread)| {
            self.sees(member, thread)
                && channel.is_none_or(|channel| thread.channel == channel)
                && named(thread)
                && self.is_claimable(**number, member)
        });
        wanted.min_by_key(|(number, thread)| (-thread.priority, **number)).map(|(number, _)| *number)
    }
}
