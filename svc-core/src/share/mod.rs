//! Ceilings: limited resources of a process, and the holders of their places.
//!
//! A [`Ceiling`] is the only way to take a [`PlaceGuard`] of a resource that callers could use up: requests
//! in flight, bytes in memory, connections, sessions, waits. No workspace can take all places from other
//! workspaces, and no client can take all places from other clients of its workspace.

mod scope;
mod turns;
mod place;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::rate::Holder;
use crate::sync::lock;
pub use place::PlaceGuard;
use place::{GrantedPlaces, PlaceRequest, hand_on};
pub use scope::CeilingScope;
use turns::{CallerTurns, PlaceWaiter};

/// Seconds after which a caller should retry when its request for a place was rejected.
const RETRY_AFTER_SECS: u64 = 1;

/// A number of places, shared by workspaces, and within each workspace by its clients.
///
/// The last quarter of the places, rounded up, goes only to workspaces that hold less than half of all
/// places. While another workspace waits, no place goes to a workspace that holds half. So a single workspace
/// can hold three quarters, and leaves at least a quarter to other workspaces. The same applies to the
/// clients of a workspace, within the places that the workspace may hold at the time: half of the ceiling, or
/// more if other workspaces leave more. Clients and workspaces may also have fixed quotas. A holder without a
/// place may take more than its quota or share at once, because otherwise a larger request could never be
/// satisfied. Places that a client holds beyond its quota, and that a workspace holds beyond three quarters,
/// count against no other holder.
///
/// Clones share the places.
#[derive(Clone)]
pub struct Ceiling(Arc<CeilingState>);

/// Fixed quotas of the holders of places, in addition to the ceiling's shares.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quotas {
    /// Maximum places held by one client.
    pub client: Option<usize>,
    /// Maximum places held by one workspace.
    pub workspace: Option<usize>,
}

struct CeilingState {
    /// Plural name of the places in messages, for example of connections.
    what: &'static str,
    rules: CeilingRules,
    state: Mutex<State>,
    returned: Notify,
}

/// The number of places, and the quotas of holders.
struct CeilingRules {
    all: usize,
    client: usize,
    workspace: usize,
    /// Whether workspaces have shares. Otherwise only the quotas of clients count.
    has_shares: bool,
}

#[derive(Default)]
struct State {
    /// The places that count towards the total: for each workspace, no more than three quarters.
    total: usize,
    workspaces: HashMap<WorkspaceId, WorkspacePlaces>,
    clients: HashMap<Holder, usize>,
    turns: CallerTurns<PlaceGuard>,
}

/// The places held by a workspace.
#[derive(Clone, Copy, Default)]
struct WorkspacePlaces {
    held: usize,
    /// The places that count against the workspace: for each client, no more than its quota.
    counted: usize,
}

/// Numbers of places for a client: those that it holds, those that count against its workspace, and those
/// that count towards the total.
#[derive(Clone, Copy)]
struct PlaceCounts {
    client: usize,
    workspace: usize,
    total: usize,
}

/// Whether a client holds less than its quota, and its workspace less than all places.
#[derive(Clone, Copy)]
struct QuotaCheck {
    client: bool,
    workspace: bool,
}

impl Ceiling {
    /// Creates a ceiling of `all` places. `what` is their plural name in messages.
    pub fn new(what: &'static str, all: usize, quotas: Quotas) -> Self {
        let quota = |quota: Option<usize>| quota.unwrap_or(usize::MAX);
        let client = quota(quotas.client);
        let workspace = quota(quotas.workspace);
        Self::with(what, CeilingRules { all, client, workspace, has_shares: true })
    }

    /// Creates a ceiling of `all` places, of which one client may hold `each`, in any workspace.
    ///
    /// For places that are taken for an address, before a workspace is known.
    pub fn with_client_limit(what: &'static str, all: usize, each: usize) -> Self {
        Self::with(what, CeilingRules { all, client: each, workspace: usize::MAX, has_shares: false })
    }

