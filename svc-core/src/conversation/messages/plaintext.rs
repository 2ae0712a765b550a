//! The plaintext of a message: one canonical JSON text of body and metadata.
//!
//! This file defines the form and the limits of the text, which part of it is reserved for the service, and
//! how it is sealed and opened. It does not use the database.

use std::borrow::Cow;
use std::ops::Deref;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::Result;
use crate::error::Error;
use crate::hash::parse_hash;
use crate::id::MessageId;
use crate::limits::JSON_MAX_BYTES;
use crate::log::canonical;
use crate::log::seal::{MessageKey, Sealer, Unopened};

/// The field under which the content is sealed; part of the associated data.
const FIELD: &str = "words";

/// A message's metadata: any JSON object.
pub(crate) type Metadata = Map<String, Value>;

/// The member of metadata that marks a message as a notice of the service. Callers cannot set or remove it.
const NOTICE: &str = "notice";

/// The notices of messages that belong to a record: what was judged or asked must stay as it was said.
const OF_RECORD: [&str; 2] = ["approval", "review"];

/// Whether a message with this metadata is a notice of the service.
pub(super) fn is_notice(metadata: &Metadata) -> bool {
    metadata.contains_key(NOTICE)
}

/// Whether a message with this metadata belongs to a record, so that its author cannot edit it.
pub(super) fn is_of_record(metadata: &Metadata) -> bool {
    let notice = metadata.get(NOTICE).and_then(Value::as_str);
    notice.is_some_and(|notice| OF_RECORD.contains(&notice))
}

/// Metadata from a caller, without what is reserved for the service.
#[derive(Clone, Default)]
pub(super) struct GivenMetadata(Metadata);

impl GivenMetadata {
    /// Returns the metadata that replaces `before`: all that was given, and the service's part of `before`.
    pub fn replacing(&self, mut before: Metadata) -> Metadata {
        let mut metadata = self.0.clone();
        metadata.extend(before.remove_entry(NOTICE));
        metadata
    }
}

impl Deref for GivenMetadata {
    type Target = Metadata;
    fn deref(&self) -> &Metadata {
        &self.0
    }
}

impl<'de> Deserialize<'de> for GivenMetadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let metadata = Metadata::deserialize(deserializer)?;
        if metadata.contains_key(NOTICE) {
            return Err(de::Error::custom("the member `notice` is reserved for the service"));
        }
        Ok(Self(metadata))
    }
}

impl JsonSchema for GivenMetadata {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Metadata".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "artifacts": {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
                "citations": {"type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "uri": {"type": "string", "pattern": "\\S"},
                        "content_hash": {"type": "string", "pattern": "^sha256:[0-9A-Fa-f]{64}$"},
                    },
                    "required": ["uri", "content_hash"],
                    "additionalProperties": true,
                }},
            },
            "additionalProperties": true,
            "not": {"required": [NOTICE]},
        })
    }
}

/// The content of a message.
///
/// It has no Debug on purpose: content does not belong into logs. A sealed text may have further members,
/// which are ignored.
#[derive(Clone, Default, PartialEq, Deserialize)]
pub(super) struct Plaintext {
    pub body: String,
    pub metadata: Metadata,
}

/// Sealed content, as the row and as the event carry it.
pub(super) struct Sealed {
    pub bytes: Vec<u8>,
    pub base64: String,
}

/// Seals the content as edit number `edit` of a message. Fails if the metadata is malformed or too large.
pub(super) fn seal(
    sealer: &Sealer,
    key: &MessageKey,
    message: MessageId,
    edit: i64,
    body: &str,
    metadata: &Metadata,
) -> Result<Sealed> {
    let text = canonical_text(body, metadata)?;
    let bytes = sealer.seal(key, message, FIELD, edit, text.as_bytes())?;
    let base64 = STANDARD.encode(&bytes);
    Ok(Sealed { bytes, base64 })
}

/// Opens what [`seal`] made.
pub(super) fn open(
    sealer: &Sealer,
    key: &MessageKey,
    message: MessageId,
    edit: i64,
    sealed: &[u8],
) -> Result<Plaintext, Unopened> {
    let text = sealer.open(key, message, FIELD, edit, sealed)?;
    serde_json::from_slice(&text).map_err(|_| Unopened)
}

/// Opens what [`seal`] made for a message under its key, and seals what `change` makes of it for another one.
///
/// The inner error means that it does not open.
pub(crate) fn reseal(
    sealer: &Sealer,
    from: (MessageId, [u8; 32]),
    to: (MessageId, [u8; 32]),
    edit: i64,
    sealed: &[u8],
    change: &dyn Fn(&str) -> Result<String>,
) -> Result<Result<Vec<u8>, Unopened>> {
    let [from, to] = [from, to].map(|(message, key)| (message, MessageKey::from_bytes(key)));
    let (message, key) = from;
    let Ok(text) = sealer.open(&key, message, FIELD, edit, sealed) else { return Ok(Err(Unopened)) };
    let Ok(text) = std::str::from_utf8(&text) else { return Ok(Err(Unopened)) };
    let changed = Zeroizing::new(change(text)?);
    let (message, key) = to;
    sealer.seal(&key, message, FIELD, edit, changed.as_bytes()).map(Ok)
}

