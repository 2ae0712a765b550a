//! The end of a person's access by deactivation, and that reactivation restores nothing.

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::op::Credential;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::{World, answer_of, call, on_both_engines, text};

use super::{kinds_after, new_user, patch};

/// A person with a token.
struct PersonWithToken {
    user: Value,
    id: String,
    token: String,
}

impl PersonWithToken {
    fn new(world: &World, name: &str) -> Self {
        let user = new_user(world, name);
        let id = text(&user["id"]);
        Self { token: minted(world, &id, "svc.agent.worker"), user, id }
    }
}

fn minted(world: &World, member: &str, set: &str) -> String {
    let input = json!({"workspace_id": world.id("workspace"), "member_id": member, "capability_set": set});
    text(&world.admin("mint_token", input)["secret"])
}

fn works(world: &World, secret: &str) -> bool {
    world.call(secret, "whoami", json!({})).is_success()
}

#[test]
fn all_that_a_person_can_act_with_ends_at_once_on_every_server() {
    on_both_engines(|world| {
        let other = world.another_service(7);
        let ada = PersonWithToken::new(world, "eva");
        let agent = world.id("agent").to_string();
        let narrower = json!({"capabilities": ["workspace:read"]});
        let derived = text(&world.call(&ada.token, "attenuate_token", narrower.clone()).output()["secret"]);
        let work = ["workspace:read", "message:post"];
        let held = world.new_grant(&agent, &ada.id, &work);
        let as_agent = world.exchange(&ada.token, &held);
        let below = text(&world.call(&as_agent, "attenuate_token", narrower).output()["secret"]);
        let lent = world.new_grant(&ada.id, &agent, &work);
        let as_ada = world.exchange(&world.people.agent, &lent);
        let session = Credential::Session(world.sign_in(&ada.token));
        let thread = world.new_thread(&world.id("channel").to_string(), "for ada");
        world.call(&ada.token, "claim_thread", json!({"thread_id": thread})).output();
        let secrets = [&ada.token, &derived, &as_agent, &below, &as_ada];
        for secret in secrets {
            assert!(works(world, secret) && call(&other, Some(secret), "whoami", &json!({})).is_ok());
        }
        let mut ws = Ws::subscribe(world.address(), &first_frame(&ada.token, world.id("workspace"), None));
        assert_eq!(ws.frame()["type"], "subscribe_ack");
        let before = world.lsn();

        let input =
            json!({"id": ada.id, "Operations": [{"op": "replace", "path": "active", "value": false}]});
        let answer = answer_of(call(&other, Some(&world.people.admin), "patch_scim_user", &input)).output();
        assert_eq!(answer["active"], false);
        let kinds = kinds_after(world, before);
        assert_eq!(kinds, ["DelegationRevoked", "MemberDeactivated", "ThreadAssignmentChanged"]);
        world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "not for ada"}));
        for secret in secrets {
            assert!(!works(world, secret));
            assert!(call(&other, Some(secret), "whoami", &json!({})).is_err());
        }
        assert!(works(world, &world.people.agent), "the others go on");
        world.call_by(session.clone(), "whoami", &json!({})).refused(401, "unauthenticated");
        let claim = world.admin("get_thread", json!({"thread_id": thread}));
        assert_eq!(claim["assignee_id"], json!(null));
        loop {
            match ws.receive() {
                Received::Frame(frame) => assert!(!frame.to_string().contains("not for ada"), "{frame}"),
                Received::Closed(code) => break assert_eq!(code, 1008),
            }
        }

        patch(world, &ada.user, "replace", "active", json!(true)).output();
        assert_eq!(kinds_after(world, before).last().unwrap(), "MemberReactivated");
        for secret in secrets {
            assert!(!works(world, secret), "nothing came back");
        }
        world.call_by(session, "whoami", &json!({})).refused(401, "unauthenticated");
        assert!(works(world, &minted(world, &ada.id, "svc.agent.worker")), "what is minted now works");
    });
}

/// Live tokens of one person, far more than any real person has.
const MANY: i64 = 20_000;

#[test]
fn a_person_with_very_many_tokens_is_deactivated_like_any_other() {
    on_both_engines(|world| {
        let ada = PersonWithToken::new(world, "eva");
        let secret = match world.engine() {
            Engine::Sqlite => "randomblob(32)",
            Engine::Postgres => {
                "decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')"
            }
        };
        let insert = format!(
            "insert into tokens
                 (id, workspace_id, member_id, actor_id, secret_hash, capabilities, created_at, lsn)
             select {}, t.workspace_id, t.member_id, t.actor_id, {secret}, t.capabilities, t.created_at, t.lsn
             from n cross join tokens t where t.member_id = {}",
            world.database.any_id(),
            world.database.id(ada.id.parse::<uuid::Uuid>().unwrap())
        );
        world.database.insert_many(MANY, &insert);
        let live = || world.database.number("select count(*) from tokens where revoked_at is null");
        let before = live();
        assert!(before > MANY);
        patch(world, &ada.user, "replace", "active", json!(false)).output();
        assert_eq!(live(), before - MANY - 1);
        assert!(!works(world, &ada.token));
        let event = world.admin(
            "list_events",
            json!({"workspace_id": world.id("workspace"), "after_id": world.lsn() - 1, "limit": 1}),
        );
        let ended = event["items"][0]["payload"]["token_ids"].as_array().unwrap().len();
        assert_eq!(i64::try_from(ended).unwrap(), MANY + 1);
        world.admin("delete_scim_user", json!({"id": ada.id}));
    });
}

#[test]
fn nobody_ends_itself_and_an_operator_only_by_an_operator() {
    on_both_engines(|world| {
        let admin = json!({"id": world.id("admin")});
        let replace = json!({"id": world.id("admin"), "userName": "ada", "active": false});
        let off = json!([{"op": "replace", "path": "active", "value": false}]);
        let patch = json!({"id": world.id("admin"), "Operations": off});
        let calls = [("delete_scim_user", admin), ("replace_scim_user", replace), ("patch_scim_user", patch)];
        for (operation, input) in &calls {
            world.call(&world.people.admin, operation, input.clone()).refused(403, "forbidden");
        }
        let somebody = PersonWithToken::new(world, "second");
        let second = minted(world, &somebody.id, "svc.human.admin");
        let reaches = world.admin("whoami", json!({}))["capabilities"].to_string();
        assert!(reaches.contains("operator:global"), "{reaches}");
        for (operation, input) in &calls {
            world.call(&second, operation, input.clone()).refused(403, "forbidden");
        }
        assert!(works(world, &world.people.admin));
    });
}

#[test]
fn a_frozen_administrator_changes_no_user() {
    on_both_engines(|world| {
        let somebody = PersonWithToken::new(world, "second");
        let second = minted(world, &somebody.id, "svc.human.admin");
        world.admin("freeze_member", json!({"member_id": somebody.id}));
        let answer = world.call(&second, "create_scim_user", json!({"userName": "x"}));
        answer.refused(403, "member-frozen");
        let bearer = Credential::Bearer(SecretString::from(second.as_str()));
        assert!(world.call_by(bearer, "list_scim_users", &json!({})).is_success());
    });
}
