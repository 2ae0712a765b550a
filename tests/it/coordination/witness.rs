//! The control of the witness: it finds nothing in a good log, and each fault that is inserted into it.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::witness::{ClockHistory, events, testimony};
use svc_tests::{World, text};

/// Returns the events of a workspace with every kind of event that the witness follows.
fn good_run() -> Vec<Value> {
    let world = &World::open(Engine::Sqlite);
    let workspace = world.id("workspace");
    let channel = world.new_channel("work");
    let admin = &world.people.admin;
    let agent = &world.people.agent;
    let capacity = json!({"workspace_id": workspace, "slot": "gpu", "capacity": 1});
    world.admin("set_slot_capacity", capacity);
    let thread = |title: &str, repo: &str, kind: &str, value: &str| {
        let footprint = json!({"repo": repo, "items": [{"kind": kind, "value": value}]});
        let input = json!({"channel_id": channel, "title": title, "footprint": footprint});
        text(&world.admin("create_thread", input)["id"])
    };
    let claim = |token: &str, thread: &str| {
        let input = json!({"thread_id": thread, "lease_secs": 600});
        let claimed = world.call(token, "claim_thread", input).output();
        json!({"thread_id": thread, "claim_lease_id": claimed["claim_lease_id"]})
    };
    let act = |token: &str, operation: &str, claim: &Value, more: Value| {
        let mut input = claim.clone();
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.call(token, operation, input).output()
    };
    let one = thread("one", "acme/app", "path", "src/a");
    let two = thread("two", "acme/app", "glob", "src/b*");
    let three = thread("three", "acme/lib", "slot", "GPU");
    claim(agent, &one);
    claim(admin, &two);
    let held = claim(agent, &three);
    act(agent, "release_claim", &held, json!({}));
    let repo = json!({"workspace_id": workspace, "repo": "acme/lib"});
    world.admin("pause_repo", repo.clone());
    world.admin("resume_repo", repo);
    let held = claim(admin, &three);
    act(admin, "renew_claim", &held, json!({"lease_secs": 900}));
    act(admin, "hand_off_claim", &held, json!({"to_member_id": world.id("agent"), "lease_secs": 900}));
    world.clock.advance(Duration::from_secs(700));
    let held = claim(agent, &two);
    act(agent, "set_thread_result", &held, json!({"result": {"done": true}}));
    events(&world.service, admin, &workspace.to_string(), 0)
}

/// A change of the log, and the finding that the witness must report.
struct PlantedChange {
    name: &'static str,
    change: fn(&mut Vec<Value>),
    says: &'static str,
}

/// Returns the last event of a kind in a thread of this title, or in any.
fn last<'e>(events: &'e mut [Value], kind: &str, title: &str) -> &'e mut Value {
    let is_of = |event: &&Value| event["kind"] == kind;
    let created = events.iter().find(|event| event["payload"]["title"] == title);
    let thread = created.map(|event| event["payload"]["$chain"]["thread_id"].clone());
    let is_there =
        |event: &&Value| thread.as_ref().is_none_or(|id| event["payload"]["$chain"]["thread_id"] == *id);
    let found = events.iter().filter(is_of).rfind(is_there).map(|event| event["lsn"].clone());
    events.iter_mut().find(|event| Some(&event["lsn"]) == found.as_ref()).unwrap()
}

/// Removes an event, without a gap in the log.
fn forget(event: &mut Value) {
    event["kind"] = json!("Forgotten");
}

const PLANTS: [PlantedChange; 9] = [
    PlantedChange {
        name: "a second holder",
        change: |events| {
            let released = |event: &&mut Value| event["payload"]["reason"] == "released";
            events.iter_mut().filter(released).for_each(forget);
        },
        says: "holds it",
    },
    PlantedChange {
        name: "a lease that is used again",
        change: |events| {
            let first = last(events, "ThreadAssignmentChanged", "one")["lsn"].clone();
            let claim = events.iter().find(|event| event["payload"]["reason"] == "claimed").unwrap();
            let lease = claim["payload"]["claim_lease_id"].clone();
            assert_ne!(claim["lsn"], first);
            let handed = events.iter_mut().find(|event| event["payload"]["reason"] == "handed_off").unwrap();
            handed["payload"]["claim_lease_id"] = lease;
        },
        says: "was used before",
    },
    PlantedChange {
        name: "an overlap",
        change: |events| {
            let created = last(events, "ThreadCreated", "two");
            created["payload"]["footprint"]["items"][0]["value"] = json!("src/*");
        },
        says: "both touch glob src/*",
    },
    PlantedChange {
        name: "a full slot",
        change: |events| {
            let set = last(events, "SlotCapacitySet", "");
            set["payload"]["slot"] = json!("Gpu");
            set["payload"]["capacity"] = json!(0);
        },
        says: "with the slot gpu",
    },
    PlantedChange {
        name: "a paused repository",
        change: |events| forget(last(events, "RepoResumed", "")),
        says: "which is paused",
    },
    PlantedChange {
        name: "a claim that lapses early",
        change: |events| {
            let expired = last(events, "ClaimExpired", "two");
            expired["payload"]["$chain"]["at"] = json!(1);
        },
        says: "before its lease has ended",
    },
    PlantedChange {
        name: "a result of somebody else",
        change: |events| {
            let result = last(events, "ThreadResultSet", "two");
            result["payload"]["produced_by"] = json!("somebody");
        },
        says: "somebody acts on",
    },
    PlantedChange {
        name: "a result after the lease",
        change: |events| {
            let result = last(events, "ThreadResultSet", "two");
            let at = result["payload"]["$chain"]["at"].as_i64().unwrap();
            result["payload"]["$chain"]["at"] = json!(at + 600_000_000);
        },
        says: "under a lease that has ended",
    },
    PlantedChange {
        name: "an event that is missing",
        change: |events| drop(events.remove(10)),
        says: "are missing",
    },
];

#[test]
fn the_witness_finds_every_planted_fault_and_none_in_a_good_log() {
    let good = good_run();
    let Some(said) = testimony(&good, ClockHistory::Steady) else { return };
    assert_eq!(said["faults"], json!([]), "{said:#}");
    assert!(said["claims"].as_u64() >= Some(6), "{said:#}");
    for PlantedChange { name, change, says } in PLANTS {
        let mut planted = good.clone();
        change(&mut planted);
        let said = testimony(&planted, ClockHistory::Steady).unwrap();
        let faults = said["faults"].as_array().unwrap();
        let is_named = faults.iter().any(|fault| text(&fault["fault"]).contains(says));
        assert!(is_named, "{name}: {said:#}");
    }
}
