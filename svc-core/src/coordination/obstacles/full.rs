//! Finding the slots of footprints that are full, and the claims that use them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Blocked, Conflict, ConflictReason, Limited, Obstacle};
use crate::Result;
use crate::conversation::places::visible;
use crate::coordination::footprint::{Footprint, Item};
use crate::id::{MemberId, ThreadId};
use crate::limits::CONFLICTS_MAX;
use crate::op::Read;
use crate::store::Engine;
use crate::time::Time;

/// A live claim that uses a slot: holder, end of the lease, thread, and whether the caller sees it.
type Holder = (MemberId, Time, ThreadId, bool);

/// The slots of some footprints that are full.
pub(super) struct FullSlots(BTreeSet<Obstacle>);

impl FullSlots {
    /// Finds those of all footprints by one statement. A claim on the thread `own` does not count.
    pub fn find(
        cx: &Read<'_>,
        footprints: &[&Footprint],
        limited: &Limited,
        own: Option<ThreadId>,
    ) -> Result<Self> {
        let items = footprints.iter().flat_map(|footprint| footprint.items.iter());
        let limits: BTreeMap<Obstacle, i64> = items.filter_map(|item| slot_of(cx, item, limited)).collect();
        // A slot with no capacity at all is full without any claim.
        let (closed, open): (Vec<_>, Vec<_>) = limits.into_iter().partition(|(_, capacity)| *capacity == 0);
        let mut full: BTreeSet<Obstacle> = closed.into_iter().map(|(slot, _)| slot).collect();
        if !open.is_empty() {
            let slots: Vec<Obstacle> = open.iter().map(|(slot, _)| *slot).collect();
            let most = open.iter().map(|(_, capacity)| *capacity).max().unwrap_or_default();
            let used = used(cx, &slots, own, most)?;
            let is_full =
                |slot: &Obstacle, capacity: i64| used.get(slot).is_some_and(|used| *used >= capacity);
            full.extend(
                open.iter().filter(|(slot, capacity)| is_full(slot, *capacity)).map(|(slot, _)| *slot),
            );
        }
        Ok(Self(full))
    }

    /// Whether any slot of a footprint is full.
    pub fn blocks(&self, cx: &Read<'_>, footprint: &Footprint) -> bool {
        footprint.items.iter().filter_map(|item| obstacle_of(cx, item)).any(|slot| self.0.contains(&slot))
    }

    /// Returns the first claims that use the slots, at most a thousand.
    pub fn holders(&self, cx: &Read<'_>, own: Option<ThreadId>) -> Result<Holders> {
        let mut holders = Holders(self.0.iter().map(|slot| (*slot, Vec::new())).collect());
        if self.0.is_empty() {
            return Ok(holders);
        }
        let slots: Vec<Obstacle> = self.0.iter().copied().collect();
        let (sql, own) = (by_engine(cx, HOLDERS_SQLITE, HOLDERS_POSTGRES), own_id(own));
        let params = cx.caller().sight.params();
        let asked = listed(slots.iter().copied());
        let rows: Vec<(i64, MemberId, Time, ThreadId, bool)> =
            cx.query(sql, &params.and(&[&asked, &own, &cx.now(), &CONFLICTS_MAX]))?;
        for (number, holder, until, thread, is_visible) in rows {
            let slot = usize::try_from(number).ok().and_then(|number| slots.get(number));
            if let Some(of_slot) = slot.and_then(|slot| holders.0.get_mut(slot)) {
                of_slot.push((holder, until, thread, is_visible));
            }
        }
        Ok(holders)
    }
}

/// The claims that use full slots.
pub(super) struct Holders(BTreeMap<Obstacle, Vec<Holder>>);

