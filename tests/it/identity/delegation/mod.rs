//! Delegation: who acts for whom, for how long, and that every way to end it takes effect at once.

mod model;

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::limits::GRANT_TOKENS_MAX;
use svc_tests::client::Answer;
use svc_tests::{Person, World, answer_of, call, on_both_engines, text};

const DAY: i64 = 86_400;

fn subject_and_delegate(world: &World) -> [Person; 2] {
    ["subject", "delegate"].map(|handle| Person::new(world, handle))
}

/// Returns the input of a grant, with these fields changed.
fn grant_of(world: &World, people: &[Person; 2], changes: Value) -> Value {
    let mut input = json!({
        "workspace_id": world.id("workspace"), "subject": people[0].id, "delegate": people[1].id,
        "capabilities": ["workspace:read", "message:post"], "purpose": "Night shift.",
        "expires_in_secs": DAY,
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(input.as_object_mut().unwrap().remove(name)),
            value => input[name] = value.clone(),
        }
    }
    input
}

fn grant(world: &World, people: &[Person; 2], changes: Value) -> String {
    text(&world.admin("create_delegation_grant", grant_of(world, people, changes))["grant_id"])
}

fn try_to_exchange(world: &World, token: &str, grant: &str, changes: Value) -> Answer {
    let mut input = json!({"grant_id": grant});
    input.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    world.call(token, "delegate_token", input)
}

fn exchange(world: &World, token: &str, grant: &str) -> Value {
    try_to_exchange(world, token, grant, json!({})).output()
}

fn revoke(world: &World, grant: &str) -> Value {
    let input = json!({"workspace_id": world.id("workspace"), "grant_id": grant});
    world.admin("revoke_delegation_grant", input)
}

fn set_ceiling(world: &World, days: i64) -> Answer {
    let input = json!({"workspace_id": world.id("workspace"), "ceiling_days": days});
    world.call(&world.people.admin, "set_delegation_policy", input)
}

fn works(world: &World, secret: &str) -> bool {
    let answer = world.call(secret, "whoami", json!({}));
    assert!(answer.is_success() || answer.code() == "unauthenticated", "{:#}", answer.body);
    answer.is_success()
}

#[test]
fn a_grant_is_made_listed_exchanged_and_revoked() {
    on_both_engines(|world| {
        let people = subject_and_delegate(world);
        let list = || {
            let input = json!({"workspace_id": world.id("workspace")});
            world.admin("list_delegation_grants", input)["items"].as_array().unwrap().clone()
        };
        let before = list().len();
        let lsn = world.lsn();
        let made = world.admin("create_delegation_grant", grant_of(world, &people, json!({})));
        assert_eq!(world.kinds_after(lsn), ["DelegationGranted"]);
        assert_eq!((list().len(), list().last()), (before + 1, Some(&made)));
        assert_eq!(
            (&made["subject"], &made["delegate"], &made["purpose"], &made["revoked_at"]),
            (&json!(people[0].id), &json!(people[1].id), &json!("Night shift."), &Value::Null)
        );
        assert_eq!(made["created_by"], world.id("admin").to_string());

        let grant = text(&made["grant_id"]);
        let lsn = world.lsn();
        let token = exchange(world, &people[1].token, &grant);
        assert_eq!(world.kinds_after(lsn), ["TokenMinted"]);
        let secret = text(&token["secret"]);
        let me = world.call(&secret, "whoami", json!({})).output();
        assert_eq!(
            (&me["member_id"], &me["actor_id"], &me["delegation_grant_id"], &me["token_id"]),
            (&made["subject"], &made["delegate"], &made["grant_id"], &token["id"])
        );
        assert_eq!(me["capabilities"], made["capabilities"]);
        let own = world.call(&people[1].token, "whoami", json!({})).output();
        assert_eq!((&token["parent_id"], &token["member_id"]), (&own["token_id"], &made["subject"]));
        let input = json!({"workspace_id": world.id("workspace"), "member_id": people[0].id});
        let listed = world.admin("list_tokens", input)["items"].as_array().unwrap().clone();
        assert_eq!(listed.last().unwrap()["delegation_grant_id"], made["grant_id"]);
        let minted = world.admin(
            "list_events",
            json!({"workspace_id": world.id("workspace"), "after_id": lsn, "kind": "TokenMinted"}),
        );
        let payload = &minted["items"][0]["payload"];
        assert_eq!(payload["grant_id"], made["grant_id"], "{minted:#}");
        assert_eq!(payload["attribution"]["subject_id"], made["delegate"], "the delegate took it itself");

        let lsn = world.lsn();
        let revoked = revoke(world, &grant);
        assert_eq!(world.kinds_after(lsn), ["DelegationRevoked"], "one event for all tokens");
        assert_eq!(revoked["token_ids"], json!([token["id"]]));
        assert_eq!(list().last().unwrap()["revoked_at"], revoked["revoked_at"]);
        assert!(!works(world, &secret) && works(world, &people[1].token));
        world.clock.advance(Duration::from_secs(1));
        let again = revoke(world, &grant);
        assert_eq!(world.kinds_after(lsn).len(), 1, "a second revocation changes nothing");
        assert_eq!((&again["revoked_at"], &again["token_ids"]), (&revoked["revoked_at"], &json!([])));
        try_to_exchange(world, &people[1].token, &grant, json!({})).refused(409, "wrong-state");
    });
}

