//! Lean answers: an answer without members that carry no information.
//!
//! A lean answer omits members that are null, false or empty, members that only a full answer has, members
//! that repeat another one of the same object, and ids that follow from the ids in the request. The pin of a
//! claim stays, because its holder proves with the pin which event created the claim. A lean answer is made
//! from the encoded full answer, by the schema of the output and of each kind of event, so no output needs a
//! second type. Callers' own JSON is returned unchanged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::schema;

/// Members that only a full answer has: they repeat other members, or serve a client that verifies a log.
const ONLY_FULL: &[&str] =
    &["workspace_id", "uri", "prev_hash", "content_hash", "claim_pinned_hash", "content_sha256"];

/// Members that a lean answer keeps whole, although their own members are in [`ONLY_FULL`].
const WHOLE: &[&str] = &["pin"];

/// Pairs of members: the first is omitted if its value equals that of the second in the same object.
const REPEATED: &[(&str, &str)] = &[("id", "lsn"), ("subject_id", "actor_id"), ("created_by", "owner_id")];

/// Member names of an event: its hashed payload, its kind, and the payload members that the lean form omits.
const PAYLOAD: &str = "payload";
const KIND: &str = "kind";
const OF_PAYLOAD: &[&str] = &[CHAIN, "$type", "sealed"];
/// The member of a payload that repeats columns of the event.
const CHAIN: &str = "$chain";
/// The attribution, which every payload contains in addition to the fields of its kind.
const ATTRIBUTION: &str = "attribution";

/// The member that every list has, even if it is empty.
const ITEMS: &str = "items";

/// How the answers of an operation become lean.
pub(crate) enum LeanForm {
    /// JSON of a caller, which is kept unchanged.
    Verbatim,
    /// The payload of an event, whose lean form depends on the kind of event.
    Payload,
    Object(BTreeMap<String, LeanForm>),
    List(Box<LeanForm>),
}

impl LeanForm {
    /// Derives the lean form of answers from the schema of the full ones.
    pub fn of(schema: &Value) -> Self {
        let merged = schema::one_object(schema.clone());
        if let Some(members) = merged.get("properties").and_then(Value::as_object) {
            let lean = |(name, member): (&String, &Value)| {
                let lean = match name.as_str() {
                    PAYLOAD => Self::Payload,
                    whole if WHOLE.contains(&whole) => Self::Verbatim,
                    _ => Self::of(member),
                };
                (name.clone(), lean)
            };
            return Self::Object(members.iter().map(lean).collect());
        }
        match schema.get("items") {
            Some(items) => Self::List(Box::new(Self::of(items))),
            None => Self::Verbatim,
        }
    }

    /// Derives the lean form of the payloads of a kind of event from the schema of their fields.
    pub fn of_payload(schema: &Value) -> Self {
        let mut members = match Self::of(schema) {
            Self::Object(members) => members,
            _ => BTreeMap::new(),
        };
        members.insert(ATTRIBUTION.to_owned(), Self::Object(BTreeMap::new()));
        Self::Object(members)
    }

    /// Returns the lean answer to a request.
    pub fn answer(&self, full: &[u8], asked: &LeanRequest<'_>) -> Result<Vec<u8>> {
        let full: &RawValue = serde_json::from_slice(full).map_err(Error::internal)?;
        let mut out = Vec::with_capacity(full.get().len());
        self.write(full, asked, true, &mut out)?;
        Ok(out)
    }

