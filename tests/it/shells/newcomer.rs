//! A newcomer: a client that knows only the service's list of tools and the texts that it reads.
//!
//! It follows the instructions, sentence by sentence, and the next steps in answers. It calls only listed
//! tools, fills in required arguments from earlier answers, and invents texts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use svc_tests::{Person, World, on_both_engines, text};

use super::texts::instructions;

/// Maximum steps of a newcomer before it has found its work.
const STEPS_MAX: usize = 20;

/// An answer to a newcomer: only the text that a model would read.
struct NewcomerAnswer {
    output: Value,
    /// The text after the output, or the reason of a refusal.
    more: String,
    refused: bool,
}

struct Newcomer<'w> {
    world: &'w World,
    path: &'static str,
    token: String,
    tools: Vec<Value>,
    instructions: String,
    known: BTreeMap<String, Value>,
    called: Vec<String>,
}

impl<'w> Newcomer<'w> {
    fn arrive(world: &'w World, path: &'static str, token: &str) -> Self {
        let listed = world.mcp().request_at(path, Some(token), &[], "tools/list", json!({}));
        Self {
            world,
            path,
            token: token.to_owned(),
            tools: listed.body["result"]["tools"].as_array().unwrap().clone(),
            instructions: instructions(world, path),
            known: BTreeMap::new(),
            called: Vec::new(),
        }
    }

    fn tool(&self, name: &str) -> Option<&Value> {
        self.tools.iter().find(|tool| tool["name"] == name)
    }

    /// Returns the tools that a text names, in order.
    fn named(&self, text: &str) -> Vec<String> {
        let words = text.split('`').skip(1).step_by(2);
        words.filter(|word| self.tool(word).is_some()).map(str::to_owned).collect()
    }

    /// Returns the arguments of a call because of a sentence, if all required ones can be filled in.
    fn arguments(&self, name: &str, because: &str) -> Option<Map<String, Value>> {
        let schema = &self.tool(name).unwrap()["inputSchema"];
        let none = Map::new();
        let fields = schema["properties"].as_object().unwrap_or(&none);
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut arguments = Map::new();
        for (field, rule) in fields {
            let is_named = because.contains(&format!("`{field}`"));
            let is_always = self.instructions.contains(&format!("Always send the `{field}`"));
            let value = match self.known.get(field) {
                Some(value) if required.contains(&field.as_str()) || is_always => value.clone(),
                _ if required.contains(&field.as_str()) || is_named => made_up(field, rule, because)?,
                _ => continue,
            };
            arguments.insert(field.clone(), value);
        }
        Some(arguments)
    }

    fn call(&mut self, name: &str, arguments: &Map<String, Value>) -> NewcomerAnswer {
        let params = json!({"name": name, "arguments": arguments});
        let answer =
            self.world.mcp().request_at(self.path, Some(&self.token), &[], "tools/call", params.clone());
        let result = &answer.body["result"];
        assert!(result["content"].is_array(), "{params}: {:#}", answer.body);
        self.called.push(name.to_owned());
        let texts: Vec<&str> =
            result["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect();
        if result["isError"] == true {
            return NewcomerAnswer { output: Value::Null, more: texts.concat(), refused: true };
        }
        let output: Value = serde_json::from_str(texts[0]).unwrap();
        self.learn(&output);
        NewcomerAnswer { output, more: texts[1..].concat(), refused: false }
    }

    /// Keeps the ids in an answer; those of the whole override those of its parts.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                members.values().for_each(|member| self.learn(member));
                for (name, member) in members.iter().filter(|(name, _)| name.ends_with("_id")) {
                    self.known.insert(name.clone(), member.clone());
                }
                if let (Some(id), true) = (members.get("id"), members.contains_key("title")) {
                    self.known.insert("thread_id".to_owned(), id.clone());
                }
            }
            Value::Array(items) => items.iter().rev().for_each(|item| self.learn(item)),
            _ => {}
        }
    }

    /// Follows a sentence at once, and returns the last answer.
    fn follow(&mut self, sentence: &str) -> Option<NewcomerAnswer> {
        let mut last = None;
        for name in self.named(sentence) {
            if let Some(arguments) = self.arguments(&name, sentence) {
                last = Some(self.call(&name, &arguments));
            }
        }
        last
    }

    /// Returns the sentences of a numbered line of the instructions, without conditional ones.
    fn line(&self, number: usize) -> Vec<String> {
        let beginning = format!("{number}. ");
        let line = self.instructions.lines().find_map(|line| line.strip_prefix(&beginning)).unwrap();
        let sentences = line.split_inclusive(". ").map(str::trim);
        sentences.filter(|sentence| !sentence.starts_with("If ")).map(str::to_owned).collect()
    }

    fn follow_line(&mut self, number: usize) -> Option<NewcomerAnswer> {
        self.line(number).iter().filter_map(|sentence| self.follow(sentence)).last()
    }

    /// Calls the tools that are to be used first by their description.
    fn orient(&mut self) {
        let is_first = |tool: &&Value| tool["description"].as_str().unwrap().contains("Use first");
        let first: Vec<String> = self.tools.iter().filter(is_first).map(|tool| text(&tool["name"])).collect();
        assert_eq!(first, ["get_workspace_context", "whoami"]);
        for name in first {
            let arguments = self.arguments(&name, "").unwrap();
            assert!(!self.call(&name, &arguments).refused);
        }
    }

    /// Gets a task by the instructions and the answers; it calls `on_nothing` if there is no task.
    fn take(&mut self, on_nothing: impl FnOnce()) -> String {
        self.known.remove("claim_lease_id");
        let mut told = self.follow_line(1).unwrap();
        let mut on_nothing = Some(on_nothing);
        for _ in 0..STEPS_MAX {
            if self.known.contains_key("claim_lease_id") {
                return text(&self.known["thread_id"]);
            }
            if told.output == json!({})
                && let Some(on_nothing) = on_nothing.take()
            {
                on_nothing();
            }
            let next = self.named(&told.more).first().cloned();
            let next = next.unwrap_or_else(|| panic!("{:?}: what now? {}", self.called, told.more));
            let arguments = self.arguments(&next, &told.more).unwrap();
            told = self.call(&next, &arguments);
        }
        panic!("no task was found by {:?}", self.called);
    }
}

