//! Follows: new items in followed places, and the secrecy of follows.

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

fn follow(world: &World, token: &str, target: &Value) -> Answer {
    world.call(token, "follow", json!({"target_id": target}))
}

fn followed(world: &World, token: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = world.call(token, "list_follows", json!({"limit": 2, "cursor": cursor})).output();
        found.extend(page["items"].as_array().unwrap().iter().cloned());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return found;
        }
    }
}

fn post(world: &World, token: &str, thread: &Value) -> Value {
    world.call(token, "post_message", json!({"thread_id": thread, "body": "news"})).output()
}

#[test]
fn what_others_post_is_new_until_it_is_followed_again() {
    on_both_engines(|world| {
        let admin = &world.people.admin;
        let agent = &world.people.agent;
        let channel = world.new_channel("news");
        let [one, two] = ["one", "two"].map(|title| json!(world.new_thread(&channel, title)));
        let channel = json!(channel);
        let old = post(world, admin, &one);
        let before = world.lsn();
        let first = follow(world, agent, &one).output();
        assert_eq!(
            (&first["kind"], &first["unread"], &first["last_lsn"]),
            (&json!("thread"), &json!(0), &old["lsn"])
        );
        assert_eq!(follow(world, agent, &channel).output()["kind"], "channel");
        let member = follow(world, agent, &json!(world.id("admin"))).output();
        assert_eq!(
            (&member["kind"], &member["unread"], &member["last_lsn"]),
            (&json!("member"), &Value::Null, &Value::Null)
        );
        assert_eq!(world.lsn(), before, "no follow is an event");
        let new = |world: &World| -> Vec<(Value, Value)> {
            let found = followed(world, agent);
            found.iter().map(|one| (one["unread"].clone(), one["last_lsn"].clone())).collect()
        };
        let in_one = post(world, admin, &one);
        let in_two = post(world, admin, &two);
        post(world, agent, &two);
        let own = json!(world.lsn());
        let nothing = (Value::Null, Value::Null);
        assert_eq!(new(world), [(json!(1), in_one["lsn"].clone()), (json!(2), own.clone()), nothing.clone()]);
        world.admin("delete_message", json!({"message_id": in_two["id"]}));
        assert_eq!(new(world)[1].0, 1, "a withdrawn one has nothing to read");
        assert_eq!(follow(world, agent, &channel).output()["unread"], 0);
        assert_eq!(new(world), [(json!(1), in_one["lsn"].clone()), (json!(0), own), nothing]);
        (0..101).for_each(|_| drop(post(world, admin, &one)));
        assert_eq!(new(world)[0].0, 100);
        let marked = json!({"target_id": one});
        world.call(agent, "mark_inbox_read", marked).output();
        assert_eq!(new(world)[0].0, 0, "what is marked read is seen");
        let gone = json!({"target_id": one});
        world.call(agent, "unfollow", gone.clone()).output();
        world.call(agent, "unfollow", gone).refused(404, "not-found");
        assert_eq!(new(world).len(), 2);
    });
}

#[test]
fn what_a_member_sees_no_more_is_not_listed_and_may_be_left() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let channel = world.id("private_channel");
        let add = json!({"channel_id": channel, "member_id": world.id("agent")});
        let thread = json!(world.people.private_thread_id);
        world.admin("add_channel_member", add.clone());
        follow(world, agent, &thread).output();
        follow(world, agent, &json!(channel)).output();
        assert_eq!(followed(world, agent).len(), 2);
        world.admin("remove_channel_member", add.clone());
        assert_eq!(followed(world, agent), [Value::Null; 0]);
        follow(world, agent, &thread).refused(404, "not-found");
        world.call(agent, "unfollow", json!({"target_id": thread})).output();
        world.admin("add_channel_member", add);
        let left: Vec<Value> = followed(world, agent).iter().map(|one| one["target_id"].clone()).collect();
        assert_eq!(left, [json!(channel)]);
    });
}

#[test]
fn follows_are_a_members_own_affair_and_500_at_most() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let bystander = &world.people.bystander;
        let thread = json!(world.id("thread"));
        follow(world, agent, &thread).output();
        let own = json!({"target_id": thread, "member_id": world.id("agent")});
        world.call(agent, "follow", own.clone()).output();
        let nobody = json!("01890000-0000-7000-8000-000000000000");
        for member in [json!(world.id("agent")), nobody] {
            let named = json!({"target_id": thread, "member_id": member});
            for (operation, input) in [
                ("follow", named.clone()),
                ("unfollow", named),
                ("list_follows", json!({"member_id": member})),
            ] {
                world.call(bystander, operation, input).refused(403, "forbidden");
            }
        }
        let trail = json!({"workspace_id": world.id("workspace"), "limit": 3});
        let trail = world.admin("list_audit", trail).to_string();
        assert!(trail.contains("/me/follows/{target_id}") || trail.contains("\"follow\""), "{trail}");
        assert!(!trail.contains(&text(&thread)), "{trail}");
        let channel = world.new_channel("many");
        for number in 0..499 {
            let target = json!(world.new_thread(&channel, &format!("no {number}")));
            follow(world, agent, &target).output();
        }
        follow(world, agent, &json!(channel)).refused(409, "wrong-state");
        follow(world, agent, &thread).output();
        world.call(agent, "unfollow", json!({"target_id": thread})).output();
        follow(world, agent, &json!(channel)).output();
    });
}
