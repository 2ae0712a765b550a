//! Lean answers: what an answer is without what says nothing.
//!
//! A lean answer leaves out members that are null, false or empty, those that only a full one has, and ids
//! that the request has named. It is made of the encoded full answer, by the schema of the output, so that no
//! output has a second type. What callers have stored as JSON of their own is returned as it is.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::schema;

/// Members that only a full answer has: they repeat what others say, or serve who verifies a log.
const ONLY_FULL: &[&str] =
    &["workspace_id", "uri", "prev_hash", "content_hash", "claim_pinned_hash", "content_sha256"];

/// The member of an event whose content was hashed, and what a lean one lacks of it, besides what is null.
const PAYLOAD: &str = "payload";
const OF_PAYLOAD: &[&str] = &["$chain", "$type", "sealed"];

/// The member of a payload that says who acted, and for whom.
const ATTRIBUTION: &str = "attribution";
const ACTOR: &str = "actor_id";
const SUBJECT: &str = "subject_id";
/// The member of a payload that says who wrote what it is about.
const AUTHOR: &str = "author_id";

/// The member of what is in a thread that follows from the other one.
const CHANNEL: &str = "channel_id";
const THREAD: &str = "thread_id";

/// The member of a list that it always has.
const ITEMS: &str = "items";

/// How the answers of an operation become lean.
pub(crate) enum Lean {
    /// They do not: the JSON is a caller's own.
    Verbatim,
    /// As the payload of an event.
    Payload,
    Object(BTreeMap<String, Lean>),
    List(Box<Lean>),
}

impl Lean {
    /// Reads how answers become lean from the schema of the full ones.
    pub fn of(schema: &Value) -> Self {
        let merged = schema::one_object(schema.clone());
        if let Some(members) = merged.get("properties").and_then(Value::as_object) {
            let lean = |(name, member): (&String, &Value)| {
                let lean = if name == PAYLOAD { Self::Payload } else { Self::of(member) };
                (name.clone(), lean)
            };
            return Self::Object(members.iter().map(lean).collect());
        }
        match schema.get("items") {
            Some(items) => Self::List(Box::new(Self::of(items))),
            None => Self::Verbatim,
        }
    }

    /// Returns a lean answer, without the ids that the request has `named`.
    pub fn answer(&self, full: &[u8], named: &Map<String, Value>) -> Result<Vec<u8>> {
        let full: &RawValue = serde_json::from_slice(full).map_err(Error::internal)?;
        let mut out = Vec::with_capacity(full.get().len());
        self.write(full, named, true, &mut out)?;
        Ok(out)
    }

    fn write(
        &self,
        full: &RawValue,
        named: &Map<String, Value>,
        is_root: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Self::Object(known) if full.get().starts_with('{') => {
                object(full, out, |of, name, value, out| {
                    let is_fixed = || is_named(named, name, value) || follows(named, of, name);
                    if says_nothing(name, value) || (!is_root && is_fixed()) {
                        return Ok(());
                    }
                    known.get(name).unwrap_or(&Self::Verbatim).write(value, named, false, out)
                })
            }
            Self::Payload if full.get().starts_with('{') => payload(full, out),
            Self::List(items) if full.get().starts_with('[') => {
                let values: Vec<&RawValue> = parse(full)?;
                out.push(b'[');
                for (place, value) in values.into_iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    items.write(value, named, false, out)?;
                }
                out.push(b']');
                Ok(())
            }
            Self::Verbatim | Self::Payload | Self::Object(_) | Self::List(_) => {
                out.extend_from_slice(full.get().as_bytes());
                Ok(())
            }
        }
    }

    /// Takes out of a schema what a lean answer need not have: its required members.
    pub fn relax(schema: &mut Value) {
        match schema {
            Value::Object(members) => {
                if let Some(Value::Array(names)) = members.get_mut("required") {
                    names.retain(|name| name == ITEMS);
                    if names.is_empty() {
                        members.remove("required");
                    }
                }
                members.values_mut().for_each(Self::relax);
            }
            Value::Array(items) => items.iter_mut().for_each(Self::relax),
            _ => {}
        }
    }
}

fn says_nothing(name: &str, value: &RawValue) -> bool {
    let is_empty = matches!(value.get(), "null" | "false" | "\"\"" | "[]" | "{}");
    (is_empty && name != ITEMS) || ONLY_FULL.contains(&name)
}

/// Whether the request has named this id, which has no character that JSON escapes.
fn is_named(named: &Map<String, Value>, name: &str, value: &RawValue) -> bool {
    named.get(name).and_then(Value::as_str).is_some_and(|id| value.get().trim_matches('"') == id)
}

