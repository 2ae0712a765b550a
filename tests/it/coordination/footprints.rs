//! Footprints, slots and pauses: obstacles to a claim, and their removal.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::process::until;
use svc_tests::{World, on_both_engines, text};

/// Creates a thread that will touch `items` of a repository.
pub(super) fn thread_touching(world: &World, channel: &str, title: &str, items: &[(&str, &str)]) -> String {
    let footprint = footprint("acme/app", "exclusive", items);
    let input = json!({"channel_id": channel, "title": title, "footprint": footprint});
    text(&world.admin("create_thread", input)["id"])
}

pub(super) fn footprint(repo: &str, mode: &str, items: &[(&str, &str)]) -> Value {
    let items: Vec<Value> = items.iter().map(|(kind, value)| json!({"kind": kind, "value": value})).collect();
    json!({"repo": repo, "mode": mode, "items": items})
}

/// Returns the input of `set_thread_footprint`.
fn set(thread: &str, footprint: Value) -> Value {
    let mut input = footprint;
    input["thread_id"] = json!(thread);
    input
}

pub(super) fn claim(world: &World, thread: &str) -> Value {
    world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 600}))
}

fn release(world: &World, claim: &Value) {
    world
        .agent("release_claim", json!({"thread_id": claim["id"], "claim_lease_id": claim["claim_lease_id"]}));
}

/// Claims the next thread of a channel. Returns its title, or null if none is ready.
fn next(world: &World, channel: &str) -> Value {
    world.agent("claim_next_thread", json!({"channel_id": channel, "lease_secs": 600}))["title"].clone()
}

/// Returns the titles of the deferred threads, each with the reasons of its obstacles.
fn deferred(world: &World, more: Value) -> Vec<(String, Vec<String>)> {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let page = world.agent("list_deferred_threads", input);
    let reasons = |thread: &Value| {
        let obstacles = thread["obstacles"].as_array().unwrap();
        obstacles.iter().map(|obstacle| text(&obstacle["reason"])).collect()
    };
    page["items"].as_array().unwrap().iter().map(|thread| (text(&thread["title"]), reasons(thread))).collect()
}

#[test]
fn a_claim_that_overlaps_another_is_refused_and_stores_nothing() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let held = thread_touching(world, &channel, "held", &[("path", "src/parser"), ("lane", "docs")]);
        let wanted = thread_touching(world, &channel, "wanted", &[("glob", "src/**"), ("lane", "docs")]);
        let holding = claim(world, &held);
        let before = world.database.dump();
        let refused = world.call(&world.people.agent, "claim_thread", json!({"thread_id": wanted}));
        assert_eq!((refused.status, refused.code()), (409, "footprint-conflict"), "{:#}", refused.body);
        let conflict = |kind: &str, value: &str| {
            json!({
                "reason": "overlap", "item": {"kind": kind, "value": value},
                "holder": world.id("agent"), "lease_expires_at": holding["assignment_expires_at"],
                "thread_id": held,
            })
        };
        let both = json!([conflict("glob", "src/**"), conflict("lane", "docs")]);
        assert_eq!(refused.body["conflicts"], both);
        let workspace = world.id("workspace");
        for input in [
            json!({"workspace_id": workspace, "thread_id": wanted}),
            json!({"workspace_id": workspace, "footprint": {
                "repo": "https://host.example/ACME/App.git", "mode": "shared",
                "items": [{"kind": "glob", "value": "./src/**"}, {"kind": "lane", "value": "docs"}],
            }}),
        ] {
            assert_eq!(world.agent("check_footprint", input)["conflicts"], both);
        }
        let own = json!({"workspace_id": workspace, "thread_id": held});
        assert_eq!(world.agent("check_footprint", own)["conflicts"], json!([]), "not by its own claim");
        assert_eq!(world.database.dump(), before);
        assert_eq!(next(world, &channel), Value::Null);
        release(world, &holding);
        assert_eq!(claim(world, &wanted)["assignee_id"], json!(world.id("agent")));
    });
}

