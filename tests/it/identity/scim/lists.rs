//! Lists and searches: filters, pages, and the attributes of an answer.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines};

use super::{new_user, patch};

fn names(list: &Value) -> Vec<&str> {
    let resources = list["Resources"].as_array().unwrap().iter();
    resources.map(|one| one["userName"].as_str().or(one["displayName"].as_str()).unwrap()).collect()
}

fn users(world: &World, input: Value) -> Value {
    world.admin("list_scim_users", input)
}

#[test]
fn a_list_has_the_people_and_nobody_else() {
    on_both_engines(|world| {
        let all = users(world, json!({}));
        assert_eq!(all["totalResults"], world.database.number(
            "select count(*) from members m join workspaces w on w.id = m.workspace_id where kind = 'human'
               and m.workspace_id = (select workspace_id from members where handle = 'mary@corp.example')",
        ));
        assert!(names(&all).contains(&"mary@corp.example"));
        let agents =
            world.admin("list_members", json!({"workspace_id": world.id("workspace"), "kind": "agent"}));
        for agent in agents["items"].as_array().unwrap() {
            let filter = format!("id eq {}", agent["id"]);
            assert_eq!(users(world, json!({"filter": filter}))["totalResults"], 0);
        }
    });
}

#[test]
fn filters_find_users_with_an_index_and_without() {
    on_both_engines(|world| {
        let one = new_user(world, "filter.one@corp.example");
        let two = new_user(world, "filter.two@corp.example");
        patch(world, &two, "replace", "externalId", json!("X'1")).output();
        patch(world, &two, "replace", "active", json!(false)).output();
        let first = "filter.one@corp.example";
        let second = "filter.two@corp.example";
        for (filter, wanted) in [
            ("userName eq \"FILTER.one@corp.example\"".to_owned(), vec![first]),
            ("userName eq \"filter.one@corp.example\" and active eq false".to_owned(), vec![]),
            (format!("id eq {}", one["id"]), vec![first]),
            ("id eq \"x\"".to_owned(), vec![]),
            ("externalId eq \"X'1\"".to_owned(), vec![second]),
            ("externalId eq \"x'1\"".to_owned(), vec![]),
            ("userName sw \"Filter.\"".to_owned(), vec![first, second]),
            ("userName sw \"filter.\" and active eq false".to_owned(), vec![second]),
            ("userName sw \"filter.\" and not (active eq false)".to_owned(), vec![first]),
            ("externalId pr and userName co \"TWO\"".to_owned(), vec![second]),
            (
                "userName eq \"filter.one@corp.example\" or userName eq \"filter.two@corp.example\""
                    .to_owned(),
                vec![first, second],
            ),
            ("userName eq \"' or '1'='1\"".to_owned(), vec![]),
            ("userName ew \".ONE@corp.example\" or userName co \"r.two@\"".to_owned(), vec![first, second]),
            ("not (userName ne \"filter.two@corp.example\")".to_owned(), vec![second]),
            ("active ne true and userName pr".to_owned(), vec![second]),
            (format!("userName ew \"{}\"", "x".repeat(300)), vec![]),
            ("userName sw \"filter._\" or userName sw \"filter%\"".to_owned(), vec![]),
            ("userName co \"\\u0000\"".to_owned(), vec![]),
        ] {
            assert_eq!(names(&users(world, json!({"filter": filter}))), wanted, "{filter}");
        }
        for filter in ["", "nick eq \"a\"", "userName", "userName eq \"a\" and", "members pr"] {
            let answer = world.call(&world.people.admin, "list_scim_users", json!({"filter": filter}));
            assert_eq!(answer.refused(400, "malformed-request")["scimType"], "invalidFilter", "{filter}");
        }
    });
}

