//! Mentions: the receivers of a message, the report to its author, and changes by an edit.

use serde_json::{Value, json};
use svc_tests::{World, in_parallel, on_both_engines, text};

/// Posts a message and returns the mentioned members by id, and the names that reach no member.
fn post(world: &World, token: &str, thread: &str, body: &str) -> Value {
    world.call(token, "post_message", json!({"thread_id": thread, "body": body})).output()
}

/// Returns the members that an answer says are mentioned.
fn mentioned(answer: &Value) -> Vec<String> {
    answer["mentioned"].as_array().unwrap().iter().map(|entry| text(&entry["member_id"])).collect()
}

/// Returns the unread items of a member: reason and message.
pub fn unread(world: &World, token: &str) -> Vec<(String, Value)> {
    let page = world.call(token, "list_inbox", json!({"unread": true, "limit": 500})).output();
    let items = page["items"].as_array().unwrap();
    assert_eq!(page["unread"], items.len());
    items.iter().map(|item| (text(&item["reason"]), item["message_id"].clone())).collect()
}

#[test]
fn a_message_reaches_those_whom_it_mentions_and_says_whom_it_does_not() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let (bob, bob_token) = world.new_agent("bob");
        let (gone, gone_token) = world.new_agent("gone");
        let (hidden, _) = world.new_agent("hidden");
        let thread = world.new_thread(&world.new_channel("words"), "Talk");
        let before = world.lsn();
        let answer = post(world, agent, &thread, "@Bob, @ada: @nobody `@gone`\n\n> @hidden said\n\n@bob!");
        assert_eq!(mentioned(&answer), [bob.clone(), world.id("admin").to_string()]);
        assert_eq!(answer["mentioned"][0]["online"], false);
        assert_eq!(answer["not_reached"], json!([{"text": "@nobody", "why": "unknown"}]));
        assert_eq!(world.kinds_after(before), ["MessagePosted"], "no event names whom it reaches");
        let found = unread(world, &bob_token);
        assert_eq!(found, [("mention".to_owned(), answer["id"].clone())]);
        assert!(unread(world, &gone_token).is_empty());

        // A member who cannot see the channel or is gone is not reached.
        let private = world.new_private_channel("closed");
        world.admin("add_channel_member", json!({"channel_id": private, "member_id": world.id("agent")}));
        let closed = world.new_thread(&private, "Closed");
        world.database.execute(&format!(
            "update members set deactivated_at = 1 where id = {}",
            world.database.id(gone.parse::<uuid::Uuid>().unwrap())
        ));
        let answer = post(world, agent, &closed, "@hidden @gone @ada");
        assert_eq!(mentioned(&answer), [world.id("admin").to_string()]);
        assert_eq!(
            answer["not_reached"],
            json!([{"text": "@hidden", "why": "cannot_see"}, {"text": "@gone", "why": "inactive"}])
        );
        // A member is not notified of its own messages.
        let agents = text(&world.agent("whoami", json!({}))["handle"]);
        let answer = post(world, agent, &thread, &format!("@{agents} notes"));
        assert_eq!((mentioned(&answer).len(), &answer["not_reached"]), (0, &json!([])));
        assert!(unread(world, agent).iter().all(|(_, message)| *message != answer["id"]));
        let _ = hidden;
    });
}

/// Handles come from an identity provider, and messages may contain any of them.
#[test]
fn whoever_a_directory_has_made_is_reached_by_its_handle_or_told_of() {
    let names = [
        "O'Brien@corp.example".to_owned(),
        "ada+test@corp.example".to_owned(),
        "_svc_@corp.example".to_owned(),
        "josé@corp.example".to_owned(),
        "a*b*c".to_owned(),
        "corp/ada".to_owned(),
        "田中".to_owned(),
        "ünï.cödé@пример.рф".to_owned(),
        "x".repeat(254),
    ];
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let people = names.each_ref().map(|name| world.admin("create_scim_user", json!({"userName": name})));
        let open = world.new_channel("open");
        let closed = world.new_private_channel("closed-door");
        world.admin("add_channel_member", json!({"channel_id": closed, "member_id": world.id("agent")}));
        let [open, closed] = [open, closed].map(|channel| world.new_thread(&channel, "Talk"));
        for (name, person) in names.iter().zip(&people) {
            let body = format!("ask @{name}, please; not {name} or https://x.example/@{name}");
            let answer = post(world, agent, &open, &body);
            assert_eq!((mentioned(&answer), &answer["not_reached"]), (vec![text(&person["id"])], &json!([])));
            let answer = post(world, agent, &closed, &format!("@{name}'s turn"));
            let told = json!([{"text": format!("@{name}"), "why": "cannot_see"}]);
            assert_eq!((mentioned(&answer).len(), &answer["not_reached"]), (0, &told));
        }
        world.admin(
            "patch_scim_user",
            json!({"id": people[0]["id"], "Operations": [
            {"op": "replace", "path": "active", "value": false}]}),
        );
        let answer =
            post(world, agent, &open, "cc/@o'brien@corp.example/@o'neil@corp.example @田中/@ada (@)");
        assert_eq!(mentioned(&answer), [text(&people[6]["id"]), world.id("admin").to_string()]);
        let told = json!([{"text": "@o'brien@corp.example", "why": "inactive"},
                          {"text": "@o'neil@corp.example", "why": "unknown"}]);
        assert_eq!(answer["not_reached"], told);
    });
}

