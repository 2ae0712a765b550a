//! The check values of the key-encryption keys: one in the database for each key that sealed data may need.
//!
//! A process that lacks one of those keys could not read data that other processes wrote, and would write
//! data that they cannot read, so it must not start. The check value of a new key is added when the first
//! process with that key starts. It is removed once no sealed data needs the key; a process that still seals
//! with the key adds it again.

use super::seal::Sealer;
use crate::error::{Error, Result};
use crate::store::{Conn, FromRow};
use crate::time::Time;

/// Selects every check value.
pub(crate) const SELECT_CHECK_VALUES: &str = "select key_id, sealed from key_checks order by key_id";
const SELECT_ANY_WORKSPACE: &str = "select 1 from workspaces limit 1";

/// Adds the check value of a key, unless it already exists.
pub(crate) const ADD_CHECK_VALUE: &str = "
    insert into key_checks (key_id, sealed, added_at) values ($1, $2, $3) on conflict (key_id) do nothing";

/// Returns whether the database is in use and lacks the check value of the sealing key.
///
/// Fails if a key that is in use is not configured.
pub(crate) fn needs_check_value(conn: &Conn, sealer: &Sealer) -> Result<bool> {
    // Read before the check values. The first workspace and the check value of its key are written in one
    // transaction, so a reader that sees the workspace also sees the check value. In the other order, a
    // set-up that loses the race would mistake its own key for one in use.
    let in_use = has_workspace(conn)?;
    let mut checks = conn.query(SELECT_CHECK_VALUES, &[])?;
    let checks: Vec<(Vec<u8>, Vec<u8>)> = checks.iter_mut().map(FromRow::from_row).collect::<Result<_>>()?;
    let missing_key_ids = missing_key_ids(&checks, sealer);
    if !missing_key_ids.is_empty() {
        return Err(missing_keys_error(&missing_key_ids));
    }
    let is_in_use = in_use || !checks.is_empty();
    Ok(is_in_use && checks.iter().all(|(id, _)| id != sealer.current_id()))
}

/// Returns the ids of the keys that are in use but not configured.
pub(crate) fn missing_key_ids(checks: &[(Vec<u8>, Vec<u8>)], sealer: &Sealer) -> Vec<String> {
    let missing_key_ids = checks.iter().filter(|(id, sealed)| !sealer.is_check_value(id, sealed));
    missing_key_ids.map(|(id, _)| hex::encode(id)).collect()
}

/// Adds the check value of the sealing key.
pub(crate) fn add_check_value(conn: &Conn, sealer: &Sealer, now: Time) -> Result<()> {
    let id = sealer.current_id();
    conn.execute(ADD_CHECK_VALUE, &[&id, &sealer.check_value(id)?, &now]).map(drop)
}

/// Removes the check value of a key.
pub(crate) const REMOVE_CHECK_VALUE: &str = "delete from key_checks where key_id = $1";

/// Returns whether any workspace exists. Keys are in use from the first workspace on.
pub(crate) fn has_workspace(conn: &Conn) -> Result<bool> {
    Ok(!conn.query(SELECT_ANY_WORKSPACE, &[])?.is_empty())
}

fn missing_keys_error(key_ids: &[String]) -> Error {
    Error::configuration(format!(
        "SVC_CONTENT_KEK is not the key that this database was used with: its messages need the key with the \
         id {}; set SVC_CONTENT_KEK to that key, or, to change keys, add it to SVC_CONTENT_KEK_PREVIOUS",
        key_ids.join(" and the key with the id ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Entropy;
    use crate::store::{migrate, sqlite_for_tests};

    #[test]
    fn every_key_in_use_is_required_and_a_new_one_is_added() {
        let (_folder, conn) = sqlite_for_tests();
        let now = Time::from_micros(1);
        migrate::migrate(&conn, now).unwrap();
        let sealer = |key, retired: &[[u8; 32]]| Sealer::new(key, retired, Entropy::System);
        let first = sealer([1; 32], &[]);
        let both = sealer([2; 32], &[[1; 32]]);
        assert!(!needs_check_value(&conn, &first).unwrap(), "a database without a workspace uses no key");
        add_check_value(&conn, &first, now).unwrap();
        assert!(!needs_check_value(&conn, &first).unwrap());
        assert!(needs_check_value(&conn, &both).unwrap());
        add_check_value(&conn, &both, now).unwrap();
        assert!(!needs_check_value(&conn, &both).unwrap());
        for (configured, missing) in [([1; 32], [2; 32]), ([2; 32], [1; 32])] {
            let configured = sealer(configured, &[]);
            let missing = sealer(missing, &[]);
            let error = needs_check_value(&conn, &configured).unwrap_err().to_string();
            assert!(error.contains(&hex::encode(missing.current_id())), "{error}");
            assert!(!error.contains(&hex::encode(configured.current_id())), "{error}");
        }
    }
}
