//! User names that a directory service sets, and the handles by which members are found.
//!
//! A user name is less restricted than a handle that a member chooses: 1 to 254 characters of the PRECIS
//! profile UsernameCaseMapped (RFC 8265). It may be an email address or contain letters of any script, but no
//! spaces or control characters. Letters are mapped to lower case, so two names that differ only in case are
//! the same name. The names of apps, removed people and members of other services are reserved: names with
//! one of three prefixes, and names with a suffix such as `@peer`, which is not an email address.

use std::borrow::Cow;
use std::ops::Deref;

use precis_profiles::UsernameCaseMapped;
use precis_profiles::precis_core::profile::PrecisFastInvocation;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::limits::USER_NAME_MAX;
use crate::store::{Param, ToParam};
use crate::text::check_handle_not_reserved;

/// User name of a person, as a directory service sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct UserName(String);

impl UserName {
    /// Creates a user name from `text`, mapped to lower case. Fails if the name is invalid or reserved.
    pub fn new(text: &str) -> Result<Self, String> {
        let AnyHandle(name) = AnyHandle::new(text)?;
        check_handle_not_reserved(&name)?;
        if has_reserved_suffix(&name) {
            return Err("names that end with @ and a word without a dot are reserved".to_owned());
        }
        Ok(Self(name))
    }
}

/// Handle of any member, as a parameter for finding the member.
///
/// The handle may be one that a person chose, an email address or another name from a directory service, or a
/// handle that the server created, such as `app:triage`. The handle is mapped to lower case, like stored
/// handles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct AnyHandle(String);

crate::argument::text_arguments! { AnyHandle }

impl AnyHandle {
    /// Creates a handle from `text`, mapped to lower case. Fails if the text cannot be a handle.
    pub fn new(text: &str) -> Result<Self, String> {
        let expected = || {
            format!("expected 1 to {USER_NAME_MAX} characters without spaces, as of RFC 8265's user names")
        };
        // Case mapping takes time for each character, so a text that is certainly too long is rejected first.
        if text.len() > USER_NAME_MAX.saturating_mul(8) {
            return Err(expected());
        }
        let name = normalise_user_name(text).ok_or_else(expected)?;
        if name.chars().count() > USER_NAME_MAX { Err(expected()) } else { Ok(Self(name)) }
    }
}

/// Returns the name mapped to lower case, or `None` if the name is invalid. Stored names are mapped in the
/// same way.
pub(crate) fn normalise_user_name(text: &str) -> Option<String> {
    UsernameCaseMapped::enforce(text).ok().map(Cow::into_owned).filter(|name| !name.is_empty())
}

/// Returns whether a name ends with `@` and a word without a dot, like the names of other services' members.
fn has_reserved_suffix(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.rsplit_once('@').is_some_and(|(_, end)| !end.is_empty() && end.chars().all(plain))
}

macro_rules! impl_name_text {
    ($type:ident) => {
        impl Deref for $type {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "minLength": 1, "maxLength": USER_NAME_MAX})
            }
        }
    };
}

impl_name_text!(UserName);
impl_name_text!(AnyHandle);

impl ToParam for AnyHandle {
    fn param(&self) -> Param<'_> {
        Param::Text(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_email_or_anything_of_the_profile_in_lower_case() {
        for (sent, name) in [
            ("Ada@Corp.Example", Some("ada@corp.example")),
            ("ada", Some("ada")),
            ("O'Neil+x@corp.example", Some("o'neil+x@corp.example")),
            ("ÄDA", Some("äda")),
            ("ａｄａ", Some("ada")),
            ("日本", Some("日本")),
            ("", None),
            ("ada lovelace", None),
            ("ada\u{0}", None),
            ("ada\u{202e}", None),
            ("app:triage", None),
            ("Deleted:1", None),
            ("peer:x", None),
            ("ada@peer-1", None),
        ] {
            assert_eq!(UserName::new(sent).ok().as_deref(), name, "{sent:?}");
        }
        for (sent, handle) in [
            ("Worker", Some("worker")),
            ("Ada@Corp.Example", Some("ada@corp.example")),
            ("ÄDA@corp.example", Some("äda@corp.example")),
            ("App:Triage", Some("app:triage")),
            ("ada@peer-1", Some("ada@peer-1")),
            ("ada lovelace", None),
            ("", None),
        ] {
            assert_eq!(AnyHandle::new(sent).ok().as_deref(), handle, "{sent:?}");
        }
        assert!(UserName::new(&"a".repeat(USER_NAME_MAX)).is_ok());
        assert!(UserName::new(&"a".repeat(USER_NAME_MAX + 1)).is_err());
        assert!(UserName::new(&"a".repeat(1_000_000)).is_err());
    }
}
