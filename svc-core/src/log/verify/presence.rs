//! Checks that a database contains all logs and audit rows that it should contain.
//!
//! Every workspace that is listed in the instance's log must have a log, every workspace with data must be
//! listed there, and there must be as many audit rows as each head row counts. A service may write during the
//! check. Stored data is therefore read before the entries that require it, or after them if a surplus is the
//! defect.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::Deserialize;
use uuid::Uuid;

use super::super::event::{Event, WorkspaceCreated, WorkspaceErased, WorkspaceImported};
use crate::Result;
use crate::id::WorkspaceId;
use crate::store::{Conn, ToParam};

/// The workspaces that have rows, and the workspaces that the instance's log lists.
pub(super) struct WorkspacePresence {
    /// Workspaces with a workspace row, a head row or events.
    stored: BTreeSet<WorkspaceId>,
    /// Workspaces that are listed in the instance's log.
    listed: BTreeSet<WorkspaceId>,
    /// Whether any data is stored under an invalid id.
    pub has_stray_rows: bool,
}

impl WorkspacePresence {
    pub fn read(conn: &Conn) -> Result<Self> {
        let known = query_workspace_ids(conn, SELECT_KNOWN_WORKSPACES, &[])?;
        let mut has_stray_rows = known.contains(&None);
        let mut stored: BTreeSet<WorkspaceId> = known.into_iter().flatten().collect();
        has_stray_rows |= !query_workspace_ids(conn, SELECT_EVENTS_BELOW_NIL, &[&Uuid::nil()])?.is_empty();
        has_stray_rows |= add_workspaces_of_events(conn, &mut stored)?;
        for hidden in query_workspace_ids(conn, SELECT_HIDDEN_WORKSPACES, &[])?.into_iter().flatten() {
            stored.remove(&hidden);
        }
        // Read after the stored data, because the transaction that creates a workspace also lists it.
        Ok(Self { stored, listed: listed_workspaces(conn)?, has_stray_rows })
    }

    /// Iterates over all workspaces that have a log or should have one, ordered by id. The instance comes
    /// first.
    pub fn workspaces(&self) -> impl Iterator<Item = WorkspaceId> {
        let all: BTreeSet<WorkspaceId> =
            self.stored.iter().chain(&self.listed).copied().chain([WorkspaceId::INSTANCE]).collect();
        all.into_iter()
    }

    /// Returns whether the database has any workspace apart from the instance.
    pub fn has_workspaces(&self) -> bool {
        self.stored.iter().chain(&self.listed).any(|workspace_id| *workspace_id != WorkspaceId::INSTANCE)
    }

