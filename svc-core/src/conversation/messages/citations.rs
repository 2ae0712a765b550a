//! Citations: references from a message to other messages, and whether the cited texts are still current.
//!
//! A message's metadata lists its citations, by address and hash. A citation of a message that the author may
//! see creates a relation of the kind `cites`. These relations are derived from the content: the events of
//! the content contain them, an edit replaces them, and withdrawing the message removes them. There are no
//! separate events for these relations.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::content::Metadata;
use super::message_row::{MessagePlace, StoredMessage, not_pruned, visible_message};
use crate::Result;
use crate::conversation::uris::{Address, AddressTarget};
use crate::conversation::visibility::{visible, visible_channel_unaudited};
use crate::id::{ChannelId, MessageId, RelationId, ThreadId, WorkspaceId};
use crate::limits::PAGE_SCAN_MAX;
use crate::log::replay::{ReplayedEvent, RowChange};
use crate::op::{Read, Write};
use crate::store::{Engine, columns, new_row};
use crate::time::Time;

/// A cited message, with the channel and the thread that its address contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CitedMessage {
    id: MessageId,
    channel_id: ChannelId,
    thread_id: ThreadId,
}

columns! { cited_columns: CitedMessage as m { id, channel_id, thread_id } }

/// Returns the messages of `workspace` that the metadata cites.
fn cited_messages(metadata: &Metadata, workspace: WorkspaceId) -> BTreeSet<CitedMessage> {
    let citations = metadata.get("citations").and_then(Value::as_array).into_iter().flatten();
    let uris = citations.filter_map(|citation| citation.get("uri")?.as_str());
    let named = uris.filter_map(|uri| match Address::parse(uri)?.target {
        AddressTarget::Message(at, channel_id, thread_id, id) if at == workspace => {
            Some(CitedMessage { id, channel_id, thread_id })
        }
        _ => None,
    });
    named.collect()
}

/// A relation that a citation creates, as the event of the citing content contains it.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "Cites")]
pub(super) struct CitationRelation {
    /// Id of the relation.
    relation_id: RelationId,
    /// Id of the cited message; null if some members who may see the event may not see the cited message.
    to_id: Option<MessageId>,
}

/// The relations that are added and removed because a message has new content.
#[derive(Default)]
pub(super) struct CitationChange {
    added: Vec<(CitationRelation, CitedMessage)>,
    removed: Vec<RelationId>,
}

impl CitationChange {
    /// Determines the relations of a new message. A message without citations causes no database reads.
    pub fn for_new_message(cx: &Write<'_>, from: &MessagePlace, metadata: &Metadata) -> Result<Self> {
        let cited = cited_messages(metadata, cx.caller().workspace_id);
        Ok(Self { added: relations_to_add(cx, from, cited)?, removed: Vec::new() })
    }

    /// Determines which relations an edit of a message adds and removes.
    pub fn for_edit(cx: &Write<'_>, from: &MessagePlace, [before, after]: [&Metadata; 2]) -> Result<Self> {
        let workspace = cx.caller().workspace_id;
        let [before, mut cited] = [before, after].map(|metadata| cited_messages(metadata, workspace));
        if before == cited {
            return Ok(Self::default());
        }
        let recorded: Vec<(RelationId, MessageId, bool)> = cx.query(RELATIONS_FROM_MESSAGE, &[&from.id])?;
        let mut removed = Vec::new();
        for (id, to, derived) in recorded {
            let is_cited = cited.iter().any(|message| message.id == to);
            cited.retain(|message| message.id != to);
            if derived && !is_cited {
                removed.push(id);
            }
        }
        Ok(Self { added: relations_to_add(cx, from, cited)?, removed })
    }

    /// Returns the added relations, for the event of the content.
    pub fn added_relations(&self) -> Vec<CitationRelation> {
        self.added.iter().map(|(cites, _)| *cites).collect()
    }

    /// Returns the ids of the removed relations, for the event of the content.
    pub fn removed_relation_ids(&self) -> Vec<RelationId> {
        self.removed.clone()
    }

    /// Inserts and deletes the rows of the relations, on behalf of the event at `lsn`.
    pub fn write_rows(
        self,
        cx: &mut Write<'_>,
        from: &MessagePlace,
        (lsn, made_at): (i64, Time),
    ) -> Result<()> {
        self.removed.iter().try_for_each(|id| cx.execute(1, DELETE_RELATION, &[id]))?;
        let workspace_id = cx.caller().workspace_id;
        for (cites, to) in self.added {
            cx.insert(&new_row!("insert into relations" {
                id: cites.relation_id, workspace_id, kind: KIND, from_id: from.id,
                from_thread_id: from.thread_id, from_channel_id: from.channel_id, to_id: to.id,
                to_thread_id: to.thread_id, to_channel_id: to.channel_id, derived: true,
                made_by: from.author_id, made_at, lsn
            }))?;
        }
        Ok(())
    }
}

