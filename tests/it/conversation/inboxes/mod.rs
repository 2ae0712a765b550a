//! Random posts, edits, withdrawals, joins, leaves, marks and mutes in a public channel, a private one and a
//! direct message, against a model of all inboxes.
//!
//! Each round of `SVC_TEST_ROUNDS` takes three walks on each engine.

mod model;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::ordeal::rounds;
use svc_tests::{Setup, World, text};

use model::{ALL, Item, MEMBERS, Message, Model, Numbers, Place, Reason, SPOKEN, TextMentions};

const STEPS: usize = 200;

/// Longer than a member stays online after a heartbeat.
const AWHILE: Duration = Duration::from_secs(31);

/// A world and its model.
struct ModelWalk {
    world: World,
    tokens: Vec<String>,
    model: Model,
    numbers: Numbers,
}

impl ModelWalk {
    fn begin(engine: svc_core::Engine, seed: u64) -> Self {
        let world = World::with(engine, Setup { seed: 95 + seed, ..Setup::default() });
        let (ids, tokens): (Vec<String>, Vec<String>) =
            (0..MEMBERS).map(|number| world.new_agent(&format!("m{number}"))).unzip();
        let place = |channel: String, thread: String, private, dm| Place {
            channel,
            thread,
            private,
            dm,
            inside: BTreeSet::new(),
        };
        let public = world.new_channel("modelled");
        let private = world.new_private_channel("hidden");
        let thread = world.new_thread(&public, "Modelled");
        let hidden = world.new_thread(&private, "Hidden");
        let members = json!({"workspace_id": world.id("workspace"), "member_ids": [ids[1], ids[2]]});
        let dm = world.call(&tokens[0], "open_dm", members).output();
        let mut group = place(text(&dm["id"]), text(&dm["thread_id"]), true, true);
        group.inside = BTreeSet::from([0, 1, 2]);
        let places = vec![place(public, thread, false, false), place(private, hidden, true, false), group];
        let items = vec![Vec::new(); MEMBERS];
        let muted = vec![BTreeSet::new(); MEMBERS];
        let messages = Vec::new();
        let online = BTreeSet::new();
        let muted_threads = muted.clone();
        let mut model = Model { ids, places, messages, items, muted, muted_threads, online, told: 0 };
        // The item for the opening of the direct message.
        for (member, token) in tokens.iter().enumerate() {
            let page = world.call(token, "list_inbox", json!({})).output();
            for item in page["items"].as_array().unwrap() {
                let reasons = BTreeSet::from([Reason::Added]);
                let lsn = item["lsn"].as_i64().unwrap();
                let actor = model.ids[0].clone();
                model.items[member].push(Item { lsn, reasons, message: None, place: 2, actor, read: false });
            }
        }
        Self { world, tokens, model, numbers: Numbers::of_seed(seed) }
    }

    fn call(&self, member: usize, operation: &str, input: Value) -> Value {
        self.world.call(&self.tokens[member], operation, input).output()
    }

    fn step(&mut self, step: usize) {
        let member = self.numbers.below(MEMBERS);
        match self.numbers.below(14) {
            0 | 1 => self.move_member(member),
            2..=6 => self.post(member, step),
            7 | 8 => self.edit(step),
            9 => self.withdraw(),
            10 => self.mark(member),
            11 => self.mute(member),
            _ => self.pass_or_beat(member),
        }
    }

    /// Lets a member join a place or leave it.
    fn move_member(&mut self, member: usize) {
        let place = self.numbers.below(self.model.places.len());
        let Place { channel, dm, inside, .. } = &self.model.places[place];
        let channel = channel.clone();
        let is_inside = inside.contains(&member);
        let others = inside.len();
        let input = json!({"channel_id": channel, "member_id": self.model.ids[member]});
        let admin = self.world.id("admin").to_string();
        match (dm, is_inside) {
            // The last two stay, so that a member remains who can add others.
            (true, true) if others > 2 => {
                self.call(member, "leave_dm", json!({"channel_id": channel}));
                self.model.places[place].inside.remove(&member);
            }
            (true, true) => {}
            (true, false) => {
                let by = *inside.first().unwrap();
                self.call(by, "add_dm_participant", input);
                let actor = self.model.ids[by].clone();
                let lsn = self.world.lsn();
                self.model.add(place, member, actor, lsn);
            }
            (false, true) => {
                self.world.admin("remove_channel_member", input);
                self.model.places[place].inside.remove(&member);
            }
            (false, false) => {
                self.world.admin("add_channel_member", input);
                let lsn = self.world.lsn();
                self.model.add(place, member, admin, lsn);
            }
        }
    }

    fn post(&mut self, author: usize, step: usize) {
        let place = self.numbers.below(self.model.places.len());
        if !self.model.places[place].is_seen_by(author) {
            return;
        }
        let words = TextMentions::random(&mut self.numbers);
        let mut input = words.input(step, &mut self.numbers);
        input["thread_id"] = json!(self.model.places[place].thread);
        let body = text(&input["body"]);
        let posted = self.call(author, "post_message", input);
        let message = Message { id: text(&posted["id"]), place, author, words, body, withdrawn: false };
        self.model.post(message, posted["lsn"].as_i64().unwrap());
    }

    /// Returns a message that its author can still change.
    fn any_message(&mut self) -> Option<usize> {
        let own: Vec<usize> = (0..self.model.messages.len())
            .filter(|number| {
                let Message { withdrawn, place, author, .. } = &self.model.messages[*number];
                !withdrawn && self.model.places[*place].is_seen_by(*author)
            })
            .collect();
        (!own.is_empty()).then(|| own[self.numbers.below(own.len())])
    }

