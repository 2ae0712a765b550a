//! Defines the prompts. A prompt explains the steps of a common task, and includes the context of a thread.

use rmcp::model::{GetPromptRequestParams, JsonObject, Prompt, PromptArgument};
use serde_json::{Value, json};
use svc_core::op::Table;
use svc_core::text::echo;

use super::ServiceHandler;
use super::operation_calls::ArgumentKind;
use crate::address::Address;
use crate::handler::Outcome;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::response::{CacheScope, LONG_TTL_MS, Response, push_as_string};
use crate::tool_filter::ToolFilter;

/// Argument that a client passes to a prompt.
#[derive(Debug)]
pub(super) struct Argument {
    pub name: &'static str,
    description: &'static str,
    required: bool,
    pub argument_kind: ArgumentKind,
}

/// Template of a prompt. Each argument name in braces in the text stands for the value of that argument.
#[derive(Debug)]
pub(super) struct PromptTemplate {
    pub name: &'static str,
    description: &'static str,
    text: &'static str,
    /// Name of an optional argument, and the text to append if the client passes the argument.
    optional_text: Option<(&'static str, &'static str)>,
    pub arguments: &'static [Argument],
}

const THREAD_ID: &str = "thread_id";

const fn thread_argument(argument_kind: ArgumentKind) -> Argument {
    Argument { name: THREAD_ID, description: "The id of the thread", required: true, argument_kind }
}

/// Templates of all prompts.
pub(super) const TEMPLATES: [PromptTemplate; 6] = [
    PromptTemplate {
        name: "catch_up",
        description: "Summarize the state of a thread and the next steps",
        text: "\
Read the thread below. Summarize it in a few lines: the task, the members who work on it, the decisions, the \
open disputes, and what keeps it from being closed. `list_messages` returns the messages before those below. \
Then state the next steps, and who should take them.\n\
Later, `get_thread_context` with the `lsn` below as `since` returns only what is new.",
        optional_text: None,
        arguments: &[thread_argument(ArgumentKind::Thread(None))],
    },
    PromptTemplate {
        name: "finish_work",
        description: "Submit the result of a thread that you have claimed",
        text: "\
Finish your work on the thread {thread_id}, which is below.\n\
1. Check that the whole task is done, and that nothing in `close_refusals` is left for you to do.\n\
2. Call `report_usage` with the cost of the work, if you know it.\n\
3. Call `set_thread_result` with the `claim_lease_id` of your claim, the `result`, and the `action` \
\"start_review\" if the result needs a review, else \"close\". If the call is refused, nothing is stored: \
do what the error says, and call it again.\n\
If you cannot finish, explain why with `post_message`, and call `release_claim`.",
        optional_text: None,
        arguments: &[thread_argument(ArgumentKind::Thread(Some("open")))],
    },
    PromptTemplate {
        name: "hand_over",
        description: "Hand over a thread that you have claimed to another member",
        text: "\
Hand over your work on the thread {thread_id}, which is below.\n\
1. Describe with `post_message` what you have done, where it is, what is left, and what you would do next.\n\
2. Call `hand_off_claim` with the `claim_lease_id` of your claim and the `to_member_id` of the member who \
continues. Its `checkpoint` summarizes the progress so far.\n\
If any member can continue, call `release_claim` instead: the next one that claims it continues.",
        optional_text: Some(("to_member_id", "Hand it to the member {to_member_id}.")),
        arguments: &[
            thread_argument(ArgumentKind::Thread(Some("open"))),
            Argument {
                name: "to_member_id",
                description: "The id of the member who continues",
                required: false,
                argument_kind: ArgumentKind::Member,
            },
        ],
    },
    PromptTemplate {
        name: "plan_work",
        description: "Split a thread into tasks for other members",
        text: "\
Plan the work on the thread {thread_id}, which is below.\n\
1. Split the work into tasks. One agent must be able to do each task, and to check that it is done, without \
asking.\n\
2. Call `create_child_thread` for each task: the `title` states the task in one line, the `body` contains \
all that its worker has to know, `required_skills` states who can do it, `footprint` lists what it will \
touch, and `depends_on` lists the threads that must be finished before. `add_thread_dependency` adds \
dependencies later.\n\
3. Explain the plan with `post_message` in the thread {thread_id}.",
        optional_text: Some(("goal", "The goal: {goal}")),
        arguments: &[
            thread_argument(ArgumentKind::Thread(None)),
            Argument {
                name: "goal",
                description: "The goal, if the thread does not state it",
                required: false,
                argument_kind: ArgumentKind::FreeText,
            },
        ],
    },
    PromptTemplate {
        name: "review_thread",
        description: "Review the work in a thread, and submit a verdict",
        text: "\
Review the thread {thread_id}, which is below.\n\
1. Read the task and its messages, and the result with `get_thread_result`. Inspect the work itself.\n\
2. Call `submit_review` with your `verdict`, and with each fault as one of its `findings`: how severe the \
fault is, where it is, and how to correct it. `get_review_status` lists the open findings: \
`resolve_finding` settles one that is fixed.\n\
3. If the work is a code change, `set_land_gate` records whether it may land.",
        optional_text: None,
        arguments: &[thread_argument(ArgumentKind::Thread(Some("in_review")))],
    },
    PromptTemplate {
        name: "start_work",
        description: "Claim a thread and work on it",
        text: "\
Claim the thread {thread_id}, which is below, and work on it.\n\
1. If `claim_refusals` is not empty, you cannot claim it now: report that, and stop.\n\
2. Call `claim_thread` with `acknowledge`. Keep its `claim_lease_id`, and send it with each change.\n\
3. Read the thread and the boot of its channel. Announce with `post_message` what you are going to do.\n\
4. Do the work. Call `renew_claim` before the lease expires, and report with `post_message` what others need \
to know.\n\
5. Submit your result with `set_thread_result`. If you cannot finish, call `release_claim` or \
`hand_off_claim`.",
        optional_text: None,
        arguments: &[thread_argument(ArgumentKind::Thread(Some("open")))],
    },
];