#[test]
fn a_footprint_is_normalised_stored_and_cleared() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.new_channel("queue"), "a task");
        let sent =
            footprint("git@host.example:Acme/App.git", "shared", &[("path", "./src//a/"), ("path", "src/a")]);
        let stored = footprint("Acme/App", "shared", &[("path", "src/a")]);
        assert_eq!(world.agent("set_thread_footprint", set(&thread, sent.clone())), stored);
        let read = world.agent("get_thread", json!({"thread_id": thread}));
        assert_eq!(read["footprint"], stored);
        assert_eq!(world.agent("get_thread_footprint", json!({"thread_id": thread})), stored);
        let lsn = world.lsn();
        world.agent("set_thread_footprint", set(&thread, sent));
        assert_eq!(world.lsn(), lsn, "the same again changes nothing");
        let none = json!({"repo": null, "mode": "exclusive", "items": []});
        let cleared = world.agent("set_thread_footprint", json!({"thread_id": thread, "items": []}));
        assert_eq!(cleared, none);
        assert_eq!(world.kinds_after(lsn), ["ThreadFootprintChanged"]);
        assert_eq!(world.agent("get_thread", json!({"thread_id": thread}))["footprint"], Value::Null);
        assert_eq!(world.agent("get_thread_footprint", json!({"thread_id": thread})), none);
        for bad in [
            json!({"items": [{"kind": "path", "value": "src"}]}),
            json!({"repo": "acme/app", "items": [{"kind": "path", "value": "../src"}]}),
            json!({"repo": "acme/app", "items": [{"kind": "glob", "value": "a\\b"}]}),
            json!({"repo": "acme", "items": [{"kind": "lane", "value": "docs"}]}),
            json!({"repo": "acme/app", "items": [{"kind": "file", "value": "a"}]}),
            json!({"repo": "acme/app", "items": vec![json!({"kind": "lane", "value": "a"}); 101]}),
        ] {
            world
                .call(&world.people.agent, "set_thread_footprint", set(&thread, bad))
                .refused(400, "malformed-request");
        }
    });
}

#[test]
fn a_new_thread_goes_straight_to_those_of_its_footprint_that_wait() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let in_queue = || world.database.number("select count(*) from ready where footprint <> 0");
        let held = thread_touching(world, &channel, "held", &[("path", "a")]);
        let held = claim(world, &held);
        let create = |title: &str, priority: i64, required_skills: Value| {
            let touched = footprint("acme/app", "exclusive", &[("path", "a/x")]);
            let input = json!({"channel_id": channel, "title": title, "footprint": touched,
                               "priority": priority, "required_skills": required_skills});
            text(&world.admin("create_thread", input)["id"])
        };
        create("1", 0, json!([]));
        assert_eq!(in_queue(), 1, "nobody has met it");
        assert_eq!(next(world, &channel), Value::Null);
        for title in ["2", "3"] {
            create(title, 0, json!([]));
        }
        create("of others", 0, json!(["printing"]));
        assert_eq!(in_queue(), 0, "they wait behind the same claim");
        release(world, &held);
        assert_eq!(in_queue(), 3, "what was held, and the first of each group");
        create("4", 0, json!([]));
        assert_eq!(in_queue(), 3, "it follows the first of its group");
        create("urgent", 9, json!([]));
        assert_eq!(in_queue(), 4, "it comes before that");
        world.admin("transition_thread", json!({"thread_id": held["id"], "action": "close"}));
        for title in ["urgent", "1", "2", "3", "4"] {
            let input = json!({"channel_id": channel, "lease_secs": 600});
            let claimed = world.agent("claim_next_thread", input);
            assert_eq!(claimed["title"], title);
            assert_eq!(next(world, &channel), Value::Null, "all touch the same");
            world.admin("transition_thread", json!({"thread_id": claimed["id"], "action": "close"}));
        }
        assert_eq!(next(world, &channel), Value::Null, "another skill is needed");
    });
}

#[test]
fn the_footprint_of_a_live_claim_changes_only_where_it_is_free() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let first = thread_touching(world, &channel, "first", &[("path", "a")]);
        let second = thread_touching(world, &channel, "second", &[("path", "b")]);
        let third = thread_touching(world, &channel, "third", &[("path", "a/x")]);
        claim(world, &first);
        claim(world, &second);
        assert_eq!(next(world, &channel), Value::Null, "the third is parked");
        let wider = footprint("acme/app", "exclusive", &[("path", "."), ("crate", "core")]);
        let before = world.database.dump();
        let refused = world.call(&world.people.agent, "set_thread_footprint", set(&first, wider.clone()));
        refused.refused(409, "footprint-conflict");
        assert_eq!(world.database.dump(), before);
        world.agent("set_thread_footprint", set(&third, wider));
        let elsewhere = footprint("acme/app", "exclusive", &[("path", "c")]);
        world.agent("set_thread_footprint", set(&first, elsewhere));
        assert_eq!(next(world, &channel), Value::Null, "it wants everything now");
        world
            .agent("set_thread_footprint", set(&third, footprint("acme/app", "exclusive", &[("path", "a")])));
        assert_eq!(next(world, &channel), "third", "what the first had left is free");
    });
}

