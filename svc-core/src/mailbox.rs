//! Mailboxes: email addresses, alone or with a name, and the addresses that members may set.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::Result;

/// Maximum bytes of an email address.
const MAIL_ADDRESS_MAX: usize = 254;

/// An email address in ASCII, without quotes and comments.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MailAddress(String);

impl MailAddress {
    /// Parses an email address. Returns `None` if the text is not a valid address.
    pub fn parse(text: &str) -> Option<Self> {
        let (local, domain) = text.rsplit_once('@')?;
        let is_local = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+/=?^_`{|}~-".contains(c);
        let atoms = |text: &str, is_part: &dyn Fn(char) -> bool| {
            text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_part))
        };
        let is_label = |label: &str| label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-');
        let fits = text.len() <= MAIL_ADDRESS_MAX
            && atoms(local, &is_local)
            && atoms(domain, &|c| c.is_ascii_alphanumeric() || c == '-')
            && domain.split('.').all(is_label);
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns the address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the domain of the address, after the `@`.
    pub fn domain(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

/// Hides the address, because it identifies a person outside of the service.
impl fmt::Debug for MailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MailAddress")
    }
}

impl<'de> Deserialize<'de> for MailAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| de::Error::custom("expected an address such as ada@example.com, in ASCII"))
    }
}

/// Regular expression (ECMA-262) for an address up to the last label of its domain.
macro_rules! pattern {
    ($rest:literal) => {
        concat!("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@", $rest)
    };
}

/// Regular expression (ECMA-262) for the addresses that [`MailAddress::parse`] accepts.
const PATTERN: &str =
    pattern!("[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$");

/// Regular expression (ECMA-262) for the addresses that [`DeliveryAddress::parse`] accepts.
const DELIVERY_PATTERN: &str =
    pattern!("([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$");

impl JsonSchema for MailAddress {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "MailAddress".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "maxLength": MAIL_ADDRESS_MAX,
            "pattern": PATTERN,
        })
    }
}

/// An email address that a member may set. Its domain has a dot, and its last label begins with a letter, as
/// top-level domains do.
///
/// So members cannot direct email to a host in the operator's network by its short name, or to any host by
/// its IP address.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct DeliveryAddress(MailAddress);

impl DeliveryAddress {
    /// Parses an email address to which the service may send mail.
    pub fn parse(text: &str) -> Option<Self> {
        let address = MailAddress::parse(text)?;
        let (_, last) = address.domain().rsplit_once('.')?;
        last.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(Self(address))
    }

    /// Returns the address as a [`MailAddress`].
    pub fn address(&self) -> &MailAddress {
        &self.0
    }
}

impl<'de> Deserialize<'de> for DeliveryAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(
                "expected an address such as ada@example.com, in ASCII, whose domain has a dot and does not \
                 end with a number",
            )
        })
    }
}

impl JsonSchema for DeliveryAddress {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "DeliveryAddress".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": MAIL_ADDRESS_MAX, "pattern": DELIVERY_PATTERN})
    }
}

/// An email address, and the name that is shown beside the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    /// The display name, if the mailbox has one.
    pub name: Option<String>,
    /// The email address.
    pub address: MailAddress,
}

impl Mailbox {
    /// Parses a mailbox such as `ada@example.com` or `Ada <ada@example.com>`.
    pub fn parse(text: &str) -> Option<Self> {
        let Some((name, rest)) = text.split_once('<') else {
            return Some(Self { name: None, address: MailAddress::parse(text.trim())? });
        };
        let name = name.trim().trim_matches('"').to_owned();
        let is_plain = !name.chars().any(|c| c.is_control() || matches!(c, '<' | '>' | '"' | '\\'));
        let address = MailAddress::parse(rest.trim_end().strip_suffix('>')?)?;
        is_plain.then_some(Self { name: Some(name).filter(|name| !name.is_empty()), address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain() {
        for good in ["ada@example.com", "a.b+c@x-y.example", "ada@localhost", "!#$%&'*+/=?^_`{|}~-@a.b"] {
            assert_eq!(MailAddress::parse(good).as_ref().map(MailAddress::as_str), Some(good));
        }
        let long = format!("{}@example.com", "a".repeat(250));
        for bad in [
            "",
            "ada",
            "@example.com",
            "ada@",
            "ada@@example.com",
            ".a@b.c",
            "a.@b.c",
            "a..b@c.d",
            "a@b..c",
            "a@-b.c",
            "a@b-.c",
            "a@b.c.",
            "ada lovelace@b.c",
            "ada@b.c\r\nRCPT TO:<x@y.z>",
            "<ada@b.c>",
            "\"a b\"@c.d",
            "a@[127.0.0.1]",
            "ad\u{e4}@b.c",
            "a@b\u{e4}.c",
            "a,b@c.d",
            "a@b.c,d@e.f",
            "a@b.c\0",
            &long,
        ] {
            assert!(MailAddress::parse(bad).is_none(), "{bad:?}");
        }
        assert_eq!(format!("{:?}", MailAddress::parse("ada@example.com")), "Some(MailAddress)");
    }

    #[test]
    fn a_delivery_address_has_a_domain_with_a_dot_that_is_no_ip_address() {
        for good in ["ada@example.com", "a@b.c", "a@1.b", "a@10.0.0.1.example", "a@b.xn--p1ai", "a@b.c-1"] {
            let parsed = DeliveryAddress::parse(good);
            assert_eq!(parsed.as_ref().map(|parsed| parsed.address().as_str()), Some(good));
        }
        for bad in [
            "a@b",
            "a@localhost",
            "postmaster@127.0.0.1",
            "a@127.1",
            "a@1.2",
            "a@2130706433",
            "a@0x7f.0x1",
            "a@b.0",
            "a@[127.0.0.1]",
            "a@[IPv6:::1]",
            "a@::1",
            "a@example.com.",
            "a@.com",
            "a@com.",
            "a@b..c",
            "ad\u{e4}@b.c",
        ] {
            assert!(DeliveryAddress::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_mailbox_is_an_address_with_or_without_a_name() {
        let parsed = |text: &str| {
            let found = Mailbox::parse(text)?;
            Some((found.name.unwrap_or_default(), found.address.as_str().to_owned()))
        };
        let found = |name: &str| Some((name.to_owned(), "a@b.c".to_owned()));
        assert_eq!(parsed(" a@b.c "), found(""));
        assert_eq!(parsed("<a@b.c>"), found(""));
        assert_eq!(parsed("Night shift <a@b.c>"), found("Night shift"));
        assert_eq!(parsed("\"Night shift\" <a@b.c> "), found("Night shift"));
        for bad in ["", "Night shift", "Night <a@b.c", "a\r\nBcc: x@y.z <a@b.c>", "a <b> <a@b.c>"] {
            assert_eq!(parsed(bad), None, "{bad:?}");
        }
    }
}
