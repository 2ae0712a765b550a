//! Tokens: capabilities, lifetimes, and bounded revocations.
//!
//! A derived token carries no more than its parent and does not outlive it, and one revocation ends a bounded
//! number.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::limits::{DERIVED_TOKENS_MAX, TOKEN_DEPTH_MAX};
use svc_tests::client::Answer;
use svc_tests::{World, answer_of, call, on_both_engines, text};

fn works(world: &World, secret: &str) -> bool {
    let answer = world.call(secret, "whoami", json!({}));
    assert!(answer.is_success() || answer.code() == "unauthenticated", "{:#}", answer.body);
    answer.is_success()
}

fn attenuate(world: &World, secret: &str, input: Value) -> Value {
    world.call(secret, "attenuate_token", input).output()
}

fn try_to_attenuate(world: &World, secret: &str, more: &Value) -> Answer {
    let mut input = json!({"capabilities": ["workspace:read"]});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.call(secret, "attenuate_token", input)
}

fn revoked_with(world: &World, token_id: &Value) -> Vec<Value> {
    world.admin("revoke_token", json!({"token_id": token_id}))["revoked_ids"].as_array().unwrap().clone()
}

fn id(world: &World, text: &str) -> String {
    world.database.id(text.parse::<uuid::Uuid>().unwrap())
}

#[test]
fn a_derived_token_has_at_most_what_its_parent_has() {
    on_both_engines(|world| {
        let refused = [
            json!({"capabilities": ["workspace:read", "channel:admin"]}),
            json!({"capabilities": ["workspace:read"], "expires_in_secs": 7200}),
        ];
        let parent = world.admin(
            "mint_token",
            json!({"workspace_id": world.id("workspace"),
                               "member_id": world.id("agent"),
                   "capabilities": ["workspace:read", "message:post"], "expires_in_secs": 3600}),
        );
        let secret = text(&parent["secret"]);
        for input in refused {
            world.call(&secret, "attenuate_token", input).refused(403, "forbidden");
        }
        // Not even a token with `token:admin` derives one that has it.
        let admins = json!({"capabilities": ["token:admin"]});
        world.call(&world.people.admin, "attenuate_token", admins).refused(403, "forbidden");
        let child = attenuate(world, &secret, json!({"capabilities": ["workspace:read"]}));
        assert_eq!((&child["parent_id"], &child["expires_at"]), (&parent["id"], &parent["expires_at"]));
        let me = world.call(&text(&child["secret"]), "whoami", json!({})).output();
        assert_eq!(me["capabilities"], json!(["workspace:read"]));
        assert_eq!(me["member_id"], world.id("agent").to_string());

        world.clock.advance(Duration::from_secs(3600));
        assert!(!works(world, &secret) && !works(world, &text(&child["secret"])), "both end with the parent");
    });
}

#[test]
fn a_token_carries_capabilities_that_exist_and_at_least_one() {
    on_both_engines(|world| {
        let mint = |capabilities: Value| {
            let input = json!({"workspace_id": world.id("workspace"),
                               "member_id": world.id("agent"),
                               "capabilities": capabilities});
            world.call(&world.people.admin, "mint_token", input)
        };
        mint(json!(["no:such"])).refused(400, "malformed-request");
        mint(json!([])).refused(400, "malformed-request");
        mint(json!(["workspace:read"])).output();
    });
}

#[test]
fn a_revocation_also_revokes_every_derived_token() {
    on_both_engines(|world| {
        let capabilities = json!({"capabilities": ["workspace:read"]});
        let child = attenuate(world, &world.people.agent, capabilities.clone());
        let grandchild = attenuate(world, &text(&child["secret"]), capabilities.clone());
        let sibling = attenuate(world, &world.people.agent, capabilities);
        let revoke = || world.admin("revoke_token", json!({"token_id": child["id"]}));
        let lsn = world.lsn();
        let revoked = revoke();
        assert_eq!(revoked["revoked_ids"].as_array().unwrap().len(), 2);
        assert_eq!(world.kinds_after(lsn), ["TokenRevoked", "TokenRevoked"]);
        let alive = [&child, &grandchild, &sibling].map(|token| works(world, &text(&token["secret"])));
        assert_eq!((alive, works(world, &world.people.agent)), ([false, false, true], true));
        revoke();
        assert_eq!(world.kinds_after(lsn).len(), 2, "a second revocation changes nothing");
    });
}

#[test]
fn a_rotation_ends_the_old_secret_at_once_and_nothing_else() {
    on_both_engines(|world| {
        let child = attenuate(world, &world.people.agent, json!({"capabilities": ["workspace:read"]}));
        let other = json!({"token_id": world.id("agent_token")});
        world.call(&world.people.reader, "rotate_token", other.clone()).refused(404, "not-found");
        let rotated = world.agent("rotate_token", other);
        assert_eq!(rotated["id"], world.id("agent_token").to_string());
        assert!(!works(world, &world.people.agent));
        assert!(works(world, &text(&rotated["secret"])) && works(world, &text(&child["secret"])));
    });
}

#[test]
fn no_list_and_no_record_carries_a_secret() {
    on_both_engines(|world| {
        let (id, secret) = world.new_agent("careful");
        let input = json!({"workspace_id": world.id("workspace"), "member_id": id});
        let listed = world.admin("list_tokens", input);
        assert!(listed["items"][0].get("secret").is_none(), "{listed:#}");
        let everything = format!("{:?}", world.database.dump());
        assert!(!everything.contains(&secret) && !everything.contains(&hex::encode(&secret)));
        let taken = json!({"workspace_id": world.id("workspace"), "handle": "Careful"});
        world.call(&world.people.admin, "create_agent", taken).refused(409, "handle-taken");
        assert_eq!(format!("{:?}", world.database.dump()), everything, "nothing is left behind");
    });
}

