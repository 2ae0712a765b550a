//! The usage of rate limits that several servers share through one Postgres database.
//!
//! Each row contains the time at which a limit is fully available again. The rows matter only for a short
//! time, so the table is unlogged: after a crash of the database, all limits are fully available. On SQLite,
//! where there is only one server, nothing is written.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::conn::Conn;
use crate::error::{Code, Error, Result};
use crate::time::Time;

/// Returns the current time of the database.
pub(crate) fn database_time(conn: &Conn) -> Result<Time> {
    let mut rows =
        conn.query("select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)", &[])?;
    rows.first_mut().ok_or_else(|| Error::internal("the database returned no time"))?.take()
}

/// Adds amounts to the stored usage of limits, and returns the time until each limit is fully available
/// again.
///
/// `usage` contains the key of each limit, and the time by which its full availability is delayed.
/// The keys must be sorted, so that servers lock the rows in the same order. The stored usage is capped at
/// two windows, because no caller waits longer.
pub(crate) fn add(
    conn: &Conn,
    now: Time,
    window: Duration,
    usage: &[(Uuid, Duration)],
) -> Result<Vec<Duration>> {
    check_connected(conn)?;
    let keys: Vec<Uuid> = usage.iter().map(|(key, _)| *key).collect();
    let micros = |cost: &Duration| i64::try_from(cost.as_micros()).unwrap_or(i64::MAX);
    let costs: Vec<i64> = usage.iter().map(|(_, cost)| micros(cost)).collect();
    let latest = now.plus(window).plus(window);
    let mut rows = conn.query(ADD_USAGE, &[&keys, &costs, &now, &latest])?;
    let entries = rows.iter_mut().map(|row| Ok((row.take()?, row.take::<Time>()?)));
    let full_at_by_key: BTreeMap<Uuid, Time> = entries.collect::<Result<_>>()?;
    let full_in = |key: &Uuid| full_at_by_key.get(key).map(|full_at| full_at.since(now));
    keys.iter().map(full_in).collect::<Option<_>>().ok_or_else(|| Error::internal("a limit was not stored"))
}

/// Fails if the connection has no open session.
///
/// Opening one takes longer than a caller should wait for a rate limit.
fn check_connected(conn: &Conn) -> Result<()> {
    match conn {
        Conn::Postgres(conn) if !conn.is_connected() => {
            Err(Error::new(Code::Unavailable, "the connection for rate limits has ended"))
        }
        _ => Ok(()),
    }
}

const ADD_USAGE: &str = "
    insert into rate_windows (key, full_at)
    select used.key, $3 + used.cost from unnest($1::uuid[], $2::bigint[]) as used (key, cost)
    on conflict (key) do update
    set full_at = least(greatest(rate_windows.full_at, $3) + excluded.full_at - $3, $4)
    returning key, full_at";

/// Removes up to 1,000 limits that are fully available again. Skips limits that another server is changing.
pub(crate) fn remove_fully_available(conn: &Conn, now: Time) -> Result<u64> {
    conn.execute(DELETE_FULLY_AVAILABLE, &[&now])
}

const DELETE_FULLY_AVAILABLE: &str = "
    delete from rate_windows where key in (
        select key from rate_windows where full_at < $1 order by full_at limit 1000 for update skip locked
    )";