    fn write(
        &self,
        full: &RawValue,
        asked: &LeanRequest<'_>,
        is_root: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Self::Object(members) if full.get().starts_with('{') => {
                object(full, out, |all, (name, value), out| {
                    if is_uninformative(name, value)
                        || all.repeats(name)
                        || (!is_root && asked.implies(all, name))
                    {
                        return Ok(());
                    }
                    match members.get(name) {
                        Some(Self::Payload) => asked.payload(all, value, out),
                        Some(member) => member.write(value, asked, false, out),
                        None => Self::Verbatim.write(value, asked, false, out),
                    }
                })
            }
            Self::List(items) if full.get().starts_with('[') => {
                let values: Vec<&RawValue> = parse(full)?;
                out.push(b'[');
                for (place, value) in values.into_iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    items.write(value, asked, false, out)?;
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

    /// Removes the required members from a schema, because a lean answer may omit them.
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

/// The part of a request that determines the lean form of the answer.
pub(crate) struct LeanRequest<'a> {
    /// The ids in the request, by field name.
    pub named: &'a Map<String, Value>,
    /// Returns the lean form of the payloads of a kind of event.
    pub payload_of: &'a dyn Fn(&str) -> Option<&'a LeanForm>,
}

impl LeanRequest<'_> {
    /// Returns whether the request determines the id in the member `name`.
    ///
    /// The request contains either that id or the thread of all objects in the answer, which determines their
    /// channel.
    fn implies(&self, all: &OrderedMembers<'_>, name: &str) -> bool {
        let is_named = |name: &str| {
            let named = self.named.get(name).and_then(Value::as_str);
            named.is_some_and(|named| all.word(name) == Some(named))
        };
        is_named(name) || (name == "channel_id" && is_named("thread_id"))
    }

    /// Writes the payload of an event in its lean form. For an unknown kind, omits only the empty members.
    ///
    /// Adds the thread or channel of the event, which the full event has in members that are omitted here.
    fn payload(&self, event: &OrderedMembers<'_>, full: &RawValue, out: &mut Vec<u8>) -> Result<()> {
        let lean = event.word(KIND).and_then(self.payload_of).unwrap_or(&LeanForm::Verbatim);
        let mut left = Vec::new();
        object(full, &mut left, |_, (name, value), out| {
            if !OF_PAYLOAD.contains(&name) {
                out.extend_from_slice(value.get().as_bytes());
            }
            Ok(())
        })?;
        let mut own = Vec::new();
        lean.write(serde_json::from_slice(&left).map_err(Error::internal)?, self, false, &mut own)?;
        let (Some((place, id)), Some(rest)) = (self.place(full)?, own.strip_prefix(b"{")) else {
            out.extend_from_slice(&own);
            return Ok(());
        };
        let comma = if rest == b"}" { "" } else { "," };
        out.extend_from_slice(format!("{{\"{place}\":\"{id}\"{comma}").as_bytes());
        out.extend_from_slice(rest);
        Ok(())
    }

    /// Returns the subject of a payload's event, unless the request or the payload itself contains it.
    fn place(&self, payload: &RawValue) -> Result<Option<(&'static str, String)>> {
        let payload: OrderedMembers<'_> = parse(payload)?;
        let Some(chain) = payload.get(CHAIN) else { return Ok(None) };
        let chain: OrderedMembers<'_> = parse(chain)?;
        let found = ["thread_id", "channel_id"].into_iter().find_map(|name| Some((name, chain.word(name)?)));
        let unsaid = |(name, _): &(&str, &str)| payload.get(name).is_none() && !self.implies(&chain, name);
        Ok(found.filter(unsaid).map(|(name, id)| (name, id.to_owned())))
    }
}

fn is_uninformative(name: &str, value: &RawValue) -> bool {
    let is_empty = matches!(value.get(), "null" | "false" | "\"\"" | "[]" | "{}");
    (is_empty && name != ITEMS) || ONLY_FULL.contains(&name)
}

/// Writes an object with the members for which `write` writes a value that is not empty.
fn object(
    full: &RawValue,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&OrderedMembers<'_>, (&str, &RawValue), &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let members: OrderedMembers<'_> = parse(full)?;
    out.push(b'{');
    let first = out.len();
    for (MemberName(name), value) in &members.0 {
        let before = out.len();
        if before > first {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, name).map_err(Error::internal)?;
        out.push(b':');
        let written = out.len();
        write(&members, (name, value), out)?;
        let is_empty = matches!(out.get(written..), None | Some(b"" | b"[]" | b"{}"));
        if is_empty && name != ITEMS {
            out.truncate(before);
        }
    }
    out.push(b'}');
    Ok(())
}

/// Parses JSON that the service has written.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T> {
    serde_json::from_str(json.get()).map_err(Error::internal)
}

/// The members of an object in their original order.
pub(super) struct OrderedMembers<'a>(Vec<(MemberName<'a>, &'a RawValue)>);

/// The name of a member. Copied only if it contains an escape.
#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> OrderedMembers<'a> {
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(given, _)| given.0 == name).map(|(_, value)| *value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(MemberName(name), value)| (&**name, *value))
    }

    /// Returns the value of a member that is a name or an id, and so contains no JSON escapes.
    fn word(&self, name: &str) -> Option<&str> {
        self.get(name)?.get().strip_prefix('"')?.strip_suffix('"')
    }

    fn repeats(&self, name: &str) -> bool {
        let other = REPEATED.iter().find(|(repeated, _)| *repeated == name).map(|(_, other)| *other);
        let values = other.and_then(|other| self.get(other)).zip(self.get(name));
        values.is_some_and(|(other, value)| other.get() == value.get())
    }
}

