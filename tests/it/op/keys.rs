//! Idempotency keys: a request runs once, and its repeats get the same answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Map, Value, json};
use svc_core::op::{IdempotencyKey, Operation, Request, Surface};
use svc_core::time::Time;
use svc_core::{Code, ExecutedStatement};
use svc_tests::client::Answer;
use svc_tests::client::mcp::outcome;
use svc_tests::database::engines;
use svc_tests::{Setup, World, answer_of, call, in_parallel, on_both_engines, text};
use uuid::Uuid;

use super::cost::changes::{in_order, renewed};

const DAY: Duration = Duration::from_secs(86_400);

/// Removals that return or hide the removed object, so that a repeat finds nothing.
const GONE: &[&str] = &[
    "delete_glossary_term",
    "delete_memory_block",
    "detach_memory_block",
    "leave_dm",
    "remove_relation",
    "remove_reviewer",
    "remove_web_push",
    "resume_repo",
];

/// Sends a request with a key over REST.
fn keyed(world: &World, token: &str, key: &str, operation: &str, input: &Value) -> Answer {
    let row = world.operation(operation);
    world.rest().call_by(Some(token), &[("idempotency-key", key)], row, row.http().path, input)
}

fn is_repeated(answer: &Answer) -> bool {
    answer.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
}

/// Sends a call with a key over MCP, and returns whether it was answered before.
fn keyed_call(world: &World, token: &str, key: &str, row: &Operation, input: &Value) -> (Answer, bool) {
    let mut arguments = input.clone();
    if row.is_detailed() {
        arguments["detail"] = json!("full");
    }
    let params = json!({"name": row.name(), "arguments": arguments, "_meta": {"svc/idempotency_key": key}});
    let answer = world.mcp().request(Some(token), "tools/call", params);
    let (status, body) = outcome(&answer.body, answer.status, row);
    let name = "svc/idempotency_replayed";
    let is_repeated =
        answer.body["result"]["_meta"][name] == true || answer.body["error"]["data"][name] == true;
    (Answer { status, body, headers: answer.headers }, is_repeated)
}

/// Returns the number of events and audit rows in all logs.
fn written(world: &World) -> (i64, i64) {
    let count = |table: &str| world.database.number(&format!("select count(*) from {table}"));
    (count("events"), count("audit"))
}

/// Returns inputs that differ from this one in a field.
fn variants(input: &Value) -> Vec<Value> {
    let none = Map::new();
    let fields = input.as_object().unwrap_or(&none);
    let other = |value: &Value| match value {
        Value::String(text) if text.parse::<Uuid>().is_ok() => Some(json!(Uuid::now_v7())),
        Value::String(text) if text.parse::<u64>().is_ok() => {
            Some(json!(text.replace('1', "2").replace('0', "1")))
        }
        Value::String(text) => Some(json!(format!("{text}x"))),
        Value::Number(number) => number.as_i64().map(|number| json!(number + 1)),
        Value::Bool(value) => Some(json!(!value)),
        Value::Array(_) => Some(json!([])),
        _ => None,
    };
    let variant = |(name, value): (&String, &Value)| {
        let mut input = input.clone();
        input[name.as_str()] = other(value)?;
        Some(input)
    };
    fields.iter().filter_map(variant).collect()
}

