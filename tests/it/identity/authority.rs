//! Authority over others: visibility of channels, capabilities of tokens, and notices of the service.

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

/// Returns a worker token of another member without administrative rights.
fn worker(world: &World, handle: &str) -> (String, String) {
    world.new_agent(handle)
}

fn private(channel: &str, private: bool) -> Value {
    json!({"channel_id": channel, "private": private})
}

fn membership(channel: &str, member: &str) -> Value {
    json!({"channel_id": channel, "member_id": member})
}

#[test]
fn only_its_creator_and_the_administrators_control_a_channel() {
    on_both_engines(|world| {
        let admin = &world.people.admin;
        let admin_id = world.id("admin").to_string();
        let (maker_id, maker) = worker(world, "maker");
        let (taker_id, taker) = worker(world, "taker");
        let call = |token: &str, operation: &str, input: Value| world.call(token, operation, input);

        let general = world.new_channel("plans");
        call(&taker, "update_channel", private(&general, true)).refused(403, "forbidden");
        call(&taker, "update_channel", json!({"channel_id": general, "topic": "Everybody's"})).output();
        call(admin, "get_channel", json!({"channel_id": general})).output();

        let own = json!({"workspace_id": world.id("workspace"), "name": "own", "private": true});
        let own = text(&call(&maker, "create_channel", own).output()["id"]);
        for member in [&taker_id, &admin_id] {
            call(&maker, "add_channel_member", membership(&own, member)).output();
        }
        call(&taker, "remove_channel_member", membership(&own, &admin_id)).refused(403, "forbidden");
        call(&taker, "remove_channel_member", membership(&own, &maker_id)).refused(403, "forbidden");
        call(&taker, "update_channel", private(&own, false)).refused(403, "forbidden");
        call(&maker, "update_channel", private(&own, false)).output();
        call(&taker, "remove_channel_member", membership(&own, &maker_id)).refused(403, "forbidden");
        call(&maker, "update_channel", private(&own, true)).output();
        call(&taker, "remove_channel_member", membership(&own, &taker_id)).output();
        call(&taker, "get_channel", json!({"channel_id": own})).refused(404, "not-found");
        call(admin, "remove_channel_member", membership(&own, &maker_id)).output();
        call(&maker, "get_channel", json!({"channel_id": own})).refused(404, "not-found");
    });
}

/// Returns a token of the admin with these capabilities: its secret and its id.
fn token(world: &World, capabilities: &[&str]) -> (String, String) {
    let made = world.admin(
        "mint_token",
        json!({"workspace_id": world.id("workspace"), "member_id": world.id("admin"),
               "label": "for the board", "capabilities": capabilities}),
    );
    (text(&made["secret"]), text(&made["id"]))
}

#[test]
fn token_admin_grants_what_it_holds_and_a_workers_set_by_every_operation() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let (limited, _) = token(world, &["token:admin", "secret:read"]);
        let mint = |capabilities: Value| -> Answer {
            let input = json!({"workspace_id": workspace, "member_id": world.id("agent"),
                               "capabilities": capabilities});
            world.call(&limited, "mint_token", input)
        };
        let worker = json!({"workspace_id": workspace, "member_id": world.id("agent")});
        world.call(&limited, "mint_token", worker).output();
        let agent = json!({"workspace_id": workspace, "handle": "helper"});
        world.call(&limited, "create_agent", agent).output();
        for (capability, allowed) in [
            ("secret:read", true),
            ("message:post", true),
            ("channel:admin", false),
            ("operator:global", false),
        ] {
            let (_, id) = token(world, &[capability]);
            let minted = mint(json!([capability]));
            let rotated = world.call(&limited, "rotate_token", json!({"token_id": id}));
            for answer in [minted, rotated] {
                assert_eq!((answer.status == 403, answer.is_success()), (!allowed, allowed), "{answer:?}");
            }
        }
    });
}

#[test]
fn a_token_with_authority_beyond_the_workspace_is_revoked_by_an_equal_one() {
    on_both_engines(|world| {
        let (limited, _) = token(world, &["token:admin"]);
        let (_, wide) = token(world, &["token:admin", "channel:admin", "secret:admin"]);
        world.call(&limited, "revoke_token", json!({"token_id": wide})).output();
        for beyond in ["operator:global", "audit:read-global"] {
            let (holder, id) = token(world, &["token:admin", beyond]);
            let (_, other) = token(world, &["token:admin", beyond]);
            let revoke = |secret: &str, id: &str| world.call(secret, "revoke_token", json!({"token_id": id}));
            revoke(&limited, &id).refused(403, "forbidden");
            revoke(&holder, &other).output();
            revoke(&holder, &id).output();
        }
    });
}

#[test]
fn another_members_token_is_not_found_without_token_admin() {
    on_both_engines(|world| {
        let (_, foreign) = token(world, &["workspace:read"]);
        let unknown = "00000000-0000-7000-8000-000000000000";
        let rotate = |secret: &str, id: &str| world.call(secret, "rotate_token", json!({"token_id": id}));
        let of = |secret: &str| [&*foreign, unknown].map(|id| rotate(secret, id).refused(404, "not-found"));
        for stranger in [&world.people.agent, &world.people.reader, &world.people.outsider] {
            let [there, nowhere] = of(stranger);
            assert_eq!(there, nowhere);
        }
    });
}

#[test]
fn a_label_appears_only_in_the_list_of_tokens() {
    on_both_engines(|world| {
        let label = "nightly backup of the vault";
        let minted = world.admin(
            "mint_token",
            json!({"workspace_id": world.id("workspace"), "member_id": world.id("admin"),
                   "label": label, "capabilities": ["workspace:read"]}),
        );
        assert_eq!(minted["label"], label);
        world.admin("rotate_token", json!({"token_id": minted["id"]}));
        world.admin("revoke_token", json!({"token_id": minted["id"]}));
        let workspace = json!({"workspace_id": world.id("workspace"), "limit": 100});
        let mut page = workspace.clone();
        page["member_id"] = json!(world.id("admin"));
        assert!(world.admin("list_tokens", page).to_string().contains(label));
        let records = [world.admin("list_audit", workspace).to_string(), events(world)];
        for record in records {
            assert!(record.contains(minted["id"].as_str().unwrap()) && !record.contains(label), "{record}");
        }
    });
}

fn events(world: &World) -> String {
    let after = world.lsn() - 3;
    let page = json!({"workspace_id": world.id("workspace"), "after_id": after, "limit": 100});
    world.admin("list_events", page).to_string()
}

#[test]
fn only_the_service_writes_notices() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.id("channel").to_string(), "Paint the fence");
        let claimed = json!({"notice": "cancelled"});
        let post = json!({"thread_id": thread, "body": "Stop.", "metadata": claimed});
        world.call(&world.people.agent, "post_message", post).refused(400, "malformed-request");

        world.admin("cancel_thread", json!({"thread_id": thread, "reason": "It rains."}));
        let listed = world.admin("list_messages", json!({"thread_id": thread}));
        let message = &listed["items"][0];
        assert_eq!(message["metadata"]["notice"], "cancelled", "{message:#}");
        let edit = |metadata: Value| {
            let input = json!({"message_id": message["id"], "metadata": metadata});
            world.call(&world.people.admin, "edit_message", input)
        };
        edit(json!({"notice": "closed"})).refused(400, "malformed-request");
        assert_eq!(
            edit(json!({"by": "hand"})).output()["metadata"],
            json!({"by": "hand", "notice": "cancelled"})
        );
        assert_eq!(edit(json!(null)).output()["metadata"], json!({"notice": "cancelled"}));
    });
}
