//! The name of a repository: `owner/name`, or what follows from a clone URL.
//!
//! Credentials in a URL are dropped, so they are never stored. Two names are the same repository if they
//! differ only in case; the host does not count.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::Result;
use crate::limits::REPO_MAX;
use crate::store::{FromValue, Param, ToParam, Value};

/// A repository, as `owner/name`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Repo(String);

/// The lower-case form of a repository's name, by which repositories are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RepoKey(String);

/// The schemes of a clone URL.
const SCHEMES: [&str; 4] = ["https://", "ssh://", "http://", "git://"];

impl Repo {
    /// Reads `owner/name` or a clone URL: `https://host/owner/name.git`, `ssh://git@host/owner/name`,
    /// `git@host:owner/name`.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > REPO_MAX {
            return Err(format!("expected at most {REPO_MAX} characters, found {}", text.len()));
        }
        let name = parse(text).ok_or("expected a repository as owner/name or as a clone URL")?;
        Ok(Self(name))
    }

    pub fn key(&self) -> RepoKey {
        RepoKey(self.0.to_ascii_lowercase())
    }
}

fn parse(text: &str) -> Option<String> {
    let path = match SCHEMES.iter().find_map(|scheme| without_prefix(text, scheme)) {
        Some(rest) => {
            let (authority, path) = rest.split_once('/')?;
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            let (host, port) = host.split_once(':').unwrap_or((host, "0"));
            (is_host(host) && port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty()).then_some(path)?
        }
        None => match text.split_once(':') {
            Some((host, path)) => {
                let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
                is_host(host).then_some(path)?
            }
            None => text,
        },
    };
    let path = path.strip_suffix('/').unwrap_or(path);
    let (owner, name) = path.split_once('/')?;
    let name = without_suffix(name);
    (is_name(owner) && is_name(name)).then(|| format!("{owner}/{name}"))
}

/// Returns a URL without a scheme, which may be in any case (RFC 3986, 3.1).
fn without_prefix<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Returns a name without `.git` at its end, in any case, so that what was read is read as the same again.
///
/// A repository may be called `.git`.
fn without_suffix(mut name: &str) -> &str {
    const SUFFIX: &str = ".git";
    while let Some((shorter, end)) =
        name.len().checked_sub(SUFFIX.len()).and_then(|at| name.split_at_checked(at))
        && end.eq_ignore_ascii_case(SUFFIX)
        && is_name(shorter)
    {
        name = shorter;
    }
    name
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
}

fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    name.bytes().all(allowed) && name.bytes().any(|b| b != b'.')
}

