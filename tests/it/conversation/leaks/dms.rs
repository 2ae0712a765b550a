//! The contents and the participants of direct messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};
use std::thread::spawn;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::capability::Capability;
use svc_core::op::{Effect, Operation};
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::{Setup, World, text};

use super::{inputs, is_discreet, is_personal, on_each_engine, read_all, trail_after, trail_end, viewers};
use crate::op::asking::{CallPath, all_pages};
use crate::portability::origin::export;

/// A sealed text of the conversation between two members.
const WORDS: &str = "quetzal, between us";
/// Unsealed texts of the conversation, such as titles.
const TALK: &str = "kakapo-between-us";

/// Operations that show the existence and the participants of a direct message to callers who may read the
/// whole.
const WHOLE: [&str; 3] = ["catch_up_events", "export_workspace", "get_log_snapshot"];

/// A direct message with one of everything.
struct SampleDm {
    world: World,
    /// A worker, and a member with every capability.
    participants: [String; 2],
    viewers: Vec<(&'static str, String)>,
    /// Replacements for objects in examples, by their ids in the world.
    instead: Vec<(String, String)>,
    /// The ids of everything in it.
    hidden: BTreeSet<String>,
    /// Ids that all members may know.
    known: BTreeSet<String>,
}

/// Collects the ids in a value.
fn ids_in(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| ids_in(item, found)),
        Value::Object(members) => members.values().for_each(|member| ids_in(member, found)),
        Value::String(text) if text.len() == 36 && text.parse::<uuid::Uuid>().is_ok() => {
            found.insert(text.clone());
        }
        _ => {}
    }
}

impl SampleDm {
    fn open(engine: Engine) -> Self {
        let world = World::with(engine, Setup { seed: 91, ..Setup::default() });
        let viewers = viewers(&world);
        let (confidant_id, _) = world.new_agent("confidant");
        let (third_id, _) = world.new_agent("third");
        let every: Vec<&str> = Capability::ALL.iter().map(|capability| capability.name()).collect();
        let token = json!({"workspace_id": world.id("workspace"), "member_id": confidant_id,
                           "label": "for all", "capabilities": every});
        let confidant = text(&world.admin("mint_token", token)["secret"]);
        let participants = [world.people.agent.clone(), confidant];
        let mut between = Self {
            world,
            participants,
            viewers,
            instead: vec![],
            hidden: BTreeSet::new(),
            known: BTreeSet::new(),
        };
        between.known = between.known_to_all();
        between.fill(&confidant_id, &third_id);
        between
    }

    /// Returns the ids in everything that a participant reads, and those of the samples.
    fn known_to_all(&self) -> BTreeSet<String> {
        let world = &self.world;
        let mut known: BTreeSet<String> =
            world.fixture.names().map(|name| world.id(name).to_string()).collect();
        let reads = |operation: &Operation| operation.effect() == Effect::Read;
        let reader = [("a participant", self.participants[1].clone())];
        let example = |operation: &Operation| operation.docs().example(&world.fixture).unwrap();
        let answers = read_all(world, &reader, &example, reads);
        answers.values().flatten().for_each(|answer| ids_in(answer, &mut known));
        known
    }

    /// Calls an operation as a participant, over REST or MCP, and checks its rows in the trail.
    fn call(&mut self, by: usize, way: CallPath, name: &str, input: &Value) -> Option<Value> {
        let world = &self.world;
        let operation = world.operation(name);
        let before = trail_end(world);
        let answer = way.ask(world, &self.participants[by], operation, input);
        assert!(answer.status < 500, "{operation:?}: {:#}", answer.body);
        let answer = answer.is_success().then_some(answer.body)?;
        let mut found = BTreeSet::new();
        ids_in(&answer, &mut found);
        self.hidden.extend(found.difference(&self.known).cloned());
        for row in trail_after(world, before) {
            let (action, metadata, channel) = &row;
            let says = self.hidden.iter().find(|id| metadata.to_string().contains(&***id));
            let is_discreet = is_discreet(operation, &row) || (action != "mutation" && channel.is_null());
            assert!(is_discreet && says.is_none(), "{operation:?} by {way:?} leaves {row:?}");
        }
        Some(answer)
    }

