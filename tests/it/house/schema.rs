//! The part of JSON Schema 2020-12 that the table's schemas use: whether a value conforms to a schema.

use serde_json::Value;

/// Returns the violations of `schema` in `value`, with their places.
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else {
        if schema == &Value::Bool(false) {
            found.push(format!("{at}: no value is allowed here"));
        }
        return;
    };
    for (keyword, wanted) in schema {
        match keyword.as_str() {
            "$ref" => {
                let target =
                    root.pointer(wanted.as_str().unwrap().trim_start_matches('#')).expect("a definition");
                check(root, target, value, at, found);
            }
            "type" => {
                let kinds = wanted.as_array().cloned().unwrap_or_else(|| vec![wanted.clone()]);
                if !kinds.iter().any(|kind| is(value, kind.as_str().unwrap())) {
                    found.push(format!("{at}: {value} is not {wanted}"));
                }
            }
            "enum" if !wanted.as_array().unwrap().contains(value) => {
                found.push(format!("{at}: {value} is none of {wanted}"));
            }
            "const" if wanted != value => found.push(format!("{at}: {value} is not {wanted}")),
            "anyOf" | "oneOf" => {
                let fits = |option: &&Value| {
                    let mut inner = Vec::new();
                    check(root, option, value, at, &mut inner);
                    inner.is_empty()
                };
                let count = wanted.as_array().unwrap().iter().filter(fits).count();
                if count == 0 || (keyword == "oneOf" && count > 1) {
                    found.push(format!("{at}: {value} fits {count} of the {keyword}"));
                }
            }
            "allOf" => {
                wanted.as_array().unwrap().iter().for_each(|part| check(root, part, value, at, found));
            }
            "minLength"
                if value.as_str().is_some_and(|text| (text.chars().count() as u64) < number(wanted)) =>
            {
                found.push(format!("{at}: {value} is too short"));
            }
            "maxLength"
                if value.as_str().is_some_and(|text| (text.chars().count() as u64) > number(wanted)) =>
            {
                found.push(format!("{at}: {value} is too long"));
            }
            "minimum" if value.as_f64().is_some_and(|found| found < wanted.as_f64().unwrap()) => {
                found.push(format!("{at}: {value} is below {wanted}"));
            }
            "maximum" if value.as_f64().is_some_and(|found| found > wanted.as_f64().unwrap()) => {
                found.push(format!("{at}: {value} is above {wanted}"));
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, wanted, item, &format!("{at}/{index}"), found);
                }
            }
            "required" if value.is_object() => {
                let missing = wanted
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|name| value.get(name.as_str().unwrap()).is_none());
                found.extend(missing.map(|name| format!("{at}: {name} is missing")));
            }
            "properties" if value.is_object() => {
                for (name, field) in value.as_object().unwrap() {
                    match wanted.get(name).or(schema.get("additionalProperties")) {
                        Some(inner) => check(root, inner, field, &format!("{at}/{name}"), found),
                        None => found.push(format!("{at}: {name} is not in the schema")),
                    }
                }
            }
            _ => {}
        }
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}

#[test]
fn values_are_checked_against_schemas() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {
            "a": {"type": ["integer", "null"], "maximum": 5},
            "b": {"anyOf": [{"enum": ["x", "y"]}, {"type": "null"}]},
            "c": {"type": "array", "items": {"$ref": "#/$defs/d"}},
        },
        "$defs": {"d": {"type": "string", "maxLength": 2}},
    });
    let cases = [
        (serde_json::json!({"a": null, "b": "x", "c": ["zz"]}), 0),
        (serde_json::json!({"a": 6}), 1),
        (serde_json::json!({"b": "z", "d": 1}), 3),
        (serde_json::json!({"a": 1, "c": ["zzz", 1]}), 2),
    ];
    for (value, wanted) in cases {
        let found = violations(&schema, &value);
        assert_eq!(found.len(), wanted, "{value}: {found:?}");
    }
}
