//! Parcels for the ways out: a shell takes what is due, sends it, and says what became of it.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::host::service::Service;
use crate::id::{MemberId, WorkspaceId};
use crate::limits::PARCEL_LEASE;
use crate::op::{Arrival, OwnQueue, OwnWork, Parcel, Queue, Read, Surface, Way, Write};

impl Service {
    /// Takes what is due on a way, as parcels of at most `max` members.
    ///
    /// Each is leased to the caller, who sends and [settles](Self::settle) it before the lease ends; else it
    /// is taken again. What one member has due and cannot be taken does not hold up others.
    pub async fn take_parcels(&self, way: &str, max: usize) -> Result<Vec<Parcel>> {
        let Queue::Own(OwnQueue { due, take, put_off }) = self.way(way)?.queue;
        let most = i64::try_from(max).map_err(Error::internal)?;
        let (sender, receiver) = oneshot::channel();
        let next = move |cx: &Read<'_>| cx.query(due, &[&cx.now(), &most]);
        self.dispatch().submit_as_instance(OwnWork::INSTANCE, next, move |outcome| {
            // The caller may have gone away; then nobody needs to know.
            let _ = sender.send(outcome);
        });
        let members: Vec<(WorkspaceId, MemberId)> = receiver.await.map_err(Error::internal)??;
        let mut taken = Vec::new();
        for (workspace, member) in members {
            let (sender, receiver) = oneshot::channel();
            let run = move |cx: &mut Write<'_>| take(cx, member);
            self.dispatch().submit_change_as_instance(
                OwnWork::on(workspace),
                Surface::System,
                run,
                move |outcome| {
                    // Whoever has gone away leaves it to the next one, when the lease ends.
                    let _ = sender.send(outcome);
                },
            );
            taken.push((workspace, member, receiver));
        }
        let mut parcels = Vec::new();
        for (workspace, member, receiver) in taken {
            match receiver.await.map_err(Error::internal).flatten() {
                Ok(parcel) => parcels.extend(parcel),
                Err(error) => {
                    tracing::warn!(way, %error, cause = ?error.cause(), "a parcel was not taken");
                    // Whoever has waited longest comes first, and must not stay there.
                    let run = move |cx: &mut Write<'_>| put_off(cx, member, cx.now().plus(PARCEL_LEASE));
                    self.dispatch().submit_change_as_instance(
                        OwnWork::on(workspace),
                        Surface::System,
                        run,
                        |_| {},
                    );
                }
            }
        }
        Ok(parcels)
    }

    /// Returns whether the piece of a parcel at this place is still to be sent, which is asked right before.
    pub async fn is_current(&self, parcel: &Arc<Parcel>, place: usize) -> Result<bool> {
        let is_current = self.way(parcel.way())?.is_current;
        let (sender, receiver) = oneshot::channel();
        let (workspace, parcel) = (parcel.workspace_id(), Arc::clone(parcel));
        let run = move |cx: &Read<'_>| is_current(cx, &parcel, place);
        self.dispatch().submit_as_instance(OwnWork::on(workspace), run, move |outcome| {
            // The caller may have gone away; then nobody needs to know.
            let _ = sender.send(outcome);
        });
        receiver.await.map_err(Error::internal)?
    }

    /// Records what became of each piece of a parcel, in their order.
    pub async fn settle(&self, parcel: impl Into<Arc<Parcel>>, arrivals: Vec<Arrival>) -> Result<()> {
        let parcel: Arc<Parcel> = parcel.into();
        parcel.check(&arrivals)?;
        let settle = self.way(parcel.way())?.settle;
        let (sender, receiver) = oneshot::channel();
        let workspace = parcel.workspace_id();
        let settled = Arc::new((parcel, arrivals));
        let run = move |cx: &mut Write<'_>| settle(cx, &settled.0, &settled.1);
        self.dispatch().submit_change_as_instance(
            OwnWork::on(workspace),
            Surface::System,
            run,
            move |outcome| {
                // The caller may have gone away; then nobody needs to know.
                let _ = sender.send(outcome);
            },
        );
        receiver.await.map_err(Error::internal)?
    }

    fn way(&self, name: &str) -> Result<Way> {
        let way = self.table().way(name).copied();
        way.ok_or_else(|| Error::internal(format!("there is no way named {name}")))
    }
}