/// Kind of the relations that citations create.
const KIND: &str = "cites";

const RELATIONS_FROM_MESSAGE: &str =
    "select id, to_id, derived from relations where from_id = $1 and kind = 'cites'";

const DELETE_RELATION: &str = "delete from relations where id = $1 and derived";

/// Creates a relation for each cited message that the caller may see.
fn relations_to_add(
    cx: &Write<'_>,
    from: &MessagePlace,
    mut cited: BTreeSet<CitedMessage>,
) -> Result<Vec<(CitationRelation, CitedMessage)>> {
    cited.retain(|message| message.id != from.id);
    if cited.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = cited.iter().map(|message| message.id.uuid()).collect();
    let sql = match cx.engine() {
        Engine::Sqlite => VISIBLE_CITED_SQLITE,
        Engine::Postgres => VISIBLE_CITED_POSTGRES,
    };
    let visibility = cx.caller().visibility.params();
    let workspace = cx.caller().workspace_id;
    let found: Vec<CitedMessage> = cx.query(sql, &visibility.and(&[&workspace, &ids]))?;
    let made = found.into_iter().filter(|message| cited.contains(message)).map(|to| {
        let is_shown =
            to.channel_id == from.channel_id || !visible_channel_unaudited(cx, to.channel_id)?.private;
        let cites = CitationRelation { relation_id: cx.new_id()?, to_id: is_shown.then_some(to.id) };
        Ok((cites, to))
    });
    made.collect()
}

macro_rules! select_visible {
    ($which:literal) => {
        concat!(
            "select ",
            cited_columns!(),
            " from messages m join channels c on c.id = m.channel_id
              where m.workspace_id = $5 and m.withdrawn_at is null and ",
            not_pruned!(),
            " and ",
            visible!(c),
            " and m.id ",
            $which
        )
    };
}

const VISIBLE_CITED_SQLITE: &str = select_visible!("in (select unhex(value) from json_each($6))");

const VISIBLE_CITED_POSTGRES: &str = select_visible!("= any($6)");

/// Name of the index of relations by target message, which exists only while a log is replayed.
const RELATIONS_BY_TARGET: &str = "relations to messages";

/// Replays the creation of a relation from one message to another, and returns the row of the relation.
///
/// The id of the target message is null if the event does not contain it.
pub(crate) fn replay_created_relation<'e>(
    event: &'e ReplayedEvent<'_>,
    id: &Value,
    [from, to]: [&Value; 2],
) -> Result<RowChange<'e>> {
    let relation = event.row("relations", [from.clone(), id.clone()])?.made();
    let relation = relation.set("made_at", event.at()).set("lsn", event.lsn());
    let relation = relation.clear("resolved_by").clear("resolved_actor_id").clear("resolved_at");
    let relation = set_relation_endpoint(event, relation, from, ["from_thread_id", "from_channel_id"])?;
    if to.is_null() {
        return Ok(relation);
    }
    event.row(RELATIONS_BY_TARGET, [to.clone(), from.clone(), id.clone()])?.keep()?;
    set_relation_endpoint(event, relation.set("to_id", to.clone()), to, ["to_thread_id", "to_channel_id"])
}

/// Sets the thread and the channel of the message at one end of a relation. A message never changes its
/// thread.
fn set_relation_endpoint<'e>(
    event: &ReplayedEvent<'_>,
    relation: RowChange<'e>,
    message: &Value,
    [thread, channel]: [&str; 2],
) -> Result<RowChange<'e>> {
    let message = event.row("messages", [message.clone()])?;
    let place = |column: &str| message.value(column).cloned();
    Ok(relation.set_known(thread, place("thread_id")).set_known(channel, place("channel_id")))
}

/// Replays the changes of relations that the citations in an event's content cause.
pub(super) fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
    let Some(from) = event.field("message_id") else { return Ok(()) };
    if event.field("cites").is_none() {
        return event.mark_unreported("relations");
    }
    for cites in event.list("cites") {
        let id = cites.get("relation_id");
        let to = cites.get("to_id").unwrap_or(&Value::Null);
        let Some(id) = id else { continue };
        let relation = replay_created_relation(event, id, [from, to])?.set("kind", KIND).set("derived", true);
        relation.set("made_by", event.member()).keep()?;
    }
    let mut ended = event.list("cites_no_more").iter();
    ended.try_for_each(|id| event.row("relations", [from.clone(), id.clone()])?.remove())
}

