//! Personal data of a member: follows, mutes, read positions and inbox items.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::capability::Capability;
use svc_core::op::{Effect, Feature, Operation, Read, read};
use svc_core::{Engine, Result};
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::{Setup, World};

use super::{
    AnswerSource, check_discreet, is_discreet, is_personal, on_each_engine, read_all, trail_after, trail_end,
    viewers,
};
use crate::op::asking::CallPath;

/// The output of an operation that wrongly reads personal data of others: the control.
#[derive(Serialize, JsonSchema)]
struct Counts {
    /// The follows of all members.
    follows: i64,
    /// Items in all inboxes.
    items: i64,
    /// Read items among them.
    read: i64,
}

/// Counts personal data of others.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountLeaked {}

svc_core::without_requests! { CountLeaked }

const COUNT: &str = "select (select count(*) from follows), count(*), count(read_at) from inbox";

fn count_leaked(cx: &Read<'_>, _: &CountLeaked) -> Result<Counts> {
    let (follows, items, read): (i64, i64, i64) = cx.one(COUNT, &[])?.unwrap_or_default();
    Ok(Counts { follows, items, read })
}

fn features() -> Vec<Feature> {
    let leak = read("count_leaked", count_leaked)
        .title("Count what is others' own")
        .get("/leaked")
        .needs(&[Capability::WorkspaceRead])
        .example(|_| json!({}));
    vec![Feature::new().operations("leaks", vec![leak])]
}

/// Returns the parts of an answer that must not depend on anything personal.
///
/// It omits the rows that reading adds to the trail, and values derived from them; [`check_discreet`] shows
/// that these rows reveal nothing.
fn settled(world: &World, name: &str, answer: &Value) -> Value {
    let is_of_a_read = |row: &Value| {
        let mut operations = world.service.table().operations();
        let action = row["action"].as_str();
        let named = row["metadata"]["operation"].as_str();
        operations.any(|operation| {
            let is_named = named.is_some_and(|named| named.ends_with(operation.name()));
            let is_own = is_personal(operation) && is_named;
            is_own || (operation.access().audited.is_some() && operation.access().audited == action)
        })
    };
    let mut answer = answer.clone();
    match name {
        // The status counts requests and connections, of all workspaces.
        "get_operator_status" => Value::Null,
        "list_audit" | "list_operator_audit" => {
            let rows = answer["items"].as_array_mut().into_iter().flatten();
            let rows = rows.filter(|row| !is_of_a_read(row)).map(|row| {
                row["seq"].take();
                row.clone()
            });
            rows.collect()
        }
        "export_workspace" => {
            let records = answer["records"].as_array().into_iter().flatten();
            records.filter(|record| record["record"] != "audit").cloned().collect()
        }
        _ => answer,
    }
}

/// Returns the operations whose answers differ from before.
fn differences(
    world: &World,
    before: &BTreeMap<AnswerSource, Vec<Value>>,
    after: &BTreeMap<AnswerSource, Vec<Value>>,
) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for (asked, wanted) in before {
        let settle = |answers: &Vec<Value>| -> Vec<Value> {
            answers.iter().map(|answer| settled(world, asked.0, answer)).collect()
        };
        let wanted = settle(wanted);
        let told = settle(&after[asked]);
        if wanted != told {
            let differ = wanted.iter().zip(&told).find(|(wanted, told)| wanted != told);
            println!("{asked:?}: {differ:#?}");
            found.insert(asked.0);
        }
    }
    found
}