impl<'de> Deserialize<'de> for OrderedMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(OrderedVisitor)
    }
}

struct OrderedVisitor;

impl<'de> Visitor<'de> for OrderedVisitor {
    type Value = OrderedMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut access: A,
    ) -> std::result::Result<OrderedMembers<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = access.next_entry()? {
            members.push(member);
        }
        Ok(OrderedMembers(members))
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
        pin: Option<Pin>,
        payload: Map<String, Value>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code)]
    struct Holder {
        member_id: Option<String>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code)]
    struct Pin {
        uri: String,
        content_hash: String,
    }

    #[test]
    fn what_says_nothing_says_nothing_and_what_callers_stored_is_not() {
        let own = json!({"done": false, "next": null, "left": []});
        let row = json!({
            "id": "a", "channel_id": "c", "workspace_id": "w", "owner": null, "closed": false, "tags": [],
            "result": own, "holder": {"member_id": null}, "uri": "svc:thread/a", "content_hash": "sha256:0",
            "pin": {"uri": "svc:event/1", "content_hash": "sha256:1"},
            "payload": {"$chain": {"lsn": 1}, "$type": "t", "sealed": "x", "private": false},
        });
        let full = json!({"items": [row], "next_cursor": null}).to_string();
        let lean = LeanForm::of(&schema::inlined_output(schema::of::<Page<Row>>));
        let named = json!({"channel_id": "c"});
        let asked = LeanRequest { named: named.as_object().unwrap(), payload_of: &|_| None };
        let answer = lean.answer(full.as_bytes(), &asked).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let pin = json!({"uri": "svc:event/1", "content_hash": "sha256:1"});
        let item = json!({"id": "a", "result": own, "pin": pin, "payload": {"private": false}});
        let wanted = json!({"items": [item]});
        assert_eq!(answer, wanted);
        let none = lean.answer(br#"{"items":[],"next_cursor":null}"#, &asked).unwrap();
        assert_eq!(String::from_utf8(none).unwrap(), r#"{"items":[]}"#);
    }

    #[test]
    fn a_payload_is_lean_by_its_kind_and_an_unknown_one_is_kept() {
        #[derive(JsonSchema)]
        #[expect(dead_code)]
        struct Event {
            id: i64,
            lsn: i64,
            kind: String,
            payload: Map<String, Value>,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code)]
        struct Set {
            thread_id: String,
            channel_id: String,
            holder: Option<Holder>,
            result: Map<String, Value>,
        }

        let kind = LeanForm::of_payload(&schema::inlined_output(schema::of::<Set>));
        let event = LeanForm::of(&schema::inlined_output(schema::of::<Event>));
        let own = json!({"done": false, "next": null, "thread_id": "t"});
        let payload = |fields: Value| {
            let chain = json!({"lsn": 7, "thread_id": "u", "channel_id": "c"});
            let mut all = json!({"$chain": chain, "$type": "x", "sealed": "",
                                 "attribution": {"actor_id": "m", "subject_id": "m"}});
            all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            all
        };
        let fields =
            json!({"thread_id": "t", "channel_id": "c", "holder": {"member_id": null}, "result": own});
        let named = json!({"thread_id": "t"});
        let asked = LeanRequest {
            named: named.as_object().unwrap(),
            payload_of: &|name| (name == "Set").then_some(&kind),
        };
        for (name, fields, wanted) in [
            ("Set", fields.clone(), json!({"attribution": {"actor_id": "m"}, "result": own})),
            (
                "Later",
                json!({"holder": {"member_id": null}, "is": false}),
                json!({"attribution": {"actor_id": "m", "subject_id": "m"}, "holder": {"member_id": null},
                       "is": false, "thread_id": "u"}),
            ),
        ] {
            let full = json!({"id": 7, "lsn": 7, "kind": name, "payload": payload(fields)}).to_string();
            let answer = event.answer(full.as_bytes(), &asked).unwrap();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer, json!({"lsn": 7, "kind": name, "payload": wanted}));
        }
    }
}
