//! A frozen member is stopped at once, everywhere, and can continue once it is unfrozen.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Service;
use svc_core::api::{FreezeMember, UnfreezeMember};
use svc_tests::client::Answer;
use svc_tests::process::until;
use svc_tests::{World, answer_of, call, on_both_engines, text};

/// Returns the handles of the frozen members, as the admin sees them.
fn frozen(world: &World) -> Vec<String> {
    let page = world.admin("list_frozen_members", json!({"workspace_id": world.id("workspace")}));
    page["items"].as_array().unwrap().iter().map(|freeze| text(&freeze["handle"])).collect()
}

/// Returns a new member and a token by which it acts for another.
fn delegate_of(world: &World, subject: &str, handle: &str) -> (String, String) {
    let (id, _) = world.new_agent(handle);
    let lent = world.delegated_beyond_grants(subject, &id, &["token:admin", "message:post"]);
    (id, lent)
}

#[test]
fn a_frozen_member_only_reads_on_every_server_until_it_is_unfrozen() {
    on_both_engines(|world| {
        let other = world.another_service(7);
        let servers = [&world.service, &other];
        let (id, token) = world.new_agent("looping");
        let ask = |service: &Service, operation: &str, input: &Value| -> Answer {
            answer_of(call(service, Some(&token), operation, input))
        };
        let post = json!({"thread_id": world.id("thread"), "body": "again"});
        let post_everywhere = || servers.map(|service| ask(service, "post_message", &post));
        post_everywhere().into_iter().for_each(|answer| drop(answer.output()));
        let channel = world.new_channel("queue");
        let threads = ["one", "two"].map(|title| world.new_thread(&channel, title));
        let claims = threads.each_ref().map(|thread| {
            world.call(&token, "claim_thread", json!({"thread_id": thread, "lease_secs": 600})).output()
        });
        let before = frozen(world);
        let lsn = world.lsn();
        let freeze = world.admin(
            "freeze_member",
            json!({"workspace_id": world.id("workspace"), "member_id": id, "reason": "It loops."}),
        );
        let wanted = json!({
            "member_id": id, "handle": "looping", "reason": "It loops.", "frozen_by": world.id("admin"),
            "frozen_at": freeze["frozen_at"], "claims_released": 2,
        });
        assert_eq!(freeze, wanted);
        let ended = ["MemberFrozen", "ThreadAssignmentChanged", "ThreadAssignmentChanged"];
        assert_eq!(world.kinds_after(lsn), ended);
        let events = world.admin(
            "list_events",
            json!({"workspace_id": world.id("workspace"), "after_id": lsn, "limit": 10}),
        );
        let told = &events["items"][0]["payload"];
        assert_eq!((&told["member_id"], &told["claims_released"]), (&json!(id), &json!(2)));

        let lease = json!({"thread_id": threads[0], "claim_lease_id": claims[0]["claim_lease_id"]});
        world.call(&token, "renew_claim", lease).refused(403, "member-frozen");
        for (service, answer) in servers.iter().zip(post_everywhere()) {
            answer.refused(403, "member-frozen");
            ask(service, "get_thread", &json!({"thread_id": threads[0]})).output();
            assert_eq!(ask(service, "whoami", &json!({})).output()["frozen"], json!(true));
        }
        let next = world.admin("claim_next_thread", json!({"channel_id": channel}));
        assert_eq!(next["id"], json!(threads[0]), "others can take what it worked on");

        let lsn = world.lsn();
        let again = world.admin("freeze_member", json!({"member_id": id, "reason": "Another reason."}));
        let released = |count: i64| {
            let mut freeze = wanted.clone();
            freeze["claims_released"] = count.into();
            freeze
        };
        assert_eq!(again, released(0));
        assert_eq!(world.lsn(), lsn, "a freeze that stands changes nothing");
        assert_eq!(frozen(world), [before.as_slice(), &["looping".to_owned()]].concat());

        for _ in 0..2 {
            let member = world.admin("unfreeze_member", json!({"member_id": id}));
            assert_eq!((&member["id"], &member["frozen"]), (&json!(id), &json!(false)));
        }
        assert_eq!(world.kinds_after(lsn), ["MemberUnfrozen"]);
        assert_eq!(frozen(world), before);
        post_everywhere().into_iter().for_each(|answer| drop(answer.output()));
        let input = json!({"workspace_id": world.id("workspace")});
        let mine = world.call(&token, "list_active_claims", input).output();
        let holders: Vec<&Value> =
            mine["items"].as_array().unwrap().iter().map(|claim| &claim["holder"]).collect();
        assert!(!holders.contains(&&json!(id)), "its claims are not given back: {mine:#}");
    });
}

