//! Random posts, edits, withdrawals, joins and leaves, against a model of all inboxes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use svc_tests::{World, on_both_engines, text};

const STEPS: usize = 150;
const MEMBERS: usize = 4;

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

/// What a text mentions.
#[derive(Clone, Default)]
struct Words {
    members: BTreeSet<usize>,
    group: bool,
}

impl Words {
    fn random(numbers: &mut Numbers) -> Self {
        let members = (0..MEMBERS).filter(|_| numbers.below(3) == 0).collect();
        Self { members, group: numbers.below(4) == 0 }
    }

    fn body(&self, number: usize) -> String {
        let mut body = format!("text {number}:");
        self.members.iter().for_each(|member| body.push_str(&format!(" @m{member}")));
        if self.group {
            body.push_str(" @channel");
        }
        body
    }
}

/// Why a member was told of a message, and whether it has read that.
#[derive(Default)]
struct Told {
    mention: bool,
    group: bool,
    read: bool,
}

struct Message {
    id: String,
    author: usize,
    words: Words,
    withdrawn: bool,
    told: BTreeMap<usize, Told>,
}

impl Message {
    fn tell(&mut self, member: usize, by_name: bool) {
        if member == self.author {
            return;
        }
        let told = self.told.entry(member).or_default();
        let is_stronger = by_name && !told.mention;
        told.read &= !is_stronger;
        told.mention |= by_name;
        told.group |= !by_name;
    }
}

/// The mentions that a member should be shown: of which message, why, and whether they are read.
fn wanted(messages: &[Message], member: usize) -> BTreeSet<(String, &'static str, bool)> {
    let live = messages.iter().filter(|message| !message.withdrawn);
    live.filter_map(|message| {
        let told = message.told.get(&member)?;
        let reason = if told.mention { "mention" } else { "group_mention" };
        (told.mention || told.group).then(|| (message.id.clone(), reason, told.read))
    })
    .collect()
}

fn shown(world: &World, token: &str) -> BTreeSet<(String, &'static str, bool)> {
    let page = world.call(token, "list_mentions", json!({"limit": 500})).output();
    let items = page["items"].as_array().unwrap();
    let found: BTreeSet<_> = items
        .iter()
        .map(|item| {
            let reason = if item["reason"] == "mention" { "mention" } else { "group_mention" };
            (text(&item["message_id"]), reason, item["read"] == true)
        })
        .collect();
    assert_eq!(found.len(), items.len(), "one for each message");
    assert_eq!(page["unread"], found.iter().filter(|(_, _, read)| !read).count());
    found
}

#[test]
fn every_inbox_is_what_a_model_says() {
    on_both_engines(|world| {
        let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
        let channel = world.new_private_channel("modelled");
        let thread = world.new_thread(&channel, "Modelled");
        let members: Vec<(String, String)> =
            (0..MEMBERS).map(|number| world.new_agent(&format!("m{number}"))).collect();
        let mut inside: BTreeSet<usize> = BTreeSet::new();
        let mut messages: Vec<Message> = Vec::new();
        for step in 0..STEPS {
            let member = numbers.below(MEMBERS);
            let (id, token) = &members[member];
            match numbers.below(6) {
                0 => {
                    let input = json!({"channel_id": channel, "member_id": id});
                    if inside.remove(&member) {
                        world.admin("remove_channel_member", input);
                    } else {
                        world.admin("add_channel_member", input);
                        inside.insert(member);
                    }
                }
                1 | 2 if inside.contains(&member) => {
                    let words = Words::random(&mut numbers);
                    let input = json!({"thread_id": thread, "body": words.body(step)});
                    let id = text(&world.call(token, "post_message", input).output()["id"]);
                    let mut message =
                        Message { id, author: member, words, withdrawn: false, told: BTreeMap::new() };
                    let named: Vec<usize> = message.words.members.intersection(&inside).copied().collect();
                    named.into_iter().for_each(|other| message.tell(other, true));
                    if message.words.group {
                        inside.iter().for_each(|other| message.tell(*other, false));
                    }
                    messages.push(message);
                }
                3 | 4 => {
                    let own = |message: &&mut Message| inside.contains(&message.author) && !message.withdrawn;
                    let mut editable: Vec<&mut Message> = messages.iter_mut().filter(own).collect();
                    if editable.is_empty() {
                        continue;
                    }
                    let chosen = numbers.below(editable.len());
                    let message = editable.swap_remove(chosen);
                    let words = Words::random(&mut numbers);
                    let input = json!({"message_id": message.id, "body": words.body(step)});
                    world.call(&members[message.author].1, "edit_message", input).output();
                    let before = std::mem::replace(&mut message.words, words.clone());
                    for gone in before.members.difference(&words.members) {
                        message.told.entry(*gone).and_modify(|told| told.mention = false);
                    }
                    if before.group && !words.group {
                        message.told.values_mut().for_each(|told| told.group = false);
                    }
                    // Who is told of it no more is told anew.
                    message.told.retain(|_, told| told.mention || told.group);
                    // Whom both texts name may not have been inside before.
                    let named: Vec<usize> = words.members.iter().copied().collect();
                    named
                        .iter()
                        .filter(|other| inside.contains(other))
                        .for_each(|other| message.tell(*other, true));
                    if words.group && !before.group {
                        inside.iter().for_each(|other| message.tell(*other, false));
                    }
                }
                5 if step % 3 == 0 => {
                    if let Some(message) =
                        messages.iter_mut().find(|message| !message.withdrawn && message.author == member)
                        && inside.contains(&member)
                    {
                        world.call(token, "delete_message", json!({"message_id": message.id})).output();
                        message.withdrawn = true;
                    }
                }
                5 => {
                    world.call(token, "mark_mentions_read", json!({"up_to_lsn": world.lsn()})).output();
                    let told = messages.iter_mut().filter_map(|message| message.told.get_mut(&member));
                    told.for_each(|told| told.read = true);
                }
                _ => {}
            }
            for (member, (_, token)) in members.iter().enumerate() {
                let wanted =
                    if inside.contains(&member) { wanted(&messages, member) } else { BTreeSet::new() };
                assert_eq!(shown(world, token), wanted, "step {step}: the inbox of m{member}");
            }
        }
        let told: usize = messages.iter().map(|message| message.told.len()).sum();
        assert!(told > 20, "only {told} items");
    });
}