/// What [`parse`] accepts, as an ECMA-262 regular expression.
const PATTERN: &str = concat!(
    r"^(?:(?:https?|ssh|git)://(?:[^/\s@]*@)?[A-Za-z0-9.-]+(?::[0-9]+)?/|(?:[^/\s@:]+@)?[A-Za-z0-9.-]+:)?",
    r"[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*/[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*/?$"
);

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
        json_schema!({"type": "string", "minLength": 3, "maxLength": REPO_MAX, "pattern": PATTERN})
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clone_url_names_its_repository_and_no_credential() {
        for text in [
            "Acme/App",
            "https://host.example/Acme/App",
            "https://host.example:8443/Acme/App.git",
            "https://host.example/Acme/App.git.git",
            "https://someone:secret@host.example/Acme/App.git/",
            "http://host/Acme/App",
            "ssh://git@host.example:22/Acme/App.git",
            "git://host/Acme/App.git",
            "git@host.example:Acme/App.git",
            "host.example:Acme/App",
            "HTTPS://host.example/Acme/App.GIT",
            "Acme/App.git.Git",
        ] {
            let repo = Repo::new(text).unwrap();
            assert_eq!(&*repo, "Acme/App", "{text}");
            assert_eq!(repo.key(), Repo::new("acme/app").unwrap().key());
        }
        assert_eq!(&*Repo::new(".github/a.b-c_d").unwrap(), ".github/a.b-c_d");
    }

    #[test]
    fn what_names_no_repository_is_rejected() {
        for text in [
            "",
            "/",
            "app",
            "acme/",
            "/app",
            "acme/app/x",
            "acme/..",
            "./app",
            "acme app/x",
            "https://host/app",
            "https://host/a/b/c",
            "https:///acme/app",
            "https://ho st/acme/app",
            "https://host:/acme/app",
            "https://host:p/acme/app",
            "ftp://host/acme/app",
            "git@:acme/app",
            "file:///acme/app",
            "acme/app?x=1",
            "acme/app#x",
            "acme/\u{e4}pp",
            "acme/app\n",
            "C:\\acme\\app",
        ] {
            assert!(Repo::new(text).is_err(), "{text:?}");
        }
        assert!(Repo::new(&format!("a/{}", "b".repeat(REPO_MAX))).is_err());
    }

    /// What URLs consist of, and what does not belong into one.
    fn hostile() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            prop::sample::select(vec![
                "https://",
                "ssh://",
                "git@",
                "host",
                ":",
                "/",
                "//",
                "@",
                "acme",
                "app",
                ".git",
                "..",
                ".",
                "%2f",
                "%00",
                "?q=1",
                "#f",
                "\\",
                " ",
                "\n",
                "\0",
                "\u{202e}",
                "\u{e4}",
                "22",
                "user:secret@",
                "file://",
                "-",
                "_",
                "[::1]",
                "\u{ff0f}",
                "'",
                "\"",
            ])
            .prop_map(str::to_owned),
            "[a-zA-Z0-9._-]{1,4}",
            any::<char>().prop_map(|c| c.to_string()),
        ];
        let nearly = (
            prop::sample::select(vec!["", "https://u@host/", "ssh://host:22/", "git@host:", "host:", "/"]),
            "[a-zA-Z0-9._-]{1,4}/[a-zA-Z0-9._-]{0,4}([.]git){0,3}",
            prop::sample::select(vec!["", "/", "//", "\0", "?q"]),
        );
        prop_oneof![
            prop::collection::vec(part, 0..9).prop_map(|parts| parts.concat()),
            nearly.prop_map(|(before, name, after)| format!("{before}{name}{after}")),
        ]
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_an_owner_and_a_name(text in hostile()) {
            if let Ok(repo) = Repo::new(&text) {
                let (owner, name) = repo.split_once('/').unwrap();
                for part in [owner, name] {
                    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                    prop_assert!(part.chars().all(is_plain), "{repo:?}");
                    prop_assert!(part.chars().any(|c| c != '.'), "{repo:?}");
                }
                prop_assert!(text.contains(&*repo), "{repo:?} is not in {text:?}");
                prop_assert_eq!(&Repo::new(&repo).unwrap(), &repo, "read again");
            }
        }

        #[test]
        fn every_form_of_a_url_is_the_same_repository(
            owner in "[A-Za-z0-9_-][A-Za-z0-9._-]{0,8}",
            name in "[A-Za-z0-9_-]{1,9}",
            user in "[a-z]{1,5}(:[a-zA-Z0-9:@%]{0,9})?",
            port in 1..65536_u32,
        ) {
            let wanted = Repo::new(&format!("{owner}/{name}")).unwrap();
            for prefix in [
                format!("https://{user}@git.example:{port}/"),
                "https://git.example/".to_owned(),
                format!("ssh://{user}@git.example:{port}/"),
                "git@git.example:".to_owned(),
                String::new(),
            ] {
                for suffix in ["", "/", ".git", ".git/"] {
                    let text = format!("{prefix}{owner}/{name}{suffix}");
                    prop_assert_eq!(&Repo::new(&text).unwrap(), &wanted, "{}", text);
                }
            }
            let shouted = Repo::new(&wanted.to_uppercase()).unwrap();
            prop_assert_eq!(shouted.key(), wanted.key());
        }
    }
}
