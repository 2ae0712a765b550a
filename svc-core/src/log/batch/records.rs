//! The rows of a batch: events and audit rows, as columns in the order of their insert statement.

use serde_json::Value;

use crate::id::{ChannelId, WorkspaceId};
use crate::log::event::{Attribution, RecordedEvent};
use crate::store::{JointWrite, Param};
use crate::time::Time;

/// The contents of an audit row.
pub(crate) struct AuditEntry {
    pub at: Time,
    pub action: &'static str,
    pub attribution: Attribution,
    pub metadata: Value,
}

pub(super) struct AuditRow {
    pub workspace: WorkspaceId,
    pub seq: i64,
    pub at: Time,
    pub action: &'static str,
    pub attribution: Attribution,
    /// The channel of the change. Callers who cannot see the channel do not learn the content of the change.
    pub channel_id: Option<ChannelId>,
    pub metadata: String,
}

/// Writes the events and audit rows of a batch, and updates the heads of their logs.
///
/// A head is updated only if it is still at the position at which it was read.
pub(super) const WRITE_RECORDS_AND_HEADS: JointWrite<3> = JointWrite {
    sqlite: [
        (
            "insert into events (workspace_id, lsn, kind, at, channel_id, thread_id, member_id, prev_hash,
                 content_hash, payload) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            10,
        ),
        (
            "insert into audit (workspace_id, seq, at, action, actor_id, subject_id, grant_id, channel_id,
                 metadata) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            9,
        ),
        (
            "update heads set lsn = $2, hash = $3, at = $4, audit_seq = $5, epoch = $6, rules_epoch = $7
             where workspace_id = $1 and lsn = $8",
            8,
        ),
    ],
    postgres: "
        with new_events as (
            insert into events (workspace_id, lsn, kind, at, channel_id, thread_id, member_id, prev_hash,
                content_hash, payload)
            select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::uuid[], $6::uuid[],
                $7::uuid[], $8::bytea[], $9::bytea[], $10::text[])),
        new_audit as (
            insert into audit (workspace_id, seq, at, action, actor_id, subject_id, grant_id, channel_id,
                metadata)
            select * from unnest($11::uuid[], $12::bigint[], $13::bigint[], $14::text[], $15::uuid[],
                $16::uuid[], $17::uuid[], $18::uuid[], $19::text[]))
        update heads h set lsn = n.lsn, hash = n.hash, at = n.at, audit_seq = n.audit_seq, epoch = n.epoch,
            rules_epoch = n.rules_epoch
        from unnest($20::uuid[], $21::bigint[], $22::bytea[], $23::bigint[], $24::bigint[], $25::bigint[],
            $26::bigint[], $27::bigint[])
            as n (workspace_id, lsn, hash, at, audit_seq, epoch, rules_epoch, stored)
        where h.workspace_id = n.workspace_id and h.lsn = n.stored",
};

pub(super) fn event_columns(event: &RecordedEvent) -> Vec<Param<'_>> {
    let id = |id: Option<uuid::Uuid>| id.map_or(Param::Null, Param::Uuid);
    vec![
        Param::Uuid(event.workspace_id.uuid()),
        Param::Int(event.lsn),
        Param::Text(event.kind),
        Param::Int(event.at.micros()),
        id(event.subject.channel_id.map(Into::into)),
        id(event.subject.thread_id.map(Into::into)),
        id(event.subject.member_id.map(Into::into)),
        Param::Bytes(&event.prev_hash),
        Param::Bytes(&event.content_hash),
        Param::Text(&event.payload),
    ]
}

pub(super) fn audit_columns(row: &AuditRow) -> Vec<Param<'_>> {
    let id = |id: Option<uuid::Uuid>| id.map_or(Param::Null, Param::Uuid);
    vec![
        Param::Uuid(row.workspace.uuid()),
        Param::Int(row.seq),
        Param::Int(row.at.micros()),
        Param::Text(row.action),
        id(row.attribution.actor_id.map(Into::into)),
        id(row.attribution.subject_id.map(Into::into)),
        id(row.attribution.grant_id.map(Into::into)),
        id(row.channel_id.map(Into::into)),
        Param::Text(&row.metadata),
    ]
}
