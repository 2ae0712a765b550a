//! The retention limits of an instance: maximum times and sizes that its workspaces may set.

use schemars::JsonSchema;
use serde::Serialize;

use crate::limits::{MEDIA_QUOTA_BYTES, MEDIA_RETENTION_DEFAULT_DAYS};

/// Retention times and sizes. `None` means that nothing is pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Kept")]
#[non_exhaustive]
pub struct RetentionLimits {
    /// Number of days for which messages are kept, or null if they are not pruned.
    pub messages_days: Option<i64>,
    /// Number of days for which events are kept, or null if they are not pruned.
    pub events_days: Option<i64>,
    /// Number of days for which delivery records are kept, or null if they are not pruned.
    pub deliveries_days: Option<i64>,
    /// Number of days for which media are kept, or null if they are not pruned.
    pub media_days: Option<i64>,
    /// Maximum bytes of media that are kept, or null if there is no limit.
    pub media_quota_bytes: Option<i64>,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        let media_days = Some(MEDIA_RETENTION_DEFAULT_DAYS);
        let media_quota_bytes = Some(MEDIA_QUOTA_BYTES);
        Self { media_days, media_quota_bytes, ..Self::FOREVER }
    }
}

impl RetentionLimits {
    /// Retention settings with which nothing is pruned.
    pub const FOREVER: Self = Self {
        messages_days: None,
        events_days: None,
        deliveries_days: None,
        media_days: None,
        media_quota_bytes: None,
    };

    /// Returns each retention setting as a pair of the field name and the value.
    pub fn named(&self) -> [(&'static str, Option<i64>); 5] {
        [
            ("messages_days", self.messages_days),
            ("events_days", self.events_days),
            ("deliveries_days", self.deliveries_days),
            ("media_days", self.media_days),
            ("media_quota_bytes", self.media_quota_bytes),
        ]
    }

    /// Returns retention settings in which values from `other` replace the unset values of `self`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            messages_days: self.messages_days.or(other.messages_days),
            events_days: self.events_days.or(other.events_days),
            deliveries_days: self.deliveries_days.or(other.deliveries_days),
            media_days: self.media_days.or(other.media_days),
            media_quota_bytes: self.media_quota_bytes.or(other.media_quota_bytes),
        }
    }
}
