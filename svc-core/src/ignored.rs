//! Attributes of documents of others that the service does not use: each is logged once in a process.
//!
//! A name is what somebody else has chosen, so it is cut, and so many are kept and no more. A value is never
//! logged.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::sync::lock;

/// Attributes that are logged; those after them are ignored without a word.
const LOGGED_MAX: usize = 200;
/// Characters of a name that are logged.
const NAME_MAX: usize = 60;

/// The attributes that were logged, each with the kind of its document.
struct Logged(Mutex<BTreeSet<(&'static str, String)>>);

/// What becomes of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Before,
    First,
    /// It is the last that is logged.
    Last,
}

impl Logged {
    const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    fn see(&self, document: &'static str, attribute: &str) -> Seen {
        let name = attribute.chars().take(NAME_MAX).collect::<String>().to_lowercase();
        let mut logged = lock(&self.0);
        if logged.len() >= LOGGED_MAX || !logged.insert((document, name)) {
            Seen::Before
        } else if logged.len() == LOGGED_MAX {
            Seen::Last
        } else {
            Seen::First
        }
    }
}

static LOGGED: Logged = Logged::new();

/// Logs that an attribute of a kind of documents is ignored, unless that was logged before.
pub fn note(document: &'static str, attribute: &str, why: &'static str) {
    let seen = LOGGED.see(document, attribute);
    if seen != Seen::Before {
        let name: String = attribute.chars().take(NAME_MAX).collect();
        tracing::info!(document, attribute = ?name, why, "an attribute is ignored");
    }
    if seen == Seen::Last {
        tracing::info!("{LOGGED_MAX} attributes were ignored: no other is logged");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_logged_once_and_only_so_many_are() {
        let logged = Logged::new();
        assert_eq!(logged.see("a user", "title"), Seen::First);
        assert_eq!(logged.see("a user", "TITLE"), Seen::Before);
        assert_eq!(logged.see("a group", "title"), Seen::First);
        let long = "x".repeat(NAME_MAX);
        assert_eq!(logged.see("a user", &format!("{long}1")), Seen::First);
        assert_eq!(logged.see("a user", &format!("{long}2")), Seen::Before, "no more of it is kept");
        let seen: Vec<Seen> = (0..300).map(|n| logged.see("a user", &format!("n{n}"))).collect();
        assert_eq!(seen.iter().filter(|seen| **seen == Seen::First).count(), LOGGED_MAX - 4);
        assert_eq!(seen.iter().filter(|seen| **seen == Seen::Last).count(), 1);
        assert_eq!(lock(&logged.0).len(), LOGGED_MAX);
    }
}
