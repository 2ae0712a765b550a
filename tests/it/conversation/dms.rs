//! Direct messages: their participants, their contents, and their secrecy.

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::{World, on_both_engines, text};

fn open(world: &World, token: &str, others: &[&str]) -> Answer {
    let input = json!({"workspace_id": world.id("workspace"), "member_ids": others});
    world.call(token, "open_dm", input)
}

fn participants(dm: &Value) -> Vec<String> {
    dm["participants"].as_array().unwrap().iter().map(|one| text(&one["member_id"])).collect()
}

fn post(world: &World, token: &str, dm: &Value, body: &str) -> Value {
    world.call(token, "post_message", json!({"thread_id": dm["thread_id"], "body": body})).output()
}

fn listed(world: &World, token: &str) -> Vec<Value> {
    let input = json!({"workspace_id": world.id("workspace"), "limit": 1});
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let mut input = input.clone();
        input["cursor"] = cursor;
        let page = world.call(token, "list_dms", input).output();
        found.extend(page["items"].as_array().unwrap().iter().cloned());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return found;
        }
    }
}

#[test]
fn a_group_that_two_are_left_of_is_not_their_direct_message() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let bystander = &world.people.bystander;
        let bystander_id = &*world.people.bystander_id;
        let (third_id, third) = world.new_agent("third");
        let group = open(world, agent, &[bystander_id, &third_id]).output();
        world.call(&third, "leave_dm", json!({"channel_id": group["id"]})).output();
        let pair = open(world, agent, &[bystander_id]).output();
        assert_ne!(pair["id"], group["id"]);
        assert_eq!(open(world, bystander, &[&world.id("agent").to_string()]).output(), pair);
        let add = |dm: &Value| {
            let input = json!({"channel_id": dm["id"], "member_id": third_id});
            world.call(bystander, "add_dm_participant", input)
        };
        assert_eq!(add(&pair).code(), "wrong-state");
        assert_eq!(participants(&add(&group).output()).len(), 3);
        assert_eq!(open(world, agent, &[bystander_id, &third_id]).output()["id"], group["id"]);
    });
}

#[test]
fn a_set_of_members_has_one_direct_message_which_nobody_else_finds() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let bystander = &world.people.bystander;
        let [agent_id, bystander_id] = [world.id("agent").to_string(), world.people.bystander_id.clone()];
        let before = world.lsn();
        let dm = open(world, agent, &[&bystander_id]).output();
        let added = "ChannelMemberAdded";
        assert_eq!(world.kinds_after(before), ["ChannelCreated", added, added, "ThreadCreated"]);
        assert_eq!(participants(&dm), [agent_id.clone(), bystander_id.clone()]);
        let after = world.lsn();
        assert_eq!(open(world, bystander, &[&agent_id]).output(), dm);
        assert_eq!(open(world, agent, &[&bystander_id, &agent_id, &bystander_id]).output(), dm);
        assert_eq!(world.lsn(), after);
        let channel = world.call(agent, "get_channel", json!({"channel_id": dm["id"]})).output();
        assert_eq!((&channel["kind"], &channel["private"]), (&json!("dm"), &json!(true)));
        let own = open(world, agent, &[&agent_id]).output();
        assert_eq!(participants(&own), std::slice::from_ref(&agent_id), "one may talk to oneself");

        let message = post(world, agent, &dm, "quetzal, between us");
        let all = json!({"workspace_id": world.id("workspace")});
        let hidden = [
            ("get_channel", json!({"channel_id": dm["id"]})),
            ("update_channel", json!({"channel_id": dm["id"], "name": "ours"})),
            ("archive_channel", json!({"channel_id": dm["id"]})),
            ("list_threads", json!({"channel_id": dm["id"]})),
            ("get_thread", json!({"thread_id": dm["thread_id"]})),
            ("post_message", json!({"thread_id": dm["thread_id"], "body": "me too"})),
            ("get_message", json!({"message_id": message["id"]})),
            ("add_dm_participant", json!({"channel_id": dm["id"], "member_id": world.id("admin")})),
            ("add_channel_member", json!({"channel_id": dm["id"], "member_id": world.id("admin")})),
            ("leave_dm", json!({"channel_id": dm["id"]})),
        ];
        for (operation, input) in hidden {
            world.call(&world.people.admin, operation, input).refused(404, "not-found");
        }
        // Nor is it in any list of members who are not participants.
        let marks = ["quetzal".to_owned(), text(&dm["id"]), text(&dm["thread_id"]), text(&message["id"])];
        for (operation, more) in [
            ("list_channels", json!({"limit": 500})),
            ("list_dms", json!({"limit": 500})),
            ("list_workspace_threads", json!({"limit": 500})),
            ("list_events", json!({"after_id": before, "limit": 500})),
            ("list_audit", json!({"limit": 100})),
        ] {
            let mut input = all.clone();
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let found = world.admin(operation, input).to_string();
            marks.iter().for_each(|mark| assert!(!found.contains(mark.as_str()), "{operation}: {mark}"));
        }
        for token in [agent, bystander] {
            let channels = world.call(token, "list_channels", all.clone()).output().to_string();
            assert!(!channels.contains(&marks[1]), "list_channels has no direct messages");
        }
        world.call(agent, "get_thread", json!({"thread_id": dm["id"]})).refused(404, "not-found");
        open(world, agent, &[]).refused(400, "malformed-request");
        open(world, agent, &[&text(&dm["id"])]).refused(404, "not-found");
    });
}