    fn with(what: &'static str, rules: CeilingRules) -> Self {
        Self(Arc::new(CeilingState { what, rules, state: Mutex::default(), returned: Notify::new() }))
    }

    /// Takes a place of `size`.
    ///
    /// Fails with 503 `overloaded` if the holder may not take that much now.
    pub fn take(&self, holder: Holder, size: usize) -> Result<PlaceGuard> {
        self.try_take(holder, size).map_err(|scope| self.0.exhausted(scope))
    }

    /// Takes a place of `size`, or returns the scope whose places are used up.
    pub fn try_take(&self, holder: Holder, size: usize) -> std::result::Result<PlaceGuard, CeilingScope> {
        let mut state = lock(&self.0.state);
        self.0.rules.fits(&state, holder, size)?;
        Ok(PlaceGuard::record(&self.0, &mut state, holder, size))
    }

    /// Takes a place of `size`, even if that much is not available.
    pub fn take_beyond_limits(&self, holder: Holder, size: usize) -> PlaceGuard {
        PlaceGuard::record(&self.0, &mut lock(&self.0.state), holder, size)
    }

    /// Takes a place of `size`, waiting in turn until that much is available to the holder.
    ///
    /// Fails with 503 `overloaded` if too many callers of the same holder already wait.
    pub async fn wait(&self, holder: Holder, size: usize) -> Result<PlaceGuard> {
        let mut waiting = {
            let mut state = lock(&self.0.state);
            if !state.turns.has(holder) && self.0.rules.fits(&state, holder, size).is_ok() {
                return Ok(PlaceGuard::record(&self.0, &mut state, holder, size));
            }
            match state.turns.add(holder, size) {
                Ok(receiver) => PlaceRequest { shared: Arc::clone(&self.0), holder, receiver },
                Err(scope) => {
                    drop(state);
                    return Err(self.0.exhausted(scope));
                }
            }
        };
        (&mut waiting.receiver).await.map_err(Error::internal)
    }

    /// Takes a place of size 1 for each of the holders that can have one, as if all of them had waited.
    ///
    /// Workspaces take turns in the order of the holders, and so do the clients of a workspace.
    pub fn take_in_turn(&self, holders: impl IntoIterator<Item = Holder>) -> Vec<Option<PlaceGuard>> {
        let (waiting, granted) = {
            let mut state = lock(&self.0.state);
            let add = |holder| {
                let receiver = state.turns.add(holder, 1).ok()?;
                Some(PlaceRequest { shared: Arc::clone(&self.0), holder, receiver })
            };
            let waiting: Vec<Option<PlaceRequest>> = holders.into_iter().map(add).collect();
            (waiting, self.0.rules.serve(&self.0, &mut state))
        };
        hand_on(granted);
        waiting.into_iter().map(|waiting| waiting?.receiver.try_recv().ok()).collect()
    }

    /// Waits until a client holds less than its quota and its workspace less than the ceiling.
    ///
    /// Places of a client beyond its quota do not count against its workspace.
    pub async fn below_quota(&self, holder: Holder) {
        while !self.is_below_quota(holder) {
            let mut returned = pin!(self.0.returned.notified());
            // Registered before the counts are read, so that no returned place is missed.
            returned.as_mut().enable();
            if self.is_below_quota(holder) {
                return;
            }
            returned.await;
        }
    }

    fn is_below_quota(&self, holder: Holder) -> bool {
        let standing = lock(&self.0.state).standing(holder);
        let QuotaCheck { client, workspace } = self.0.rules.below_quota(standing);
        client && workspace
    }

    /// Returns the error for a caller that has waited without getting a place.
    pub fn exhausted(&self, holder: Holder, size: usize) -> Error {
        let fits = self.0.rules.fits(&lock(&self.0.state), holder, size);
        self.0.exhausted(fits.err().unwrap_or(CeilingScope::Server))
    }

    /// Returns whether no place is available to any holder.
    pub fn is_full(&self) -> bool {
        lock(&self.0.state).total >= self.0.rules.all
    }

