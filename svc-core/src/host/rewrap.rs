//! Rewrapping: moves everything that a retired key-encryption key wraps to the current one, so that the
//! retired one can be removed.
//!
//! It works in steps, beside running servers, and can be repeated after an interruption: it skips the rows
//! that the current key already wraps. A message that is withdrawn at the same time stays withdrawn. The keys
//! of messages do not change; only their wrapping does.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Result;
use crate::conversation::key_segments;
use crate::host::service::Service;
use crate::id::WorkspaceId;
use crate::log::keys as check_values;
use crate::op::{Surface, Write};

/// The result of a rewrap. Keys are named by their ids, in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RewrapReport {
    /// The current key.
    pub key_id: String,
    /// The number of key segments that were moved to it.
    pub moved: u64,
    /// The number of key segments that each other key still wraps.
    pub left: BTreeMap<String, i64>,
    /// The keys that wrap nothing, which the database no longer requires.
    pub unused: Vec<String>,
}

impl Service {
    /// Moves everything that retired key-encryption keys wrap to the current one.
    pub fn rewrap(&self) -> Result<RewrapReport> {
        let dispatch = self.dispatch();
        let mut moved = 0_u64;
        let mut after = None;
        loop {
            let run = move |cx: &mut Write<'_>| key_segments::rewrap(cx, after);
            let Some(step) = dispatch.as_instance(WorkspaceId::INSTANCE, Surface::System, run)? else {
                break;
            };
            moved = moved.saturating_add(step.moved);
            after = Some(step.last);
        }
        let rewrap = dispatch.as_instance(WorkspaceId::INSTANCE, Surface::System, forget_unused)?;
        Ok(RewrapReport { moved, ..rewrap })
    }
}

/// Removes the keys that wrap nothing, and returns the numbers of the others.
fn forget_unused(cx: &mut Write<'_>) -> Result<RewrapReport> {
    let current = cx.sealer().current_id().to_vec();
    let mut rewrap = RewrapReport { key_id: hex::encode(&current), ..RewrapReport::default() };
    let left: BTreeMap<Vec<u8>, i64> = key_segments::by_key(cx)?.into_iter().collect();
    let known: Vec<(Vec<u8>, Vec<u8>)> = cx.query(check_values::CHECKS, &[])?;
    for (id, _) in known.into_iter().filter(|(id, _)| *id != current) {
        if !left.contains_key(&id) {
            cx.execute(1, check_values::FORGET, &[&id])?;
            rewrap.unused.push(hex::encode(&id));
        }
    }
    let others = left.into_iter().filter(|(id, _)| *id != current);
    rewrap.left = others.map(|(id, count)| (hex::encode(id), count)).collect();
    Ok(rewrap)
}
