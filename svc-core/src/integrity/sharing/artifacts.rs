//! Artifacts on a share ticket, by the SHA-256 of their bytes.
//!
//! The service keeps no artifacts so far: [`held`] finds none, so none is put on a ticket and none is shown.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Error, Result};
use crate::op::Read;

/// The name of an artifact: the SHA-256 of its bytes, as 64 hex digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArtifactSha([u8; 32]);

impl ArtifactSha {
    /// Reads the 64 digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let bytes = hex::decode(text).ok().filter(|_| is_lower)?;
        bytes.try_into().ok().map(Self)
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

/// An artifact, as a share ticket shows it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SharedArtifact {
    /// The SHA-256 of its bytes.
    pub sha: ArtifactSha,
}

/// Finds an artifact that the caller's workspace keeps.
///
/// Whatever keeps artifacts is asked here, both when a ticket is issued and when its bearer reads one.
pub(super) fn held(_: &Read<'_>, _: ArtifactSha) -> Result<SharedArtifact> {
    Err(Error::not_found("artifact"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
