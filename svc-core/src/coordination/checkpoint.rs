//! Checkpoints: the progress of unfinished work, stored by the holder of a claim for the next holder.
//!
//! A thread has at most one checkpoint, the latest. The checkpoint survives the end of the claim, and the
//! next checkpoint replaces it; the event log records only that a checkpoint was stored. Under a legal hold,
//! replaced checkpoints are kept.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use crate::Result;
use crate::argument::{Argument, Field};
use crate::coordination::thread_row::Thread;
use crate::coordination::workers;
use crate::error::Error;
use crate::id::{MemberId, ThreadId};
use crate::limits::CHECKPOINT_MAX_BYTES;
use crate::log::canonical;
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{DestroyPermit, Feature, Read, Records, Write, purged};
use crate::schema::{BRIEF, SAMPLE};
use crate::store::{FromValue, Value as StoredValue, columns};
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new().events(vec![EventKind::of::<ClaimCheckpointed>()]).records(vec![
        Records::table(TABLE, "lsn thread_id")
            .through("thread_id", "threads")
            .ids("thread_id member_id")
            .times("at")
            .ints("lsn")
            .words("checkpoint", purge_checkpoints)
            .proven("thread_id", "member_id at lsn")
            .purge_removes_rows()
            .unproven("checkpoint", "content, which can be destroyed"),
    ])
}

/// The table that stores checkpoints.
const TABLE: &str = "claim_checkpoints";

/// The content of a new checkpoint: a JSON object, in canonical form.
#[derive(Debug, Serialize)]
pub struct NewCheckpoint(String);

impl Field for NewCheckpoint {}

impl Argument<NewCheckpoint> for Value {
    fn value(self) -> Value {
        self
    }
}

impl<'de> Deserialize<'de> for NewCheckpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Map::<String, Value>::deserialize(deserializer)?;
        let text = canonical::to_string(&members).map_err(|error| de::Error::custom(error.detail()))?;
        if text.len() > CHECKPOINT_MAX_BYTES {
            let length = text.len();
            return Err(de::Error::custom(format!(
                "{length} bytes as canonical JSON, expected at most {CHECKPOINT_MAX_BYTES}"
            )));
        }
        Ok(Self(text))
    }
}

impl JsonSchema for NewCheckpoint {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Checkpoint".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object", "additionalProperties": true, SAMPLE: {"done": "parser", "next": "tests"},
            "description": "Progress of the work, for the next holder of the claim: an object of at most \
                            8192 bytes of JSON, which replaces the last checkpoint. Numbers from 2^53 on \
                            are rejected: send them as strings.",
            BRIEF: "Progress of the work.",
        })
    }
}

/// The last checkpoint of a thread.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The content that the holder stored, with numbers in canonical form (RFC 8785).
    pub checkpoint: StoredContent,
    /// The member who stored the checkpoint.
    pub member_id: MemberId,
    /// Time at which the checkpoint was stored.
    pub at: Time,
    /// Position of the checkpoint's event in the workspace's log.
    pub lsn: i64,
}

/// The content of a stored checkpoint, as an object. Earlier versions accepted any JSON.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct StoredContent(Map<String, Value>);

impl std::ops::Deref for StoredContent {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl StoredContent {
    fn from_json(stored: Value) -> Self {
        // Models often send an object as a string.
        let written = stored.as_str().and_then(|text| serde_json::from_str(text).ok());
        Self(match (stored, written) {
            (Value::Object(members), _) | (_, Some(Value::Object(members))) => members,
            (other, _) => Map::from_iter([("checkpoint".to_owned(), other)]),
        })
    }
}

impl FromValue for StoredContent {
    fn from_value(value: StoredValue) -> Result<Self> {
        Value::from_value(value).map(Self::from_json)
    }
}

columns! { checkpoint_columns: Checkpoint as k { checkpoint, member_id, at, lsn } }

/// The holder of a claim stored a checkpoint.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ClaimCheckpointed {
    /// Id of the thread whose checkpoint was stored.
    thread_id: ThreadId,
    /// The length of the checkpoint as canonical JSON, in bytes.
    bytes: u64,
}

