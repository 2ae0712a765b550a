//! Defines the revisions of the Model Context Protocol, and the features of each revision.

use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

/// Revision of the Model Context Protocol, ordered from the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// Revision of 2024-11-05, the only revision with sessions over HTTP.
    V20241105,
    /// Revision of 2025-03-26, the only revision with batches.
    V20250326,
    /// Revision of 2025-06-18, the first revision with structured tool results.
    V20250618,
    /// Revision of 2025-11-25, the newest revision with a handshake.
    V20251125,
    /// Revision of 2026-07-28, in which each request contains the revision.
    V20260728,
}

impl Revision {
    /// All revisions, newest first.
    pub const ALL: [Self; 5] =
        [Self::V20260728, Self::V20251125, Self::V20250618, Self::V20250326, Self::V20241105];

    /// The newest revision that has a handshake.
    pub const NEWEST_WITH_HANDSHAKE: Self = Self::V20251125;

    /// Revision of a request that contains no revision.
    pub const UNSTATED: Self = Self::V20250326;

    /// Returns the revision with this date, or `None` if the server does not support the revision.
    pub fn from_date(date: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.date() == date)
    }

    /// Returns the date of the revision, which is its name.
    pub fn date(self) -> &'static str {
        match self {
            Self::V20241105 => "2024-11-05",
            Self::V20250326 => "2025-03-26",
            Self::V20250618 => "2025-06-18",
            Self::V20251125 => "2025-11-25",
            Self::V20260728 => "2026-07-28",
        }
    }

    /// Returns the revision for a connection whose client requests `date` in `initialize`.
    pub fn negotiate(date: &str) -> Self {
        Self::from_date(date)
            .filter(|revision| revision.has_handshake())
            .unwrap_or(Self::NEWEST_WITH_HANDSHAKE)
    }

    /// Returns whether each request contains its revision, and the client's capabilities and name.
    ///
    /// Such a revision has no `initialize`, no `ping` and no `resources/subscribe`. A result contains its
    /// type and the time for which it may be cached, and an unknown method fails with 404 over HTTP.
    pub fn is_stateless(self) -> bool {
        self >= Self::V20260728
    }

    /// Returns whether a connection begins with `initialize`.
    pub fn has_handshake(self) -> bool {
        !self.is_stateless()
    }

    /// Returns whether several messages may be sent as one array.
    pub fn has_batches(self) -> bool {
        self == Self::V20250326
    }

    /// Returns whether the HTTP transport has sessions.
    pub fn has_sessions(self) -> bool {
        self == Self::V20241105
    }

    /// Returns whether tools have output schemas and titles, and results structured content.
    ///
    /// The protocol has these features since 2025-06-18. This server also uses them in 2025-03-26: a request
    /// without a revision is treated as a request of 2025-03-26, even if its client supports a later
    /// revision, and clients ignore unknown members.
    pub fn has_structured_content(self) -> bool {
        self >= Self::UNSTATED
    }

    /// Returns whether completion of arguments is a capability.
    pub fn has_completions(self) -> bool {
        self >= Self::V20250326
    }

    /// Returns the code of the error for a resource that does not exist.
    pub fn resource_missing_code(self) -> i32 {
        if self.is_stateless() { -32_602 } else { -32_002 }
    }

    /// Converts the revision to the type of the protocol's model.
    pub fn to_protocol_version(self) -> ProtocolVersion {
        match self {
            Self::V20241105 => ProtocolVersion::V_2024_11_05,
            Self::V20250326 => ProtocolVersion::V_2025_03_26,
            Self::V20250618 => ProtocolVersion::V_2025_06_18,
            Self::V20251125 => ProtocolVersion::V_2025_11_25,
            Self::V20260728 => ProtocolVersion::V_2026_07_28,
        }
    }

    /// Returns the dates of all revisions as JSON, newest first.
    pub fn dates() -> Value {
        json!(Self::ALL.map(Self::date))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_name_revisions_and_order_them() {
        for pair in Revision::ALL.windows(2) {
            assert!(pair[0] > pair[1] && pair[0].date() > pair[1].date());
        }
        for revision in Revision::ALL {
            assert_eq!(Revision::from_date(revision.date()), Some(revision));
            assert_eq!(revision.to_protocol_version().as_str(), revision.date());
            assert_eq!(revision.to_protocol_version().has_initialize(), revision.has_handshake());
        }
        assert_eq!(ProtocolVersion::KNOWN_VERSIONS.len(), Revision::ALL.len());
    }

    #[test]
    fn a_handshake_agrees_on_a_revision_that_has_one() {
        for date in ["2026-07-28", "2031-01-01", "", "1"] {
            assert_eq!(Revision::negotiate(date), Revision::V20251125, "{date}");
        }
        assert_eq!(Revision::negotiate("2024-11-05"), Revision::V20241105);
    }
}
