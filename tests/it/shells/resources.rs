//! Resources, prompts and completion over MCP: resources have the content that operations return.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

const NOBODY: &str = "01990000-0000-7000-8000-0000000000ff";

fn result(world: &World, token: &str, method: &str, params: Value) -> Value {
    let answer = world.mcp().request(Some(token), method, params);
    assert!(answer.body.get("error").is_none(), "{method}: {:#}", answer.body);
    answer.body["result"].clone()
}

fn error(world: &World, token: &str, method: &str, params: Value) -> Value {
    let answer = world.mcp().request(Some(token), method, params);
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    answer.body["error"].clone()
}

fn read(world: &World, token: &str, uri: &str) -> Value {
    let result = result(world, token, "resources/read", json!({"uri": uri}));
    assert_eq!(result["contents"][0]["uri"], uri, "{result:#}");
    assert_eq!(result["contents"].as_array().unwrap().len(), 1);
    result
}

fn said(result: &Value) -> Value {
    serde_json::from_str(result["contents"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn the_workspace_its_channels_and_boots_are_listed_as_the_caller_sees_them() {
    on_both_engines(|world| {
        let open = world.new_channel("open");
        let closed = world.new_private_channel("closed");
        world.admin("set_channel_boot", json!({"channel_id": open, "text": "# Hello\n\nBe \"quick\"."}));
        let agent = world.people.agent.as_str();
        let uris = |token: &str| -> Vec<String> {
            let listed = result(world, token, "resources/list", json!({}));
            assert_eq!((&listed["ttlMs"], &listed["cacheScope"]), (&json!(3_600_000), &json!("private")));
            listed["resources"].as_array().unwrap().iter().map(|resource| text(&resource["uri"])).collect()
        };
        let seen = uris(agent);
        assert_eq!(seen[0], format!("svc://workspaces/{}", world.id("workspace")));
        assert!(seen.contains(&format!("svc://channels/{open}")), "{seen:#?}");
        assert!(seen.contains(&format!("svc://boots/{open}")), "{seen:#?}");
        assert!(!seen.iter().any(|uri| uri.ends_with(&closed)), "{seen:#?}");
        let all = uris(&world.people.admin);
        assert!(all.contains(&format!("svc://channels/{closed}")), "{all:#?}");
        assert!(!all.contains(&format!("svc://boots/{closed}")), "it has no boot: {all:#?}");
        let templates = result(world, agent, "resources/templates/list", json!({}));
        let templates: Vec<&str> = templates["resourceTemplates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|template| template["uriTemplate"].as_str().unwrap())
            .collect();
        assert_eq!(
            templates,
            [
                "svc://workspaces/{id}",
                "svc://channels/{id}",
                "svc://threads/{id}",
                "svc://boots/{channel_id}"
            ]
        );
    });
}

#[test]
fn a_resource_says_what_its_operation_returns() {
    on_both_engines(|world| {
        let agent = world.people.agent.as_str();
        let channel = world.new_channel("busy");
        let threads: Vec<String> =
            (0..22).map(|n| world.new_thread(&channel, &format!("task {n}"))).collect();
        let oldest = &threads[0];
        let newest = &threads[21];
        world.admin("post_message", json!({"thread_id": oldest, "body": "Mind the gap."}));

        let thread = read(world, agent, &format!("svc://threads/{oldest}"));
        assert_eq!((&thread["ttlMs"], &thread["cacheScope"]), (&json!(0), &json!("private")));
        assert_eq!(thread["contents"][0]["mimeType"], "application/json");
        let pack = said(&thread);
        assert_eq!(pack["thread"]["id"], json!(oldest));
        assert_eq!(pack["messages"][0]["body"], "Mind the gap.", "{pack:#}");
        let tool = json!({"name": "get_thread_context", "arguments": {"thread_id": oldest}});
        assert_eq!(result(world, agent, "tools/call", tool)["structuredContent"], pack);

        world.admin("cancel_thread", json!({"thread_id": newest, "reason": "not needed"}));
        let busy = read(world, agent, &format!("svc://channels/{channel}"));
        assert_eq!((&busy["ttlMs"], &busy["cacheScope"]), (&json!(60_000), &json!("private")));
        let busy = said(&busy);
        assert_eq!(busy["channel"]["name"], "busy");
        let shown: Vec<String> =
            busy["open_threads"].as_array().unwrap().iter().map(|thread| text(&thread["id"])).collect();
        let expected: Vec<String> = threads[1..21].iter().rev().cloned().collect();
        assert_eq!(shown, expected);

        let boot = format!("svc://boots/{channel}");
        assert_eq!(read(world, agent, &boot)["contents"][0]["text"], "", "nobody has set it");
        let words = "# Hello\n\nBe \"quick\", \u{2028}please.";
        world.admin("set_channel_boot", json!({"channel_id": channel, "text": words}));
        let contents = read(world, agent, &boot)["contents"].take();
        assert_eq!(contents, json!([{"uri": boot, "mimeType": "text/markdown", "text": words}]));

        let workspace = world.id("workspace");
        let context = said(&read(world, agent, &format!("svc://workspaces/{workspace}")));
        let tool = json!({"name": "get_workspace_context", "arguments": {"workspace_id": workspace}});
        assert_eq!(result(world, agent, "tools/call", tool)["structuredContent"], context);
        let piped = world.stdio(agent).request("resources/read", json!({"uri": boot}));
        assert_eq!(piped["result"]["contents"], contents, "{piped:#}");
    });
}

#[test]
fn what_is_not_visible_and_what_is_not_there_are_refused_alike() {
    on_both_engines(|world| {
        let agent = world.people.agent.as_str();
        let closed = world.new_private_channel("closed");
        let hidden = world.new_thread(&closed, "secret");
        let refused = |method: &str, params: Value, uri: &str| {
            let refused = error(world, agent, method, params);
            assert_eq!(refused["code"], -32602, "{refused:#}");
            assert_eq!((&refused["data"]["uri"], &refused["data"]["status"]), (&json!(uri), &json!(404)));
            text(&refused["message"]).replace(uri, "URI")
        };
        let mut words: Vec<String> = Vec::new();
        for uri in [
            format!("svc://channels/{closed}"),
            format!("svc://boots/{closed}"),
            format!("svc://threads/{hidden}"),
            format!("svc://threads/{NOBODY}"),
            format!("svc://workspaces/{NOBODY}"),
            "svc://threads/x".to_owned(),
            "svc://artifacts/00".to_owned(),
            "https://example.com/".to_owned(),
        ] {
            words.push(refused("resources/read", json!({"uri": uri}), &uri));
        }
        for id in [hidden.as_str(), NOBODY, "x"] {
            let params = json!({"name": "catch_up", "arguments": {"thread_id": id}});
            words.push(refused("prompts/get", params, &format!("svc://threads/{id}")));
        }
        assert!(words.iter().all(|word| *word == words[0]), "{words:#?}");
        let read = json!({"uri": format!("svc://threads/{hidden}")});
        assert!(
            world.mcp().request(Some(&world.people.admin), "resources/read", read).body["result"].is_object()
        );
        let blind = world.new_token(vec!["message:post"]);
        let refused = error(world, &blind, "resources/list", json!({}));
        assert_eq!(refused["data"]["type"], "/problems/missing-capability", "{refused:#}");
        assert_eq!(refused["code"], 403);
    });
}

#[test]
fn a_prompt_embeds_its_thread() {
    on_both_engines(|world| {
        let agent = world.people.agent.as_str();
        let listed = result(world, agent, "prompts/list", json!({}));
        assert_eq!((&listed["ttlMs"], &listed["cacheScope"]), (&json!(3_600_000), &json!("public")));
        let prompts = listed["prompts"].as_array().unwrap();
        let names: Vec<&str> = prompts.iter().map(|prompt| prompt["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["catch_up", "finish_work", "hand_over", "plan_work", "review_thread", "start_work"]
        );
        let thread = world.id("thread").to_string();
        let uri = format!("svc://threads/{thread}");
        for name in names {
            let params = json!({"name": name, "arguments": {"thread_id": thread}});
            let prompt = result(world, agent, "prompts/get", params);
            let [words, embedded] = prompt["messages"].as_array().unwrap().as_slice() else {
                panic!("{prompt:#}");
            };
            assert!(words["content"]["text"].as_str().unwrap().contains("thread"), "{prompt:#}");
            assert_eq!(embedded["content"]["type"], "resource");
            let resource = &embedded["content"]["resource"];
            assert_eq!((&resource["uri"], &resource["mimeType"]), (&json!(uri), &json!("application/json")));
            let pack: Value = serde_json::from_str(resource["text"].as_str().unwrap()).unwrap();
            assert_eq!(pack["thread"]["id"], json!(thread));
        }
        for params in [json!({"name": "no"}), json!({"name": "catch_up"}), json!({})] {
            assert_eq!(error(world, agent, "prompts/get", params)["code"], -32602);
        }
    });
}

#[test]
fn ids_are_completed_by_name_title_and_handle() {
    on_both_engines(|world| {
        let agent = world.people.agent.as_str();
        let open = world.new_channel("parrots");
        let closed = world.new_private_channel("parrot cage");
        let thread = world.new_thread(&open, "Feed the parrots");
        world.new_thread(&closed, "Clean the parrot cage");
        let (_, bird) = world.new_agent("parrot-fan");
        let bird = text(
            &result(world, &bird, "tools/call", json!({"name": "whoami"}))["structuredContent"]["member_id"],
        );
        let completed = |of: Value, argument: &str, typed: &str| {
            let params = json!({"ref": of, "argument": {"name": argument, "value": typed}});
            result(world, agent, "completion/complete", params)["completion"].clone()
        };
        let only = |id: &str| json!({"values": [id], "total": 1, "hasMore": false});
        let template = |uri: &str| json!({"type": "ref/resource", "uri": uri});
        let prompt = |name: &str| json!({"type": "ref/prompt", "name": name});
        assert_eq!(completed(template("svc://channels/{id}"), "id", "PARROT"), only(&open));
        assert_eq!(completed(template("svc://boots/{channel_id}"), "channel_id", &open), only(&open));
        assert_eq!(completed(template("svc://threads/{id}"), "id", "parrot"), only(&thread));
        assert_eq!(completed(prompt("start_work"), "thread_id", "feed the"), only(&thread));
        assert_eq!(completed(prompt("review_thread"), "thread_id", "feed the")["values"], json!([]));
        assert_eq!(completed(prompt("hand_over"), "to_member_id", "parrot"), only(&bird));
        let workspace = world.id("workspace").to_string();
        assert_eq!(completed(template("svc://workspaces/{id}"), "id", ""), only(&workspace));
        let unknown = json!({"ref": prompt("no"), "argument": {"name": "x", "value": ""}});
        assert_eq!(error(world, agent, "completion/complete", unknown)["code"], -32602);
    });
}
