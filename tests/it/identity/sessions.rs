//! Sessions of browsers: their member, and their end.

use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::id::SessionId;
use svc_core::op::{Credential, Request, Surface};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::{Setup, World, in_parallel, on_both_engines, text};

fn minted(world: &World, member: &str) -> Value {
    world.admin(
        "mint_token",
        json!({"workspace_id": world.id("workspace"), "member_id": world.id(member),
               "capability_set": "svc.agent.worker"}),
    )
}

fn ask(world: &World, session: SessionId, operation: &str, input: &Value) -> Answer {
    world.call_by(Credential::Session(session), operation, input)
}

fn is_live(world: &World, session: SessionId) -> bool {
    ask(world, session, "whoami", &json!({})).is_success()
}

/// Returns the answer to a bearer token beside a session.
fn both(world: &World, token: &Value, session: SessionId, operation: &str, input: &Value) -> Answer {
    let bearer = SecretString::from(text(&token["secret"]));
    world.call_by(Credential::Both(bearer, session), operation, input)
}

#[test]
fn a_session_of_a_token_acts_with_exactly_that_tokens_authority_and_has_none_to_pass_on() {
    on_both_engines(|world| {
        let token = minted(world, "agent");
        let session = world.new_session(token["id"].as_str());
        let me = ask(world, session, "whoami", &json!({})).output();
        let same = world.call(&text(&token["secret"]), "whoami", json!({})).output();
        for field in ["member_id", "actor_id", "capabilities", "capability_sets", "workspace_id"] {
            assert_eq!(me[field], same[field], "{field}");
        }
        assert_eq!((&me["token_id"], &same["token_id"]), (&json!(null), &token["id"]));
        let narrower = json!({"capabilities": ["workspace:read"]});
        ask(world, session, "attenuate_token", &narrower).refused(403, "forbidden");
        ask(world, session, "rotate_token", &json!({})).refused(403, "forbidden");
        ask(world, session, "rotate_token", &json!({"token_id": token["id"]})).refused(404, "not-found");
        let grant =
            world.new_grant(&world.id("admin").to_string(), &text(&me["member_id"]), &["workspace:read"]);
        ask(world, session, "delegate_token", &json!({"grant_id": grant})).refused(403, "forbidden");
    });
}

#[test]
fn a_session_ends_with_its_token() {
    let ends: [(&str, fn(&World, &Value)); 3] = [
        ("revoked", |world, token| {
            world.admin("revoke_token", json!({"token_id": token["id"]}));
        }),
        ("rotated", |world, token| {
            world.call(&text(&token["secret"]), "rotate_token", json!({"token_id": token["id"]})).output();
        }),
        ("over", |world, _| world.pass(Duration::from_secs(3600))),
    ];
    on_both_engines(|world| {
        for (how, end) in ends {
            let token = minted(world, "agent");
            let session = world.new_session(token["id"].as_str());
            assert!(is_live(world, session), "{how}");
            end(world, &token);
            assert!(!is_live(world, session), "{how}");
        }
    });
}

#[test]
fn a_session_of_a_members_own_acts_as_that_member_without_a_token() {
    on_both_engines(|world| {
        let session = world.new_session(None);
        let me = ask(world, session, "whoami", &json!({})).output();
        assert_eq!(me["member_id"], json!(world.id("admin")));
        assert_eq!((&me["token_id"], me["capabilities"].as_array().unwrap().len()), (&json!(null), 7));
        let admin_only = json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent")});
        ask(world, session, "list_tokens", &admin_only).refused(403, "missing-capability");
    });
}

#[test]
fn a_token_beside_a_session_acts_if_both_are_of_one_member_and_the_audit_row_names_both() {
    on_both_engines(|world| {
        let own = minted(world, "admin");
        let others = minted(world, "agent");
        let session = world.new_session(None);
        let me = both(world, &own, session, "whoami", &json!({})).output();
        assert_eq!(me["token_id"], own["id"]);
        both(world, &others, session, "whoami", &json!({})).refused(401, "unauthenticated");
        let channel = json!({"workspace_id": world.id("workspace"), "name": "both"});
        both(world, &own, session, "create_channel", &channel).output();
        let audit = json!({"workspace_id": world.id("workspace"), "limit": 1});
        let last = world.admin("list_audit", audit)["items"][0].clone();
        assert_eq!(last["metadata"]["session_id"], json!(session), "{last:#}");
        world.pass(Duration::from_secs(3600));
        both(world, &own, session, "whoami", &json!({})).refused(401, "unauthenticated");
    });
}

