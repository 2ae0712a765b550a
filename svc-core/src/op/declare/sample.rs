//! Samples: the objects of a prepared world, which the examples of operations name.
//!
//! A feature declares its samples beside its operations, as data: a name, and the calls that create it. Tests
//! create the samples of the table, in its order, in a world that set-up has created, and send every example
//! through every transport. The ids in the documentation are derived from the names alone, so another sample
//! changes none of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::hash::sha256;

/// The samples that set-up creates, before any call.
const FOUNDED: [&str; 4] = ["workspace", "admin", "agent", "agent_token"];
/// The path of a new object's id in the output of most operations.
const ID: &str = "/id";
/// The time in the ids of the documentation.
const DOCUMENTED_MILLIS: u64 = 0x0199_0000_0000;
/// The prefix of the text that replaces the id of a missing sample in an input; the sample's name follows.
const MISSING: &str = "no sample is named ";

/// The member that makes a call of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleCaller {
    /// The human admin, who holds every capability.
    Admin,
    /// The agent, who holds a worker's capabilities.
    Agent,
}

/// One object in a prepared world: its name, and the calls that create it.
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
    /// The caller.
    pub by: SampleCaller,
    /// Its input, from the existing samples. From the second call on the sample itself is one of them.
    pub input: fn(&Fixture) -> Value,
}

impl Sample {
    /// Declares the sample `name`, which the admin creates by calling `operation`.
    pub fn new(name: &'static str, operation: &'static str, input: fn(&Fixture) -> Value) -> Self {
        Self { name, id_at: ID, calls: Vec::new() }.then(operation, input)
    }

    /// Adds a call of the admin, after those before.
    #[must_use]
    pub fn then(mut self, operation: &'static str, input: fn(&Fixture) -> Value) -> Self {
        self.calls.push(SampleCall { operation, by: SampleCaller::Admin, input });
        self
    }

    /// Sets the caller of the last added call.
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

    /// Returns the name by which examples refer to it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the calls, in their order.
    pub fn calls(&self) -> &[SampleCall] {
        &self.calls
    }

    /// Returns the id of the sample, from the output of its first call.
    pub fn id_in(&self, output: &Value) -> Option<Uuid> {
        output.pointer(self.id_at)?.as_str()?.parse().ok()
    }
}

/// The ids of the samples of a world, by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fixture(BTreeMap<String, Uuid>);

impl Fixture {
    /// Returns the id of a sample, for an input.
    ///
    /// For a missing sample it returns a text that is not an id. Building a table finds these.
    pub fn id(&self, name: &str) -> Value {
        match self.get(name) {
            Some(id) => id.to_string().into(),
            None => format!("{MISSING}{name}").into(),
        }
    }

    /// Returns the id of a sample, if there is one of this name.
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

    /// Returns the samples that set-up creates, with the ids of the documentation.
    pub(super) fn founded() -> Self {
        let mut founded = Self::default();
        FOUNDED.iter().for_each(|name| founded.document(name));
        founded
    }

    /// Adds a sample with its id of the documentation.
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

/// Returns the name of a missing sample that an input names.
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
