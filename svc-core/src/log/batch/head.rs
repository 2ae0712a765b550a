//! The head of a workspace: the last positions of its event log and of its audit trail, stored in one row.
//!
//! A head row is updated only if it is still at the position at which it was read.

use crate::Result;
use crate::id::WorkspaceId;
use crate::log::cache::Epochs;
use crate::log::chain::genesis;
use crate::store::{BulkWrite, Conn, Param, Row};
use crate::time::Time;

/// The end of a workspace's event log and audit trail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub lsn: i64,
    pub hash: [u8; 32],
    pub at: Time,
    pub audit_seq: i64,
    pub epochs: Epochs,
    /// Whether the head differs from its stored row.
    pub(super) is_changed: bool,
    /// The event position in the stored head row, or `None` if no row is stored yet.
    pub(super) stored_lsn: Option<i64>,
}

impl Head {
    /// Returns the head of a new, empty log.
    pub(super) fn empty() -> Self {
        let at = Time::from_micros(0);
        Self {
            lsn: 0,
            hash: genesis(),
            at,
            audit_seq: 0,
            epochs: Epochs::default(),
            is_changed: true,
            stored_lsn: None,
        }
    }

    /// Returns the head of an imported log, whose row has just been written.
    pub(super) fn imported(head: &ImportedHead) -> Self {
        let ImportedHead { lsn, hash, at, audit_seq, epoch, .. } = *head;
        let epochs = Epochs { access: epoch, rules: epoch };
        Self { lsn, hash, at, audit_seq, epochs, is_changed: false, stored_lsn: Some(lsn) }
    }

    /// Reads the columns that [`SELECT_HEAD`] selects.
    pub(super) fn take_from(row: &mut Row) -> Result<Self> {
        let lsn = row.take()?;
        Ok(Self {
            lsn,
            hash: row.take()?,
            at: row.take()?,
            audit_seq: row.take()?,
            epochs: Epochs::take(row)?,
            is_changed: false,
            stored_lsn: Some(lsn),
        })
    }

    /// Returns the head as it will be after the commit of the batch.
    pub(super) fn after_commit(self) -> Self {
        Self { is_changed: false, stored_lsn: Some(self.lsn), ..self }
    }
}

/// The end of a log that was imported as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportedHead {
    pub lsn: i64,
    pub hash: [u8; 32],
    pub at: Time,
    pub audit_seq: i64,
    pub floor: i64,
    pub pruned_at: i64,
    pub words_floor: i64,
    /// The first epoch of the log's cached entries. No earlier log of the workspace has had it.
    pub epoch: i64,
}

/// Inserts the head rows of new logs.
pub(super) const INSERT_HEADS: BulkWrite = BulkWrite {
    sqlite: "insert into heads (workspace_id, lsn, hash, at, audit_seq, epoch, rules_epoch)
             values ($1, $2, $3, $4, $5, $6, $7)",
    postgres: "insert into heads (workspace_id, lsn, hash, at, audit_seq, epoch, rules_epoch)
               select * from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[],
                   $6::bigint[], $7::bigint[])",
};

/// Returns the values of a head row, followed by the previously stored position if the row exists.
pub(super) fn head_columns<'a>((workspace, head): (&WorkspaceId, &'a Head)) -> Vec<Param<'a>> {
    let columns = [
        Param::Uuid(workspace.uuid()),
        Param::Int(head.lsn),
        Param::Bytes(&head.hash),
        Param::Int(head.at.micros()),
        Param::Int(head.audit_seq),
        Param::Int(head.epochs.access),
        Param::Int(head.epochs.rules),
    ];
    columns.into_iter().chain(head.stored_lsn.map(Param::Int)).collect()
}

pub(super) const SELECT_HEAD: &str =
    "select lsn, hash, at, audit_seq, epoch, rules_epoch from heads where workspace_id = $1";

/// Inserts the head row of a log that was imported as a whole.
pub(super) const INSERT_IMPORTED_HEAD: &str = "
    insert into heads (workspace_id, lsn, hash, at, audit_seq, floor, pruned_at, words_floor, epoch,
        rules_epoch)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)";

/// Returns the time of the newest event of all logs.
pub(crate) fn newest_event_time(conn: &Conn) -> Result<Option<Time>> {
    let newest = conn.query(SELECT_NEWEST_TIME, &[])?.first_mut().map(Row::take).transpose()?;
    Ok(newest.flatten())
}

const SELECT_NEWEST_TIME: &str = "select max(at) from heads";