    fn edit(&mut self, step: usize) {
        let Some(number) = self.any_message() else { return };
        let words = match self.numbers.one_in(4) {
            true => self.model.messages[number].words.clone(),
            false => TextMentions::random(&mut self.numbers),
        };
        let mut input = words.input(step, &mut self.numbers);
        let body = text(&input["body"]);
        input["message_id"] = json!(self.model.messages[number].id);
        self.call(self.model.messages[number].author, "edit_message", input);
        let lsn = self.world.lsn();
        self.model.edit(number, words, body, lsn);
    }

    fn withdraw(&mut self) {
        let Some(number) = self.any_message() else { return };
        let Message { author, id, .. } = &self.model.messages[number];
        self.call(*author, "delete_message", json!({"message_id": id}));
        self.model.withdraw(number);
    }

    fn mark(&mut self, member: usize) {
        let place = self.numbers.below(self.model.places.len());
        let items = &self.model.items[member];
        let lsns: Vec<i64> = items.iter().map(|item| item.lsn).filter(|lsn| lsn % 3 == 0).collect();
        let up_to = self.world.lsn() - i64::try_from(self.numbers.below(20)).unwrap();
        let (input, is_named): (Value, Box<dyn Fn(&Item) -> bool>) = match self.numbers.below(3) {
            0 => (json!({"up_to_lsn": up_to}), Box::new(move |item| item.lsn <= up_to)),
            1 => (json!({"lsns": lsns.clone()}), Box::new(move |item| lsns.contains(&item.lsn))),
            _ => {
                let target = self.model.places[place].channel.clone();
                (json!({"target_id": target}), Box::new(move |item| item.place == place))
            }
        };
        let only_spoken = self.numbers.one_in(2);
        let operation = if only_spoken { "mark_mentions_read" } else { "mark_inbox_read" };
        self.call(member, operation, input);
        let is_marked = |item: &&mut Item| {
            is_named(item) && (!only_spoken || item.reasons.iter().any(|reason| SPOKEN.contains(reason)))
        };
        self.model.items[member].iter_mut().filter(is_marked).for_each(|item| item.read = true);
    }

    /// Mutes some of the places that the member sees, by their channels or threads.
    fn mute(&mut self, member: usize) {
        let places = 0..self.model.places.len();
        let muted: BTreeSet<usize> = places
            .filter(|place| self.model.places[*place].is_seen_by(member) && self.numbers.one_in(3))
            .collect();
        let targets: Vec<&String> = muted
            .iter()
            .map(|place| &self.model.places[*place])
            .map(|place| if self.numbers.one_in(2) { &place.thread } else { &place.channel })
            .collect();
        let by_thread = muted
            .iter()
            .zip(&targets)
            .filter(|(place, target)| **target == &self.model.places[**place].thread);
        let by_thread: BTreeSet<usize> = by_thread.map(|(place, _)| *place).collect();
        self.call(member, "set_notification_preferences", json!({"muted": targets}));
        self.model.muted[member] = muted;
        self.model.muted_threads[member] = by_thread;
    }

    fn pass_or_beat(&mut self, member: usize) {
        if self.numbers.one_in(4) {
            self.world.clock.advance(AWHILE);
            self.model.online.clear();
        } else {
            self.call(member, "send_heartbeat", json!({"status": "active"}));
            self.model.online.insert(member);
        }
    }

    /// Returns the difference between an inbox and the model.
    fn difference(&self, whole: bool) -> Option<String> {
        let fields = ["lsn", "reason", "read", "channel_id", "actor_id", "message_id", "preview"];
        for (member, token) in self.tokens.iter().enumerate() {
            let lists = [("list_inbox", &ALL[..]), ("list_mentions", &SPOKEN)];
            for (operation, reasons) in &lists[..if whole { 2 } else { 1 }] {
                let page = self.world.call(token, operation, json!({"limit": 500})).output();
                let items = page["items"].as_array().unwrap();
                let shown = items.iter().map(|item| {
                    let row: serde_json::Map<String, Value> =
                        fields.iter().map(|name| ((*name).to_owned(), item[*name].clone())).collect();
                    Value::Object(row)
                });
                let shown: Vec<Value> = shown.collect();
                let wanted: Vec<Value> = self.model.shown(member, reasons).into_values().collect();
                let unread = wanted.iter().filter(|item| item["read"] == false).count();
                if shown != wanted || page["unread"] != unread {
                    return Some(format!(
                        "{operation} of m{member}, {} unread:\n{shown:#?}\nnot {unread} unread:\n{wanted:#?}",
                        page["unread"]
                    ));
                }
            }
        }
        None
    }
}

/// Takes the walks. Then a change that the model does not know must be detected.
fn walk(engine: svc_core::Engine) {
    for seed in 0..3 * u64::try_from(rounds()).unwrap() {
        let mut walk = ModelWalk::begin(engine, seed);
        for step in 0..STEPS {
            walk.step(step);
            if let Some(found) = walk.difference(step % 10 == 0) {
                panic!("{engine:?}, walk {seed}, step {step}: {found}");
            }
        }
        assert!(walk.model.told > 40, "only {} items", walk.model.told);
        assert_eq!(walk.difference(true), None);
        walk.world.database.execute("update inbox set lsn = lsn + 100000 where reasons < 16");
        assert!(walk.difference(false).is_some(), "the control");
    }
}

#[test]
fn every_inbox_is_what_a_model_says_on_sqlite() {
    walk(svc_core::Engine::Sqlite);
}

#[test]
fn every_inbox_is_what_a_model_says_on_postgres() {
    if svc_tests::database::engines().contains(&svc_core::Engine::Postgres) {
        walk(svc_core::Engine::Postgres);
    }
}
