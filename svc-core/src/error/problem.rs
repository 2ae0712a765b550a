//! The body of a failure for the caller, and the page of its type.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Error;

impl Error {
    /// Returns the body for the caller.
    pub fn problem(&self) -> Problem {
        Problem {
            kind: self.code.address(),
            title: self.code.title(),
            status: self.code.status(),
            detail: self.detail.clone().into_owned(),
            extra: self.extra.clone(),
        }
    }
}

/// A problem body (RFC 9457), media type `application/problem+json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Problem {
    /// The problem type: a path whose last segment is the stable code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same short text at every occurrence of the type.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The fault of this request; the address of the type has the advice on what to do next.
    pub detail: String,
    /// Members that belong to the type.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A problem type: the part that is the same at every occurrence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProblemType {
    /// The problem type: the path of this page.
    #[serde(rename = "type")]
    pub kind: String,
    /// The short title.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// Its meaning and the remedy.
    pub description: &'static str,
}

impl std::fmt::Display for ProblemType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{} {}\n\n{}\n", self.title, self.status, self.kind, self.description)
    }
}
