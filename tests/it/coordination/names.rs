//! The names in footprints: equivalent spellings are one name, and invisible characters are refused.

use serde_json::{Value, json};
use svc_tests::{World, answer_of, call, on_both_engines, text};

use super::footprints::{claim, footprint, thread_touching};

/// Two spellings of the same name, with the kind of the item and the stored form.
const SAME: [(&str, &str, &str, &str); 8] = [
    ("path", "docs/\u{fc}ber.md", "docs/u\u{308}ber.md", "docs/\u{fc}ber.md"),
    ("path", "docs/\u{d55c}", "./docs/\u{1112}\u{1161}\u{11ab}/", "docs/\u{d55c}"),
    ("glob", "\u{e4}/**", "a\u{308}/**", "\u{e4}/**"),
    ("branch", "main", "refs/heads/main", "main"),
    ("branch", "\u{e4}/x", "refs/heads/a\u{308}/x", "\u{e4}/x"),
    ("lane", "\u{e4}", "a\u{308}", "\u{e4}"),
    ("crate", "\u{212b}", "A\u{30a}", "\u{c5}"),
    ("slot", "\u{e4}", "a\u{308}", "\u{e4}"),
];

/// Returns names that items of a kind cannot have.
fn refused_names(kind: &str) -> Vec<String> {
    let hidden =
        ["\u{200b}", "\u{ad}", "\u{feff}", "\u{202e}", "\u{2066}", "\u{fe0f}", "\u{e0061}", "\u{3164}"];
    let control = ["\0", "\n", "\t", "\u{7f}", "\u{85}", "\u{2028}"];
    let mut names: Vec<String> =
        [&hidden[..], &control].concat().iter().map(|c| format!("ma{c}in")).collect();
    let blank = [" ", "\u{a0}", "\u{3000}", "\u{2003}"];
    names.extend(blank.iter().flat_map(|c| [format!("{c}main"), format!("main{c}"), (*c).to_owned()]));
    let more: &[&str] = match kind {
        "branch" => {
            &["refs/heads/", "a b", "a..b", "a~1", "a^", "a:b", "a*", "-a", "/a", "a/", "a.lock", "@", "HEAD"]
        }
        "path" | "glob" => &["../a", "a\\b", "./ a"],
        _ => &[],
    };
    names.extend(more.iter().map(|name| (*name).to_owned()));
    names
}

/// Returns the conflicts that a footprint would have.
fn conflicts(world: &World, kind: &str, value: &str) -> Value {
    let footprint = footprint("acme/app", "exclusive", &[(kind, value)]);
    let input = json!({"workspace_id": world.id("workspace"), "footprint": footprint});
    world.agent("check_footprint", input)["conflicts"].clone()
}

fn set_capacity(world: &World, slot: &str, capacity: i64) {
    let input = json!({"workspace_id": world.id("workspace"), "slot": slot, "capacity": capacity});
    world.admin("set_slot_capacity", input);
}

#[test]
fn two_ways_to_write_one_thing_conflict_in_every_kind_of_item() {
    on_both_engines(|world| {
        set_capacity(world, "A\u{308}", 1);
        for (number, (kind, one, other, stored)) in SAME.into_iter().enumerate() {
            let channel = world.new_channel(&format!("names-{number}"));
            for (first, second) in [(one, other), (other, one)] {
                let held = thread_touching(world, &channel, "held", &[(kind, first)]);
                let wanted = thread_touching(world, &channel, "wanted", &[(kind, second)]);
                for thread in [&held, &wanted] {
                    let shown = world.agent("get_thread_footprint", json!({"thread_id": thread}));
                    assert_eq!(
                        shown["items"],
                        json!([{"kind": kind, "value": stored}]),
                        "{first:?} {second:?}"
                    );
                }
                let claimed = claim(world, &held);
                let refusal = world.call(&world.people.agent, "claim_thread", json!({"thread_id": wanted}));
                let refusal = refusal.refused(409, "footprint-conflict");
                assert_eq!(refusal["conflicts"][0]["item"]["value"], stored, "{refusal}");
                assert_eq!(conflicts(world, kind, second)[0]["item"]["value"], stored);
                // Once it is free, the waiting thread is claimed next.
                let next = |title: Value| {
                    let taken = world.agent("claim_next_thread", json!({"channel_id": channel}));
                    assert_eq!(taken["title"], title, "{first:?} {second:?}");
                    taken
                };
                next(Value::Null);
                let lease = json!({"thread_id": held, "claim_lease_id": claimed["claim_lease_id"]});
                world.agent("set_thread_footprint", json!({"thread_id": held, "items": []}));
                let taken = next(json!("wanted"));
                for (thread, lease) in
                    [(&held, lease["claim_lease_id"].clone()), (&wanted, taken["claim_lease_id"].clone())]
                {
                    let ends = json!({"thread_id": thread, "claim_lease_id": lease, "result": {}});
                    world.agent("set_thread_result", ends);
                }
            }
        }
        // Case counts, except for slots.
        let thread = thread_touching(world, &world.new_channel("case"), "held", &[("branch", "Main")]);
        claim(world, &thread);
        assert_eq!(conflicts(world, "branch", "main"), json!([]));
    });
}