    /// Adds everything that a direct message can contain.
    fn fill(&mut self, confidant: &str, third: &str) {
        let workspace = self.world.id("workspace").to_string();
        let fields = |answer: Option<Value>| answer.expect("a success");
        let members = json!({"workspace_id": workspace, "member_ids": [confidant, third]});
        let dm = fields(self.call(0, CallPath::Mcp, "open_dm", &members));
        let channel = text(&dm["id"]);
        let thread = text(&dm["thread_id"]);
        let content = json!([{"type": "text", "text": WORDS}, {"type": "data", "data": {"note": WORDS}}]);
        let message = json!({"thread_id": thread, "body": WORDS, "content": content,
                             "metadata": {"note": WORDS}});
        let message = text(&fields(self.call(1, CallPath::Rest, "post_message", &message))["id"]);
        let question = json!({"thread_id": thread, "question": WORDS, "options": [WORDS, "another"]});
        let vote = text(&fields(self.call(1, CallPath::Mcp, "create_vote", &question))["id"]);
        let objection = json!({"thread_id": thread, "body": format!("@confidant, {WORDS}")});
        let objection = text(&fields(self.call(0, CallPath::Mcp, "post_message", &objection))["id"]);
        let relation = json!({"message_id": objection, "target_message_id": message, "kind": "refutes"});
        let relation = text(&fields(self.call(0, CallPath::Rest, "relate_message", &relation))["id"]);
        let task = json!({"channel_id": channel, "title": TALK});
        fields(self.call(1, CallPath::Rest, "create_thread", &task));
        for (name, input) in [
            ("edit_message", json!({"message_id": message, "body": format!("{WORDS}, again")})),
            ("add_reaction", json!({"message_id": message, "emoji": TALK})),
            ("pin_message", json!({"message_id": message})),
            ("cast_vote", json!({"vote_id": vote, "options": [0]})),
            ("set_channel_boot", json!({"channel_id": channel, "text": TALK})),
            ("follow", json!({"target_id": channel})),
            ("send_heartbeat", json!({"status": "busy", "thread_id": thread})),
        ] {
            for (by, way) in [(0, CallPath::Mcp), (1, CallPath::Rest)] {
                self.call(by, way, name, &input);
            }
        }
        let names: Vec<String> = self.world.fixture.names().map(str::to_owned).collect();
        for name in names {
            let there = match &*name {
                "vote" => &vote,
                "relation" => &relation,
                "objection" => &objection,
                "channel" | "private_channel" | "group_dm" => &channel,
                name if name.ends_with("message") => &message,
                name if name.ends_with("thread") => &thread,
                _ => continue,
            };
            self.instead.push((self.world.id(&name).to_string(), there.clone()));
        }
    }

    /// Returns the example of an operation in the direct message, or `None` if it is about something else.
    fn example_within(&self, operation: &Operation) -> Option<Value> {
        let example = operation.docs().example(&self.world.fixture)?.to_string();
        let within = self.instead.iter().fold(example.clone(), |text, (id, there)| text.replace(id, there));
        (within != example).then(|| serde_json::from_str(&within).unwrap())
    }