#[test]
fn pages_are_counted_from_one_and_have_two_hundred_at_most() {
    on_both_engines(|world| {
        let every: Vec<String> = (0..5).map(|n| format!("page{n}")).collect();
        every.iter().for_each(|name| drop(new_user(world, name)));
        for filter in [Some("userName sw \"page\""), None] {
            let mut seen: Vec<String> = Vec::new();
            let mut start = 1;
            loop {
                let page = users(world, json!({"filter": filter, "startIndex": start, "count": 2}));
                assert_eq!(page["startIndex"], start);
                assert_eq!(page["itemsPerPage"], page["Resources"].as_array().unwrap().len());
                if page["itemsPerPage"] == 0 {
                    break;
                }
                seen.extend(names(&page).into_iter().map(str::to_owned));
                start += 2;
            }
            seen.retain(|name| name.starts_with("page"));
            assert_eq!(seen, every, "{filter:?}");
        }
        for (start, count, wanted) in [(-5, 2, 2), (1, 0, 0), (1, -1, 0), (6, 9, 0), (1, 1000, 5)] {
            let input = json!({"filter": "userName sw \"page\"", "startIndex": start, "count": count});
            let page = users(world, input);
            assert_eq!((&page["itemsPerPage"], &page["totalResults"]), (&json!(wanted), &json!(5)));
        }
    });
}

#[test]
fn an_answer_has_what_was_asked_for() {
    on_both_engines(|world| {
        let id = world.id("person");
        let only = world.admin("get_scim_user", json!({"id": id, "attributes": "userName"}));
        let mut fields: Vec<&String> = only.as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, ["id", "schemas", "userName"]);
        let group = json!({"id": world.id("scim_group"), "excludedAttributes": "members"});
        assert!(world.admin("get_scim_group", group).get("members").is_none());
        let both = json!({"id": id, "attributes": "userName", "excludedAttributes": "active"});
        world.call(&world.people.admin, "get_scim_user", both).refused(400, "malformed-request");
        let listed = users(world, json!({"filter": "userName eq \"mary@corp.example\"", "attributes": "id"}));
        assert_eq!(listed["Resources"][0].as_object().unwrap().len(), 2);
    });
}

#[test]
fn searches_find_groups_and_both_kinds() {
    on_both_engines(|world| {
        let group = world.id("scim_group");
        let person = world.id("person");
        for filter in [
            format!("members eq \"{person}\""),
            format!("members[value eq \"{person}\"]"),
            format!("id eq \"{group}\" and members eq \"{person}\""),
            "displayName eq \"ENGINEERS\"".to_owned(),
            "members pr".to_owned(),
        ] {
            for operation in ["list_scim_groups", "search_scim_groups"] {
                let found = world.admin(operation, json!({"filter": filter}));
                assert_eq!(names(&found), ["Engineers"], "{filter}");
                assert_eq!(found["Resources"][0]["members"][0]["value"], json!(person));
            }
        }
        let nobody = format!("members eq \"{group}\"");
        assert_eq!(world.admin("list_scim_groups", json!({"filter": nobody}))["totalResults"], 0);
        let all = world.admin("search_scim", json!({"count": 200}));
        let people = users(world, json!({}));
        let groups = world.admin("list_scim_groups", json!({}));
        let [all_of, people_of, groups_of] =
            [&all, &people, &groups].map(|list| list["totalResults"].as_i64());
        assert_eq!(all_of.unwrap(), people_of.unwrap() + groups_of.unwrap());
        assert_eq!(names(&all), [names(&people), names(&groups)].concat());
        let last = world.admin("search_scim", json!({"startIndex": all_of, "count": 5}));
        assert_eq!(names(&last), names(&groups)[names(&groups).len() - 1..]);
        let active = world.admin("search_scim", json!({"filter": "active eq true"}));
        assert!(!names(&active).contains(&"Engineers"));
        let search = json!({"filter": "id pr", "attributes": ["userName"], "schemas": ["x"]});
        assert_eq!(names(&world.admin("search_scim_users", search)), names(&people));
    });
}
