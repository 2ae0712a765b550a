//! Rewraps everything under a retired key-encryption key with the current key, so that the retired key can be
//! removed.
//!
//! It works in steps while servers run, and can be repeated after an interruption: it skips rows that the
//! current key already wraps. A message that is withdrawn at the same time stays withdrawn. The keys of
//! messages do not change; only their wrapping does.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Result;
use crate::conversation::key_segments;
use crate::host::service::Service;
use crate::id::WorkspaceId;
use crate::log::keys as check_values;
use crate::op::{Surface, Write};

/// The result of a rewrap. Keys are identified by their ids, in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RewrapReport {
    /// The id of the current key-encryption key.
    pub key_id: String,
    /// Number of key segments that were moved to the current key.
    pub moved: u64,
    /// Number of key segments that each other key still wraps, by key id.
    pub left: BTreeMap<String, i64>,
    /// The keys that wrap nothing. The database no longer requires them.
    pub unused: Vec<String>,
}

impl Service {
    /// Rewraps everything under retired key-encryption keys with the current key.
    pub fn rewrap(&self) -> Result<RewrapReport> {
        let dispatch = self.dispatch();
        let mut moved = 0_u64;
        let mut after = None;
        loop {
            let run = move |cx: &mut Write<'_>| key_segments::rewrap(cx, after);
            let Some(step) = dispatch.change_as_instance(WorkspaceId::INSTANCE, Surface::System, run)? else {
                break;
            };
            moved = moved.saturating_add(step.moved);
            after = Some(step.last);
        }
        let rewrap = dispatch.change_as_instance(
            WorkspaceId::INSTANCE,
            Surface::System,
            remove_unused_check_values,
        )?;
        Ok(RewrapReport { moved, ..rewrap })
    }
}

/// Removes the check values of keys that wrap nothing, and counts the key segments under each other key.
///
/// The returned report does not count the key segments that were moved.
fn remove_unused_check_values(cx: &mut Write<'_>) -> Result<RewrapReport> {
    let current = cx.sealer().current_id().to_vec();
    let mut rewrap = RewrapReport { key_id: hex::encode(&current), ..RewrapReport::default() };
    let left: BTreeMap<Vec<u8>, i64> = key_segments::count_by_key(cx)?.into_iter().collect();
    let known: Vec<(Vec<u8>, Vec<u8>)> = cx.query(check_values::SELECT_CHECK_VALUES, &[])?;
    for (id, _) in known.into_iter().filter(|(id, _)| *id != current) {
        if !left.contains_key(&id) {
            cx.execute(1, check_values::REMOVE_CHECK_VALUE, &[&id])?;
            rewrap.unused.push(hex::encode(&id));
        }
    }
    let others = left.into_iter().filter(|(id, _)| *id != current);
    rewrap.left = others.map(|(id, count)| (hex::encode(id), count)).collect();
    Ok(rewrap)
}
