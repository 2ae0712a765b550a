//! Delivery batches: a shell takes due notifications, sends them, and reports the results.
//!
//! Workspaces take turns, and share the slots of a delivery channel as they share other limited resources.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::future::join_all;

use crate::error::{Error, Result};
use crate::host::delivery_slots::{ChannelSlots, WaitingWorkspace};
use crate::host::service::Service;
use crate::id::{MemberId, WorkspaceId};
use crate::limits::{DELIVERY_BATCH_LEASE, DELIVERY_BATCHES_MAX, DUE_WORKSPACES_MAX};
use crate::op::{DeliveryBatch, DeliveryChannel, DeliveryResult, Read, ServiceWork, Surface, Write};
use crate::rate::{Client, Holder};
use crate::round_robin::RoundRobin;
use crate::share::PlaceGuard;

/// A member with due notifications, and the workspace that is charged for them.
#[derive(Clone, Copy)]
struct DueMember {
    workspace: WorkspaceId,
    charged_to: WorkspaceId,
    member: MemberId,
}

impl DueMember {
    fn holder(self) -> Holder {
        Holder { client: Client::Member(self.member), workspace: self.charged_to }
    }
}

impl Service {
    /// Takes due notifications of a delivery channel as batches, each with the slot that it occupies until it
    /// is settled.
    ///
    /// Each batch is leased to the caller, who must send and [settle](Self::settle) it before the lease ends;
    /// otherwise the batch is taken again. A member whose notifications cannot be taken does not delay
    /// others.
    pub async fn take_batches<T: Send + Sync + 'static>(
        &self,
        channel: &'static DeliveryChannel<T>,
    ) -> Result<Vec<(DeliveryBatch<T>, PlaceGuard)>> {
        let slots = self.process().delivery_slots.slots_of(channel.name);
        if slots.ceiling.is_full() {
            return Ok(Vec::new());
        }
        let preflight = {
            let slots = Arc::clone(&slots);
            move |cx: &Read<'_>| find_due_members(cx, channel, &slots)
        };
        let due = self.dispatch().await_read(ServiceWork::INSTANCE, preflight).await?;
        let guards = slots.ceiling.take_in_turn(due.iter().map(|due| due.holder()));
        let placed = due.into_iter().zip(guards).filter_map(|(due, guard)| Some((due, guard?)));
        // A workspace that gets a further slot in this scan is last in the next scan.
        let placed = placed.inspect(|(due, _)| slots.record_turn(due.workspace, due.charged_to));
        // If the caller stops waiting, the batches are taken again when their leases end.
        let taken = join_all(placed.map(async |(due, guard)| {
            let batch = self.take_batch(channel, due).await?;
            Some((batch, guard))
        }));
        Ok(taken.await.into_iter().flatten().collect())
    }

    /// Takes the due notifications of a member. Returns `None` if there are none, or if they cannot be taken.
    async fn take_batch<T: Send + Sync + 'static>(
        &self,
        channel: &'static DeliveryChannel<T>,
        due: DueMember,
    ) -> Option<DeliveryBatch<T>> {
        let own = ServiceWork::on(due.workspace);
        let member = due.member;
        let run = move |cx: &mut Write<'_>| (channel.take)(cx, member);
        match self.dispatch().await_change(own, Surface::System, run).await {
            Ok(batch) => batch,
            Err(error) => {
                tracing::warn!(channel = channel.name, %error, cause = ?error.cause(), "no batch was taken");
                // Otherwise a member whose notifications cannot be taken would always have waited the
                // longest, and would block the others.
                let run = move |cx: &mut Write<'_>| {
                    (channel.postpone)(cx, member, cx.now().plus(DELIVERY_BATCH_LEASE))
                };
                self.dispatch().submit_change_as_instance(own, Surface::System, run, |_| {});
                None
            }
        }
    }

    /// Returns whether the notification at index `index` of a batch should still be sent.
    ///
    /// Call this right before sending the notification.
    pub async fn is_current<T: Send + Sync + 'static>(
        &self,
        batch: &Arc<DeliveryBatch<T>>,
        index: usize,
    ) -> Result<bool> {
        let workspace = batch.workspace_id();
        let batch = Arc::clone(batch);
        let run = move |cx: &Read<'_>| (batch.channel().is_current)(cx, &batch, index);
        self.dispatch().await_read(ServiceWork::on(workspace), run).await
    }

    /// Records the results of a batch: one for each notification, in the same order.
    pub async fn settle<T: Send + Sync + 'static>(
        &self,
        batch: impl Into<Arc<DeliveryBatch<T>>>,
        results: Vec<DeliveryResult>,
    ) -> Result<()> {
        let batch: Arc<DeliveryBatch<T>> = batch.into();
        batch.check(&results)?;
        let settle = batch.channel().settle;
        let workspace = batch.workspace_id();
        let settled = Arc::new((batch, results));
        let run = move |cx: &mut Write<'_>| settle(cx, &settled.0, &settled.1);
        self.dispatch().await_change(ServiceWork::on(workspace), Surface::System, run).await
    }
}

