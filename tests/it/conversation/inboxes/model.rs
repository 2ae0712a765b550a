//! The model: the items in every inbox by the rules, independently of the statements that create them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Number of members.
pub const MEMBERS: usize = 5;

/// The reasons for a direct notification.
pub const SPOKEN: [Reason; 3] = [Reason::Mention, Reason::Dm, Reason::Group];
pub const ALL: [Reason; 4] = [Reason::Mention, Reason::Dm, Reason::Group, Reason::Added];

/// Pseudorandom numbers from a seed.
pub struct Numbers(u64);

impl Numbers {
    pub fn of_seed(seed: u64) -> Self {
        Self(0x2545_f491_4f6c_dd1d ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

/// The reason of an item; the stronger of two reasons comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Mention,
    Dm,
    Group,
    Added,
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mention => "mention",
            Self::Dm => "dm",
            Self::Group => "group_mention",
            Self::Added => "added",
        }
    }
}

/// The mentions in a text.
#[derive(Clone, Default, PartialEq)]
pub struct TextMentions {
    pub members: BTreeSet<usize>,
    pub channel: bool,
    pub here: bool,
}

impl TextMentions {
    pub fn random(numbers: &mut Numbers) -> Self {
        let members = (0..MEMBERS).filter(|_| numbers.one_in(3)).collect();
        Self { members, channel: numbers.one_in(4), here: numbers.one_in(4) }
    }

    /// Returns a body and blocks that have these mentions in one of them, and other mentions where they do
    /// not count.
    pub fn input(&self, step: usize, numbers: &mut Numbers) -> Value {
        let mut said = String::new();
        self.members.iter().for_each(|member| said.push_str(&format!(" @M{member},")));
        let groups = [(self.channel, "@channel"), (self.here, "＠here")];
        groups.iter().filter(|(named, _)| *named).for_each(|(_, name)| said.push_str(&format!(" {name}!")));
        let unsaid = "`@m0` x@m1\n\n> @m2 @channel\n\n";
        let (body, content) = match numbers.below(3) {
            0 => (unsaid.to_owned(), json!([{"type": "text", "text": said + "."}])),
            1 => (format!("{said} {unsaid}"), json!([{"type": "code", "text": "@m3"}])),
            _ => (format!("{unsaid}{said}"), Value::Null),
        };
        json!({"body": format!("text {step}: {body}"), "content": content})
    }

    pub fn groups(&self) -> [bool; 2] {
        [self.channel, self.here]
    }
}

/// An item of an inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub lsn: i64,
    pub reasons: BTreeSet<Reason>,
    /// The number of the message, if it is about one.
    pub message: Option<usize>,
    pub place: usize,
    pub actor: String,
    pub read: bool,
}

pub struct Place {
    pub channel: String,
    pub thread: String,
    pub private: bool,
    pub dm: bool,
    pub inside: BTreeSet<usize>,
}

impl Place {
    pub fn is_seen_by(&self, member: usize) -> bool {
        !self.private || self.inside.contains(&member)
    }
}

pub struct Message {
    pub id: String,
    pub place: usize,
    pub author: usize,
    pub words: TextMentions,
    pub body: String,
    pub withdrawn: bool,
}

/// A change of a message that notifies members.
pub struct NotifyingChange {
    pub message: usize,
    pub place: usize,
    pub author: usize,
    pub lsn: i64,
}

/// The model: every member's items by the rules.
pub struct Model {
    pub ids: Vec<String>,
    pub places: Vec<Place>,
    pub messages: Vec<Message>,
    pub items: Vec<Vec<Item>>,
    /// The muted places of each member, by their threads or channels.
    pub muted: Vec<BTreeSet<usize>>,
    /// The places among them that are muted by their threads.
    pub muted_threads: Vec<BTreeSet<usize>>,
    pub online: BTreeSet<usize>,
    pub told: usize,
}

