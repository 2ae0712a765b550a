//! The name of a repository: `owner/name`, or the path of a clone URL.
//!
//! Credentials in a URL are dropped, so they are never stored. Two names denote the same repository if they
//! differ only in case; the host is ignored.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::clone_url::repository_path;
use super::names::fold_case;
use crate::Result;
use crate::limits::REPO_MAX;
use crate::store::{FromValue, Param, ToParam, Value};

/// Maximum characters of a name or clone URL to parse: a clone URL may contain a long token.
const REPO_URL_MAX: usize = 2_048;

/// The name of a repository, as `owner/name` or a longer path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Repo(String);

crate::argument::text_arguments! { Repo }

/// The key under which repositories are compared: the name without case differences.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoKey(String);

impl Repo {
    /// Parses `owner/name`, a longer path, or a clone URL in any form.
    ///
    /// An error never quotes the text, because the text may contain credentials.
    pub fn new(text: &str) -> Result<Self, String> {
        let length = text.chars().count();
        if length > REPO_URL_MAX {
            return Err(format!("expected at most {REPO_URL_MAX} characters, found {length}"));
        }
        let name = repository_path(text).ok_or(
            "expected a repository as owner/name, such as acme/app, or as a clone URL, such as \
             https://git.example/acme/app.git or git@git.example:acme/app.git",
        )?;
        match name.chars().count() {
            0..=REPO_MAX => Ok(Self(name)),
            length => Err(format!("expected a path of at most {REPO_MAX} characters, found {length}")),
        }
    }

    pub fn key(&self) -> RepoKey {
        RepoKey::of(&self.0)
    }
}

impl RepoKey {
    /// Returns the key of a repository's stored name.
    pub fn of(name: &str) -> Self {
        Self(fold_case(name))
    }
}

impl std::ops::Deref for Repo {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for RepoKey {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Repo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for Repo {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Repo".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A pattern cannot describe every form of a clone URL.
        json_schema!({"type": "string", "minLength": 2, "maxLength": REPO_URL_MAX})
    }
}

impl FromValue for Repo {
    fn from_value(value: Value) -> Result<Self> {
        String::from_value(value).map(Self)
    }
}

impl ToParam for Repo {
    fn param(&self) -> Param<'_> {
        Param::Text(&self.0)
    }
}

impl ToParam for RepoKey {
    fn param(&self) -> Param<'_> {
        Param::Text(&self.0)
    }
}

impl FromValue for RepoKey {
    fn from_value(value: Value) -> Result<Self> {
        String::from_value(value).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_compared_without_case() {
        for (one, other) in [
            ("Acme/App", "https://host.example/ACME/app.git"),
            (
                "https://dev.azure.com/org/Gr%C3%BCn/_git/app",
                "https://org.visualstudio.com/GRU%CC%88N/_git/APP",
            ),
            ("git@host:App.git", "/APP"),
        ] {
            assert_eq!(Repo::new(one).unwrap().key(), Repo::new(other).unwrap().key(), "{one} {other}");
        }
        assert_eq!(&*Repo::new("Acme/App").unwrap().key(), "acme/app");
        assert_ne!(Repo::new("acme/app").unwrap().key(), Repo::new("acme/apps").unwrap().key());
    }

    #[test]
    fn a_name_that_is_too_long_is_rejected_and_a_long_credential_is_not() {
        let name = |length: usize| format!("a/{}", "b".repeat(length));
        assert!(Repo::new(&name(REPO_MAX - 2)).is_ok());
        assert!(Repo::new(&name(REPO_MAX - 1)).is_err());
        let url = |length: usize| format!("https://ci:{}@host/acme/app", "x".repeat(length));
        assert!(Repo::new(&url(1_500)).is_ok());
        assert!(Repo::new(&url(REPO_URL_MAX)).is_err());
    }

    #[test]
    fn an_error_has_an_example_and_no_word_of_the_text() {
        for text in ["https://ada:hunter2@host", "ada:hunter2@", "hunter2", &"hunter2".repeat(1_000)] {
            let fault = Repo::new(text).unwrap_err();
            assert!(!fault.contains("hunter2"), "{fault}");
        }
        assert!(Repo::new("app").unwrap_err().contains("such as acme/app"));
    }
}
