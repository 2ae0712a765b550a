//! Channels and their members.

use serde_json::{Value, json};
use svc_tests::on_both_engines;

#[test]
fn list_channel_members_follows_additions_and_removals_and_is_private_with_its_channel() {
    on_both_engines(|world| {
        let channel = world.new_private_channel("den");
        let about = |member: &str| json!({"channel_id": channel, "member_id": member});
        let list = |token: &str| world.call(token, "list_channel_members", json!({"channel_id": channel}));
        let ids = |token: &str| -> Vec<Value> {
            let page = list(token).output();
            page["items"].as_array().unwrap().iter().map(|member| member["member_id"].clone()).collect()
        };
        let admin = world.id("admin").to_string();
        let agent = world.id("agent").to_string();
        let (third, token) = world.new_agent("third");
        assert_eq!(ids(&world.people.admin), [json!(admin)], "the creator is in it from the beginning");
        list(&token).refused(404, "not-found");
        list(&world.people.bystander).refused(404, "not-found");

        for member in [&third, &agent] {
            world.admin("add_channel_member", about(member));
        }
        assert_eq!(ids(&token), [json!(admin), json!(third), json!(agent)], "in the order of additions");
        let newest = list(&token).output()["items"][2].clone();
        assert_eq!((&newest["handle"], &newest["added_by"]), (&json!("worker"), &json!(admin)));

        world.admin("remove_channel_member", about(&third));
        assert_eq!(ids(&world.people.admin), [json!(admin), json!(agent)]);
        list(&token).refused(404, "not-found");
        world.admin("update_channel", json!({"channel_id": channel, "private": false}));
        assert_eq!(ids(&token), [json!(admin), json!(agent)], "of a public channel everybody sees them");
    });
}

#[test]
fn an_archived_channel_does_not_change() {
    on_both_engines(|world| {
        let channel =
            world.admin("create_channel", json!({"workspace_id": world.id("workspace"), "name": "old"}));
        world.admin("archive_channel", json!({"channel_id": channel["id"]}));
        let change = json!({"channel_id": channel["id"], "topic": "What was"});
        world.call(&world.people.admin, "update_channel", change.clone()).refused(409, "wrong-state");
        world.admin("unarchive_channel", json!({"channel_id": channel["id"]}));
        assert_eq!(world.admin("update_channel", change)["topic"], "What was");
    });
}
