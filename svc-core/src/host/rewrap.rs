//! Rewrapping: all that a retired key-encryption key wraps moves to the present one, so that the retired one
//! can go.
//!
//! It works in steps, beside running servers, and begins anew wherever it was ended: what the present key
//! wraps already is passed by. A message that is withdrawn meanwhile stays withdrawn. The keys of messages
//! are not touched; what wraps them is.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Result;
use crate::conversation::shelves;
use crate::host::service::Service;
use crate::id::WorkspaceId;
use crate::log::keys as check_values;
use crate::op::{Surface, Write};

/// What a rewrap has done, and what it has left. Keys are named by their ids, in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rewrap {
    /// The present key.
    pub key_id: String,
    /// The number of shelves of message keys that it wraps now and did not before.
    pub moved: u64,
    /// What other keys still wrap: how many shelves of message keys each does.
    pub left: BTreeMap<String, i64>,
    /// The keys that nothing is left of, which the database no longer asks for.
    pub unused: Vec<String>,
}

impl Service {
    /// Moves all that retired key-encryption keys wrap to the present one.
    pub fn rewrap(&self) -> Result<Rewrap> {
        let dispatch = self.dispatch();
        let (mut moved, mut after) = (0_u64, None);
        loop {
            let run = move |cx: &mut Write<'_>| shelves::rewrap(cx, after);
            let Some(step) = dispatch.as_instance(WorkspaceId::INSTANCE, Surface::System, run)? else {
                break;
            };
            moved = moved.saturating_add(step.moved);
            after = Some(step.last);
        }
        let rewrap = dispatch.as_instance(WorkspaceId::INSTANCE, Surface::System, forget_unused)?;
        Ok(Rewrap { moved, ..rewrap })
    }
}

/// Forgets the keys that wrap nothing, and returns what others wrap.
fn forget_unused(cx: &mut Write<'_>) -> Result<Rewrap> {
    let current = cx.sealer().current_id().to_vec();
    let mut rewrap = Rewrap { key_id: hex::encode(&current), ..Rewrap::default() };
    let left: BTreeMap<Vec<u8>, i64> = shelves::by_key(cx)?.into_iter().collect();
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
