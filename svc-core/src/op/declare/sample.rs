//! Samples: the objects of the test world, which the examples of operations refer to by name.
//!
//! A feature declares its samples beside its operations, as data: a name, and the calls that create the
//! sample. Tests create the samples of the table, in order, in a world that set-up has created, and send
//! every example through every transport. The ids in the documentation are derived from the names alone, so
//! adding a sample does not change them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::hash::sha256;

/// The samples that set-up creates, before any call.
const FOUNDED: [&str; 4] = ["workspace", "admin", "agent", "agent_token"];
/// The path of a new object's id in the output of most operations.
const ID: &str = "/id";
/// The timestamp in the ids that the documentation shows.
const DOCUMENTED_MILLIS: u64 = 0x0199_0000_0000;
/// Prefix of the text that replaces the id of a missing sample in an input, before the name of the sample.
const MISSING: &str = "no sample is named ";

/// The member that makes a call for a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleCaller {
    /// The human admin, who holds every capability.
    Admin,
    /// The agent, who holds a worker's capabilities.
    Agent,
}

/// An object in the test world: its name, and the calls that create it.
#[derive(Debug)]
pub struct Sample {
    name: &'static str,
    id_at: &'static str,
    calls: Vec<SampleCall>,
}

/// A call that creates a sample, or changes its state.
#[derive(Clone, Copy, Debug)]
pub struct SampleCall {
    /// The name of the operation.
    pub operation: &'static str,
    /// The member that makes the call.
    pub by: SampleCaller,
    /// Returns the input, built from the samples that already exist. From the second call on, these include
    /// the sample itself.
    pub input: fn(&Fixture) -> Value,
}

impl Sample {
    /// Declares the sample `name`, which the admin creates by calling `operation`.
    pub fn new(name: &'static str, operation: &'static str, input: fn(&Fixture) -> Value) -> Self {
        Self { name, id_at: ID, calls: Vec::new() }.then(operation, input)
    }

    /// Adds a call by the admin after the previous calls.
    #[must_use]
    pub fn then(mut self, operation: &'static str, input: fn(&Fixture) -> Value) -> Self {
        self.calls.push(SampleCall { operation, by: SampleCaller::Admin, input });
        self
    }

    /// Sets the caller of the call that was added last.
    #[must_use]
    pub fn by(mut self, maker: SampleCaller) -> Self {
        if let Some(call) = self.calls.last_mut() {
            call.by = maker;
        }
        self
    }

    /// Sets the path of the id in the output of the first call, as a JSON pointer.
    #[must_use]
    pub fn id_at(mut self, pointer: &'static str) -> Self {
        self.id_at = pointer;
        self
    }

    /// Returns the name by which examples refer to the sample.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the calls that create the sample, in order.
    pub fn calls(&self) -> &[SampleCall] {
        &self.calls
    }

    /// Returns the id of the sample, from the output of its first call.
    pub fn id_in(&self, output: &Value) -> Option<Uuid> {
        output.pointer(self.id_at)?.as_str()?.parse().ok()
    }
}

/// The ids of the samples in a world, by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fixture(BTreeMap<String, Uuid>);

impl Fixture {
    /// Returns the id of a sample, for an input.
    ///
    /// Returns text that is not an id if the sample is missing, which building a table detects.
    pub fn id(&self, name: &str) -> Value {
        match self.get(name) {
            Some(id) => id.to_string().into(),
            None => format!("{MISSING}{name}").into(),
        }
    }

    /// Returns the id of the sample `name`, if it exists.
    pub fn get(&self, name: &str) -> Option<Uuid> {
        self.0.get(name).copied()
    }

    /// Returns the names of the samples, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Adds a sample.
    pub fn insert(&mut self, name: &str, id: Uuid) {
        self.0.insert(name.to_owned(), id);
    }

    /// Returns the samples that set-up creates, with the ids that the documentation shows.
    pub(super) fn founded() -> Self {
        let mut founded = Self::default();
        FOUNDED.iter().for_each(|name| founded.document(name));
        founded
    }

    /// Adds a sample with the id that the documentation shows.
    pub(super) fn document(&mut self, name: &str) {
        let random = sha256(name.as_bytes()).first_chunk().copied().unwrap_or_default();
        let id = uuid::Builder::from_unix_timestamp_millis(DOCUMENTED_MILLIS, &random).into_uuid();
        self.insert(name, id);
    }
}

fn missing_in_text(text: &str) -> Option<&str> {
    let (_, name) = text.split_once(MISSING)?;
    name.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

/// Returns the name of a missing sample that an input refers to, if any.
pub(super) fn missing_in(input: &Value) -> Option<&str> {
    match input {
        Value::String(text) => missing_in_text(text),
        Value::Array(items) => items.iter().find_map(missing_in),
        Value::Object(members) => {
            members.iter().find_map(|(name, value)| missing_in_text(name).or_else(|| missing_in(value)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_id_of_the_documentation_follows_from_the_name() {
        let mut few = Fixture::founded();
        let mut more = Fixture::founded();
        more.document("channel");
        few.document("thread");
        more.document("thread");
        assert_eq!(few.get("thread"), more.get("thread"));
        assert_ne!(more.get("thread"), more.get("channel"));
        let id = few.get("thread").unwrap();
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
    }

    #[test]
    fn a_missing_sample_is_found_at_any_depth() {
        let fixture = Fixture::founded();
        let depends = json!({"workspace_id": fixture.id("workspace"), "depends_on": [fixture.id("thread")]});
        assert_eq!(missing_in(&depends), Some("thread"));
        let text = format!("see svc:thread/{}/", fixture.id("thread").as_str().unwrap());
        assert_eq!(missing_in(&json!({"body": text})), Some("thread"));
        assert_eq!(missing_in(&json!({text: 1})), Some("thread"));
        assert_eq!(missing_in(&json!({"member_id": fixture.id("agent"), "title": null})), None);
    }
}
