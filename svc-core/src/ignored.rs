//! Ignored attributes of external documents, each logged once per process.
//!
//! A name is external input, so it is cut, and the number of logged names is limited. Values are never
//! logged, not even in the path of an attribute, such as `emails[value eq "ada@corp.example"]`.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::sync::lock;

/// Maximum attributes that are logged. Further attributes are ignored silently.
const LOGGED_MAX: usize = 200;
/// Maximum characters of a logged name.
const NAME_MAX_CHARS: usize = 60;

/// The attributes that have been logged, each with its document type.
struct LoggedAttributes(Mutex<BTreeSet<(&'static str, String)>>);

/// Whether to log that an attribute is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogStatus {
    /// The attribute was logged before, or the maximum number of attributes was logged.
    NotLogged,
    /// The attribute is logged for the first time.
    First,
    /// The attribute is the last one to be logged.
    Last,
}

impl LoggedAttributes {
    const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    fn register(&self, document: &'static str, attribute: &str) -> LogStatus {
        let mut logged = lock(&self.0);
        if logged.len() >= LOGGED_MAX || !logged.insert((document, attribute.to_lowercase())) {
            LogStatus::NotLogged
        } else if logged.len() == LOGGED_MAX {
            LogStatus::Last
        } else {
            LogStatus::First
        }
    }
}

static LOGGED: LoggedAttributes = LoggedAttributes::new();

/// Returns the path of an attribute without any values, for the log.
fn path_without_values(path: &str) -> String {
    let begins_a_value = |c: char| matches!(c, '[' | '(' | '"' | '=') || c.is_whitespace();
    path.chars().take_while(|c| !begins_a_value(*c)).take(NAME_MAX_CHARS).collect()
}

/// Logs, once per process, that an attribute of a document type is ignored.
pub fn note(document: &'static str, attribute: &str, why: &'static str) {
    let name = path_without_values(attribute);
    let seen = LOGGED.register(document, &name);
    if seen != LogStatus::NotLogged {
        tracing::info!(document, attribute = ?name, why, "an attribute is ignored");
    }
    if seen == LogStatus::Last {
        tracing::info!("{LOGGED_MAX} attributes were ignored: no other is logged");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_logged_once_and_only_so_many_are() {
        let logged = LoggedAttributes::new();
        assert_eq!(logged.register("a user", "title"), LogStatus::First);
        assert_eq!(logged.register("a user", "TITLE"), LogStatus::NotLogged);
        assert_eq!(logged.register("a group", "title"), LogStatus::First);
        let long = "x".repeat(NAME_MAX_CHARS);
        assert_eq!(logged.register("a user", &path_without_values(&format!("{long}1"))), LogStatus::First);
        assert_eq!(
            logged.register("a user", &path_without_values(&format!("{long}2"))),
            LogStatus::NotLogged,
            "no more of it is kept"
        );
        let seen: Vec<LogStatus> = (0..300).map(|n| logged.register("a user", &format!("n{n}"))).collect();
        assert_eq!(seen.iter().filter(|seen| **seen == LogStatus::First).count(), LOGGED_MAX - 4);
        assert_eq!(seen.iter().filter(|seen| **seen == LogStatus::Last).count(), 1);
        assert_eq!(lock(&logged.0).len(), LOGGED_MAX);
    }

    #[test]
    fn no_value_in_a_path_is_logged() {
        for (path, name) in [
            ("urn:x:2.0:User:manager.value", "urn:x:2.0:User:manager.value"),
            ("$ref", "$ref"),
            ("emails[type eq \"work\" and value eq \"ada@corp.example\"].value", "emails"),
            ("emails.value eq \"ada@corp.example\"", "emails.value"),
            ("\"ada@corp.example\"", ""),
        ] {
            assert_eq!(path_without_values(path), name);
        }
    }
}
