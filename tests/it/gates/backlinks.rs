//! Backlinks: everything that leads to a message, in one list.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

use super::new_thread;

fn listed(world: &World, token: &str, message: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = json!(null);
    loop {
        let input = json!({"message_id": message, "limit": 2, "cursor": cursor});
        let page = world.call(token, "list_message_backlinks", input).output();
        found.extend(page["items"].as_array().unwrap().iter().cloned());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return found;
        }
    }
}

#[test]
fn all_that_leads_to_a_message_is_listed_in_its_order() {
    on_both_engines(|world| {
        let admin = &*world.people.admin;
        let agent = &*world.people.agent;
        let stranger = &*world.people.bystander;
        let thread = new_thread(world);
        let vote = json!({"thread_id": thread, "question": "Ship it?", "options": ["yes", "no"]});
        let vote = world.agent("create_vote", vote);
        let message = text(&vote["message_id"]);
        let target = world.agent("get_message", json!({"message_id": message}));
        world.agent("add_reaction", json!({"message_id": message, "emoji": "eyes"}));
        world.agent("pin_message", json!({"message_id": message}));
        let citations = json!([{"uri": target["uri"], "content_hash": target["content_hash"]}]);
        let citing = json!({"thread_id": thread, "body": "see there", "metadata": {"citations": citations}});
        let citing = world.agent("post_message", citing);
        let relate = |from: &str| {
            let input = json!({"message_id": from, "target_message_id": message, "kind": "supports"});
            world.admin("relate_message", input)
        };
        let shown = text(&world.admin("post_message", json!({"thread_id": thread, "body": "yes"}))["id"]);
        let [relation, hidden] = [&shown, &world.people.private_message_id].map(|from| relate(from));
        world.admin("add_reaction", json!({"message_id": message, "emoji": "+1"}));

        let all = listed(world, admin, &message);
        let types: Vec<&str> = all.iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["vote", "reaction", "pin", "relation", "relation", "relation", "reaction"]);
        assert!(all.is_sorted_by_key(|item| item["lsn"].as_i64()));
        assert_eq!(all[0]["vote_id"], vote["id"]);
        assert_eq!((&all[1]["emoji"], &all[1]["member_id"]), (&json!("👀"), &json!(world.id("agent"))));
        assert_eq!(all[2]["pinned_by"], json!(world.id("agent")));
        assert_eq!((&all[3]["from_id"], &all[3]["derived"]), (&citing["id"], &json!(true)));
        assert_eq!((&all[4]["relation_id"], &all[4]["kind"]), (&relation["id"], &json!("supports")));
        assert_eq!(all[5]["relation_id"], hidden["id"]);
        let seen = listed(world, stranger, &message);
        assert_eq!(seen, [&all[..5], &all[6..]].concat(), "unless it is of a message behind a door");

        let input = json!({"message_id": message});
        world.admin("delete_message", input.clone());
        let left = listed(world, admin, &message);
        assert_eq!(left, [&all[..1], &all[3..6]].concat(), "reactions and pins are gone");
        world.admin("purge_message", input.clone());
        world.call(agent, "list_message_backlinks", input).refused(404, "not-found");
    });
}
