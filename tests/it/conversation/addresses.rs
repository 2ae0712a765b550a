//! Addresses: the object that each form names, and the result of a citation.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

fn resolve(world: &World, uri: &str) -> Value {
    world.agent("resolve_uri", json!({"uri": uri}))
}

#[test]
fn every_form_names_its_object_and_nothing_that_is_hidden() {
    on_both_engines(|world| {
        let [workspace, channel, thread] = ["workspace", "channel", "thread"].map(|name| world.id(name));
        let message = world.agent("post_message", json!({"thread_id": thread, "body": "here"}));
        let id = text(&message["id"]);
        let uri = text(&message["uri"]);
        let lsn = message["lsn"].as_i64().unwrap();
        let room = format!("svc://{workspace}");
        let in_channel = json!({"workspace_id": workspace, "channel_id": channel});
        let in_thread = json!({"workspace_id": workspace, "channel_id": channel, "thread_id": thread});
        let with = |ids: &Value, name: &str, value: Value| {
            let mut ids = ids.clone();
            ids[name] = value;
            ids
        };
        let channel_uri = format!("{room}/channels/{channel}");
        let thread_uri = format!("{channel_uri}/threads/{thread}");
        for (asked, kind, ids, full) in [
            (room.clone(), "workspace", json!({"workspace_id": workspace}), &room),
            (format!("svc://workspaces/{workspace}"), "workspace", json!({"workspace_id": workspace}), &room),
            (channel_uri.clone(), "channel", in_channel.clone(), &channel_uri),
            (format!("svc://channels/{channel}"), "channel", in_channel.clone(), &channel_uri),
            (thread_uri.clone(), "thread", in_thread.clone(), &thread_uri),
            (format!("svc://threads/{thread}"), "thread", in_thread.clone(), &thread_uri),
            (uri.clone(), "message", with(&in_thread, "message_id", json!(id)), &uri),
            (
                uri.to_uppercase()
                    .replace("SVC://", "svc://")
                    .replace("CHANNELS", "channels")
                    .replace("THREADS", "threads")
                    .replace("MESSAGES", "messages"),
                "message",
                with(&in_thread, "message_id", json!(id)),
                &uri,
            ),
            (
                format!("svc:event/{lsn}"),
                "event",
                with(&in_thread, "lsn", json!(lsn)),
                &format!("svc:event/{lsn}"),
            ),
            (format!("svc://boots/{channel}"), "boot", in_channel.clone(), &format!("svc://boots/{channel}")),
        ] {
            let found = resolve(world, &asked);
            assert_eq!((&found["uri"], &found["type"], &found["ids"]), (&json!(full), &json!(kind), &ids));
            assert_eq!(found["cited"], "none", "{asked}");
            let hash = found["content_hash"].as_str().map(str::to_owned);
            assert_eq!(hash.is_some(), ["message", "event"].contains(&kind), "{asked}");
            if let Some(hash) = hash {
                assert_eq!(resolve(world, &format!("{asked}#{hash}"))["cited"], "current", "{asked}");
            }
            let wrong = format!("{asked}#sha256:{}", "0".repeat(64));
            assert_eq!(resolve(world, &wrong)["cited"], "mismatch", "{asked}");
        }

        let other = world.new_channel("other");
        let private = world.admin("get_message", json!({"message_id": world.people.private_message_id}));
        let private_channel = world.id("private_channel");
        let hidden = |uri: &str| {
            world.call(&world.people.bystander, "resolve_uri", json!({"uri": uri})).refused(404, "not-found")
        };
        let none = hidden(&format!("svc://threads/{channel}"));
        for uri in [
            format!("svc://{thread}"),
            format!("svc://{thread}/channels/{channel}"),
            format!("{room}/channels/{other}/threads/{thread}"),
            uri.replace(&channel.to_string(), &other),
            uri.replace(&thread.to_string(), &world.new_thread(&other, "another")),
            uri.replace(&workspace.to_string(), &thread.to_string()),
            uri.replace(&id, &thread.to_string()),
            text(&private["uri"]),
            format!("svc://channels/{private_channel}"),
            format!("svc://boots/{private_channel}"),
            format!("svc://threads/{}", world.people.private_thread_id),
            format!("svc:event/{}", private["lsn"]),
            "svc:event/9999999".to_owned(),
            format!("svc://artifacts/{}", "ab".repeat(32)),
        ] {
            assert_eq!(hidden(&uri), none, "{uri}");
        }
        assert_eq!(world.admin("resolve_uri", json!({"uri": private["uri"]}))["type"], "message");
        for uri in [
            format!("svc://night-shift/channels/{channel}"),
            format!("svc://{workspace}/"),
            format!("{thread_uri}#section"),
            "svc:event/first".to_owned(),
            "https://example.org".to_owned(),
        ] {
            let asked = world.call(&world.people.agent, "resolve_uri", json!({"uri": uri}));
            asked.refused(400, "malformed-request");
        }
    });
}

#[test]
fn a_citation_is_current_superseded_withdrawn_or_mistaken() {
    on_both_engines(|world| {
        let message = world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "one"}));
        let mut hashes = vec![text(&message["content_hash"])];
        for body in ["two", "three"] {
            let edited = world.agent("edit_message", json!({"message_id": message["id"], "body": body}));
            hashes.push(text(&edited["content_hash"]));
        }
        let cited = |hash: &str| {
            let found = resolve(world, &format!("{}#{hash}", text(&message["uri"])));
            (text(&found["cited"]), found["edit"].as_i64())
        };
        let found = |cited: &str, edit| (cited.to_owned(), edit);
        assert_eq!(cited(&hashes[0]), found("superseded", Some(0)));
        assert_eq!(cited(&hashes[1]), found("superseded", Some(1)));
        assert_eq!(cited(&hashes[2]), found("current", None));
        let other = world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "four"}));
        let other = text(&other["content_hash"]);
        assert_eq!(cited(&other), found("mismatch", None));
        world.agent("delete_message", json!({"message_id": message["id"]}));
        hashes.iter().for_each(|hash| assert_eq!(cited(hash), found("withdrawn", None)));
        assert_eq!(cited(&other), found("mismatch", None));
        world.admin("purge_message", json!({"message_id": message["id"]}));
        let uri = json!({"uri": message["uri"]});
        world.call(&world.people.agent, "resolve_uri", uri).refused(404, "not-found");
    });
}
