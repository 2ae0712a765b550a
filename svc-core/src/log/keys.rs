//! The check values of the key-encryption keys: one in the database for each key that was ever in use.
//!
//! A process that lacks one of those keys could not read what others wrote, and would write what they cannot
//! read, so it must not start. A new key is added when its first process starts. One is removed once nothing
//! is left that it seals; a process that still seals with it adds it again.

use super::seal::Sealer;
use crate::error::{Error, Result};
use crate::store::{Conn, FromRow};
use crate::time::Time;

/// Selects every check value.
pub(crate) const CHECKS: &str = "select key_id, sealed from key_checks order by key_id";
const ANY_WORKSPACE: &str = "select 1 from workspaces limit 1";
/// Selects the id of each key that wrapped message keys before there were check values.
///
/// The id is the first bytes of what the key wrapped. The statement scans the entire table, which happens
/// once, before the first check value is added.
const WRAPPED_BY: &str = "select distinct substr(wrapped, 1, 8) from message_keys where length(wrapped) > 8";

/// Adds the check value of a key, unless it exists.
pub(crate) const RECORD: &str = "
    insert into key_checks (key_id, sealed, added_at) values ($1, $2, $3) on conflict (key_id) do nothing";

/// Returns the ids of the keys whose check values are yet to be added.
///
/// Fails if a key that is in use is not configured. `recorded` says whether the schema has check values at
/// all.
pub(crate) fn unrecorded(conn: &Conn, sealer: &Sealer, recorded: bool) -> Result<Vec<Vec<u8>>> {
    // Read before the check values: the first workspace and its key's check value come in one transaction, so
    // a reader that sees the one sees the other. In the other order a setup that loses the race would take
    // its own key for one in use.
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
    // From before there were check values: the wrapped keys have to tell.
    let mut ids: Vec<Vec<u8>> = rows::<(Vec<u8>,)>(conn, WRAPPED_BY)?.into_iter().map(|(id,)| id).collect();
    ids.sort();
    let lacking: Vec<String> = ids.iter().filter(|id| !sealer.has(id)).map(hex::encode).collect();
    if !lacking.is_empty() {
        return Err(wrong_key(&lacking));
    }
    if in_use && !ids.iter().any(|id| id == current) {
        ids.push(current.to_vec());
    }
    Ok(ids)
}

/// Returns the ids of the keys in use that are not configured.
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

/// Removes the check value of a key.
pub(crate) const FORGET: &str = "delete from key_checks where key_id = $1";

/// Returns whether the database is in use: keys are in use from the first workspace on.
pub(crate) fn has_workspace(conn: &Conn) -> Result<bool> {
    Ok(!conn.query(ANY_WORKSPACE, &[])?.is_empty())
}

fn rows<T: FromRow>(conn: &Conn, sql: &'static str) -> Result<Vec<T>> {
    conn.query(sql, &[])?.iter_mut().map(T::from_row).collect()
}

fn wrong_key(ids: &[String]) -> Error {
    Error::configuration(format!(
        "SVC_CONTENT_KEK is not the key that this database was used with: its messages need the key with the \
         id {}; set SVC_CONTENT_KEK to that key, or, to change keys, add it to SVC_CONTENT_KEK_PREVIOUS",
        ids.join(" and the key with the id ")
    ))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::entropy::Entropy;
    use crate::id::MessageId;
    use crate::store::{migrate, sqlite_for_tests};

    #[test]
    fn every_key_of_a_database_without_check_values_is_required() {
        let (_folder, conn) = sqlite_for_tests();
        migrate::migrate(&conn, Time::from_micros(1)).unwrap();
        let sealer = |key, retired: &[[u8; 32]]| Sealer::new(key, retired, Entropy::System);
        let (first, second) = (sealer([1; 32], &[]), sealer([2; 32], &[]));
        for (number, sealer) in [(1_u128, &first), (2, &first), (3, &second)] {
            let id: MessageId = Uuid::from_u128(number).into();
            let wrapped = sealer.wrap(id, &sealer.new_key().unwrap()).unwrap();
            conn.execute("insert into message_keys values ($1, $2)", &[&id, &wrapped]).unwrap();
        }
        for (configured, missing) in [(&first, &second), (&second, &first)] {
            let error = unrecorded(&conn, configured, true).unwrap_err().to_string();
            assert!(error.contains(&hex::encode(missing.current_id())), "{error}");
            assert!(!error.contains(&hex::encode(configured.current_id())), "{error}");
        }
        let mut ids = [first.current_id().to_vec(), second.current_id().to_vec()];
        ids.sort();
        assert_eq!(unrecorded(&conn, &sealer([2; 32], &[[1; 32]]), true).unwrap(), ids);
    }
}