/// Every operation that changes something is called with a key, and again with it over REST and MCP.
#[test]
fn every_change_with_a_key_is_run_once() {
    on_both_engines(|world| {
        let mut found = Vec::new();
        let mut fixture = world.fixture.clone();
        let rows = in_order(world)
            .into_iter()
            .filter(|row| row.accepts_idempotency_keys() && row.http().frame.is_none());
        for row in rows {
            let mut key = format!("key-of-{}", row.name());
            let ask = |key: &str, input: &Value| keyed(world, &world.people.admin, key, row.name(), input);
            let mut input = row.docs().example(&fixture).unwrap_or_else(|| json!({}));
            let mut first = ask(&key, &input);
            if !first.is_success() {
                fixture = renewed(world, &fixture);
                input = row.docs().example(&fixture).unwrap_or_else(|| json!({}));
                key.push_str("-anew");
                first = ask(&key, &input);
            }
            let first = first;
            let ask = |input: &Value| ask(&key, input);
            if !first.is_success() || is_repeated(&first) {
                found.push(format!("{}: {} {:#}", row.name(), first.status, first.body));
                continue;
            }
            let before = written(world);
            let mut check = |over: &str, again: Answer, is_repeated: bool| {
                let is_as_wanted = if row.refusals().any(|code| code == Code::IdempotencyReplayed) {
                    again.code() == "idempotency-replayed" && again.body["id"].is_string()
                } else if GONE.contains(&row.name()) {
                    again.code() == "not-found"
                } else {
                    (again.status, &again.body) == (first.status, &first.body)
                };
                if !(is_as_wanted && is_repeated) {
                    found.push(format!(
                        "{} over {over}: {} {:#}\nafter {:#}",
                        row.name(),
                        again.status,
                        again.body,
                        first.body
                    ));
                }
            };
            let again = ask(&input);
            let repeated = is_repeated(&again);
            check("REST", again, repeated);
            if !row.http().rest_only {
                let (again, is_repeated) = keyed_call(world, &world.people.admin, &key, row, &input);
                check("MCP", again, is_repeated);
            }
            let others: Vec<Answer> = variants(&input).iter().map(ask).collect();
            let mismatched = others.iter().filter(|other| other.code() == "idempotency-mismatch").count();
            if mismatched == 0 || others.iter().any(Answer::is_success) {
                let codes: Vec<&str> = others.iter().map(Answer::code).collect();
                found.push(format!("{} with another input: {codes:?}", row.name()));
            }
            if written(world) != before {
                found.push(format!("{}: its repeats have left events or audit rows", row.name()));
            }
        }
        let kept = world.database.rows("select answer from idempotency_keys where answer is not null");
        assert!(kept.len() > 20, "{}", kept.len());
        for answer in kept {
            let answer: Value = serde_json::from_str(answer[0].as_str().unwrap()).unwrap();
            words_in(&answer).into_iter().for_each(|word| found.push(format!("{word} is kept")));
        }
        assert!(found.is_empty(), "{}: {}", world.engine().name(), found.join("\n\n"));
    });
}