#[test]
fn a_direct_message_is_no_place_of_tasks() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let dm = open(world, agent, &[&world.people.bystander_id]).output();
        let more = json!({"channel_id": dm["id"], "title": "another thread", "priority": 100});
        let more = world.call(agent, "create_thread", more).output();
        let child = json!({"thread_id": more["id"], "title": "a child"});
        let child = world.call(agent, "create_child_thread", child).output();
        let threads = [&dm["thread_id"], &more["id"], &child["id"]];
        for thread in threads {
            let refused = world.call(agent, "claim_thread", json!({"thread_id": thread}));
            assert_eq!(refused.refused(409, "not-claimable")["reason"], "dm");
        }
        let of_channel = json!({"channel_id": dm["id"]});
        assert_eq!(world.call(agent, "claim_next_thread", of_channel).output(), json!({}));
        let all = json!({"workspace_id": world.id("workspace")});
        for operation in ["list_workspace_threads", "list_deferred_threads", "get_workspace_context"] {
            let found = world.call(agent, operation, all.clone()).output().to_string();
            for thread in threads {
                assert!(!found.contains(&text(thread)), "{operation}");
            }
        }
        let ready = "select count(*) from ready r join channels c on c.id = r.channel_id where c.dm";
        assert_eq!(world.database.number(ready), 0);
        let review = json!({"thread_id": more["id"], "action": "start_review"});
        world.call(agent, "transition_thread", review).output();
        let of_others = world.call(&world.people.bystander, "get_workspace_context", all).output();
        assert!(!of_others["reviews"].to_string().contains(&text(&more["id"])), "{of_others:#}");
        let in_channel = json!({"channel_id": dm["id"], "limit": 10});
        let found = world.call(agent, "list_threads", in_channel).output();
        assert_eq!(found["items"].as_array().unwrap().len(), 3, "its own list has them");
    });
}

#[test]
fn nobody_administers_a_direct_message() {
    on_both_engines(|world| {
        let admin = &world.people.admin;
        let dm = open(world, admin, &[&world.id("agent").to_string()]).output();
        let group = json!(world.id("group_dm"));
        for channel in [&dm["id"], &group] {
            let member = json!({"channel_id": channel, "member_id": world.id("agent")});
            for (operation, input) in [
                ("update_channel", json!({"channel_id": channel, "private": false})),
                ("archive_channel", json!({"channel_id": channel})),
                ("unarchive_channel", json!({"channel_id": channel})),
                ("add_channel_member", member.clone()),
                ("remove_channel_member", member.clone()),
                (
                    "create_share_ticket",
                    json!({"workspace_id": world.id("workspace"), "channel_id": channel,
                           "expires_in_secs": 60}),
                ),
            ] {
                let refused = world.call(admin, operation, input).refused(409, "wrong-state");
                assert!(refused["detail"].as_str().unwrap().contains("direct message"), "{refused:#}");
            }
        }
        let other = json!({"channel_id": world.id("channel"), "member_id": world.id("agent")});
        world.call(admin, "add_dm_participant", other).refused(404, "not-found");
        world.call(admin, "leave_dm", json!({"channel_id": world.id("channel")})).refused(404, "not-found");
    });
}

