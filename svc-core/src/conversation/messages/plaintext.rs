//! Plaintext of a message: one canonical JSON text that contains the body, the content blocks and the
//! metadata.
//!
//! This file defines the form and the size limits of that text, the metadata members that are reserved for
//! the service, and how the text is sealed and decrypted. This file does not use the database.

use std::borrow::Cow;
use std::ops::Deref;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use zeroize::Zeroizing;

use super::content::{Block, GivenBlock, Metadata};
use crate::Result;
use crate::error::Error;
use crate::hash::parse_hash;
use crate::id::MessageId;
use crate::limits::{CITATIONS_MAX, JSON_MAX_BYTES};
use crate::log::canonical;
use crate::log::seal::{DecryptionFailed, MessageKey, Sealer};

/// Field name in the associated data with which message content is sealed.
const FIELD: &str = "words";

/// Metadata member that marks a message as a notice of the service. Callers cannot set or remove this member.
const NOTICE: &str = "notice";

/// Kinds of notices that contain the text of a record, such as a review. A message with such a notice cannot
/// be edited by its author.
const RECORD_NOTICES: [&str; 2] = ["approval", "review"];

/// Returns whether a message with the given metadata is a notice of the service.
pub(super) fn is_notice(metadata: &Metadata) -> bool {
    metadata.contains_key(NOTICE)
}

/// Metadata supplied by a caller, without the members that are reserved for the service.
#[derive(Clone, Default, Serialize)]
pub struct GivenMetadata(Metadata);

impl crate::argument::Field for GivenMetadata {}

impl crate::argument::Argument<GivenMetadata> for serde_json::Value {
    fn value(self) -> serde_json::Value {
        self
    }
}

impl crate::argument::Argument<GivenMetadata> for serde_json::Map<String, serde_json::Value> {
    fn value(self) -> serde_json::Value {
        serde_json::Value::Object(self)
    }
}

