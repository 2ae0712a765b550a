//! The documentation of an operation: its title, tool text, area, error codes, example and schemas.

use serde_json::Value;

use crate::error::Code;
use crate::op::declare::sample::Fixture;
use crate::schema::SchemaFunction;

/// The documentation of an operation.
pub struct Docs {
    /// Display name of the operation, for people.
    pub title: &'static str,
    /// Beginning of the tool's description: what the tool does, then when to prefer the tool to a similar
    /// one.
    ///
    /// In the description of the tool, this text replaces the first paragraph of the documentation.
    pub when: &'static str,
    /// Area of the service under which documents list the operation.
    pub area: &'static str,
    /// Error codes with which the operation can fail, in addition to the codes of every operation.
    pub refuses: &'static [Code],
    pub(in crate::op) example: Option<fn(&Fixture) -> Value>,
    pub(crate) input: SchemaFunction,
    pub(crate) output: SchemaFunction,
}

impl Docs {
    /// Returns the example input with the ids of the test world `fixture`, or `None` if the operation has no
    /// example.
    pub fn example(&self, fixture: &Fixture) -> Option<Value> {
        self.example.map(|example| example(fixture))
    }
}
