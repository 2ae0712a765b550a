//! Lists of threads by whether they are claimed and whether a member could claim them, with the reasons.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::{Person, World, on_both_engines, text};

use super::footprints::{claim, thread_touching};

/// Returns all ids of a list, in pages of `limit`.
fn listed(world: &World, token: &str, operation: &str, mut input: Value, id: &str) -> Vec<String> {
    input["workspace_id"] = json!(world.id("workspace"));
    let mut found = Vec::new();
    loop {
        let page = world.call(token, operation, input.clone()).output();
        found.extend(page["items"].as_array().unwrap().iter().map(|item| text(&item[id])));
        if page["next_cursor"].is_null() {
            return found;
        }
        input["cursor"] = page["next_cursor"].clone();
    }
}

fn threads(world: &World, token: &str, filter: Value) -> BTreeSet<String> {
    let found = listed(world, token, "list_workspace_threads", filter, "id");
    let set: BTreeSet<String> = found.iter().cloned().collect();
    assert_eq!(set.len(), found.len(), "each once");
    set
}

/// Creates one thread in each state that matters for a claim, and a member that has every skill.
fn one_of_each(world: &World) -> Person {
    let channel = world.new_channel("queue");
    let create = |title: &str, more: Value| {
        let mut input = json!({"channel_id": channel, "title": title});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        text(&world.admin("create_thread", input)["id"])
    };
    let free = create("free", json!({}));
    create("waits", json!({"depends_on": [free]}));
    create("skilled", json!({"required_skills": ["cobol"]}));
    create("twice skilled", json!({"required_skills": ["ada", "cobol"]}));
    create("unskilled", json!({"required_skills": ["telepathy"]}));
    let spent = create("spent", json!({}));
    world.admin("update_thread_budget", json!({"thread_id": spent, "max_attempts": 0}));
    claim(world, &thread_touching(world, &channel, "held", &[("path", "src")]));
    thread_touching(world, &channel, "obstructed", &[("path", "src/a")]);
    thread_touching(world, &channel, "unobstructed", &[("path", "docs")]);
    let lapsed = create("lapsed", json!({}));
    world.agent("claim_thread", json!({"thread_id": lapsed, "lease_secs": 10}));
    let done = create("done", json!({}));
    world.agent("claim_thread", json!({"thread_id": done}));
    world.agent("set_thread_result", json!({"thread_id": done, "result": {}}));
    let closed = create("closed", json!({}));
    world.admin("transition_thread", json!({"thread_id": closed, "action": "close"}));
    let old = world.new_channel("old");
    world.new_thread(&old, "archived");
    world.admin("archive_channel", json!({"channel_id": old}));
    world.new_thread(&world.new_private_channel("hidden"), "hidden");
    world.clock.advance(Duration::from_secs(20));
    let person = Person::new(world, "polymath");
    world.call(&person.token, "set_skills", json!({"skills": ["ada", "cobol"]})).output();
    person
}

/// Returns the reasons why the member cannot claim a thread.
fn refusals(world: &World, token: &str, thread: &str) -> Vec<Value> {
    let context = world.call(token, "get_thread_context", json!({"thread_id": thread})).output();
    context["claim_refusals"].as_array().unwrap().clone()
}

#[test]
fn threads_are_claimable_if_a_member_with_every_skill_can_claim_them() {
    on_both_engines(|world| {
        let person = one_of_each(world);
        let of = |filter: Value| threads(world, &person.token, filter);
        let all = of(json!({}));
        let claimable = of(json!({"claimable": true}));
        let others = of(json!({"claimable": false}));
        let wanted: BTreeSet<String> =
            all.iter().filter(|thread| refusals(world, &person.token, thread).is_empty()).cloned().collect();
        assert_eq!(claimable, wanted);
        assert_eq!(others, &all - &claimable);
        assert!(claimable.len() >= 4 && others.len() >= 8, "{} {}", claimable.len(), others.len());
        for limit in [1, 3] {
            assert_eq!(of(json!({"claimable": true, "limit": limit})), claimable);
            assert_eq!(of(json!({"claimable": false, "limit": limit})), others);
        }
        assert_eq!(of(json!({"claimable": true, "state": "open"})), claimable);
        assert!(of(json!({"claimable": true, "state": "closed"})).is_empty());
        let seen_by_admin = threads(world, &world.people.admin, json!({"claimable": true}));
        assert!(seen_by_admin.is_superset(&claimable) && seen_by_admin.len() > claimable.len());
        let hidden = &seen_by_admin - &claimable;
        assert!(hidden.is_disjoint(&all), "in channels that the member does not see");
    });
}