    /// Returns how many places of size 1 new clients of a workspace can take one after the other, up to
    /// `most`.
    pub fn room(&self, workspace: WorkspaceId, most: usize) -> usize {
        let state = lock(&self.0.state);
        let rules = &self.0.rules;
        let mut own = PlaceCounts { client: 0, workspace: state.counted(workspace), total: state.total };
        let mut fits_one_more = || {
            let fits = rules.fits_in_workspace(&state, workspace, own, 1).is_ok();
            own = rules.counting(own, own.workspace.saturating_add(1));
            fits
        };
        (0..most).take_while(|_| fits_one_more()).count()
    }

    /// Returns whether all places are taken and the workspace holds at least half of them, so that it would
    /// wait for its own places.
    pub fn is_used_up_by(&self, workspace: WorkspaceId) -> bool {
        let state = lock(&self.0.state);
        let rules = &self.0.rules;
        state.total >= rules.all && !rules.is_in_share_of_workspace(state.counted(workspace), 1)
    }

    /// Returns the total number of taken places.
    pub fn taken(&self) -> usize {
        lock(&self.0.state).total
    }

    /// Returns the total number of places, or `None` if they are unlimited.
    pub fn limit(&self) -> Option<usize> {
        Some(self.0.rules.all).filter(|all| *all != usize::MAX)
    }
}

impl CeilingRules {
    /// Returns half of a holder's maximum, rounded up.
    fn half(all: usize) -> usize {
        all.div_ceil(2)
    }

    /// Returns three quarters of a holder's maximum, rounded down. The last quarter is left to others.
    fn most(all: usize) -> usize {
        all.saturating_sub(all.div_ceil(4))
    }

    /// Checks whether the holder can take `size` more places. Fails with the scope whose places are used up.
    fn fits(&self, state: &State, holder: Holder, size: usize) -> std::result::Result<(), CeilingScope> {
        if self.all == 0 {
            return Err(CeilingScope::Server);
        }
        let own = state.standing(holder);
        if !fits(own.client, size, self.client) || !self.fits_client(state, holder, own, size) {
            return Err(CeilingScope::Client);
        }
        self.fits_in_workspace(state, holder.workspace, own, size)
    }

    /// Checks that the workspace can take `size` more places, whichever client takes them. Fails with the
    /// scope that has too few free places.
    fn fits_in_workspace(
        &self,
        state: &State,
        workspace: WorkspaceId,
        own: PlaceCounts,
        size: usize,
    ) -> std::result::Result<(), CeilingScope> {
        if !fits(own.workspace, size, self.workspace) || !self.fits_workspace(state, workspace, own, size) {
            return Err(CeilingScope::Workspace);
        }
        if fits(own.total, size, self.all) { Ok(()) } else { Err(CeilingScope::Server) }
    }

    /// Returns whether a client and its workspace hold less than their quotas.
    fn below_quota(&self, PlaceCounts { client, workspace, .. }: PlaceCounts) -> QuotaCheck {
        QuotaCheck { client: client < self.client, workspace: !self.has_shares || workspace < self.all }
    }

    fn fits_workspace(&self, state: &State, workspace: WorkspaceId, own: PlaceCounts, size: usize) -> bool {
        self.is_in_share_of_workspace(own.workspace, size)
            || (own.total.saturating_add(size) <= Self::most(self.all)
                && !self.another_workspace_waits(state, workspace))
    }

    fn fits_client(&self, state: &State, holder: Holder, own: PlaceCounts, size: usize) -> bool {
        self.is_in_share_of_client(own, size)
            || (own.workspace.saturating_add(size) <= Self::most(self.of_workspace(own))
                && !self.another_client_waits(state, holder))
    }

    fn is_in_share_of_workspace(&self, counted: usize, size: usize) -> bool {
        !self.has_shares || fits(counted, size, Self::half(self.all))
    }

