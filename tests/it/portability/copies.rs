//! Copies: a file as another workspace, which has the contents of the source, but none of its ids.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::hash::{format_hash, parse_hash, sha256};
use svc_core::id::WorkspaceId;
use svc_tests::database::engines;
use svc_tests::{Setup, World, text};

use crate::conversation::votes::wrong_counts;
use crate::portability::origin::{elsewhere, export, failing_to_show, verify, ways};

const DAY: Duration = Duration::from_secs(86_400);

/// An id of another system.
const FOREIGN: &str = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
/// A hash of another system.
const DIGEST: &str = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Returns the ids and hashes in a text, in their order.
fn names(text: &str) -> Vec<Range<usize>> {
    let is_word = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_alphanumeric);
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let has = |len: usize, fits: fn(&str) -> bool| text.get(at..at + len).is_some_and(fits);
        let len = match () {
            () if has(71, |part| parse_hash(part).is_some()) => 71,
            () if !is_word(at + 36) && has(36, |part| part.parse::<uuid::Uuid>().is_ok()) => 36,
            () => {
                at += 1;
                continue;
            }
        };
        found.push(at..at + len);
        at += len;
    }
    found
}

/// The replacement of each id and hash of the source in a copy.
#[derive(Default)]
struct Pairs(BTreeMap<String, String>);

impl Pairs {
    /// Compares a text of the source with that of the copy.
    fn take(&mut self, old: &str, new: &str) {
        let places = names(old);
        let copied = names(new);
        assert_eq!(places, copied, "{old}\n{new}");
        for place in places {
            let old = &old[place.clone()];
            let new = &new[place];
            let known = self.0.entry(old.to_owned()).or_insert_with(|| new.to_owned());
            assert_eq!(known, new, "{old} has one name");
        }
        assert_eq!(self.applied(old), new);
    }

    /// Returns a text of the source with the replacements of the copy.
    fn applied(&self, old: &str) -> String {
        let mut new = old.to_owned();
        for place in names(old) {
            if let Some(name) = self.0.get(&old[place.clone()]) {
                new.replace_range(place, name);
            }
        }
        new
    }
}

fn of_kind<'f>(file: &'f Value, kind: &str) -> Vec<&'f Value> {
    file["records"].as_array().unwrap().iter().filter(|record| record["record"] == kind).collect()
}

/// Returns a row without the values that differ in a copy: sealed content, keys, digests, and ids that follow
/// from columns.
fn plain(row: &Value) -> Value {
    let mut row = row.clone();
    for name in ["sealed", "content_key", "digest", "obstacle", "came_from"] {
        if row.get(name).is_some_and(|value| !value.is_null()) {
            row[name] = json!("another");
        }
    }
    row
}

fn payload(event: &Value) -> Value {
    serde_json::from_str(event["payload"].as_str().unwrap()).unwrap()
}

/// Compares a file with its copy event by event, and returns all replacements.
fn compared(file: &Value, copy: &Value) -> Pairs {
    let mut pairs = Pairs::default();
    let events = of_kind(file, "events");
    let copied = of_kind(copy, "events");
    for (number, (old, new)) in events.iter().zip(&copied).enumerate() {
        // Each event links to the hash of the one before it, so in the end all hashes are compared. The first
        // one of a copy links to nothing.
        let [old, new] = [old, new].map(|event| {
            let mut event = plain(&payload(event));
            if number == 0 {
                event["$chain"]["prev_hash"] = json!(null);
            }
            event.to_string()
        });
        pairs.take(&old, &new);
    }
    let audited = of_kind(file, "audit");
    let copied = of_kind(copy, "audit");
    audited.iter().zip(copied).for_each(|(old, new)| pairs.take(&old.to_string(), &new.to_string()));
    pairs
}

