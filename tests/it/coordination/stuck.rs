//! Claims whose holder is gone: an administrator releases them or hands them off, or revokes the last token.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::state::assert_state;
use svc_tests::{World, on_both_engines, text};

use super::footprints::thread_touching;
use crate::op::chores::copy_claim;

/// Creates a thread that the agent has claimed and that touches `src`. Returns its id and lease.
fn stuck(world: &World, channel: &str) -> (String, String) {
    let thread = thread_touching(world, channel, "stuck", &[("path", "src")]);
    let claim = world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 604_800}));
    (thread, text(&claim["claim_lease_id"]))
}

/// Returns the payload of the last change of a holder.
fn last_change(world: &World) -> Value {
    let after = (world.lsn() - 50).max(0);
    let input = json!({"workspace_id": world.id("workspace"), "kind": "ThreadAssignmentChanged",
        "after_id": after, "limit": 100});
    world.admin("list_events", input)["items"].as_array().unwrap().last().unwrap()["payload"].clone()
}

fn last_audit(world: &World, action: &str) -> Value {
    let input = json!({"workspace_id": world.id("workspace"), "limit": 20});
    let rows = world.admin("list_audit", input)["items"].as_array().unwrap().clone();
    rows.into_iter().find(|row| row["action"] == action).unwrap_or_else(|| panic!("no audit row {action}"))
}

#[test]
fn an_administrator_takes_a_claim_by_its_lease_id_and_nobody_else_does() {
    on_both_engines(|world| {
        let channel = world.new_channel("stuck");
        let (thread, lease) = stuck(world, &channel);
        let (plain_id, plain) = world.new_agent("plain");
        let input = |lease: &str, more: Value| {
            let mut input = json!({"thread_id": thread, "claim_lease_id": lease});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            input
        };
        let to = json!({"to_member_id": plain_id});
        // Neither a worker nor an administrator with a narrower token may do it.
        let narrow = json!({"capabilities": ["thread:transition", "workspace:read"]});
        let narrow = text(&world.admin("attenuate_token", narrow)["secret"]);
        for token in [&plain, &narrow] {
            for (operation, more) in [("release_claim", json!({})), ("hand_off_claim", to.clone())] {
                let refusal = world.call(token, operation, input(&lease, more));
                let how = text(&refusal.refused(409, "claim-not-held")["detail"]);
                assert!(how.contains("channel:admin") && how.contains("claim_lease_id"), "{how}");
            }
        }
        let administrator = &*world.people.bystander;
        let other = "01990000-0000-7000-8000-000000000000";
        for (operation, more) in [("release_claim", json!({})), ("hand_off_claim", to.clone())] {
            world.call(administrator, operation, input(other, more.clone())).refused(409, "stale-claim");
            let mut left = more.clone();
            left["checkpoint"] = json!({"done": 1});
            world.call(administrator, operation, input(&lease, left)).refused(400, "malformed-request");
            world.call(&world.people.frozen, operation, input(&lease, more)).refused(403, "member-frozen");
        }
        let unnamed = json!({"thread_id": thread, "to_member_id": plain_id});
        let refusal = world.call(administrator, "hand_off_claim", unnamed);
        let refused = refusal.refused(409, "claim-not-held");
        assert!(text(&refused["detail"]).contains("claim_lease_id"), "{refused:#}");
        let lacking = json!({"thread_id": thread});
        world.call(administrator, "release_claim", lacking).refused(400, "malformed-request");

        // An administrator cannot take a claim that it does not see.
        let hidden = json!({"thread_id": world.people.private_thread_id, "claim_lease_id": lease});
        world.call(administrator, "release_claim", hidden).refused(404, "not-found");

        // The holder remains: only it can acknowledge, renew and submit.
        for (operation, more) in [
            ("acknowledge_claim", json!({})),
            ("renew_claim", json!({})),
            ("set_thread_result", json!({"result": {"done": true}})),
        ] {
            world.call(administrator, operation, input(&lease, more)).refused(409, "claim-not-held");
        }

        let handed = world.call(administrator, "hand_off_claim", input(&lease, to)).output();
        assert_eq!(handed["assignee_id"], json!(plain_id));
        world.call(administrator, "release_claim", input(&lease, json!({}))).refused(409, "stale-claim");
        let lease = text(&handed["claim_lease_id"]);
        world.clock.advance(Duration::from_secs(3_601));
        world.call(administrator, "release_claim", input(&lease, json!({}))).refused(409, "stale-claim");
        assert_state(&world.database.address());
    });
}

