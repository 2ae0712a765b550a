//! The kinds of results: names within a namespace, with a version.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::Result;
use crate::limits::RESULT_KIND_MAX;
use crate::store::{Param, ToParam};

/// The kind of a result: a name within a namespace, and a version, as in `svc.waiter.result/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResultKind(String);

crate::argument::text_arguments! { ResultKind }

impl ResultKind {
    fn new(text: String) -> Result<Self, String> {
        if text.len() <= RESULT_KIND_MAX && is_versioned_name(&text) {
            Ok(Self(text))
        } else {
            Err(format!("expected <namespace>.<name>/<n> of at most {RESULT_KIND_MAX} characters"))
        }
    }
}

/// Returns whether `text` consists of two or more names joined by dots, and a version from 1.
fn is_versioned_name(text: &str) -> bool {
    let Some((name, version)) = text.rsplit_once('/') else { return false };
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    let is_number = !version.starts_with('0') && version.chars().all(|c| c.is_ascii_digit());
    name.contains('.') && name.split('.').all(is_word) && is_number && !version.is_empty()
}

impl Deref for ResultKind {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ResultKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for ResultKind {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ResultKind".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": RESULT_KIND_MAX,
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*([.][A-Za-z0-9][A-Za-z0-9_-]*)+/[1-9][0-9]*$",
        })
    }
}

impl ToParam for ResultKind {
    fn param(&self) -> Param<'_> {
        Param::Text(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_namespaced_name_with_a_version() {
        for good in ["example.port/1", "svc.waiter.result/1", "A-b.c_d/20", "0.0/9"] {
            assert!(ResultKind::new(good.to_owned()).is_ok(), "{good}");
        }
        let long = format!("a.{}/1", "b".repeat(RESULT_KIND_MAX));
        for bad in ["", "port/1", "example.port", "example.port/", "example.port/0", "example.port/01"]
            .into_iter()
            .chain(["example.port/v1", "example..port/1", ".port/1", "example.port /1", "a.b/c.d/1", "é.b/1"])
            .chain(["example.-port/1", "example.port/1 ", &long])
        {
            assert!(ResultKind::new(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