    fn is_in_share_of_client(&self, own: PlaceCounts, size: usize) -> bool {
        !self.has_shares || fits(own.client, size, Self::half(self.of_workspace(own)))
    }

    /// Returns the current maximum of a workspace: half of all places if other workspaces leave that, or
    /// three quarters minus the places that they hold.
    fn of_workspace(&self, own: PlaceCounts) -> usize {
        let others = own.total.saturating_sub(self.towards_total(own.workspace));
        let share = Self::half(self.all).min(self.all.saturating_sub(others));
        share.max(Self::most(self.all).saturating_sub(others)).min(self.workspace)
    }

    /// Returns how many of the places that count against a workspace count towards the total.
    fn towards_total(&self, counted: usize) -> usize {
        if self.has_shares { counted.min(Self::most(self.all).max(1)) } else { counted }
    }

    /// Returns the place counts of a client if `counted` places count against its workspace.
    fn counting(&self, own: PlaceCounts, counted: usize) -> PlaceCounts {
        let [before, after] = [own.workspace, counted].map(|counted| self.towards_total(counted));
        PlaceCounts { workspace: counted, total: shifted(own.total, before, after), ..own }
    }

    /// Returns whether another workspace waits for a place within its share.
    fn another_workspace_waits(&self, state: &State, workspace: WorkspaceId) -> bool {
        let mut others = state.turns.first().filter(|(other, _)| other.workspace != workspace);
        others.any(|(other, waiter)| self.waits_within_share(state, other, waiter))
    }

    /// Returns whether another client of the workspace waits for a place within its share.
    fn another_client_waits(&self, state: &State, holder: Holder) -> bool {
        let mut others = state.turns.first_of(holder.workspace).filter(|(other, _)| *other != holder);
        others.any(|(other, waiter)| self.waits_within_share(state, other, waiter))
    }

    fn waits_within_share(&self, state: &State, holder: Holder, waiter: &PlaceWaiter<PlaceGuard>) -> bool {
        let own = state.standing(holder);
        fits(own.client, waiter.size, self.client)
            && fits(own.workspace, waiter.size, self.workspace)
            && self.is_in_share_of_client(own, waiter.size)
            && self.is_in_share_of_workspace(own.workspace, waiter.size)
    }

    /// Changes the number of places that a client holds, and the sums that depend on it.
    ///
    /// Returns whether the holders were below their quotas before and after the change.
    fn change(
        &self,
        state: &mut State,
        holder: Holder,
        change: impl FnOnce(usize) -> usize,
    ) -> (QuotaCheck, QuotaCheck) {
        let own = state.clients.entry(holder).or_default();
        let taken = state.workspaces.entry(holder.workspace).or_default();
        let before = PlaceCounts { client: *own, workspace: taken.counted, total: state.total };
        *own = change(before.client);
        let counted = shifted(before.workspace, before.client.min(self.client), (*own).min(self.client));
        let after = PlaceCounts { client: *own, ..self.counting(before, counted) };
        state.total = after.total;
        *taken = WorkspacePlaces { held: shifted(taken.held, before.client, after.client), counted };
        if taken.held == 0 {
            state.workspaces.remove(&holder.workspace);
        }
        if after.client == 0 {
            state.clients.remove(&holder);
        }
        (self.below_quota(before), self.below_quota(after))
    }

    /// Returns places for the waiting callers that can have one now, in turn.
    fn serve(&self, shared: &Arc<CeilingState>, state: &mut State) -> GrantedPlaces {
        let mut granted = GrantedPlaces::new();
        while let Some(holder) = self.next(state) {
            let Some(waiter) = state.turns.take(holder) else { break };
            if !waiter.place.is_closed() {
                granted.push((waiter.place, PlaceGuard::record(shared, state, holder, waiter.size)));
            }
        }
        granted
    }

    /// Returns the holder whose turn is next.
    fn next(&self, state: &State) -> Option<Holder> {
        let fits = |(holder, waiter): &(Holder, &PlaceWaiter<PlaceGuard>)| {
            self.fits(state, *holder, waiter.size).is_ok()
        };
        state.turns.first().find(fits).map(|(holder, _)| holder)
    }
}

