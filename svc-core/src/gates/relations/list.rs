//! Listing the relations of a message, in both directions.

use uuid::Uuid;

use super::{Relation, is_kept, relation_columns, unresolved};
use crate::Result;
use crate::conversation::messages::{self, not_pruned};
use crate::conversation::visibility::visible;
use crate::coordination::workers::worked_on;
use crate::id::MessageId;
use crate::op::Read;
use crate::page::{Cursor, Limit, Page, ScanHorizon, rows_to_read};
use crate::request::request;
use crate::schema::brief;

request! {
    /// Returns the relations from and to a message, oldest first.
    ///
    /// Relations from or to messages that you may not see are omitted, so a page may be short or empty
    /// although more relations follow: continue while `next_cursor` is not null.
    #[schemars(transform = brief(""))]
    pub(super) struct ListMessageRelations {
        /// The message whose relations to list.
        message_id: MessageId,
        #[serde(default)]
        cursor: Option<Cursor<(i64, Uuid)>>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_message_relations(message_id: MessageId) -> Page<Relation, (i64, Uuid)>
}

pub(super) fn list_message_relations(
    cx: &Read<'_>,
    input: &ListMessageRelations,
) -> Result<Page<Relation, (i64, Uuid)>> {
    let message = messages::visible_message_place(cx, input.message_id)?.id;
    let (lsn, id) = input.cursor.map_or((0, Uuid::nil()), |cursor| cursor.0);
    let horizon = cx.horizon(RELATION_HORIZON, &[&message], lsn.saturating_sub(1))?;
    let last = horizon.up_to();
    let rows = rows_to_read(input.limit);
    let visibility = cx.caller().visibility.params();
    let found = cx.rows(RELATIONS_OF_MESSAGE, &visibility.and(&[&message, &lsn, &id, &last, &rows]))?;
    let horizon = ScanHorizon(horizon.0.map(|lsn| (lsn, Uuid::max())));
    Ok(Page::within(horizon, found, input.limit, |relation: &Relation| (relation.lsn, relation.id.uuid())))
}

/// Query for the scan horizon. Counts only relations to the message, because a message has few relations to
/// others.
const RELATION_HORIZON: &str =
    "select lsn from relations where to_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

const RELATIONS_OF_MESSAGE: &str = concat!(
    "select ",
    relation_columns!(),
    " from (
        select f.*, f.to_id as other_id, f.to_channel_id as other_channel_id
        from relations f where f.from_id = $5 and f.lsn >= $6 and f.lsn <= $8
        union all
        select t.*, t.from_id, t.from_channel_id
        from relations t where t.to_id = $5 and t.lsn >= $6 and t.lsn <= $8
     ) r join channels c on c.id = r.other_channel_id
     where (r.lsn, r.id) > ($6, $7) and ",
    is_kept!("other_id"),
    " and ",
    visible!(c),
    " order by r.lsn, r.id limit $9"
);
