//! The rows of footprints: equal footprints of a workspace are stored once, under a small id.
//!
//! A row is never changed or removed, so an id always identifies the same footprint; the id 0 means no
//! footprint. Stored items therefore keep their form when a rule about items changes; only the comparison of
//! items follows the new rule.

use serde_json::Value as Json;

use crate::Result;
use crate::error::Error;
use crate::hash::sha256;
use crate::log::replay::ReplayedEvent;
use crate::op::{Read, RowColumns, Write};
use crate::store::{Engine, FromRow, FromValue, Row, Value, new_row};

use super::value::{Footprint, FootprintItem, FootprintMode, StoredItem};
use crate::limits::FOOTPRINT_ITEMS_MAX;
use crate::text::Items;

/// The items of a stored footprint.
pub(crate) struct StoredItems(pub Items<FootprintItem, FOOTPRINT_ITEMS_MAX>);

impl FromValue for StoredItems {
    fn from_value(value: Value) -> Result<Self> {
        let stored: Items<StoredItem, FOOTPRINT_ITEMS_MAX> =
            serde_json::from_str(&String::from_value(value)?).map_err(Error::internal)?;
        stored.try_map(FootprintItem::try_from).map(Self).map_err(Error::internal)
    }
}

impl FromValue for FootprintMode {
    fn from_value(value: Value) -> Result<Self> {
        let name = String::from_value(value)?;
        let found = [Self::Exclusive, Self::Shared].into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| Error::internal(format!("a footprint has the unknown mode {name}")))
    }
}

/// A footprint as the database stores it.
struct StoredFootprint(Footprint);

impl FromRow for StoredFootprint {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (repo, mode, StoredItems(items)) = (row.take()?, row.take()?, row.take()?);
        Ok(Self(Footprint { repo, mode, items }))
    }
}

/// Loads the footprint with this id, or returns `None` for the id 0.
pub(crate) fn load(cx: &Read<'_>, id: i64) -> Result<Option<Footprint>> {
    if id == 0 {
        return Ok(None);
    }
    let found: Option<StoredFootprint> = cx.one(BY_ID, &[&cx.caller().workspace_id, &id])?;
    let StoredFootprint(footprint) =
        found.ok_or_else(|| Error::internal("a thread's footprint is missing"))?;
    Ok(Some(footprint))
}

/// Loads the footprints `ids`, in this order and with their ids, as many as fit on a page.
pub(crate) fn load_many(cx: &Read<'_>, ids: &[i64]) -> Result<Vec<(i64, Footprint)>> {
    let sql = match cx.engine() {
        Engine::Sqlite => BY_IDS_SQLITE,
        Engine::Postgres => BY_IDS_POSTGRES,
    };
    let ids = serde_json::to_string(ids).map_err(Error::internal)?;
    let rows: Vec<FootprintWithId> = cx.query_first_page(sql, &[&cx.caller().workspace_id, &ids])?;
    Ok(rows.into_iter().map(|FootprintWithId(id, StoredFootprint(footprint))| (id, footprint)).collect())
}

/// A stored footprint with its id.
struct FootprintWithId(i64, StoredFootprint);

impl FromRow for FootprintWithId {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self(row.take()?, StoredFootprint::from_row(row)?))
    }
}

const BY_IDS_SQLITE: &str = "
    select f.id, f.repo, f.mode, f.items from json_each($2) p cross join footprints f
    where f.workspace_id = $1 and f.id = p.value order by p.key";

const BY_IDS_POSTGRES: &str = "
    select f.id, f.repo, f.mode, f.items
    from jsonb_array_elements_text(cast(cast($2 as text) as jsonb)) with ordinality p
    cross join lateral (
        select * from footprints where workspace_id = $1 and id = cast(p.value as bigint) offset 0) f
    order by p.ordinality";

const BY_ID: &str = "select repo, mode, items from footprints where workspace_id = $1 and id = $2";

/// Returns the digest by which a stored footprint is looked up.
pub(crate) fn footprint_digest(footprint: &Footprint) -> Result<[u8; 32]> {
    Ok(sha256(&serde_json::to_vec(footprint).map_err(Error::internal)?))
}

/// Returns the footprint in a row of `footprints`.
pub(crate) fn footprint_in_row(row: &RowColumns<'_>) -> Result<Footprint> {
    let value = |column| row.text(column).map_or(Value::Null, |text| Value::Text(text.to_owned()));
    let StoredItems(items) = StoredItems::from_value(value("items"))?;
    Ok(Footprint {
        repo: FromValue::from_value(value("repo"))?,
        mode: FootprintMode::from_value(value("mode"))?,
        items,
    })
}

/// Returns the footprint in an event's payload in the form that [`FOOTPRINT_TEXT_SQL`] selects; null without
/// a footprint.
pub(crate) fn footprint_in_event(event: &ReplayedEvent<'_>) -> Option<Json> {
    let footprint = event.field("footprint")?;
    if footprint.is_null() {
        return Some(Json::Null);
    }
    let repo = footprint.get("repo").and_then(Json::as_str).unwrap_or_default();
    let mode = footprint.get("mode")?.as_str()?;
    let items = footprint.get("items")?;
    Some(format!("{repo} {mode} {items}").into())
}

/// SQL expression for the footprint of the thread `t` as one text; null if the thread has no footprint.
pub(crate) const FOOTPRINT_TEXT_SQL: &str = "
    case when t.footprint <> 0 then coalesce(
        (select coalesce(f.repo, '') || ' ' || f.mode || ' ' || f.items from footprints f
         where f.workspace_id = t.workspace_id and f.id = t.footprint),
        'unknown')
    end";

/// Returns the id of a footprint in the caller's workspace, and stores the footprint if it is new. Returns 0
/// without a footprint.
pub(crate) fn intern(cx: &mut Write<'_>, footprint: Option<&Footprint>) -> Result<i64> {
    let Some(footprint) = footprint else { return Ok(0) };
    let digest = footprint_digest(footprint)?;
    let workspace_id = cx.caller().workspace_id;
    let found: Option<(Option<i64>, Option<i64>)> = cx.one(FIND, &[&workspace_id, &digest])?;
    let (known, newest) = found.unwrap_or_default();
    if let Some(id) = known {
        return Ok(id);
    }
    let id = newest.unwrap_or(0).saturating_add(1);
    let items = serde_json::to_string(&footprint.items).map_err(Error::internal)?;
    let repo_key = footprint.repo_key();
    let repo = footprint.repo.as_ref();
    let mode = footprint.mode.name();
    cx.insert(&new_row!("insert into footprints" {
        workspace_id, id, digest, repo, repo_key, mode, items,
    }))?;
    Ok(id)
}

/// Selects the id of a footprint by its digest, and the newest id.
const FIND: &str = "
    select (select id from footprints where workspace_id = $1 and digest = $2),
        (select max(id) from footprints where workspace_id = $1)";