/// Creates a workspace with one of everything, and many citations.
fn lived_in(world: &World) {
    let workspace = world.id("workspace");
    let thread = world.id("thread");
    let listed = world.admin("list_events", json!({"workspace_id": workspace, "limit": 3}));
    let cited = &listed["items"][2];
    let posted = world.agent("post_message", json!({"thread_id": thread, "body": "at first"}));
    let body = format!(
        "see svc:thread/{thread}\n{} and {FOREIGN}, {} and {DIGEST}",
        text(&posted["id"]).to_uppercase(),
        text(&cited["content_hash"])
    );
    let metadata = json!({
        "citations": [{"uri": "svc:event/3", "content_hash": cited["content_hash"]}],
        text(&posted["id"]): 1, thread.to_string(): {"not": FOREIGN},
    });
    world.agent("post_message", json!({"thread_id": thread, "body": body, "metadata": metadata}));
    world.agent("edit_message", json!({"message_id": posted["id"], "body": format!("then {thread}")}));
    let gone = world.agent("post_message", json!({"thread_id": thread, "body": "withdrawn"}));
    world.admin("delete_message", json!({"message_id": gone["id"]}));
    let channel = world.id("channel");
    let asked = json!({"thread_id": thread, "question": "?", "options": ["a", "b", "c"], "multiple": true});
    let vote = &world.agent("create_vote", asked)["id"];
    world.agent("cast_vote", json!({"vote_id": vote, "options": [0, 2]}));
    world.admin("cast_vote", json!({"vote_id": vote, "options": [2]}));
    let done =
        world.agent("create_thread", json!({"channel_id": channel, "title": format!("after {thread}")}));
    let claim = world.agent("claim_thread", json!({"thread_id": done["id"]}));
    world.agent(
        "report_usage",
        json!({"thread_id": done["id"], "report_id": FOREIGN, "claim_lease_id": claim["claim_lease_id"],
            "tokens": 7, "model": "large"}),
    );
    let result = json!({text(&gone["id"]): [thread], thread.to_string(): "first", "a": FOREIGN});
    world.agent(
        "set_thread_result",
        json!({"thread_id": done["id"], "claim_lease_id": claim["claim_lease_id"], "result": result}),
    );
}

fn import(world: &World, file: &Value, more: Value) -> Value {
    let mut input = json!({"mode": "new", "envelope": file});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.admin("import_workspace", input)
}

fn workspace_of(imported: &Value) -> WorkspaceId {
    text(&imported["workspace_id"]).parse().unwrap()
}

#[test]
fn a_copy_has_everything_and_no_id_or_hash_of_its_source() {
    for (from, to) in ways() {
        let source = World::with(from, Setup { seed: 31, ..Setup::default() });
        lived_in(&source);
        let file = export(&source, source.id("workspace").into());
        let world = elsewhere(to);
        let imported = import(&world, &file, json!({}));
        verify(&world);
        assert!(of_kind(&file, "ballots").len() >= 3);
        assert_eq!(wrong_counts(&world), 0);
        let copy = export(&world, workspace_of(&imported));
        let pairs = compared(&file, &copy);
        let mut copied = copy.clone();
        let last = copied["records"].as_array_mut().unwrap().pop().unwrap();
        let last = payload(&last);
        assert_eq!(last["$chain"]["kind"], "WorkspaceImported");
        for (of_event, of_file) in [
            ("source_workspace_id", &file["header"]["workspace_id"]),
            ("source_lsn", &file["header"]["head"]["lsn"]),
            ("source_hash", &file["header"]["head"]["content_hash"]),
        ] {
            assert_eq!(&last[of_event], of_file);
        }
        assert_eq!(last["attribution"], json!({"actor_id": null, "subject_id": null}));
        // The copy contains nothing of the source, except hashes of results that refer to nothing.
        copied["manifest"] = json!(null);
        let named = |text: &str| -> BTreeSet<String> {
            names(text).into_iter().map(|place| text[place].to_lowercase()).collect()
        };
        let mut left = named(&file.to_string());
        left.remove(&format_hash(&sha256(b"svc.event-log.genesis/1")));
        left = left.intersection(&named(&copied.to_string())).cloned().collect();
        let naming: BTreeSet<String> = of_kind(&file, "results")
            .iter()
            .map(|row| row["result"].as_str().unwrap())
            .filter(|result| !names(result).is_empty())
            .map(|result| format_hash(&sha256(result.as_bytes())))
            .collect();
        assert!(!naming.is_empty());
        for event in of_kind(&file, "events") {
            let hash = payload(event)["result_hash"].as_str().map(str::to_owned);
            hash.filter(|hash| !naming.contains(hash)).map(|hash| left.remove(&hash));
        }
        assert_eq!(left.into_iter().collect::<Vec<String>>(), [FOREIGN], "from {from:?} to {to:?}");
        // Everything else is in it.
        let tables: BTreeSet<&str> =
            file["records"].as_array().unwrap().iter().map(|row| row["record"].as_str().unwrap()).collect();
        assert!(tables.len() > 30, "{tables:?}");
        for table in tables {
            if ["events", "audit", "legal_holds", "oidc_identities"].contains(&table) {
                continue;
            }
            let rows = |file: &Value| of_kind(file, table).into_iter().map(plain).collect::<Vec<Value>>();
            let mut wanted: Vec<String> =
                rows(&file).iter().map(|row| in_order(&pairs.applied(&row.to_string()))).collect();
            let mut found: Vec<String> = rows(&copy).iter().map(|row| in_order(&row.to_string())).collect();
            wanted.sort();
            found.sort();
            assert_eq!(found, wanted, "{table}");
        }
        assert_eq!(of_kind(&copy, "legal_holds").len(), 0);
    }
}