#[test]
fn threads_are_claimed_while_somebody_holds_a_live_claim() {
    on_both_engines(|world| {
        let person = one_of_each(world);
        let of = |filter: Value| threads(world, &person.token, filter);
        let all = of(json!({}));
        let claimed = of(json!({"claimed": true}));
        let held = listed(world, &person.token, "list_active_claims", json!({}), "thread_id");
        assert_eq!(claimed, held.into_iter().collect());
        assert_eq!(of(json!({"claimed": false})), &all - &claimed);
        let agent = json!(world.id("agent"));
        assert_eq!(of(json!({"claimed": true, "assignee_id": agent})), of(json!({"assignee_id": agent})));
        assert_eq!(of(json!({"claimable": false, "claimed": true})), claimed);
        for nothing in [
            json!({"claimed": false, "assignee_id": agent}),
            json!({"claimable": true, "claimed": true}),
            json!({"claimable": true, "assignee_id": agent}),
        ] {
            assert!(of(nothing.clone()).is_empty(), "{nothing}");
        }
        let free = of(json!({"claimable": true}));
        assert_eq!(of(json!({"claimable": true, "claimed": false})), free);
        assert_eq!(of(json!({"claimable": false, "claimed": false})), &(&all - &claimed) - &free);
    });
}

fn reason(refusal: &Value) -> &str {
    refusal["reason"].as_str().unwrap_or_default()
}

/// A waiting thread is in one of the two lists: it can be claimed, or its obstacles are listed.
#[test]
fn what_waits_can_be_claimed_or_has_every_obstacle_named() {
    on_both_engines(|world| {
        let person = one_of_each(world);
        let token = &person.token;
        let any = listed(world, token, "list_deferred_threads", json!({"reason": "any"}), "thread_id");
        let deferred: BTreeSet<String> = any.into_iter().collect();
        let mut by_each = BTreeSet::new();
        for reason in ["dependencies", "skills", "budget", "dead-letter"] {
            let found = listed(world, token, "list_deferred_threads", json!({"reason": reason}), "thread_id");
            by_each.extend(found);
        }
        assert_eq!(deferred, by_each);
        let claimable = threads(world, token, json!({"claimable": true}));
        assert!(deferred.is_disjoint(&claimable));
        let waiting = threads(world, token, json!({"claimed": false, "state": "open"}));
        let left: BTreeSet<String> = &(&waiting - &claimable) - &deferred;
        assert!(left.len() >= 2, "one is done, and one in an archived channel");
        for thread in &left {
            let refusals = refusals(world, token, thread);
            let waits = |refusal: &&Value| !["has-result", "channel-archived"].contains(&reason(refusal));
            assert_eq!(refusals.iter().find(waits), None, "it does not wait to be claimed");
        }
        let input = json!({"workspace_id": world.id("workspace"), "reason": "any"});
        let page = world.call(token, "list_deferred_threads", input).output();
        let reasons = |title: &str| -> Vec<String> {
            let found = page["items"].as_array().unwrap().iter().find(|thread| thread["title"] == title);
            let obstacles = found.unwrap()["obstacles"].as_array().unwrap().iter();
            obstacles.map(|obstacle| text(&obstacle["reason"])).collect()
        };
        for (title, wanted) in [
            ("waits", "dependencies"),
            ("unskilled", "skills"),
            ("spent", "budget"),
            ("obstructed", "overlap"),
        ] {
            assert_eq!(reasons(title), [wanted], "{title}");
        }
    });
}

/// Skills count while an active member has all of them.
#[test]
fn skills_of_who_is_frozen_do_not_count() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = json!({"channel_id": channel, "title": "skilled", "required_skills": ["cobol"]});
        let skilled = text(&world.admin("create_thread", thread)["id"]);
        let person = Person::new(world, "veteran");
        world.call(&person.token, "set_skills", json!({"skills": ["cobol"]})).output();
        let admin = &world.people.admin;
        let check = |can_work: bool, when: &str| {
            let claimable = threads(world, admin, json!({"claimable": true}));
            assert_eq!(claimable.contains(&skilled), can_work, "{when}");
            let others = threads(world, admin, json!({"claimable": false}));
            assert_eq!(others.contains(&skilled), !can_work, "{when}");
            let of = json!({"reason": "skills"});
            let deferred = listed(world, admin, "list_deferred_threads", of, "thread_id");
            assert_eq!(deferred.contains(&skilled), !can_work, "{when}");
        };
        let member = json!({"member_id": person.id});
        check(true, "at work");
        world.admin("freeze_member", member.clone());
        check(false, "frozen");
        world.admin("unfreeze_member", member);
        check(true, "at work again");
    });
}
