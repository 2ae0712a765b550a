//! Completes ids of objects, from the start of the id or from text in the object's name, title or handle.

use rmcp::model::{CompleteRequestParams, CompletionInfo, Reference};
use serde::Deserialize;
use serde_json::{Value, json};
use svc_core::Result;
use svc_core::text::echo;

use super::ServiceHandler;
use super::operation_calls::{ArgumentKind, ListStart};
use super::prompts::PromptTemplate;
use super::resources::RESOURCE_KINDS;
use crate::handler::Outcome;
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::response::Response;

/// Maximum pages of a list that completion searches.
const SEARCHED_PAGES_MAX: usize = 2;

/// Object that completion may suggest: its id, and the names to match.
#[derive(Debug, Deserialize)]
struct Candidate {
    id: String,
    name: Option<String>,
    title: Option<String>,
    handle: Option<String>,
    display_name: Option<String>,
}

/// Quality of a match between a candidate and the typed text, ordered from the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MatchQuality {
    Begins,
    Contains,
}

impl Candidate {
    /// Returns how well the candidate matches the typed text, which must be in lower case, or `None` without
    /// a match.
    fn match_quality(&self, typed: &str) -> Option<MatchQuality> {
        if self.id.starts_with(typed) {
            return Some(MatchQuality::Begins);
        }
        let names = [&self.name, &self.title, &self.handle, &self.display_name];
        let fit = |name: &String| {
            let name = name.to_lowercase();
            match name.find(typed)? {
                0 => Some(MatchQuality::Begins),
                _ => Some(MatchQuality::Contains),
            }
        };
        names.into_iter().flatten().filter_map(fit).min()
    }
}

impl ServiceHandler {
    /// Completes an argument of a prompt or of a resource template.
    pub(super) async fn complete_argument(
        &self,
        context: &RequestContext,
        params: &CompleteRequestParams,
    ) -> Outcome {
        let kind = argument_kind(&params.r#ref, &params.argument.name)?;
        let caller = &context.principal.with_admission(&self.service).await?;
        let listed = self.candidates(caller, kind).await?;
        let typed = params.argument.value.to_lowercase();
        Ok(Response::of(&json!({"completion": build_completion(&listed, &typed)})))
    }

    async fn candidates(&self, caller: &Principal, kind: ArgumentKind) -> Result<ListStart<Candidate>> {
        let (operation, more) = match kind {
            ArgumentKind::FreeText => return Ok(ListStart { items: Vec::new(), has_more: false }),
            ArgumentKind::Workspace => ("get_workspace", json!({})),
            ArgumentKind::Channel => ("list_channels", json!({"archived": false})),
            ArgumentKind::Thread(state) => ("list_workspace_threads", json!({"state": state})),
            ArgumentKind::Member => ("list_members", json!({})),
        };
        let mut input = json!({"workspace_id": self.workspace_of(caller).await?});
        if kind == ArgumentKind::Workspace {
            let own = self.run_and_parse(caller, operation, &input).await?;
            return Ok(ListStart { items: vec![own], has_more: false });
        }
        if let (Value::Object(input), Value::Object(more)) = (&mut input, more) {
            input.extend(more);
        }
        self.read_pages(caller, operation, input, SEARCHED_PAGES_MAX).await
    }
}

/// Returns the kind of a prompt's or resource template's argument. Fails if the argument does not exist.
fn argument_kind(reference: &Reference, argument: &str) -> Result<ArgumentKind, Refusal> {
    let unknown = |of: &str| Refusal::params(format!("{} has no argument {}", echo(of), echo(argument)));
    match reference {
        Reference::Prompt(prompt) => {
            let template = PromptTemplate::by_name(&prompt.name)?;
            let found = template.arguments.iter().find(|known| known.name == argument);
            found.map(|found| found.argument_kind).ok_or_else(|| unknown(&prompt.name))
        }
        Reference::Resource(resource) => {
            let kind = RESOURCE_KINDS.iter().find(|kind| kind.template == resource.uri).ok_or_else(|| {
                let uri = echo(&resource.uri);
                Refusal::params(format!("there is no template {uri}; see resources/templates/list"))
            })?;
            let is_its = kind.template.ends_with(&format!("{{{argument}}}"));
            if is_its { Ok(kind.argument_kind) } else { Err(unknown(&resource.uri)) }
        }
        reference => Err(unknown(reference.reference_type())),
    }
}

/// Returns the ids of the matching candidates, best match first. Equal matches keep the order of the list.
fn build_completion(listed: &ListStart<Candidate>, typed: &str) -> CompletionInfo {
    let fits = |candidate| Candidate::match_quality(candidate, typed).map(|fit| (fit, &candidate.id));
    let mut fitting: Vec<(MatchQuality, &String)> = listed.items.iter().filter_map(fits).collect();
    fitting.sort_by_key(|(fit, _)| *fit);
    let total = fitting.len();
    let mut completion = CompletionInfo::default();
    completion.values =
        fitting.into_iter().take(CompletionInfo::MAX_VALUES).map(|(_, id)| id.clone()).collect();
    // If the list has more pages, the total number of matches is not known.
    completion.total = u32::try_from(total).ok().filter(|_| !listed.has_more);
    completion.has_more = Some(listed.has_more || total > CompletionInfo::MAX_VALUES);
    completion
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(has_more: bool) -> ListStart<Candidate> {
        let items = json!([
            {"id": "01-a", "title": "Port the parser"},
            {"id": "01-b", "title": "parser tests", "name": null},
            {"id": "02-c", "handle": "PARvati", "display_name": "Devi"},
        ]);
        ListStart { items: serde_json::from_value(items).unwrap(), has_more }
    }

    #[test]
    fn what_begins_so_comes_first() {
        let found = |typed: &str| build_completion(&listed(false), typed).values;
        assert_eq!(found(""), ["01-a", "01-b", "02-c"]);
        assert_eq!(found("01"), ["01-a", "01-b"]);
        assert_eq!(found("par"), ["01-b", "02-c", "01-a"]);
        assert_eq!(found("devi"), ["02-c"]);
        assert_eq!(found("x"), [""; 0]);
    }

    #[test]
    fn what_is_not_returned_is_counted() {
        let all = build_completion(&listed(false), "par");
        assert_eq!((all.total, all.has_more), (Some(3), Some(false)));
        let some = build_completion(&listed(true), "par");
        assert_eq!((some.total, some.has_more), (None, Some(true)));
        let items = (0..150).map(|n| json!({"id": format!("{n}"), "name": "x"})).collect::<Vec<_>>();
        let items = serde_json::from_value(json!(items)).unwrap();
        let many = build_completion(&ListStart { items, has_more: false }, "x");
        assert_eq!((many.values.len(), many.total, many.has_more), (100, Some(150), Some(true)));
    }

    #[test]
    fn arguments_are_those_of_prompts_and_templates() {
        let prompt = Reference::for_prompt("review_thread");
        assert_eq!(argument_kind(&prompt, "thread_id").unwrap(), ArgumentKind::Thread(Some("in_review")));
        let boots = Reference::for_resource("svc://boots/{channel_id}");
        assert_eq!(argument_kind(&boots, "channel_id").unwrap(), ArgumentKind::Channel);
        for (of, argument) in [
            (&prompt, "id"),
            (&boots, "id"),
            (&Reference::for_prompt("no"), "thread_id"),
            (&Reference::for_resource("svc://threads/1"), "id"),
        ] {
            assert_eq!(argument_kind(of, argument).unwrap_err().code(), -32_602, "{of:?} {argument}");
        }
    }
}