    /// Calls every possible operation in it, and returns the ones that succeeded.
    fn do_everything(&mut self, destructive: bool) -> BTreeSet<&'static str> {
        let table = svc_core::operation_table().unwrap();
        let wanted = |operation: &&Operation| {
            let is_destructive = operation.effect() == Effect::Destructive;
            !operation.effect().is_read_only() && is_destructive == destructive && !is_personal(operation)
        };
        let mut done = BTreeSet::new();
        // A member who has left can do nothing more.
        let (leaving, others): (Vec<_>, Vec<_>) =
            table.operations().filter(wanted).partition(|operation| operation.name() == "leave_dm");
        for operation in others.into_iter().chain(leaving) {
            let Some(input) = self.example_within(operation) else { continue };
            for (by, way) in [(1, CallPath::Rest), (0, CallPath::Mcp)] {
                let way = if operation.http().rest_only { CallPath::Rest } else { way };
                if self.call(by, way, operation.name(), &input).is_some() {
                    done.insert(operation.name());
                }
            }
        }
        done
    }

    /// Returns the parts of the direct message in an answer to `input`.
    fn found_in(&self, answer: &Value, input: &Value) -> BTreeSet<String> {
        let answer = answer.to_string();
        let input = input.to_string();
        let ids = self.hidden.iter().map(String::as_str).filter(|id| !input.contains(id));
        ids.chain([WORDS, TALK]).filter(|hidden| answer.contains(hidden)).map(str::to_owned).collect()
    }

    /// Returns whether a value contains keys of its messages: in an object that names something in it.
    fn has_keys(&self, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| self.has_keys(item)),
            Value::Object(members) if members.get("content_key").is_some_and(Value::is_string) => {
                let text = value.to_string();
                self.hidden.iter().any(|id| text.contains(id))
            }
            Value::Object(members) => members.values().any(|member| self.has_keys(member)),
            _ => false,
        }
    }

    /// Reads everything as `who`, and returns what each operation shows of the direct message, and which show
    /// keys.
    fn shown_to(
        &self,
        who: &(&'static str, String),
    ) -> (BTreeMap<&'static str, BTreeSet<String>>, BTreeSet<&str>) {
        let world = &self.world;
        let mut shown = BTreeMap::new();
        let mut keys = BTreeSet::new();
        for operation in world.service.table().operations().filter(|row| row.effect().is_read_only()) {
            let example = operation.docs().example(&world.fixture).unwrap();
            for example in [Some(example), self.example_within(operation)].into_iter().flatten() {
                for (way, input) in inputs(operation, &example) {
                    for answer in all_pages(world, way, &who.1, operation, input.clone()) {
                        let found = self.found_in(&answer.body, &input);
                        if !found.is_empty() {
                            shown.entry(operation.name()).or_insert_with(BTreeSet::new).extend(found);
                        }
                        if self.has_keys(&answer.body) {
                            keys.insert(operation.name());
                        }
                    }
                }
            }
        }
        (shown, keys)
    }

    fn check(&self) {
        for who in &self.viewers {
            let (mut shown, keys) = self.shown_to(who);
            for name in WHOLE {
                if let Some(found) = shown.get_mut(name) {
                    assert!(!found.contains(WORDS), "{name} shows {} words", who.0);
                    shown.remove(name);
                }
            }
            assert!(shown.is_empty(), "shown to {}: {shown:#?}", who.0);
            assert!(keys.is_empty(), "{} is given the keys of words by {keys:?}", who.0);
        }
    }
}

/// Checks that members who are not in a direct message find neither its contents nor its participants.
fn a_direct_message_is_found_by_nobody_else(engine: Engine) {
    let mut between = SampleDm::open(engine);
    let administrator = between.viewers[0].1.clone();
    let everything = first_frame(&administrator, between.world.id("workspace"), Some(0));
    let frames = received(Ws::subscribe(between.world.address(), &everything));
    let done = between.do_everything(false);
    assert!(done.len() > 20, "{done:?}");
    between.check();

    // The control: a participant finds all of it.
    let participant = ("a participant", between.participants[1].clone());
    let (shown, keys) = between.shown_to(&participant);
    let found: BTreeSet<&String> = shown.values().flatten().collect();
    let missing: Vec<&String> = between.hidden.iter().filter(|id| !found.contains(id)).collect();
    assert!(missing.len() * 5 < between.hidden.len(), "{missing:?} of {:?}", between.hidden);
    for name in ["list_messages", "list_dms", "get_vote", "list_events", "list_inbox", "list_presence"] {
        assert!(shown.contains_key(name), "{name}: {:?}", shown.keys());
    }
    assert!(found.contains(&WORDS.to_owned()) && found.contains(&TALK.to_owned()));
    assert_eq!(keys, BTreeSet::from(["catch_up_events", "export_workspace"]));
    let world = &between.world;
    let whole = export(world, world.id("workspace").into());
    assert!(between.has_keys(&whole), "the administrator of the machine exports all of it");

    let done = between.do_everything(true);
    assert!(done.contains("delete_message") && done.contains("leave_dm"), "{done:?}");
    between.check();

    let world = &between.world;
    let last = world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "for all"}));
    loop {
        let frame = frames.recv().unwrap();
        let found = between.found_in(&frame, &Value::Null);
        assert!(found.is_empty(), "a frame shows {found:?}: {frame:#}");
        if frame["lsn"] == last["lsn"] {
            break;
        }
    }
}

/// Receives frames as they come, because a silent client is disconnected during a long test.
fn received(mut ws: Ws) -> Receiver<Value> {
    let (sender, frames) = channel();
    spawn(move || while sender.send(ws.frame()).is_ok() {});
    frames
}

on_each_engine!(direct_messages, a_direct_message_is_found_by_nobody_else);