#[test]
fn a_group_takes_members_in_and_a_pair_stays_a_pair() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let bystander = &world.people.bystander;
        let ids = [world.id("agent").to_string(), world.people.bystander_id.clone()];
        let judge = world.id("judge").to_string();
        let (new, newcomer) = world.new_agent("newcomer");
        let add = |token: &str, dm: &Value, member: &str| {
            world.call(token, "add_dm_participant", json!({"channel_id": dm["id"], "member_id": member}))
        };
        let leave = |token: &str, dm: &Value| world.call(token, "leave_dm", json!({"channel_id": dm["id"]}));
        let pair = open(world, agent, &[&ids[1]]).output();
        add(agent, &pair, &new).refused(409, "wrong-state");
        assert_eq!(add(agent, &pair, &ids[1]).output(), pair, "who is in it is no newcomer");
        leave(agent, &pair).refused(409, "wrong-state");

        let group = open(world, agent, &[&ids[1], &judge]).output();
        post(world, agent, &group, "before you came");
        let first = first_frame(&newcomer, world.id("workspace"), None);
        let mut ws = Ws::subscribe(world.address(), &first);
        assert_eq!(ws.frame()["type"], "subscribe_ack");
        // The subscription knows by now who sees the group.
        post(world, agent, &group, "still without you");
        post(world, agent, &json!({"thread_id": world.id("thread")}), "for all");
        assert_eq!(ws.frame()["lsn"], world.lsn());
        let grown = add(bystander, &group, &new).output();
        assert_eq!(participants(&grown).len(), 4);
        post(world, agent, &group, "welcome");
        let seen = [ws.frame(), ws.frame()].map(|frame| text(&frame["kind"]));
        assert_eq!(seen, ["ChannelMemberAdded", "MessagePosted"]);
        let all = json!({"thread_id": group["thread_id"]});
        let said = world.call(&newcomer, "list_messages", all).output();
        assert_eq!(said["items"].as_array().unwrap().len(), 3, "a newcomer sees everything");

        // The remaining participants are found by their set; a direct message that they already have stays
        // the one.
        assert_eq!(open(world, agent, &[&ids[1], &judge, &new]).output(), grown);
        leave(&newcomer, &group).output();
        world.call(&newcomer, "get_channel", json!({"channel_id": group["id"]})).refused(404, "not-found");
        assert_eq!(open(world, agent, &[&ids[1], &judge]).output()["id"], group["id"]);
        let row = world.database.id(new.parse::<uuid::Uuid>().unwrap());
        world.database.execute(&format!("update members set deactivated_at = 1 where id = {row}"));
        add(agent, &group, &new).refused(409, "wrong-state");
        open(world, agent, &[&new]).refused(409, "wrong-state");
        let judge_token = text(
            &world.admin(
                "mint_token",
                json!({"workspace_id": world.id("workspace"), "member_id": judge, "label": "leaves",
                       "capabilities": ["message:post", "workspace:read"]}),
            )["secret"],
        );
        assert_eq!(leave(&judge_token, &group).output()["archived"], false);
        assert_eq!(open(world, agent, &[&ids[1]]).output(), pair);
        leave(bystander, &group).output();
        let before = world.lsn();
        assert_eq!(leave(agent, &group).output()["archived"], true);
        assert_eq!(world.kinds_after(before), ["ChannelMemberRemoved", "ChannelArchived"]);
        leave(agent, &group).refused(404, "not-found");
        let again = open(world, agent, &[&ids[1], &judge]).output();
        assert_ne!(again["id"], group["id"]);
        for number in 0..8 {
            let (id, _) = world.new_agent(&format!("friend-{number}"));
            add(agent, &again, &id).output();
        }
        let (one_too_many, _) = world.new_agent("friend-8");
        add(agent, &again, &one_too_many).refused(409, "wrong-state");
    });
}

/// An import restores the participants, and the search by their set is rebuilt.
#[test]
fn an_imported_direct_message_is_found_by_its_members() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let dm = open(world, agent, &[&world.people.bystander_id]).output();
        let group =
            open(world, agent, &[&world.people.bystander_id, &world.id("judge").to_string()]).output();
        world.database.execute("delete from dm_sets");
        assert_eq!(open(world, agent, &[&world.people.bystander_id]).output(), dm);
        let keys = || world.database.number("select count(*) from dm_sets");
        assert_eq!(keys(), 1);
        let others = [world.people.bystander_id.clone(), world.id("judge").to_string()];
        assert_eq!(open(world, agent, &[&others[0], &others[1]]).output(), group);
        assert_eq!(keys(), 2);
    });
}

