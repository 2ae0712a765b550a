//! Slots: limits on how many claims may use a shared resource of the workspace at the same time.
//!
//! A claim uses each slot in its footprint once. A slot without a capacity limits nothing. Existing claims
//! continue when a capacity changes.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{TokenAdmin, WorkspaceRead};
use crate::coordination::footprint::{SlotName, slot_key};
use crate::coordination::obstacles::{self, Obstacle};
use crate::coordination::queue;
use crate::error::{Code, Error};
use crate::id::{MemberId, ThreadId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{
    SLOT_CAPACITY_MAX, SLOT_CLAIMS_COUNTED_MAX, SLOT_HOLDERS_MAX, SLOT_LIST_HOLDERS_MAX, SLOTS_MAX,
};
use crate::log::event::{CachedEntryKind, Event, EventKind, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Read, Records, Sample, Write, destructive, idempotent, read};
use crate::page::{Cursor, Page};
use crate::request::request;
use crate::store::new_row;
use crate::text::Count;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "slots",
            vec![
                idempotent("set_slot_capacity", set_slot_capacity)
                    .title("Set the capacity of a slot")
                    .when(
                        "Limit how many claims may use a slot at the same time. Use `clear_slot_capacity` to \
                         remove the limit.",
                    )
                    .put("/workspaces/{workspace_id}/slots")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::WrongState])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "slot": "gpu", "capacity": 2})),
                destructive("clear_slot_capacity", clear_slot_capacity)
                    .title("Remove the capacity of a slot")
                    .when(
                        "Remove the capacity of a slot (a shared resource), so that any number of claims may \
                         use the slot.",
                    )
                    .reversible()
                    .delete("/workspaces/{workspace_id}/slots")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::NotFound])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "slot": "browser"})),
                read("list_slots", list_slots)
                    .detailed()
                    .title("List the slots of a workspace")
                    .when(
                        "List the slots (shared resources) that are in use or have a capacity, with the \
                         claims that use each slot.",
                    )
                    .get("/workspaces/{workspace_id}/slots")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
            ],
        )
        .events(vec![
            EventKind::of::<SlotCapacitySet>().invalidates(CachedEntryKind::Rules),
            EventKind::of::<SlotCapacityCleared>().invalidates(CachedEntryKind::Rules),
        ])
        .sample(
            Sample::new(
                "slot",
                "set_slot_capacity",
                |w| json!({"workspace_id": w.id("workspace"), "slot": "browser", "capacity": 4}),
            )
            .id_at("/workspace_id"),
        )
        .records(vec![
            Records::table("slots", "obstacle")
                .after("workspaces")
                .ids("workspace_id obstacle")
                .texts("slot_key slot")
                .derives_ids(|workspace, row| {
                    let slot = row.text("slot_key").unwrap_or_default();
                    Ok(vec![Obstacle::slot(workspace, slot).uuid()])
                })
                .ints("capacity")
                .proven("slot", "capacity")
                .unproven("slot_key obstacle", "follow from the name of the slot"),
            Records::table("live_items", "thread_id repo_key space exclusive prefix")
                .after("threads")
                .ids("workspace_id obstacle thread_id")
                .texts("repo_key space prefix")
                .bools("exclusive")
                .unproven(
                    "obstacle thread_id repo_key space prefix exclusive",
                    "follow from the claims and footprints of threads",
                ),
            Records::table("slot_uses", "obstacle")
                .after("workspaces")
                .ids("workspace_id obstacle")
                .ints("uses")
                .unproven("obstacle uses", "counts of what claims touch")
                .stays(),
        ])
}

/// The capacity of a slot was set.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct SlotCapacitySet<'a> {
    /// The slot's name, as spelled in the request that first set its capacity.
    slot: &'a str,
    /// Maximum claims that may use the slot at the same time.
    capacity: i64,
}

impl Event for SlotCapacitySet<'_> {
    const KIND: &'static str = "SlotCapacitySet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("slots", "slot")?.made().copy("capacity").keep()
    }
}

/// The capacity of a slot was removed, so that any number of claims may use the slot.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct SlotCapacityCleared<'a> {
    /// The slot's name, as spelled in the request that first set its capacity.
    slot: &'a str,
}

impl Event for SlotCapacityCleared<'_> {
    const KIND: &'static str = "SlotCapacityCleared";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("slots", "slot")?.remove()
    }
}

/// The capacity of a slot.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SlotCapacity {
    /// Id of the slot's workspace.
    pub workspace_id: WorkspaceId,
    /// The slot's name, as spelled when its capacity was first set.
    pub slot: String,
    /// Maximum claims that may use the slot at the same time; null for any number.
    pub capacity: Option<i64>,
}

