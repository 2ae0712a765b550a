//! Borders: for a caller that may not see an object, it does not exist.
//!
//! Every id field of every operation gets the ids of hidden objects and one that no object has, over REST and
//! MCP and in process; the responses are equal to the last header. No list, event page, socket, wait or audit
//! page may contain a hidden id. Each search has a control: an insider that finds them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::op::{Effect, Feature, Operation};
use svc_tests::client::Answer;
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::database::engines;
use svc_tests::{Setup, World, in_parallel, text};

use crate::house::areas::{OperationFilter, by_area};
use crate::op::asking::{CallPath, all_pages, fewest_filters, with_short_timeout};

/// An id that no object has.
const RANDOM: &str = "01999999-dead-7bee-8fad-0123456789ab";

/// The text in all hidden plaintext.
const SECRET: &str = "hidden-from-others";

/// A world with objects that the callers may not see.
struct BorderWorld {
    world: World,
    /// The secrets of the callers: one with every capability, a worker, and one that only reads.
    callers: Vec<(&'static str, String)>,
    /// Ids of objects in the private channel.
    private: Vec<(&'static str, String)>,
    /// Ids of objects in another workspace.
    foreign: Vec<(&'static str, String)>,
}

impl BorderWorld {
    fn open(engine: Engine, features: fn() -> Vec<Feature>) -> Self {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let (_, worker) = world.new_agent("passer-by");
        let private = fill_private(&world);
        let foreign = fill_foreign(&world);
        let bystander = world.people.bystander.clone();
        let reader = world.people.reader.clone();
        let callers =
            vec![("everything but membership", bystander), ("a worker", worker), ("a reader", reader)];
        Self { world, callers, private, foreign }
    }

    /// Returns the hidden objects to try in a field; over the wire only those that its name could mean.
    fn hidden(&self, way: CallPath, operation: &Operation, field: &str) -> Vec<&(&'static str, String)> {
        // A reader of the instance's audit rows selects them by workspace and by member.
        let foreign = self.foreign.iter().filter(|_| operation.name() != "list_operator_audit");
        let all: Vec<_> = self.private.iter().chain(foreign).collect();
        let mut kinds =
            "workspace member token channel thread message lease finding gate vote relation".split(' ');
        let meant = if field.starts_with("depends_on") { "thread" } else { field };
        match kinds.find(|kind| meant.contains(kind)) {
            Some(kind) if way != CallPath::Core => {
                all.into_iter().filter(|(what, _)| what.contains(kind)).collect()
            }
            _ => all,
        }
    }

    /// Returns the hidden ids in `text` that its reader may not see.
    fn found_in(&self, text: &str, who: &str) -> BTreeSet<&str> {
        // An operator of the instance sees that there are other workspaces.
        let foreign = self.foreign.iter().filter(|_| who != self.callers[0].0);
        let ids = self.private.iter().chain(foreign).map(|(_, id)| id.as_str());
        ids.chain([SECRET]).filter(|hidden| text.contains(hidden)).collect()
    }

    /// Returns the example of an operation, with objects that all members see.
    fn example(&self, operation: &Operation) -> Value {
        let world = &self.world;
        let input = operation.docs().example(&world.fixture).unwrap().to_string();
        let private = world.id("private_channel").to_string();
        let public = world.id("channel").to_string();
        serde_json::from_str(&input.replace(&private, &public)).unwrap()
    }
}

/// Puts one of everything into the private channel, over REST and MCP.
fn fill_private(world: &World) -> Vec<(&'static str, String)> {
    let rest = world.rest();
    let mcp = world.mcp();
    let call = |token: &str, name: &str, input: Value| {
        let operation = world.operation(name);
        // Audit rows of both kinds.
        let answer = match name.len() % 2 {
            0 => rest.call(Some(token), operation, &input),
            _ => mcp.call(Some(token), operation, &input),
        };
        answer.output()
    };
    let admin = &*world.people.admin;
    let agent = &*world.people.agent;
    let channel = world.id("private_channel").to_string();
    let thread = world.people.private_thread_id.clone();
    let id = |made: &Value| text(&made["id"]);

    call(admin, "update_channel", json!({"channel_id": channel, "topic": SECRET}));
    call(admin, "add_channel_member", json!({"channel_id": channel, "member_id": world.id("agent")}));
    let child = id(&call(admin, "create_child_thread", json!({"thread_id": thread, "title": SECRET})));
    let input = json!({"channel_id": channel, "title": SECRET, "depends_on": [thread]});
    let blocked = id(&call(admin, "create_thread", input));
    call(agent, "add_thread_dependency", json!({"thread_id": blocked, "depends_on_id": child}));
    let claim = call(agent, "claim_thread", json!({"thread_id": thread, "lease_secs": 3600}));
    call(agent, "acknowledge_claim", json!({"thread_id": thread}));
    call(agent, "renew_claim", json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"]}));
    let done = id(&call(admin, "create_thread", json!({"channel_id": channel, "title": SECRET})));
    call(agent, "claim_thread", json!({"thread_id": done}));
    call(agent, "set_thread_result", json!({"thread_id": done, "result": {"words": SECRET}}));
    let message = id(&call(agent, "post_message", json!({"thread_id": thread, "body": SECRET})));
    call(agent, "edit_message", json!({"message_id": message, "body": format!("{SECRET}, again")}));
    call(agent, "add_reaction", json!({"message_id": message, "emoji": SECRET}));
    call(agent, "pin_message", json!({"message_id": message}));
    let withdrawn = id(&call(admin, "post_message", json!({"thread_id": child, "body": SECRET})));
    call(admin, "delete_message", json!({"message_id": withdrawn}));
    call(admin, "cancel_thread", json!({"thread_id": child, "reason": SECRET}));
    let finding = json!({"severity": "minor", "body": SECRET, "path": SECRET});
    let review = json!({"thread_id": thread, "verdict": "comment", "body": SECRET, "findings": [finding]});
    let review = call(agent, "submit_review", review);
    let gate = id(&call(agent, "request_approval", json!({"thread_id": thread, "question": SECRET})));
    let question = json!({"thread_id": thread, "question": SECRET, "options": [SECRET, "another"]});
    let vote = id(&call(agent, "create_vote", question));
    call(agent, "cast_vote", json!({"vote_id": vote, "options": [0]}));
    let content = json!([{"type": "text", "text": SECRET}]);
    let objection = json!({"thread_id": thread, "body": SECRET, "content": content});
    let objection = id(&call(agent, "post_message", objection));
    let relation = json!({"message_id": objection, "target_message_id": message, "kind": "refutes"});
    let relation = id(&call(agent, "relate_message", relation));
    let public = world.id("message");
    let leading_out = json!({"message_id": objection, "target_message_id": public, "kind": "cites"});
    let leading_out = id(&call(agent, "relate_message", leading_out));
    vec![
        ("private vote", vote),
        ("private objection, a message", objection),
        ("private relation", relation),
        ("private relation that leads out", leading_out),
        ("private channel", channel),
        ("private thread", thread),
        ("private child", child),
        ("private blocked thread", blocked),
        ("private done thread", done),
        ("private lease", text(&claim["claim_lease_id"])),
        ("private message", message),
        ("private withdrawn message", withdrawn),
        ("private gate", gate),
        ("private review", id(&review)),
        ("private finding", id(&review["findings"][0])),
    ]
}

/// Puts one of everything into the other workspace.
fn fill_foreign(world: &World) -> Vec<(&'static str, String)> {
    let call = |name: &str, input: Value| world.call(&world.people.outsider, name, input).output();
    let me = call("whoami", json!({}));
    let id = |made: &Value| text(&made["id"]);
    let channel = id(&call("create_channel", json!({"workspace_id": me["workspace_id"], "name": "theirs"})));
    let thread = id(&call("create_thread", json!({"channel_id": channel, "title": SECRET})));
    let claim = call("claim_thread", json!({"thread_id": thread, "lease_secs": 3600}));
    let message = id(&call("post_message", json!({"thread_id": thread, "body": SECRET})));
    let finding = json!({"severity": "minor", "body": SECRET});
    let review = json!({"thread_id": thread, "verdict": "comment", "findings": [finding]});
    let review = call("submit_review", review);
    let gate = id(&call("request_approval", json!({"thread_id": thread, "question": SECRET})));
    let vote = json!({"thread_id": thread, "question": SECRET, "options": ["yes", "no"]});
    let vote = id(&call("create_vote", vote));
    let objection = id(&call("post_message", json!({"thread_id": thread, "body": SECRET})));
    let relation = json!({"message_id": objection, "target_message_id": message, "kind": "refutes"});
    let relation = id(&call("relate_message", relation));
    vec![
        ("other workspace", text(&me["workspace_id"])),
        ("other member", text(&me["member_id"])),
        ("other token", text(&me["token_id"])),
        ("other channel", channel),
        ("other thread", thread),
        ("other lease", text(&claim["claim_lease_id"])),
        ("other message", message),
        ("other gate", gate),
        ("other vote", vote),
        ("other relation", relation),
        ("other finding", id(&review["findings"][0])),
    ]
}

/// Returns the input fields that take ids, and whether each takes a list.
fn id_fields(operation: &Operation) -> Vec<(String, bool)> {
    let schema = operation.input_schema();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let is_id = |schema: &Value| schema["format"] == "uuid";
    let taking = |(name, field): (String, Value)| match (is_id(&field), is_id(&field["items"])) {
        (false, false) => None,
        (_, list) => Some((name, list)),
    };
    properties.into_iter().filter_map(taking).collect()
}

/// Returns the input with `id` in one field.
fn with_id(operation: &Operation, example: &Value, (field, list): &(String, bool), id: &str) -> Value {
    let mut input = example.clone();
    input[field] = if *list { json!([id]) } else { json!(id) };
    with_short_timeout(operation, input)
}

/// Returns the parts of a response that a caller can distinguish, without the id itself and the date.
fn seen(answer: &Answer, id: &str) -> (u16, BTreeSet<(String, String)>, String) {
    let plain = |text: &str| text.replace(id, "the id");
    let headers = answer.headers.iter().filter(|(name, _)| *name != "date");
    let headers = headers.map(|(name, value)| (name.to_string(), plain(value.to_str().unwrap())));
    (answer.status, headers.collect(), plain(&answer.body.to_string()))
}

/// Returns the differences between the responses to a hidden id and to an id that no object has.
fn differences(border: &BorderWorld, token: &str, wanted: impl Fn(&&Operation) -> bool) -> Vec<String> {
    let BorderWorld { world, .. } = border;
    let mut differences = Vec::new();
    for operation in world.service.table().operations().filter(wanted) {
        let example = border.example(operation);
        for (field, way) in id_fields(operation)
            .iter()
            .flat_map(|field| CallPath::of(operation, world.engine()).map(move |way| (field, way)))
        {
            let ask = |id: &str| way.ask(world, token, operation, &with_id(operation, &example, field, id));
            let nothing = ask(RANDOM);
            assert!(
                !nothing.is_success() || operation.effect().is_read_only(),
                "{operation:?} changes something by an unknown id in {}: {:#}",
                field.0,
                nothing.body
            );
            let nothing = seen(&nothing, RANDOM);
            for (what, id) in border.hidden(way, operation, &field.0) {
                let hidden = seen(&ask(id), id);
                if hidden != nothing {
                    let name = operation.name();
                    let field = &field.0;
                    differences
                        .push(format!("{name} by {way:?}: {what} as {field}\n  {hidden:?}\n  {nothing:?}"));
                }
            }
        }
    }
    differences
}

/// Checks that callers cannot distinguish a hidden object from a missing one, by any operation that `wanted`
/// selects.
pub fn hidden_objects_look_unknown(
    engine: Engine,
    features: fn() -> Vec<Feature>,
    wanted: OperationFilter<'_>,
) {
    let border = BorderWorld::open(engine, features);
    let lsn = border.world.lsn();
    let check = |who: &str, found: Vec<String>| {
        assert!(found.is_empty(), "{who} distinguishes hidden from unknown:\n{}", found.join("\n"));
    };
    let callers = &border.callers;
    let found = in_parallel(callers.len(), |number| {
        let reads = |operation: &&Operation| wanted(operation) && operation.effect() != Effect::Wait;
        differences(&border, &callers[number].1, reads)
    });
    callers.iter().zip(found).for_each(|((who, _), found)| check(who, found));
    // One after another, because time passes for all waits at once.
    for (who, token) in callers {
        check(
            who,
            differences(&border, token, |operation| wanted(operation) && operation.effect() == Effect::Wait),
        );
    }
    assert_eq!(border.world.lsn(), lsn, "and nothing was changed");
}

/// Checks that hidden and unknown ids are indistinguishable in every response.
///
/// If a single field or header differs, a caller that tries ids learns which of them exist in a private
/// channel or in another workspace.
fn hidden_objects_look_unknown_by_area(engine: Engine, wanted: OperationFilter<'_>) {
    hidden_objects_look_unknown(engine, Vec::new, wanted);
}

by_area!(hidden_and_unknown_ids_are_indistinguishable_in_every_field, hidden_objects_look_unknown_by_area);

/// The control: a caller that sees the objects gets other answers than for missing ones.
///
/// A comparison whose requests are all refused as malformed finds equal answers everywhere, and the rule
/// above would hold for an operation that shows everything.
#[test]
fn an_insider_distinguishes_them() {
    let border = BorderWorld::open(Engine::Sqlite, Vec::new);
    let found =
        differences(&border, &border.world.people.admin, |operation| operation.effect() == Effect::Read);
    assert!(found.len() > 40, "the comparison finds too little: {found:#?}");
}

/// Returns all its answers, with their headers.
fn everything(border: &BorderWorld, way: CallPath, token: &str, operation: &Operation) -> String {
    let input = fewest_filters(operation, border.example(operation));
    let mut all = String::new();
    for answer in all_pages(&border.world, way, token, operation, input) {
        all.push_str(&answer.body.to_string());
        let headers = answer.headers.values().filter_map(|value| value.to_str().ok());
        headers.for_each(|value| all.push_str(value));
    }
    all
}

/// The log as a chain, and evidence, have no gaps for a caller who administers the workspace, and show
/// nothing of another workspace.
const WHOLE: [&str; 2] = ["catch_up_events", "export_workspace"];

/// No answer of a reading operation contains a hidden id or text.
///
/// A list whose author forgets `visible!` is right in every workspace without private channels, such as that
/// of its own tests. In others, excluded members would read the titles of hidden plans.
#[test]
fn no_list_shows_what_is_hidden() {
    for engine in engines() {
        let border = BorderWorld::open(engine, Vec::new);
        let mut control = BTreeSet::new();
        let mut showing = BTreeSet::new();
        let operations = || {
            border.world.service.table().operations().filter(|operation| operation.effect().is_read_only())
        };
        for (operation, way) in operations()
            .flat_map(|operation| CallPath::over_the_wire(operation).map(move |way| (operation, way)))
        {
            let shown = everything(&border, way, &border.world.people.admin, operation);
            let found = border.found_in(&shown, border.callers[0].0);
            if !found.is_empty() {
                showing.insert(operation.name());
            }
            control.extend(found.into_iter().map(str::to_owned));
            for (who, token) in &border.callers {
                let shown = everything(&border, way, token, operation);
                let mut found = border.found_in(&shown, who);
                if WHOLE.contains(&operation.name()) {
                    found.retain(|found| border.foreign.iter().any(|(_, id)| id == found));
                }
                assert!(found.is_empty(), "{operation:?} shows {found:?} to {who}: {shown}");
            }
        }
        let all: BTreeSet<String> =
            border.private.iter().map(|(_, id)| id.clone()).chain([SECRET.to_owned()]).collect();
        assert_eq!(control, all, "an insider finds all of it");
        for list in [
            "list_channels",
            "list_workspace_threads",
            "list_thread_results",
            "list_active_claims",
            "list_approval_gates",
            "list_events",
            "wait_for_event",
            "list_audit",
        ] {
            assert!(showing.contains(list), "{list} shows an insider nothing: {showing:?}");
        }
    }
}

/// Changes something behind the border, and then in public.
///
/// Returns the position of the latter.
fn act(border: &BorderWorld) -> i64 {
    let world = &border.world;
    let private = border.private.iter().find(|(what, _)| *what == "private blocked thread");
    world.admin("post_message", json!({"thread_id": private.unwrap().1, "body": SECRET}));
    world
        .admin("update_thread", json!({"thread_id": private.unwrap().1, "title": format!("{SECRET}, anew")}));
    let posted = world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "for all"}));
    posted["lsn"].as_i64().unwrap()
}

/// No subscription and no wait reveals a hidden event.
///
/// A wait that returns by the filter alone, without reading the events as their reader, returns the event
/// that woke it. A subscriber of a workspace would follow the work in its private channels live.
#[test]
fn no_socket_and_no_wait_shows_what_is_hidden() {
    for engine in engines() {
        let border = BorderWorld::open(engine, Vec::new);
        let world = &border.world;
        let workspace = world.id("workspace");
        let receives = |token: &str| {
            let mut ws = Ws::subscribe(world.address(), &first_frame(token, workspace, Some(0)));
            let mut received = ws.frame().to_string();
            for last in [world.lsn(), 0] {
                // Past events first, then live ones.
                let last = if last == 0 { act(&border) } else { last_public(world, last) };
                loop {
                    let frame = ws.frame();
                    received.push_str(&frame.to_string());
                    if frame["lsn"] == json!(last) {
                        break;
                    }
                }
            }
            received
        };
        let waits = |token: &str| {
            let input = json!({"workspace_id": workspace, "after_id": world.lsn(), "timeout_secs": 300});
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| world.call(token, "wait_for_event", input).output());
                while world.service.parked_waits() == 0 {
                    std::thread::yield_now();
                }
                let last = act(&border);
                (waiting.join().unwrap(), last)
            })
        };
        let insider = receives(&world.people.admin);
        assert!(border.found_in(&insider, border.callers[0].0).len() > 3, "{insider}");
        let (answer, _) = waits(&world.people.admin);
        assert!(!border.found_in(&answer.to_string(), border.callers[0].0).is_empty(), "{answer:#}");
        for (who, token) in &border.callers[..2] {
            let received = receives(token);
            assert!(border.found_in(&received, who).is_empty(), "a socket shows {who} {received}");
            let (answer, last) = waits(token);
            let lsns: Vec<&Value> =
                answer["items"].as_array().unwrap().iter().map(|item| &item["lsn"]).collect();
            assert_eq!(lsns, [&json!(last)], "a wait shows {who} {answer:#}");
        }
    }
}

/// Returns the last event up to `lsn` outside of private channels.
fn last_public(world: &World, lsn: i64) -> i64 {
    let workspace = world.database.id(world.id("workspace"));
    world.database.number(&format!(
        "select max(e.lsn) from events e left join channels c on c.id = e.channel_id
         where e.workspace_id = {workspace} and e.lsn <= {lsn} and (e.channel_id is null or not c.private)"
    ))
}
