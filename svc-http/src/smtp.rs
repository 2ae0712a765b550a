//! Replies by which mail servers reject a command, as lettre hands them over.
//!
//! lettre joins the lines of a reply by spaces. It reads neither a code without a space behind it nor a text
//! that is not UTF-8; the server could have meant anything by such a reply, so its mail is tried again.

use std::error::Error as _;
use std::fmt;

use lettre::transport::smtp::Error as SmtpError;

/// A reply that rejects a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Its code, from 400 to 599.
    pub code: u16,
    text: String,
}

/// An enhanced status code (RFC 3463): its class, subject and detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub u16, pub u16, pub u16);

impl Reply {
    /// Returns the reply that an error is about, if it is about one.
    pub fn of(error: &SmtpError) -> Option<Self> {
        let code = error.status()?.into();
        Some(Self { code, text: error.source().map(ToString::to_string).unwrap_or_default() })
    }

    /// Returns its enhanced status code, if it has one.
    pub fn status(&self) -> Option<Status> {
        Status::find(&self.text)
    }

    /// Returns it as one line of no more characters than `max`.
    pub fn text(&self, max: usize) -> String {
        let text = format!("{} {}", self.code, self.text);
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(max).collect::<String>().trim().into()
    }
}

impl Status {
    /// Finds it among the words of a reply. It begins each line (RFC 2034), or is behind a `#` as of qmail.
    fn find(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| Self::at_start(word.trim_start_matches(['(', '#'])))
    }

    fn at_start(text: &str) -> Option<Self> {
        let (class, rest) = number(text)?;
        let (subject, rest) = number(rest.strip_prefix('.')?)?;
        let (detail, rest) = number(rest.strip_prefix('.')?)?;
        // One more number makes it an IP address.
        let is_longer =
            rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        (matches!(class, 2 | 4 | 5) && !is_longer).then_some(Self(class, subject, detail))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Reads a number of up to three digits, and returns what follows it.
fn number(text: &str) -> Option<(u16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if digits.len() > 3 { None } else { Some((digits.parse().ok()?, rest)) }
}

#[cfg(test)]
pub(crate) use tests::errors;

#[cfg(test)]
mod tests {
    use lettre::transport::smtp::client::AsyncSmtpConnection;
    use lettre::transport::smtp::commands::Noop;
    use lettre::transport::smtp::extension::ClientId;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    /// Returns what lettre makes of these replies to a command.
    pub(crate) fn errors(replies: &[&[u8]]) -> Vec<SmtpError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let greeting = [&b"220 here\r\n"[..], b"250 here\r\n"];
            let all: Vec<Vec<u8>> = greeting.iter().chain(replies).map(|reply| reply.to_vec()).collect();
            tokio::spawn(async move {
                let mut stream = BufReader::new(listener.accept().await.unwrap().0);
                for reply in all {
                    stream.write_all(&reply).await.unwrap();
                    stream.read_line(&mut String::new()).await.unwrap();
                }
            });
            let hello = ClientId::default();
            let connected = AsyncSmtpConnection::connect_tokio1(at, None, &hello, None, None);
            let mut connection = connected.await.unwrap();
            let mut errors = Vec::new();
            for _ in replies {
                errors.push(connection.command(Noop).await.unwrap_err());
            }
            errors
        })
    }

    #[test]
    fn a_reply_is_taken_from_the_error_that_it_became() {
        let cases: &[(&[u8], Option<&str>)] = &[
            (b"550 no such user\r\n", Some("550 no such user")),
            (b"550-5.1.1 no\r\n550 5.1.1 such user\r\n", Some("550 5.1.1 no such user")),
            (b"550-no\r\n550-\r\n550 5.1.1 user\r\n", Some("550 no  5.1.1 user")),
            (b"451 \r\n", Some("451")),
            ("550 \u{e9}l\u{e8}ve\u{7}\r\n".as_bytes(), Some("550 \u{e9}l\u{e8}ve")),
            (b"550\r\n", None),
            (b"550no such user\r\n", None),
            (b"550-no\r\n551 such user\r\n", None),
            (b"650 what\r\n", None),
            (b"550 \xe9l\xe8ve inconnu\r\n", None),
        ];
        let errors = errors(&cases.iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>());
        for ((bytes, wanted), error) in cases.iter().zip(errors) {
            let text = Reply::of(&error).map(|reply| reply.text(300));
            assert_eq!(text.as_deref(), *wanted, "{bytes:?}: {error}");
        }
        assert_eq!(Reply { code: 550, text: "no such user".to_owned() }.text(10), "550 no suc");
    }

    #[test]
    fn an_enhanced_status_code_is_found_where_servers_write_it() {
        for (text, wanted) in [
            ("5.1.1 no such user", Some(Status(5, 1, 1))),
            ("5.1.1", Some(Status(5, 1, 1))),
            ("  5.1.10 null MX", Some(Status(5, 1, 10))),
            ("5.1.1<ada@example.com>: unknown", Some(Status(5, 1, 1))),
            ("5.1.1User unknown", Some(Status(5, 1, 1))),
            ("5.7.1: rejected.", Some(Status(5, 7, 1))),
            ("5.7.1. Rejected", Some(Status(5, 7, 1))),
            ("5.7.1 rejected 5.1.1 see 4.2.2", Some(Status(5, 7, 1))),
            ("the account does not exist 5.1.1 please check", Some(Status(5, 1, 1))),
            ("#5.1.0 Address rejected.", Some(Status(5, 1, 0))),
            ("sorry, no mailbox here by that name (#5.1.1)", Some(Status(5, 1, 1))),
            ("4.2.2 full", Some(Status(4, 2, 2))),
            ("5.7.606 Access denied", Some(Status(5, 7, 606))),
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
            assert_eq!(Status::find(text), wanted, "{text:?}");
        }
    }
}
