//! The rows of requests with an idempotency key, which are removed after a day. `op/run/retry.rs` explains
//! how these rows are used.

use std::time::Duration;

use crate::identity::sessions::ended_rows_chore;
use crate::op::{Feature, Records};

/// Name of the table of idempotency keys.
const TABLE: &str = "idempotency_keys";

pub(crate) fn feature() -> Feature {
    Feature::new()
        .chore(ended_rows_chore(TABLE, Duration::ZERO, ANY_EXPIRED, DELETE_EXPIRED))
        .records(vec![Records::table(TABLE, "key_hash").through("member_id", "members").stays()])
}

const ANY_EXPIRED: &str = "select 1 from idempotency_keys where until <= $1 limit 1";

/// Deletes the first expired rows, by the index of end times.
const DELETE_EXPIRED: &str = "
    delete from idempotency_keys where key_hash in (
        select key_hash from idempotency_keys where until <= $1 order by until limit $2)";
