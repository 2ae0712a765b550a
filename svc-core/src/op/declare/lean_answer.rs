//! Lean answers: answers without members that carry no information for the caller.
//!
//! A lean answer omits members that are null, false or empty, members that only a full answer has, members
//! that repeat another member of the same object, and ids that follow from the ids in the request. The pin of
//! a claim is kept, because the holder of the claim uses it to prove which event created the claim. The lean
//! form is made from the encoded full answer, according to the schemas of the output and of each kind of
//! event, so no output needs a second type. JSON of callers is returned unchanged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::schema;

/// Names of the members that only a full answer has. These members repeat other members, or serve clients
/// that verify a log.
const FULL_ONLY_MEMBERS: &[&str] =
    &["workspace_id", "uri", "prev_hash", "content_hash", "claim_pinned_hash", "content_sha256"];

/// Names of the members that a lean answer keeps whole, although it would otherwise omit some of their own
/// members.
const WHOLE_MEMBERS: &[&str] = &["pin"];

/// Pairs of member names. A lean answer omits the first member if its value equals that of the second in the
/// same object.
const REPEATED_MEMBERS: &[(&str, &str)] =
    &[("id", "lsn"), ("subject_id", "actor_id"), ("created_by", "owner_id")];

/// Name of the event member that contains the hashed payload.
const PAYLOAD: &str = "payload";
const KIND: &str = "kind";
const OMITTED_FROM_PAYLOAD: &[&str] = &[CHAIN, "$type", "sealed"];
/// Name of the payload member that repeats columns of the event.
const CHAIN: &str = "$chain";
/// Name of the attribution, which every payload contains in addition to the fields of its kind.
const ATTRIBUTION: &str = "attribution";

/// Name of the list member that a lean answer keeps even if the list is empty.
const ITEMS: &str = "items";

/// The rules that make the answers of an operation lean.
pub(crate) enum LeanForm {
    /// A value that is kept unchanged, such as JSON of a caller.
    Verbatim,
    /// The payload of an event. The kind of the event determines the lean form.
    Payload,
    Object(BTreeMap<String, LeanForm>),
    List(Box<LeanForm>),
}

impl LeanForm {
    /// Derives the lean form of answers from the schema of the full answers.
    pub fn from_schema(schema: &Value) -> Self {
        let merged = schema::merge_into_one_object(schema.clone());
        if let Some(members) = merged.get("properties").and_then(Value::as_object) {
            let lean = |(name, member): (&String, &Value)| {
                let lean = match name.as_str() {
                    PAYLOAD => Self::Payload,
                    whole if WHOLE_MEMBERS.contains(&whole) => Self::Verbatim,
                    _ => Self::from_schema(member),
                };
                (name.clone(), lean)
            };
            return Self::Object(members.iter().map(lean).collect());
        }
        match schema.get("items") {
            Some(items) => Self::List(Box::new(Self::from_schema(items))),
            None => Self::Verbatim,
        }
    }

    /// Derives the lean form of payloads from the schema of a kind of event.
    pub fn from_payload_schema(schema: &Value) -> Self {
        let mut members = match Self::from_schema(schema) {
            Self::Object(members) => members,
            _ => BTreeMap::new(),
        };
        members.insert(ATTRIBUTION.to_owned(), Self::Object(BTreeMap::new()));
        Self::Object(members)
    }

    /// Converts the full answer to `request` to a lean answer.
    pub fn make_lean(&self, full: &[u8], request: &LeanRequest<'_>) -> Result<Vec<u8>> {
        let full: &RawValue = serde_json::from_slice(full).map_err(Error::internal)?;
        let mut out = Vec::with_capacity(full.get().len());
        self.write(full, request, true, &mut out)?;
        Ok(out)
    }

    /// Writes the lean form of a value to `out`. `is_root` tells whether the value is the whole answer.
    fn write(
        &self,
        full: &RawValue,
        request: &LeanRequest<'_>,
        is_root: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Self::Object(members) if full.get().starts_with('{') => {
                write_object(full, out, |all, (name, value), out| {
                    if is_uninformative(name, value)
                        || all.repeats_other_member(name)
                        || (!is_root && request.implies_id(all, name))
                    {
                        return Ok(());
                    }
                    match members.get(name) {
                        Some(Self::Payload) => request.write_payload(all, value, out),
                        Some(member) => member.write(value, request, false, out),
                        None => Self::Verbatim.write(value, request, false, out),
                    }
                })
            }
            Self::List(items) if full.get().starts_with('[') => {
                let values: Vec<&RawValue> = parse_own_json(full)?;
                out.push(b'[');
                for (place, value) in values.into_iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    items.write(value, request, false, out)?;
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

    /// Removes members from the lists of required members in a schema, because a lean answer may omit them.
    pub fn make_members_optional(schema: &mut Value) {
        match schema {
            Value::Object(members) => {
                if let Some(Value::Array(names)) = members.get_mut("required") {
                    names.retain(|name| name == ITEMS);
                    if names.is_empty() {
                        members.remove("required");
                    }
                }
                members.values_mut().for_each(Self::make_members_optional);
            }
            Value::Array(items) => items.iter_mut().for_each(Self::make_members_optional),
            _ => {}
        }
    }
}

/// The data of a request that determines which members a lean answer omits.
pub(crate) struct LeanRequest<'a> {
    /// The ids in the request, by field name.
    pub request_ids: &'a Map<String, Value>,
    /// Function that returns the lean form of payloads for a kind of event.
    pub payload_form: &'a dyn Fn(&str) -> Option<&'a LeanForm>,
}

impl LeanRequest<'_> {
    /// Returns whether the request determines the id in the member `name`.
    ///
    /// This is the case if the request contains the same id, or the id of the object's thread, which
    /// determines its channel.
    fn implies_id(&self, all: &OrderedMembers<'_>, name: &str) -> bool {
        let is_named = |name: &str| {
            let named = self.request_ids.get(name).and_then(Value::as_str);
            named.is_some_and(|named| all.plain_string(name) == Some(named))
        };
        is_named(name) || (name == "channel_id" && is_named("thread_id"))
    }

