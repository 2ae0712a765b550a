//! Finding the live claims in the way of a footprint, by indexes of what they touch.
//!
//! One statement asks for all items of a footprint. An item can overlap one that begins with it, which the
//! order of prefixes finds, and one with which it begins, which is in the folder of one of its ancestors.

use serde_json::{Value, json};

use super::{Blocked, Conflict, ConflictReason, Limited, Obstacle};
use crate::Result;
use crate::conversation::places::visible;
use crate::coordination::footprint::{Extent, Footprint, Item, Space, extents};
use crate::error::Error;
use crate::id::{MemberId, ThreadId};
use crate::op::Read;
use crate::store::Engine;
use crate::time::Time;

/// A live claim that was found: the number of the item, the holder, the end of its lease, its thread, whether
/// the caller may see that, and the obstacle that the claim is.
type Row = (i64, MemberId, Time, ThreadId, bool, Obstacle);

/// Returns the live claims that overlap a footprint, in the order of its items, at most `most`.
pub(super) fn overlaps(
    cx: &Read<'_>,
    footprint: &Footprint,
    own: Option<ThreadId>,
    most: i64,
) -> Result<Vec<Blocked>> {
    let extents = extents(footprint);
    let (above, below) = probes(&extents);
    if above.is_empty() {
        return Ok(Vec::new());
    }
    let sql = match cx.engine() {
        Engine::Sqlite => OVERLAPS_SQLITE,
        Engine::Postgres => OVERLAPS_POSTGRES,
    };
    let (above, below) = (Value::Array(above).to_string(), Value::Array(below).to_string());
    let own = own.map(ThreadId::uuid).unwrap_or_default();
    let (workspace, now) = (cx.caller().workspace_id, cx.now());
    let params = cx.caller().sight.params();
    let mut rows: Vec<Row> = cx.query(sql, &params.and(&[&workspace, &own, &now, &most, &above, &below]))?;
    // Several items of a claim can overlap one of ours.
    rows.dedup_by_key(|(number, _, _, thread, ..)| (*number, *thread));
    let blocked = |(number, holder, until, thread, is_visible, obstacle): Row| {
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
            obstacle,
            exclusive: extent.exclusive,
        })
    };
    rows.into_iter().map(blocked).collect()
}

/// Returns what the statement looks up: exact folders with what lies in them, and ranges of prefixes.
///
/// Each is an array with the number of the item first, as JSON, which both engines can read rows from.
fn probes(extents: &[Extent]) -> (Vec<Value>, Vec<Value>) {
    let (mut above, mut below) = (Vec::new(), Vec::new());
    for (number, extent) in extents.iter().enumerate().filter(|(_, extent)| extent.space != Space::Slot) {
        let Extent { repo_key, space, prefix, exclusive } = extent;
        let folder = |dir: &str| json!([number, **repo_key, space.name(), dir, prefix, exclusive]);
        above.extend(extent.ancestors().into_iter().map(folder));
        if *space == Space::Path {
            below.push(json!([number, **repo_key, space.name(), prefix, extent.end(), exclusive]));
        }
    }
    (above, below)
}

/// What follows the items of claims that a statement has `found`.
macro_rules! live_claims {
    () => {
        concat!(
            "select f.number, t.assignee_id, t.assignment_expires_at, t.id, coalesce(",
            visible!(c),
            ", false), f.obstacle
             from found f join threads t on t.id = f.thread_id join channels c on c.id = t.channel_id
             where t.id <> $6 and t.assignment_expires_at > $7
             order by f.number, t.assignment_expires_at, t.id limit $8"
        )
    };
}

const OVERLAPS_SQLITE: &str = concat!(
    "with found (number, thread_id, obstacle) as (
         select p.value ->> 0, l.thread_id, l.obstacle
         from json_each($9) p cross join live_items l
         where l.workspace_id = $5 and l.repo_key = p.value ->> 1 and l.space = p.value ->> 2
             and l.dir = p.value ->> 3 and substr(p.value ->> 4, 1, length(l.prefix)) = l.prefix
             and (l.exclusive or p.value ->> 5)
         union all
         select p.value ->> 0, l.thread_id, l.obstacle
         from json_each($10) p cross join live_items l
         where l.workspace_id = $5 and l.repo_key = p.value ->> 1 and l.space = p.value ->> 2
             and l.prefix >= p.value ->> 3 and l.prefix < p.value ->> 4
             and (l.exclusive or p.value ->> 5))
     ",
    live_claims!()
);

const OVERLAPS_POSTGRES: &str = concat!(
    "with found (number, thread_id, obstacle) as (
         select cast(p.value ->> 0 as bigint), l.thread_id, l.obstacle
         from jsonb_array_elements(cast(cast($9 as text) as jsonb)) p
         cross join lateral (
             select i.thread_id, i.obstacle from live_items i
             where i.workspace_id = $5 and i.repo_key = p.value ->> 1 and i.space = p.value ->> 2
                 and i.dir = p.value ->> 3 and starts_with(p.value ->> 4, i.prefix)
                 and (i.exclusive or cast(p.value ->> 5 as boolean)) offset 0) l
         union all
         select cast(p.value ->> 0 as bigint), l.thread_id, l.obstacle
         from jsonb_array_elements(cast(cast($10 as text) as jsonb)) p
         cross join lateral (
             select i.thread_id, i.obstacle from live_items i
             where i.workspace_id = $5 and i.repo_key = p.value ->> 1 and i.space = p.value ->> 2
                 and i.prefix >= p.value ->> 3 and i.prefix < p.value ->> 4
                 and (i.exclusive or cast(p.value ->> 5 as boolean)) offset 0) l)
     ",
    live_claims!()
);

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
        let Some((obstacle, capacity)) = slot_of(cx, item, limited) else { continue };
        let own_id = own.map(ThreadId::uuid).unwrap_or_default();
        let used: Option<(i64,)> = cx.one(USED, &[&obstacle, &own_id, &cx.now(), &capacity])?;
        if used.is_none_or(|(used,)| used < capacity) {
            continue;
        }
        let rows = holders(cx, obstacle, own, most)?;
        let of_claim = |(holder, until, thread, is_visible): (MemberId, Time, ThreadId, bool)| Conflict {
            reason: ConflictReason::SlotFull,
            item: Some(item.clone()),
            holder: Some(holder),
            lease_expires_at: Some(until),
            thread_id: is_visible.then_some(thread),
        };
        let closed = Conflict { item: Some(item.clone()), ..Conflict::alone(ConflictReason::SlotFull) };
        let is_closed = rows.is_empty().then_some(closed);
        let conflicts = rows.into_iter().map(of_claim).chain(is_closed);
        found.extend(conflicts.map(|conflict| Blocked { conflict, obstacle, exclusive: true }));
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