/// Returns whether `size` more places are within `most`. A holder without a place may take any size.
fn fits(taken: usize, size: usize, most: usize) -> bool {
    taken == 0 || taken.saturating_add(size) <= most
}

/// Returns `sum` after one of its addends has changed from `before` to `after`.
fn shifted(sum: usize, before: usize, after: usize) -> usize {
    sum.saturating_sub(before).saturating_add(after)
}

impl State {
    fn standing(&self, holder: Holder) -> PlaceCounts {
        let client = self.clients.get(&holder).copied().unwrap_or(0);
        PlaceCounts { client, workspace: self.counted(holder.workspace), total: self.total }
    }

    /// Returns the number of places that count against a workspace.
    fn counted(&self, workspace: WorkspaceId) -> usize {
        self.workspaces.get(&workspace).map_or(0, |taken| taken.counted)
    }
}

impl CeilingState {
    fn exhausted(&self, scope: CeilingScope) -> Error {
        let what = self.what;
        let detail = match scope {
            CeilingScope::Client => format!("this client already holds its share of the {what}"),
            CeilingScope::Workspace => format!("the workspace already holds its share of the {what}"),
            CeilingScope::Server => format!("the server has no room for more {what}"),
        };
        let error = Error::new(Code::Overloaded, detail).with("retry_after_secs", RETRY_AFTER_SECS);
        error.with("scope", scope.name())
    }

    /// Serves the waiting callers after places were returned, or after a caller has stopped waiting.
    fn served(self: &Arc<Self>, state: &mut State) -> GrantedPlaces {
        if state.turns.is_empty() { GrantedPlaces::new() } else { self.rules.serve(self, state) }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::id::TokenId;
    use crate::limits::WAITING_OF_CLIENT_MAX;
    use crate::rate::Client;

    fn holder(workspace: u128, client: u128) -> Holder {
        let client = Client::Token(TokenId::from(Uuid::from_u128(client)));
        Holder { client, workspace: WorkspaceId::from(Uuid::from_u128(workspace)) }
    }

    fn ceiling(all: usize) -> Ceiling {
        Ceiling::new("seats", all, Quotas::default())
    }

    /// Takes places one after the other until one is refused. Returns them with the scope of the refusal.
    fn all_of(ceiling: &Ceiling, holder: Holder) -> (Vec<PlaceGuard>, &'static str) {
        let mut held = Vec::new();
        loop {
            match ceiling.take(holder, 1) {
                Ok(place) => held.push(place),
                Err(error) => return (held, scope(&error)),
            }
        }
    }

    fn scope(error: &Error) -> &'static str {
        assert_eq!((error.code(), error.retry_after_secs()), (Code::Overloaded, Some(RETRY_AFTER_SECS)));
        let named = serde_json::to_value(error.problem()).unwrap()["scope"].clone();
        let all = [CeilingScope::Client, CeilingScope::Workspace, CeilingScope::Server];
        all.into_iter().map(CeilingScope::name).find(|name| named == *name).unwrap()
    }

    fn is_empty(ceiling: &Ceiling) -> bool {
        let state = lock(&ceiling.0.state);
        state.total == 0 && state.clients.is_empty() && state.workspaces.is_empty() && state.turns.is_empty()
    }

