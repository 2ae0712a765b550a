//! Reviews: requirements for a close, blocking findings, and the treatment of their text.

use serde_json::{Value, json};
use svc_tests::{Person, World, on_both_engines, text};

use super::counting::Scene;
use super::{go, new_thread, row_id, unmet, work};

#[test]
fn as_many_members_must_approve_as_are_required() {
    on_both_engines(|world| {
        let [one, two] = ["one", "two"].map(|handle| Person::with_skill(world, handle, "review"));
        let thread = new_thread(world);
        let scene = Scene { world, thread, holder: &one, listed: &two, other: &two };
        let requirement = json!({"thread_id": scene.thread, "approvals": 2});
        assert_eq!(world.admin("set_review_requirement", requirement.clone()), requirement);
        let lsn = world.lsn();
        world.admin("set_review_requirement", requirement.clone());
        assert_eq!(world.lsn(), lsn, "the same number is no change");
        assert_eq!(world.admin("get_review_requirement", json!({"thread_id": scene.thread})), requirement);
        scene.approve(&one);
        scene.approve(&one);
        // If two acts for one, the approval counts for both: it replaces one's approval, and adds no
        // reviewer.
        scene.review(&two.acting_for(world, &one.id), "approve");
        let status = scene.status();
        assert_eq!((&status["required"], &status["approvals"]), (&json!(2), &json!(1)), "{status:#}");
        let counting = status["reviews"][0]["review_id"].clone();
        assert_eq!(unmet(world, &scene.thread), [("approvals".to_owned(), json!([counting]))]);
        let detail = |thread: &str| {
            go(world, thread, "close").refused(409, "close-refused")["reasons"][0]["detail"].clone()
        };
        assert_eq!(detail(&scene.thread), json!("the thread requires 2 approvals, and 1 counts"));
        let other = new_thread(world);
        world.admin("set_review_requirement", json!({"thread_id": other, "approvals": 1}));
        assert_eq!(detail(&other), json!("the thread requires 1 approval, and 0 count"));
        scene.approve(&two);
        assert_eq!(scene.status()["approvals"], json!(1), "two's own takes the place of the common one");
        scene.approve(&one);
        assert_eq!(scene.status()["satisfied"], json!(true));
        scene.go("close");
        let late = json!({"thread_id": scene.thread, "verdict": "comment"});
        world.call(&one.token, "submit_review", late).refused(409, "wrong-state");
    });
}

#[test]
fn a_request_of_changes_alone_blocks_nothing() {
    on_both_engines(|world| {
        let reviewer = Person::with_skill(world, "critic", "review");
        let thread = new_thread(world);
        let finding = json!({"severity": "major", "body": "the name is wrong"});
        let review = json!({
            "thread_id": thread, "verdict": "request_changes", "body": "not like this", "findings": [finding],
        });
        world.call(&reviewer.token, "submit_review", review).output();
        let status = world.agent("get_review_status", json!({"thread_id": thread}));
        assert_eq!(status["satisfied"], json!(true), "{status:#}");
        go(world, &thread, "close").output();
    });
}

#[test]
fn what_counts_is_found_behind_any_number_of_comments() {
    on_both_engines(|world| {
        let [talker, reviewer] = ["talker", "reviewer"].map(|name| Person::with_skill(world, name, "review"));
        let thread = new_thread(world);
        let scene = Scene { world, thread, holder: &reviewer, listed: &reviewer, other: &talker };
        world.admin("set_review_requirement", json!({"thread_id": scene.thread, "approvals": 1}));
        let finding = json!([{"severity": "critical", "body": "It loses the last page."}]);
        let input = json!({"thread_id": scene.thread, "verdict": "approve", "findings": finding});
        let approval = world.call(&reviewer.token, "submit_review", input).output();
        let comment = scene.review(&talker.token, "comment");
        let row = row_id(world, &text(&comment["id"]));
        let columns = "thread_id, member_id, actor_id, verdict, message_id, submitted_at";
        // The maximum that one member may give.
        world.database.insert_many(
            999,
            &format!(
                "insert into reviews (id, lsn, superseded, {columns})
                 select {}, 100000 + i, true, {columns} from reviews cross join n where id = {row}",
                world.database.any_id()
            ),
        );
        let late = json!({"thread_id": scene.thread, "verdict": "approve"});
        world.call(&talker.token, "submit_review", late).refused(409, "wrong-state");
        let counted = |status: &Value, id: &Value| {
            let reviews = status["reviews"].as_array().unwrap();
            assert_eq!(reviews.len(), 1000);
            assert!(reviews.is_sorted_by_key(|review| std::cmp::Reverse(review["lsn"].as_i64())));
            reviews.iter().any(|review| review["review_id"] == *id && review["counts"] == json!(true))
        };
        let status = scene.status();
        assert_eq!((&status["approvals"], &status["blocking"]), (&json!(1), &json!(1)));
        assert!(counted(&status, &approval["id"]), "{status:#}");
        assert_eq!(
            unmet(world, &scene.thread),
            [("findings".to_owned(), json!([approval["findings"][0]["id"]]))]
        );
        let resolve = json!({"thread_id": scene.thread, "finding_id": approval["findings"][0]["id"],
                             "resolution": "fixed"});
        world.call(&reviewer.token, "resolve_finding", resolve).output();
        let again = scene.review(&reviewer.token, "approve");
        assert!(counted(&scene.status(), &again["id"]));
        scene.go("close");
    });
}

