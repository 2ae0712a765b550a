//! Removes null fields from inputs: a null field counts as absent, unless the schema of the field allows
//! null.
//!
//! Many clients send null for each field that they do not use. The schema of a field allows null only if null
//! has a meaning in that field, such as clearing a value.

use serde_json::{Map, Value};

use crate::schema::{alternatives, includes_type};

/// Returns whether a value contains null, at any depth.
pub(super) fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// Removes from a value, at every depth, the null fields that count as absent.
///
/// A null field that the schema does not describe, such as a member of a caller's metadata, is kept.
pub(super) fn omit_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => omit_null_members(schema, members),
        Value::Array(items) => {
            for form in schema_and_alternatives(schema).filter_map(|form| form.get("items")) {
                items.iter_mut().for_each(|item| omit_nulls(form, item));
            }
        }
        _ => {}
    }
}

/// Removes the null members that count as absent from an object and from all nested objects.
pub(super) fn omit_null_members(schema: &Value, members: &mut Map<String, Value>) {
    members.retain(|name, value| !(value.is_null() && is_optional(schema, name)));
    for (name, value) in members {
        field_schemas(schema, name).for_each(|field| omit_nulls(field, value));
    }
}

/// Returns whether null in the field `name` of an object means that the field is absent.
///
/// A required field cannot be absent, so null in a required field is an error.
pub(super) fn is_optional(schema: &Value, name: &str) -> bool {
    let is_required = |form: &Value| {
        form.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|it| it == name))
    };
    let has_field = |form: &&Value| field_schema(form, name).is_some();
    !field_schemas(schema, name).any(allows_null)
        && schema_and_alternatives(schema).filter(has_field).any(|form| !is_required(form))
}

/// Returns a schema, followed by the alternatives in its `anyOf` and `oneOf`.
fn schema_and_alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(schema).chain(alternatives(schema))
}

fn field_schema<'a>(form: &'a Value, name: &str) -> Option<&'a Value> {
    form.get("properties")?.get(name)
}

/// Returns the schemas of the field `name`, one for each alternative of the object's schema.
fn field_schemas<'a>(schema: &'a Value, name: &'a str) -> impl Iterator<Item = &'a Value> {
    schema_and_alternatives(schema).filter_map(move |form| field_schema(form, name))
}

/// Returns whether the schema of a field allows null.
fn allows_null(schema: &Value) -> bool {
    let says_nothing = !["type", "anyOf", "oneOf", "enum", "const"].iter().any(|it| schema.get(it).is_some());
    says_nothing
        || schema_and_alternatives(schema)
            .any(|form| form.get("type").is_some_and(|kind| includes_type(kind, "null")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_is_absent_where_it_says_nothing() {
        let kind = |kind: &str| json!({"properties": {"kind": {"const": kind}, kind: {"type": "string"}}});
        let schema = json!({
            "required": ["title"],
            "properties": {
                "title": {"type": "string"},
                "note": {"type": ["string", "null"]},
                "choice": {"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]},
                "any": {"description": "Anything."},
                "limit": {"type": "integer"},
                "metadata": {"type": "object", "properties": {"tags": {"type": "array"}}},
                "steps": {"type": "array", "items": {"oneOf": [kind("a"), kind("b")]}},
            },
        });
        let left = |given: Value| {
            let mut given = given;
            omit_nulls(&schema, &mut given);
            given
        };
        for (given, wanted) in [
            (json!({"limit": null, "title": "x"}), json!({"title": "x"})),
            (json!({"title": null}), json!({"title": null})),
            (
                json!({"note": null, "choice": null, "any": null}),
                json!({"note": null, "choice": null, "any": null}),
            ),
            (json!({"unknown": null}), json!({"unknown": null})),
            (
                json!({"metadata": {"tags": null, "own": null, "deep": {"tags": null}}}),
                json!({"metadata": {"own": null, "deep": {"tags": null}}}),
            ),
            (
                json!({"steps": [{"kind": "a", "a": null}, {"kind": "b", "b": "c"}, null]}),
                json!({"steps": [{"kind": "a"}, {"kind": "b", "b": "c"}, null]}),
            ),
        ] {
            assert_eq!(left(given.clone()), wanted, "{given}");
        }
        assert!(has_null(&json!([{"a": [null]}])) && !has_null(&json!([{"a": ["null", 0, false]}])));
    }
}