#[test]
fn blocks_of_text_mention_as_the_body_does() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let (bob, bob_token) = world.new_agent("bob");
        let thread = world.new_thread(&world.new_channel("blocks"), "Blocks");
        let block = |kind: &str| json!([{"type": kind, "text": "look, @bob"}]);
        let post = |content: Value| {
            let input = json!({"thread_id": thread, "body": "Two states", "content": content});
            world.call(agent, "post_message", input).output()
        };
        assert!(mentioned(&post(block("code"))).is_empty());
        let answer = post(block("text"));
        assert_eq!(mentioned(&answer), [bob]);
        assert_eq!(unread(world, &bob_token).len(), 1);
        let edit = |content: Value| {
            world
                .call(agent, "edit_message", json!({"message_id": answer["id"], "content": content}))
                .output()
        };
        assert!(mentioned(&edit(Value::Null)).is_empty());
        assert!(unread(world, &bob_token).is_empty(), "what the edit removes is taken back");
        assert_eq!(mentioned(&edit(block("text"))).len(), 1);
        assert_eq!(unread(world, &bob_token).len(), 1);
    });
}

#[test]
fn an_edit_tells_whom_the_first_text_did_not_reach_and_takes_back_what_a_smaller_group_removes() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let (bob, bob_token) = world.new_agent("bob");
        let channel = world.new_private_channel("narrow");
        world.admin("add_channel_member", json!({"channel_id": channel, "member_id": world.id("agent")}));
        let thread = world.new_thread(&channel, "Narrow");
        let posted = post(world, agent, &thread, "look @bob");
        assert_eq!(posted["not_reached"], json!([{"text": "@bob", "why": "cannot_see"}]));
        world.admin("add_channel_member", json!({"channel_id": channel, "member_id": bob}));
        let edit = |message: &Value, body: &str| {
            world.call(agent, "edit_message", json!({"message_id": message, "body": body})).output()
        };
        let told = || -> Vec<Value> {
            unread(world, &bob_token)
                .into_iter()
                .map(|(_, message)| message)
                .filter(Value::is_string)
                .collect()
        };
        assert_eq!(mentioned(&edit(&posted["id"], "look here @bob")), [bob]);
        assert_eq!(told(), [posted["id"].clone()]);
        world.call(&bob_token, "mark_mentions_read", json!({"up_to_lsn": world.lsn()})).output();
        edit(&posted["id"], "look there @bob");
        assert!(told().is_empty(), "who was told is not told again");

        let group = post(world, agent, &thread, "@channel, come");
        assert_eq!(told(), [group["id"].clone()]);
        edit(&group["id"], "@here, come");
        assert!(told().is_empty(), "it is not online");
    });
}

#[test]
fn the_first_fifty_mentions_count() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.new_channel("many"), "Many");
        let (bob, _) = world.new_agent("bob");
        let body: String = (0..50).map(|number| format!("@m{number} ")).chain(["@bob".to_owned()]).collect();
        let answer = post(world, &world.people.agent, &thread, &body);
        assert!(mentioned(&answer).is_empty(), "{bob}");
        let unreached = answer["not_reached"].as_array().unwrap();
        assert_eq!(unreached.len(), 51);
        assert_eq!(unreached[50], json!({"text": "@bob", "why": "too_many"}));
    });
}

