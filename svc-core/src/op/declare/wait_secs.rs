//! The timeout of a wait as an input field of an operation.

use std::borrow::Cow;
use std::time::Duration;

use schemars::transform::Transform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::argument::{Argument, Field};
use crate::limits::{WAIT_DEFAULT_SECS, WAIT_MAX_SECS};
use crate::schema::brief;
use crate::text::{Count, described};

/// The timeout of a wait, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitSecs<const MIN: i64 = 1>(Count<MIN, WAIT_MAX_SECS>);

impl<const MIN: i64> Field for WaitSecs<MIN> {}

impl<V: Into<i64>, const MIN: i64> Argument<WaitSecs<MIN>> for V {
    fn value(self) -> Value {
        Value::from(self.into())
    }
}

impl<const MIN: i64> WaitSecs<MIN> {
    /// Creates the timeout after checking that it is within its bounds.
    pub fn new(secs: i64) -> Result<Self, String> {
        Count::new(secs).map(Self)
    }

    /// Returns the requested timeout, or the default.
    pub fn timeout(requested: Option<Self>) -> Duration {
        Duration::from_secs(requested.map_or(WAIT_DEFAULT_SECS, |secs| secs.0.get()).unsigned_abs())
    }
}

impl<const MIN: i64> JsonSchema for WaitSecs<MIN> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("WaitSecsFrom{MIN}").into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let description = format!(
            "Maximum time to wait, in seconds. Default: {WAIT_DEFAULT_SECS}. Choose less than the timeout of \
             your client, often 60 seconds: no event is lost between two waits."
        );
        let mut schema = described(Count::<MIN, WAIT_MAX_SECS>::json_schema(generator), description);
        let text = format!("Below your client's timeout, often 60. Default: {WAIT_DEFAULT_SECS}.");
        brief(text).transform(&mut schema);
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_as_requested_or_the_default() {
        let asked = |json: &str| serde_json::from_str::<Option<WaitSecs<0>>>(json).unwrap();
        assert_eq!(WaitSecs::timeout(asked("7")), Duration::from_secs(7));
        assert_eq!(WaitSecs::timeout(asked("0")), Duration::ZERO);
        assert_eq!(WaitSecs::timeout(asked("null")).as_secs(), WAIT_DEFAULT_SECS.unsigned_abs());
        assert!(serde_json::from_str::<WaitSecs>("0").is_err());
        assert!(serde_json::from_str::<WaitSecs>("331").is_err());
    }
}