impl Holders {
    /// Returns the full slots of a footprint, in the order of its items, with each claim that uses one.
    pub fn in_the_way(&self, cx: &Read<'_>, footprint: &Footprint) -> Vec<Blocked> {
        let mut found = Vec::new();
        for item in footprint.items.iter() {
            let Some(obstacle) = obstacle_of(cx, item) else { continue };
            let Some(holders) = self.0.get(&obstacle) else { continue };
            let found_in = |conflict, thread| Blocked { conflict, thread, obstacle, exclusive: true };
            let alone = Conflict { item: Some(item.clone()), ..Conflict::alone(ConflictReason::SlotFull) };
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

/// Returns the obstacle that an item is while its slot is full, and the slot's capacity.
fn slot_of(cx: &Read<'_>, item: &Item, limited: &Limited) -> Option<(Obstacle, i64)> {
    let key = item.slot_key()?;
    Some((Obstacle::slot(cx.caller().workspace_id, &key), limited.capacity(&key)?))
}

fn obstacle_of(cx: &Read<'_>, item: &Item) -> Option<Obstacle> {
    Some(Obstacle::slot(cx.caller().workspace_id, &item.slot_key()?))
}

fn own_id(own: Option<ThreadId>) -> Uuid {
    own.map(ThreadId::uuid).unwrap_or_default()
}

fn by_engine(cx: &Read<'_>, sqlite: &'static str, postgres: &'static str) -> &'static str {
    match cx.engine() {
        Engine::Sqlite => sqlite,
        Engine::Postgres => postgres,
    }
}

/// Returns slots as the statements read them.
fn listed(slots: impl Iterator<Item = Obstacle>) -> String {
    let slots: Vec<Value> = slots.map(|slot| json!(slot.uuid().simple().to_string())).collect();
    Value::from(slots).to_string()
}

/// The slots in `$1`, or `$5`, with their numbers.
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

/// Returns how many live claims use each of some slots: `most` of each are counted, without that of `own`.
pub(in crate::coordination) fn used(
    cx: &Read<'_>,
    slots: &[Obstacle],
    own: Option<ThreadId>,
    most: i64,
) -> Result<BTreeMap<Obstacle, i64>> {
    let sql = by_engine(cx, USED_SQLITE, USED_POSTGRES);
    let asked = listed(slots.iter().copied());
    let used: Vec<(i64, i64)> = cx.query(sql, &[&asked, &own_id(own), &cx.now(), &most])?;
    let slot_at = |number: i64| usize::try_from(number).ok().and_then(|number| slots.get(number));
    Ok(used.into_iter().filter_map(|(number, used)| Some((*slot_at(number)?, used))).collect())
}

/// Counts the live claims that use each slot.
macro_rules! used {
    ($slots:expr) => {
        concat!(
            "select p.number, (
                 select count(*) from (
                     select 1 from live_items l join threads t on t.id = l.thread_id
                     where l.obstacle = p.slot and t.id <> $2 and t.assignment_expires_at > $3
                     limit $4) used)
             from ",
            $slots,
            " p"
        )
    };
}

const USED_SQLITE: &str = used!(slots_sqlite!("$1"));

const USED_POSTGRES: &str = used!(slots_postgres!("$1"));

macro_rules! holders {
    ($slots:expr) => {
        concat!(
            "select p.number, t.assignee_id, t.assignment_expires_at, t.id, coalesce(",
            visible!(c),
            ", false) from ",
            $slots,
            " p join live_items l on l.obstacle = p.slot join threads t on t.id = l.thread_id
                 join channels c on c.id = t.channel_id
             where t.id <> $6 and t.assignment_expires_at > $7
             order by p.number, t.assignment_expires_at, t.id limit $8"
        )
    };
}

const HOLDERS_SQLITE: &str = holders!(slots_sqlite!("$5"));

const HOLDERS_POSTGRES: &str = holders!(slots_postgres!("$5"));

/// Returns live claims that use a slot, those whose leases end first among the `counted` ones that are read.
pub(in crate::coordination) fn holders(
    cx: &Read<'_>,
    slot: Obstacle,
    counted: i64,
    most: i64,
) -> Result<Vec<Holder>> {
    cx.query(HOLDERS, &cx.caller().sight.params().and(&[&slot, &cx.now(), &most, &counted]))
}

const HOLDERS: &str = concat!(
    "select t.assignee_id, t.assignment_expires_at, t.id, coalesce(",
    visible!(c),
    ", false) from (
         select t.id, t.assignee_id, t.assignment_expires_at, t.channel_id
         from live_items l join threads t on t.id = l.thread_id
         where l.obstacle = $5 and t.assignment_expires_at > $6 limit $8) t
     join channels c on c.id = t.channel_id
     order by t.assignment_expires_at, t.id limit $7"
);