#[test]
fn a_revocation_ends_a_bounded_number_of_tokens() {
    on_both_engines(|world| {
        let child = try_to_attenuate(world, &world.people.agent, &json!({})).output();
        let secret = match world.engine() {
            Engine::Sqlite => "randomblob(32)",
            Engine::Postgres => {
                "decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')"
            }
        };
        let insert = format!(
            "insert into tokens (id, workspace_id, member_id, actor_id, parent_id, secret_hash, capabilities,
                 created_at, lsn)
             select {}, t.workspace_id, t.member_id, t.actor_id,
                 t.id, {secret}, t.capabilities, t.created_at, t.lsn
             from n cross join tokens t where t.id = {}",
            world.database.any_id(),
            id(world, &text(&child["id"]))
        );
        world.database.insert_many(DERIVED_TOKENS_MAX - 1, &insert);
        for secret in [&world.people.agent, &text(&child["secret"])] {
            let refusal = try_to_attenuate(world, secret, &json!({})).refused(409, "wrong-state");
            assert!(text(&refusal["detail"]).contains("1000 live tokens"), "{refusal}");
        }
        // Expired ones do not count.
        let of_child = format!("parent_id = {}", id(world, &text(&child["id"])));
        world.database.execute(&format!("update tokens set expires_at = 1 where {of_child}"));
        let grandchild = try_to_attenuate(world, &text(&child["secret"]), &json!({})).output();
        let lsn = world.lsn();
        assert_eq!(revoked_with(world, &child["id"]), [child["id"].clone(), grandchild["id"].clone()]);
        assert_eq!(world.kinds_after(lsn), ["TokenRevoked", "TokenRevoked"]);
        assert!(!works(world, &text(&child["secret"])) && !works(world, &text(&grandchild["secret"])));
    });
}

#[test]
fn the_depth_of_derivation_is_bounded() {
    on_both_engines(|world| {
        let mut secret = world.people.agent.clone();
        for _ in 0..TOKEN_DEPTH_MAX {
            secret = text(&try_to_attenuate(world, &secret, &json!({})).output()["secret"]);
        }
        try_to_attenuate(world, &secret, &json!({})).refused(409, "wrong-state");
    });
}

#[test]
fn a_token_that_had_expired_when_its_parent_was_revoked_stays_dead() {
    on_both_engines(|world| {
        let parent = try_to_attenuate(world, &world.people.agent, &json!({})).output();
        let secret = text(&parent["secret"]);
        let child = try_to_attenuate(world, &secret, &json!({"expires_in_secs": 3600})).output();
        let grandchild = try_to_attenuate(world, &text(&child["secret"]), &json!({})).output();
        assert!(works(world, &text(&child["secret"])) && works(world, &text(&grandchild["secret"])));
        // The machine's clock is a day ahead for a moment.
        let now = world.clock.now();
        world.clock.set(now.plus(Duration::from_secs(86_400)));
        assert!(works(world, &text(&parent["secret"])) && !works(world, &text(&child["secret"])));
        assert_eq!(revoked_with(world, &parent["id"]), [parent["id"].clone()]);
        world.clock.set(now);
        assert!(
            !works(world, &text(&parent["secret"]))
                && !works(world, &text(&child["secret"]))
                && !works(world, &text(&grandchild["secret"]))
        );
    });
}

/// A writer of the database cannot give a token more than the log says that it was granted.
#[test]
fn a_token_with_more_than_its_event_has_granted_is_rejected() {
    on_both_engines(|world| {
        let mint = |capabilities: &[&str]| {
            world.admin(
                "mint_token",
                json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent"),
                       "label": "for a test", "capabilities": capabilities}),
            )
        };
        let less = mint(&["workspace:read"]);
        let more = mint(&["workspace:read", "token:admin"]);
        let secret = text(&less["secret"]);
        let [less, more] = [&less, &more].map(|token| id(world, &text(&token["id"])));
        // Another server has not cached it.
        let answer = || answer_of(call(&world.another_service(3), Some(&secret), "whoami", &json!({})));
        let set = |column: &str, value: &str| {
            world.database.execute(&format!("update tokens set {column} = {value} where id = {less}"));
        };
        let of = |column: &str, token: &str| {
            world.database.number(&format!("select {column} from tokens where id = {token}"))
        };
        let capabilities = of("capabilities", &less);
        let lsn = of("lsn", &less);
        assert!(answer().is_success());
        set("capabilities", &of("capabilities", &more).to_string());
        answer().refused(401, "unauthenticated");
        // Naming the event of another token, or no event, does not help either.
        for other in [of("lsn", &more), world.lsn() + 1000, 1, 0, -1] {
            set("lsn", &other.to_string());
            answer().refused(401, "unauthenticated");
        }
        set("lsn", &lsn.to_string());
        answer().refused(401, "unauthenticated");
        set("capabilities", &capabilities.to_string());
        assert!(answer().is_success());
        // Fewer capabilities do no harm, and in a pruned log this proves nothing.
        set("capabilities", "0");
        assert!(answer().is_success());
        set("capabilities", &of("capabilities", &more).to_string());
        let workspace = world.database.id(world.id("workspace"));
        world
            .database
            .execute(&format!("update heads set floor = {} where workspace_id = {workspace}", lsn + 1));
        assert!(answer().is_success());
    });
}