#[test]
fn the_list_says_what_is_new() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let bystander = &world.people.bystander;
        let dm = open(world, agent, &[&world.people.bystander_id]).output();
        let new = |token: &str| {
            let found = listed(world, token).into_iter().find(|one| one["id"] == dm["id"]).unwrap();
            (found["unread"].as_i64().unwrap(), found["last_lsn"].clone())
        };
        assert_eq!((new(agent), new(bystander)), ((0, Value::Null), (0, Value::Null)));
        let one = post(world, agent, &dm, "one");
        let two = post(world, agent, &dm, "two");
        assert_eq!((new(agent).0, new(bystander)), (0, (2, two["lsn"].clone())));
        world.call(agent, "delete_message", json!({"message_id": one["id"]})).output();
        assert_eq!(new(bystander).0, 1, "a withdrawn one has nothing to read");
        let three = post(world, bystander, &dm, "three");
        assert_eq!((new(agent).0, new(bystander)), (1, (1, three["lsn"].clone())));
        let mark = json!({"target_id": dm["id"]});
        world.call(bystander, "mark_inbox_read", mark).output();
        assert_eq!((new(agent).0, new(bystander).0), (1, 0));
        (0..105).for_each(|n| drop(post(world, agent, &dm, &format!("no {n}"))));
        assert_eq!((new(agent).0, new(bystander).0), (1, 100));
        let inbox = world.call(bystander, "list_inbox", json!({"limit": 500})).output();
        let reasons = inbox["items"].as_array().unwrap().iter().filter(|item| item["channel_id"] == dm["id"]);
        let reasons: Vec<&Value> = reasons.map(|item| &item["reason"]).collect();
        assert_eq!(reasons.iter().filter(|reason| ***reason == json!("dm")).count(), 106, "{reasons:?}");
        let ids: Vec<Value> = listed(world, agent).iter().map(|one| one["id"].clone()).collect();
        assert_eq!(ids, [json!(world.id("group_dm")), dm["id"].clone()], "in the order of opening");
    });
}

#[test]
fn a_change_in_a_direct_message_is_audited_without_ids() {
    on_both_engines(|world| {
        let dm = open(world, &world.people.agent, &[&world.people.bystander_id]).output();
        let agent = Some(&*world.people.agent);
        let newest = || {
            let page = world.admin("list_audit", json!({"workspace_id": world.id("workspace"), "limit": 1}));
            page["items"][0].clone()
        };
        let post = |thread: &Value| json!({"thread_id": thread, "body": "hello"});
        let row = world.operation("post_message");
        for (thread, names_it) in [(json!(world.id("thread")), true), (dm["thread_id"].clone(), false)] {
            let path = if names_it {
                format!("/threads/{}/messages", text(&thread))
            } else {
                row.http().path.to_owned()
            };
            let posted = world.rest().call(agent, row, &post(&thread)).output();
            let found = newest();
            assert_eq!(found["actor_id"], json!(world.id("agent")));
            assert_eq!(
                (&found["metadata"]["operation"], &found["metadata"]["path"]),
                (&json!("post_message"), &json!(path))
            );
            world.mcp().call(agent, row, &post(&thread)).output();
            let found = newest();
            assert_eq!(found["metadata"]["operation"], "tools/call:post_message");
            assert_eq!(found["metadata"].get("ids").is_some(), names_it);
            let edit = json!({"message_id": posted["id"], "body": "hello again"});
            world.rest().call(agent, world.operation("edit_message"), &edit).output();
            assert_eq!(
                newest()["metadata"]["path"].as_str().unwrap().contains(&text(&posted["id"])),
                names_it
            );
        }
        // A message elsewhere that cites a direct message does not belong to it.
        let told = json!({"thread_id": dm["thread_id"], "body": "told in private"});
        let told = world.agent("post_message", told);
        let cites = json!([{"uri": told["uri"], "content_hash": told["content_hash"]}]);
        let citing = json!({"thread_id": world.id("thread"), "body": "so", "metadata": {"citations": cites}});
        world.mcp().call(agent, row, &citing).output();
        assert!(newest()["metadata"].get("ids").is_some(), "{:#}", newest());
        let dm_id = world.database.id(text(&dm["id"]).parse::<uuid::Uuid>().unwrap());
        let placed = format!("select count(*) from audit where channel_id = {dm_id}");
        assert_eq!(world.database.number(&placed), 0);
    });
}