#[test]
fn nobody_freezes_itself_and_a_freeze_holds_for_subject_and_delegate() {
    on_both_engines(|world| {
        let admin = world.id("admin").to_string();
        let (delegate, lent) = delegate_of(world, &admin, "delegate");
        for (token, member) in [(&world.people.admin, &admin), (&lent, &admin), (&lent, &delegate)] {
            world.call(token, "freeze_member", json!({"member_id": member})).refused(403, "forbidden");
        }
        let outsider = &world.people.outsider;
        let home = world.call(outsider, "whoami", json!({})).output()["workspace_id"].clone();
        for input in [
            json!({"member_id": delegate}),
            json!({"workspace_id": home, "member_id": delegate}),
            json!({"workspace_id": world.id("workspace"), "member_id": delegate}),
        ] {
            for operation in ["freeze_member", "unfreeze_member"] {
                world.call(outsider, operation, input.clone()).refused(404, "not-found");
            }
        }
        let (subject, own) = world.new_agent("subject");
        let (delegate, lent) = delegate_of(world, &subject, "helper");
        let post = json!({"thread_id": world.id("thread"), "body": "for another"});
        for (stopped, stops_subject) in [(&delegate, false), (&subject, true)] {
            world.call(&lent, "post_message", post.clone()).output();
            world.admin("freeze_member", json!({"member_id": stopped}));
            world.call(&lent, "post_message", post.clone()).refused(403, "member-frozen");
            let answer = world.call(&own, "post_message", post.clone());
            assert_eq!(answer.status == 403, stops_subject, "{stopped}");
            world.admin("unfreeze_member", json!({"member_id": stopped}));
        }
    });
}

/// The changes that make a thread ready for a waiting member: the obstacle, and its removal.
const LETS_GO: [(&str, &str, &str); 2] =
    [("freeze_member", "unfreeze_member", "[]"), ("revoke_skill", "confer_skill", r#"["review"]"#)];

#[test]
fn a_member_that_waits_is_woken_once_it_may_work() {
    on_both_engines(|world| {
        for (holds_back, lets_go, skills) in LETS_GO {
            let (id, token) = world.new_agent(&format!("waits-{lets_go}").replace('_', "-"));
            let channel = world.new_channel(lets_go);
            let about = if skills == "[]" {
                json!({"member_id": id})
            } else {
                let about = json!({"member_id": id, "skill": "review"});
                world.admin("confer_skill", about.clone());
                about
            };
            let skills: Value = serde_json::from_str(skills).unwrap();
            let thread = json!({"channel_id": channel, "title": "work", "required_skills": skills});
            world.admin("create_thread", thread);
            world.admin(holds_back, about.clone());
            std::thread::scope(|scope| {
                let wait = json!({"workspace_id": world.id("workspace"), "channel_id": channel,
                                  "timeout_secs": 300});
                let (answered, answer) = mpsc::channel();
                scope.spawn(move || answered.send(world.call(&token, "wait_for_ready", wait).output()));
                until("it waits", || world.service.parked_waits() == 1);
                world.admin(lets_go, about);
                let found = answer.recv_timeout(Duration::from_secs(5));
                if found.is_err() {
                    world.new_thread(&channel, "to end the wait");
                }
                assert_eq!(found.unwrap()["ready"], json!(true), "{lets_go}");
            });
        }
    });
}

#[test]
fn who_reaches_beyond_the_workspace_is_frozen_only_by_who_reaches_as_far() {
    on_both_engines(|world| {
        let freeze = |token: &str| {
            let freeze = json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent")});
            world.call(token, "freeze_member", freeze)
        };
        let wide = json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent"),
                          "capabilities": ["operator:global"]});
        let operator = world.new_token(vec!["token:admin", "operator:global"]);
        world.call(&operator, "mint_token", wide).output();
        let other = world.new_token(vec!["token:admin"]);
        freeze(&other).refused(403, "forbidden");
        freeze(&operator).output();
    });
}

#[test]
fn the_machines_administrator_freezes_on_its_own_authority() {
    on_both_engines(|world| {
        let workspace_id = world.id("workspace");
        let member: svc_core::api::MemberId = world.id("agent").into();
        let workspace = workspace_id.into();
        let lsn = world.lsn();
        let input = FreezeMember::new(member);
        let frozen = world.service.call_as_instance(workspace, &input).unwrap();
        assert_eq!((frozen.freeze.frozen_by, frozen.freeze.reason), (None, None));
        let input = UnfreezeMember::new(member).workspace_id(workspace);
        assert!(!world.service.call_as_instance(workspace, &input).unwrap().frozen);
        let kinds = world.kinds_after(lsn);
        assert_eq!(kinds.last().map(String::as_str), Some("MemberUnfrozen"), "{kinds:?}");
        let page = world.admin("list_audit", json!({"workspace_id": workspace_id, "limit": 500}));
        let rows = page["items"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row["metadata"]["surface"] == "cli" && row["action"] == "mutation");
        let operations: Vec<Value> = rows.map(|row| row["metadata"]["operation"].clone()).collect();
        assert_eq!(operations, [json!("unfreeze_member"), json!("freeze_member")], "the last one first");
        let input = FreezeMember::new(member);
        let elsewhere = world.service.call_as_instance(uuid::Uuid::nil().into(), &input);
        assert_eq!(elsewhere.unwrap_err().code(), svc_core::Code::NotFound);
    });
}