#[test]
fn a_grant_that_may_not_be_made_leaves_nothing() {
    on_both_engines(|world| {
        let people = subject_and_delegate(world);
        let [gone, app] = ["gone", "robot"].map(|handle| Person::new(world, handle));
        gone.set_time(world, "deactivated_at", true);
        let id = world.database.id(app.id.parse::<uuid::Uuid>().unwrap());
        world.database.execute(&format!("update members set handle = 'app:robot' where id = {id}"));
        let narrow = world.new_token(vec!["token:admin", "workspace:read"]);
        let admin = &world.people.admin;
        let stranger = uuid::Uuid::from_u128(7).to_string();
        let past = world.clock.now().to_string();
        let beyond = world.clock.now().plus(Duration::from_secs(90 * 86_400)).shifted(1).to_string();
        let malformed = (400, "malformed-request");
        let state = (409, "wrong-state");
        let before = format!("{:?}", world.database.dump());
        for (by, changes, (status, code)) in [
            (admin, json!({"capabilities": []}), malformed),
            (admin, json!({"capabilities": ["workspace:read", "token:admin"]}), malformed),
            (admin, json!({"capabilities": ["approval:grant"]}), malformed),
            (&narrow, json!({"capabilities": ["secret:read"]}), malformed),
            (&narrow, json!({}), (403, "forbidden")),
            (admin, json!({"purpose": ""}), malformed),
            (admin, json!({"purpose": "x".repeat(501)}), malformed),
            (admin, json!({"purpose": null}), malformed),
            (admin, json!({"expires_in_secs": null}), malformed),
            (admin, json!({"expires_at": beyond}), malformed),
            (admin, json!({"expires_in_secs": null, "expires_at": past}), malformed),
            (admin, json!({"expires_in_secs": null, "expires_at": beyond}), malformed),
            (admin, json!({"expires_in_secs": 90 * DAY + 1}), malformed),
            (admin, json!({"delegate": people[0].id}), state),
            (admin, json!({"delegate": stranger}), (404, "not-found")),
            (admin, json!({"subject": stranger}), (404, "not-found")),
            (admin, json!({"subject": gone.id}), state),
            (admin, json!({"delegate": gone.id}), state),
            (admin, json!({"subject": app.id}), state),
        ] {
            let input = grant_of(world, &people, changes);
            world.call(by, "create_delegation_grant", input).refused(status, code);
        }
        assert_eq!(format!("{:?}", world.database.dump()), before, "nothing is left behind");
        // The limits that are just allowed.
        grant(world, &people, json!({"delegate": app.id, "expires_in_secs": 90 * DAY}));
        let input = grant_of(world, &people, json!({"capabilities": ["workspace:read"]}));
        world.call(&narrow, "create_delegation_grant", input).output();
    });
}