/// Returns a row whose result, which is JSON, has its members in order.
fn in_order(row: &str) -> String {
    let mut row: Value = serde_json::from_str(row).unwrap();
    if let Some(result) = row["result"].as_str() {
        row["result"] = serde_json::from_str(result).unwrap();
    }
    row.to_string()
}

/// Messages, coordination and idempotency work as before, under the new ids.
#[test]
fn work_goes_on_in_a_copy() {
    for (from, to) in ways() {
        let source = World::with(from, Setup { seed: 32, ..Setup::default() });
        let channel = source.new_channel("work");
        let thread = source.new_thread(&channel, "free text");
        let posted = source.agent("post_message", json!({"thread_id": thread, "body": "at first"}));
        let body = format!("svc:message/{} and {FOREIGN}", text(&posted["id"]));
        let cites = source.agent(
            "post_message",
            json!({"thread_id": thread, "body": body, "metadata": {text(&posted["id"]): [thread]}}),
        );
        source.agent("edit_message", json!({"message_id": posted["id"], "body": "then"}));
        let workspace = source.id("workspace");
        source.admin("set_slot_capacity", json!({"workspace_id": workspace, "slot": "gpu", "capacity": 1}));
        let with = |title: &str, items: Value| {
            let footprint = json!({"repo": "acme/app", "mode": "exclusive", "items": items});
            let thread = json!({"channel_id": channel, "title": title, "footprint": footprint});
            source.agent("create_thread", thread)["id"].clone()
        };
        let slot =
            json!([{"kind": "slot", "value": "gpu"}, {"kind": "path", "value": format!("src/{thread}")}]);
        let held = with("held", slot);
        with("behind the slot", json!([{"kind": "slot", "value": "gpu"}]));
        with("behind the path", json!([{"kind": "path", "value": format!("src/{thread}/a")}]));
        let claim = source.agent("claim_thread", json!({"thread_id": held}));
        let next = json!({"channel_id": channel});
        assert_eq!(source.agent("claim_next_thread", next.clone())["title"], "free text");
        assert_eq!(source.agent("claim_next_thread", next)["title"], json!(null));
        let usage = json!({"thread_id": held, "report_id": FOREIGN, "tokens": 7,
            "claim_lease_id": claim["claim_lease_id"]});
        let reported = source.agent("report_usage", usage.clone());

        let file = export(&source, workspace.into());
        let world = elsewhere(to);
        let imported = import(
            &world,
            &file,
            json!({"admin_handle": text(&source.admin("whoami", json!({}))["handle"])}),
        );
        let pairs = compared(&file, &export(&world, workspace_of(&imported)));
        let named =
            |value: &Value| -> Value { serde_json::from_str(&pairs.applied(&value.to_string())).unwrap() };
        let admin = text(&imported["admin_token"]["secret"]);
        let call =
            |token: &str, operation: &str, input: Value| world.call(token, operation, named(&input)).output();
        let messages = |world: &World, token: &str, thread: &Value| {
            world.call(token, "list_messages", json!({"thread_id": thread})).output()
        };
        let said = messages(&source, &source.people.admin, &json!(thread));
        assert_eq!(messages(&world, &admin, &named(&json!(thread))), named(&said));
        let edits = json!({"message_id": posted["id"]});
        let edited = source.admin("list_message_edits", edits.clone());
        assert_eq!(call(&admin, "list_message_edits", edits), named(&edited));
        let found = call(&admin, "get_message", json!({"message_id": cites["id"]}));
        assert!(text(&found["body"]).ends_with(FOREIGN));
        // The same report of the same claim is a repeat.
        let minted = json!({"workspace_id": workspace, "member_id": source.id("agent"),
            "capabilities": ["workspace:read", "workspace:write", "thread:transition", "message:post"]});
        let agent = text(&call(&admin, "mint_token", minted)["secret"]);
        assert_eq!(call(&agent, "report_usage", usage), named(&reported));
        // An existing footprint is the same, and waiting threads are released when the claim ends.
        let footprints = || world.database.number("select count(*) from footprints");
        let before = footprints();
        let again = json!({"channel_id": channel, "title": "again", "footprint": {"repo": "acme/app",
            "mode": "exclusive", "items": [{"kind": "slot", "value": "gpu"}]}});
        call(&agent, "create_thread", again);
        assert_eq!(footprints(), before);
        let next = json!({"channel_id": channel});
        let claimed = |expected: Value| {
            assert_eq!(call(&agent, "claim_next_thread", next.clone())["title"], expected);
        };
        claimed(json!(null));
        call(&admin, "cancel_thread", json!({"thread_id": held, "reason": "done elsewhere"}));
        claimed(json!("behind the slot"));
        claimed(json!("behind the path"));
        claimed(json!(null));
        verify(&world);
    }
}

