//! SHA-256, and hashes as text: `sha256:` and 64 hex digits in lower case.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

/// Returns the SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Formats a hash in its wire form: `sha256:<hex>`.
pub fn format_hash(hash: &[u8; 32]) -> String {
    let mut text = String::with_capacity(71);
    push_hash(&mut text, hash);
    text
}

/// Parses a hash in the form of [`format_hash`].
pub fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let bytes = hex::decode(text.strip_prefix("sha256:")?).ok()?;
    bytes.try_into().ok()
}

/// Appends a hash in the form of [`format_hash`] to `out`.
pub(crate) fn push_hash(out: &mut String, hash: &[u8; 32]) {
    out.push_str("sha256:");
    let mut digits = [0; 64];
    // Neither call can fail: the array has the right length, and hexadecimal digits are ASCII.
    let _ = hex::encode_to_slice(hash, &mut digits);
    out.push_str(std::str::from_utf8(&digits).unwrap_or_default());
}

/// The name of an artifact: the SHA-256 of its bytes, as 64 hex digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArtifactSha([u8; 32]);

impl ArtifactSha {
    /// Parses a name of 64 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let bytes = hex::decode(text).ok().filter(|_| is_lower)?;
        bytes.try_into().ok().map(Self)
    }
}

/// Prints the name, 64 hex digits.
impl std::fmt::Display for ArtifactSha {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl Serialize for ArtifactSha {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(self.0))
    }
}

impl<'de> Deserialize<'de> for ArtifactSha {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("expected 64 hex digits in lower case"))
    }
}

impl JsonSchema for ArtifactSha {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ArtifactSha".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9a-f]{64}$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_as_it_was_written() {
        let hash = sha256(b"abc");
        let text = format_hash(&hash);
        // FIPS 180-2, appendix B.1.
        assert!(text.starts_with("sha256:ba7816bf") && text.len() == 71, "{text}");
        assert_eq!(parse_hash(&text), Some(hash));
        for bad in ["", "sha256:", "ba7816bf", &text[..70], &text.replace("sha256", "sha512")] {
            assert_eq!(parse_hash(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_sha_is_sixty_four_digits_in_lower_case() {
        let good = "0123456789abcdef".repeat(4);
        let sha = ArtifactSha::parse(&good).unwrap();
        assert_eq!(serde_json::to_value(sha).unwrap(), good);
        for bad in ["", &good[1..], &good.to_uppercase(), &good.replace('0', "g"), &format!("{good}00")] {
            assert_eq!(ArtifactSha::parse(bad), None, "{bad}");
        }
    }
}
