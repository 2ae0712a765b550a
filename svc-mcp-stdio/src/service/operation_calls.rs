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

/// Maximum items to request in one page of a list.
const PAGE: i64 = 500;

/// Kind of an argument, which determines its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    Workspace,
    Channel,
    /// A thread. Threads in this state, if one is given, come first.
    Thread(Option<&'static str>),
    Member,
    /// Free text, which cannot be completed.
    Words,
}

/// A page of a list, with only the members that are needed.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// The first items of a list.
pub(super) struct ListStart<T> {
    pub items: Vec<T>,
    /// Whether the list has further items.
    pub has_more: bool,
}

impl ServiceHandler {
    /// Runs an operation as the caller and returns its output as JSON.
    pub(super) async fn ask(&self, caller: &Principal, operation: &str, input: &Value) -> Result<Vec<u8>> {
        let operation = self.service.operation(operation)?;
        let outcome = caller.request(&self.service, operation, &Input::json(input.to_string())).await;
        caller.record_lsn(outcome.as_ref().map_or_else(Error::room_lsn, |reply| reply.lsn));
        outcome?.body()
    }

    /// Runs an operation as the caller and parses its output.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        caller: &Principal,
        operation: &str,
        input: &Value,
    ) -> Result<T> {
        let output = self.ask(caller, operation, input).await?;
        serde_json::from_slice(&output).map_err(Error::internal)
    }

    /// Reads the first `pages` pages of a list.
    pub(super) async fn list_of<T: DeserializeOwned>(
        &self,
        caller: &Principal,
        operation: &str,
        mut input: Value,
        pages: usize,
    ) -> Result<ListStart<T>> {
        let mut listed = ListStart { items: Vec::new(), has_more: true };
        set(&mut input, "limit", PAGE.into());
        set(&mut input, "detail", "full".into());
        set(&mut input, "max_bytes", ANSWER_BYTES_MAX.into());
        for _ in 0..pages {
            let Page { items, next_cursor } = self.read(caller, operation, &input).await?;
            listed.items.extend(items);
            match next_cursor {
                Some(cursor) => set(&mut input, "cursor", cursor.into()),
                None => {
                    listed.has_more = false;
                    break;
                }
            }
        }
        Ok(listed)
    }

    /// Returns the workspace that the caller belongs to.
    pub(super) async fn workspace_of(&self, caller: &Principal) -> Result<WorkspaceId> {
        #[derive(Deserialize)]
        struct Workspace {
            id: WorkspaceId,
        }
        if !caller.is_anonymous() {
            return Ok(caller.bearer(&self.service).await?.workspace_id);
        }
        // An anonymous caller is not a member, but sees exactly one workspace.
        let listed =
            self.list_of::<Workspace>(caller, "list_workspaces", Value::Object(Default::default()), 1);
        let first = listed.await?.items.into_iter().next();
        first.map(|workspace| workspace.id).ok_or_else(|| Error::not_found("workspace"))
    }
}

fn set(input: &mut Value, member: &str, value: Value) {
    if let Some(members) = input.as_object_mut() {
        members.insert(member.to_owned(), value);
    }
}