#[test]
fn whoever_worked_on_a_thread_requires_no_less_of_it() {
    on_both_engines(|world| {
        let [worker, delegate] = ["maker", "delegate"].map(|handle| Person::new(world, handle));
        let thread = new_thread(world);
        let set = |token: &str, approvals: i64| {
            let input = json!({"thread_id": thread, "approvals": approvals});
            world.call(token, "set_review_requirement", input)
        };
        set(&worker.token, 2).output();
        set(&worker.token, 1).output();
        work(world, &delegate.acting_for(world, &worker.id), &thread);
        for token in
            [&worker.token, &delegate.token, &delegate.acting_for(world, &world.id("agent").to_string())]
        {
            set(token, 0).refused(403, "forbidden");
            set(token, 1).output();
        }
        set(&worker.token, 3).output();
        set(&world.people.admin, 0).output();
        assert_eq!(
            world.admin("get_review_requirement", json!({"thread_id": thread}))["approvals"],
            json!(0)
        );
        go(world, &thread, "close").output();
        go(world, &thread, "archive").output();
        set(&world.people.admin, 1).refused(409, "wrong-state");
    });
}

#[test]
fn reviewers_are_listed_once_and_only_if_they_see_the_thread() {
    on_both_engines(|world| {
        let person = Person::new(world, "listed");
        let thread = new_thread(world);
        let input = json!({"thread_id": thread, "member_id": person.id});
        let listed = world.admin("add_reviewer", input.clone());
        let lsn = world.lsn();
        assert_eq!(world.admin("add_reviewer", input.clone()), listed);
        assert_eq!(world.lsn(), lsn);
        let list = || world.agent("list_reviewers", json!({"thread_id": thread}))["items"].clone();
        assert_eq!(list(), json!([listed]));
        assert_eq!(world.agent("remove_reviewer", input.clone()), listed);
        assert_eq!(list(), json!([]));
        assert_eq!(world.kinds_after(lsn), ["ReviewerRemoved"]);
        world.call(&world.people.agent, "remove_reviewer", input.clone()).refused(404, "not-found");
        let hidden = json!({"thread_id": world.people.private_thread_id, "member_id": person.id});
        world.call(&world.people.admin, "add_reviewer", hidden).refused(409, "wrong-state");
        world.admin("add_reviewer", input.clone());
        go(world, &thread, "close").output();
        go(world, &thread, "archive").output();
        for operation in ["add_reviewer", "remove_reviewer"] {
            world.call(&world.people.admin, operation, input.clone()).refused(409, "wrong-state");
        }
    });
}

/// Posts a review with one critical finding and another one, and returns the ids of both.
fn find(world: &World, token: &str, thread: &str) -> [String; 2] {
    let finding = |severity: &str| json!({"severity": severity, "body": "It leaks.", "path": "a.rs"});
    let input = json!({"thread_id": thread, "verdict": "approve",
                       "findings": [finding("critical"), finding("major")]});
    let review = world.call(token, "submit_review", input).output();
    [0, 1].map(|number| text(&review["findings"][number]["id"]))
}

#[test]
fn a_critical_finding_prevents_the_close_until_a_reviewer_resolves_it() {
    on_both_engines(|world| {
        let holder = Person::with_skill(world, "holder", "review");
        let [author, worker, other] = ["author", "maker", "other"].map(|handle| Person::new(world, handle));
        let thread = new_thread(world);
        work(world, &worker.token, &thread);
        let [critical, major] = find(world, &author.token, &thread);
        let resolve = |token: &str, finding: &str, resolution: &str| {
            let input = json!({"thread_id": thread, "finding_id": finding, "resolution": resolution});
            world.call(token, "resolve_finding", input)
        };
        assert_eq!(unmet(world, &thread), [("findings".to_owned(), json!([critical]))]);
        let status = world.admin("get_review_status", json!({"thread_id": thread}));
        assert_eq!(
            json!([status["satisfied"], status["blocking"], status["blocking_findings"]]),
            json!([false, 1, [critical]])
        );
        for token in [&worker.token, &other.token, &worker.acting_for(world, &author.id), &world.people.admin]
        {
            resolve(token, &critical, "fixed").refused(403, "forbidden");
        }
        let elsewhere =
            json!({"thread_id": world.id("thread"), "finding_id": critical, "resolution": "fixed"});
        world.call(&author.token, "resolve_finding", elsewhere).refused(404, "not-found");
        let lsn = world.lsn();
        let resolved = resolve(&holder.token, &critical, "invalid").output();
        assert_eq!(resolved["resolved_by"], json!(holder.id));
        assert_eq!(resolve(&author.token, &critical, "invalid").output(), resolved);
        assert_eq!(world.kinds_after(lsn), ["FindingResolved"], "the same resolution is no change");
        let replaced = resolve(&author.token, &critical, "fixed").output();
        assert_eq!(json!([replaced["resolution"], replaced["resolved_by"]]), json!(["fixed", author.id]));
        go(world, &thread, "close").output();
        go(world, &thread, "archive").output();
        resolve(&author.token, &major, "wont_fix").refused(409, "wrong-state");
    });
}

