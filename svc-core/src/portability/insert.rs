//! Inserts the records of an export file: events, and rows with values for the columns that the file lacks.

use super::row::{ExportRow, MESSAGES_TABLE, WORKSPACES_TABLE};
use crate::conversation::messages::wrap_imported_key;
use crate::error::Result;
use crate::id::{MemberId, WorkspaceId};
use crate::identity::workspaces;
use crate::log::verify::EventColumns;
use crate::op::{Class, Records, RowColumns, Write};
use crate::store::{ToParam, Value as StoredValue};

/// Inserts a row, with values for the columns that the file lacks.
pub(super) fn insert_row(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    records: &Records,
    mut row: ExportRow,
) -> Result<()> {
    let wrapped = if records.name() == MESSAGES_TABLE {
        wrap_message_key(cx, workspace, &row)?
    } else {
        StoredValue::Null
    };
    let columns = &mut row.columns;
    for (name, class) in records.columns() {
        match class {
            Class::LaterId => drop(columns.insert(name, StoredValue::Null)),
            Class::InstancePosition => drop(columns.insert(name, StoredValue::Int(0))),
            // The value that this hash was computed from is unknown, so a random hash is inserted.
            Class::Secret if records.name() != MESSAGES_TABLE => {
                drop(columns.insert(name, StoredValue::Hash(cx.entropy().bytes()?)));
            }
            Class::Secret => drop(columns.insert(name, wrapped.clone())),
            Class::Derived => drop(columns.insert(name, StoredValue::Null)),
            _ => {}
        }
    }
    if records.name() == WORKSPACES_TABLE {
        // Another workspace could use the same handle, so the handle is set when the workspace becomes
        // visible.
        columns.insert("handle", StoredValue::Null);
        columns.insert("state", StoredValue::Text(workspaces::IMPORTING.to_owned()));
    }
    let values: Vec<&dyn ToParam> = columns.values().map(|value| value as &dyn ToParam).collect();
    cx.execute(1, records.insert(), &values)?;
    drop(values);
    match records.after_import {
        Some(change) => change(cx, &RowColumns(columns)),
        None => Ok(()),
    }
}

/// Returns the wrapped key of a message, or null if the file contains no key for the message.
fn wrap_message_key(cx: &mut Write<'_>, workspace: WorkspaceId, row: &ExportRow) -> Result<StoredValue> {
    let id = |name: &str| match row.columns.get(name) {
        Some(StoredValue::Uuid(id)) => Some(*id),
        _ => None,
    };
    let (Some(key), Some(message), Some(thread)) = (row.content_key, id("id"), id("thread_id")) else {
        return Ok(StoredValue::Null);
    };
    let Some(StoredValue::Int(lsn)) = row.columns.get("lsn") else { return Ok(StoredValue::Null) };
    let author = id("author_id").map(MemberId::from);
    let lsn = *lsn;
    cx.in_workspace(workspace, |cx| {
        wrap_imported_key(cx, message.into(), thread.into(), author, lsn, key).map(StoredValue::Bytes)
    })
}

/// Inserts an event, with the columns that are derived from its payload.
pub(super) fn insert_event(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    payload: &str,
    columns: &EventColumns,
) -> Result<()> {
    let EventColumns { lsn, kind, at, subject, prev_hash, content_hash } = columns;
    cx.execute(
        1,
        INSERT_EVENT,
        &[
            &workspace,
            lsn,
            kind,
            at,
            &subject.channel_id,
            &subject.thread_id,
            &subject.member_id,
            prev_hash,
            content_hash,
            &payload,
        ],
    )
}

const INSERT_EVENT: &str = "
    insert into events (workspace_id, lsn, kind, at, channel_id, thread_id, member_id, prev_hash,
        content_hash, payload)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
