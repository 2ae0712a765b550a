//! Time: microseconds since the Unix epoch, UTC.
//!
//! The service provides the time; features never read it from SQL or the system clock. On the wire a time is
//! an RFC 3339 string ending in `Z`. Deadlines use a second, monotonic clock, which never jumps; waiting for
//! deadlines is done in `monitor`.

mod followed_clock;
mod clock;

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Result;
use crate::store::{FromValue, Param, ToParam, Value};
pub use clock::Clock;
pub(crate) use clock::Sleeper;

/// A point in time, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The latest time that can be formatted. Later times in input are read as this one.
    pub const LAST: Self = Self(253_402_207_200_000_000);

    /// Returns the time `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since the Unix epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Parses a date in the format of HTTP headers (RFC 9110, 5.6.7). Returns `None` for other text.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let parse_current_format = || Some(jiff::fmt::rfc2822::parse(text).ok()?.timestamp());
        let parse_obsolete_format = |format: &str| {
            let date = jiff::civil::DateTime::strptime(format, text).ok()?;
            Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        };
        // The formats of RFC 850 and asctime are obsolete, but recipients must accept them.
        let parsed = parse_current_format().or_else(|| parse_obsolete_format("%A, %d-%b-%y %H:%M:%S GMT"));
        let parsed = parsed.or_else(|| parse_obsolete_format("%a %b %e %H:%M:%S %Y"));
        Some(Self(parsed?.as_microsecond()))
    }

    /// Returns the time `span` after this one, saturating on overflow.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns the time `span` before this one, saturating on overflow.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns the time `micros` microseconds after this one, or before it if `micros` is negative.
    #[must_use]
    pub fn shifted(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Returns the duration since `earlier`, or zero if `earlier` is not in the past.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => write!(f, "{at:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let at: Result<jiff::Timestamp, _> = text.parse();
        match at {
            Ok(at) => Ok(Self(at.as_microsecond()).min(Self::LAST)),
            Err(_) if exceeds_last_time(&text) => Ok(Self::LAST),
            Err(_) => Err(de::Error::custom("expected an RFC 3339 time such as 2026-01-31T12:00:00Z")),
        }
    }
}

/// Returns whether `text` is a time in the year 9999.
///
/// Called for text that is not a timestamp. Many clients send a time in the last hours of that year for
/// "never", and no timestamp can represent such a time.
fn exceeds_last_time(text: &str) -> bool {
    let Ok(pieces) = jiff::fmt::temporal::Pieces::parse(text) else { return false };
    pieces.date().year() == 9999 && pieces.time().is_some() && pieces.offset().is_some()
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

impl ToParam for Time {
    fn param(&self) -> Param<'_> {
        Param::Int(self.0)
    }
}

impl FromValue for Time {
    fn from_value(value: Value) -> Result<Self> {
        i64::from_value(value).map(Self)
    }
}

/// A point in time on the monotonic clock, which never jumps. Its origin differs between processes.
///
/// Deadlines use this clock, so setting the machine's clock neither ends a wait nor prolongs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// Returns the time `span` after this one, saturating on overflow.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// Returns the microseconds since the origin.
    pub(crate) fn micros(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }

    fn signed_micros(self) -> i64 {
        i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX)
    }

    /// Returns the duration since `earlier`, or zero if `earlier` is not in the past.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_round_trips_to_the_microsecond() {
        let at = Time::from_micros(1_795_000_000_123_456);
        let text = serde_json::to_string(&at).unwrap();
        assert!(text.ends_with("123456Z\""), "{text}");
        assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), at);
        assert!(serde_json::from_str::<Time>("\"yesterday\"").is_err());
    }

    #[test]
    fn the_end_of_the_year_9999_is_read_as_the_last_time() {
        let read = |text: &str| serde_json::from_value::<Time>(text.into());
        for never in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T00:00:00+00:00"] {
            assert_eq!(read(never).unwrap(), Time::LAST, "{never}");
        }
        assert_eq!(Time::LAST.to_string(), "9999-12-30T22:00:00.000000Z");
        assert_eq!(read("9999-12-30T22:00:00.999999Z").unwrap(), Time::LAST);
        assert!(read("9999-12-29T00:00:00Z").unwrap() < Time::LAST);
        for bad in ["9999-12-32T00:00:00Z", "9999-12-31", "9999-12-31T23:59:59", "10000-01-01T00:00:00Z"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