#[test]
fn a_finding_is_open_again_once_its_resolver_works_on_the_thread() {
    on_both_engines(|world| {
        let holder = Person::with_skill(world, "holder", "review");
        let [author, delegate] = ["author", "delegate"].map(|handle| Person::new(world, handle));
        let lent = delegate.acting_for(world, &holder.id);
        // The resolver of the finding, the later worker on the thread, and the second resolver.
        for (resolver, worker, again) in [
            (&holder, &holder.token, &author),
            (&holder, &lent, &author),
            (&delegate, &delegate.token, &holder),
        ] {
            let by = if resolver.id == delegate.id { &lent } else { &resolver.token };
            let thread = new_thread(world);
            let [critical, _] = find(world, &author.token, &thread);
            let fixed = json!({"thread_id": thread, "finding_id": critical, "resolution": "fixed"});
            let resolved = world.call(by, "resolve_finding", fixed.clone()).output();
            assert_eq!(resolved["resolved_by"], json!(holder.id));
            let blocking = || {
                let status = world.admin("get_review_status", json!({"thread_id": thread}));
                json!([status["satisfied"], status["blocking"], status["blocking_findings"]])
            };
            assert_eq!(blocking(), json!([true, 0, []]));
            work(world, worker, &thread);
            assert_eq!(blocking(), json!([false, 1, [critical]]));
            assert_eq!(unmet(world, &thread), [("findings".to_owned(), json!([critical]))]);
            let lsn = world.lsn();
            let resolved = world.call(&again.token, "resolve_finding", fixed.clone()).output();
            assert_eq!(resolved["resolved_by"], json!(again.id), "the same resolution, of another");
            assert_eq!(world.kinds_after(lsn), ["FindingResolved"]);
            world.call(&again.token, "resolve_finding", fixed).output();
            assert_eq!(world.lsn(), lsn + 1, "that one stands");
            go(world, &thread, "close").output();
        }
    });
}

#[test]
fn the_words_are_one_sealed_message_that_is_not_edited() {
    on_both_engines(|world| {
        let reviewer = Person::with_skill(world, "reviewer", "review");
        let thread = new_thread(world);
        world.admin("set_review_requirement", json!({"thread_id": thread, "approvals": 1}));
        let words = ["quixotic-4721", "pianoforte-4722", "marzipan-4723", "src/harpsichord-4724.rs"];
        let findings = json!([
            {"severity": "minor", "body": words[1], "path": words[3], "line": 12},
            {"severity": "info", "body": words[2]},
        ]);
        let input = json!({"thread_id": thread, "verdict": "approve", "body": words[0],
                           "head_sha": "0F3C9A1", "findings": findings});
        let lsn = world.lsn();
        let review = world.call(&reviewer.token, "submit_review", input).output();
        assert_eq!(world.kinds_after(lsn), ["ReviewSubmitted", "MessagePosted"]);
        assert_eq!(review["head_sha"], json!("0f3c9a1"));
        let list = |more: Value| {
            let mut input = json!({"thread_id": thread});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            world.agent("list_reviews", input)
        };
        assert_eq!(list(json!({}))["items"], json!([review]));
        let message = world.agent("get_message", json!({"message_id": review["message_id"]}));
        assert_eq!(
            message["body"],
            json!(format!(
                "Review: approve\n\n{}\n\nminor, {}:12: {}\n\ninfo: {}",
                words[0], words[3], words[1], words[2]
            ))
        );
        assert_eq!(
            json!([message["author_id"], message["metadata"]["notice"]]),
            json!([reviewer.id, "review"])
        );
        let stored = format!("{:?}", world.database.dump());
        assert!(words.iter().all(|word| !stored.contains(word)), "it is sealed");
        let edit = json!({"message_id": review["message_id"], "body": "Never mind."});
        world.call(&reviewer.token, "edit_message", edit).refused(409, "wrong-state");

        world.call(&reviewer.token, "delete_message", json!({"message_id": review["message_id"]})).output();
        let blank = &list(json!({}))["items"][0];
        let said = json!([blank["body"], blank["findings"][0]["body"], blank["findings"][1]["body"]]);
        assert_eq!(said, json!(["", "", ""]));
        assert_eq!(blank["findings"][0]["path"], Value::Null);
        assert_eq!(json!([blank["verdict"], blank["findings"][0]["line"]]), json!(["approve", 12]));
        let status = world.agent("get_review_status", json!({"thread_id": thread}));
        assert_eq!(status["satisfied"], json!(true), "the verdict stays");

        world
            .call(&reviewer.token, "submit_review", json!({"thread_id": thread, "verdict": "comment"}))
            .output();
        let first = list(json!({"limit": 1}));
        let rest = list(json!({"limit": 1, "cursor": first["next_cursor"]}));
        assert_eq!(json!([first["items"][0]["id"], rest["next_cursor"]]), json!([review["id"], null]));
        assert_eq!(rest["items"][0]["body"], json!(""));
    });
}