#[test]
fn a_policy_bounds_the_grants_that_are_made_under_it() {
    on_both_engines(|world| {
        let people = subject_and_delegate(world);
        let read = || {
            world.admin("get_delegation_policy", json!({"workspace_id": world.id("workspace")}))
                ["ceiling_days"]
                .clone()
        };
        assert_eq!(read(), 90);
        let earlier = grant(world, &people, json!({"expires_in_secs": 90 * DAY}));
        let lsn = world.lsn();
        for days in [30, 30, 1, 3650] {
            assert_eq!(set_ceiling(world, days).output(), json!({"ceiling_days": days}));
            assert_eq!(read(), days);
            grant(world, &people, json!({"expires_in_secs": days * DAY}));
            let longer = grant_of(world, &people, json!({"expires_in_secs": days * DAY + 1}));
            world
                .call(&world.people.admin, "create_delegation_grant", longer)
                .refused(400, "malformed-request");
        }
        let set = world.kinds_after(lsn).into_iter().filter(|kind| kind == "DelegationPolicySet");
        assert_eq!(set.count(), 3, "the same again changes nothing");
        for days in [0, 3651] {
            set_ceiling(world, days).refused(400, "malformed-request");
        }
        set_ceiling(world, 1).output();
        world.clock.advance(Duration::from_secs(2 * 86_400));
        exchange(world, &people[1].token, &earlier);
    });
}

#[test]
fn a_grant_is_exchanged_by_its_delegate_with_a_token_of_its_own() {
    on_both_engines(|world| {
        let people = subject_and_delegate(world);
        let lent = grant(world, &people, json!({}));
        let [subject, delegate] = &people;
        let third = Person::new(world, "third");
        // A grant by which the delegate of the first grant acts for the delegate of the second.
        let pair = [Person { id: delegate.id.clone(), token: String::new() }, third];
        let borrowed = text(&exchange(world, &pair[1].token, &grant(world, &pair, json!({})))["secret"]);
        let narrowed = json!({"capabilities": ["workspace:read"]});
        let own = text(&world.call(&delegate.token, "attenuate_token", narrowed).output()["secret"]);
        let no_use = world.admin(
            "mint_token",
            json!({"workspace_id": world.id("workspace"), "member_id": delegate.id,
                   "capabilities": ["search:query"], "expires_in_secs": 3600}),
        );
        let nothing = text(&no_use["secret"]);
        let none = json!({});
        let unknown = uuid::Uuid::from_u128(7).to_string();
        let ends = |secs: u64| world.clock.now().plus(Duration::from_secs(secs)).to_string();
        let done = (201, "");
        let forbidden = (403, "forbidden");
        let missing = (404, "not-found");
        let malformed = (400, "malformed-request");
        for (by, grant, changes, wanted) in [
            (&delegate.token, &lent, none.clone(), done),
            (&own, &lent, none.clone(), done),
            (&own, &lent, json!({"capabilities": ["workspace:read"]}), done),
            (&own, &lent, json!({"capabilities": ["message:post"]}), forbidden),
            (&delegate.token, &lent, json!({"capabilities": ["search:query"]}), forbidden),
            (&delegate.token, &lent, json!({"capabilities": []}), malformed),
            (&nothing, &lent, none.clone(), forbidden),
            (&delegate.token, &lent, json!({"expires_in_secs": 3600}), done),
            (&delegate.token, &lent, json!({"expires_in_secs": 3601}), malformed),
            (&delegate.token, &lent, json!({"expires_at": ends(3600)}), done),
            (&delegate.token, &lent, json!({"expires_at": ends(3601)}), malformed),
            (&delegate.token, &lent, json!({"expires_at": ends(0)}), malformed),
            (&delegate.token, &lent, json!({"expires_at": ends(9), "expires_in_secs": 9}), malformed),
            (&borrowed, &lent, none.clone(), forbidden),
            (&subject.token, &lent, none.clone(), missing),
            (&pair[1].token, &lent, none.clone(), missing),
            (&world.people.admin, &lent, none.clone(), forbidden),
            (&world.people.outsider, &lent, none.clone(), missing),
            (&delegate.token, &unknown, none.clone(), missing),
        ] {
            let answer = try_to_exchange(world, by, grant, changes.clone());
            let code = if answer.is_success() { "" } else { answer.code() };
            assert_eq!((answer.status, code), wanted, "{changes}: {:#}", answer.body);
        }
        let of_own = exchange(world, &own, &lent);
        assert_eq!(of_own["capabilities"], json!(["workspace:read"]), "what both carry");
        subject.set_time(world, "deactivated_at", true);
        try_to_exchange(world, &delegate.token, &lent, json!({})).refused(409, "wrong-state");
    });
}