    #[test]
    fn one_workspace_holds_three_quarters_and_one_client_three_quarters_of_that() {
        // The total number of places, and the numbers that the first client, a second one in its workspace,
        // and another workspace get.
        for (all, first, second, other) in
            [(1, 1, 0, 0), (2, 1, 0, 1), (3, 1, 1, 1), (4, 2, 1, 1), (8, 4, 2, 2), (100, 56, 19, 25)]
        {
            let seats = ceiling(all);
            let (of_first, refused) = all_of(&seats, holder(1, 1));
            assert_eq!(of_first.len(), first, "of {all}");
            assert_eq!(refused, "client", "of {all}");
            let (of_second, _) = all_of(&seats, holder(1, 2));
            assert_eq!(of_second.len(), second, "of {all}");
            let of_others: Vec<_> = [5, 6, 7].map(|client| all_of(&seats, holder(2, client)).0).into();
            assert_eq!(of_others.iter().map(Vec::len).sum::<usize>(), other, "of {all}");
            assert_eq!(scope(&seats.take(holder(3, 8), 1).unwrap_err()), "server", "of {all}");
            drop((of_first, of_second, of_others));
            assert!(is_empty(&seats));
        }
    }

    #[test]
    fn quotas_hold_beside_the_shares() {
        let seats = Ceiling::new("seats", 1000, Quotas { client: Some(3), workspace: Some(7) });
        let held: Vec<_> = (0..4).map(|client| all_of(&seats, holder(1, client))).collect();
        let counts: Vec<_> = held.iter().map(|(held, scope)| (held.len(), *scope)).collect();
        assert_eq!(counts, [(3, "client"), (3, "client"), (1, "workspace"), (0, "workspace")]);
        assert_eq!(all_of(&seats, holder(2, 0)).0.len(), 3, "the same client elsewhere is another");
    }

    #[test]
    fn without_workspaces_only_the_quota_of_a_client_counts() {
        let seats = Ceiling::with_client_limit("seats", 10, 4);
        let held: Vec<_> = (0..4).map(|client| all_of(&seats, holder(1, client))).collect();
        let counts: Vec<_> = held.iter().map(|(held, scope)| (held.len(), *scope)).collect();
        assert_eq!(counts, [(4, "client"), (4, "client"), (2, "server"), (0, "server")]);
    }

    #[test]
    fn what_is_larger_than_a_quota_is_there_for_who_holds_nothing() {
        let bytes = Ceiling::new("bytes", 100, Quotas { client: Some(10), workspace: None });
        let large = bytes.take(holder(1, 1), 1000).unwrap();
        assert_eq!(bytes.taken(), 10, "what is beyond the quota counts against nobody else");
        assert_eq!(scope(&bytes.take(holder(1, 1), 1).unwrap_err()), "client");
        let colleague = bytes.take(holder(1, 2), 10).unwrap();
        let over = bytes.take_beyond_limits(holder(1, 2), 500);
        assert_eq!(bytes.taken(), 20);
        assert!(bytes.below_quota(holder(1, 2)).now_or_never().is_none());
        assert!(bytes.below_quota(holder(2, 1)).now_or_never().is_some());
        assert!(bytes.below_quota(holder(1, 3)).now_or_never().is_some());
        drop((large, over));
        drop(colleague);
        let others: Vec<_> = (0..20).map(|client| bytes.take_beyond_limits(holder(1, client), 10)).collect();
        assert_eq!(bytes.taken(), 75, "the last quarter is left to others");
        assert!(bytes.below_quota(holder(1, 30)).now_or_never().is_none(), "its workspace has all and more");
        assert!(bytes.below_quota(holder(2, 1)).now_or_never().is_some());
        assert!(bytes.take(holder(2, 1), 10).is_ok());
        drop(others);
        assert!(is_empty(&bytes));
    }

    #[test]
    fn a_place_is_returned_in_parts() {
        let bytes = ceiling(40);
        let mut whole = bytes.take(holder(1, 1), 10).unwrap();
        let part = whole.split(4);
        let mut rest = whole.split(1);
        rest.merge(whole.split(2));
        whole.merge(rest);
        assert_eq!((whole.size(), part.size(), bytes.taken()), (6, 4, 10));
        drop(whole);
        assert_eq!(bytes.taken(), 4);
        drop(part);
        assert!(is_empty(&bytes));
    }