#[test]
fn a_share_ticket_is_no_token() {
    on_both_engines(|world| {
        for secret in [world.people.admin.as_str(), "svc_share_1", ""] {
            let ticket = Credential::Ticket(SecretString::from(secret));
            world.call_by(ticket, "whoami", &json!({})).refused(401, "unauthenticated");
        }
    });
}

#[test]
fn the_first_administrator_is_minted_once_by_a_session_of_a_members_own() {
    for engine in engines() {
        let world = World::with(engine, Setup { first_admin: true, ..Setup::default() });
        let mint = |session| ask(&world, session, "mint_first_admin", &json!({}));
        let own = world.new_session(None);
        mint(own).refused(409, "wrong-state");
        mint(world.new_session(minted(&world, "agent")["id"].as_str())).refused(403, "forbidden");
        world.database.execute("update tokens set revoked_at = 1");
        let outcomes = in_parallel(2, |_| mint(own).status);
        assert!(outcomes.contains(&201) && outcomes.contains(&409), "{outcomes:?}");
        let closed = World::with(engine, Setup::default());
        ask(&closed, closed.new_session(None), "mint_first_admin", &json!({})).refused(403, "forbidden");
    }
}

#[test]
fn a_session_is_removed_a_day_after_its_end() {
    on_both_engines(|world| {
        let sessions = || world.database.number("select count(*) from sessions");
        let session = world.new_session(None);
        world.pass(Duration::from_secs(3600 + 86_400 - 1));
        assert_eq!(sessions(), 1);
        world.pass(Duration::from_secs(1));
        assert_eq!(sessions(), 0);
        assert!(!is_live(world, session));
    });
}

#[test]
fn a_session_ends_on_every_server_with_whatever_it_stands_for() {
    let ends: [(&str, &str, fn(&World, &Value) -> Value); 2] = [
        ("revoked", "revoke_token", |_, token| json!({"token_id": token["id"]})),
        ("rotated", "rotate_token", |_, token| json!({"token_id": token["id"]})),
    ];
    on_both_engines(|world| {
        let other = world.another_service(7);
        let live_there = |session| {
            let request = Request::json(Surface::Rest, Credential::Session(session), "{}");
            other.call(other.operation("whoami").unwrap(), request).is_ok()
        };
        for (how, operation, input) in ends {
            let token = minted(world, "agent");
            let session = world.new_session(token["id"].as_str());
            assert!(live_there(session) && is_live(world, session), "{how}");
            world.admin(operation, input(world, &token));
            assert!(!live_there(session) && !is_live(world, session), "{how}");
        }
        for everywhere in [false, true] {
            let session = world.new_session(minted(world, "agent")["id"].as_str());
            assert!(live_there(session));
            ask(world, session, "end_session", &json!({"everywhere": everywhere})).output();
            assert!(!live_there(session) && !is_live(world, session), "signed out, {everywhere}");
        }
    });
}

#[test]
fn a_frozen_member_signs_in_and_out_and_a_delegate_signs_out_only_itself() {
    on_both_engines(|world| {
        let secret = world.people.frozen.clone();
        let bearer = |secret: &str| Credential::Bearer(SecretString::from(secret));
        let input = json!({"token": secret});
        let made = world.call_by(bearer(&secret), "create_session", &input).output();
        let session: SessionId = text(&made["session_id"]).parse().unwrap();
        let channel = json!({"workspace_id": world.id("workspace"), "name": "frozen"});
        ask(world, session, "create_channel", &channel).refused(403, "member-frozen");
        ask(world, session, "end_session", &json!({})).output();
        let other = json!({"token": world.people.agent});
        world.call_by(bearer(&secret), "create_session", &other).refused(403, "forbidden");

        let grant = world.new_grant(
            &world.id("agent").to_string(),
            &world.id("admin").to_string(),
            &["message:post"],
        );
        let borrowed = world.exchange(&world.people.admin, &grant);
        let made = world.call_by(bearer(&borrowed), "create_session", &json!({"token": borrowed})).output();
        let session: SessionId = text(&made["session_id"]).parse().unwrap();
        let everywhere = json!({"everywhere": true});
        ask(world, session, "end_session", &everywhere).refused(403, "forbidden");
        assert_eq!(ask(world, session, "end_session", &json!({})).output()["session_ids"], json!([session]));
    });
}
