//! Checkpoints: a holder's checkpoint reaches the next holder, however the claim ended.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

/// The ends of a claim, for a thread whose next holder is the admin. Each gets the agent's claim.
const ENDS: [(&str, fn(&World, &Value) -> Value); 3] = [
    ("handed off", |world, claim| {
        let more = json!({"to_member_id": world.id("admin"), "checkpoint": {"at": "handed off"}});
        world.agent("hand_off_claim", under(claim, &more))
    }),
    ("released", |world, claim| {
        world.agent("release_claim", under(claim, &json!({"checkpoint": {"at": "released"}})));
        world.admin("claim_thread", json!({"thread_id": claim["id"]}))
    }),
    ("renewed", |world, claim| {
        let more = json!({"lease_secs": 60, "checkpoint": {"at": "renewed"}});
        world.agent("renew_claim", under(claim, &more));
        world.pass(Duration::from_secs(61));
        world.admin("claim_next_thread", json!({"channel_id": claim["channel_id"]}))
    }),
];

/// Returns the fields that name a claim, and `more`.
fn under(claim: &Value, more: &Value) -> Value {
    let mut input = json!({"thread_id": claim["id"], "claim_lease_id": claim["claim_lease_id"]});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

/// Returns a thread in a separate channel that the agent has claimed.
fn claimed(world: &World, channel: &str) -> Value {
    let thread = world.new_thread(&world.new_channel(channel), channel);
    world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 60}))
}

#[test]
fn the_next_holder_gets_the_last_checkpoint_however_the_claim_ended() {
    on_both_engines(|world| {
        for (number, (name, end)) in ENDS.into_iter().enumerate() {
            let claim = claimed(world, &format!("ends-{number}"));
            assert_eq!(claim["checkpoint"], Value::Null);
            world.agent("renew_claim", under(&claim, &json!({"checkpoint": {"at": "first"}})));
            let lsn = world.lsn();
            let next = end(world, &claim);
            let left = &next["checkpoint"];
            let context = world.admin("get_thread_context", json!({"thread_id": claim["id"]}));
            assert_eq!(left["checkpoint"], json!({"at": name}));
            assert_eq!(left["member_id"], json!(world.id("agent")));
            assert_eq!(left["lsn"], json!(lsn + 1), "{name}");
            assert_eq!(&context["checkpoint"], left, "{name}");
            assert_eq!(world.kinds_after(lsn)[0], "ClaimCheckpointed", "{name}");
        }
    });
}

#[test]
fn a_checkpoint_is_an_object_of_8_kib_left_by_the_holder() {
    on_both_engines(|world| {
        let claim = claimed(world, "sizes");
        let of_size = |bytes: usize| json!({"checkpoint": {"s": "x".repeat(bytes - r#"{"s":""}"#.len())}});
        world.agent("renew_claim", under(&claim, &of_size(8192)));
        for left in [json!({}), json!({"at": [1, {"of": null}]}), of_size(8192)["checkpoint"].clone()] {
            world.agent("renew_claim", under(&claim, &json!({"checkpoint": left})));
            for unchanged in [json!({}), json!({"checkpoint": null})] {
                world.agent("renew_claim", under(&claim, &unchanged));
            }
            let context = world.admin("get_thread_context", json!({"thread_id": claim["id"]}));
            assert_eq!(context["checkpoint"]["checkpoint"], left);
        }
        let before = world.database.dump();
        let thread = text(&claim["id"]);
        for bad in [
            of_size(8193),
            json!({"checkpoint": [1, {"at": 2}]}),
            json!({"checkpoint": "{\"at\": 2}"}),
            json!({"checkpoint": 0.5}),
            json!({"checkpoint": {"n": 9_007_199_254_740_993_i64}}),
        ] {
            let answer = world.call(&world.people.agent, "renew_claim", under(&claim, &bad));
            let refusal = text(&answer.refused(400, "malformed-request")["detail"]);
            assert!(refusal.contains("checkpoint") && !refusal.contains("malformed"), "{refusal}");
        }
        let left = json!({"thread_id": thread, "checkpoint": {}});
        world.call(&world.people.admin, "renew_claim", left).refused(409, "claim-not-held");
        assert_eq!(world.database.dump(), before);
    });
}

/// Earlier versions took any JSON, and models often sent the object as text.
#[test]
fn a_checkpoint_that_is_no_object_is_shown_as_one() {
    on_both_engines(|world| {
        let claim = claimed(world, "before");
        world.agent("renew_claim", under(&claim, &json!({"checkpoint": {"at": 1}})));
        let id = world.database.id(text(&claim["id"]).parse::<uuid::Uuid>().unwrap());
        for (stored, shown) in [
            (r#""{\"at\":2}""#, json!({"at": 2})),
            (r#""half of it""#, json!({"checkpoint": "half of it"})),
            ("[1]", json!({"checkpoint": [1]})),
        ] {
            world.database.execute(&format!(
                "update claim_checkpoints set checkpoint = '{stored}' where thread_id = {id}"
            ));
            let context = world.agent("get_thread_context", json!({"thread_id": claim["id"]}));
            assert_eq!(context["checkpoint"]["checkpoint"], shown, "{stored}");
        }
    });
}
