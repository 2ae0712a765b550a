//! Finding the live claims in the way of a footprint, by indexes of what they touch.
//!
//! An item can overlap one that begins with it, which the order of prefixes finds, and one with which it
//! begins, which `above` finds. One statement then reads the claims of both. For an item that may be shared
//! it reads none that share it, however many there are: in the index, the exclusive ones stand apart.

use serde_json::{Value, json};

use super::above::beginnings;
use super::{Blocked, Conflict, ConflictReason, Limited, Obstacle};
use crate::Result;
use crate::conversation::places::visible;
use crate::coordination::footprint::{Extent, Footprint, Item, Mode, RepoKey, Space, extents};
use crate::error::Error;
use crate::id::{MemberId, ThreadId};
use crate::op::Read;
use crate::store::Engine;
use crate::time::Time;

/// A live claim that was found: the number of the item, the holder, the end of its lease, its thread, whether
/// the caller may see that, and the first prefix of it that the item overlaps.
type Row = (i64, MemberId, Time, ThreadId, bool, String);

/// Returns the live claims that overlap a footprint, in the order of its items, at most `most`.
///
/// A claim is returned once for each item that it overlaps. If only one is asked for it may be any of them,
/// and no more are read.
pub(super) fn overlaps(
    cx: &Read<'_>,
    footprint: &Footprint,
    own: Option<ThreadId>,
    most: i64,
) -> Result<Vec<Blocked>> {
    let extents = extents(footprint);
    let repo = footprint.repo_key();
    let asked: Vec<Value> = extents.iter().enumerate().filter_map(compared).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let exclusive = footprint.mode == Mode::Exclusive;
    let above: Vec<String> = above(cx, &repo, &extents, exclusive)?;
    let sql = match (cx.engine(), most) {
        (Engine::Sqlite, 1) => ONE_OVERLAP_SQLITE,
        (Engine::Postgres, 1) => ONE_OVERLAP_POSTGRES,
        (Engine::Sqlite, _) => OVERLAPS_SQLITE,
        (Engine::Postgres, _) => OVERLAPS_POSTGRES,
    };
    let (asked, above) = (Value::from(asked).to_string(), Value::from(above).to_string());
    let own = own.map(ThreadId::uuid).unwrap_or_default();
    let (workspace, now) = (cx.caller().workspace_id, cx.now());
    let params = cx.caller().sight.params();
    let rows: Vec<Row> =
        cx.query(sql, &params.and(&[&workspace, &own, &now, &most, &repo, &asked, &above, &exclusive]))?;
    let blocked = |(number, holder, until, thread, is_visible, prefix): Row| {
        let at = usize::try_from(number).map_err(Error::internal)?;
        let found = footprint.items.get(at).zip(extents.get(at));
        let (item, extent) = found.ok_or_else(|| Error::internal("a conflict with an unknown item"))?;
        Ok(Blocked {
            conflict: Conflict {
                reason: ConflictReason::Overlap,
                item: Some(item.clone()),
                holder: Some(holder),
                lease_expires_at: Some(until),
                thread_id: is_visible.then_some(thread),
            },
            thread: Some(thread),
            obstacle: Obstacle::new(workspace, &extent.repo_key, extent.space.name(), &prefix),
            exclusive: extent.exclusive,
        })
    };
    rows.into_iter().map(blocked).collect()
}

/// Returns an item as the statement reads it: its number, space, prefix, what follows all that begin with it,
/// and whether it excludes shared ones; none for a slot.
fn compared((number, extent): (usize, &Extent)) -> Option<Value> {
    let Extent { space, prefix, exclusive, .. } = extent;
    (*space != Space::Slot).then(|| json!([number, space.name(), prefix, extent.end(), exclusive]))
}

/// Returns beginnings of paths, among them the prefix of each live claim with which one of them begins.
///
/// Unless the paths are touched exclusively, those are only the prefixes of exclusive claims.
fn above(cx: &Read<'_>, repo: &RepoKey, extents: &[Extent], exclusive: bool) -> Result<Vec<String>> {
    let sql = match cx.engine() {
        Engine::Sqlite => NEAREST_SQLITE,
        Engine::Postgres => NEAREST_POSTGRES,
    };
    let paths = extents.iter().filter(|extent| extent.space == Space::Path);
    let found = beginnings(paths.map(|extent| extent.prefix.clone()), |texts| {
        cx.query(sql, &[&cx.caller().workspace_id, repo, &Value::from(texts).to_string(), &exclusive])
    })?;
    Ok(found.into_iter().collect())
}