#[test]
fn a_lapsed_claim_is_in_nobodys_way() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let first = thread_touching(world, &channel, "first", &[("crate", "core")]);
        thread_touching(world, &channel, "second", &[("crate", "core")]);
        claim(world, &first);
        assert_eq!(next(world, &channel), Value::Null);
        assert_eq!(deferred(world, json!({})), [("second".to_owned(), vec!["overlap".to_owned()])]);
        world.clock.advance(Duration::from_secs(601));
        // The reaper has not run.
        assert_eq!(deferred(world, json!({})), []);
        let lsn = world.lsn();
        assert_eq!(next(world, &channel), "first");
        assert_eq!(
            world.kinds_after(lsn),
            ["ClaimExpired", "ThreadAssignmentChanged", "ThreadAssignmentChanged"],
            "the log ends one claim before it begins the other"
        );
        assert_eq!(next(world, &channel), Value::Null);
    });
}

#[test]
fn a_refusal_says_why_although_lapsed_claims_were_ended_before() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = |title: &str, path: &str| thread_touching(world, &channel, title, &[("path", path)]);
        let [lapsed, held, wanted] = [("lapsed", "docs"), ("held", "src"), ("wanted", "src/a")]
            .map(|(title, path)| thread(title, path));
        claim(world, &lapsed);
        world.clock.advance(Duration::from_secs(599));
        claim(world, &held);
        world.clock.advance(Duration::from_secs(1));
        let refused = world.call(&world.people.agent, "claim_thread", json!({"thread_id": wanted}));
        let refusal = refused.refused(409, "footprint-conflict");
        assert_eq!(refusal["conflicts"][0]["thread_id"], json!(held), "{refusal:#}");
        let refused = world.call(&world.people.agent, "claim_thread", json!({"thread_id": held}));
        assert_eq!(refused.refused(409, "not-claimable")["reason"], json!("claimed"));
    });
}

#[test]
fn slots_are_counted_across_repositories() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        for (title, repo, slot) in
            [("one", "acme/app", "GPU"), ("two", "acme/lib", "gpu"), ("three", "acme/app", "Gpu")]
        {
            let footprint = footprint(repo, "shared", &[("slot", slot)]);
            world.admin(
                "create_thread",
                json!({"channel_id": channel, "title": title, "footprint": footprint}),
            );
        }
        let set = |capacity: i64| {
            let input = json!({"workspace_id": workspace, "slot": "gpu", "capacity": capacity});
            world.admin("set_slot_capacity", input)
        };
        set(2);
        assert_eq!([next(world, &channel), next(world, &channel)], ["one", "two"]);
        assert_eq!(next(world, &channel), Value::Null);
        let slots = world.agent("list_slots", json!({"workspace_id": workspace}))["items"].clone();
        let gpu = slots.as_array().unwrap().iter().find(|slot| slot["slot"] == "gpu").unwrap();
        assert_eq!((&gpu["capacity"], &gpu["used"]), (&json!(2), &json!(2)));
        assert_eq!(gpu["holders"].as_array().unwrap().len(), 2);
        assert_eq!(deferred(world, json!({})), [("three".to_owned(), vec!["slot-full".to_owned(); 2])]);
        set(3);
        assert_eq!(next(world, &channel), "three");
        set(0);
        let closed =
            json!({"workspace_id": workspace, "footprint": {"items": [{"kind": "slot", "value": "GPU"}]}});
        assert_eq!(world.agent("check_footprint", closed.clone())["conflicts"].as_array().unwrap().len(), 3);
        world.admin("clear_slot_capacity", json!({"workspace_id": workspace, "slot": "Gpu"}));
        assert_eq!(world.agent("check_footprint", closed)["conflicts"], json!([]));
        let again = json!({"workspace_id": workspace, "slot": "gpu"});
        world.call(&world.people.admin, "clear_slot_capacity", again).refused(404, "not-found");
        let audit = world.admin("list_audit", json!({"workspace_id": workspace, "limit": 10}));
        let actions: Vec<String> =
            audit["items"].as_array().unwrap().iter().map(|row| text(&row["action"])).collect();
        for action in ["slot.capacity.set", "slot.capacity.clear"] {
            assert!(actions.iter().any(|found| found == action), "{actions:?}");
        }
    });
}

