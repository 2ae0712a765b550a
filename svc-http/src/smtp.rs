//! Parses the replies in which mail servers reject SMTP commands.
//!
//! The lines of a reply are joined by spaces. A reply without an enhanced status code is judged by its reply
//! code and the rejected command.

use std::error::Error as _;
use std::{fmt, io};

use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::response::Response;

/// Reason why an SMTP command failed.
#[derive(Debug)]
pub(crate) enum SmtpFailure {
    /// The server rejected the command with this reply.
    Rejected(RejectionReply),
    /// The server's reply could not be parsed.
    InvalidReply,
    /// The connection failed for this reason.
    ConnectionFailed(String),
}

/// A server's reply that rejects a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RejectionReply {
    /// Reply code, from 400 to 599.
    pub code: u16,
    text: String,
}

/// An enhanced status code (RFC 3463): its class, subject and detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnhancedStatus(pub u16, pub u16, pub u16);

impl From<SmtpError> for SmtpFailure {
    fn from(error: SmtpError) -> Self {
        match RejectionReply::from_error(&error) {
            Some(reply) => Self::Rejected(reply),
            // The message of the error is not kept, since it repeats the server's text, which may contain the
            // receiver's address.
            None if error.is_response() => Self::InvalidReply,
            None => Self::ConnectionFailed(error.to_string()),
        }
    }
}

impl From<io::Error> for SmtpFailure {
    fn from(error: io::Error) -> Self {
        Self::ConnectionFailed(error.to_string())
    }
}

impl From<Response> for RejectionReply {
    fn from(response: Response) -> Self {
        let lines: Vec<&str> = response.message().collect();
        Self { code: response.code().into(), text: lines.join(" ") }
    }
}

impl RejectionReply {
    /// Returns the server's reply that an error contains, or `None` if the error contains no reply.
    fn from_error(error: &SmtpError) -> Option<Self> {
        let code = error.status()?.into();
        Some(Self { code, text: error.source().map(ToString::to_string).unwrap_or_default() })
    }

    /// Returns the enhanced status code in the text of the reply, or `None` if the text contains none.
    pub fn status(&self) -> Option<EnhancedStatus> {
        EnhancedStatus::find_in(&self.text)
    }

    /// Returns the reply as one line of up to `max` characters.
    pub fn text(&self, max: usize) -> String {
        let text = format!("{} {}", self.code, self.text);
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(max).collect::<String>().trim().into()
    }
}

impl EnhancedStatus {
    /// Returns the first enhanced status code in the text of a reply. The code begins each line (RFC 2034),
    /// or follows a `#`, as with qmail.
    fn find_in(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| Self::parse_at_start(word.trim_start_matches(['(', '#'])))
    }

    fn parse_at_start(text: &str) -> Option<Self> {
        let (class, rest) = split_number(text)?;
        let (subject, rest) = split_number(rest.strip_prefix('.')?)?;
        let (detail, rest) = split_number(rest.strip_prefix('.')?)?;
        // Four numbers are an IP address.
        let is_longer =
            rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        (matches!(class, 2 | 4 | 5) && !is_longer).then_some(Self(class, subject, detail))
    }
}

impl fmt::Display for EnhancedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Parses a number of up to three digits, and returns it with the text after it.
fn split_number(text: &str) -> Option<(u16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if digits.len() > 3 { None } else { Some((digits.parse().ok()?, rest)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_shown_as_one_line_of_bounded_length() {
        let reply = |text: &str| RejectionReply { code: 550, text: text.to_owned() };
        assert_eq!(reply("no such user").text(10), "550 no suc");
        assert_eq!(reply("no\u{7}such\nuser\u{7f}").text(300), "550 no such user");
        assert_eq!(reply("").text(300), "550");
    }

    #[test]
    fn an_enhanced_status_code_is_found_where_servers_write_it() {
        for (text, wanted) in [
            ("5.1.1 no such user", Some(EnhancedStatus(5, 1, 1))),
            ("5.1.1", Some(EnhancedStatus(5, 1, 1))),
            ("  5.1.10 null MX", Some(EnhancedStatus(5, 1, 10))),
            ("5.1.1<ada@example.com>: unknown", Some(EnhancedStatus(5, 1, 1))),
            ("5.1.1User unknown", Some(EnhancedStatus(5, 1, 1))),
            ("5.7.1: rejected.", Some(EnhancedStatus(5, 7, 1))),
            ("5.7.1. Rejected", Some(EnhancedStatus(5, 7, 1))),
            ("5.7.1 rejected 5.1.1 see 4.2.2", Some(EnhancedStatus(5, 7, 1))),
            ("the account does not exist 5.1.1 please check", Some(EnhancedStatus(5, 1, 1))),
            ("#5.1.0 Address rejected.", Some(EnhancedStatus(5, 1, 0))),
            ("sorry, no mailbox here by that name (#5.1.1)", Some(EnhancedStatus(5, 1, 1))),
            ("4.2.2 full", Some(EnhancedStatus(4, 2, 2))),
            ("5.7.606 Access denied", Some(EnhancedStatus(5, 7, 606))),
            ("5.1.1.7 is blocked", None),
            ("192.0.2.1 is blocked", None),
            ("[5.1.1.7] is blocked", None),
            ("see https://example.com/5.1.1", None),
            ("v5.1.1 refused", None),
            ("5.1 refused", None),
            ("5..1 refused", None),
            ("5.1.x refused", None),
            ("3.1.1 refused", None),
            ("6.1.1 refused", None),
            ("5.1.1000 refused", None),
            ("#12 rejected", None),
            ("\u{665}.1.1 refused", None),
            ("", None),
        ] {
            assert_eq!(EnhancedStatus::find_in(text), wanted, "{text:?}");
        }
    }
}
