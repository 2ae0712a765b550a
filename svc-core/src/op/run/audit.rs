//! The audit rows that the dispatcher itself writes.
//!
//! The dispatcher writes one `mutation` for each change without a named audit row, and one
//! `authorization.decision` for each request with a delegated token.

use serde_json::{Map, Value, json};

use crate::op::call::caller::Surface;
use crate::op::declare::operation::Operation;

/// The data of a request for its audit row: surface, operation, path and ids. Kept while the job is queued.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub surface: Surface,
    operation: &'static str,
    path: String,
    /// The path template, with variables instead of ids.
    template: &'static str,
    status: u16,
    ids: Option<Map<String, Value>>,
}

impl Origin {
    /// Returns the origin of a request for `operation`, or of a request for no known operation.
    ///
    /// `ids` contains the ids in the request, unless they are in its path.
    pub fn new(
        operation: Option<&Operation>,
        surface: Surface,
        path: &str,
        ids: Option<Map<String, Value>>,
    ) -> Self {
        Self {
            surface,
            operation: operation.map_or("", |operation| operation.name()),
            path: path.to_owned(),
            template: operation.map_or("", |operation| operation.http().path),
            status: operation.map_or(200, |operation| operation.http().success.status()),
            ids,
        }
    }

    /// Returns the origin of a change that the service itself makes.
    pub fn system(surface: Surface) -> Self {
        Self { surface, operation: "", path: String::new(), template: "", status: 200, ids: None }
    }

    /// Returns the name of the operation in audit rows.
    fn operation_name(&self) -> String {
        match self.surface {
            // For example, a request for the list of tools, or a request that could not be read.
            Surface::Mcp if self.operation.is_empty() => "mcp".to_owned(),
            Surface::Mcp => format!("tools/call:{}", self.operation),
            _ => self.operation.to_owned(),
        }
    }

    /// Returns the metadata of the generic audit row `mutation`, without ids if `is_confidential` is set.
    pub fn mutation_metadata(&self, is_confidential: bool) -> Value {
        let names_ids = self.ids.is_none();
        let mut metadata = json!({
            "surface": self.surface.name(),
            "operation": self.operation_name(),
            "path": if is_confidential && names_ids { self.template } else { &self.path },
            "status": self.status,
        });
        let ids = self.ids.as_ref().filter(|_| !is_confidential);
        if let (Some(ids), Some(members)) = (ids, metadata.as_object_mut()) {
            members.insert("ids".to_owned(), Value::Object(ids.clone()));
        }
        metadata
    }

    /// Returns the metadata of a named audit row for a request that changed nothing.
    pub fn named_metadata(&self) -> Value {
        json!({"operation": self.operation})
    }

    /// Returns the metadata of the row `authorization.decision` for a delegated request.
    ///
    /// `refused` is the name of the error code, if the request was rejected.
    pub fn decision_metadata(&self, refused: Option<&'static str>) -> Value {
        json!({
            "surface": self.surface.name(),
            "operation": self.operation_name(),
            "decision": if refused.is_some() { "refused" } else { "allowed" },
            "problem": refused,
        })
    }
}
