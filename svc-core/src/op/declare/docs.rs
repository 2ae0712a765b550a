//! The documentation of an operation.

use serde_json::Value;

use crate::error::Code;
use crate::op::declare::sample::Fixture;
use crate::schema::SchemaOf;

/// The documentation of an operation.
pub struct Docs {
    /// Display name of the operation.
    pub title: &'static str,
    /// When a model should call the operation, and which tool to call in other cases.
    ///
    /// In the description of the tool, this replaces the first sentence of the documentation.
    pub when: &'static str,
    /// The area of the service that the operation belongs to.
    pub area: &'static str,
    /// Codes with which the operation can fail, in addition to those of every operation.
    pub refuses: &'static [Code],
    pub(in crate::op) example: Option<fn(&Fixture) -> Value>,
    pub(crate) input: SchemaOf,
    pub(crate) output: SchemaOf,
}

impl Docs {
    /// Returns the example input for the test world `fixture`, if there is one.
    pub fn example(&self, fixture: &Fixture) -> Option<Value> {
        self.example.map(|example| example(fixture))
    }
}
