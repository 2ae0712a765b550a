//! Reads documents of the provider: JSON objects with some members that this service uses.
//!
//! Unused members are skipped without parsing, so they may have any type and depth, and numbers of any size.
//! A descriptive member of the wrong type is treated as absent. A security-relevant member must have the
//! right type. `null` means absent.
//!
//! No error message of this module contains a value from a document, since that may be a secret.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use svc_core::mark::strip_byte_order_mark_bytes;

/// Kind of a document from the identity provider, for messages about faulty documents.
#[derive(Clone, Copy, Debug)]
pub(super) enum DocumentKind {
    /// The query of the callback URL to which the provider redirects the browser.
    Callback,
    Discovery,
    Keys,
    Tokens,
    IdToken,
    UserInfo,
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Callback => "authorization response",
            Self::Discovery => "discovery document",
            Self::Keys => "key set",
            Self::Tokens => "token answer",
            Self::IdToken => "ID token",
            Self::UserInfo => "UserInfo answer",
        })
    }
}

/// A JSON object whose members are parsed only when they are read.
pub(super) struct Document<'a> {
    members: BTreeMap<String, &'a RawValue>,
}

impl<'a> Document<'a> {
    /// Parses a JSON object, and skips a byte order mark at the start.
    pub fn parse(json: &'a [u8]) -> Result<Self, String> {
        let members = serde_json::from_slice(strip_byte_order_mark_bytes(json)).map_err(|error| {
            format!("it is not a JSON object, by line {}, column {}", error.line(), error.column())
        })?;
        Ok(Self { members })
    }

    /// Returns a descriptive member, or `None` if the member is absent or has another type than `T`.
    pub fn optional_member<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        self.checked_member(name).ok()?
    }

    /// Returns a security-relevant member, or `None` if the member is absent. Fails if the member has another
    /// type than `T`.
    pub fn checked_member<T: Deserialize<'a>>(&self, name: &str) -> Result<Option<T>, String> {
        let member: Option<&'a RawValue> = self.members.get(name).copied();
        let member = member.filter(|member| member.get() != "null");
        let read = member.map(|member| serde_json::from_str(member.get())).transpose();
        read.map_err(|_| format!("its `{name}` has the wrong type"))
    }

    /// Returns a security-relevant member. Fails if the member is absent or has another type than `T`.
    pub fn required_member<T: Deserialize<'a>>(&self, name: &str) -> Result<T, String> {
        self.checked_member(name)?.ok_or_else(|| format!("its `{name}` is missing"))
    }
}

/// A boolean, or the text "true" or "false" that some providers send instead of a boolean.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum LenientBool {
    Boolean(bool),
    Text(String),
}

impl LenientBool {
    pub fn is_true(&self) -> bool {
        match self {
            Self::Boolean(is_true) => *is_true,
            Self::Text(text) => text == "true",
        }
    }
}

/// A JSON value that is a single string or a list of strings.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMoreTexts {
    One(String),
    Many(Vec<String>),
}

impl OneOrMoreTexts {
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_members_may_have_any_form() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for odd in ["1e400", "-0.0", r#""\ud800""#, r#"{"a": null}"#, "12345678901234567890123", &deep] {
            let json = format!(r#"{{"odd": {odd}, "name": "Ada", "odd": {odd}}}"#);
            let document = Document::parse(json.as_bytes()).unwrap();
            assert_eq!(document.required_member::<String>("name").unwrap(), "Ada", "{odd:.40}");
        }
    }

    #[test]
    fn a_member_decides_by_its_type_or_only_decorates() {
        let json = "\u{feff} {\"text\": \"a\", \"number\": 1, \"null\": null, \"lone\": \"\\ud800\"} ";
        let document = Document::parse(json.as_bytes()).unwrap();
        assert_eq!(document.optional_member::<String>("text").as_deref(), Some("a"));
        for (name, decorating, required) in [
            ("number", None, Err("its `number` has the wrong type")),
            ("lone", None, Err("its `lone` has the wrong type")),
            ("null", None, Err("its `null` is missing")),
            ("absent", None, Err("its `absent` is missing")),
        ] {
            assert_eq!(document.optional_member::<String>(name), decorating, "{name}");
            assert_eq!(document.required_member::<String>(name), required.map_err(str::to_owned), "{name}");
        }
        assert_eq!(document.checked_member::<String>("null"), Ok(None));
    }

    #[test]
    fn no_message_has_a_value_of_the_document() {
        for json in ["\"secret\"", "[\"secret\"]", "secret", "{\"secret\": 1", "{secret}", ""] {
            let why = Document::parse(json.as_bytes()).err().unwrap();
            assert!(!why.contains("secret"), "{json}: {why}");
        }
    }
}
