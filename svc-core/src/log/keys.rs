//! The check values of the key-encryption keys: one beside the schema for each key that was ever in use. A process
//! that lacks one of those keys could not read what others wrote, and would write what they cannot read, so it must
//! not start. A new key is added when its first process starts; none is removed here.

use super::seal::Sealer;
use crate::error::{Error, Result};
use crate::id::MessageId;
use crate::store::{Conn, FromRow};
use crate::time::Time;

/// Every check value.
pub(crate) const CHECKS: &str = "select key_id, sealed from key_checks order by key_id";
const ANY_WORKSPACE: &str = "select 1 from workspaces limit 1";
/// Ids of messages are in the order of their making, so this one was wrapped by the key that was in use last.
const NEWEST_WRAPPED: &str = "select message_id, wrapped from message_keys order by message_id desc limit 1";

/// Adds the check value of a key, unless it is there.
pub(crate) const RECORD: &str = "
    insert into key_checks (key_id, sealed, added_at) values ($1, $2, $3) on conflict (key_id) do nothing";

/// Ids of the keys whose check values are still to be added. Refuses if a key that is in use is not configured.
/// `recorded` says whether the schema has check values at all.
pub(crate) fn unrecorded(conn: &Conn, sealer: &Sealer, recorded: bool) -> Result<Vec<Vec<u8>>> {
    // Read before the check values: the first workspace comes with its key's in one transaction, so that whoever sees
    // it sees that too. In the other order a set-up that loses the race would take its own key for one in use.
    let in_use = has_workspace(conn)?;
    let checks: Vec<(Vec<u8>, Vec<u8>)> = if recorded { rows(conn, CHECKS)? } else { Vec::new() };
    let lacking = lacking(&checks, sealer);
    if !lacking.is_empty() {
        return Err(wrong_key(&lacking));
    }
    let current = sealer.current_id();
    if checks.iter().any(|(id, _)| id == current) {
        return Ok(Vec::new());
    }
    if !checks.is_empty() {
        return Ok(vec![current.to_vec()]);
    }
    let mut ids = Vec::new();
    // From before there were check values: what was wrapped has to tell.
    for (message, wrapped) in rows::<(MessageId, Vec<u8>)>(conn, NEWEST_WRAPPED)? {
        let id = Sealer::wrapped_by(&wrapped).unwrap_or_default();
        if sealer.unwrap(message, &wrapped).is_err() {
            return Err(wrong_key(&[hex::encode(id)]));
        }
        ids.push(id.to_vec());
    }
    if in_use && !ids.iter().any(|id| id == current) {
        ids.push(current.to_vec());
    }
    Ok(ids)
}

/// The ids of the keys in use that are not configured.
pub(crate) fn lacking(checks: &[(Vec<u8>, Vec<u8>)], sealer: &Sealer) -> Vec<String> {
    let lacking = checks.iter().filter(|(id, sealed)| !sealer.opens_check(id, sealed));
    lacking.map(|(id, _)| hex::encode(id)).collect()
}

/// Adds the check values of the configured keys `ids`.
pub(crate) fn record(conn: &Conn, sealer: &Sealer, ids: &[Vec<u8>], now: Time) -> Result<()> {
    for id in ids {
        conn.execute(RECORD, &[id, &sealer.check_value(id)?, &now])?;
    }
    Ok(())
}

/// Whether somebody has been here: keys are in use from the first workspace on.
pub(crate) fn has_workspace(conn: &Conn) -> Result<bool> {
    Ok(!conn.query(ANY_WORKSPACE, &[])?.is_empty())
}

fn rows<T: FromRow>(conn: &Conn, sql: &'static str) -> Result<Vec<T>> {
    conn.query(sql, &[])?.iter_mut().map(T::from_row).collect()
}

fn wrong_key(ids: &[String]) -> Error {
    Error::configuration(format!(
        "SVC_CONTENT_KEK is not the key that this database was used with: its messages need the key with the id {}; \
         set SVC_CONTENT_KEK to that key, or, to change keys, add it to SVC_CONTENT_KEK_PREVIOUS",
        ids.join(" and the key with the id ")
    ))
}
