//! Workspaces: the name of one's own, and no sight of any other.

use serde_json::json;
use svc_tests::on_both_engines;

#[test]
fn get_workspace_returns_the_new_name_after_a_rename_to_its_own_members_only() {
    on_both_engines(|world| {
        let input = || json!({"workspace_id": world.id("workspace")});
        let before = world.agent("get_workspace", input());
        assert_eq!((&before["id"], &before["name"]), (&json!(world.id("workspace")), &json!("Night shift")));
        let rename = json!({"workspace_id": world.id("workspace"), "name": "Early shift"});
        let lsn = world.lsn();
        world.admin("update_workspace", rename.clone());
        world.admin("update_workspace", rename);
        assert_eq!(world.kinds_after(lsn), ["WorkspaceUpdated"], "a repeated rename changes nothing");
        let after = world.agent("get_workspace", input());
        assert_eq!(after["name"], "Early shift");
        assert_eq!(after["created_at"], before["created_at"]);
        world.call(&world.people.outsider, "get_workspace", input()).refused(404, "not-found");
    });
}