/// Selects with each text the greatest live prefix before it, of exclusive claims and, if `$4`, of others.
macro_rules! nearest {
    ($texts:literal) => {
        concat!(
            "select p.value, (
                 select max(n.prefix) from (
                     select (
                         select l.prefix from live_items l
                         where l.workspace_id = $1 and l.repo_key = $2 and l.space = 'path'
                             and l.exclusive = true and l.prefix < p.value
                         order by l.prefix desc limit 1) as prefix
                     union all
                     select (
                         select l.prefix from live_items l
                         where $4 and l.workspace_id = $1 and l.repo_key = $2 and l.space = 'path'
                             and l.exclusive = false and l.prefix < p.value
                         order by l.prefix desc limit 1)) n)
             from ",
            $texts,
            " p"
        )
    };
}

const NEAREST_SQLITE: &str = nearest!("json_each($3)");

const NEAREST_POSTGRES: &str = nearest!("jsonb_array_elements_text(cast(cast($3 as text) as jsonb))");

/// The live claims whose items a statement has found as `$f`.
macro_rules! live_claims {
    ($found:literal) => {
        concat!(
            "select f.number, t.assignee_id, t.assignment_expires_at, t.id, coalesce(",
            visible!(c),
            ", false), f.prefix from ",
            $found,
            " f cross join threads t cross join channels c
             where t.id = f.thread_id and c.id = t.channel_id
                 and t.id <> $6 and t.assignment_expires_at > $7"
        )
    };
}

/// All of them, in order.
macro_rules! all_claims {
    () => {
        concat!(
            live_claims!(
                "(select number, thread_id, min(prefix) as prefix from found group by number, thread_id)"
            ),
            " order by f.number, t.assignment_expires_at, t.id limit $8"
        )
    };
}

/// The first that is found.
macro_rules! one_claim {
    () => {
        concat!(live_claims!("found"), " limit $8")
    };
}

macro_rules! overlaps_sqlite {
    ($claims:expr) => {
        concat!(
            "with item (number, space, prefix, beyond, exclusive) as (
         select p.value ->> 0, p.value ->> 1, p.value ->> 2, p.value ->> 3, p.value ->> 4
         from json_each($10) p),
     found (number, thread_id, prefix) as (
         select i.number, l.thread_id, l.prefix
         from json_each($11) a cross join live_items l cross join item i
         where l.workspace_id = $5 and l.repo_key = $9 and l.space = 'path'
             and l.exclusive in (true, not $12) and l.prefix = a.value
             and i.space = 'path' and substr(i.prefix, 1, length(l.prefix)) = l.prefix
         union all
         select i.number, l.thread_id, l.prefix
         from item i cross join live_items l
         where l.workspace_id = $5 and l.repo_key = $9 and l.space = i.space
             and l.exclusive in (true, not i.exclusive) and l.prefix >= i.prefix and l.prefix < i.beyond)
     ",
            $claims
        )
    };
}

/// Before it has statistics, Postgres looks up an index by one value of a column alone, hence the modes.
macro_rules! overlaps_postgres {
    ($claims:expr) => {
        concat!(
            "with item (number, space, prefix, beyond, exclusive) as (
         select cast(p.value ->> 0 as bigint), p.value ->> 1, p.value ->> 2, p.value ->> 3,
             cast(p.value ->> 4 as boolean)
         from jsonb_array_elements(cast(cast($10 as text) as jsonb)) p),
     mode (exclusive) as (values (true), (false)),
     found (number, thread_id, prefix) as (
         select i.number, l.thread_id, l.prefix
         from jsonb_array_elements_text(cast(cast($11 as text) as jsonb)) a
         join mode m on m.exclusive or $12
         cross join lateral (
             select r.thread_id, r.prefix from live_items r
             where r.workspace_id = $5 and r.repo_key = $9 and r.space = 'path'
                 and r.exclusive = m.exclusive and r.prefix = a.value
             offset 0) l
         join item i on i.space = 'path' and starts_with(i.prefix, l.prefix)
         union all
         select i.number, l.thread_id, l.prefix
         from item i join mode m on m.exclusive or i.exclusive
         cross join lateral (
             select r.thread_id, r.prefix from live_items r
             where r.workspace_id = $5 and r.repo_key = $9 and r.space = i.space
                 and r.exclusive = m.exclusive
                 and r.prefix >= i.prefix and r.prefix < i.beyond
             offset 0) l)
     ",
            $claims
        )
    };
}

