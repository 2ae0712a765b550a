//! Restores: a workspace's log is kept as it was, so only the instance's log says that it was restored.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::event::{Event as _, WorkspaceImported};
use crate::log::replay::{Rebuilt, Replayed};
use crate::store::Conn;

/// The last restore of a workspace. An earlier one changes nothing: its workspace was erased since.
pub(super) struct Restored {
    /// The end of the log that was restored.
    pub lsn: i64,
    /// The event of it in the instance's log.
    payload: String,
}

/// The part of a [`WorkspaceImported`] that says of which log it is.
#[derive(Deserialize)]
struct Imported {
    workspace_id: WorkspaceId,
    mode: String,
    source_lsn: i64,
}

impl Restored {
    /// Reads the last one of each workspace that was restored. A copy says in its own log that it is one.
    pub fn all(conn: &Conn) -> Result<BTreeMap<WorkspaceId, Self>> {
        let mut all = BTreeMap::new();
        for mut row in conn.query(IMPORTS, &[&WorkspaceId::INSTANCE, &WorkspaceImported::KIND])? {
            let payload: String = row.take()?;
            let imported: Imported = serde_json::from_str(&payload).map_err(Error::internal)?;
            if imported.mode == "restore" {
                all.insert(imported.workspace_id, Self { lsn: imported.source_lsn, payload });
            }
        }
        Ok(all)
    }

    /// Replays it: to be called once its log was replayed as far as that was restored.
    pub fn replay(&self, rebuilt: &Rebuilt) -> Result<()> {
        WorkspaceImported::replay(&Replayed::elsewhere(rebuilt, self.lsn, &self.payload)?)
    }
}

const IMPORTS: &str = "select payload from events where workspace_id = $1 and kind = $2 order by lsn";
