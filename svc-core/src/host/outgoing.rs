//! Delivery batches: a shell takes due notifications, sends them, and reports the results.
//!
//! Workspaces take turns, and share the slots of a channel like those of any ceiling.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::future::join_all;

use crate::error::{Error, Result};
use crate::host::sending::Sending;
use crate::host::service::Service;
use crate::id::{MemberId, WorkspaceId};
use crate::limits::{DUE_WORKSPACES_MAX, PARCEL_LEASE, PARCELS_MAX};
use crate::op::{Arrival, OwnWork, Parcel, Read, Surface, Way, Write};
use crate::rate::{Client, Holder};
use crate::rota::Rota;
use crate::share::Place;

/// A member with due notifications.
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
    /// Takes due notifications of a channel, as batches, each with the slot that it occupies until it is sent
    /// and settled.
    ///
    /// Each batch is leased to the caller, who sends and [settles](Self::settle) it before the lease ends;
    /// otherwise it is taken again. A member whose notifications cannot be taken does not delay others.
    pub async fn take_parcels<T: Send + Sync + 'static>(
        &self,
        way: &'static Way<T>,
    ) -> Result<Vec<(Parcel<T>, Place)>> {
        let sending = self.process().sending.on(way.name);
        if sending.places.is_full() {
            return Ok(Vec::new());
        }
        let look = {
            let sending = Arc::clone(&sending);
            move |cx: &Read<'_>| look(cx, way, &sending)
        };
        let due = self.dispatch().await_read(OwnWork::INSTANCE, look).await?;
        let places = sending.places.take_in_turn(due.iter().map(|due| due.holder()));
        let placed = due.into_iter().zip(places).filter_map(|(due, place)| Some((due, place?)));
        // A member that gets a further slot in this scan comes last in the next one.
        let placed = placed.inspect(|(due, _)| sending.had_turn(due.workspace, due.charged_to));
        // If the caller has gone away, the batches are taken again when their leases end.
        let taken = join_all(placed.map(async |(due, place)| {
            let parcel = self.take_parcel(way, due).await?;
            Some((parcel, place))
        }));
        Ok(taken.await.into_iter().flatten().collect())
    }

    /// Takes a member's due notifications; returns `None` if there is nothing to send, or they cannot be
    /// taken.
    async fn take_parcel<T: Send + Sync + 'static>(
        &self,
        way: &'static Way<T>,
        due: DueMember,
    ) -> Option<Parcel<T>> {
        let own = OwnWork::on(due.workspace);
        let member = due.member;
        let run = move |cx: &mut Write<'_>| (way.take)(cx, member);
        match self.dispatch().await_change(own, Surface::System, run).await {
            Ok(parcel) => parcel,
            Err(error) => {
                tracing::warn!(way = way.name, %error, cause = ?error.cause(), "a parcel was not taken");
                // The member that has waited longest comes first, and must not block that position.
                let run = move |cx: &mut Write<'_>| (way.put_off)(cx, member, cx.now().plus(PARCEL_LEASE));
                self.dispatch().submit_change_as_instance(own, Surface::System, run, |_| {});
                None
            }
        }
    }

    /// Returns whether the notification of a batch at this index is still to be sent; call it right before
    /// sending.
    pub async fn is_current<T: Send + Sync + 'static>(
        &self,
        parcel: &Arc<Parcel<T>>,
        place: usize,
    ) -> Result<bool> {
        let workspace = parcel.workspace_id();
        let parcel = Arc::clone(parcel);
        let run = move |cx: &Read<'_>| (parcel.way().is_current)(cx, &parcel, place);
        self.dispatch().await_read(OwnWork::on(workspace), run).await
    }

    /// Records the result of each notification of a batch, in their order.
    pub async fn settle<T: Send + Sync + 'static>(
        &self,
        parcel: impl Into<Arc<Parcel<T>>>,
        arrivals: Vec<Arrival>,
    ) -> Result<()> {
        let parcel: Arc<Parcel<T>> = parcel.into();
        parcel.check(&arrivals)?;
        let settle = parcel.way().settle;
        let workspace = parcel.workspace_id();
        let settled = Arc::new((parcel, arrivals));
        let run = move |cx: &mut Write<'_>| settle(cx, &settled.0, &settled.1);
        self.dispatch().await_change(OwnWork::on(workspace), Surface::System, run).await
    }
}

/// Finds the members that have waited longest in the workspaces whose turn it is.
///
/// A workspace is skipped and keeps its turn if no slot is left for the workspace that is charged. It has had
/// its turn once its members are found, even if none of them can get a slot.
fn look<T>(cx: &Read<'_>, way: &Way<T>, sending: &Sending) -> Result<Vec<DueMember>> {
    let places = &sending.places;
    let free = PARCELS_MAX.saturating_sub(places.taken());
    let mut turns: Rota<WorkspaceId, VecDeque<WorkspaceId>> = Rota::default();
    for (workspace, charged_to, is_due) in workspaces_in_turn(cx, way, sending)? {
        if is_due && places.room(charged_to, 1) > 0 {
            turns.entry(charged_to).push_back(workspace);
        }
    }
    // As many of each as there are slots, so that every workspace whose turn comes gets one.
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
        found.push(longest_waiting(cx, way, (workspace, charged_to))?);
        sending.had_turn(workspace, charged_to);
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

/// Returns as many members of a workspace as there are slots: a member that uses up its share gets none, and
/// must not delay others.
fn longest_waiting<T>(
    cx: &Read<'_>,
    way: &Way<T>,
    (workspace, charged_to): (WorkspaceId, WorkspaceId),
) -> Result<VecDeque<DueMember>> {
    let most = i64::try_from(PARCELS_MAX).map_err(Error::internal)?;
    let members: Vec<(MemberId,)> = cx.query(way.members, &[&workspace, &cx.now(), &most])?;
    Ok(members.into_iter().map(|(member,)| DueMember { workspace, charged_to, member }).collect())
}

/// Returns the workspaces in which notifications wait, in the order of turns: the id, the workspace that is
/// charged, and whether a notification is due there.
///
/// If there are more than one scan covers, the next scan continues after them.
fn workspaces_in_turn<T>(
    cx: &Read<'_>,
    way: &Way<T>,
    sending: &Sending,
) -> Result<Vec<(WorkspaceId, WorkspaceId, bool)>> {
    let next = |after: WorkspaceId, most: i64| -> Result<Vec<(WorkspaceId, WorkspaceId, bool)>> {
        cx.query(way.workspaces, &[&cx.now(), &after, &most])
    };
    let after = sending.covered();
    let mut found = next(after, DUE_WORKSPACES_MAX)?;
    let left = DUE_WORKSPACES_MAX.saturating_sub(i64::try_from(found.len()).map_err(Error::internal)?);
    if left > 0 && after != WorkspaceId::INSTANCE {
        let first = next(WorkspaceId::INSTANCE, left)?;
        found.extend(first.into_iter().take_while(|(workspace, ..)| *workspace <= after));
    }
    let is_all = i64::try_from(found.len()).map_err(Error::internal)? < DUE_WORKSPACES_MAX;
    sending.begin_after(found.last().map(|(workspace, ..)| *workspace).filter(|_| !is_all));
    sending.put_in_order(&mut found);
    Ok(found)
}