/// Returns the texts in an answer other than ids, times and names of states.
fn words_in(answer: &Value) -> Vec<String> {
    match answer {
        Value::String(text) if text.parse::<Uuid>().is_ok() => Vec::new(),
        Value::String(_) if serde_json::from_value::<Time>(answer.clone()).is_ok() => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(words_in).collect(),
        Value::Object(members) => members.values().flat_map(words_in).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_key_is_kept_for_a_day_over_tokens_and_servers() {
    on_both_engines(|world| {
        let channel = world.new_channel("Retries");
        let input = json!({"channel_id": channel, "title": "Once"});
        let admin = &world.people.admin;
        let first = keyed(world, admin, "\"one\"", "create_thread", &input);
        assert!(first.is_success() && !is_repeated(&first), "{first:?}");
        let threads = || world.database.number("select count(*) from threads");
        let count = threads();
        // Quotes belong to the header, not to the key; another token of the member has the same keys.
        let other = world.new_token(vec!["workspace:read", "workspace:write"]);
        for token in [admin, &other] {
            let again = keyed(world, token, "one", "create_thread", &input);
            assert_eq!((again.status, &again.body), (201, &first.body));
            assert!(is_repeated(&again));
        }
        let elsewhere = world.another_service(7);
        let request = |key: &str| {
            let secret = SecretString::from(admin.as_str());
            let mut request = Request::json(Surface::Rest, Some(secret), input.to_string());
            request.input.key = Some(IdempotencyKey::parse(key).unwrap());
            request
        };
        let reply = elsewhere.call(elsewhere.operation("create_thread").unwrap(), request("one")).unwrap();
        assert!(reply.is_repeated);
        assert_eq!(answer_of(Ok(reply)).body, first.body);
        assert_eq!(threads(), count);
        // The repeat shows the current object.
        let thread = text(&first.body["id"]);
        world.admin("update_thread", json!({"thread_id": thread, "title": "Changed"}));
        assert_eq!(keyed(world, admin, "one", "create_thread", &input).output()["title"], "Changed");
        let rows = || world.database.number("select count(*) from idempotency_keys");
        assert_eq!(rows(), 1);
        world.pass(DAY - Duration::from_secs(1));
        assert!(is_repeated(&keyed(world, admin, "one", "create_thread", &input)));
        world.clock.advance(Duration::from_secs(1));
        let later = keyed(world, admin, "one", "create_thread", &input);
        assert!(later.is_success() && !is_repeated(&later));
        assert_ne!(later.body["id"], first.body["id"]);
        assert_eq!((rows(), threads()), (1, count + 1));
        world.pass(DAY);
        assert_eq!(rows(), 0, "a chore removes what is over");
    });
}

#[test]
fn a_key_is_its_members_own() {
    on_both_engines(|world| {
        let channel = world.new_channel("Own keys");
        let thread = world.new_thread(&channel, "Task");
        let input = json!({"thread_id": thread, "body": "hello"});
        let post = |token: &str| keyed(world, token, "mine", "post_message", &input);
        let first = post(&world.people.admin);
        let (helper, helper_token) = world.new_agent("helper");
        // An administrator, another member, and that member in the name of the administrator.
        let by_agent = post(&world.people.agent);
        let grant = world.new_grant(&world.id("admin").to_string(), &helper, &["message:post"]);
        let delegated = post(&world.exchange(&helper_token, &grant));
        let ids = [&first, &by_agent, &delegated].map(|answer| {
            assert!(answer.is_success() && !is_repeated(answer), "{answer:?}");
            text(&answer.body["id"])
        });
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
        let again = post(&world.people.agent);
        assert_eq!((is_repeated(&again), text(&again.body["id"])), (true, ids[1].clone()));
    });
}

#[test]
fn what_is_refused_is_refused_again_and_what_could_not_be_read_is_not_kept() {
    on_both_engines(|world| {
        let channel = world.new_channel("Refusals");
        let thread = world.new_thread(&channel, "Task");
        let admin = &world.people.admin;
        let agent = &world.people.agent;
        let rows = || world.database.number("select count(*) from idempotency_keys");
        // 409: once the state has changed, the first answer stays.
        let claim = json!({"thread_id": thread});
        let taken = world.agent("claim_thread", claim.clone());
        let refused = keyed(world, admin, "a", "claim_thread", &claim);
        assert_eq!((refused.status, is_repeated(&refused)), (409, false));
        let lease = json!({"thread_id": thread, "claim_lease_id": taken["claim_lease_id"]});
        world.agent("release_claim", lease);
        let again = keyed(world, admin, "a", "claim_thread", &claim);
        assert_eq!((again.status, again.code(), is_repeated(&again)), (409, refused.code(), true));
        let (again, is_repeated_there) =
            keyed_call(world, admin, "a", world.operation("claim_thread"), &claim);
        assert_eq!((again.code(), is_repeated_there), (refused.code(), true));
        assert!(keyed(world, admin, "b", "claim_thread", &claim).is_success());
        // 404 and 403 of the operation.
        let missing = json!({"thread_id": Uuid::now_v7(), "body": "x"});
        for repeats in [false, true] {
            let refused = keyed(world, admin, "c", "post_message", &missing);
            assert_eq!((refused.status, is_repeated(&refused)), (404, repeats));
        }
        let message = text(&world.admin("post_message", json!({"thread_id": thread, "body": "x"}))["id"]);
        let edit = json!({"message_id": message, "body": "y"});
        for repeats in [false, true] {
            let refused = keyed(world, agent, "d", "edit_message", &edit);
            assert_eq!((refused.code(), is_repeated(&refused)), ("forbidden", repeats));
        }
        // 400, 401, and 403 before the operation, leave nothing.
        let before = rows();
        for _ in 0..2 {
            let bad = keyed(world, admin, "e", "post_message", &json!({"thread_id": thread, "body": 7}));
            assert_eq!((bad.status, is_repeated(&bad)), (400, false));
            assert_eq!(keyed(world, "svc_none", "e", "claim_thread", &claim).status, 401);
            let lacks = keyed(world, &world.people.reader, "e", "claim_thread", &claim);
            assert_eq!((lacks.code(), is_repeated(&lacks)), ("missing-capability", false));
        }
        // Nor does a claim that finds no task.
        let empty = json!({"channel_id": world.new_channel("Empty")});
        for _ in 0..2 {
            let nothing = keyed(world, admin, "f", "claim_next_thread", &empty);
            assert_eq!((nothing.body.clone(), is_repeated(&nothing)), (json!({}), false));
        }
        // Nor do refusals before the function runs, at any entry point.
        let (member, token) = world.new_agent("frosty");
        let said = world.call(&token, "post_message", json!({"thread_id": thread, "body": "x"})).output();
        let edit = json!({"message_id": said["id"], "body": "y"});
        let about = json!({"workspace_id": world.id("workspace"), "member_id": member});
        world.admin("freeze_member", about.clone());
        keyed(world, &token, "h", "edit_message", &edit).refused(403, "member-frozen");
        world.admin("unfreeze_member", about);
        assert_eq!(rows(), before);
        assert!(keyed(world, &token, "h", "edit_message", &edit).is_success());
        assert!(
            keyed(world, admin, "e", "post_message", &json!({"thread_id": thread, "body": "z"})).is_success()
        );
    });
}

#[test]
fn a_repeat_sees_what_its_caller_sees_now() {
    on_both_engines(|world| {
        let channel = world.new_private_channel("Hidden");
        let (member, token) = world.new_agent("visitor");
        let membership = json!({"channel_id": channel, "member_id": member});
        world.admin("add_channel_member", membership.clone());
        let thread = world.new_thread(&channel, "Task");
        let post = json!({"thread_id": thread, "body": "secret plan"});
        let claim = json!({"thread_id": thread});
        assert!(keyed(world, &token, "p", "post_message", &post).is_success());
        let claimed = keyed(world, &token, "c", "claim_thread", &claim);
        assert!(claimed.is_success(), "{claimed:?}");
        let again = keyed(world, &token, "c", "claim_thread", &claim);
        assert_eq!((is_repeated(&again), &again.body), (true, &claimed.body));
        assert!(again.body["pin"].is_object(), "{again:?}");
        let lease = json!({"thread_id": thread, "claim_lease_id": claimed.body["claim_lease_id"]});
        world.clock.advance(Duration::from_secs(1));
        let renewed = keyed(world, &token, "r", "renew_claim", &lease);
        assert!(renewed.is_success(), "{renewed:?}");
        assert!(keyed(world, &token, "x", "release_claim", &lease).is_success());
        assert!(is_repeated(&keyed(world, &token, "x", "release_claim", &lease)));
        for (key, operation, input) in [("c", "claim_thread", &claim), ("r", "renew_claim", &lease)] {
            let ended = keyed(world, &token, key, operation, input);
            assert_eq!((ended.code(), is_repeated(&ended)), ("stale-claim", true), "{operation}");
        }
        world.admin("remove_channel_member", membership);
        for (key, operation, input) in
            [("p", "post_message", &post), ("c", "claim_thread", &claim), ("x", "release_claim", &lease)]
        {
            let hidden = keyed(world, &token, key, operation, input);
            assert_eq!((hidden.code(), is_repeated(&hidden)), ("not-found", true), "{operation}");
        }
        // A caller without rights gets no repeat.
        world.admin("freeze_member", json!({"workspace_id": world.id("workspace"), "member_id": member}));
        assert_eq!(keyed(world, &token, "p", "post_message", &post).code(), "member-frozen");
    });
}

/// If the caller removes the object and creates it again, it is another object.
#[test]
fn a_later_object_of_the_same_name_is_another() {
    on_both_engines(|world| {
        let channel = world.new_channel("Names");
        let thread = world.new_thread(&channel, "Task");
        let message = text(&world.admin("post_message", json!({"thread_id": thread, "body": "x"}))["id"]);
        let (member, _) = world.new_agent("again");
        let workspace = world.id("workspace");
        let block = json!({"workspace_id": workspace, "label": "facts", "value": "x"});
        let block = text(&world.admin("create_memory_block", block)["id"]);
        for (make, end, input) in [
            ("pin_message", "unpin_message", json!({"message_id": message})),
            ("add_reaction", "remove_reaction", json!({"message_id": message, "emoji": "tada"})),
            (
                "add_channel_member",
                "remove_channel_member",
                json!({"channel_id": channel, "member_id": member}),
            ),
            ("pause_repo", "resume_repo", json!({"workspace_id": workspace, "repo": "a/b"})),
            ("attach_memory_block", "detach_memory_block", json!({"thread_id": thread, "block_id": block})),
            ("add_reviewer", "remove_reviewer", json!({"thread_id": thread, "member_id": member})),
        ] {
            let ask = || keyed(world, &world.people.admin, make, make, &input);
            let first = ask();
            assert_eq!(ask().body, first.body, "{make}");
            world.admin(end, input.clone());
            world.admin(make, input.clone());
            ask().refused(404, "not-found");
        }
        // A task shows its first message as it is now.
        world.new_agent("helper");
        let input = json!({"channel_id": channel, "title": "T", "body": "hello @helper"});
        let first = keyed(world, &world.people.admin, "first", "create_thread", &input).output();
        assert_eq!(first["mentioned"].as_array().unwrap().len(), 1);
        world.admin("edit_message", json!({"message_id": first["first_message_id"], "body": "nobody"}));
        let again = keyed(world, &world.people.admin, "first", "create_thread", &input).output();
        assert_eq!(again["mentioned"], json!([]));
    });
}

#[test]
fn callers_at_once_with_one_key_make_one_change() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.new_channel("Crowd"), "Task");
        let input = json!({"thread_id": thread, "body": "once"});
        let before = world.lsn();
        let answers = in_parallel(64, |_| keyed(world, &world.people.admin, "crowd", "post_message", &input));
        let first = &answers[0].body;
        assert!(answers.iter().all(|answer| answer.status == 201 && answer.body == *first));
        assert_eq!(answers.iter().filter(|answer| !is_repeated(answer)).count(), 1);
        assert_eq!(world.kinds_after(before), ["MessagePosted"]);
        // A change in steps also runs once.
        let next = json!({"workspace_id": world.id("workspace")});
        let answers = in_parallel(16, |_| {
            keyed(world, &world.people.admin, "next", "claim_next_workspace_thread", &next)
        });
        let first = &answers[0].body["thread_id"];
        assert!(first.is_string() && answers.iter().all(|answer| answer.body["thread_id"] == *first));
    });
}