impl GivenMetadata {
    /// Returns the metadata after an edit: the members that the caller supplied, and the reserved members of
    /// `before`.
    pub fn with_reserved_members_of(&self, mut before: Metadata) -> Metadata {
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
                "citations": {"type": "array", "maxItems": CITATIONS_MAX, "items": {
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

/// Plaintext of a message's content.
///
/// The type deliberately does not implement `Debug`, because content must not be logged. Unknown JSON members
/// in a sealed text are ignored.
#[derive(Clone, Default, PartialEq, Deserialize)]
pub(super) struct Plaintext {
    pub body: String,
    pub metadata: Metadata,
    /// Content blocks. Texts that were sealed before content blocks existed have no blocks.
    #[serde(default)]
    pub content: Vec<Block>,
}

impl Plaintext {
    /// Returns the Markdown texts of the message: the body and all text blocks.
    pub fn texts(&self) -> Vec<&str> {
        let blocks = self.content.iter().filter_map(|block| match block {
            Block::Given(GivenBlock::Text { text }) => Some(&**text),
            _ => None,
        });
        std::iter::once(&*self.body).chain(blocks).collect()
    }

    /// Creates a plaintext without content blocks.
    pub fn new(body: &str, metadata: Metadata) -> Self {
        Self { body: body.to_owned(), metadata, content: Vec::new() }
    }

    /// Returns whether the message contains the text of a record, so that its author cannot edit it.
    pub fn contains_record(&self) -> bool {
        let notice = self.metadata.get(NOTICE).and_then(Value::as_str);
        let asks = self.content.iter().any(|block| matches!(block, Block::Own(_)));
        asks || notice.is_some_and(|notice| RECORD_NOTICES.contains(&notice))
    }
}

/// Sealed content of a message: as bytes for the row, and as base64 for the event.
pub(super) struct SealedContent {
    pub bytes: Vec<u8>,
    pub base64: String,
}

/// Seals the plaintext as edit number `edit` of a message.
///
/// Fails if a known metadata member is malformed, or if the metadata and the content blocks are too large.
pub(super) fn seal(
    sealer: &Sealer,
    key: &MessageKey,
    message: MessageId,
    edit: i64,
    plaintext: &Plaintext,
) -> Result<SealedContent> {
    let text = canonical_text(plaintext)?;
    let bytes = sealer.seal(key, message, FIELD, edit, text.as_bytes())?;
    let base64 = STANDARD.encode(&bytes);
    Ok(SealedContent { bytes, base64 })
}

/// Decrypts content that [`seal`] sealed.
pub(super) fn open(
    sealer: &Sealer,
    key: &MessageKey,
    message: MessageId,
    edit: i64,
    sealed: &[u8],
) -> Result<Plaintext, DecryptionFailed> {
    let text = sealer.open(key, message, FIELD, edit, sealed)?;
    serde_json::from_slice(&text).map_err(|_| DecryptionFailed)
}

/// Decrypts content that [`seal`] sealed, applies `change` to the JSON text, and seals the result under the
/// key of another message.
///
/// The inner error means that the content cannot be decrypted.
pub(crate) fn reseal(
    sealer: &Sealer,
    from: (MessageId, [u8; 32]),
    to: (MessageId, [u8; 32]),
    edit: i64,
    sealed: &[u8],
    change: &dyn Fn(&str) -> Result<String>,
) -> Result<Result<Vec<u8>, DecryptionFailed>> {
    let [from, to] = [from, to].map(|(message, key)| (message, MessageKey::from_bytes(key)));
    let (message, key) = from;
    let Ok(text) = sealer.open(&key, message, FIELD, edit, sealed) else { return Ok(Err(DecryptionFailed)) };
    let Ok(text) = std::str::from_utf8(&text) else { return Ok(Err(DecryptionFailed)) };
    let changed = Zeroizing::new(change(text)?);
    let (message, key) = to;
    sealer.seal(&key, message, FIELD, edit, changed.as_bytes()).map(Ok)
}

/// Returns the canonical JSON text of the plaintext. Fails if the metadata is malformed or a size limit is
/// exceeded.
fn canonical_text(plaintext: &Plaintext) -> Result<String> {
    let Plaintext { body, metadata, content } = plaintext;
    check_known_members(metadata)?;
    let metadata = canonical::to_string(metadata).map_err(|error| error.about("metadata"))?;
    check_size("metadata", metadata.len())?;
    let body = canonical::to_string(body)?;
    if content.is_empty() {
        return Ok(format!("{{\"body\":{body},\"metadata\":{metadata}}}"));
    }
    let content = canonical::to_string(content).map_err(|error| error.about("content"))?;
    check_size("content", metadata.len().saturating_add(content.len()))?;
    Ok(format!("{{\"body\":{body},\"content\":{content},\"metadata\":{metadata}}}"))
}

/// Fails if a field of a message exceeds the maximum size. `bytes` is the size of its JSON text.
fn check_size(field: &str, bytes: usize) -> Result<()> {
    if bytes <= JSON_MAX_BYTES {
        return Ok(());
    }
    let with = if field == "content" { " with the metadata" } else { "" };
    Err(Error::in_field(
        field,
        format!("{bytes} bytes as canonical JSON{with}, expected at most {JSON_MAX_BYTES}"),
    ))
}

/// Checks the metadata members that the service reads. Callers may use all other members freely.
fn check_known_members(metadata: &Metadata) -> Result<()> {
    if let Some(artifacts) = metadata.get("artifacts") {
        let fits = artifacts.as_array().is_some_and(|shas| shas.iter().all(is_sha));
        if !fits {
            return Err(Error::in_field(
                "metadata.artifacts",
                "expected a list of SHA-256 sums of 64 hex digits",
            ));
        }
    }
    if let Some(citations) = metadata.get("citations") {
        let list = citations.as_array().filter(|list| list.len() <= CITATIONS_MAX);
        if !list.is_some_and(|list| list.iter().all(is_citation)) {
            return Err(Error::in_field(
                "metadata.citations",
                format!(
                    "expected a list of at most {CITATIONS_MAX} {{\"uri\", \
                 \"content_hash\"}}, with a uri that is not empty and has no other hash, and a hash of the \
                 form sha256:<64 hex digits>"
                ),
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
    let hash = text("content_hash").and_then(parse_hash);
    let fits = |uri: &str| !uri.trim().is_empty() && fragment_matches(uri, hash);
    hash.is_some() && text("uri").is_some_and(fits)
}

/// Returns false if the fragment of an address cites a hash other than `hash`.
fn fragment_matches(uri: &str, hash: Option<[u8; 32]>) -> bool {
    let fragment = uri.split_once('#').map(|(_, fragment)| fragment);
    fragment.is_none_or(|fragment| !fragment.starts_with("sha256:") || parse_hash(fragment) == hash)
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
        let words = Plaintext::new("say \"hi\"\n", metadata);
        let text = canonical_text(&words).unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json_canonicalizer::to_string(&parsed).unwrap(), text);

        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let id = MessageId::from(Uuid::from_u128(1));
        let key = sealer.generate_message_key().unwrap();
        let sealed = seal(&sealer, &key, id, 2, &words).unwrap();
        let plaintext = open(&sealer, &key, id, 2, &sealed.bytes).ok().unwrap();
        assert!(plaintext == words);
        assert!(open(&sealer, &key, id, 1, &sealed.bytes).is_err());
        assert_eq!(STANDARD.decode(&sealed.base64).unwrap(), sealed.bytes);
        assert!(!sealed.bytes.windows(3).any(|part| part == b"say"));
    }

    #[test]
    fn a_plaintext_with_more_members_opens() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let id = MessageId::from(Uuid::from_u128(1));
        let key = sealer.generate_message_key().unwrap();
        let text = json!({"body": "b", "metadata": {}, "more": [{"type": "text"}]}).to_string();
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
            Value::Object(given.with_reserved_members_of(before)),
            json!({"a": {"notice": 1}, "notice": "cancelled"})
        );
        assert_eq!(
            Value::Object(given.with_reserved_members_of(object(json!({"b": 1})))),
            json!({"a": {"notice": 1}})
        );
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
            json!({"citations": [{"uri": format!("svc:event/1#sha256:{}", "1".repeat(64)),
                                  "content_hash": format!("sha256:{}", "0".repeat(64))}]}),
            json!({"citations": vec![json!({"uri": "svc:event/1",
                                            "content_hash": format!("sha256:{}", "0".repeat(64))}); 101]}),
        ] {
            let error = canonical_text(&Plaintext::new("b", object(refused))).unwrap_err();
            assert_eq!(error.code().status(), 400);
        }
        let fine = json!({
            "artifacts": ["ab".repeat(32)],
            "citations": [
                {"uri": "svc:event/1", "content_hash": format!("sha256:{}", "0".repeat(64))},
                {"uri": format!("svc:event/1#sha256:{}", "A".repeat(64)),
                 "content_hash": format!("sha256:{}", "a".repeat(64))},
                {"uri": "https://example.org/#section", "content_hash": format!("sha256:{}", "a".repeat(64))},
            ],
            "anything": {"else": 1.5},
        });
        assert!(canonical_text(&Plaintext::new("b", object(fine))).is_ok());
    }

    #[test]
    fn content_is_canonical_and_counts_with_the_metadata() {
        let words = |content: Value, metadata: Value| Plaintext {
            content: serde_json::from_value(content).unwrap(),
            ..Plaintext::new("b", object(metadata))
        };
        let small = words(json!([{"type": "code", "text": "1\n2", "language": "text"}]), json!({"a": 1}));
        let text = canonical_text(&small).unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json_canonicalizer::to_string(&parsed).unwrap(), text);
        assert!(serde_json::from_str::<Plaintext>(&text).is_ok_and(|read| read == small));
        let data = |length: usize| json!([{"type": "data", "data": {"a": "x".repeat(length)}}]);
        let around = canonical_text(&words(data(0), json!({}))).unwrap().len()
            - canonical_text(&words(json!([]), json!({}))).unwrap().len()
            - ",\"content\":".len();
        let fits = |content: usize, metadata: usize| {
            let metadata = json!({"a": "x".repeat(metadata)});
            canonical_text(&words(data(content), metadata)).is_ok()
        };
        let room = JSON_MAX_BYTES - around - "{\"a\":\"\"}".len();
        for (content, metadata, wanted) in
            [(room, 0, true), (room + 1, 0, false), (room - 1, 1, true), (room - 1, 2, false)]
        {
            assert_eq!(fits(content, metadata), wanted, "{content} {metadata}");
        }
        let huge = words(json!([{"type": "data", "data": {"n": 9_007_199_254_740_993_u64}}]), json!({}));
        assert!(canonical_text(&huge).is_err());
    }
}
