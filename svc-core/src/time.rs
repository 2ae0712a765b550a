//! Time: microseconds since the Unix epoch, UTC, always handed out by the service and never read from SQL or
//! from the system by a feature. On the wire a time is an RFC 3339 string ending in `Z`.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Result;
use crate::store::{FromValue, Param, ToParam, Value};

/// A moment in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The moment `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The moment `span` later; the end of time if that would overflow.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long ago `earlier` was; zero if it is not in the past.
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
        let at: jiff::Timestamp = text
            .parse()
            .map_err(|_| de::Error::custom("expected an RFC 3339 time such as 2026-01-31T12:00:00Z"))?;
        Ok(Self(at.as_microsecond()))
    }
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

/// Where the service reads the time. A mock clock moves only when told to, for tests and simulations.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock; on Postgres the database's, so that servers agree.
    #[default]
    System,
    /// A clock that stands still until [`Clock::advance`].
    Mock(Arc<AtomicI64>),
}

impl Clock {
    /// A clock that shows `start` until it is advanced.
    pub fn mock(start: Time) -> Self {
        Self::Mock(Arc::new(AtomicI64::new(start.micros())))
    }

    /// The present moment.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the service reads the machine's clock"
    )]
    pub fn now(&self) -> Time {
        match self {
            Self::System => Time(jiff::Timestamp::now().as_microsecond()),
            Self::Mock(at) => Time(at.load(Ordering::SeqCst)),
        }
    }

    /// Moves a mock clock forward; the system's clock is left alone.
    pub fn advance(&self, span: Duration) {
        if let Self::Mock(at) = self {
            at.fetch_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_the_wire_to_the_microsecond() {
        let at = Time::from_micros(1_795_000_000_123_456);
        let text = serde_json::to_string(&at).unwrap();
        assert!(text.ends_with("123456Z\""), "{text}");
        assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), at);
        assert!(serde_json::from_str::<Time>("\"yesterday\"").is_err());
    }
}
