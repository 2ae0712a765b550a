//! Citations: the messages that a message cites, and whether a cited text is still current.
//!
//! A message's metadata lists its citations, by address and hash. A citation of a message that the author may
//! see creates a relation of the kind `cites`. Such relations follow the content: they have no events of
//! their own but are part of the events with the content, an edit replaces them, and withdrawing the message
//! removes them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::content::Metadata;
use super::message_row::{MessagePlace, StoredMessage, not_pruned, visible_message};
use crate::Result;
use crate::conversation::uris::{Address, NamedObject};
use crate::conversation::visibility::{seen_channel, visible};
use crate::id::{ChannelId, MessageId, RelationId, ThreadId, WorkspaceId};
use crate::limits::PAGE_SCAN_MAX;
use crate::log::replay::{Replayed, RowChange};
use crate::op::{Read, Write};
use crate::store::{Engine, columns, new_row};
use crate::time::Time;

/// A cited message, at the place that the citing address contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CitedMessage {
    id: MessageId,
    channel_id: ChannelId,
    thread_id: ThreadId,
}

columns! { cited_columns: CitedMessage as m { id, channel_id, thread_id } }

/// Returns the messages of a workspace that the given metadata cites.
fn cited_in(metadata: &Metadata, workspace: WorkspaceId) -> BTreeSet<CitedMessage> {
    let citations = metadata.get("citations").and_then(Value::as_array).into_iter().flatten();
    let uris = citations.filter_map(|citation| citation.get("uri")?.as_str());
    let named = uris.filter_map(|uri| match Address::parse(uri)?.named {
        NamedObject::Message(at, channel_id, thread_id, id) if at == workspace => {
            Some(CitedMessage { id, channel_id, thread_id })
        }
        _ => None,
    });
    named.collect()
}

/// A relation that a citation creates, as part of the event with the content.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(super) struct Cites {
    /// Id of the relation.
    relation_id: RelationId,
    /// The cited message; null if not every member who sees the event may see that message.
    to_id: Option<MessageId>,
}

/// Changes of a message's relations because of its new content.
#[derive(Default)]
pub(super) struct CitationChange {
    made: Vec<(Cites, CitedMessage)>,
    ended: Vec<RelationId>,
}

impl CitationChange {
    /// Finds the citations of a new message. A message without citations causes no database reads.
    pub fn of_new(cx: &Write<'_>, from: &MessagePlace, metadata: &Metadata) -> Result<Self> {
        let cited = cited_in(metadata, cx.caller().workspace_id);
        Ok(Self { made: relations_to_add(cx, from, cited)?, ended: Vec::new() })
    }

    /// Finds the changes of relations that an edit of a message causes.
    pub fn of_edit(cx: &Write<'_>, from: &MessagePlace, [before, after]: [&Metadata; 2]) -> Result<Self> {
        let workspace = cx.caller().workspace_id;
        let [before, mut cited] = [before, after].map(|metadata| cited_in(metadata, workspace));
        if before == cited {
            return Ok(Self::default());
        }
        let recorded: Vec<(RelationId, MessageId, bool)> = cx.query(RECORDED, &[&from.id])?;
        let mut ended = Vec::new();
        for (id, to, derived) in recorded {
            let is_cited = cited.iter().any(|message| message.id == to);
            cited.retain(|message| message.id != to);
            if derived && !is_cited {
                ended.push(id);
            }
        }
        Ok(Self { made: relations_to_add(cx, from, cited)?, ended })
    }

    /// Returns the added relations, as the event contains them.
    pub fn made(&self) -> Vec<Cites> {
        self.made.iter().map(|(cites, _)| *cites).collect()
    }

    /// Returns the removed relations, as the event contains them.
    pub fn ended(&self) -> Vec<RelationId> {
        self.ended.clone()
    }

