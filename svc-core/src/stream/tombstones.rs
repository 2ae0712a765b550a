//! Tombstones: records of withdrawn messages, back to the floor of the log.
//!
//! Tombstones are read from events, so they can include messages whose rows were purged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::capability::Capability::WorkspaceRead;
use crate::conversation::messages::find_purged;
use crate::conversation::visibility::visible_at;
use crate::error::{Error, Result};
use crate::id::{ChannelId, MemberId, MessageId, ThreadId};
use crate::identity::floor::LogRange;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::op::{Operation, Read, read};
use crate::page::Limit;
use crate::page::{Cursor, Page, ScanHorizon, rows_to_read};
use crate::request::request;
use crate::store::columns;
use crate::text::Count;
use crate::time::Time;

/// Default number of tombstones per page.
const DEFAULT_LIMIT: i64 = 100;

pub(super) fn operation() -> Operation {
    read("list_tombstones", list_tombstones)
        .title("List withdrawn messages")
        .when(
            "List withdrawn messages, in the order of withdrawal, such as to remove them from a copy of the \
             log.",
        )
        .detailed()
        .get("/workspaces/{workspace_id}/tombstones")
        .needs(&[WorkspaceRead])
        .example(|w| json!({"workspace_id": w.id("workspace"), "include_purged": true, "limit": 10}))
}

request! {
    /// Returns the messages that were withdrawn, in the order of withdrawal.
    ///
    /// Messages in channels that you may not see are omitted, and purged messages unless `include_purged` is
    /// set.
    ///
    /// Withdrawals before the oldest position that the log retains are not listed. One page covers up to 2000
    /// withdrawals, so it may be short or empty although there are more: continue while `next_cursor` is not
    /// null.
    struct ListTombstones {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Only messages in this channel.
        channel_id: Option<ChannelId>,
        /// Only messages in this thread.
        thread_id: Option<ThreadId>,
        /// Whether to include messages that were purged.
        #[serde(default)]
        include_purged: bool,
        cursor: Option<Cursor>,
        /// Maximum tombstones per page. Default: 100.
        limit: Option<Count<1, 500>>,
    }

    list_tombstones() -> Page<Tombstone>
}

/// A record of a withdrawn message.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Tombstone {
    /// Id of the withdrawn message.
    pub message_id: MessageId,
    /// Id of the channel that contained the message.
    pub channel_id: ChannelId,
    /// Id of the thread that contained the message.
    pub thread_id: ThreadId,
    /// Id of the author of the message; null if the service posted it.
    pub author_id: Option<MemberId>,
    /// Id of the member who withdrew the message; null if the service withdrew it.
    pub withdrawn_by: Option<MemberId>,
    /// When the message was withdrawn.
    pub withdrawn_at: Time,
    /// Whether the message was purged later.
    pub purged: bool,
    /// The position of the withdrawal in the log.
    pub lsn: i64,
}

/// The event that records a withdrawal.
struct WithdrawalEvent {
    lsn: i64,
    at: Time,
    channel_id: ChannelId,
    thread_id: ThreadId,
    payload: Value,
}

columns! {
    withdrawal_columns: WithdrawalEvent as e { lsn, at, channel_id, thread_id, payload }
}

/// The payload of the event that records a withdrawal.
#[derive(Deserialize)]
struct WithdrawalPayload {
    message_id: MessageId,
    author_id: Option<MemberId>,
    withdrawn_by: Option<MemberId>,
}

fn list_tombstones(cx: &Read<'_>, input: &ListTombstones) -> Result<Page<Tombstone>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let limit = Limit::new(input.limit.map_or(DEFAULT_LIMIT, Count::get)).map_err(Error::internal)?;
    let after = Cursor::after(input.cursor).max(LogRange::read(cx)?.beginning());
    let row_limit = rows_to_read(Some(limit));
    let horizon: ScanHorizon = cx.horizon(SELECT_HORIZON, &[&workspace_id], after)?;
    let visibility = cx.caller().visibility.params();
    let last = horizon.up_to();
    let ListTombstones { channel_id, thread_id, .. } = input;
    let params = visibility.and(&[&workspace_id, &after, &last, channel_id, thread_id, &row_limit]);
    let page =
        Page::within(horizon, cx.rows(SELECT_PAGE, &params)?, Some(limit), |event: &WithdrawalEvent| {
            event.lsn
        });
    let withdrawn = page.try_map(|event| {
        let what: WithdrawalPayload =
            serde_json::from_value(event.payload.clone()).map_err(Error::internal)?;
        Ok((event, what))
    })?;
    let ids: Vec<MessageId> = withdrawn.items().iter().map(|(_, what)| what.message_id).collect();
    let purged = find_purged(cx, &ids)?;
    withdrawn.try_filter_map(|(event, what)| {
        let WithdrawalPayload { message_id, author_id, withdrawn_by } = what;
        let WithdrawalEvent { lsn, at: withdrawn_at, channel_id, thread_id, .. } = event;
        let purged = purged.contains(&message_id);
        let tombstone = Tombstone {
            message_id,
            channel_id,
            thread_id,
            author_id,
            withdrawn_by,
            withdrawn_at,
            purged,
            lsn,
        };
        Ok(Some(tombstone).filter(|_| input.include_purged || !purged))
    })
}

/// Reads by the index of withdrawals, as [`SELECT_HORIZON`] does. The index contains only `MessageTombstoned`
/// events.
const SELECT_PAGE: &str = concat!(
    "select ",
    withdrawal_columns!(),
    " from events e left join channels c on c.id = e.channel_id
     where e.workspace_id = $5 and e.kind = 'MessageTombstoned' and e.lsn > $6 and e.lsn <= $7
       and (cast($8 as uuid) is null or e.channel_id = $8)
       and (cast($9 as uuid) is null or e.thread_id = $9) and ",
    visible_at!("e.channel_id", c),
    " order by e.lsn limit $10"
);

const SELECT_HORIZON: &str = "
    select lsn from events where workspace_id = $1 and kind = 'MessageTombstoned' and lsn > $2
    order by lsn limit 1 offset $3";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::messages::MessageTombstoned;
    use crate::log::event::Event as _;

    #[test]
    fn the_statements_name_the_kind_of_a_withdrawal() {
        for sql in [SELECT_PAGE, SELECT_HORIZON] {
            assert!(sql.contains(&format!("kind = '{}'", MessageTombstoned::KIND)));
        }
    }
}
