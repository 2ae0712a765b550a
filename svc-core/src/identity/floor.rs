//! The range of events in a workspace's log: from the floor, the oldest remaining event, to the head, the
//! newest one.
//!
//! A request for events before the floor fails. The error contains the floor and the address of a snapshot to
//! read instead.

use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::op::Read;

/// Range of positions whose events a log still contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRange {
    /// Position of the oldest remaining event; 1 if no events were pruned.
    pub floor: i64,
    /// Position of the newest event; 0 if the log has no events.
    pub head: i64,
}

impl LogRange {
    /// Reads the range of events in the log of the caller's workspace.
    pub fn read(cx: &Read<'_>) -> Result<Self> {
        Self::of(cx, cx.caller().workspace_id)
    }

    /// Reads the range of events in a workspace's log.
    pub fn of(cx: &Read<'_>, workspace: WorkspaceId) -> Result<Self> {
        let row: Option<(i64, i64)> = cx.one(LOG_RANGE, &[&workspace])?;
        Ok(row.map_or(Self { floor: 1, head: 0 }, |(floor, head)| Self { floor, head }))
    }

    /// Returns the position after which to read all remaining events: the one before the floor.
    pub fn beginning(self) -> i64 {
        self.floor.saturating_sub(1)
    }

    /// Returns whether the log contains all events after a position.
    ///
    /// A position after the head is from another history of the log, before an operator restored a backup.
    pub fn has_all_events_after(self, position: i64) -> bool {
        (self.beginning()..=self.head).contains(&position)
    }

    /// Returns the number of events in the log after a position, which may be outside the range.
    pub fn count_events_after(self, position: i64) -> i64 {
        self.head.saturating_sub(position.clamp(self.beginning(), self.head.max(self.beginning())))
    }

    /// Fails with 409 `must_refetch` unless the log contains all events after a position.
    pub fn check_has_all_events_after(self, workspace: WorkspaceId, position: i64) -> Result<()> {
        if self.has_all_events_after(position) { Ok(()) } else { Err(self.must_refetch(workspace)) }
    }

    /// Returns the error for a position after which the log does not contain all events.
    pub fn must_refetch(self, workspace: WorkspaceId) -> Error {
        Error::new(
            Code::MustRefetch,
            format!(
                "the log has the events from {} to {}, and not what follows the cursor",
                self.floor, self.head
            ),
        )
        .with("code", "CursorTooOld")
        .with("floor", self.floor)
        .with("snapshot", format!("/workspaces/{workspace}/snapshot"))
        .with("room_lsn", self.head)
    }

    /// Returns the hash of the event at a position, or `None` if the log has no event there, such as at
    /// position 0.
    pub fn event_hash_at(self, cx: &Read<'_>, position: i64) -> Result<Option<[u8; 32]>> {
        self.event_hash_in(cx, cx.caller().workspace_id, position)
    }

    /// Returns the hash of the event at a position in the log of `workspace`, or `None` if the log has no
    /// event there.
    pub fn event_hash_in(
        self,
        cx: &Read<'_>,
        workspace: WorkspaceId,
        position: i64,
    ) -> Result<Option<[u8; 32]>> {
        let row: Option<([u8; 32],)> = cx.one(EVENT_HASH, &[&workspace, &position])?;
        Ok(row.map(|(hash,)| hash))
    }
}

const LOG_RANGE: &str = "select floor, lsn from heads where workspace_id = $1";

const EVENT_HASH: &str = "select content_hash from events where workspace_id = $1 and lsn = $2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_in_the_log_from_before_its_floor_to_its_head() {
        let range = LogRange { floor: 5, head: 9 };
        let has: Vec<i64> = (-1..12).filter(|position| range.has_all_events_after(*position)).collect();
        assert_eq!(has, [4, 5, 6, 7, 8, 9]);
        let whole = LogRange { floor: 1, head: 0 };
        assert!(whole.has_all_events_after(0) && !whole.has_all_events_after(1));
        let counts = [-1, 4, 6, 9, i64::MAX].map(|position| range.count_events_after(position));
        assert_eq!((counts, whole.count_events_after(7)), ([5, 5, 3, 0, 0], 0));
        let error = range.check_has_all_events_after(WorkspaceId::INSTANCE, 3).unwrap_err();
        let problem = serde_json::to_value(error.problem()).unwrap();
        let code = &problem["code"];
        let floor = &problem["floor"];
        let head = &problem["room_lsn"];
        assert_eq!(
            (error.code(), code, floor, head),
            (Code::MustRefetch, &"CursorTooOld".into(), &5.into(), &9.into())
        );
    }
}
