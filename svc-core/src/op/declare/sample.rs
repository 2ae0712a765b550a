//! Samples: the objects of the test world. The examples of operations refer to samples by name.
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

/// Names of the samples that set-up creates before any call.
const SETUP_SAMPLES: [&str; 4] = ["workspace", "admin", "agent", "agent_token"];
/// JSON pointer to the id of a new object in the output of most operations.
const ID: &str = "/id";
/// The timestamp in the ids that the documentation shows.
const DOCUMENTED_MILLIS: u64 = 0x0199_0000_0000;
/// Beginning of the text that replaces the id of a missing sample in an input. The name of the sample
/// follows.
const MISSING_SAMPLE: &str = "no sample is named ";

/// The member that makes a call to create a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleCaller {
    /// The human admin, with every capability.
    Admin,
    /// The agent, with the capabilities of a worker.
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
    /// Function that returns the input, from the ids of the existing samples. From the second call on, they
    /// include this sample.
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
    pub fn by(mut self, caller: SampleCaller) -> Self {
        if let Some(call) = self.calls.last_mut() {
            call.by = caller;
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
    /// If the sample is missing, returns a text that is not an id. Building the table then fails.
    pub fn id(&self, name: &str) -> Value {
        match self.get(name) {
            Some(id) => id.to_string().into(),
            None => format!("{MISSING_SAMPLE}{name}").into(),
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

    /// Adds the sample `name` with the id `id`.
    pub fn insert(&mut self, name: &str, id: Uuid) {
        self.0.insert(name.to_owned(), id);
    }

    /// Returns the samples of set-up, with the ids that the documentation shows.
    pub(super) fn created_by_setup() -> Self {
        let mut founded = Self::default();
        SETUP_SAMPLES.iter().for_each(|name| founded.insert_documented(name));
        founded
    }

    /// Adds a sample with the id that the documentation shows.
    pub(super) fn insert_documented(&mut self, name: &str) {
        let random = sha256(name.as_bytes()).first_chunk().copied().unwrap_or_default();
        let id = uuid::Builder::from_unix_timestamp_millis(DOCUMENTED_MILLIS, &random).into_uuid();
        self.insert(name, id);
    }
}

fn find_missing_in_text(text: &str) -> Option<&str> {
    let (_, name) = text.split_once(MISSING_SAMPLE)?;
    name.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

/// Returns the name of a missing sample that an input refers to, if any.
pub(super) fn find_missing_sample(input: &Value) -> Option<&str> {
    match input {
        Value::String(text) => find_missing_in_text(text),
        Value::Array(items) => items.iter().find_map(find_missing_sample),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, value)| find_missing_in_text(name).or_else(|| find_missing_sample(value))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_id_of_the_documentation_follows_from_the_name() {
        let mut few = Fixture::created_by_setup();
        let mut more = Fixture::created_by_setup();
        more.insert_documented("channel");
        few.insert_documented("thread");
        more.insert_documented("thread");
        assert_eq!(few.get("thread"), more.get("thread"));
        assert_ne!(more.get("thread"), more.get("channel"));
        let id = few.get("thread").unwrap();
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
    }

    #[test]
    fn a_missing_sample_is_found_at_any_depth() {
        let fixture = Fixture::created_by_setup();
        let depends = json!({"workspace_id": fixture.id("workspace"), "depends_on": [fixture.id("thread")]});
        assert_eq!(find_missing_sample(&depends), Some("thread"));
        let text = format!("see svc:thread/{}/", fixture.id("thread").as_str().unwrap());
        assert_eq!(find_missing_sample(&json!({"body": text})), Some("thread"));
        assert_eq!(find_missing_sample(&json!({text: 1})), Some("thread"));
        assert_eq!(find_missing_sample(&json!({"member_id": fixture.id("agent"), "title": null})), None);
    }
}