request! {
    /// Limits how many claims may use a slot at the same time, and returns the slot's capacity.
    ///
    /// A slot is a shared resource that footprints list; case does not matter. 0 blocks new claims; existing
    /// claims continue, even beyond the capacity.
    ///
    /// Fails with 409 `wrong-state` if no capacity is set for the slot yet and 1000 other slots already have
    /// a capacity.
    #[derive(Serialize)]
    struct SetSlotCapacity {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// The slot.
        slot: SlotName,
        /// The capacity, from 0 to 10000.
        capacity: Count<0, SLOT_CAPACITY_MAX>,
    }

    set_slot_capacity(slot: SlotName, capacity: Count<0, SLOT_CAPACITY_MAX>) -> SlotCapacity
}

fn set_slot_capacity(cx: &mut Write<'_>, input: &SetSlotCapacity) -> Result<SlotCapacity> {
    let workspace_id = input.workspace_id.of(cx)?;
    let slot_key = slot_key(&input.slot);
    let capacity = input.capacity.get();
    let obstacle = Obstacle::slot(workspace_id, &slot_key);
    let slot = match load_capacity_row(cx, &slot_key)? {
        Some((_, slot, present)) if present == capacity => {
            return Ok(SlotCapacity { workspace_id, slot, capacity: Some(capacity) });
        }
        Some((stored_key, slot, _)) => {
            cx.execute(1, SET, &[&workspace_id, &stored_key, &capacity])?;
            unpark_behind_former_key(cx, workspace_id, (&stored_key, &slot_key))?;
            slot
        }
        None => {
            let (count,) = cx.one::<(i64,)>(COUNT, &[&workspace_id])?.unwrap_or_default();
            if count >= SLOTS_MAX {
                return Err(Error::wrong_state(format!("{SLOTS_MAX} slots have a capacity")));
            }
            let slot = input.slot.to_string();
            cx.insert(&new_row!("insert into slots" {
                workspace_id, slot_key, slot: slot.clone(), capacity, obstacle,
            }))?;
            slot
        }
    };
    cx.emit(Subject::WORKSPACE, &SlotCapacitySet { slot: &slot, capacity })?;
    cx.audit("slot.capacity.set", json!({"slot": slot, "capacity": capacity}))?;
    queue::unpark_behind(cx, obstacle)?;
    Ok(SlotCapacity { workspace_id, slot, capacity: Some(capacity) })
}

/// Returns the key, name and capacity of a slot, or `None` if the slot has no capacity.
///
/// The stored key may have an earlier form than the keys by which slots are now compared.
fn load_capacity_row(cx: &Read<'_>, key: &str) -> Result<Option<(String, String, i64)>> {
    let workspace = cx.caller().workspace_id;
    let exact = cx.one(CAPACITY, &[&workspace, &key])?;
    if exact.is_some() {
        return Ok(exact);
    }
    let all: Vec<(String, String, i64)> = cx.query(CAPACITIES, &[&workspace])?;
    Ok(all.into_iter().find(|(stored, ..)| slot_key(stored) == key))
}

const CAPACITY: &str = "select slot_key, slot, capacity from slots where workspace_id = $1 and slot_key = $2";

const CAPACITIES: &str = "select slot_key, slot, capacity from slots where workspace_id = $1";

const COUNT: &str = "select count(*) from slots where workspace_id = $1";

const SET: &str = "update slots set capacity = $3 where workspace_id = $1 and slot_key = $2";

impl Answer<SetSlotCapacity> for SlotCapacity {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, input: &SetSlotCapacity, (): ()) -> Result<Self> {
        let present = current_capacity(cx, input.workspace_id, &input.slot)?;
        present.ok_or_else(|| Error::not_found("slot capacity"))
    }
}

/// Returns the capacity of a slot, or `None` if the slot has no capacity now.
fn current_capacity(
    cx: &Read<'_>,
    workspace: OwnWorkspaceId,
    slot: &SlotName,
) -> Result<Option<SlotCapacity>> {
    let workspace_id = workspace.of(cx)?;
    let known = load_capacity_row(cx, &slot_key(slot))?;
    Ok(known.map(|(_, slot, capacity)| SlotCapacity { workspace_id, slot, capacity: Some(capacity) }))
}

request! {
    /// Removes the capacity of a slot, so that any number of claims may use the slot.
    ///
    /// Fails with 404 `not-found` if the slot has no capacity.
    #[derive(Serialize)]
    struct ClearSlotCapacity {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// The slot.
        slot: SlotName,
    }

    clear_slot_capacity(slot: SlotName) -> SlotCapacity
}