/// The refusal is stored after the change is rolled back, and other requests may run in between.
#[test]
fn callers_at_once_with_one_key_get_one_answer_although_it_may_be_a_refusal() {
    on_both_engines(|world| {
        let channel = world.new_channel("Contended");
        for round in 0..10 {
            let thread = world.new_thread(&channel, "Task");
            let claim = json!({"thread_id": thread});
            let held = world.agent("claim_thread", claim.clone());
            let release = json!({"thread_id": thread, "claim_lease_id": held["claim_lease_id"]});
            let key = format!("round {round}").replace(' ', "-");
            let answers = in_parallel(9, |number| match number {
                4 => {
                    world.agent("release_claim", release.clone());
                    None
                }
                _ => Some(keyed(world, &world.people.admin, &key, "claim_thread", &claim)),
            });
            let answers: Vec<Answer> = answers.into_iter().flatten().collect();
            let told = |answer: &Answer| (answer.status, answer.body["claim_lease_id"].clone());
            let first = told(&answers[0]);
            assert!(answers.iter().all(|answer| told(answer) == first), "{answers:#?}");
            assert_eq!(answers.iter().filter(|answer| !is_repeated(answer)).count(), 1, "{answers:#?}");
        }
    });
}

#[test]
fn keys_are_visible_ascii_and_reads_ignore_them() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.new_channel("Forms"), "Task");
        let input = json!({"thread_id": thread, "body": "x"});
        let long = "k".repeat(256);
        let row = world.operation("post_message");
        for key in ["", "\"\"", "a b", "\"a", &long] {
            keyed(world, &world.people.admin, key, "post_message", &input).refused(400, "malformed-request");
        }
        let twice = [("idempotency-key", "a"), ("idempotency-key", "b")];
        let twice = world.rest().call_by(Some(&world.people.admin), &twice, row, row.http().path, &input);
        twice.refused(400, "malformed-request");
        for key in [json!(""), json!("a b"), json!(7), json!(long)] {
            let params =
                json!({"name": "post_message", "arguments": input, "_meta": {"svc/idempotency_key": key}});
            let answer = world.mcp().request(Some(&world.people.admin), "tools/call", params);
            assert_eq!(answer.body["error"]["data"]["status"], 400, "{:#}", answer.body);
        }
        assert!(keyed(world, &world.people.admin, &"k".repeat(255), "post_message", &input).is_success());
        let read = json!({"thread_id": thread});
        for _ in 0..2 {
            let answer = keyed(world, &world.people.admin, "no key", "get_thread", &read);
            assert!(answer.is_success() && !is_repeated(&answer));
            let row = world.operation("get_thread");
            let (answer, is_repeated) = keyed_call(world, &world.people.admin, "no key", row, &read);
            assert!(answer.is_success() && !is_repeated);
        }
        // A request without a key leaves no row.
        let rows = || world.database.number("select count(*) from idempotency_keys");
        let before = rows();
        call(&world.service, Some(&world.people.admin), "post_message", &input).unwrap();
        assert_eq!(rows(), before);
    });
}