/// Returns the canonical text of the content, after checking its limits.
fn canonical_text(body: &str, metadata: &Metadata) -> Result<String> {
    check_known_members(metadata)?;
    let metadata = canonical::to_string(metadata)?;
    if metadata.len() > JSON_MAX_BYTES {
        return Err(Error::malformed(format!(
            "`metadata`: {} bytes as canonical JSON, expected at most {JSON_MAX_BYTES}",
            metadata.len()
        )));
    }
    let body = canonical::to_string(&body)?;
    Ok(format!("{{\"body\":{body},\"metadata\":{metadata}}}"))
}

/// Checks the members that the service itself reads; all others are up to the caller.
fn check_known_members(metadata: &Metadata) -> Result<()> {
    if let Some(artifacts) = metadata.get("artifacts") {
        let fits = artifacts.as_array().is_some_and(|shas| shas.iter().all(is_sha));
        if !fits {
            return Err(Error::malformed(
                "`metadata.artifacts`: expected a list of SHA-256 sums of 64 hex digits",
            ));
        }
    }
    if let Some(citations) = metadata.get("citations") {
        let fits = citations.as_array().is_some_and(|citations| citations.iter().all(is_citation));
        if !fits {
            return Err(Error::malformed(
                "`metadata.citations`: expected a list of {\"uri\", \"content_hash\"}, with a uri that is \
                 not empty and a hash of the form sha256:<64 hex digits>",
            ));
        }
    }
    Ok(())
}

fn is_sha(value: &Value) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    value.as_str().is_some_and(|text| text.len() == 64 && text.bytes().all(digit))
}

fn is_citation(value: &Value) -> bool {
    let text = |name| value.get(name).and_then(Value::as_str);
    text("uri").is_some_and(|uri| !uri.trim().is_empty())
        && text("content_hash").is_some_and(|hash| parse_hash(hash).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::entropy::Entropy;

    fn object(value: Value) -> Metadata {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn plaintexts_are_canonical_and_open_again() {
        let metadata = object(json!({"z": 1, "a": {"ö": [true, null]}}));
        let text = canonical_text("say \"hi\"\n", &metadata).unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json_canonicalizer::to_string(&parsed).unwrap(), text);

        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let (id, key) = (MessageId::from(Uuid::from_u128(1)), sealer.new_key().unwrap());
        let sealed = seal(&sealer, &key, id, 2, "say \"hi\"\n", &metadata).unwrap();
        let plaintext = open(&sealer, &key, id, 2, &sealed.bytes).ok().unwrap();
        assert!(plaintext == Plaintext { body: "say \"hi\"\n".to_owned(), metadata });
        assert!(open(&sealer, &key, id, 1, &sealed.bytes).is_err());
        assert_eq!(STANDARD.decode(&sealed.base64).unwrap(), sealed.bytes);
        assert!(!sealed.bytes.windows(3).any(|part| part == b"say"));
    }

    #[test]
    fn a_plaintext_with_more_members_opens() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let (id, key) = (MessageId::from(Uuid::from_u128(1)), sealer.new_key().unwrap());
        let text = json!({"body": "b", "content": [{"type": "text"}], "metadata": {}}).to_string();
        let sealed = sealer.seal(&key, id, FIELD, 0, text.as_bytes()).unwrap();
        assert_eq!(open(&sealer, &key, id, 0, &sealed).ok().unwrap().body, "b");
        let sealed = sealer.seal(&key, id, FIELD, 0, b"no JSON").unwrap();
        assert!(open(&sealer, &key, id, 0, &sealed).is_err());
    }

    #[test]
    fn the_notice_of_a_message_is_the_services_own() {
        let given = |value: Value| serde_json::from_value::<GivenMetadata>(value);
        assert!(given(json!({"notice": "cancelled"})).is_err() && given(json!({"notice": null})).is_err());
        let given = given(json!({"a": {"notice": 1}})).ok().unwrap();
        let before = object(json!({"b": 1, "notice": "cancelled"}));
        assert_eq!(
            Value::Object(given.replacing(before)),
            json!({"a": {"notice": 1}, "notice": "cancelled"})
        );
        assert_eq!(Value::Object(given.replacing(object(json!({"b": 1})))), json!({"a": {"notice": 1}}));
    }

    #[test]
    fn metadata_has_limits() {
        let long = "x".repeat(JSON_MAX_BYTES);
        for refused in [
            json!({"n": 9_007_199_254_740_993_u64}),
            json!({"long": long}),
            json!({"artifacts": "ab"}),
            json!({"artifacts": ["AB".repeat(32)]}),
            json!({"citations": [{"uri": "", "content_hash": format!("sha256:{}", "0".repeat(64))}]}),
            json!({"citations": [{"uri": "svc:event/1", "content_hash": "sha256:12"}]}),
            json!({"citations": [{"uri": "svc:event/1"}]}),
        ] {
            let error = canonical_text("b", &object(refused)).unwrap_err();
            assert_eq!(error.code().status(), 400);
        }
        let fine = json!({
            "artifacts": ["ab".repeat(32)],
            "citations": [{"uri": "svc:event/1", "content_hash": format!("sha256:{}", "0".repeat(64))}],
            "anything": {"else": 1.5},
        });
        assert!(canonical_text("b", &object(fine)).is_ok());
    }
}