/// Checks that no other member finds the follows, mutes, read positions or items of a member.
fn what_is_personal_is_found_by_nobody_else(engine: Engine) {
    let world = World::with(engine, Setup { seed: 90, features, ..Setup::default() });
    let viewers = viewers(&world);
    let owner = &*world.people.admin;
    let workspace = world.id("workspace");
    let mention = world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "@ada, look"}));
    let example = |operation: &Operation| operation.docs().example(&world.fixture).unwrap();
    let reads = |operation: &Operation| operation.effect() == Effect::Read;
    let of_others = || read_all(&world, &viewers, &example, reads);
    let own = || {
        let of = |operation: &Operation| reads(operation) && is_personal(operation);
        read_all(&world, &[("the member itself", owner.to_owned())], &example, of)
    };
    let mut ws = Ws::subscribe(world.address(), &first_frame(&viewers[0].1, workspace, None));
    assert_eq!(ws.frame()["type"], "subscribe_ack");
    // Read in the background, so that the server's pings are answered.
    let heard = std::thread::spawn(move || ws.frame());
    let mut wanted = of_others();
    let mut own_before = own();
    assert_eq!(differences(&world, &wanted, &of_others()), BTreeSet::new(), "nothing was done in between");

    let tables = world.database.dump();
    let lsn = world.lsn();
    let mut done = BTreeSet::new();
    for last in [false, true] {
        let changes = |operation: &&Operation| {
            let is_last = operation.effect() == Effect::Destructive;
            is_personal(operation) && !operation.effect().is_read_only() && is_last == last
        };
        for operation in world.service.table().operations().filter(changes) {
            for way in CallPath::over_the_wire(operation) {
                let before = trail_end(&world);
                let answer = way.ask(&world, owner, operation, &example(operation));
                // An operation may need a value that only its member knows.
                assert!(answer.status < 500, "{operation:?}: {:#}", answer.body);
                done.extend(answer.is_success().then_some(operation.name()));
                check_discreet(&world, operation, before);
            }
        }
        let mark = world.operation("mark_inbox_read");
        let read = json!({"lsns": [mention["lsn"]]});
        let before = trail_end(&world);
        CallPath::Rest.ask(&world, owner, mark, &read).output();
        check_discreet(&world, mark, before);
        let found = of_others();
        let own_now = own();
        assert_eq!(differences(&world, &wanted, &found), BTreeSet::from(["count_leaked"]));
        assert_ne!(own_before, own_now, "its member finds what was done");
        (wanted, own_before) = (found, own_now);
    }
    for operation in ["follow", "mark_mentions_read", "set_notification_preferences", "unfollow"] {
        assert!(done.contains(operation), "{done:?}");
    }
    assert_eq!(world.lsn(), lsn, "no event tells of it");
    others_are_refused(&world, &viewers);

    // Rows that other members caused: their own answers are the same without these rows.
    let shared = ["audit", "heads"];
    let changed = world.database.dump();
    let changed =
        changed.iter().filter(|(table, rows)| !shared.contains(&&***table) && tables[*table] != **rows);
    let changed: BTreeSet<&str> = changed.map(|(table, _)| table.as_str()).chain(["follows"]).collect();
    for table in ["inbox", "preferences"] {
        assert!(changed.contains(table), "{changed:?}");
    }
    let member = world.database.id(world.id("admin"));
    for table in changed {
        world.database.execute(&format!("delete from {table} where member_id = {member}"));
    }
    assert_eq!(differences(&world, &wanted, &of_others()), BTreeSet::from(["count_leaked"]));
    assert_ne!(own_before, own());

    // A control of the trail: a change that affects others names its place.
    let before = trail_end(&world);
    let posted = CallPath::Rest.ask(
        &world,
        &world.people.agent,
        world.operation("post_message"),
        &json!({"thread_id": world.id("thread"), "body": "for all"}),
    );
    let row = trail_after(&world, before);
    assert!(!is_discreet(world.operation("post_message"), &row[0]), "{row:?}");
    assert_eq!(heard.join().unwrap()["lsn"], posted.output()["lsn"], "no frame tells of it");
}

/// Checks that a caller that names another member is refused, whether that member exists or not.
fn others_are_refused(world: &World, viewers: &[(&'static str, String)]) {
    let members = [world.id("admin").to_string(), uuid::Uuid::from_u128(7).to_string()];
    for operation in world.service.table().operations().filter(|operation| is_personal(operation)) {
        for way in CallPath::over_the_wire(operation) {
            for (who, token) in viewers {
                let answers = members.clone().map(|member| {
                    let mut input = operation.docs().example(&world.fixture).unwrap();
                    input["member_id"] = json!(member);
                    way.ask(world, token, operation, &input)
                });
                assert_eq!(answers[0].body, answers[1].body, "{who} calls {operation:?} by {way:?}");
                answers.into_iter().for_each(|answer| drop(answer.refused(403, "forbidden")));
            }
        }
    }
}

on_each_engine!(personal, what_is_personal_is_found_by_nobody_else);