/// Positions stay, and the pruned part of the log is declared once more.
#[test]
fn a_copy_of_a_pruned_log_begins_where_its_source_does() {
    for (from, to) in ways() {
        let source = World::with(from, Setup { seed: 33, ..Setup::default() });
        let workspace = source.id("workspace");
        let thread = source.id("thread");
        let keep = json!({"workspace_id": workspace, "events_days": 1});
        source.admin("set_retention_policy", keep);
        for body in ["the first", "the second"] {
            source.agent("post_message", json!({"thread_id": thread, "body": body}));
            source.pass(2 * DAY);
        }
        let file = export(&source, workspace.into());
        let floor = file["header"]["floor"].clone();
        assert!(floor.as_i64().unwrap() > 1);
        let world = elsewhere(to);
        let admin = text(&source.admin("whoami", json!({}))["handle"]);
        let imported = import(&world, &file, json!({"admin_handle": admin}));
        assert_eq!(imported["floor"], floor);
        verify(&world);
        let copy = export(&world, workspace_of(&imported));
        compared(&file, &copy);
        let kinds: Vec<Value> = of_kind(&copy, "events")
            .into_iter()
            .map(|event| payload(event)["$chain"]["kind"].clone())
            .collect();
        let last: Vec<&str> = kinds.iter().rev().take(3).map(|kind| kind.as_str().unwrap()).collect();
        assert_eq!(last, ["TokenMinted", "WorkspaceImported", "EventsPruned"]);
        assert_eq!(imported["head_lsn"], json!(file["header"]["head"]["lsn"].as_i64().unwrap() + 2));
        // The copy can be exported and imported like any other.
        let third = elsewhere(from);
        import(&third, &copy, json!({}));
        third.admin("import_workspace", json!({"mode": "restore", "envelope": copy}));
        verify(&third);
        source.pass(2 * DAY);
        verify(&source);
    }
}

/// A copy exists beside its source, and is made once per import id.
#[test]
fn a_copy_is_repeated_by_its_id_and_another_one_is_another_workspace() {
    for engine in engines() {
        let world = World::with(engine, Setup { seed: 34, ..Setup::default() });
        lived_in(&world);
        let workspace = world.id("workspace");
        world.admin("set_workspace_handle", json!({"workspace_id": workspace, "handle": "the-first"}));
        let file = export(&world, workspace.into());
        let first = import(&world, &file, json!({"import_id": "once"}));
        assert_eq!((&first["handle"], &first["mode"]), (&json!(null), &json!("new")));
        assert_eq!(first["source"]["workspace_id"], json!(workspace));
        let again = import(&world, &file, json!({"import_id": "once"}));
        assert_eq!((&again["workspace_id"], &again["created"]), (&first["workspace_id"], &json!(false)));
        let restore = json!({"mode": "restore", "envelope": file, "import_id": "once"});
        world.call(&world.people.admin, "import_workspace", restore).refused(409, "wrong-state");
        let second = import(&world, &file, json!({}));
        assert_ne!(second["workspace_id"], first["workspace_id"]);
        // A copy of a copy names the copy as its source.
        let third = import(&world, &export(&world, workspace_of(&first)), json!({}));
        assert_eq!(third["source"]["workspace_id"], first["workspace_id"]);
        let copy = export(&world, workspace_of(&third));
        let sources: Vec<Value> = of_kind(&copy, "events")
            .into_iter()
            .map(|event| payload(event)["source_workspace_id"].clone())
            .filter(|source| !source.is_null())
            .collect();
        assert_eq!(sources, [json!(workspace), first["workspace_id"].clone()]);
        verify(&world);
    }
}

/// The rows of an interrupted import of a copy are removed, and then it can be made under its id.
#[test]
fn a_copy_that_ended_early_leaves_nothing_and_is_made_anew() {
    for engine in engines() {
        let world = World::with(engine, Setup { seed: 36, ..Setup::default() });
        let workspace = world.id("workspace");
        let file = export(&world, workspace.into());
        let rows = || world.database.number("select count(*) from threads");
        let before = rows();
        let [fail, let_go] = failing_to_show(engine);
        world.database.execute(&fail);
        let input = json!({"mode": "new", "envelope": file, "import_id": "once"});
        assert_eq!(world.call(&world.people.admin, "import_workspace", input.clone()).status, 500);
        world.database.execute(&let_go);
        assert!(rows() > before, "its rows were written");
        let refused = world.call(&world.people.admin, "import_workspace", input.clone());
        refused.refused(503, "overloaded");
        world.pass(Duration::from_secs(60));
        assert_eq!(rows(), before);
        let imported = import(&world, &file, json!({"import_id": "once"}));
        assert_eq!(imported["created"], json!(true));
        verify(&world);
    }
}