    /// Writes the lean form of an event's payload. For an unknown kind of event, omits only `$chain`,
    /// `$type`, `sealed`, and empty lists and objects.
    ///
    /// Adds the id of the event's thread or channel, which the omitted member `$chain` contains.
    fn write_payload(&self, event: &OrderedMembers<'_>, full: &RawValue, out: &mut Vec<u8>) -> Result<()> {
        let lean = event.plain_string(KIND).and_then(self.payload_form).unwrap_or(&LeanForm::Verbatim);
        let mut left = Vec::new();
        write_object(full, &mut left, |_, (name, value), out| {
            if !OMITTED_FROM_PAYLOAD.contains(&name) {
                out.extend_from_slice(value.get().as_bytes());
            }
            Ok(())
        })?;
        let mut own = Vec::new();
        lean.write(serde_json::from_slice(&left).map_err(Error::internal)?, self, false, &mut own)?;
        let (Some((place, id)), Some(rest)) = (self.subject_to_add(full)?, own.strip_prefix(b"{")) else {
            out.extend_from_slice(&own);
            return Ok(());
        };
        let comma = if rest == b"}" { "" } else { "," };
        out.extend_from_slice(format!("{{\"{place}\":\"{id}\"{comma}").as_bytes());
        out.extend_from_slice(rest);
        Ok(())
    }

    /// Returns the id of the event's thread or channel and the name of that id, unless the payload or the
    /// request contains it.
    fn subject_to_add(&self, payload: &RawValue) -> Result<Option<(&'static str, String)>> {
        let payload: OrderedMembers<'_> = parse_own_json(payload)?;
        let Some(chain) = payload.get(CHAIN) else { return Ok(None) };
        let chain: OrderedMembers<'_> = parse_own_json(chain)?;
        let found =
            ["thread_id", "channel_id"].into_iter().find_map(|name| Some((name, chain.plain_string(name)?)));
        let unsaid = |(name, _): &(&str, &str)| payload.get(name).is_none() && !self.implies_id(&chain, name);
        Ok(found.filter(unsaid).map(|(name, id)| (name, id.to_owned())))
    }
}

/// Returns whether a lean answer omits this member of an object, whatever the request is.
fn is_uninformative(name: &str, value: &RawValue) -> bool {
    let is_empty = matches!(value.get(), "null" | "false" | "\"\"" | "[]" | "{}");
    (is_empty && name != ITEMS) || FULL_ONLY_MEMBERS.contains(&name)
}

/// Writes an object. The function `write` writes the value of each member, and a member with an empty value
/// is omitted.
fn write_object(
    full: &RawValue,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&OrderedMembers<'_>, (&str, &RawValue), &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let members: OrderedMembers<'_> = parse_own_json(full)?;
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
pub(super) fn parse_own_json<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T> {
    serde_json::from_str(json.get()).map_err(Error::internal)
}

/// The members of an object in their original order.
pub(super) struct OrderedMembers<'a>(Vec<(MemberName<'a>, &'a RawValue)>);

/// The name of a member. The text is copied only if it contains an escape.
#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> OrderedMembers<'a> {
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(given, _)| given.0 == name).map(|(_, value)| *value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(MemberName(name), value)| (&**name, *value))
    }

    /// Returns the string in a member that has no JSON escapes, such as a name or an id.
    fn plain_string(&self, name: &str) -> Option<&str> {
        self.get(name)?.get().strip_prefix('"')?.strip_suffix('"')
    }

    /// Returns whether the member `name` has the value of the member that it repeats.
    fn repeats_other_member(&self, name: &str) -> bool {
        let other = REPEATED_MEMBERS.iter().find(|(repeated, _)| *repeated == name).map(|(_, other)| *other);
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
        let lean = LeanForm::from_schema(&schema::inlined_output(schema::of::<Page<Row>>));
        let named = json!({"channel_id": "c"});
        let request = LeanRequest { request_ids: named.as_object().unwrap(), payload_form: &|_| None };
        let answer = lean.make_lean(full.as_bytes(), &request).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let pin = json!({"uri": "svc:event/1", "content_hash": "sha256:1"});
        let item = json!({"id": "a", "result": own, "pin": pin, "payload": {"private": false}});
        let wanted = json!({"items": [item]});
        assert_eq!(answer, wanted);
        let none = lean.make_lean(br#"{"items":[],"next_cursor":null}"#, &request).unwrap();
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

        let kind = LeanForm::from_payload_schema(&schema::inlined_output(schema::of::<Set>));
        let event = LeanForm::from_schema(&schema::inlined_output(schema::of::<Event>));
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
        let request = LeanRequest {
            request_ids: named.as_object().unwrap(),
            payload_form: &|name| (name == "Set").then_some(&kind),
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
            let answer = event.make_lean(full.as_bytes(), &request).unwrap();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer, json!({"lsn": 7, "kind": name, "payload": wanted}));
        }
    }
}
