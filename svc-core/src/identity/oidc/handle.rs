//! Handles for people who join by signing in: the verified email address, or a handle made from the person's
//! name.
//!
//! An address becomes the handle in lower case, so that it equals the handle of a member whom a directory
//! service has created with the same address. An address does not become a new handle if it contains
//! non-ASCII characters or quotes, or if its host name has no dot. However, a directory service may have
//! created a person with such an address.

use crate::identity::members::UserName;
use crate::limits::{EMAIL_MAX, USER_NAME_MAX};

/// Maximum characters of a handle that is made from a person's name.
const NAME_HANDLE_MAX: usize = 40;
/// Handle of a person whose name contains no usable characters.
const FALLBACK_HANDLE: &str = "person";

/// Returns an email address as a handle, or `None` if the address cannot become a new handle.
pub(super) fn from_email(email: &str) -> Option<String> {
    let email = email.to_ascii_lowercase();
    let (local, domain) = email.split_once('@')?;
    let in_local = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+/=?^_`{|}~-.".contains(c);
    let is_label = |label: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !label.is_empty() && label.chars().all(plain)
    };
    let fits = email.len() <= EMAIL_MAX
        && !local.is_empty()
        && local.chars().all(in_local)
        && domain.split('.').all(is_label)
        && domain.rsplit_once('.').is_some_and(|(_, top)| is_top_level_domain(top));
    fits.then_some(email)
}

/// Returns the handle that a directory service would have set for the owner of this email address.
///
/// Returns `None` if the address is not a valid user name.
pub(super) fn directory_handle(email: &str) -> Option<String> {
    let (local, domain) = email.rsplit_once('@')?;
    let name = UserName::new(email).ok()?;
    (!local.is_empty() && !domain.is_empty()).then(|| name.to_string())
}

/// Returns whether a top-level domain can consist of this label (RFC 3696, section 2).
fn is_top_level_domain(label: &str) -> bool {
    label.starts_with("xn--") || label.chars().all(|c| c.is_ascii_lowercase())
}

/// Returns a handle made from the ASCII letters and digits of a person's name.
pub(super) fn from_name(name: Option<&str>) -> String {
    let mut handle = String::new();
    for c in name.unwrap_or_default().to_ascii_lowercase().chars() {
        if handle.len() >= NAME_HANDLE_MAX {
            break;
        }
        if c.is_ascii_alphanumeric() {
            handle.push(c);
        } else if !handle.is_empty() && !handle.ends_with('-') {
            handle.push('-');
        }
    }
    let handle = handle.trim_end_matches('-');
    if handle.is_empty() { FALLBACK_HANDLE.to_owned() } else { handle.to_owned() }
}

/// Returns a handle with a number appended, for use when the handle itself is not free.
///
/// The result is never an email address, because no top-level domain ends with a number.
pub(super) fn with_number(handle: &str, number: u32) -> String {
    let end = format!("-{number}");
    let room = USER_NAME_MAX.saturating_sub(end.len());
    handle.chars().take(room).chain(end.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_email_is_a_handle_if_it_is_plain() {
        for (email, handle) in [
            ("ada@corp.example", Some("ada@corp.example")),
            ("Ada.L+x@Corp.Example", Some("ada.l+x@corp.example")),
            ("ada", None),
            ("ada@corp", None),
            ("@corp.example", None),
            ("ada@", None),
            ("ada@.example", None),
            ("ada@corp..example", None),
            ("ada@corp.example@evil.example", None),
            ("\"ada b\"@corp.example", None),
            ("app:x@corp.example", None),
            ("ädä@corp.example", None),
            ("ada\u{0}@corp.example", None),
            ("ada @corp.example", None),
        ] {
            assert_eq!(from_email(email).as_deref(), handle, "{email:?}");
        }
        assert!(from_email(&format!("{}@corp.example", "a".repeat(EMAIL_MAX))).is_none());
    }

    #[test]
    fn a_directory_keeps_emails_of_any_script() {
        for (email, handle) in [
            ("Ada@Corp.Example", Some("ada@corp.example")),
            ("Ädä@Corp.Example", Some("ädä@corp.example")),
            ("日本@例え.jp", Some("日本@例え.jp")),
            ("ada", None),
            ("@corp.example", None),
            ("ada@", None),
            ("ada@corp", None),
            ("app:x@corp.example", None),
            ("ada b@corp.example", None),
        ] {
            assert_eq!(directory_handle(email).as_deref(), handle, "{email:?}");
        }
    }

    #[test]
    fn a_name_is_made_plain() {
        for (name, handle) in [
            (Some("Ada Lovelace"), "ada-lovelace"),
            (Some("  O'Neil, J. "), "o-neil-j"),
            (Some("日本"), "person"),
            (None, "person"),
        ] {
            assert_eq!(from_name(name), handle, "{name:?}");
        }
        assert_eq!(from_name(Some(&"a".repeat(100))).len(), NAME_HANDLE_MAX);
        assert_eq!(with_number("ada@corp.example", 2), "ada@corp.example-2");
        assert_eq!(from_email(&with_number("ada@corp.example", 2)), None);
        assert_eq!(with_number(&"a".repeat(USER_NAME_MAX), 20).len(), USER_NAME_MAX);
    }
}
