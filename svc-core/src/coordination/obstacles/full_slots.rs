//! Finds the full slots of footprints, and the claims that use these slots.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::live_items::uses;
use super::{BlockingConflict, Conflict, ConflictReason, Obstacle, WorkspaceLimits};
use crate::Result;
use crate::conversation::visibility::visible;
use crate::coordination::footprint::{Footprint, FootprintItem};
use crate::id::{MemberId, ThreadId};
use crate::op::Read;
use crate::store::Engine;
use crate::time::Time;

/// A live claim that uses a slot: holder, lease end, thread, and whether the caller may see the thread.
type SlotClaim = (MemberId, Time, ThreadId, bool);

/// The full slots among the items of several footprints.
pub(super) struct FullSlots(BTreeSet<Obstacle>);

impl FullSlots {
    /// Finds the full slots of all footprints in one statement, without counting a claim on `ignored_thread`.
    pub fn find(
        cx: &Read<'_>,
        footprints: &[&Footprint],
        workspace_limits: &WorkspaceLimits,
        ignored_thread: Option<ThreadId>,
    ) -> Result<Self> {
        let items = footprints.iter().flat_map(|footprint| footprint.items.iter());
        let limits: BTreeMap<Obstacle, i64> =
            items.filter_map(|item| slot_with_capacity(cx, item, workspace_limits)).collect();
        // A slot of capacity 0 is full without any claim.
        let (closed, open): (Vec<_>, Vec<_>) = limits.into_iter().partition(|(_, capacity)| *capacity == 0);
        let mut full: BTreeSet<Obstacle> = closed.into_iter().map(|(slot, _)| slot).collect();
        if !open.is_empty() {
            full.extend(find_used_up_slots(cx, open, ignored_thread)?);
        }
        Ok(Self(full))
    }

    /// Returns whether any slot of a footprint is full.
    pub fn has_full_slot(&self, cx: &Read<'_>, footprint: &Footprint) -> bool {
        footprint.items.iter().filter_map(|item| slot_obstacle(cx, item)).any(|slot| self.0.contains(&slot))
    }

    /// Returns up to `limit` claims that use the full slots, ordered by lease end within each slot.
    pub fn load_claims(
        &self,
        cx: &Read<'_>,
        ignored_thread: Option<ThreadId>,
        limit: i64,
    ) -> Result<SlotClaims> {
        let mut holders = SlotClaims(self.0.iter().map(|slot| (*slot, Vec::new())).collect());
        if self.0.is_empty() {
            return Ok(holders);
        }
        let slots: Vec<Obstacle> = self.0.iter().copied().collect();
        let sql = sql_for_engine(cx, HOLDERS_SQLITE, HOLDERS_POSTGRES);
        let ignored_thread = thread_id_or_nil(ignored_thread);
        let params = cx.caller().visibility.params();
        let asked = encode_slots(slots.iter().copied());
        let rows: Vec<(i64, MemberId, Time, ThreadId, bool)> =
            cx.query(sql, &params.and(&[&asked, &ignored_thread, &cx.now(), &limit]))?;
        for (number, holder, until, thread, is_visible) in rows {
            let slot = usize::try_from(number).ok().and_then(|number| slots.get(number));
            if let Some(of_slot) = slot.and_then(|slot| holders.0.get_mut(slot)) {
                of_slot.push((holder, until, thread, is_visible));
            }
        }
        Ok(holders)
    }
}

/// The claims that use full slots, by slot.
pub(super) struct SlotClaims(BTreeMap<Obstacle, Vec<SlotClaim>>);

impl SlotClaims {
    /// Returns the conflicts of a footprint with full slots: one for each claim that uses a slot.
    ///
    /// Conflicts are in the order of the footprint's items.
    pub fn conflicts_with(&self, cx: &Read<'_>, footprint: &Footprint) -> Vec<BlockingConflict> {
        let mut found = Vec::new();
        for item in footprint.items.iter() {
            let Some(obstacle) = slot_obstacle(cx, item) else { continue };
            let Some(holders) = self.0.get(&obstacle) else { continue };
            let found_in =
                |conflict, thread| BlockingConflict { conflict, thread, obstacle, exclusive: true };
            let alone =
                Conflict { item: Some(item.clone()), ..Conflict::without_claim(ConflictReason::SlotFull) };
            if holders.is_empty() {
                found.push(found_in(alone.clone(), None));
            }
            found.extend(holders.iter().map(|(holder, until, thread, is_visible)| {
                let of_claim = Conflict {
                    holder: Some(*holder),
                    lease_expires_at: Some(*until),
                    thread_id: is_visible.then_some(*thread),
                    ..alone.clone()
                };
                found_in(of_claim, Some(*thread))
            }));
        }
        found
    }
}