#[test]
fn a_paused_repository_defers_its_threads_until_it_is_resumed() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        let held = thread_touching(world, &channel, "held", &[("path", "a")]);
        let waiting = thread_touching(world, &channel, "waiting", &[("path", "b")]);
        let holding = claim(world, &held);
        let pause = json!({"workspace_id": workspace, "repo": "ACME/app", "reason": "main is broken"});
        let paused = world.admin("pause_repo", pause.clone());
        assert_eq!((&paused["repo"], &paused["reason"]), (&json!("ACME/app"), &json!("main is broken")));
        let lsn = world.lsn();
        assert_eq!(world.admin("pause_repo", pause), paused);
        assert_eq!(world.lsn(), lsn, "the same again changes nothing");
        let refused = world.call(&world.people.agent, "claim_thread", json!({"thread_id": waiting}));
        refused.refused(409, "footprint-conflict");
        assert_eq!(next(world, &channel), Value::Null);
        assert_eq!(deferred(world, json!({})), [("waiting".to_owned(), vec!["repo-paused".to_owned()])]);
        let renewed = json!({"thread_id": held, "claim_lease_id": holding["claim_lease_id"]});
        world.agent("renew_claim", renewed);
        let listed = world.agent("list_repo_pauses", json!({"workspace_id": workspace}))["items"].clone();
        assert!(listed.as_array().unwrap().contains(&paused), "{listed:#}");
        let resume = json!({"workspace_id": workspace, "repo": "acme/app"});
        assert_eq!(world.admin("resume_repo", resume.clone())["repo"], "ACME/app");
        world.call(&world.people.admin, "resume_repo", resume).refused(404, "not-found");
        assert_eq!(next(world, &channel), "waiting");
    });
}

#[test]
fn a_pause_and_its_end_leave_a_row_each_in_the_audit_trail() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let repo = json!({"workspace_id": workspace, "repo": "acme/audited"});
        world.admin("pause_repo", repo.clone());
        world.admin("resume_repo", repo);
        let page = world.admin("list_audit", json!({"workspace_id": workspace, "limit": 500}));
        let of_repo = page["items"].as_array().unwrap().iter().filter(|row| {
            row["metadata"]["repo"] == "acme/audited" && row["actor_id"] == json!(world.id("admin"))
        });
        let actions: Vec<String> = of_repo.map(|row| text(&row["action"])).collect();
        assert_eq!(actions, ["repo.resume", "repo.pause"]);
    });
}

#[test]
fn a_caller_that_names_a_repository_gets_only_its_threads() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        world.new_thread(&channel, "without a footprint");
        let other = footprint("acme/lib", "exclusive", &[("path", "a")]);
        world.admin("create_thread", json!({"channel_id": channel, "title": "other", "footprint": other}));
        thread_touching(world, &channel, "wanted", &[("path", "a")]);
        let named = |operation: &str, place: (&str, Value)| {
            let input = json!({place.0: place.1, "repo": "https://host/Acme/App", "lease_secs": 600});
            world.agent(operation, input)["title"].clone()
        };
        assert_eq!(named("claim_next_thread", ("channel_id", json!(channel))), "wanted");
        assert_eq!(named("claim_next_workspace_thread", ("workspace_id", json!(workspace))), Value::Null);
        assert_eq!(next(world, &channel), "without a footprint");
        let claims = |repo: &str| {
            let input = json!({"workspace_id": workspace, "repo": repo});
            let page = world.agent("list_active_claims", input);
            page["items"].as_array().unwrap().iter().map(|claim| claim["title"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(claims("acme/app"), ["wanted"]);
        assert_eq!(claims("acme/lib"), [] as [Value; 0]);
    });
}

#[test]
fn a_conflict_with_a_hidden_thread_does_not_name_it() {
    on_both_engines(|world| {
        let hidden = thread_touching(world, &world.new_private_channel("secret"), "hidden", &[("path", "a")]);
        let channel = world.new_channel("queue");
        let wanted = thread_touching(world, &channel, "wanted", &[("path", "a/b")]);
        world.admin("claim_thread", json!({"thread_id": hidden}));
        let admin = world.admin("whoami", json!({}))["member_id"].clone();
        let bystander = world.call(&world.people.bystander, "claim_thread", json!({"thread_id": wanted}));
        assert_eq!(bystander.code(), "footprint-conflict", "{:#}", bystander.body);
        assert!(!bystander.body.to_string().contains(&hidden), "{:#}", bystander.body);
        assert_eq!(bystander.body["conflicts"][0]["holder"], json!(admin));
        let insider = world.call(&world.people.admin, "claim_thread", json!({"thread_id": wanted}));
        assert_eq!(insider.body["conflicts"][0]["thread_id"], json!(hidden), "the control");
    });
}