fn clear_slot_capacity(cx: &mut Write<'_>, input: &ClearSlotCapacity) -> Result<SlotCapacity> {
    let workspace_id = input.workspace_id.of(cx)?;
    let workspace = workspace_id;
    let slot_key = slot_key(&input.slot);
    let (stored_key, slot, _) =
        load_capacity_row(cx, &slot_key)?.ok_or_else(|| Error::not_found("slot capacity"))?;
    cx.execute(1, CLEAR, &[&workspace, &stored_key])?;
    cx.emit(Subject::WORKSPACE, &SlotCapacityCleared { slot: &slot })?;
    cx.audit("slot.capacity.clear", json!({"slot": slot}))?;
    unpark_behind_former_key(cx, workspace, (&stored_key, &slot_key))?;
    queue::unpark_behind(cx, Obstacle::slot(workspace, &slot_key))?;
    Ok(SlotCapacity { workspace_id: workspace, slot, capacity: None })
}

impl Answer<ClearSlotCapacity> for SlotCapacity {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, input: &ClearSlotCapacity, (): ()) -> Result<Self> {
        let workspace_id = input.workspace_id.of(cx)?;
        let none = || Self { workspace_id, slot: input.slot.to_string(), capacity: None };
        Ok(current_capacity(cx, input.workspace_id, &input.slot)?.unwrap_or_else(none))
    }
}

/// Frees the threads that are parked behind a slot under its stored key, if the stored key differs from the
/// current key.
fn unpark_behind_former_key(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    (stored, key): (&str, &str),
) -> Result<()> {
    if stored == key { Ok(()) } else { queue::unpark_behind(cx, Obstacle::slot(workspace, stored)) }
}

const CLEAR: &str = "delete from slots where workspace_id = $1 and slot_key = $2";

/// A slot, and the live claims that use the slot.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SlotUse {
    /// The slot's name, as spelled when its capacity was first set. Without a capacity, the name is
    /// normalised.
    pub slot: String,
    /// Maximum claims that may use the slot at the same time; null for any number.
    pub capacity: Option<i64>,
    /// Number of live claims that use the slot.
    pub used: i64,
    /// True if more than `used` claims may use the slot, because not all claims were counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The first 100 claims that use the slot, by lease end; fewer once 600 claims are listed for all slots
    /// together.
    pub holders: Vec<SlotHolder>,
}

/// A live claim that uses a slot.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SlotHolder {
    /// The member who holds the claim.
    pub holder: MemberId,
    /// Time at which the claim lapses unless it is renewed.
    pub lease_expires_at: Time,
    /// Id of the claimed thread; absent if you may not see the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
}

request! {
    /// Returns the slots that have a capacity or are in use, sorted by name, with the claims that use each
    /// slot.
    ///
    /// Up to 1000 slots without a capacity are listed, and up to 1000 uses are counted. Claims on threads
    /// that you may not see are included, with the holder and the end of the lease, but without the thread.
    /// Slots that only such claims use are listed too.
    struct ListSlots {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
    }

    list_slots() -> Page<SlotUse>
}

fn list_slots(cx: &Read<'_>, input: &ListSlots) -> Result<Page<SlotUse>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let mut slots = slots_in_use(cx)?;
    let mut left = SLOT_LIST_HOLDERS_MAX;
    for (key, slot) in slots.iter_mut().filter(|(_, slot)| slot.used > 0) {
        let limit = left.min(SLOT_HOLDERS_MAX);
        if limit == 0 {
            break;
        }
        left = left.saturating_sub(slot.used.min(limit));
        let obstacle = Obstacle::slot(workspace_id, key);
        slot.holders = obstacles::load_slot_claims(cx, obstacle, slot.used, limit)?
            .into_iter()
            .map(|(holder, lease_expires_at, thread, is_visible)| SlotHolder {
                holder,
                lease_expires_at,
                thread_id: is_visible.then_some(thread),
            })
            .collect();
    }
    Ok(Page::rest_after_index(slots.into_values().collect(), input.cursor))
}

/// A slot, and the number of live claims that use the slot.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct UsedSlot {
    /// The slot's name, as spelled when its capacity was first set. Without a capacity, the name is
    /// normalised.
    pub slot: String,
    /// Maximum claims that may use the slot at the same time; null for any number.
    pub capacity: Option<i64>,
    /// Number of live claims that use the slot.
    pub used: i64,
    /// True if more than `used` claims may use the slot, because not all claims were counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Returns the slots of the workspace that have a capacity or are in use, sorted by name.
pub(in crate::coordination) fn used_slots(cx: &Read<'_>) -> Result<Vec<UsedSlot>> {
    let slots = slots_in_use(cx)?.into_values();
    let used_slot =
        |SlotUse { slot, capacity, used, at_least, .. }| UsedSlot { slot, capacity, used, at_least };
    Ok(slots.map(used_slot).collect())
}

