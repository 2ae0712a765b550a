//! Refusals that no other test shows to a client: each is declared by its operation.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

/// Archived objects do not change.
#[test]
fn archived_objects_reject_changes() {
    on_both_engines(|world| {
        let new_channel = json!({"workspace_id": world.id("workspace"), "name": "old"});
        let channel = &world.admin("create_channel", new_channel)["id"];
        let thread = |title: &str| {
            world.admin("create_thread", json!({"channel_id": channel, "title": title}))["id"].clone()
        };
        let thread_id = thread("waits");
        let depends_on_id = thread("is waited for");
        let edge = json!({"thread_id": thread_id, "depends_on_id": depends_on_id});
        world.admin("add_thread_dependency", edge.clone());
        world.admin("cancel_thread", json!({"thread_id": thread_id, "reason": "no longer needed"}));
        world.admin("transition_thread", json!({"thread_id": thread_id, "action": "archive"}));
        world.admin("archive_channel", json!({"channel_id": channel}));
        for (operation, input) in [
            ("post_message", json!({"thread_id": depends_on_id, "body": "too late"})),
            ("add_channel_member", json!({"channel_id": channel, "member_id": world.id("agent")})),
            ("update_thread", json!({"thread_id": thread_id, "title": "too late"})),
            ("set_thread_priority", json!({"thread_id": thread_id, "priority": 1})),
            ("set_required_skills", json!({"thread_id": thread_id, "required_skills": ["python"]})),
            ("remove_thread_dependency", edge),
        ] {
            world.call(&world.people.admin, operation, input).refused(409, "wrong-state");
        }
    });
}

/// Naming the lease of another member's live claim does not make the caller its holder.
#[test]
fn the_lease_of_another_member_gives_no_claim() {
    on_both_engines(|world| {
        let named = json!({"thread_id": world.id("claimed_thread"), "claim_lease_id": world.id("lease")});
        let moved = |mut input: Value| {
            input["action"] = json!("close");
            input
        };
        for (operation, input) in [
            ("acknowledge_claim", named.clone()),
            ("renew_claim", named.clone()),
            ("release_claim", named.clone()),
            ("transition_thread", moved(named)),
        ] {
            world.call(&world.people.agent, operation, input).refused(409, "claim-not-held");
        }
    });
}

/// A claim is transferred only to a member that could have claimed the thread.
#[test]
fn a_claim_is_not_transferred_to_a_member_without_the_skills() {
    on_both_engines(|world| {
        let thread_id = world.id("claimed_thread");
        world.admin("set_required_skills", json!({"thread_id": thread_id, "required_skills": ["zig"]}));
        let input = json!({
            "thread_id": thread_id, "claim_lease_id": world.id("lease"), "to_member_id": world.id("agent"),
        });
        world.call(&world.people.admin, "hand_off_claim", input).refused(409, "not-claimable");
    });
}

/// A member cannot give itself the skills that grant power over landing and reviews.
#[test]
fn no_member_gives_itself_a_governance_skill() {
    on_both_engines(|world| {
        let refused = world.call(&world.people.admin, "set_skills", json!({"skills": ["review"]}));
        refused.refused(403, "forbidden");
    });
}

#[test]
fn a_deactivated_member_gets_no_token() {
    on_both_engines(|world: &World| {
        let workspace_id = world.id("workspace");
        let member = world.people.bystander_id.clone();
        let id = world.database.id(member.parse::<uuid::Uuid>().unwrap());
        world.database.execute(&format!("update members set deactivated_at = created_at where id = {id}"));
        let input = json!({"workspace_id": workspace_id, "member_id": text(&json!(member))});
        world.call(&world.people.admin, "mint_token", input).refused(409, "wrong-state");
    });
}
