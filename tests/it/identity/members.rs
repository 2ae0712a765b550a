//! Members: lists, reads, names, and skills that others grant.

use serde_json::{Value, json};
use svc_tests::on_both_engines;
use svc_tests::{World, text};

/// Returns the handles that a list returns.
fn handles(world: &World, filter: &Value) -> Vec<String> {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(filter.as_object().cloned().unwrap());
    let page = world.agent("list_members", input);
    page["items"].as_array().unwrap().iter().map(|member| text(&member["handle"])).collect()
}

#[test]
fn list_members_is_in_the_order_of_joining_and_filters_by_handle_and_kind() {
    on_both_engines(|world| {
        let before = handles(world, &json!({}));
        for handle in ["zoe", "abe"] {
            world.new_agent(handle);
        }
        let joined = |added: &[&str]| -> Vec<String> {
            before.iter().cloned().chain(added.iter().map(|&handle| handle.to_owned())).collect()
        };
        assert_eq!(handles(world, &json!({})), joined(&["zoe", "abe"]));
        assert_eq!(handles(world, &json!({"handle": "abe"})), ["abe"]);
        assert_eq!(handles(world, &json!({"handle": "eve"})), [""; 0], "she is in another workspace");
        let of_script = json!({"userName": "Ädä@corp.example"});
        world.admin("create_scim_user", of_script);
        for (named, found) in [
            ("Mary@Corp.Example", "mary@corp.example"),
            ("ÄDÄ@corp.example", "ädä@corp.example"),
            ("App:Reports", "app:reports"),
        ] {
            assert_eq!(handles(world, &json!({"handle": named})), [found]);
        }
        let garbled = json!({"workspace_id": world.id("workspace"), "handle": "bad handle"});
        world.call(&world.people.agent, "list_members", garbled).refused(400, "malformed-request");
        let people = handles(world, &json!({"kind": "human"}));
        let agents = handles(world, &json!({"kind": "agent"}));
        assert_eq!(people, ["ada", "mary@corp.example", "ädä@corp.example"]);
        assert_eq!(people.len() + agents.len(), before.len() + 3);
        assert_eq!(handles(world, &json!({"kind": "human", "handle": "abe"})), [""; 0]);
    });
}

#[test]
fn get_member_returns_the_current_skills_in_order_of_their_names() {
    on_both_engines(|world| {
        let (id, token) = world.new_agent("newcomer");
        let read = || world.agent("get_member", json!({"member_id": id}));
        let member = read();
        assert_eq!((&member["handle"], &member["kind"]), (&json!("newcomer"), &json!("agent")));
        assert_eq!((&member["frozen"], &member["active"]), (&json!(false), &json!(true)));
        assert_eq!(member["skills"], json!([]));
        for skills in [json!(["rust", "python"]), json!(["python", "ada"])] {
            world.call(&token, "set_skills", json!({"skills": skills})).output();
        }
        assert_eq!(read()["skills"], json!(["ada", "python"]));
        let elsewhere = world.call(&world.people.outsider, "get_member", json!({"member_id": id}));
        elsewhere.refused(404, "not-found");
    });
}

#[test]
fn update_me_changes_ones_own_display_name_and_nothing_else() {
    on_both_engines(|world| {
        let (id, token) = world.new_agent("newcomer");
        let read = || world.admin("get_member", json!({"member_id": id}));
        let joined = read();
        assert_eq!((&joined["display_name"], &joined["changed_at"]), (&json!("newcomer"), &Value::Null));
        world.clock.advance(std::time::Duration::from_secs(5));
        for (input, name, kinds) in [
            (json!({"display_name": "New"}), json!("New"), ["MemberUpdated"].as_slice()),
            (json!({"display_name": "New"}), json!("New"), &[]),
            (json!({}), json!("New"), &[]),
            (json!({"display_name": null}), Value::Null, &["MemberUpdated"]),
        ] {
            let lsn = world.lsn();
            let me = world.call(&token, "update_me", input.clone()).output();
            assert_eq!(me["display_name"], name, "{input}");
            assert_eq!(world.kinds_after(lsn), kinds, "{input}");
            assert_eq!(me, read(), "{input}");
        }
        let changed = read();
        assert!(text(&changed["changed_at"]) > text(&changed["created_at"]));
        let others = joined.as_object().unwrap().iter();
        let others = others.filter(|(name, _)| !["display_name", "changed_at"].contains(&name.as_str()));
        for (name, value) in others {
            assert_eq!(&changed[name], value, "{name}");
        }
        for wrong in [json!({"display_name": ""}), json!({"handle": "other"}), json!({"member_id": id})] {
            world.call(&token, "update_me", wrong).refused(400, "malformed-request");
        }
    });
}

#[test]
fn governance_skills_are_conferred_and_revoked_by_others_alone() {
    on_both_engines(|world| {
        let (id, token) = world.new_agent("judge-to-be");
        world.call(&token, "set_skills", json!({"skills": ["rust"]})).output();
        let about = |skill: &str| json!({"member_id": id, "skill": skill});
        let lsn = world.lsn();
        for _ in 0..2 {
            let member = world.admin("confer_skill", about("review"));
            assert_eq!(member["skills"], json!(["review", "rust"]));
        }
        world.admin("confer_skill", about("land_gate"));
        let member = world.call(&token, "set_skills", json!({"skills": []})).output();
        assert_eq!(member["skills"], json!(["land_gate", "review"]), "what others conferred stays");
        let member = world.admin("revoke_skill", about("review"));
        assert_eq!(member["skills"], json!(["land_gate"]));
        world.call(&world.people.admin, "revoke_skill", about("review")).refused(404, "not-found");
        let kinds = [
            "GovernanceSkillConferred",
            "GovernanceSkillConferred",
            "MemberSkillsChanged",
            "GovernanceSkillRevoked",
        ];
        assert_eq!(world.kinds_after(lsn), kinds);
        assert_eq!(world.admin("get_member", json!({"member_id": id})), member);

        // The same path can neither revoke a routing skill nor grant another.
        world.call(&token, "set_skills", json!({"skills": ["rust"]})).output();
        let me = json!({"member_id": world.id("admin"), "skill": "review"});
        for operation in ["confer_skill", "revoke_skill"] {
            for skill in ["rust", "Review", ""] {
                let answer = world.call(&world.people.admin, operation, about(skill));
                answer.refused(400, "malformed-request");
            }
            world.call(&world.people.admin, operation, me.clone()).refused(403, "forbidden");
            world.call(&world.people.outsider, operation, about("review")).refused(404, "not-found");
        }
        // A delegate cannot grant itself a skill by the rights of another.
        let minted = world.admin(
            "mint_token",
            json!({"workspace_id": world.id("workspace"), "member_id": id, "label": "lent",
                   "capabilities": ["channel:admin"]}),
        );
        let row = |id: &str| world.database.id(id.parse::<uuid::Uuid>().unwrap());
        let lent = row(&text(&minted["id"]));
        let admin = row(&world.id("admin").to_string());
        world.database.execute(&format!("update tokens set member_id = {admin} where id = {lent}"));
        for operation in ["confer_skill", "revoke_skill"] {
            let answer = world.call(&text(&minted["secret"]), operation, about("land_gate"));
            answer.refused(403, "forbidden");
        }
    });
}
