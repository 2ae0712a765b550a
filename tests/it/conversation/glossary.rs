//! The glossary: terms are compared without case, and their number per workspace is limited.

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

fn set(world: &World, term: &str, definition: &str) -> Answer {
    let input = json!({"workspace_id": world.id("workspace"), "term": term, "definition": definition});
    world.call(&world.people.agent, "set_glossary_term", input)
}

fn delete(world: &World, term: &str) -> Answer {
    let input = json!({"workspace_id": world.id("workspace"), "term": term});
    world.call(&world.people.agent, "delete_glossary_term", input)
}

fn list(world: &World) -> Vec<Value> {
    let page = world.agent("list_glossary", json!({"workspace_id": world.id("workspace"), "limit": 500}));
    page["items"].as_array().unwrap().clone()
}

#[test]
fn a_term_is_one_in_any_case_and_its_definition_is_in_no_event() {
    on_both_engines(|world| {
        let before = world.lsn();
        let others = list(world).len();
        let first = set(world, "  Été ", "a season, coatlicue").output();
        assert_eq!((&first["term"], &first["key"]), (&json!("Été"), &json!("été")));
        assert_eq!(first["updated_by"], json!(world.id("agent")));
        assert_eq!(set(world, "Été", "a season, coatlicue").output(), first, "nothing changes");
        let second = set(world, "ÉTÉ", "summer").output();
        assert_eq!(list(world)[others..], *std::slice::from_ref(&second), "the last spelling and definition");
        assert_eq!(world.kinds_after(before), ["GlossaryTermSet"; 2]);
        assert!(second["lsn"].as_i64() > first["lsn"].as_i64(), "its version rises");

        let deleted = delete(world, "été").output();
        assert_eq!(deleted, second);
        delete(world, "été").refused(404, "not-found");
        assert_eq!(list(world).len(), others);
        let events = world.admin(
            "list_events",
            json!({"workspace_id": world.id("workspace"), "after_id": before, "limit": 10}),
        );
        let last = &events["items"].as_array().unwrap().last().unwrap()["payload"];
        assert_eq!((&last["key"], &last["version"]), (&json!("été"), &second["lsn"]));
        assert_eq!(events["items"][0]["payload"]["size"], json!("a season, coatlicue".len()));
        assert!(!events.to_string().contains("coatlicue") && !events.to_string().contains("summer"));
    });
}

#[test]
fn a_glossary_has_500_terms_of_the_lengths_that_it_says() {
    on_both_engines(|world| {
        for bad in ["", "   ", "a\nb", &"x".repeat(101)] {
            set(world, bad, "no").refused(400, "malformed-request");
        }
        for bad in [String::new(), "é".repeat(1001)] {
            set(world, "long", &bad).refused(400, "malformed-request");
        }
        set(world, &"x".repeat(100), &"é".repeat(1000)).output();
        for number in list(world).len()..500 {
            set(world, &format!("term {number}"), "one of many").output();
        }
        set(world, "one more", "too many").refused(409, "wrong-state");
        set(world, "TERM 499", "one that is there").output();
        delete(world, "term 498").output();
        set(world, "one more", "there is room").output();
        let page = world.agent("list_glossary", json!({"workspace_id": world.id("workspace"), "limit": 499}));
        let rest = json!({"workspace_id": world.id("workspace"), "cursor": page["next_cursor"]});
        let rest = world.agent("list_glossary", rest);
        assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
        assert_eq!(rest["items"][0]["term"], "one more", "in the order in which they were set");
        let theirs = text(&world.call(&world.people.outsider, "whoami", json!({})).output()["workspace_id"]);
        let input = json!({"workspace_id": theirs});
        world.call(&world.people.agent, "list_glossary", input).refused(404, "not-found");
    });
}
