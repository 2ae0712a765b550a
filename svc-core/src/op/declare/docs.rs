//! The documentation of an operation.

use serde_json::Value;

use crate::error::Code;
use crate::op::declare::sample::Fixture;
use crate::schema::SchemaOf;

/// The documentation of an operation.
pub struct Docs {
    /// A short name for people.
    pub title: &'static str,
    /// When a model uses it, and which other tool to use in other cases.
    ///
    /// The tool's description has this in place of the first sentence of the documentation.
    pub when: &'static str,
    /// The area of the service that it belongs to.
    pub area: &'static str,
    /// The codes with which it can fail, in addition to those of every operation.
    pub refuses: &'static [Code],
    pub(in crate::op) example: Option<fn(&Fixture) -> Value>,
    pub(crate) input: SchemaOf,
    pub(crate) output: SchemaOf,
}

impl Docs {
    /// Returns the example's input in the world `fixture`, if there is one.
    pub fn example(&self, fixture: &Fixture) -> Option<Value> {
        self.example.map(|example| example(fixture))
    }
}