impl Event for ClaimCheckpointed {
    const KIND: &'static str = "ClaimCheckpointed";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let row = event.row_of(TABLE, "thread_id")?.made().set("member_id", event.subject());
        row.set("at", event.at()).set("lsn", event.lsn()).keep()?;
        workers::replay_delegate(event)
    }
}

/// Replaces a thread's checkpoint with a new one, or does nothing if there is no new checkpoint.
pub(in crate::coordination) fn replace_checkpoint(
    cx: &mut Write<'_>,
    thread: &Thread,
    checkpoint: Option<&NewCheckpoint>,
) -> Result<()> {
    let Some(NewCheckpoint(text)) = checkpoint else { return Ok(()) };
    if thread.has_checkpoint
        && let Some((version, before)) = cx.one::<(i64, String)>(LOAD_REPLACED, &[&thread.id])?
        && before != *text
    {
        cx.keep_replaced(TABLE, thread.id.uuid(), version, &before)?;
    }
    let member = cx.caller().member_id()?;
    let now = cx.now();
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let event = ClaimCheckpointed { thread_id: thread.id, bytes };
    let lsn = cx.emit(thread.place().about(member), &event)?.lsn;
    cx.execute(1, REPLACE, &[&thread.id, &member, &now, &lsn, text])?;
    workers::add_delegate(cx, thread.id, lsn)?;
    if !thread.has_checkpoint {
        cx.execute(1, SET_HAS_CHECKPOINT, &[&thread.id])?;
    }
    Ok(())
}

const LOAD_REPLACED: &str = "select lsn, checkpoint from claim_checkpoints where thread_id = $1";

const REPLACE: &str = "
    insert into claim_checkpoints (thread_id, member_id, at, lsn, checkpoint) values ($1, $2, $3, $4, $5)
    on conflict (thread_id) do update set
        member_id = excluded.member_id, at = excluded.at, lsn = excluded.lsn,
        checkpoint = excluded.checkpoint";

const SET_HAS_CHECKPOINT: &str = "update threads set has_checkpoint = true where id = $1";

/// Deletes the checkpoints that a purge covers, because a checkpoint without content is useless.
fn purge_checkpoints(
    cx: &mut Write<'_>,
    _: &DestroyPermit<'_>,
    (_, up_to): (i64, i64),
    limit: i64,
) -> Result<Option<(i64, i64)>> {
    let found: Vec<(ThreadId,)> = cx.query(TO_PURGE, &[&cx.caller().workspace_id, &up_to, &limit])?;
    for (thread,) in &found {
        cx.execute(1, PURGE, &[thread])?;
        cx.execute(1, CLEAR_HAS_CHECKPOINT, &[thread])?;
    }
    purged(u64::try_from(found.len()).map_err(Error::internal)?)
}

const TO_PURGE: &str = "
    select k.thread_id from claim_checkpoints k join threads t on t.id = k.thread_id
    where t.workspace_id = $1 and k.lsn <= $2 limit $3";

const PURGE: &str = "delete from claim_checkpoints where thread_id = $1";

const CLEAR_HAS_CHECKPOINT: &str = "update threads set has_checkpoint = false where id = $1";

/// Returns the last checkpoint of a thread, or `None` if no holder has stored one.
pub(in crate::coordination) fn last_checkpoint(cx: &Read<'_>, thread: &Thread) -> Result<Option<Checkpoint>> {
    if thread.has_checkpoint { cx.one(LAST, &[&thread.id]) } else { Ok(None) }
}

const LAST: &str =
    concat!("select ", checkpoint_columns!(), " from claim_checkpoints k where k.thread_id = $1");

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_checkpoint_is_an_object_whatever_was_stored() {
        for (stored, wanted) in [
            (json!({"a": 1}), json!({"a": 1})),
            (json!("{\"a\": 1}"), json!({"a": 1})),
            (json!("half done"), json!({"checkpoint": "half done"})),
            (json!("[1]"), json!({"checkpoint": "[1]"})),
            (json!([1]), json!({"checkpoint": [1]})),
            (json!(false), json!({"checkpoint": false})),
        ] {
            assert_eq!(serde_json::to_value(StoredContent::from_json(stored)).unwrap(), wanted);
        }
        for left in [json!("{}"), json!([]), json!(1)] {
            assert!(serde_json::from_value::<NewCheckpoint>(left.clone()).is_err(), "{left}");
        }
    }
}
