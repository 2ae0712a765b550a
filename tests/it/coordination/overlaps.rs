//! The claims that conflict with a footprint, among many and for all kinds of overlap.

use serde_json::{Value, json};
use svc_tests::simulation::Random;
use svc_tests::{on_both_engines, text};

use super::footprints::{claim, footprint, thread_touching};

#[test]
fn each_claim_in_the_way_is_named_however_much_of_it_overlaps() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        let mut held: Vec<String> = (0..12)
            .map(|number| {
                let files: Vec<String> = (0..100).map(|file| format!("s/{number}/{file}")).collect();
                let items: Vec<(&str, &str)> = files.iter().map(|file| ("path", &**file)).collect();
                let thread = thread_touching(world, &channel, "held", &items);
                claim(world, &thread);
                thread
            })
            .collect();
        held.sort();
        let wanted = thread_touching(world, &channel, "wanted", &[("path", "."), ("glob", "s/*")]);
        let named = |conflicts: &Value, item: &str| -> Vec<String> {
            let conflicts = conflicts.as_array().unwrap().iter();
            let mut threads: Vec<String> = conflicts
                .filter(|conflict| conflict["item"]["value"] == item)
                .map(|conflict| text(&conflict["thread_id"]))
                .collect();
            threads.sort();
            threads
        };
        let refused = world.call(&world.people.agent, "claim_thread", json!({"thread_id": wanted}));
        let refusal = refused.refused(409, "footprint-conflict");
        assert!(
            text(&refusal["detail"]).starts_with("the footprint conflicts with 12 other(s)"),
            "{refusal:#}"
        );
        let check = world.agent("check_footprint", json!({"workspace_id": workspace, "thread_id": wanted}));
        let listed = world.agent("list_deferred_threads", json!({"workspace_id": workspace}));
        for conflicts in [&refusal["conflicts"], &check["conflicts"], &listed["items"][0]["obstacles"]] {
            for item in [".", "s/*"] {
                assert_eq!(named(conflicts, item), held);
            }
        }
    });
}

#[test]
fn a_refusal_counts_what_is_in_the_way_once() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        let touched = [("path", "a"), ("path", "b"), ("slot", "gpu")];
        let held = thread_touching(world, &channel, "held", &touched);
        let wanted =
            thread_touching(world, &channel, "wanted", &[&touched[..], &[("slot", "shut")]].concat());
        claim(world, &held);
        for (slot, capacity) in [("gpu", 1), ("shut", 0)] {
            let input = json!({"workspace_id": workspace, "slot": slot, "capacity": capacity});
            world.admin("set_slot_capacity", input);
        }
        world.admin("pause_repo", json!({"workspace_id": workspace, "repo": "acme/app"}));
        let refused = world.call(&world.people.agent, "claim_thread", json!({"thread_id": wanted}));
        let refusal = refused.refused(409, "footprint-conflict");
        let reasons: Vec<&Value> =
            refusal["conflicts"].as_array().unwrap().iter().map(|conflict| &conflict["reason"]).collect();
        assert_eq!(reasons, ["repo-paused", "slot-full", "slot-full", "overlap", "overlap"]);
        let detail = text(&refusal["detail"]);
        assert!(
            detail.starts_with("the footprint conflicts with 3 other(s), among them the claim of"),
            "{detail}"
        );
    });
}