    #[test]
    fn workspaces_take_turns_and_in_them_clients_do() {
        let seats = ceiling(4);
        let mut held = vec![seats.take(holder(9, 1), 1).unwrap(), seats.take(holder(9, 2), 1).unwrap()];
        held.extend((0..2).map(|client| seats.take(holder(8, client), 1).unwrap()));
        let order = [(1, 1), (1, 1), (1, 2), (2, 1), (1, 1), (2, 1), (3, 1)];
        let mut waiting: Vec<_> = order
            .iter()
            .map(|(workspace, client)| {
                ((*workspace, *client), Box::pin(seats.wait(holder(*workspace, *client), 1)))
            })
            .collect();
        assert!(waiting.iter_mut().all(|(_, waiting)| waiting.as_mut().now_or_never().is_none()));
        let mut served = Vec::new();
        let mut next = held.pop();
        while let Some(place) = next.take() {
            drop(place);
            waiting.retain_mut(|(who, waiting)| match waiting.as_mut().now_or_never() {
                Some(place) => {
                    served.push(*who);
                    next = Some(place.unwrap());
                    false
                }
                None => true,
            });
        }
        assert_eq!(served, [(1, 1), (2, 1), (3, 1), (1, 2), (2, 1), (1, 1), (1, 1)]);
        drop((held, waiting));
        assert!(is_empty(&seats));
    }