#[test]
fn over_mcp_a_conflict_is_an_error_of_its_own() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let held = thread_touching(world, &channel, "held", &[("path", "a")]);
        let wanted = thread_touching(world, &channel, "wanted", &[("path", "a/b")]);
        claim(world, &held);
        let params = json!({"name": "claim_thread", "arguments": {"thread_id": wanted}});
        let token = &world.people.agent;
        let http = world.mcp().request(Some(token), "tools/call", params.clone()).body;
        for response in [http, world.stdio(token).request("tools/call", params)] {
            let error = &response["error"];
            assert_eq!(error["code"], -32_009, "{response:#}");
            assert_eq!(error["data"]["status"], 409);
            assert_eq!(error["data"]["conflicts"][0]["thread_id"], json!(held));
        }
    });
}

#[test]
fn what_frees_a_thread_wakes_who_waits_for_one() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        let elsewhere = world.new_channel("elsewhere");
        let held = thread_touching(world, &elsewhere, "held", &[("path", "a"), ("slot", "gpu")]);
        let waiting = thread_touching(world, &channel, "waiting", &[("path", "a/b")]);
        let pause = json!({"workspace_id": workspace, "repo": "acme/app"});
        let wait = json!({"workspace_id": workspace, "channel_id": channel, "timeout_secs": 300});
        let holding = claim(world, &held);
        let woken_by = |frees: &dyn Fn()| {
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| world.agent("wait_for_ready", wait.clone()));
                until("it waits", || world.service.parked_waits() == 1);
                frees();
                assert_eq!(waiter.join().unwrap()["thread_id"], json!(waiting));
            });
        };
        woken_by(&|| release(world, &holding));
        world.admin("pause_repo", pause.clone());
        woken_by(&|| drop(world.admin("resume_repo", pause.clone())));
    });
}

#[test]
fn deferred_threads_are_listed_for_other_reasons_too() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let first = world.new_thread(&channel, "first");
        let create = |more: Value| {
            let mut input = json!({"channel_id": channel});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            world.admin("create_thread", input);
        };
        create(json!({"title": "after", "depends_on": [first]}));
        create(json!({"title": "skilled", "required_skills": ["cobol"]}));
        let of = |reason: &str| {
            let listed = deferred(world, json!({"reason": reason}));
            listed
                .into_iter()
                .filter(|(title, _)| ["after", "skilled"].contains(&&**title))
                .collect::<Vec<_>>()
        };
        assert_eq!(deferred(world, json!({})), []);
        assert_eq!(of("dependencies"), [("after".to_owned(), vec!["dependencies".to_owned()])]);
        assert_eq!(of("skills"), [("skilled".to_owned(), vec!["skills".to_owned()])]);
        world.agent("set_skills", json!({"skills": ["cobol"]}));
        assert_eq!(of("skills"), []);
    });
}

#[test]
fn a_claim_passes_any_number_of_blocked_threads_and_is_one_request() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        for number in 0..150 {
            thread_touching(world, &channel, "blocked", &[("path", &format!("src/{number}"))]);
        }
        world.new_thread(&channel, "free");
        world.admin("pause_repo", json!({"workspace_id": workspace, "repo": "acme/app"}));
        let rows = || {
            let page = world.admin("list_audit", json!({"workspace_id": workspace, "limit": 500}));
            page["items"].as_array().unwrap().len()
        };
        let before = rows();
        assert_eq!(next(world, &channel), "free");
        assert_eq!(rows(), before + 1, "the steps before are none of their own");
        assert_eq!(next(world, &channel), Value::Null);
        world.admin("resume_repo", json!({"workspace_id": workspace, "repo": "acme/app"}));
        let claimed: Vec<Value> = (0..151).map(|_| next(world, &channel)).collect();
        assert!(claimed[..150].iter().all(|title| title == "blocked"), "each comes back");
        assert_eq!(claimed[150], Value::Null);
    });
}

#[test]
fn the_footprint_of_an_archived_thread_does_not_change() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.new_channel("queue"), "a task");
        for action in ["close", "archive"] {
            world.admin("transition_thread", json!({"thread_id": thread, "action": action}));
        }
        let input = set(&thread, footprint("acme/app", "shared", &[("path", "a")]));
        world.call(&world.people.admin, "set_thread_footprint", input).refused(409, "wrong-state");
    });
}