#[test]
fn a_footprint_is_stored_once_whichever_way_it_is_written() {
    on_both_engines(|world| {
        let items = [("path", "\u{e4}"), ("path", "a\u{308}"), ("branch", "refs/heads/x"), ("branch", "x")];
        let thread = thread_touching(world, &world.new_channel("once"), "once", &items);
        let shown = world.agent("get_thread_footprint", json!({"thread_id": thread}));
        let wanted = json!([{"kind": "path", "value": "\u{e4}"}, {"kind": "branch", "value": "x"}]);
        assert_eq!(shown["items"], wanted);
        let lsn = world.lsn();
        let mut again = footprint("acme/app", "exclusive", &items);
        again["thread_id"] = json!(thread);
        world.agent("set_thread_footprint", again);
        assert_eq!(world.lsn(), lsn, "it is the same footprint");
    });
}

#[test]
fn what_nobody_sees_is_refused_wherever_a_footprint_enters() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let thread = world.id("thread");
        let malformed = |operation: &str, input: Value| {
            let refusal = world.call(&world.people.admin, operation, input.clone());
            assert_eq!(refusal.status, 400, "{operation} {input}");
            refusal.refused(400, "malformed-request");
        };
        for kind in ["path", "glob", "branch", "lane", "crate", "slot"] {
            for name in refused_names(kind) {
                let bad = footprint("acme/app", "exclusive", &[(kind, &name)]);
                let created = json!({"channel_id": world.id("channel"), "title": "x", "footprint": bad});
                malformed("create_thread", created);
                let mut set = bad.clone();
                set["thread_id"] = json!(thread);
                malformed("set_thread_footprint", set);
                malformed("check_footprint", json!({"workspace_id": workspace, "footprint": bad}));
                if kind == "slot" {
                    let slot = json!({"workspace_id": workspace, "slot": name, "capacity": 1});
                    malformed("set_slot_capacity", slot);
                    malformed("clear_slot_capacity", json!({"workspace_id": workspace, "slot": name}));
                }
            }
        }
        for repo in
            [" acme/app", "acme/app ", "acme/a\u{200b}pp", "acme/app\u{feff}", "acme/\u{e4}pp", "acme/a\tpp"]
        {
            let mut set = footprint(repo, "exclusive", &[("path", "a")]);
            set["thread_id"] = json!(thread);
            malformed("set_thread_footprint", set);
            for operation in
                ["pause_repo", "resume_repo", "list_active_claims", "claim_next_workspace_thread"]
            {
                malformed(operation, json!({"workspace_id": workspace, "repo": repo}));
            }
            malformed("claim_next_thread", json!({"channel_id": world.id("channel"), "repo": repo}));
        }
    });
}

/// Gives a stored footprint and a stored slot forms that are no longer accepted.
fn make_old(world: &World) {
    for (table, column, new, old) in [
        ("footprints", "items", "docs/\u{fc}ber", "docs/u\u{308}ber"),
        ("footprints", "items", "\"main\"", "\"refs/heads/main\""),
        ("slots", "slot_key", "\u{fc}", "u\u{308}"),
    ] {
        let sql = format!("update {table} set {column} = replace({column}, '{new}', '{old}')");
        world.database.execute(&sql);
    }
}

#[test]
fn what_was_stored_in_another_form_is_shown_as_it_is_and_compared_like_the_rest() {
    on_both_engines(|world| {
        let channel = world.new_channel("old");
        let items = [("path", "docs/\u{fc}ber"), ("branch", "main")];
        let old = thread_touching(world, &channel, "old", &items);
        set_capacity(world, "\u{fc}", 0);
        make_old(world);
        let shown = world.agent("get_thread_footprint", json!({"thread_id": old}));
        let values: Vec<String> =
            shown["items"].as_array().unwrap().iter().map(|item| text(&item["value"])).collect();
        assert_eq!(values, ["docs/u\u{308}ber", "refs/heads/main"]);
        let claimed = claim(world, &old);
        for (kind, value) in items {
            assert_eq!(conflicts(world, kind, value)[0]["reason"], "overlap", "{value}");
        }
        let wanted = thread_touching(world, &channel, "wanted", &[("branch", "main")]);
        let next = || world.agent("claim_next_thread", json!({"channel_id": channel}));
        assert_eq!(next()["title"], Value::Null);
        let ends = json!({"thread_id": old, "claim_lease_id": claimed["claim_lease_id"], "result": {}});
        world.agent("set_thread_result", ends);
        assert_eq!(next()["id"], json!(wanted), "it waited behind the other form");

        // Another service has not cached the former capacity.
        let service = world.another_service(91);
        let ask = |operation: &str, input: Value| {
            answer_of(call(&service, Some(&world.people.admin), operation, &input)).output()
        };
        let workspace = world.id("workspace");
        let slot = json!({"items": [{"kind": "slot", "value": "\u{dc}"}]});
        let check = json!({"workspace_id": workspace, "footprint": slot});
        assert_eq!(ask("check_footprint", check.clone())["conflicts"][0]["reason"], "slot-full");
        let capacity = json!({"workspace_id": workspace, "slot": "\u{fc}", "capacity": 1});
        assert_eq!(ask("set_slot_capacity", capacity)["capacity"], 1);
        assert_eq!(ask("check_footprint", check)["conflicts"], json!([]));
        ask("clear_slot_capacity", json!({"workspace_id": workspace, "slot": "\u{fc}"}));
        let listed = ask("list_slots", json!({"workspace_id": workspace}));
        assert!(!listed.to_string().contains('\u{308}'), "{listed}");
    });
}