#[test]
fn a_channel_is_reached_by_one_word_and_a_large_one_only_by_who_administers_it() {
    on_both_engines(|world| {
        let admin = &*world.people.admin;
        let agent = &*world.people.agent;
        let channel = world.new_channel("crowd");
        let thread = world.new_thread(&channel, "Everybody");
        let mut ids = Vec::new();
        let mut tokens = Vec::new();
        let mut join = |number: usize| {
            let (id, token) = world.new_agent(&format!("crowd-{number}"));
            world.admin("add_channel_member", json!({"channel_id": channel, "member_id": id}));
            ids.push(id);
            tokens.push(token);
        };
        (0..15).for_each(&mut join);
        let answer = post(world, agent, &thread, "@channel, the build is red");
        assert_eq!((&answer["mentioned"], &answer["not_reached"]), (&json!([]), &json!([])));
        join(15);
        let refused = post(world, agent, &thread, "@channel, and again");
        assert_eq!(refused["not_reached"], json!([{"text": "@channel", "why": "not_allowed"}]));
        let allowed = post(world, admin, &thread, "@channel and @crowd-3, look");
        assert_eq!(allowed["not_reached"], json!([]));
        let spoken = |token: &str| -> Vec<(String, Value)> {
            unread(world, token).into_iter().filter(|(reason, _)| reason != "added").collect()
        };
        let of = |reason: &str, answer: &Value| (reason.to_owned(), answer["id"].clone());
        assert_eq!(spoken(&tokens[0]), [of("group_mention", &answer), of("group_mention", &allowed)]);
        assert_eq!(spoken(&tokens[3]), [of("group_mention", &answer), of("mention", &allowed)]);
        assert_eq!(spoken(&tokens[15]), [of("group_mention", &allowed)]);
        assert!(
            spoken(admin).iter().all(|(reason, _)| reason != "group_mention"),
            "it is not in the channel"
        );
        // One is online, and is notified.
        world.call(&tokens[4], "send_heartbeat", json!({"status": "active"})).output();
        let here = post(world, agent, &thread, "@here and @crowd-4, look");
        assert_eq!((&here["not_reached"], &here["mentioned"][0]["online"]), (&json!([]), &json!(true)));
        let here = post(world, agent, &thread, "@here, look");
        let heard: Vec<usize> = (0..tokens.len())
            .filter(|number| spoken(&tokens[*number]).contains(&of("group_mention", &here)))
            .collect();
        assert_eq!(heard, [4]);

        // With the 16 items that exist, one too many for a group mention.
        let row = |id: &str| world.database.id(id.parse::<uuid::Uuid>().unwrap());
        let workspace = row(&world.id("workspace").to_string());
        let channel_row = row(&channel);
        let mut members = Vec::new();
        let mut inside = Vec::new();
        for number in 0..985_u128 {
            let id = world.database.id(uuid::Uuid::from_u128(number));
            members.push(format!("({id}, {workspace}, 'many-{number}', 'agent', 0, {})", number + 100_000));
            inside.push(format!("({channel_row}, {id}, 0, {})", number + 100_000));
        }
        world.database.execute(&format!(
            "insert into members (id, workspace_id, handle, kind, created_at, lsn) values {};
             insert into channel_members (channel_id, member_id, added_at, lsn) values {}",
            members.join(","),
            inside.join(","),
        ));
        let refused = post(world, admin, &thread, "@channel, all of you");
        assert_eq!(refused["not_reached"], json!([{"text": "@channel", "why": "too_many"}]));
        world.admin("remove_channel_member", json!({"channel_id": channel, "member_id": ids[0]}));
        let allowed = post(world, admin, &thread, "@channel, all of you");
        assert_eq!(allowed["not_reached"], json!([]));
    });
}