/// Whether a member follows from what the request has named: the channel of what is in its thread.
fn follows(named: &Map<String, Value>, of: &[Member<'_>], name: &str) -> bool {
    name == CHANNEL && of.iter().any(|(name, value)| name == THREAD && is_named(named, name, value))
}

/// Writes a payload without who acted for itself, if that is the author whom it names.
fn payload(full: &RawValue, out: &mut Vec<u8>) -> Result<()> {
    object(full, out, |of, name, value, out| {
        if name == ATTRIBUTION {
            return attribution(value, member(of, AUTHOR), out);
        }
        if !OF_PAYLOAD.contains(&name) && value.get() != "null" {
            out.extend_from_slice(value.get().as_bytes());
        }
        Ok(())
    })
}

/// Writes who acted, unless that is the author, and for whom, if that is somebody else.
fn attribution(full: &RawValue, author: Option<&str>, out: &mut Vec<u8>) -> Result<()> {
    object(full, out, |of, name, value, out| {
        let (actor, subject) = (member(of, ACTOR), member(of, SUBJECT));
        let is_author = author.is_some() && [actor, subject] == [author; 2];
        let is_repeated = name == SUBJECT && subject == actor;
        if value.get() != "null" && !is_author && !is_repeated {
            out.extend_from_slice(value.get().as_bytes());
        }
        Ok(())
    })
}

fn member<'a>(members: &[Member<'a>], name: &str) -> Option<&'a str> {
    members.iter().find(|(known, _)| known == name).map(|(_, value)| value.get())
}

/// Writes the members of an object for which `write`, which is shown all of them, writes a value that is not
/// empty.
fn object(
    full: &RawValue,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&[Member<'_>], &str, &RawValue, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let Members(members) = parse(full)?;
    let mut value = Vec::new();
    let mut before = b'{';
    for (name, member) in &members {
        value.clear();
        write(&members, name, member, &mut value)?;
        let is_empty = matches!(value.as_slice(), b"" | b"[]" | b"{}");
        if is_empty && name != ITEMS {
            continue;
        }
        out.push(before);
        serde_json::to_writer(&mut *out, name).map_err(Error::internal)?;
        out.push(b':');
        out.extend_from_slice(&value);
        before = b',';
    }
    if before == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T> {
    serde_json::from_str(json.get()).map_err(Error::internal)
}

/// The members of an object, in their order.
struct Members<'a>(Vec<Member<'a>>);

type Member<'a> = (String, &'a RawValue);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> std::result::Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = access.next_key::<String>()? {
            members.push((name, access.next_value()?));
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::json;

    use super::*;
    use crate::page::Page;

    #[derive(JsonSchema)]
    #[expect(dead_code)]
    struct Row {
        id: String,
        channel_id: String,
        workspace_id: String,
        owner: Option<String>,
        closed: bool,
        tags: Vec<String>,
        result: Value,
        holder: Option<Holder>,
        payload: Map<String, Value>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code)]
    struct Holder {
        member_id: Option<String>,
    }

    #[test]
    fn what_says_nothing_says_nothing_and_what_callers_stored_is_not() {
        let own = json!({"done": false, "next": null, "left": []});
        let row = json!({
            "id": "a", "channel_id": "c", "workspace_id": "w", "owner": null, "closed": false, "tags": [],
            "result": own, "holder": {"member_id": null},
            "payload": {"$chain": {"lsn": 1}, "$type": "t", "sealed": "x", "private": false, "owner": null,
                        "attribution": {"actor_id": null, "subject_id": null}},
        });
        let full = json!({"items": [row], "next_cursor": null}).to_string();
        let lean = Lean::of(&schema::inlined_output(schema::of::<Page<Row>>));
        let named = json!({"channel_id": "c"});
        let answer = lean.answer(full.as_bytes(), named.as_object().unwrap()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let wanted = json!({"items": [{"id": "a", "result": own, "payload": {"private": false}}]});
        assert_eq!(answer, wanted);
        let none = lean.answer(br#"{"items":[],"next_cursor":null}"#, &Map::new()).unwrap();
        assert_eq!(String::from_utf8(none).unwrap(), r#"{"items":[]}"#);
    }
    #[test]
    fn the_channel_of_a_named_thread_is_not_said() {
        let lean = Lean::of(&json!({"items": {"properties": {"thread_id": {}, "channel_id": {}}}}));
        let named = json!({"thread_id": "t"});
        let full = r#"[{"thread_id":"t","channel_id":"c","n":1},{"thread_id":"u","channel_id":"c"}]"#;
        let answer = lean.answer(full.as_bytes(), named.as_object().unwrap()).unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), r#"[{"n":1},{"thread_id":"u","channel_id":"c"}]"#);
    }

    #[test]
    fn who_acted_is_said_once() {
        let lean = Lean::of(&schema::inlined_output(schema::of::<Row>));
        let of = |author: Value, actor: &str, subject: &str| {
            let attribution = json!({"actor_id": actor, "subject_id": subject});
            let full = json!({"payload": {"author_id": author, "attribution": attribution}}).to_string();
            let answer: Value =
                serde_json::from_slice(&lean.answer(full.as_bytes(), &Map::new()).unwrap()).unwrap();
            answer["payload"]["attribution"].clone()
        };
        assert_eq!(of(json!("a"), "a", "a"), Value::Null);
        assert_eq!(of(Value::Null, "a", "a"), json!({"actor_id": "a"}));
        assert_eq!(of(json!("b"), "a", "a"), json!({"actor_id": "a"}));
        assert_eq!(of(json!("b"), "a", "b"), json!({"actor_id": "a", "subject_id": "b"}));
    }
}
