//! Restores: a workspace's log is restored unchanged, so only the instance's log records the restore.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::event::{Event as _, WorkspaceImported};
use crate::log::replay::{Rebuilt, Replayed};
use crate::store::Conn;

/// The last restore of a workspace. An earlier one is irrelevant: its workspace was erased since.
pub(super) struct Restored {
    /// The end of the log that was restored.
    pub lsn: i64,
    /// The restore's event in the instance's log.
    payload: String,
}

/// The part of a [`WorkspaceImported`] that identifies the log.
#[derive(Deserialize)]
struct ImportedLogId {
    workspace_id: WorkspaceId,
    mode: String,
    source_lsn: i64,
}

impl Restored {
    /// Reads the last restore of each workspace. Copies are excluded: their own logs record their source.
    pub fn all(conn: &Conn) -> Result<BTreeMap<WorkspaceId, Self>> {
        let mut all = BTreeMap::new();
        for mut row in conn.query(IMPORTS, &[&WorkspaceId::INSTANCE, &WorkspaceImported::KIND])? {
            let payload: String = row.take()?;
            let imported: ImportedLogId = serde_json::from_str(&payload).map_err(Error::internal)?;
            if imported.mode == "restore" {
                all.insert(imported.workspace_id, Self { lsn: imported.source_lsn, payload });
            }
        }
        Ok(all)
    }

    /// Replays it. Call it once the log was replayed up to the end of the restored part.
    pub fn replay(&self, rebuilt: &Rebuilt) -> Result<()> {
        WorkspaceImported::replay(&Replayed::elsewhere(rebuilt, self.lsn, &self.payload)?)
    }
}

const IMPORTS: &str = "select payload from events where workspace_id = $1 and kind = $2 order by lsn";