    #[test]
    fn a_workspace_with_half_gets_no_further_place_while_another_waits() {
        let seats = ceiling(8);
        let mut first: Vec<_> = (0..6).map(|client| seats.take(holder(1, client), 1).unwrap()).collect();
        let mut second: Vec<_> = (0..2).map(|client| seats.take(holder(2, client), 1).unwrap()).collect();
        let mut own = Box::pin(seats.wait(holder(1, 9), 1));
        let mut other = Box::pin(seats.wait(holder(2, 9), 2));
        assert!(own.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        drop(first.pop());
        assert!(own.as_mut().now_or_never().is_none(), "it holds more than half, and another waits");
        assert!(other.as_mut().now_or_never().is_none(), "it needs two");
        drop(first.pop());
        let other = other.now_or_never().unwrap().unwrap();
        assert!(own.as_mut().now_or_never().is_none(), "nothing is left");
        drop(other);
        assert!(own.as_mut().now_or_never().is_none(), "the last quarter is left to others");
        drop(second.pop());
        assert!(own.as_mut().now_or_never().is_some());
        drop((first, second, own));
        assert!(is_empty(&seats));
    }

    #[test]
    fn holders_that_take_in_turn_get_what_they_would_get_if_they_waited() {
        let seats = ceiling(16);
        let take = |holders: &[(u128, std::ops::Range<u128>)]| -> Vec<PlaceGuard> {
            let of = |(workspace, clients): &(u128, std::ops::Range<u128>)| {
                clients.clone().map(|client| holder(*workspace, client)).collect::<Vec<_>>()
            };
            seats.take_in_turn(holders.iter().flat_map(of)).into_iter().flatten().collect()
        };
        let of_second = |places: &[PlaceGuard]| {
            places.iter().filter(|place| place.holder().workspace == holder(2, 0).workspace).count()
        };
        assert_eq!(seats.room(holder(1, 0).workspace, 20), 12);
        let alone = take(&[(1, 0..20)]);
        assert_eq!((alone.len(), of_second(&alone)), (12, 0));
        assert_eq!([1, 2].map(|of| seats.room(holder(of, 0).workspace, 1)), [0, 1]);
        assert_eq!(seats.room(holder(2, 0).workspace, 9), 4);
        let rest = take(&[(1, 20..30), (2, 0..10)]);
        assert_eq!((rest.len(), of_second(&rest)), (4, 4));
        assert!(seats.is_full() && take(&[(3, 0..1)]).is_empty());
        drop((alone, rest));
        assert!(is_empty(&seats));
        // Workspace 1 exceeds its half only after workspace 2 has all that it wants.
        let both = take(&[(1, 0..12), (2, 0..3)]);
        assert_eq!((both.len(), of_second(&both)), (12, 3));
        let more = take(&[(1, 12..20), (2, 3..20)]);
        assert_eq!((more.len(), of_second(&more)), (4, 4));
        drop((both, more));
        let both = take(&[(1, 0..20), (2, 0..20)]);
        assert_eq!((both.len(), of_second(&both)), (16, 8));
        drop(both);
        assert!(is_empty(&seats));
    }

    #[test]
    fn a_waiter_that_gives_up_holds_nobody_back() {
        let seats = Ceiling::new("seats", 8, Quotas { client: Some(2), workspace: None });
        let held = seats.take(holder(1, 1), 2).unwrap();
        let mut first = Box::pin(seats.wait(holder(1, 1), 2));
        let mut second = Box::pin(seats.wait(holder(1, 1), 1));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        assert!(seats.wait(holder(1, 2), 1).now_or_never().is_some(), "it waits for its own quota");
        drop(first);
        assert!(second.as_mut().now_or_never().is_none());
        drop(held);
        // A granted place that is dropped before its caller receives it.
        drop(second);
        assert!(is_empty(&seats));
    }

    #[test]
    fn the_waiters_of_a_client_are_limited() {
        let seats = ceiling(1);
        let held = seats.take(holder(1, 1), 1).unwrap();
        let mut waiting = Vec::new();
        for client in 0..2 {
            for _ in 0..WAITING_OF_CLIENT_MAX {
                let mut one = Box::pin(seats.wait(holder(2, client), 1));
                assert!(one.as_mut().now_or_never().is_none());
                waiting.push(one);
            }
            let refused = seats.wait(holder(2, client), 1).now_or_never().unwrap().unwrap_err();
            assert_eq!(scope(&refused), if client == 0 { "client" } else { "workspace" });
        }
        assert!(seats.wait(holder(3, 1), 1).now_or_never().is_none(), "others still wait");
        drop((held, waiting));
        assert!(is_empty(&seats));
    }

    proptest! {
        /// Whatever two clients in each of two workspaces have done, each workspace can have a quarter of the
        /// ceiling. If a workspace is alone, each of its clients can have a quarter of the workspace's
        /// maximum.
        #[test]
        fn there_is_always_a_place_for_who_holds_less_than_a_quarter(
            all in 2_usize..40,
            steps in proptest::collection::vec(
                (any::<bool>(), 1_u128..3, 1_u128..3, any::<prop::sample::Index>()), 0..120,
            ),
        ) {
            let seats = ceiling(all);
            let mut held: Vec<PlaceGuard> = Vec::new();
            for (takes, workspace, client, which) in steps {
                if takes {
                    held.extend(seats.take(holder(workspace, client), 1));
                } else if !held.is_empty() {
                    drop(held.swap_remove(which.index(held.len())));
                }
                let of = |holder: Holder| held.iter().filter(|place| place.holder() == holder).count();
                let of_workspace = |workspace| of(holder(workspace, 1)) + of(holder(workspace, 2));
                prop_assert_eq!(seats.taken(), held.len());
                prop_assert!(held.len() <= all);
                for workspace in [1, 2] {
                    let clients = [1, 2].map(|client| holder(workspace, client));
                    let fewest = clients.into_iter().min_by_key(|holder| of(*holder)).unwrap();
                    if of_workspace(workspace) < all.div_ceil(4) {
                        prop_assert!(seats.take(fewest, 1).is_ok(), "{:?} of {}", fewest, all);
                    }
                    let may = CeilingRules::half(all).max(CeilingRules::most(all));
                    if of_workspace(3 - workspace) == 0 && may > 1 && of(fewest) < may.div_ceil(4) {
                        prop_assert!(seats.take(fewest, 1).is_ok(), "{:?} of {}", fewest, all);
                    }
                    let most = CeilingRules::half(all).max(CeilingRules::most(all));
                    prop_assert!(of_workspace(workspace) <= most);
                }
            }
            drop(held);
            prop_assert!(is_empty(&seats));
        }
    }
}