    /// Returns whether the instance's log lists any workspace.
    pub fn has_listed_workspaces(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Returns whether a workspace has data but is not listed in the instance's log.
    pub fn is_unlisted(&self, workspace_id: WorkspaceId) -> bool {
        workspace_id != WorkspaceId::INSTANCE
            && self.stored.contains(&workspace_id)
            && !self.listed.contains(&workspace_id)
    }
}

const SELECT_KNOWN_WORKSPACES: &str = "select workspace_id from heads union select id from workspaces";

/// Selects the next workspace with events. This is cheaper than reading the workspace of every event.
const SELECT_NEXT_WORKSPACE: &str =
    "select workspace_id from events where workspace_id >= $1 order by workspace_id limit 1";

/// Selects events whose workspace id sorts before the nil id, and is therefore invalid.
///
/// On SQLite a column can contain any value. Values that are not blobs sort before the nil id.
const SELECT_EVENTS_BELOW_NIL: &str = "select workspace_id from events where workspace_id < $1 limit 1";

/// Reads the workspace ids that a statement selects, with `None` for a value that is not an id.
fn query_workspace_ids(
    conn: &Conn,
    sql: &'static str,
    params: &[&dyn ToParam],
) -> Result<Vec<Option<WorkspaceId>>> {
    let mut workspace_ids = Vec::new();
    conn.visit(sql, params, &mut |row| {
        workspace_ids.push(row.id(0).flatten().map(Into::into));
        ControlFlow::Continue(())
    })?;
    Ok(workspace_ids)
}

/// Adds every workspace with events to `stored`. Returns whether an event has an invalid workspace id.
fn add_workspaces_of_events(conn: &Conn, stored: &mut BTreeSet<WorkspaceId>) -> Result<bool> {
    let mut from = Some(Uuid::nil());
    while let Some(least) = from {
        from = match query_workspace_ids(conn, SELECT_NEXT_WORKSPACE, &[&least])?.pop() {
            None => None,
            Some(Some(workspace_id)) => {
                stored.insert(workspace_id);
                workspace_id.uuid().as_u128().checked_add(1).map(Uuid::from_u128)
            }
            // The value is not 16 bytes long, so the walk cannot continue from here.
            Some(None) => return Ok(true),
        };
    }
    Ok(false)
}

const SELECT_LISTING_EVENTS: &str = "
    select payload, kind from events where workspace_id = $1 and kind in ($2, $3, $4) order by lsn";

/// Selects workspaces that are being imported or erased, which are hidden and need no log.
const SELECT_HIDDEN_WORKSPACES: &str = "select id from workspaces where state <> 'live'";

/// The workspace of an event that creates, imports or erases a workspace.
#[derive(Deserialize)]
struct EventWorkspace {
    workspace_id: WorkspaceId,
}

/// Reads the workspaces that are listed in the instance's log. Unreadable events list none; verifying the
/// chain reveals them.
pub(crate) fn listed_workspaces(conn: &Conn) -> Result<BTreeSet<WorkspaceId>> {
    let mut named = BTreeSet::new();
    let kinds = [WorkspaceCreated::KIND, WorkspaceImported::KIND, WorkspaceErased::KIND];
    conn.visit(
        SELECT_LISTING_EVENTS,
        &[&WorkspaceId::INSTANCE, &kinds[0], &kinds[1], &kinds[2]],
        &mut |row| {
            let read = row.text(0).and_then(|payload| serde_json::from_str::<EventWorkspace>(payload).ok());
            match read {
                Some(EventWorkspace { workspace_id }) if row.text(1) == Some(WorkspaceErased::KIND) => {
                    named.remove(&workspace_id);
                }
                Some(EventWorkspace { workspace_id }) => drop(named.insert(workspace_id)),
                None => {}
            }
            ControlFlow::Continue(())
        },
    )?;
    Ok(named)
}

const SELECT_LOG_ROWS: &str = "
    select workspace_id from heads where workspace_id = $1
    union all
    select workspace_id from events where workspace_id = $1 limit 1";

/// Returns whether a workspace has a head row or an event.
pub(super) fn has_log(conn: &Conn, workspace_id: WorkspaceId) -> Result<bool> {
    Ok(!query_workspace_ids(conn, SELECT_LOG_ROWS, &[&workspace_id])?.is_empty())
}

/// Maximum audit rows counted by one statement.
const AUDIT_PAGE_ROWS: i64 = 65_536;

/// Selects audit rows before the first position, where none may exist.
const SELECT_AUDIT_BEFORE_FIRST: &str =
    "select seq from audit where workspace_id = $1 and seq < 1 order by seq limit 1";

const SELECT_LAST_AUDIT: &str = "select seq from audit where workspace_id = $1 order by seq desc limit 1";

const SELECT_AUDIT_SEQ: &str = "select audit_seq from heads where workspace_id = $1";

const COUNT_AUDIT: &str = "
    select count(*), coalesce(max(seq), 0) from (
        select seq from audit where workspace_id = $1 and seq > $2 order by seq limit $3) page";

const SELECT_AUDIT_ROWS: &str =
    "select seq from audit where workspace_id = $1 and seq > $2 order by seq limit $3";

/// Returns the position of the first audit row that is missing, or that is at an impossible position.
///
/// Audit rows are numbered from 1 without gaps, up to the number in the head row.
pub(super) fn first_invalid_audit_seq(conn: &Conn, workspace_id: WorkspaceId) -> Result<Option<i64>> {
    if let Some(before) = query_int_columns(conn, SELECT_AUDIT_BEFORE_FIRST, &[&workspace_id])?.first() {
        return Ok(Some(*before));
    }
    let last = query_int_columns(conn, SELECT_LAST_AUDIT, &[&workspace_id])?.first().copied().unwrap_or(0);
    // Read after the rows, because the transaction that adds rows also updates the number.
    let expected_last =
        query_int_columns(conn, SELECT_AUDIT_SEQ, &[&workspace_id])?.first().copied().unwrap_or(0);
    let mut complete_up_to = 0;
    while complete_up_to < expected_last {
        let page = expected_last.saturating_sub(complete_up_to).min(AUDIT_PAGE_ROWS);
        let dense = complete_up_to.saturating_add(page);
        if query_int_columns(conn, COUNT_AUDIT, &[&workspace_id, &complete_up_to, &page])? != [page, dense] {
            return first_missing_audit_seq(conn, workspace_id, complete_up_to).map(Some);
        }
        complete_up_to = dense;
    }
    Ok((last > expected_last).then(|| expected_last.saturating_add(1)))
}

/// Returns the first position after `complete_up_to` at which there is no audit row.
fn first_missing_audit_seq(conn: &Conn, workspace_id: WorkspaceId, complete_up_to: i64) -> Result<i64> {
    let mut next = complete_up_to.saturating_add(1);
    conn.visit(SELECT_AUDIT_ROWS, &[&workspace_id, &complete_up_to, &AUDIT_PAGE_ROWS], &mut |row| {
        if row.int(0) == Some(next) {
            next = next.saturating_add(1);
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(())
    })?;
    Ok(next)
}

/// Reads the columns of a statement's only row, which are numbers. Any other value counts as -1.
fn query_int_columns(conn: &Conn, sql: &'static str, params: &[&dyn ToParam]) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    conn.visit(sql, params, &mut |row| {
        found = (0..2)
            .map_while(|place| row.column(place).is_ok().then(|| row.int(place).unwrap_or(-1)))
            .collect();
        ControlFlow::Break(())
    })?;
    Ok(found)
}