/// Returns an invented value for a field other than an id.
fn made_up(field: &str, rule: &Value, because: &str) -> Option<Value> {
    if field.ends_with("_id") {
        return None;
    }
    if let Some(options) = rule["enum"].as_array() {
        let wanted = options.iter().find(|option| because.contains(option.as_str().unwrap()));
        return Some(wanted.or(options.first()).unwrap().clone());
    }
    Some(match rule["type"].as_str() {
        Some("boolean") => json!(true),
        Some("object") => json!({"summary": "The work is done."}),
        Some("integer") => json!(1),
        _ => json!(format!("What a newcomer says as {field}.")),
    })
}

#[test]
fn a_newcomer_does_a_task_and_another_closes_it_by_what_texts_say() {
    on_both_engines(|world| {
        let channel = world.new_channel("newcomers");
        let (_, token) = world.new_agent("newcomer");
        let mut worker = Newcomer::arrive(world, "/mcp/worker", &token);
        worker.orient();
        // It finishes the samples of the world first; then it waits, and gets a new task.
        let mut made = None;
        for _ in 0..STEPS_MAX {
            let thread = worker.take(|| made = Some(world.new_thread(&channel, "Greet newcomers")));
            worker.follow_line(2);
            let handed_in = worker.follow_line(3).unwrap();
            if made.as_ref() == Some(&thread) {
                assert!(!handed_in.refused, "{}", handed_in.more);
                assert_eq!(worker.named(&handed_in.more), ["claim_next_workspace_thread"]);
                break;
            }
        }
        let made = made.unwrap();
        for name in ["wait_for_ready", "claim_thread", "renew_claim", "post_message", "set_thread_result"] {
            assert!(worker.called.iter().any(|called| called == name), "{name}: {:?}", worker.called);
        }
        assert_eq!(world.admin("get_thread", json!({"thread_id": made}))["state"], "in_review");

        // If it acts under an ended claim, the answer says what to do.
        let arguments = worker.arguments("renew_claim", "").unwrap();
        let late = worker.call("renew_claim", &arguments);
        assert!(late.refused && worker.named(&late.more) == ["claim_thread"], "{}", late.more);

        let reviewer = Person::with_skill(world, "second", "review");
        let mut reviewer = Newcomer::arrive(world, "/mcp/reviewer", &reviewer.token);
        reviewer.orient();
        let waiting = reviewer.follow_line(1).unwrap().output["reviews"].as_array().unwrap().clone();
        let task = waiting.iter().find(|thread| thread["id"] == *made).unwrap();
        reviewer.learn(task);
        for line in [2, 3] {
            let told = reviewer.follow_line(line).unwrap();
            assert!(!told.refused, "{}", told.more);
        }
        let done = world.admin("get_thread", json!({"thread_id": made}));
        assert_eq!(done["state"], "closed", "{:?}", reviewer.called);
        assert_eq!(
            world.admin("get_thread_result", json!({"thread_id": made}))["result"],
            json!({"summary": "The work is done."})
        );
        let said = world.admin("list_messages", json!({"thread_id": made}));
        let said = said["items"].as_array().unwrap();
        assert!(said.iter().any(|message| message["body"] == "What a newcomer says as body."), "{said:#?}");
    });
}
