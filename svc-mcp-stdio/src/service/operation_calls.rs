//! Runs operations for MCP methods other than tool calls.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use svc_core::id::WorkspaceId;
use svc_core::limits::ANSWER_BYTES_MAX;
use svc_core::op::Input;
use svc_core::{Error, Result};

use super::ServiceHandler;
use crate::principal::Principal;

/// Maximum items per requested page of a list.
const PAGE_ITEMS_MAX: i64 = 500;

/// Kind of an argument of a prompt or template, which determines how the argument is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    Workspace,
    Channel,
    /// The id of a thread. With a state, only threads in that state are suggested.
    Thread(Option<&'static str>),
    Member,
    /// Free text, which cannot be completed.
    FreeText,
}

/// Page of a list, with only the members that this module uses.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// First items of a list, from one or more pages.
pub(super) struct ListStart<T> {
    pub items: Vec<T>,
    /// Whether the list has further items.
    pub has_more: bool,
}

impl ServiceHandler {
    /// Runs an operation as the caller, and returns the output of the operation as JSON.
    pub(super) async fn run_operation(
        &self,
        caller: &Principal,
        operation: &str,
        input: &Value,
    ) -> Result<Vec<u8>> {
        let operation = self.service.operation(operation)?;
        let outcome = caller.request(&self.service, operation, &Input::json(input.to_string())).await;
        caller.record_lsn(outcome.as_ref().map_or_else(Error::room_lsn, |reply| reply.lsn));
        outcome?.body()
    }

    /// Runs an operation as the caller, and parses the output of the operation.
    pub(super) async fn run_and_parse<T: DeserializeOwned>(
        &self,
        caller: &Principal,
        operation: &str,
        input: &Value,
    ) -> Result<T> {
        let output = self.run_operation(caller, operation, input).await?;
        serde_json::from_slice(&output).map_err(Error::internal)
    }

    /// Reads the first `max_pages` pages of a list.
    pub(super) async fn read_pages<T: DeserializeOwned>(
        &self,
        caller: &Principal,
        operation: &str,
        mut input: Value,
        max_pages: usize,
    ) -> Result<ListStart<T>> {
        let mut listed = ListStart { items: Vec::new(), has_more: true };
        set_member(&mut input, "limit", PAGE_ITEMS_MAX.into());
        set_member(&mut input, "detail", "full".into());
        set_member(&mut input, "max_bytes", ANSWER_BYTES_MAX.into());
        for _ in 0..max_pages {
            let Page { items, next_cursor } = self.run_and_parse(caller, operation, &input).await?;
            listed.items.extend(items);
            match next_cursor {
                Some(cursor) => set_member(&mut input, "cursor", cursor.into()),
                None => {
                    listed.has_more = false;
                    break;
                }
            }
        }
        Ok(listed)
    }

    /// Returns the workspace of the caller, or the visible workspace if the caller is anonymous.
    pub(super) async fn workspace_of(&self, caller: &Principal) -> Result<WorkspaceId> {
        #[derive(Deserialize)]
        struct Workspace {
            id: WorkspaceId,
        }
        if !caller.is_anonymous() {
            return Ok(caller.current_bearer(&self.service).await?.workspace_id);
        }
        // An anonymous caller is not a member of a workspace, but sees exactly one workspace.
        let listed =
            self.read_pages::<Workspace>(caller, "list_workspaces", Value::Object(Default::default()), 1);
        let first = listed.await?.items.into_iter().next();
        first.map(|workspace| workspace.id).ok_or_else(|| Error::not_found("workspace"))
    }
}

fn set_member(input: &mut Value, member: &str, value: Value) {
    if let Some(members) = input.as_object_mut() {
        members.insert(member.to_owned(), value);
    }
}