#[test]
fn a_taken_claim_names_the_administrator_and_its_holder_is_told() {
    on_both_engines(|world| {
        let channel = world.new_channel("stuck");
        let agent = world.id("agent").to_string();
        let administrator = world.people.bystander_id.clone();
        let waiting = thread_touching(world, &channel, "waits", &[("path", "src/lib.rs")]);
        let (thread, lease) = stuck(world, &channel);
        world
            .call(&world.people.admin, "claim_thread", json!({"thread_id": waiting}))
            .refused(409, "footprint-conflict");
        let release = json!({"thread_id": thread, "claim_lease_id": lease});
        let key = [("idempotency-key", "take-it")];
        let row = world.operation("release_claim");
        let released =
            || world.rest().call_by(Some(&world.people.bystander), &key, row, row.http().path, &release);
        let first = released().output();
        assert_eq!(first["assignee_id"], Value::Null);
        let lsn = world.lsn();
        assert_eq!(released().output()["id"], first["id"], "it is answered again");
        assert_eq!(world.lsn(), lsn);

        let payload = last_change(world);
        assert_eq!(payload["reason"], "released");
        assert_eq!(payload["administrator_id"], json!(administrator));
        assert_eq!(payload["previous_assignee_id"], json!(agent));
        let audit = last_audit(world, "claim.release");
        assert_eq!(audit["actor_id"], json!(administrator));
        assert_eq!(audit["metadata"]["member_id"], json!(agent));
        assert_eq!(audit["metadata"]["claim_lease_id"], json!(lease));
        let context = world.agent("get_thread_context", json!({"thread_id": thread}));
        assert_eq!(context["notices"][0]["kind"], "claim_released", "{context:#}");
        let inbox = world.agent("list_inbox", json!({"reason": "claim_taken"}));
        let item = inbox["items"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(item["thread_id"], json!(thread));
        assert!(text(&item["preview"]).contains("has released the claim of"), "{item}");

        // Its footprint is free, and so is the thread.
        world.admin("claim_thread", json!({"thread_id": waiting}));
        let held = world.admin("get_claim", json!({"thread_id": waiting}));
        // Handing off to itself works, too, and its own claim is not taken from another.
        let back = json!({"thread_id": waiting, "claim_lease_id": held["claim_lease_id"],
            "to_member_id": administrator});
        let handed = world.call(&world.people.bystander, "hand_off_claim", back).output();
        let payload = last_change(world);
        assert_eq!(
            (&payload["reason"], &payload["administrator_id"]),
            (&json!("handed_off"), &json!(administrator))
        );
        assert_eq!(last_audit(world, "claim.hand_off")["metadata"]["to_member_id"], json!(administrator));
        let own = json!({"thread_id": waiting, "claim_lease_id": handed["claim_lease_id"]});
        world.call(&world.people.bystander, "release_claim", own).output();
        let payload = last_change(world);
        assert!(payload.get("administrator_id").is_none(), "{payload}");
        assert_state(&world.database.address());
    });
}

/// Creates a member with two claims. Returns it with the id and the secret of its token.
fn worker(world: &World, handle: &str) -> (String, String, String) {
    let (member, _) = world.new_agent(handle);
    let listed =
        world.admin("list_tokens", json!({"workspace_id": world.id("workspace"), "member_id": member}));
    for token in listed["items"].as_array().unwrap() {
        world.admin("revoke_token", json!({"token_id": token["id"]}));
    }
    let (token, secret) = minted(world, &member, json!({}));
    for _ in 0..2 {
        let thread = world.new_thread(&world.new_channel("work"), "held");
        world.call(&secret, "claim_thread", json!({"thread_id": thread, "lease_secs": 604_800})).output();
    }
    (member, token, secret)
}

fn minted(world: &World, member: &str, more: Value) -> (String, String) {
    let mut input = json!({"workspace_id": world.id("workspace"), "member_id": member,
        "capability_set": "svc.agent.worker"});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let token = world.admin("mint_token", input);
    (text(&token["id"]), text(&token["secret"]))
}

#[test]
fn a_revoked_token_takes_the_claims_with_it_if_no_credential_is_left() {
    type Other = fn(&World, &str, &str);
    let others: [(&str, Other, bool); 8] = [
        ("nothing", |_, _, _| {}, true),
        ("another token", |world, member, _| drop(minted(world, member, json!({}))), false),
        (
            "a derived token",
            |world, _, secret| {
                let input = json!({"capabilities": ["workspace:read"]});
                world.call(secret, "attenuate_token", input).output();
            },
            true,
        ),
        ("a session of the token", |world, _, secret| _ = world.sign_in(secret), true),
        ("a session of its own", |world, member, _| _ = world.new_own_session(member), false),
        (
            "a token that has expired",
            |world, member, _| {
                minted(world, member, json!({"expires_in_secs": 60}));
                world.clock.advance(Duration::from_secs(61));
            },
            true,
        ),
        (
            "a token that was revoked",
            |world, member, _| {
                let (token, _) = minted(world, member, json!({}));
                world.admin("revoke_token", json!({"token_id": token}));
            },
            true,
        ),
        (
            "a delegate",
            |world, member, _| {
                let grant = world.new_grant(member, &world.id("admin").to_string(), &["thread:transition"]);
                world.exchange(&world.people.admin, &grant);
            },
            false,
        ),
    ];
    on_both_engines(|world| {
        for (number, (beside, add, ends)) in others.into_iter().enumerate() {
            let (member, token, secret) = worker(world, &format!("worker{number}"));
            add(world, &member, &secret);
            let live = || {
                let claims = world.admin(
                    "list_active_claims",
                    json!({"workspace_id": world.id("workspace"), "limit": 200}),
                );
                claims["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|claim| claim["holder"] == json!(member))
                    .count()
            };
            // By default they continue.
            let kept = world.admin("revoke_token", json!({"token_id": token}));
            assert_eq!(
                (&kept["claims_released"], &kept["keeps_claims"]),
                (&json!(0), &json!(true)),
                "{beside}"
            );
            assert_eq!(live(), 2, "{beside}");
            // Over REST in the query; it takes effect although the token was already revoked.
            let row = world.operation("revoke_token");
            let released = world
                .rest()
                .call_by(
                    Some(&world.people.admin),
                    &[],
                    row,
                    row.http().path,
                    &json!({"token_id": token, "claims": "release"}),
                )
                .output();
            let counts = if ends { (json!(2), json!(false)) } else { (json!(0), json!(true)) };
            assert_eq!(
                (released["claims_released"].clone(), released["keeps_claims"].clone()),
                counts,
                "{beside}"
            );
            assert_eq!(live(), if ends { 0 } else { 2 }, "{beside}");
            if ends {
                let payload = last_change(world);
                assert_eq!(payload["administrator_id"], json!(world.id("admin")), "{beside}");
                let audit = last_audit(world, "token.revoke");
                assert_eq!(audit["metadata"]["claims_released"], 2, "{beside}");
            }
        }
        let bad = json!({"token_id": world.id("agent_token"), "claims": "end"});
        world.call(&world.people.admin, "revoke_token", bad).refused(400, "malformed-request");
        assert_state(&world.database.address());
    });
}

#[test]
fn very_many_claims_end_with_a_token_that_may_be_the_callers_own() {
    on_both_engines(|world| {
        for is_own in [false, true] {
            let (member, _) = world.new_agent(if is_own { "own" } else { "other" });
            let listed = json!({"workspace_id": world.id("workspace"), "member_id": member});
            let first = world.admin("list_tokens", listed)["items"][0]["id"].clone();
            let capabilities = ["token:admin", "workspace:read", "thread:transition"];
            let input = json!({"workspace_id": world.id("workspace"), "member_id": member,
                "capabilities": capabilities});
            let made = world.admin("mint_token", input);
            world.admin("revoke_token", json!({"token_id": first}));
            let secret = text(&made["secret"]);
            let thread = world.new_thread(&world.new_channel("many"), "one of many");
            world.call(&secret, "claim_thread", json!({"thread_id": thread, "lease_secs": 3600})).output();
            copy_claim(world, &thread, 299, world.clock.now().plus(Duration::from_secs(3600)).micros());
            let caller = if is_own { &*secret } else { &*world.people.admin };
            let input = json!({"token_id": made["id"], "claims": "release"});
            let revoked = world.call(caller, "revoke_token", input).output();
            assert_eq!(revoked["revoked_ids"], json!([made["id"]]));
            assert_eq!((&revoked["claims_released"], &revoked["keeps_claims"]), (&json!(300), &json!(false)));
            world.call(&secret, "whoami", json!({})).refused(401, "unauthenticated");
        }
    });
}