#[test]
fn among_many_globs_of_a_folder_those_that_overlap_are_found() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        let folders = ["", "s/", "s/a/", "t/"];
        let names = ["", "a", "ab", "abc", "a\u{e4}", "a\u{10ffff}", "b", "ba"];
        let values =
            folders.iter().flat_map(|folder| names.iter().map(move |name| format!("{folder}{name}")));
        // The prefix of each item, and its thread.
        let live: Vec<(String, String)> = values
            .flat_map(|value| {
                [("glob", format!("{value}*"), value.clone()), ("path", value.clone(), value + "/")]
            })
            .filter(|(kind, value, _)| *kind == "glob" || !(value.is_empty() || value.ends_with('/')))
            .map(|(kind, value, prefix)| {
                let shared = footprint("acme/app", "shared", &[(kind, &value)]);
                let input = json!({"channel_id": channel, "title": "held", "footprint": shared});
                let thread = text(&world.admin("create_thread", input)["id"]);
                claim(world, &thread);
                (prefix, thread)
            })
            .collect();
        let asked = [
            ("path", "s/abcd", "s/abcd/"),
            ("path", "s/a", "s/a/"),
            ("path", "s/a/a\u{e4}/b", "s/a/a\u{e4}/b/"),
            ("glob", "s/a/a\u{10ffff}\u{10ffff}?", "s/a/a\u{10ffff}\u{10ffff}"),
            ("glob", "s/ab[c]", "s/ab"),
            ("path", "u", "u/"),
        ];
        let check = |mode: &str, items: &[(&str, &str)]| {
            let input = json!({"workspace_id": workspace, "footprint": footprint("acme/app", mode, items)});
            world.agent("check_footprint", input)["conflicts"].as_array().unwrap().clone()
        };
        let items = asked.map(|(kind, value, _)| (kind, value));
        assert_eq!(check("shared", &items), Vec::<Value>::new());
        let conflicts = check("exclusive", &items);
        for (_, value, prefix) in asked {
            let of_item = conflicts.iter().filter(|conflict| conflict["item"]["value"] == value);
            let mut found: Vec<String> = of_item.map(|conflict| text(&conflict["thread_id"])).collect();
            let overlap =
                |(other, _): &&(String, String)| prefix.starts_with(&**other) || other.starts_with(prefix);
            let mut wanted: Vec<String> =
                live.iter().filter(overlap).map(|(_, thread)| thread.clone()).collect();
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{value}");
        }
    });
}

/// Components of paths, so few that many overlap, and some of them hostile.
const PARTS: [&str; 18] = [
    "a",
    "ab",
    "b",
    "A",
    "a*",
    "?",
    "[x]",
    "{a,b}",
    "%",
    "_",
    "\u{e4}",
    "\u{10ffff}",
    ".",
    "0",
    "-",
    "a b",
    "'",
    "\"",
];

fn any_item(random: &mut Random) -> (&'static str, String) {
    let parts: Vec<&str> = (0..1 + random.below(3)).map(|_| random.of(&PARTS)).collect();
    (random.of(&["path", "glob"]), parts.join(random.of(&["/", "/", "//"])))
}

/// Returns the prefix of an item, character by character.
fn prefix((kind, value): &(&str, String)) -> Vec<char> {
    let parts: Vec<&str> = value.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let text: Vec<char> = parts.join("/").chars().collect();
    match text.iter().position(|c| *kind == "glob" && "*?[{".contains(*c)) {
        Some(end) => text[..end].to_vec(),
        None if text.is_empty() => text,
        None => text.into_iter().chain(['/']).collect(),
    }
}

#[test]
fn whatever_items_look_like_those_overlap_of_which_one_begins_with_the_other() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        let random = &mut Random(3);
        // The mode, the item, and the thread.
        let mut live: Vec<(&str, (&str, String), String)> = Vec::new();
        let in_the_way = |live: &[(&str, (&str, String), String)], mode: &str, item: &(&str, String)| {
            let overlapping = live.iter().filter(|(held_in, held, _)| {
                let is_exclusive = mode == "exclusive" || *held_in == "exclusive";
                is_exclusive && prefix(item).iter().zip(&prefix(held)).all(|(a, b)| a == b)
            });
            let mut threads: Vec<String> = overlapping.map(|(.., thread)| thread.clone()).collect();
            threads.sort();
            threads
        };
        let mut refused = 0;
        let mut found = 0;
        for _ in 0..150 {
            let mode = random.of(&["shared", "shared", "exclusive"]);
            let item = any_item(random);
            let wanted = in_the_way(&live, mode, &item);
            let touched = footprint("acme/app", mode, &[(item.0, &item.1)]);
            let input = json!({"workspace_id": workspace, "footprint": touched});
            let conflicts = world.agent("check_footprint", input)["conflicts"].clone();
            let conflicts = conflicts.as_array().unwrap();
            let mut named: Vec<String> =
                conflicts.iter().map(|conflict| text(&conflict["thread_id"])).collect();
            named.sort();
            assert_eq!(named, wanted, "{mode} {item:?}");
            found += named.len();
            let input = json!({"channel_id": channel, "title": "wanted", "footprint": touched});
            let thread = text(&world.admin("create_thread", input)["id"]);
            let claimed = world.call(&world.people.agent, "claim_thread", json!({"thread_id": thread}));
            let is_free = wanted.is_empty();
            assert_eq!(
                claimed.status,
                if is_free { 200 } else { 409 },
                "{mode} {item:?}: {:#}",
                claimed.body
            );
            if is_free {
                live.push((mode, item, thread));
            } else {
                refused += 1;
            }
        }
        assert!(live.len() > 20 && refused > 20 && found > refused, "{} {refused} {found}", live.len());
    });
}