impl PromptTemplate {
    /// Returns the template with the name `name`. Fails if there is no such prompt.
    pub fn by_name(name: &str) -> Result<&'static Self, Refusal> {
        let found = TEMPLATES.iter().find(|template| template.name == name);
        found.ok_or_else(|| {
            let names = TEMPLATES.each_ref().map(|template| template.name).join(", ");
            Refusal::params(format!("there is no prompt called \"{}\"; there are {names}", echo(name)))
        })
    }

    /// Returns whether the client sees all tools that the prompt mentions.
    fn has_all_tools(&self, view: &ToolFilter, table: &Table) -> bool {
        view.shows_tools_in(self.text, table)
    }

    fn to_prompt(&self) -> Prompt {
        let arguments = self.arguments.iter().map(|argument| {
            PromptArgument::new(argument.name)
                .with_description(argument.description)
                .with_required(argument.required)
        });
        Prompt::new(self.name, Some(self.description), Some(arguments.collect()))
    }

    /// Returns the text of the prompt with the values of the arguments. `arguments` must contain all required
    /// arguments.
    fn fill_in(&self, arguments: &[(&str, &str)]) -> String {
        let value =
            |name: &str| arguments.iter().find(|(arguments, _)| *arguments == name).map(|(_, value)| *value);
        let filled = |text: &str, name: &str, value: &str| text.replace(&format!("{{{name}}}"), value);
        let text = filled(self.text, THREAD_ID, value(THREAD_ID).unwrap_or_default());
        match self.optional_text.and_then(|(name, more)| Some((name, more, value(name)?))) {
            Some((name, more, value)) => format!("{text}\n{}", filled(more, name, value)),
            None => text,
        }
    }

    /// Checks the arguments of a request, and returns the name and the value of each.
    fn read<'a>(&self, given: &'a JsonObject) -> Result<Vec<(&'a str, &'a str)>, Refusal> {
        let wrong = |name: &str, why: &str| {
            Refusal::params(format!("the argument {} of the prompt {} {why}", echo(name), self.name))
        };
        for argument in self.arguments.iter().filter(|argument| argument.required) {
            given.get(argument.name).ok_or_else(|| wrong(argument.name, "is missing"))?;
        }
        let mut read = Vec::with_capacity(given.len());
        for (name, value) in given {
            if self.arguments.iter().all(|argument| argument.name != name) {
                return Err(wrong(name, "does not exist"));
            }
            match value {
                Value::String(value) => read.push((name.as_str(), value.as_str())),
                _ => return Err(wrong(name, "must be a string")),
            }
        }
        Ok(read)
    }
}

impl ServiceHandler {
    /// Lists the prompts whose tools the client sees.
    pub(super) fn list_prompts(&self, view: &ToolFilter) -> Response {
        let table = self.service.table();
        let shown = TEMPLATES.iter().filter(|template| template.has_all_tools(view, table));
        let prompts: Vec<Prompt> = shown.map(PromptTemplate::to_prompt).collect();
        let scope = if view.depends_only_on_path() { CacheScope::Public } else { CacheScope::Private };
        Response::of(&json!({"prompts": prompts})).cached(LONG_TTL_MS, scope)
    }