/// Returns the slots of the workspace that have a capacity or are in use, by slot key, without the holders of
/// claims.
fn slots_in_use(cx: &Read<'_>) -> Result<BTreeMap<String, SlotUse>> {
    let workspace = cx.caller().workspace_id;
    let limited: Vec<(String, String, i64)> = cx.query(CAPACITIES, &[&workspace])?;
    let others = other_slots_in_use(cx, limited.iter().map(|(key, ..)| &**key).collect())?;
    let stored = limited.iter().map(|(key, ..)| key).chain(&others);
    let stored: Vec<(Obstacle, String)> =
        stored.map(|key| (Obstacle::slot(workspace, key), slot_key(key))).collect();
    let mut slots: BTreeMap<String, SlotUse> = BTreeMap::new();
    let unused = |slot, capacity| SlotUse { slot, capacity, used: 0, at_least: false, holders: Vec::new() };
    for (key, slot, capacity) in limited {
        slots.insert(slot_key(&key), unused(slot, Some(capacity)));
    }
    for key in others {
        slots.entry(slot_key(&key)).or_insert_with(|| unused(key, None));
    }
    let used = SlotUseCounts::count(cx, stored.iter().map(|(obstacle, _)| *obstacle).collect())?;
    for (obstacle, key) in stored {
        let Some(slot) = slots.get_mut(&key) else { continue };
        let (used, at_least) = used.uses_of(obstacle);
        slot.used = slot.used.saturating_add(used);
        slot.at_least |= at_least;
    }
    slots.retain(|_, slot| slot.capacity.is_some() || slot.used > 0);
    Ok(slots)
}

/// Returns the keys of the used slots that are not in `limited`, up to [`SLOTS_MAX`].
fn other_slots_in_use(cx: &Read<'_>, limited: HashSet<&str>) -> Result<Vec<String>> {
    let named = SLOTS_MAX.saturating_add(i64::try_from(limited.len()).unwrap_or(i64::MAX));
    let named: Vec<(String,)> = cx.query(USED_SLOT_KEYS, &[&cx.caller().workspace_id, &named])?;
    let others = named.into_iter().map(|(key,)| key).filter(|key| !limited.contains(&**key));
    Ok(others.take(usize::try_from(SLOTS_MAX).unwrap_or(usize::MAX)).collect())
}

/// The number of live claims that use each slot.
struct SlotUseCounts {
    uses_by_slot: BTreeMap<Obstacle, i64>,
    /// Maximum claims that are counted per slot.
    limit_per_slot: i64,
}

impl SlotUseCounts {
    /// Counts the live claims of each slot, up to an equal share of the total limit.
    ///
    /// If a larger share fits into the total limit for the slots that reach their share, these slots are
    /// counted again.
    fn count(cx: &Read<'_>, slots: Vec<Obstacle>) -> Result<Self> {
        let share = |of: i64, slots: usize| {
            of.checked_div(i64::try_from(slots).unwrap_or(i64::MAX)).unwrap_or_default().max(1)
        };
        let mut limit_per_slot = share(SLOT_CLAIMS_COUNTED_MAX, slots.len());
        let mut uses_by_slot = obstacles::count_uses(cx, &slots, limit_per_slot)?;
        let (cut, whole): (Vec<_>, Vec<_>) =
            uses_by_slot.iter().partition(|(_, used)| **used >= limit_per_slot);
        let counted = whole.into_iter().fold(0_i64, |all, (_, used)| all.saturating_add(*used));
        let cut: Vec<Obstacle> = cut.into_iter().map(|(slot, _)| *slot).collect();
        let larger = share(SLOT_CLAIMS_COUNTED_MAX.saturating_sub(counted), cut.len());
        if !cut.is_empty() && larger > limit_per_slot {
            limit_per_slot = larger;
            uses_by_slot.extend(obstacles::count_uses(cx, &cut, limit_per_slot)?);
        }
        Ok(Self { uses_by_slot, limit_per_slot })
    }

    /// Returns how many claims use a slot, and whether more claims may use it.
    fn uses_of(&self, slot: Obstacle) -> (i64, bool) {
        let used = self.uses_by_slot.get(&slot).copied().unwrap_or_default();
        (used, used >= self.limit_per_slot)
    }
}

/// Selects the keys of the slots that claims use, with one index lookup per slot.
const USED_SLOT_KEYS: &str = "
    with recursive named (slot_key) as (
        select (
            select l.prefix from live_items l
            where l.workspace_id = $1 and l.repo_key = '' and l.space = 'slot' and l.exclusive = true
            order by l.prefix limit 1)
        union all
        select (
            select l.prefix from live_items l
            where l.workspace_id = $1 and l.repo_key = '' and l.space = 'slot' and l.exclusive = true
                and l.prefix > n.slot_key
            order by l.prefix limit 1)
        from named n where n.slot_key is not null)
    select n.slot_key from named n where n.slot_key is not null limit $2";