/// Returns the obstacle and the capacity of an item's slot, or `None` if the item is no slot or the slot has
/// no capacity.
fn slot_with_capacity(
    cx: &Read<'_>,
    item: &FootprintItem,
    workspace_limits: &WorkspaceLimits,
) -> Option<(Obstacle, i64)> {
    let key = item.slot_key()?;
    Some((Obstacle::slot(cx.caller().workspace_id, &key), workspace_limits.capacity(&key)?))
}

fn slot_obstacle(cx: &Read<'_>, item: &FootprintItem) -> Option<Obstacle> {
    Some(Obstacle::slot(cx.caller().workspace_id, &item.slot_key()?))
}

fn thread_id_or_nil(thread: Option<ThreadId>) -> Uuid {
    thread.map(ThreadId::uuid).unwrap_or_default()
}

fn sql_for_engine(cx: &Read<'_>, sqlite: &'static str, postgres: &'static str) -> &'static str {
    match cx.engine() {
        Engine::Sqlite => sqlite,
        Engine::Postgres => postgres,
    }
}

/// Encodes slots as the JSON parameter that `slots_sqlite!` and `slots_postgres!` read.
fn encode_slots(slots: impl Iterator<Item = Obstacle>) -> String {
    let slots: Vec<Value> = slots.map(|slot| json!(slot.uuid().simple().to_string())).collect();
    Value::from(slots).to_string()
}

/// A table of the slots in the JSON parameter `$slots`, each with its index.
macro_rules! slots_sqlite {
    ($slots:literal) => {
        concat!("(select key as number, unhex(value) as slot from json_each(", $slots, "))")
    };
}

macro_rules! slots_postgres {
    ($slots:literal) => {
        concat!(
            "(select ordinality - 1 as number, cast(value as uuid) as slot
              from jsonb_array_elements_text(cast(cast(",
            $slots,
            " as text) as jsonb)) with ordinality)"
        )
    };
}

/// Returns the slots whose whole capacity is used by live claims, without counting a claim on
/// `ignored_thread`.
///
/// The stored counts change only as claims begin and end, so they include lapsed claims that have not been
/// ended. The uses by the first [`LAPSED_MAX`] lapsed claims are subtracted.
fn find_used_up_slots(
    cx: &Read<'_>,
    slots: Vec<(Obstacle, i64)>,
    ignored_thread: Option<ThreadId>,
) -> Result<impl Iterator<Item = Obstacle>> {
    let asked = encode_slots(slots.iter().map(|(slot, _)| *slot));
    let counted: Vec<(i64, i64)> = cx.query(sql_for_engine(cx, USES_SQLITE, USES_POSTGRES), &[&asked])?;
    let mut left: BTreeMap<Obstacle, i64> = BTreeMap::new();
    for (number, uses) in counted {
        let slot = usize::try_from(number).ok().and_then(|number| slots.get(number));
        left.extend(slot.map(|(slot, capacity)| (*slot, capacity.saturating_sub(uses))));
    }
    left.retain(|_, left| *left <= 0);
    if !left.is_empty() {
        let freed: Vec<(Obstacle,)> = cx.query(
            UNCOUNTED_USES,
            &[&cx.caller().workspace_id, &cx.now(), &thread_id_or_nil(ignored_thread), &LAPSED_MAX],
        )?;
        for (slot,) in freed {
            if let Some(left) = left.get_mut(&slot) {
                *left = left.saturating_add(1);
            }
        }
    }
    Ok(left.into_iter().filter(|(_, left)| *left <= 0).map(|(slot, _)| slot))
}

/// Maximum lapsed claims whose uses are subtracted from the stored numbers of uses.
const LAPSED_MAX: i64 = 50;

macro_rules! uses_of {
    ($slots:expr) => {
        concat!("select p.number, ", uses!("p.slot"), " from ", $slots, " p")
    };
}

const USES_SQLITE: &str = uses_of!(slots_sqlite!("$1"));

const USES_POSTGRES: &str = uses_of!(slots_postgres!("$1"));

/// Selects each use of a slot by the claim on `$3` or by a lapsed claim, as one row.
const UNCOUNTED_USES: &str = "
    select l.obstacle from (
        select t.id from threads t
        where t.workspace_id = $1 and t.assignment_expires_at <= $2 and t.assignment_expires_at is not null
            and t.id <> $3
        order by t.assignment_expires_at, t.id limit $4) t
    join live_items l on l.thread_id = t.id and l.space = 'slot'
    union all
    select l.obstacle from live_items l where l.thread_id = $3 and l.space = 'slot'";

/// Returns the number of live claims that use each slot in `slots`, counting up to `limit` claims per slot.
pub(in crate::coordination) fn count_uses(
    cx: &Read<'_>,
    slots: &[Obstacle],
    limit: i64,
) -> Result<BTreeMap<Obstacle, i64>> {
    let sql = sql_for_engine(cx, USED_SQLITE, USED_POSTGRES);
    let asked = encode_slots(slots.iter().copied());
    let used: Vec<(i64, i64)> = cx.query(sql, &[&asked, &cx.now(), &limit])?;
    let slot_at = |number: i64| usize::try_from(number).ok().and_then(|number| slots.get(number));
    Ok(used.into_iter().filter_map(|(number, used)| Some((*slot_at(number)?, used))).collect())
}

/// Counts the live claims of each slot, in one statement.
macro_rules! count_uses {
    ($slots:expr) => {
        concat!(
            "select p.number, (
                 select count(*) from (
                     select 1 from live_items l join threads t on t.id = l.thread_id
                     where l.obstacle = p.slot and l.space = 'slot' and t.assignment_expires_at > $2
                     limit $3) used)
             from ",
            $slots,
            " p"
        )
    };
}

const USED_SQLITE: &str = count_uses!(slots_sqlite!("$1"));

const USED_POSTGRES: &str = count_uses!(slots_postgres!("$1"));

macro_rules! holders {
    ($slots:expr) => {
        concat!(
            "select t.number, t.assignee_id, t.assignment_expires_at, t.id, coalesce(",
            visible!(c),
            ", false) from (
                 select p.number, t.assignee_id, t.assignment_expires_at, t.id, t.channel_id
                 from ",
            $slots,
            " p join live_items l on l.obstacle = p.slot and l.space = 'slot'
                     join threads t on t.id = l.thread_id
                 where t.id <> $6 and t.assignment_expires_at > $7 limit $8) t
             join channels c on c.id = t.channel_id
             order by t.number, t.assignment_expires_at, t.id"
        )
    };
}

const HOLDERS_SQLITE: &str = holders!(slots_sqlite!("$5"));

const HOLDERS_POSTGRES: &str = holders!(slots_postgres!("$5"));

/// Returns up to `limit` live claims that use a slot, ordered by lease end.
///
/// Only the first `scan_limit` claims that are read are considered.
pub(in crate::coordination) fn load_slot_claims(
    cx: &Read<'_>,
    slot: Obstacle,
    scan_limit: i64,
    limit: i64,
) -> Result<Vec<SlotClaim>> {
    cx.query(HOLDERS, &cx.caller().visibility.params().and(&[&slot, &cx.now(), &limit, &scan_limit]))
}

const HOLDERS: &str = concat!(
    "select t.assignee_id, t.assignment_expires_at, t.id, coalesce(",
    visible!(c),
    ", false) from (
         select t.id, t.assignee_id, t.assignment_expires_at, t.channel_id
         from live_items l join threads t on t.id = l.thread_id
         where l.obstacle = $5 and l.space = 'slot' and t.assignment_expires_at > $6 limit $8) t
     join channels c on c.id = t.channel_id
     order by t.assignment_expires_at, t.id limit $7"
);
