//! Finds the ids in the payload of an event: the fields that the schema of the event's kind declares as ids.
//!
//! UUIDs in free text or free JSON are not collected, because they may be ids of another system.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::log::event::{Event as _, EventKind, WorkspaceImported};

/// Finds ids in event payloads. Contains the JSON schema of the payload of each event kind.
pub(super) struct EventIdFinder(BTreeMap<&'static str, Value>);

#[derive(Deserialize)]
struct EventPayload {
    #[serde(rename = "$chain")]
    chain: ChainFields,
    attribution: BTreeMap<String, Option<Uuid>>,
    #[serde(flatten)]
    fields: Value,
}

#[derive(Deserialize)]
struct ChainFields {
    channel_id: Option<Uuid>,
    kind: String,
    member_id: Option<Uuid>,
    thread_id: Option<Uuid>,
    workspace_id: Option<Uuid>,
}

impl EventIdFinder {
    pub fn new<'k>(kinds: impl Iterator<Item = &'k EventKind>) -> Self {
        // The event about the import of a copy contains ids of the source, which is another workspace.
        let own = kinds.filter(|kind| kind.kind != WorkspaceImported::KIND);
        Self(own.map(|kind| (kind.kind, kind.schema())).collect())
    }

    /// Returns the ids in the payload of an event.
    pub fn find_in_payload(&self, payload: &str) -> Vec<Uuid> {
        let Ok(EventPayload { chain, attribution, fields }) = serde_json::from_str(payload) else {
            return Vec::new();
        };
        let ChainFields { channel_id, kind, member_id, thread_id, workspace_id } = chain;
        let mut ids: Vec<Uuid> =
            [channel_id, member_id, thread_id, workspace_id].into_iter().flatten().collect();
        ids.extend(attribution.into_values().flatten());
        if let Some(schema) = self.0.get(kind.as_str()) {
            collect_ids(schema, &fields, &mut ids);
        }
        ids
    }
}

/// Collects the strings of a JSON value that its schema declares as UUIDs.
fn collect_ids(schema: &Value, value: &Value, ids: &mut Vec<Uuid>) {
    for alternatives in ["anyOf", "oneOf", "allOf"] {
        let alternatives = schema.get(alternatives).and_then(Value::as_array);
        alternatives.into_iter().flatten().for_each(|schema| collect_ids(schema, value, ids));
    }
    match value {
        Value::String(text) if schema.get("format").is_some_and(|format| format == "uuid") => {
            ids.extend(Uuid::try_parse(text));
        }
        Value::Array(items) => {
            let schema = schema.get("items");
            items
                .iter()
                .for_each(|item| schema.into_iter().for_each(|schema| collect_ids(schema, item, ids)));
        }
        Value::Object(members) => {
            for (name, member) in members {
                let own = schema.get("properties").and_then(|properties| properties.get(name));
                let schema = own.or_else(|| schema.get("additionalProperties"));
                schema.into_iter().for_each(|schema| collect_ids(schema, member, ids));
            }
        }
        _ => {}
    }
}

/// Returns the ids in the given members of a JSON object. Each member contains a UUID or a list of UUIDs.
pub(super) fn ids_in_members(json: &str, names: &[&str]) -> Vec<Uuid> {
    let Ok(Value::Object(members)) = serde_json::from_str(json) else { return Vec::new() };
    let texts = names.iter().filter_map(|name| members.get(*name)).flat_map(|member| match member {
        Value::Array(items) => items.iter().collect(),
        one => vec![one],
    });
    texts.filter_map(|text| text.as_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_where_the_schema_says_so() {
        let id = |number: u128| Uuid::from_u128(number);
        let schema = json!({"properties": {
            "one": {"format": "uuid"},
            "maybe": {"anyOf": [{"format": "uuid"}, {"type": "null"}]},
            "many": {"items": {"properties": {"id": {"format": "uuid"}}}},
            "free": {},
            "text": {"type": "string"},
        }});
        let value = json!({
            "one": id(1), "maybe": id(2), "many": [{"id": id(3), "other": id(4)}],
            "free": {"id": id(5)}, "text": id(6), "unknown": id(7),
        });
        let mut found = Vec::new();
        collect_ids(&schema, &value, &mut found);
        found.sort();
        assert_eq!(found, [id(1), id(2), id(3)]);
        assert_eq!(
            ids_in_members(&json!({"a": id(1), "b": [id(2)], "c": id(3)}).to_string(), &["a", "b"]).len(),
            2
        );
    }
}