/// A request without a key runs the same statements as before keys existed.
#[test]
fn a_key_costs_a_look_up_and_a_row() {
    for engine in engines() {
        let seen: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let sink = Arc::clone(&seen);
        let watcher: svc_core::Watcher =
            Arc::new(move |ran: &ExecutedStatement| sink.lock().unwrap().push(ran.sql));
        let world = World::with(engine, Setup { watcher: Some(watcher), ..Setup::default() });
        let thread = world.new_thread(&world.new_channel("Counted"), "Task");
        let input = json!({"thread_id": thread, "body": "x"});
        let run = |key: Option<&str>| {
            let secret = SecretString::from(world.people.admin.as_str());
            let mut request = Request::json(Surface::Rest, Some(secret), input.to_string());
            request.input.key = key.map(|key| IdempotencyKey::parse(key).unwrap());
            seen.lock().unwrap().clear();
            world.service.call(world.service.operation("post_message").unwrap(), request).unwrap();
            std::mem::take(&mut *seen.lock().unwrap())
        };
        // Periodic work may run beside a call, but not beside each of a few.
        let fewest = |keys: [Option<&str>; 3]| keys.map(&run).into_iter().min_by_key(Vec::len).unwrap();
        run(None);
        let without = fewest([None; 3]);
        let with = fewest([Some("a"), Some("b"), Some("c")]);
        let of_keys = |ran: &[&str]| ran.iter().filter(|sql| sql.contains("idempotency_keys")).count();
        assert_eq!((of_keys(&without), of_keys(&with)), (0, 2), "{without:#?}");
        assert_eq!(with.len(), without.len() + 2, "{with:#?}");
    }
}
