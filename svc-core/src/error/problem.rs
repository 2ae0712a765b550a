//! The problem document of a failure for the caller, and the documentation page of the problem type.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Error;

impl Error {
    /// Returns the problem document for the caller.
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

/// A problem document (RFC 9457), with the media type `application/problem+json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Problem {
    /// The problem type: a path whose last segment is the stable code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The short title, which is the same at every occurrence of the problem type.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// Description of the fault in this request. The page of the problem type describes what to do next.
    pub detail: String,
    /// Additional members for this problem type.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The description of a problem type, which is the same at every occurrence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProblemType {
    /// The problem type: the path of this page.
    #[serde(rename = "type")]
    pub kind: String,
    /// The short title of the problem type.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The meaning of the problem type, and the remedy.
    pub description: &'static str,
}

impl std::fmt::Display for ProblemType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{} {}\n\n{}\n", self.title, self.status, self.kind, self.description)
    }
}
