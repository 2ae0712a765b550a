//! Restored workspaces. A restore keeps the workspace's log unchanged, so only the instance's log records it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::event::{Event as _, WorkspaceImported};
use crate::log::replay::{RebuiltRows, ReplayedEvent};
use crate::store::Conn;

/// The last restore of a workspace. Earlier restores are irrelevant, because the workspace was erased after
/// each earlier restore.
pub(super) struct WorkspaceRestore {
    /// The last position of the restored log.
    pub lsn: i64,
    /// Payload of the restore's event in the instance's log.
    payload: String,
}

/// The fields of a [`WorkspaceImported`] event that identify the restored log.
#[derive(Deserialize)]
struct ImportedLogId {
    workspace_id: WorkspaceId,
    mode: String,
    source_lsn: i64,
}

impl WorkspaceRestore {
    /// Reads the last restore of each workspace. Imported copies are excluded, because their own logs record
    /// their source.
    pub fn read_all(conn: &Conn) -> Result<BTreeMap<WorkspaceId, Self>> {
        let mut all = BTreeMap::new();
        for mut row in conn.query(SELECT_IMPORTS, &[&WorkspaceId::INSTANCE, &WorkspaceImported::KIND])? {
            let payload: String = row.take()?;
            let imported: ImportedLogId = serde_json::from_str(&payload).map_err(Error::internal)?;
            if imported.mode == "restore" {
                all.insert(imported.workspace_id, Self { lsn: imported.source_lsn, payload });
            }
        }
        Ok(all)
    }

    /// Applies the restore to the rebuilt tables. Call this after the log has been replayed to the end of the
    /// restored part.
    pub fn replay(&self, rebuilt: &RebuiltRows) -> Result<()> {
        WorkspaceImported::replay(&ReplayedEvent::from_other_log(rebuilt, self.lsn, &self.payload)?)
    }
}

const SELECT_IMPORTS: &str = "select payload from events where workspace_id = $1 and kind = $2 order by lsn";
