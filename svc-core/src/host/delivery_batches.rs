//! Delivery batches: a shell takes due notifications, sends them, and reports the results.
//!
//! Workspaces take turns, and share the slots of a delivery channel as they share other limited resources.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::future::join_all;

use crate::error::{Error, Result};
use crate::host::delivery_slots::ChannelSlots;
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
        let sending = self.process().sending.slots_of(channel.name);
        if sending.places.is_full() {
            return Ok(Vec::new());
        }
        let look = {
            let sending = Arc::clone(&sending);
            move |cx: &Read<'_>| find_due_members(cx, channel, &sending)
        };
        let due = self.dispatch().await_read(ServiceWork::INSTANCE, look).await?;
        let places = sending.places.take_in_turn(due.iter().map(|due| due.holder()));
        let placed = due.into_iter().zip(places).filter_map(|(due, place)| Some((due, place?)));
        // A workspace that gets a further slot in this scan is last in the next scan.
        let placed = placed.inspect(|(due, _)| sending.record_turn(due.workspace, due.charged_to));
        // If the caller stops waiting, the batches are taken again when their leases end.
        let taken = join_all(placed.map(async |(due, place)| {
            let batch = self.take_batch(channel, due).await?;
            Some((batch, place))
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

    /// Returns whether the notification at index `place` of a batch should still be sent.
    ///
    /// Call this right before sending the notification.
    pub async fn is_current<T: Send + Sync + 'static>(
        &self,
        batch: &Arc<DeliveryBatch<T>>,
        place: usize,
    ) -> Result<bool> {
        let workspace = batch.workspace_id();
        let batch = Arc::clone(batch);
        let run = move |cx: &Read<'_>| (batch.channel().is_current)(cx, &batch, place);
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
    sending: &ChannelSlots,
) -> Result<Vec<DueMember>> {
    let places = &sending.places;
    let free = DELIVERY_BATCHES_MAX.saturating_sub(places.taken());
    let mut turns: RoundRobin<WorkspaceId, VecDeque<WorkspaceId>> = RoundRobin::default();
    for (workspace, charged_to, is_due) in workspaces_in_turn(cx, channel, sending)? {
        if is_due && places.room(charged_to, 1) > 0 {
            turns.entry(charged_to).push_back(workspace);
        }
    }
    // At most as many members of each workspace as it may have slots, so that every workspace gets one in its
    // turn.
    let mut room: BTreeMap<WorkspaceId, usize> =
        turns.keys().map(|charged_to| (charged_to, places.room(charged_to, free))).collect();
    let mut found: Vec<VecDeque<DueMember>> = Vec::new();
    while found.len() < free {
        let mut keys = turns.keys();
        let next = keys.find_map(|id| room.get(&id).copied().filter(|room| *room > 0).map(|room| (id, room)));
        drop(keys);
        let Some((charged_to, left)) = next else { break };
        room.insert(charged_to, left - 1);
        let Some(workspace) = turns.pop(charged_to) else { break };
        found.push(longest_waiting_members(cx, channel, (workspace, charged_to))?);
        sending.record_turn(workspace, charged_to);
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
    let most = i64::try_from(DELIVERY_BATCHES_MAX).map_err(Error::internal)?;
    let members: Vec<(MemberId,)> = cx.query(channel.members, &[&workspace, &cx.now(), &most])?;
    Ok(members.into_iter().map(|(member,)| DueMember { workspace, charged_to, member }).collect())
}

/// Returns the workspaces with waiting notifications, in the order of their turns: the id, the charged
/// workspace, and whether a notification is due.
///
/// If one scan does not cover all workspaces, the next scan continues after the last one.
fn workspaces_in_turn<T>(
    cx: &Read<'_>,
    channel: &DeliveryChannel<T>,
    sending: &ChannelSlots,
) -> Result<Vec<(WorkspaceId, WorkspaceId, bool)>> {
    let next = |after: WorkspaceId, most: i64| -> Result<Vec<(WorkspaceId, WorkspaceId, bool)>> {
        cx.query(channel.workspaces, &[&cx.now(), &after, &most])
    };
    let after = sending.scan_after();
    let mut found = next(after, DUE_WORKSPACES_MAX)?;
    let left = DUE_WORKSPACES_MAX.saturating_sub(i64::try_from(found.len()).map_err(Error::internal)?);
    if left > 0 && after != WorkspaceId::INSTANCE {
        let first = next(WorkspaceId::INSTANCE, left)?;
        found.extend(first.into_iter().take_while(|(workspace, ..)| *workspace <= after));
    }
    let is_all = i64::try_from(found.len()).map_err(Error::internal)? < DUE_WORKSPACES_MAX;
    sending.set_scan_after(found.last().map(|(workspace, ..)| *workspace).filter(|_| !is_all));
    sending.sort_by_turn(&mut found);
    Ok(found)
}