#[test]
fn an_exchanged_token_ends_with_its_time_its_grant_and_the_token_it_was_exchanged_with() {
    on_both_engines(|world| {
        let people = subject_and_delegate(world);
        let ends = |token: &Value| token["expires_at"].clone();
        let after = |secs: u64| json!(world.clock.now().plus(Duration::from_secs(secs)));
        let long = grant(world, &people, json!({}));
        let short = grant(world, &people, json!({"expires_in_secs": 100}));
        let brief = text(
            &world
                .call(
                    &people[1].token,
                    "attenuate_token",
                    json!({"capabilities": ["workspace:read"], "expires_in_secs": 50}),
                )
                .output()["secret"],
        );
        assert_eq!(ends(&exchange(world, &people[1].token, &long)), after(900));
        assert_eq!(ends(&exchange(world, &people[1].token, &short)), after(100));
        assert_eq!(ends(&exchange(world, &brief, &short)), after(50));
        for (by, grant) in [(&people[1].token, &short), (&brief, &long)] {
            let input = json!({"expires_in_secs": 101});
            try_to_exchange(world, by, grant, input).refused(403, "forbidden");
        }

        let token = exchange(world, &people[1].token, &long);
        let secret = text(&token["secret"]);
        let narrower = json!({"capabilities": ["workspace:read"]});
        let derived = world.call(&secret, "attenuate_token", narrower).output();
        let child = text(&derived["secret"]);
        assert_eq!((ends(&derived), &derived["parent_id"]), (ends(&token), &token["id"]));
        let me = world.call(&child, "whoami", json!({})).output();
        assert_eq!((&me["delegation_grant_id"], &me["actor_id"]), (&json!(long), &json!(people[1].id)));
        for secret in [&secret, &child] {
            world.call(secret, "rotate_token", json!({})).refused(409, "wrong-state");
        }
        let by_admin = json!({"token_id": token["id"]});
        world.call(&world.people.admin, "rotate_token", by_admin).refused(409, "wrong-state");
        // A new secret of the calling token ends nothing.
        let rotated = text(&world.call(&people[1].token, "rotate_token", json!({})).output()["secret"]);
        assert!(works(world, &secret) && works(world, &child));
        world.clock.advance(Duration::from_secs(900));
        assert!(!works(world, &secret) && !works(world, &child));
        try_to_exchange(world, &rotated, &short, json!({})).refused(409, "wrong-state");

        let token = text(&exchange(world, &rotated, &long)["secret"]);
        let own = world.call(&rotated, "whoami", json!({})).output()["token_id"].clone();
        world.admin("revoke_token", json!({"token_id": own}));
        assert!(!works(world, &token), "it ends with the token that it was exchanged with");
    });
}

