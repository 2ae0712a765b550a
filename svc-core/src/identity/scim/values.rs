//! Parsing values of SCIM attributes, which clients send in various forms.
//!
//! Values with an effect are validated: external ids, and whether a person is active. Decorative values are
//! shortened or ignored, and never fail a request. The server's log reports each ignored attribute once.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use crate::ignored;
use crate::lenient;
use crate::limits::{EXTERNAL_ID_MAX, NAME_MAX};
use crate::text::Text;

/// Name of the document type, in log messages that report ignored attributes.
pub(super) const DOCUMENT_TYPE: &str = "SCIM";

/// Schema URNs in a request. The service ignores them, because the path determines the kind of resource.
pub(super) struct SchemaList;

impl<'de> Deserialize<'de> for SchemaList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for SchemaList {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Schemas".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "array", "items": {"type": "string"}})
    }
}

/// Returns the member of an object with this name, ignoring case (RFC 7643, section 2.1).
pub(super) fn member_in_any_case<'v>(members: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let in_any_case = || members.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    members.get(name).or_else(|| in_any_case().map(|(_, value)| value))
}

/// Returns the value of a single-valued attribute, which clients send in various forms.
///
/// The forms are the value itself, a list of one value, and an object with a member `value`. An empty list
/// counts as no value (RFC 7643, section 2.5).
pub(super) fn single_value(value: &Value) -> &Value {
    let value = match value {
        Value::Array(items) if items.len() <= 1 => items.first().unwrap_or(&Value::Null),
        other => other,
    };
    value.as_object().and_then(|members| member_in_any_case(members, "value")).unwrap_or(value)
}

/// Parses a text that contains a JSON object or list. Returns any other value unchanged.
///
/// Some clients send an object or a list as a text.
pub(super) fn embedded_json(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            lenient::value(text.as_bytes()).map_or(Cow::Borrowed(value), Cow::Owned)
        }
        _ => Cow::Borrowed(value),
    }
}

/// A decorative name, shortened to the maximum length. The inner value is `None` if the sent value is not a
/// text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DisplayText(pub Option<Text<1, NAME_MAX>>);

impl DisplayText {
    /// Parses the value of the attribute `name`. Never fails.
    pub fn of(name: &str, value: &Value) -> Self {
        let Value::String(text) = single_value(value) else {
            if !value.is_null() {
                ignored::note(DOCUMENT_TYPE, name, "it is not a text");
            }
            return Self(None);
        };
        let fits = Text::cut(text);
        if fits.as_deref().is_some_and(|fits| fits != text) {
            ignored::note(DOCUMENT_TYPE, name, "only what fits of it is kept");
        }
        Self(fits)
    }
}

impl<'de> Deserialize<'de> for DisplayText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of("displayName", &Value::deserialize(deserializer)?))
    }
}

impl JsonSchema for DisplayText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Decoration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// Id of a resource at the identity provider, or `None`. An empty text counts as `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExternalId(pub Option<String>);

impl ExternalId {
    /// Parses the value of `externalId`. Fails if the value is not a text or is too long.
    pub fn of(value: &Value) -> Result<Self, String> {
        match single_value(value) {
            Value::Null => Ok(Self(None)),
            Value::String(text) if text.is_empty() => Ok(Self(None)),
            Value::String(text) => {
                let text = Text::<1, EXTERNAL_ID_MAX>::new(text.clone())?;
                Ok(Self(Some(text.to_string())))
            }
            _ => Err("expected a text".to_owned()),
        }
    }
}

impl<'de> Deserialize<'de> for ExternalId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(&Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for ExternalId {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ExternalId".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": EXTERNAL_ID_MAX})
    }
}

/// A boolean, which some identity providers send as text, as 0 or 1, or as a list of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LenientBool(pub bool);

impl LenientBool {
    /// Parses the value of an attribute. Returns `None` if the value is not a boolean.
    pub fn of(value: &Value) -> Option<bool> {
        match single_value(value) {
            Value::Bool(flag) => Some(*flag),
            Value::Number(number) => match number.as_u64()? {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
            Value::String(text) => match text.trim() {
                "0" => Some(false),
                "1" => Some(true),
                text if text.eq_ignore_ascii_case("true") => Some(true),
                text if text.eq_ignore_ascii_case("false") => Some(false),
                _ => None,
            },
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for LenientBool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::of(&value).map(Self).ok_or_else(|| de::Error::custom("expected true or false"))
    }
}

impl JsonSchema for LenientBool {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Flag".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "boolean"})
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_flag_may_be_a_text() {
        for (value, flag) in [
            (json!(true), Some(true)),
            (json!("False"), Some(false)),
            (json!("TRUE"), Some(true)),
            (json!(["true"]), Some(true)),
            (json!([false]), Some(false)),
            (json!([{"$ref": null, "value": "False"}]), Some(false)),
            (json!({"Value": true}), Some(true)),
            (json!(0), Some(false)),
            (json!(1), Some(true)),
            (json!("0"), Some(false)),
            (json!([" 1 "]), Some(true)),
            (json!("yes"), None),
            (json!("00"), None),
            (json!(2), None),
            (json!(-1), None),
            (json!(0.5), None),
            (json!(null), None),
            (json!([]), None),
            (json!([true, false]), None),
            (json!({"other": true}), None),
        ] {
            assert_eq!(LenientBool::of(&value), flag, "{value}");
        }
    }

    #[test]
    fn an_external_id_is_kept_whole_or_refused_and_nothing_if_it_is_empty() {
        let of = |value: Value| ExternalId::of(&value).map(|ExternalId(id)| id);
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(of(json!("00u1")), some("00u1"));
        assert_eq!(of(json!(["00u1"])), some("00u1"));
        assert_eq!(of(json!([{"$ref": null, "value": "00u1"}])), some("00u1"));
        assert_eq!(of(json!("é".repeat(1000))), some(&"é".repeat(1000)));
        for nothing in [json!(""), json!(null), json!([]), json!([""])] {
            assert_eq!(of(nothing.clone()), Ok(None), "{nothing}");
        }
        for refused in [json!(7), json!({"a": 1}), json!("x".repeat(1001)), json!("a\nb"), json!(["a", "b"])]
        {
            assert!(of(refused.clone()).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_decoration_is_what_fits_of_a_text() {
        let of = |value: Value| DisplayText::of("displayName", &value).0.as_deref().map(str::to_owned);
        for (value, wanted) in [
            (json!("Ada"), Some("Ada".to_owned())),
            (json!([{"value": "Ada"}]), Some("Ada".to_owned())),
            (json!("x".repeat(300)), Some("x".repeat(100))),
            (json!("Ada\u{0}\nL"), Some("Ada  L".to_owned())),
            (json!(""), None),
            (json!(null), None),
            (json!(7), None),
            (json!({"formatted": "Ada"}), None),
            (json!(["a", "b"]), None),
        ] {
            assert_eq!(of(value.clone()), wanted, "{value}");
        }
    }

    #[test]
    fn json_in_a_text_is_read() {
        let read = |value: Value| embedded_json(&value).into_owned();
        assert_eq!(read(json!("[{\"value\":\"1\"}]")), json!([{"value": "1"}]));
        assert_eq!(read(json!(" {\"active\":false}")), json!({"active": false}));
        assert_eq!(read(json!("{\"active\":0,\"x\":1e999,\"y\":\"\\ud800\"}"))["active"], 0);
        for same in [json!("[no json"), json!("1"), json!({"a": "[]"}), json!("")] {
            assert_eq!(read(same.clone()), same);
        }
    }
}