/// Replays the removal of the relations to a message whose row is removed.
pub(super) fn replay_removed_relations(event: &ReplayedEvent<'_>, message: &Value) -> Result<()> {
    event.rows(RELATIONS_BY_TARGET, std::slice::from_ref(message), |leading| {
        let relation = leading.key().get(1..).unwrap_or_default().to_vec();
        leading.forget()?;
        event.row("relations", relation)?.remove()
    })
}

/// State of the text that an address cites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Cited")]
#[non_exhaustive]
pub enum CitationState {
    /// The address does not cite a text.
    None,
    /// The cited text is current.
    Current,
    /// A later edit has replaced the cited text.
    Superseded,
    /// The message is withdrawn.
    Withdrawn,
    /// The cited hash does not match any known text of the message or object.
    Mismatch,
}

/// A message to which an address leads, with the state of the cited text.
pub(crate) struct CitableMessage {
    pub place: MessagePlace,
    pub content_hash: Option<[u8; 32]>,
    pub cited: CitationState,
    /// Number of the cited text; `None` if no later text superseded the cited text.
    pub edit: Option<i64>,
}

/// Loads a message that the caller may see, and returns the state of the text that the hash cites.
pub(crate) fn find_cited_message(
    cx: &Read<'_>,
    id: MessageId,
    hash: Option<[u8; 32]>,
) -> Result<CitableMessage> {
    let stored = visible_message(cx, id)?;
    let place = MessagePlace::from_stored(&stored);
    let content_hash = stored.content_hash;
    let found = |cited, edit| Ok(CitableMessage { place, content_hash, cited, edit });
    let Some(hash) = hash else { return found(CitationState::None, None) };
    let is_last = content_hash == Some(hash);
    let number = if is_last { Some(stored.edits) } else { find_cited_edit(cx, &stored, hash)? };
    match number {
        None => found(CitationState::Mismatch, None),
        Some(_) if stored.withdrawn => found(CitationState::Withdrawn, None),
        Some(number) if number == stored.edits => found(CitationState::Current, None),
        Some(number) => found(CitationState::Superseded, Some(number)),
    }
}

/// Returns the number of the text whose event has the given hash. Searches the text as posted and the last
/// 2000 edits.
fn find_cited_edit(cx: &Read<'_>, stored: &StoredMessage, hash: [u8; 32]) -> Result<Option<i64>> {
    let found: Option<(Option<i64>,)> =
        cx.one(CITED_TEXT_NUMBER, &[&stored.id, &stored.workspace_id, &hash, &stored.lsn, &PAGE_SCAN_MAX])?;
    Ok(found.and_then(|(number,)| number))
}

/// SQL query for the number of the text whose event has the hash `$3`.
///
/// A row of `message_edits` contains the number of an earlier text, and the position of the edit that
/// replaced that text.
const CITED_TEXT_NUMBER: &str = "
    select max(t.number) from (
        select cast(0 as bigint) as number, cast($4 as bigint) as lsn
        union all
        select * from (
            select x.edit + 1, x.lsn from message_edits x where x.message_id = $1
            order by x.edit desc limit $5
        ) edited
    ) t join events e on e.workspace_id = $2 and e.lsn = t.lsn
    where e.content_hash = $3";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn citations_of_messages_of_the_workspace_are_found_once() {
        let [w, c, t, m] = [1, 2, 3, 4].map(Uuid::from_u128);
        let message = format!("svc://{w}/channels/{c}/threads/{t}/messages/{m}");
        let hash = format!("sha256:{}", "0f".repeat(32));
        let citing = |uris: &[&str]| {
            let citations: Vec<Value> =
                uris.iter().map(|uri| json!({"uri": uri, "content_hash": hash})).collect();
            json!({"citations": citations}).as_object().unwrap().clone()
        };
        let here = WorkspaceId::from(w);
        let with_hash = format!("{message}#{hash}");
        let others = ["svc:event/1", "https://example.org", &format!("svc://{c}")];
        let uris = [&[message.as_str(), &with_hash], &others[..]].concat();
        let cited = CitedMessage { id: m.into(), channel_id: c.into(), thread_id: t.into() };
        assert_eq!(cited_messages(&citing(&uris), here), BTreeSet::from([cited]));
        assert_eq!(cited_messages(&citing(&uris), WorkspaceId::from(c)), BTreeSet::new());
        assert_eq!(cited_messages(&Metadata::new(), here), BTreeSet::new());
    }
}