#[test]
fn an_edit_reaches_newcomers_and_takes_back_what_it_removes() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let channel = world.new_channel("edited");
        let thread = world.new_thread(&channel, "Words");
        let [(_, bob), (_, carol), (dan_id, dan)] =
            ["bob", "carol", "dan"].map(|handle| world.new_agent(handle));
        world.admin("add_channel_member", json!({"channel_id": channel, "member_id": dan_id}));
        world.call(&dan, "mark_inbox_read", json!({"up_to_lsn": world.lsn()})).output();
        let message = post(world, agent, &thread, "@bob and @channel")["id"].clone();
        let edit = |body: &str| {
            world.call(agent, "edit_message", json!({"message_id": message, "body": body})).output()
        };
        let reasons = |token: &str| -> Vec<String> {
            unread(world, token).into_iter().map(|(reason, _)| reason).collect()
        };
        assert_eq!(
            (reasons(&bob), reasons(&dan)),
            (vec!["mention".to_owned()], vec!["group_mention".to_owned()])
        );
        let answer = edit("@carol and @channel and @nobody");
        assert_eq!(answer["mentioned"].as_array().unwrap().len(), 1);
        assert_eq!(answer["not_reached"][0]["why"], "unknown");
        assert_eq!((reasons(&bob), reasons(&carol)), (vec![], vec!["mention".to_owned()]));
        // A stronger reason makes the item unread again; otherwise a read item stays read.
        world.call(&dan, "mark_inbox_read", json!({"up_to_lsn": world.lsn()})).output();
        edit("@carol and @channel, look");
        assert!(reasons(&dan).is_empty());
        edit("@carol, @dan and @channel, look");
        assert_eq!(reasons(&dan), ["mention"]);
        edit("@carol and @channel, look");
        assert_eq!(reasons(&dan), ["group_mention"], "the weaker reason is left");
        edit("@carol, look");
        assert!(reasons(&dan).is_empty());
        world.agent("delete_message", json!({"message_id": message}));
        assert!(reasons(&carol).is_empty(), "withdrawing takes everything back");
    });
}

/// An edit is drafted before the queue. A draft of a text that another edit has replaced must not count: it
/// would notify members who are no longer mentioned, and undo the other edit.
#[test]
fn edits_of_one_message_at_the_same_moment_leave_what_the_last_of_them_says() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.new_channel("raced"), "Raced");
        let members: Vec<(String, String)> =
            (0..6).map(|number| world.new_agent(&format!("racer-{number}"))).collect();
        // Long texts are not searched for mentions again while others wait, so all but one may be refused.
        for (round, filling) in [0, 0, 90_000].into_iter().enumerate() {
            let block = json!([{"type": "text", "text": "@racer-0 in a block"}]);
            let input = json!({"thread_id": thread, "body": "first", "content": block});
            let message = world.agent("post_message", input)["id"].clone();
            let answers = in_parallel(members.len(), |number| {
                let body = format!("@racer-{number} {}", "x ".repeat(filling / 2));
                let mut input = json!({"message_id": message, "body": body});
                if number % 2 == 1 {
                    input["content"] = Value::Null;
                }
                world.call(&world.people.agent, "edit_message", input)
            });
            let done = answers.iter().filter(|answer| answer.is_success()).count();
            let refused = answers.iter().filter(|answer| answer.code() == "overloaded").count();
            assert!(done > 0 && done + refused == members.len() && (filling > 0 || refused == 0));
            let now = world.agent("get_message", json!({"message_id": message}));
            assert_eq!(now["edits"], done);
            let last = answers.iter().find(|answer| answer.body["edits"] == done).unwrap();
            assert_eq!((&last.body["body"], &last.body["content"]), (&now["body"], &now["content"]));
            let body = text(&now["body"]);
            let in_block = !now["content"].as_array().unwrap().is_empty();
            for (number, (_, token)) in members.iter().enumerate() {
                let told = unread(world, token).iter().any(|(_, of)| *of == message);
                let named = body.starts_with(&format!("@racer-{number} ")) || (in_block && number == 0);
                assert_eq!(told, named, "round {round}: racer-{number} of {:.20}, block: {in_block}", body);
            }
            let earlier = world.agent("list_message_edits", json!({"message_id": message}));
            assert_eq!(earlier["items"].as_array().unwrap().len(), done);
        }
    });
}

#[test]
fn no_new_member_is_called_like_a_group() {
    on_both_engines(|world| {
        for handle in ["channel", "HERE", "all", "everyone"] {
            let input = json!({"workspace_id": world.id("workspace"), "handle": handle});
            world.call(&world.people.admin, "create_agent", input).refused(409, "handle-taken");
        }
        let input = json!({"name": "Another", "admin_handle": "here"});
        world.call(&world.people.admin, "create_workspace", input).refused(409, "handle-taken");
        let input = json!({"workspace_id": world.id("workspace"), "handle": "channels"});
        world.call(&world.people.admin, "create_agent", input).output();
    });
}