#[test]
fn revoking_a_grant_ends_all_of_its_tokens_and_no_other() {
    on_both_engines(|world| {
        let people = subject_and_delegate(world);
        let [doomed, other] = [0, 1].map(|_| grant(world, &people, json!({})));
        let second = world.admin(
            "mint_token",
            json!({"workspace_id": world.id("workspace"), "member_id": people[1].id,
                   "capability_set": "svc.agent.worker"}),
        );
        let own = [people[1].token.clone(), text(&second["secret"])];
        let expired = exchange(world, &own[0], &doomed);
        world.clock.advance(Duration::from_secs(900));
        let narrower = json!({"capabilities": ["workspace:read"]});
        let mut ending = Vec::new();
        for token in &own {
            let exchanged = exchange(world, token, &doomed);
            let child = world.call(&text(&exchanged["secret"]), "attenuate_token", narrower.clone()).output();
            ending.extend([exchanged, child]);
        }
        let spared = text(&exchange(world, &own[0], &other)["secret"]);
        let lsn = world.lsn();
        let revoked = revoke(world, &doomed);
        assert_eq!(world.kinds_after(lsn), ["DelegationRevoked"]);
        let ids: Vec<&Value> = ending.iter().map(|token| &token["id"]).collect();
        assert_eq!(revoked["token_ids"], json!(ids), "in the order in which they were minted");
        assert!(ending.iter().all(|token| !works(world, &text(&token["secret"]))));
        assert!(works(world, &spared) && own.iter().all(|token| works(world, token)));
        // An expired token stays invalid, even if the machine's clock was ahead.
        world.clock.set(world.clock.now().shifted(-600_000_000));
        assert!(!works(world, &text(&expired["secret"])));
    });
}

#[test]
fn a_grant_has_a_bounded_number_of_live_tokens() {
    on_both_engines(|world| {
        let people = subject_and_delegate(world);
        let grant = grant(world, &people, json!({}));
        let token = exchange(world, &people[1].token, &grant);
        let id = world.database.id(text(&token["id"]).parse::<uuid::Uuid>().unwrap());
        let secret = match world.engine() {
            Engine::Sqlite => "randomblob(32)",
            Engine::Postgres => {
                "decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')"
            }
        };
        // From other tokens of the delegate.
        let insert = format!(
            "insert into tokens (id, workspace_id, member_id, actor_id, grant_id, secret_hash, capabilities,
                 created_at, expires_at, lsn)
             select {}, t.workspace_id, t.member_id, t.actor_id, t.grant_id, {secret}, t.capabilities,
                 t.created_at, t.expires_at, t.lsn
             from n cross join tokens t where t.id = {id}",
            world.database.any_id(),
        );
        world.database.insert_many(GRANT_TOKENS_MAX - 1, &insert);
        let narrower = json!({"capabilities": ["workspace:read"]});
        let attenuate = || world.call(&text(&token["secret"]), "attenuate_token", narrower.clone());
        for answer in [try_to_exchange(world, &people[1].token, &grant, json!({})), attenuate()] {
            let refusal = answer.refused(409, "wrong-state");
            assert!(text(&refusal["detail"]).contains("1000 live tokens"), "{refusal}");
        }
        let expire = "update tokens set expires_at = 1 where parent_id is null and grant_id is not null";
        world.database.execute(expire);
        attenuate().output();
        exchange(world, &people[1].token, &grant);
        assert_eq!(revoke(world, &grant)["token_ids"].as_array().unwrap().len(), 3);
    });
}

#[test]
fn a_grant_that_was_revoked_by_one_service_is_refused_by_the_other_at_the_next_request() {
    on_both_engines(|world| {
        let people = subject_and_delegate(world);
        let other = world.another_service(2);
        let ask = |secret: &str, operation: &str, input: Value| {
            answer_of(call(&other, Some(secret), operation, &input))
        };
        let post = json!({"thread_id": world.id("thread"), "body": "a"});
        for operation in ["whoami", "post_message", "delegate_token"] {
            let grant = grant(world, &people, json!({}));
            let token = text(&exchange(world, &people[1].token, &grant)["secret"]);
            // It is in the caches of readers and writers.
            assert!(ask(&token, "whoami", json!({})).is_success());
            assert!(ask(&token, "post_message", post.clone()).is_success());
            revoke(world, &grant);
            if operation == "delegate_token" {
                let input = json!({"grant_id": grant});
                ask(&people[1].token, operation, input).refused(409, "wrong-state");
            } else {
                let input = if operation == "whoami" { json!({}) } else { post.clone() };
                ask(&token, operation, input).refused(401, "unauthenticated");
            }
        }
    });
}