/// Finds the longest-waiting members in the workspaces whose turn it is.
///
/// A workspace is skipped and keeps its turn if no slot is left for the workspace that is charged. Once its
/// members are found, a workspace has had its turn, even if none of them can get a slot.
fn find_due_members<T>(
    cx: &Read<'_>,
    channel: &DeliveryChannel<T>,
    slots: &ChannelSlots,
) -> Result<Vec<DueMember>> {
    let ceiling = &slots.ceiling;
    let free = DELIVERY_BATCHES_MAX.saturating_sub(ceiling.taken());
    let mut turns: RoundRobin<WorkspaceId, VecDeque<WorkspaceId>> = RoundRobin::default();
    for WaitingWorkspace { workspace, charged_to, is_due } in workspaces_in_turn(cx, channel, slots)? {
        if is_due && ceiling.room(charged_to, 1) > 0 {
            turns.entry(charged_to).push_back(workspace);
        }
    }
    // At most as many members of each workspace as it may have slots, so that every workspace gets one in its
    // turn.
    let mut slots_left: BTreeMap<WorkspaceId, usize> =
        turns.keys().map(|charged_to| (charged_to, ceiling.room(charged_to, free))).collect();
    let mut found: Vec<VecDeque<DueMember>> = Vec::new();
    while found.len() < free {
        let mut keys = turns.keys();
        let next =
            keys.find_map(|id| slots_left.get(&id).copied().filter(|left| *left > 0).map(|left| (id, left)));
        drop(keys);
        let Some((charged_to, left)) = next else { break };
        slots_left.insert(charged_to, left - 1);
        let Some(workspace) = turns.pop(charged_to) else { break };
        found.push(longest_waiting_members(cx, channel, (workspace, charged_to))?);
        slots.record_turn(workspace, charged_to);
    }
    let mut due = Vec::new();
    while !found.is_empty() {
        found.retain_mut(|members| {
            due.extend(members.pop_front());
            !members.is_empty()
        });
    }
    Ok(due)
}

/// Returns the members of a workspace that have waited the longest, at most as many as there are slots.
///
/// A member that has used up its share gets no slot, but must not delay others.
fn longest_waiting_members<T>(
    cx: &Read<'_>,
    channel: &DeliveryChannel<T>,
    (workspace, charged_to): (WorkspaceId, WorkspaceId),
) -> Result<VecDeque<DueMember>> {
    let limit = i64::try_from(DELIVERY_BATCHES_MAX).map_err(Error::internal)?;
    let members: Vec<(MemberId,)> = cx.query(channel.members, &[&workspace, &cx.now(), &limit])?;
    Ok(members.into_iter().map(|(member,)| DueMember { workspace, charged_to, member }).collect())
}

/// Returns the workspaces with waiting notifications, in the order of their turns.
///
/// If one scan does not cover all workspaces, the next scan continues after the last one.
fn workspaces_in_turn<T>(
    cx: &Read<'_>,
    channel: &DeliveryChannel<T>,
    slots: &ChannelSlots,
) -> Result<Vec<WaitingWorkspace>> {
    let next = |after: WorkspaceId, limit: i64| -> Result<Vec<WaitingWorkspace>> {
        let rows: Vec<(WorkspaceId, WorkspaceId, bool)> =
            cx.query(channel.workspaces, &[&cx.now(), &after, &limit])?;
        let waiting = rows.into_iter().map(|(workspace, charged_to, is_due)| WaitingWorkspace {
            workspace,
            charged_to,
            is_due,
        });
        Ok(waiting.collect())
    };
    let after = slots.scan_after();
    let mut found = next(after, DUE_WORKSPACES_MAX)?;
    let left = DUE_WORKSPACES_MAX.saturating_sub(i64::try_from(found.len()).map_err(Error::internal)?);
    if left > 0 && after != WorkspaceId::INSTANCE {
        let first = next(WorkspaceId::INSTANCE, left)?;
        found.extend(first.into_iter().take_while(|waiting| waiting.workspace <= after));
    }
    let is_all = i64::try_from(found.len()).map_err(Error::internal)? < DUE_WORKSPACES_MAX;
    slots.set_scan_after(found.last().map(|waiting| waiting.workspace).filter(|_| !is_all));
    slots.sort_by_turn(&mut found);
    Ok(found)
}