impl Model {
    pub fn tell(&mut self, telling: &NotifyingChange, reason: Reason, whom: impl IntoIterator<Item = usize>) {
        for member in whom {
            if member == telling.author || !self.places[telling.place].is_seen_by(member) {
                continue;
            }
            let of_message = |item: &&mut Item| item.message == Some(telling.message);
            if let Some(item) = self.items[member].iter_mut().find(of_message) {
                if item.reasons.first().is_none_or(|strongest| reason < *strongest) {
                    (item.lsn, item.read) = (telling.lsn, false);
                    item.actor = self.ids[telling.author].clone();
                }
                item.reasons.insert(reason);
            } else if reason != Reason::Group || !self.muted[member].contains(&telling.place) {
                self.told += 1;
                self.items[member].push(Item {
                    lsn: telling.lsn,
                    reasons: BTreeSet::from([reason]),
                    message: Some(telling.message),
                    place: telling.place,
                    actor: self.ids[telling.author].clone(),
                    read: false,
                });
            }
        }
    }

    pub fn tell_groups(&mut self, telling: &NotifyingChange, [channel, here]: [bool; 2]) {
        let inside = self.places[telling.place].inside.clone();
        if channel {
            self.tell(telling, Reason::Group, inside.clone());
        }
        if here {
            let online: Vec<usize> = inside.intersection(&self.online).copied().collect();
            self.tell(telling, Reason::Group, online);
        }
    }

    pub fn take_back(&mut self, message: usize, reason: Reason, from: impl Fn(usize) -> bool) {
        for (_, items) in self.items.iter_mut().enumerate().filter(|(member, _)| from(*member)) {
            let of_message = |item: &&mut Item| item.message == Some(message);
            for item in items.iter_mut().filter(of_message) {
                item.reasons.remove(&reason);
            }
            items.retain(|item| !item.reasons.is_empty());
        }
    }

    pub fn post(&mut self, message: Message, lsn: i64) {
        let number = self.messages.len();
        let telling = NotifyingChange { message: number, place: message.place, author: message.author, lsn };
        let named = message.words.members.clone();
        let groups = message.words.groups();
        self.messages.push(message);
        self.tell(&telling, Reason::Mention, named);
        self.tell_groups(&telling, groups);
        if self.places[telling.place].dm {
            let inside = self.places[telling.place].inside.clone();
            self.tell(&telling, Reason::Dm, inside);
        }
    }

    pub fn edit(&mut self, number: usize, words: TextMentions, body: String, lsn: i64) {
        let message = &mut self.messages[number];
        let before = std::mem::replace(&mut message.words, words.clone());
        message.body = body;
        let telling = NotifyingChange { message: number, place: message.place, author: message.author, lsn };
        let mut had = before.groups();
        let has = words.groups();
        self.take_back(number, Reason::Mention, |member| {
            before.members.contains(&member) && !words.members.contains(&member)
        });
        if (had[0] && !has[0]) || (had[1] && !has[1]) {
            self.take_back(number, Reason::Group, |_| true);
            had = [false, false];
        }
        self.tell(&telling, Reason::Mention, words.members);
        self.tell_groups(&telling, [has[0] && !had[0], has[1] && !had[1]]);
    }

    pub fn withdraw(&mut self, number: usize) {
        self.messages[number].withdrawn = true;
        self.items.iter_mut().for_each(|items| items.retain(|item| item.message != Some(number)));
    }

    pub fn add(&mut self, place: usize, member: usize, actor: String, lsn: i64) {
        self.places[place].inside.insert(member);
        // The item is about the channel, which is not muted if only its thread is.
        let is_muted = self.muted[member].contains(&place) && !self.muted_threads[member].contains(&place);
        if !is_muted {
            let reasons = BTreeSet::from([Reason::Added]);
            self.items[member].push(Item { lsn, reasons, message: None, place, actor, read: false });
        }
    }

    /// Returns the inbox of a member as it should be shown, filtered by these reasons.
    pub fn shown(&self, member: usize, reasons: &[Reason]) -> BTreeMap<i64, Value> {
        let seen = |item: &&Item| {
            self.places[item.place].is_seen_by(member) && item.reasons.iter().any(|it| reasons.contains(it))
        };
        let row = |item: &Item| {
            let message = item.message.map(|number| &self.messages[number]);
            json!({
                "lsn": item.lsn, "reason": item.reasons.first().unwrap().name(), "read": item.read,
                "channel_id": self.places[item.place].channel, "actor_id": item.actor,
                "message_id": message.map(|message| &message.id),
                "preview": message.map(|message| &message.body),
            })
        };
        self.items[member].iter().filter(seen).map(|item| (item.lsn, row(item))).collect()
    }
}