    /// Returns a prompt together with the context of the thread in its arguments.
    pub(super) async fn get_prompt(
        &self,
        context: &RequestContext,
        params: &GetPromptRequestParams,
    ) -> Outcome {
        let template = PromptTemplate::by_name(&params.name)?;
        if !template.has_all_tools(&context.view, self.service.table()) {
            return Err(Refusal::params(format!(
                "the prompt {} needs tools that are not in the client's tool selection; see prompts/list",
                template.name
            )));
        }
        let none = JsonObject::default();
        let given = template.read(params.arguments.as_ref().unwrap_or(&none))?;
        let thread = given.iter().find(|(name, _)| *name == THREAD_ID).map_or("", |(_, id)| *id);
        let uri = format!("svc://threads/{thread}");
        let address = Address::parse(&uri).ok_or_else(|| Refusal::resource(&uri, context.revision))?;
        let content = self.content(&context.principal, address, context.revision).await?;
        let mut members = br#""description":"#.to_vec();
        push_as_string(&mut members, template.description.as_bytes());
        members.extend_from_slice(br#","messages":[{"role":"user","content":{"type":"text","text":"#);
        push_as_string(&mut members, template.fill_in(&given).as_bytes());
        members.extend_from_slice(br#"}},{"role":"user","content":{"type":"resource","resource":"#);
        members.extend_from_slice(&content);
        members.extend_from_slice(b"}}]");
        Ok(Response::raw(members))
    }
}

#[cfg(test)]
mod tests {
    use svc_core::operation_table;

    use super::*;
    use crate::profiles::Profile;

    #[test]
    fn prompts_name_what_exists_within_one_profile() {
        let table = operation_table().unwrap();
        let fields = [
            "acknowledge",
            "action",
            "body",
            "checkpoint",
            "claim_lease_id",
            "claim_refusals",
            "close_refusals",
            "depends_on",
            "findings",
            "footprint",
            "lsn",
            "required_skills",
            "result",
            "since",
            "title",
            "to_member_id",
            "verdict",
        ];
        for template in &TEMPLATES {
            let words = || template.text.split('`').skip(1).step_by(2);
            let tools: Vec<&str> = words().filter(|word| table.operation(word).is_some()).collect();
            assert!(!tools.is_empty());
            for word in words().filter(|word| !tools.contains(word)) {
                assert!(fields.contains(&word), "{}: {word}", template.name);
                let is_of_one = tools.iter().any(|tool| {
                    let operation = table.operation(tool).unwrap();
                    let schemas = [operation.input_schema(), operation.output_schema()];
                    schemas.iter().any(|schema| schema.to_string().contains(&format!("\"{word}\"")))
                });
                let is_of_context = table.operation("get_thread_context").unwrap().output_schema();
                assert!(
                    is_of_one || is_of_context["properties"].get(word).is_some(),
                    "{}: {word}",
                    template.name
                );
            }
            let has_all = |profile: Profile| tools.iter().all(|tool| profile.tools().contains(tool));
            assert!(Profile::ALL.into_iter().any(has_all), "{}: {tools:?}", template.name);
        }
    }

    #[test]
    fn a_prompt_is_shown_with_its_tools() {
        let table = operation_table().unwrap();
        let shown = |view: &ToolFilter| -> Vec<&str> {
            let shown = TEMPLATES.iter().filter(|template| template.has_all_tools(view, &table));
            shown.map(|template| template.name).collect()
        };
        assert_eq!(shown(&ToolFilter::default()).len(), TEMPLATES.len());
        let worker = ["catch_up", "finish_work", "hand_over", "plan_work", "start_work"];
        assert_eq!(shown(&ToolFilter::for_profile(Profile::Worker)), worker);
        assert_eq!(shown(&ToolFilter::for_profile(Profile::Reviewer)), ["catch_up", "review_thread"]);
    }

    #[test]
    fn arguments_are_filled_in_or_refused() {
        let filled = |name: &str, arguments: Value| {
            let given: JsonObject = serde_json::from_value(arguments).unwrap();
            let template = PromptTemplate::by_name(name).unwrap();
            template.read(&given).map(|given| template.fill_in(&given)).map_err(|refusal| {
                assert_eq!(refusal.code(), -32_602);
                refusal.message().to_owned()
            })
        };
        for template in &TEMPLATES {
            let text = filled(template.name, json!({"thread_id": "t-1"})).unwrap();
            assert!(!text.contains('{') && !text.contains("  "), "{text}");
        }
        let text = filled("hand_over", json!({"thread_id": "t-1", "to_member_id": "m-2"})).unwrap();
        assert!(text.ends_with("Hand it to the member m-2."), "{text}");
        for (arguments, wanted) in [
            (json!({}), "thread_id of the prompt hand_over is missing"),
            (json!({"thread_id": 7}), "must be a string"),
            (json!({"thread_id": "t", "too": "x"}), "too of the prompt hand_over does not exist"),
        ] {
            assert!(filled("hand_over", arguments).unwrap_err().contains(wanted), "{wanted}");
        }
        let unknown = PromptTemplate::by_name("no").unwrap_err();
        assert!(unknown.message().contains("catch_up, finish_work"), "{}", unknown.message());
    }
}