#[test]
fn a_page_of_reviews_ends_by_the_bytes_of_their_words() {
    on_both_engines(|world| {
        let thread = new_thread(world);
        let findings: Vec<Value> =
            (0..100).map(|_| json!({"severity": "info", "body": "x".repeat(2000)})).collect();
        let input = json!({"thread_id": thread, "verdict": "comment", "findings": findings});
        let ids: Vec<Value> =
            (0..6).map(|_| world.agent("submit_review", input.clone())["id"].clone()).collect();
        let mut found = Vec::new();
        let mut cursor = Value::Null;
        for page in 0.. {
            let answer =
                world.agent("list_reviews", json!({"thread_id": thread, "limit": 500, "cursor": cursor}));
            assert!(
                answer.to_string().len()
                    < svc_core::limits::PAGE_BYTES + answer["items"][0].to_string().len()
            );
            found.extend(answer["items"].as_array().unwrap().iter().map(|review| review["id"].clone()));
            cursor = answer["next_cursor"].clone();
            if cursor.is_null() {
                assert!(page > 0, "it took more than one page");
                break;
            }
        }
        assert_eq!(found, ids);
    });
}

/// A member cannot grant itself a vote, nor take that of another, by setting routing skills.
#[test]
fn governance_skills_are_not_set() {
    on_both_engines(|world| {
        let holder = Person::with_skill(world, "holder", "review");
        for skill in ["review", "land_gate"] {
            world.call(&holder.token, "set_skills", json!({"skills": [skill]})).refused(403, "forbidden");
        }
        let me = world.call(&holder.token, "set_skills", json!({"skills": []})).output();
        assert_eq!(me["skills"], json!(["review"]));
        let id = row_id(world, &holder.id);
        let held = format!("select count(*) from member_skills where member_id = {id} and governance");
        assert_eq!(world.database.number(&held), 1);
    });
}

#[test]
fn a_delegate_who_renews_or_acknowledges_has_worked() {
    on_both_engines(|world| {
        for operation in ["renew_claim", "acknowledge_claim"] {
            let [maker, lent] =
                ["maker", "lent"].map(|handle| Person::new(world, &format!("{handle}-{}", &operation[..5])));
            let thread = new_thread(world);
            world.admin("set_review_requirement", json!({"thread_id": thread, "approvals": 1}));
            world.admin("add_reviewer", json!({"thread_id": thread, "member_id": lent.id}));
            world.call(&maker.token, "claim_thread", json!({"thread_id": thread})).output();
            world.pass(std::time::Duration::from_secs(1));
            let acting = lent.acting_for(world, &maker.id);
            world.call(&acting, operation, json!({"thread_id": thread})).output();
            world
                .call(&maker.token, "set_thread_result", json!({"thread_id": thread, "result": {}}))
                .output();
            let review = json!({"thread_id": thread, "verdict": "approve"});
            world.call(&lent.token, "submit_review", review).output();
            let status = world.admin("get_review_status", json!({"thread_id": thread}));
            assert_eq!(status["reviews"][0]["why_not"], json!("worker"), "{operation}: {status:#}");
        }
    });
}

#[test]
fn a_worker_does_not_choose_who_approves_its_work() {
    on_both_engines(|world| {
        let [maker, friend] = ["maker", "friend"].map(|handle| Person::new(world, handle));
        let thread = new_thread(world);
        world.admin("set_review_requirement", json!({"thread_id": thread, "approvals": 1}));
        let list = |token: &str| {
            let input = json!({"thread_id": thread, "member_id": friend.id});
            world.call(token, "add_reviewer", input)
        };
        work(world, &maker.token, &thread);
        list(&maker.token).refused(403, "forbidden");
        list(&world.people.admin).output();
        list(&maker.token).output();
    });
}