const OVERLAPS_SQLITE: &str = overlaps_sqlite!(all_claims!());

const ONE_OVERLAP_SQLITE: &str = overlaps_sqlite!(one_claim!());

const OVERLAPS_POSTGRES: &str = overlaps_postgres!(all_claims!());

const ONE_OVERLAP_POSTGRES: &str = overlaps_postgres!(one_claim!());

/// Returns the claims that use the full slots of a footprint, at most `most`.
///
/// A slot with no capacity at all is full without any.
pub(super) fn full_slots(
    cx: &Read<'_>,
    footprint: &Footprint,
    limited: &Limited,
    own: Option<ThreadId>,
    most: i64,
) -> Result<Vec<Blocked>> {
    let mut found = Vec::new();
    for item in footprint.items.iter() {
        let left = most.saturating_sub(i64::try_from(found.len()).unwrap_or(i64::MAX));
        if left <= 0 {
            break;
        }
        let Some((obstacle, capacity)) = slot_of(cx, item, limited) else { continue };
        let own_id = own.map(ThreadId::uuid).unwrap_or_default();
        let used: Option<(i64,)> = cx.one(USED, &[&obstacle, &own_id, &cx.now(), &capacity])?;
        if used.is_none_or(|(used,)| used < capacity) {
            continue;
        }
        let rows = holders(cx, obstacle, own, left)?;
        let found_in = |conflict, thread| Blocked { conflict, thread, obstacle, exclusive: true };
        if rows.is_empty() {
            let closed = Conflict { item: Some(item.clone()), ..Conflict::alone(ConflictReason::SlotFull) };
            found.push(found_in(closed, None));
        }
        found.extend(rows.into_iter().map(|(holder, until, thread, is_visible)| {
            let of_claim = Conflict {
                reason: ConflictReason::SlotFull,
                item: Some(item.clone()),
                holder: Some(holder),
                lease_expires_at: Some(until),
                thread_id: is_visible.then_some(thread),
            };
            found_in(of_claim, Some(thread))
        }));
    }
    Ok(found)
}

/// Counts live claims up to the capacity.
const USED: &str = "
    select count(*) from (
        select 1 from live_items l join threads t on t.id = l.thread_id
        where l.obstacle = $1 and t.id <> $2 and t.assignment_expires_at > $3 limit $4) used";

/// Returns the obstacle that an item is while its slot is full, and the slot's capacity.
fn slot_of(cx: &Read<'_>, item: &Item, limited: &Limited) -> Option<(Obstacle, i64)> {
    let key = item.slot_key()?;
    Some((Obstacle::slot(cx.caller().workspace_id, &key), limited.capacity(&key)?))
}

/// Returns the live claims that use a slot: holder, end of the lease, thread, and whether the caller sees it.
pub(in crate::coordination) fn holders(
    cx: &Read<'_>,
    slot: Obstacle,
    own: Option<ThreadId>,
    most: i64,
) -> Result<Vec<(MemberId, Time, ThreadId, bool)>> {
    let own = own.map(ThreadId::uuid).unwrap_or_default();
    cx.query(HOLDERS, &cx.caller().sight.params().and(&[&slot, &own, &cx.now(), &most]))
}

const HOLDERS: &str = concat!(
    "select t.assignee_id, t.assignment_expires_at, t.id, coalesce(",
    visible!(c),
    ", false) from live_items l join threads t on t.id = l.thread_id join channels c on c.id = t.channel_id
     where l.obstacle = $5 and t.id <> $6 and t.assignment_expires_at > $7
     order by t.assignment_expires_at, t.id limit $8"
);
