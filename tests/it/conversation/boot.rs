//! The boot of a channel: who can read and set it, and that it is not in events.

use serde_json::json;
use svc_tests::on_both_engines;

#[test]
fn a_boot_is_read_by_whoever_sees_the_channel() {
    on_both_engines(|world| {
        let channel = world.new_channel("reception");
        let get = |token: &str| world.call(token, "get_channel_boot", json!({"channel_id": channel}));
        let set = |token: &str, text: &str| {
            world.call(token, "set_channel_boot", json!({"channel_id": channel, "text": text}))
        };
        let admin = &world.people.admin;
        let agent = &world.people.agent;
        let none = json!({"channel_id": channel, "text": "", "version": 0, "updated_by": null,
                          "updated_at": null, "lsn": null});
        assert_eq!(get(agent).output(), none);
        let before = world.lsn();
        assert_eq!(set(agent, "").output(), none, "nothing changes");
        let first = set(agent, "Read the huitzilopochtli first.").output();
        assert_eq!((&first["version"], &first["lsn"]), (&json!(1), &json!(before + 1)));
        assert_eq!(first["updated_by"], json!(world.id("agent")));
        assert_eq!(set(admin, "Read the huitzilopochtli first.").output(), first);
        let second = set(admin, "").output();
        assert_eq!((&second["version"], &second["text"]), (&json!(2), &json!("")));
        assert_eq!(get(agent).output(), second);
        assert_eq!(world.kinds_after(before), ["ChannelBootSet"; 2]);
        let events = world.admin(
            "list_events",
            json!({"workspace_id": world.id("workspace"),
                                                       "after_id": before}),
        );
        let payload = &events["items"][0]["payload"];
        assert_eq!((&payload["version"], &payload["size"]), (&json!(1), &json!(31)));
        assert!(!events.to_string().contains("huitzilopochtli"));

        set(agent, &"é".repeat(20_000)).output();
        set(agent, &"x".repeat(20_001)).refused(400, "malformed-request");
        world.admin("archive_channel", json!({"channel_id": channel}));
        set(agent, "too late").refused(409, "wrong-state");
        assert_eq!(get(agent).output()["version"], 3);
    });
}

#[test]
fn the_boot_of_a_private_channel_does_not_exist_for_others() {
    on_both_engines(|world| {
        let channel = world.new_private_channel("den");
        let input = json!({"channel_id": channel, "text": "only for us"});
        let outside = &world.people.agent;
        world.call(outside, "set_channel_boot", input.clone()).refused(404, "not-found");
        world.admin("set_channel_boot", input);
        world.call(outside, "get_channel_boot", json!({"channel_id": channel})).refused(404, "not-found");
        world.admin("add_channel_member", json!({"channel_id": channel, "member_id": world.id("agent")}));
        assert_eq!(world.agent("get_channel_boot", json!({"channel_id": channel}))["text"], "only for us");
    });
}
