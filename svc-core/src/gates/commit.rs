//! Git commit hashes in reviews and land gates.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::Result;
use crate::store::{FromValue, Param, ToParam, Value};

/// Allowed number of hex digits in a commit hash: from git's shortest abbreviation to a full SHA-256 hash.
const COMMIT_HASH_DIGITS: std::ops::RangeInclusive<usize> = 4..=64;

/// A git commit hash in lower case, possibly abbreviated to its first digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CommitHash(String);

impl std::ops::Deref for CommitHash {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

crate::argument::text_arguments! { CommitHash }

impl CommitHash {
    fn new(text: &str) -> Result<Self, String> {
        if COMMIT_HASH_DIGITS.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(format!(
                "expected the {} to {} hex digits of a commit",
                COMMIT_HASH_DIGITS.start(),
                COMMIT_HASH_DIGITS.end()
            ))
        }
    }
}

impl<'de> Deserialize<'de> for CommitHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for CommitHash {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "CommitHash".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9A-Fa-f]{4,64}$"})
    }
}

impl ToParam for CommitHash {
    fn param(&self) -> Param<'_> {
        Param::Text(&self.0)
    }
}

impl FromValue for CommitHash {
    fn from_value(value: Value) -> Result<Self> {
        String::from_value(value).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_a_hash_or_its_beginning() {
        for good in ["0f3c", "0f3c9a1", &"a".repeat(40), &"9".repeat(64)] {
            assert_eq!(CommitHash::new(good).unwrap().0, good);
        }
        assert_eq!(CommitHash::new("ABCDEF0").unwrap().0, "abcdef0");
        for bad in ["", "0f3", "main", "0f3c9a1g", "0f3c 9a1", &"a".repeat(65)] {
            assert!(CommitHash::new(bad).is_err(), "{bad}");
        }
    }
}