    /// Writes the rows of the relations, for the event at `lsn`.
    pub fn write(self, cx: &mut Write<'_>, from: &MessagePlace, (lsn, made_at): (i64, Time)) -> Result<()> {
        self.ended.iter().try_for_each(|id| cx.execute(1, REMOVE, &[id]))?;
        let workspace_id = cx.caller().workspace_id;
        for (cites, to) in self.made {
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

const RECORDED: &str = "select id, to_id, derived from relations where from_id = $1 and kind = 'cites'";

const REMOVE: &str = "delete from relations where id = $1 and derived";

/// Returns the relations to add, for the cited messages that the author may see.
fn relations_to_add(
    cx: &Write<'_>,
    from: &MessagePlace,
    mut cited: BTreeSet<CitedMessage>,
) -> Result<Vec<(Cites, CitedMessage)>> {
    cited.retain(|message| message.id != from.id);
    if cited.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = cited.iter().map(|message| message.id.uuid()).collect();
    let sql = match cx.engine() {
        Engine::Sqlite => VISIBLE_SQLITE,
        Engine::Postgres => VISIBLE_POSTGRES,
    };
    let visibility = cx.caller().visibility.params();
    let workspace = cx.caller().workspace_id;
    let found: Vec<CitedMessage> = cx.query(sql, &visibility.and(&[&workspace, &ids]))?;
    let made = found.into_iter().filter(|message| cited.contains(message)).map(|to| {
        let is_shown = to.channel_id == from.channel_id || !seen_channel(cx, to.channel_id)?.private;
        let cites = Cites { relation_id: cx.new_id()?, to_id: is_shown.then_some(to.id) };
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

const VISIBLE_SQLITE: &str = select_visible!("in (select unhex(value) from json_each($6))");

const VISIBLE_POSTGRES: &str = select_visible!("= any($6)");

/// Index of the relations by the message to which they lead, while a log is replayed.
const RELATIONS_BY_TARGET: &str = "relations to messages";

/// Returns the row of a relation between two messages that an event has added.
///
/// The second message is null if the event does not show it.
pub(crate) fn replay_made<'e>(
    event: &'e Replayed<'_>,
    id: &Value,
    [from, to]: [&Value; 2],
) -> Result<RowChange<'e>> {
    let relation = event.row("relations", [from.clone(), id.clone()])?.made();
    let relation = relation.set("made_at", event.at()).set("lsn", event.lsn());
    let relation = relation.clear("resolved_by").clear("resolved_actor_id").clear("resolved_at");
    let relation = at_end(event, relation, from, ["from_thread_id", "from_channel_id"])?;
    if to.is_null() {
        return Ok(relation);
    }
    event.row(RELATIONS_BY_TARGET, [to.clone(), from.clone(), id.clone()])?.keep()?;
    at_end(event, relation.set("to_id", to.clone()), to, ["to_thread_id", "to_channel_id"])
}

/// Sets the place of a message at one end of a relation. A message never moves to another thread.
fn at_end<'e>(
    event: &Replayed<'_>,
    relation: RowChange<'e>,
    message: &Value,
    [thread, channel]: [&str; 2],
) -> Result<RowChange<'e>> {
    let message = event.row("messages", [message.clone()])?;
    let place = |column: &str| message.value(column).cloned();
    Ok(relation.set_known(thread, place("thread_id")).set_known(channel, place("channel_id")))
}

/// Applies the changes of relations that follow from the content of an event, while a log is replayed.
pub(super) fn replay(event: &Replayed<'_>) -> Result<()> {
    let Some(from) = event.field("message_id") else { return Ok(()) };
    if event.field("cites").is_none() {
        return event.leaves_unreported("relations");
    }
    for cites in event.list("cites") {
        let id = cites.get("relation_id");
        let to = cites.get("to_id").unwrap_or(&Value::Null);
        let Some(id) = id else { continue };
        let relation = replay_made(event, id, [from, to])?.set("kind", KIND).set("derived", true);
        relation.set("made_by", event.member()).keep()?;
    }
    let mut ended = event.list("cites_no_more").iter();
    ended.try_for_each(|id| event.row("relations", [from.clone(), id.clone()])?.remove())
}

/// Removes the relations that lead to a message whose row is removed, while a log is replayed.
pub(super) fn replay_removed(event: &Replayed<'_>, message: &Value) -> Result<()> {
    event.rows(RELATIONS_BY_TARGET, std::slice::from_ref(message), |leading| {
        let relation = leading.key().get(1..).unwrap_or_default().to_vec();
        leading.forget()?;
        event.row("relations", relation)?.remove()
    })
}

/// Whether the text that an address cites is still current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cited {
    /// The address does not cite a text.
    None,
    /// The cited text is current.
    Current,
    /// The message has been edited since the cited text.
    Superseded,
    /// The message is withdrawn.
    Withdrawn,
    /// The message never had the cited text, or had it so long ago that it is no longer known.
    Mismatch,
}

/// A message that an address refers to, with the state of the cited text.
pub(crate) struct CitableMessage {
    pub place: MessagePlace,
    pub content_hash: Option<[u8; 32]>,
    pub cited: Cited,
    /// Number of the cited text, if a later text superseded it.
    pub edit: Option<i64>,
}

/// Returns a message that the caller may see, and the state of its text with the given hash.
pub(crate) fn find_cited(cx: &Read<'_>, id: MessageId, hash: Option<[u8; 32]>) -> Result<CitableMessage> {
    let stored = visible_message(cx, id)?;
    let place = MessagePlace::of(&stored);
    let content_hash = stored.content_hash;
    let found = |cited, edit| Ok(CitableMessage { place, content_hash, cited, edit });
    let Some(hash) = hash else { return found(Cited::None, None) };
    let is_last = content_hash == Some(hash);
    let number = if is_last { Some(stored.edits) } else { number_of(cx, &stored, hash)? };
    match number {
        None => found(Cited::Mismatch, None),
        Some(_) if stored.withdrawn => found(Cited::Withdrawn, None),
        Some(number) if number == stored.edits => found(Cited::Current, None),
        Some(number) => found(Cited::Superseded, Some(number)),
    }
}

/// Returns the number of the message's text whose event has the given hash, among the last 2000 texts.
fn number_of(cx: &Read<'_>, stored: &StoredMessage, hash: [u8; 32]) -> Result<Option<i64>> {
    let found: Option<(Option<i64>,)> =
        cx.one(NUMBER, &[&stored.id, &stored.workspace_id, &hash, &stored.lsn, &PAGE_SCAN_MAX])?;
    Ok(found.and_then(|(number,)| number))
}

/// SQL query for the number of the text whose event has the hash `$3`.
///
/// A row of `message_edits` has the number of an earlier text and the position of the edit that replaced it.
const NUMBER: &str = "
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
        assert_eq!(cited_in(&citing(&uris), here), BTreeSet::from([cited]));
        assert_eq!(cited_in(&citing(&uris), WorkspaceId::from(c)), BTreeSet::new());
        assert_eq!(cited_in(&Metadata::new(), here), BTreeSet::new());
    }
}
