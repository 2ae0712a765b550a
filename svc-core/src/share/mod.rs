//! Ceilings: limits on shared resources of a process, divided into places that workspaces and clients take.
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
use place::{GrantedPlaces, PlaceRequest, send_granted};
pub use scope::CeilingScope;
use turns::{CallerTurns, PlaceWaiter};

/// Seconds after which a caller should retry a request that was rejected because no place was free.
const RETRY_AFTER_SECS: u64 = 1;

/// A fixed number of places that workspaces share. The clients of each workspace share the workspace's
/// places.
///
/// The last quarter of the places, rounded up, is reserved for workspaces that hold less than half of all
/// places. While another workspace waits for places within its share, a workspace that holds half of all
/// places cannot take more. A single workspace can therefore hold three quarters of the places, and leaves at
/// least a quarter to other workspaces. The same rules apply to the clients of a workspace, within the number
/// of places that the workspace may hold at the time: half of all places, or more if other workspaces hold
/// few. Clients and workspaces may also have fixed quotas. A holder without a place may exceed its quota and
/// its share with one request, because a larger request could otherwise never succeed. Places that a client
/// holds beyond its quota, and places that a workspace holds beyond three quarters, do not count against
/// other holders.
///
/// Clones of a ceiling share its places.
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

/// The state that all clones of a ceiling share.
struct CeilingState {
    /// Plural noun for the places in error messages, such as "connections".
    noun: &'static str,
    rules: CeilingRules,
    state: Mutex<State>,
    /// Notifies callers of [`Ceiling::wait_until_below_quota`] that a client or a workspace fell below its
    /// quota.
    places_returned: Notify,
}

/// The number of places of a ceiling, and the quotas of its holders.
struct CeilingRules {
    /// Number of places of the ceiling.
    all: usize,
    /// Maximum places held by one client.
    client: usize,
    /// Maximum places held by one workspace.
    workspace: usize,
    /// Whether workspaces and clients have shares. If false, only the total and the quotas of clients apply.
    has_shares: bool,
}

/// The places that are taken, and the callers that wait for places.
#[derive(Default)]
struct State {
    /// Number of places that count towards the total: for each workspace, up to three quarters of all places.
    total: usize,
    workspaces: HashMap<WorkspaceId, WorkspacePlaces>,
    /// Number of places held by each client.
    clients: HashMap<Holder, usize>,
    turns: CallerTurns<PlaceGuard>,
}

/// The numbers of places held by a workspace.
#[derive(Clone, Copy, Default)]
struct WorkspacePlaces {
    /// Number of places that the clients of the workspace hold.
    held: usize,
    /// Number of places that count against the workspace: for each client, up to the client's quota.
    counted: usize,
}

/// Place counts for a client: the places of the client, the places that count against its workspace, and the
/// places that count towards the total.
#[derive(Clone, Copy)]
struct PlaceCounts {
    client: usize,
    workspace: usize,
    total: usize,
}

/// Whether a client is below its quota, and whether its workspace is below the number of all places.
#[derive(Clone, Copy)]
struct QuotaCheck {
    client: bool,
    workspace: bool,
}

impl Ceiling {
    /// Creates a ceiling of `all` places. `noun` is the plural noun for the places in error messages.
    pub fn new(noun: &'static str, all: usize, quotas: Quotas) -> Self {
        let quota = |quota: Option<usize>| quota.unwrap_or(usize::MAX);
        let client = quota(quotas.client);
        let workspace = quota(quotas.workspace);
        Self::from_rules(noun, CeilingRules { all, client, workspace, has_shares: true })
    }

    /// Creates a ceiling of `all` places, of which each client may hold `client_limit`, whatever its
    /// workspace.
    ///
    /// Such a ceiling limits network addresses, which take places before their workspace is known.
    pub fn with_client_limit(noun: &'static str, all: usize, client_limit: usize) -> Self {
        Self::from_rules(
            noun,
            CeilingRules { all, client: client_limit, workspace: usize::MAX, has_shares: false },
        )
    }

    fn from_rules(noun: &'static str, rules: CeilingRules) -> Self {
        Self(Arc::new(CeilingState { noun, rules, state: Mutex::default(), places_returned: Notify::new() }))
    }

    /// Takes `size` places of the ceiling for a holder.
    ///
    /// Fails with 503 `overloaded` if the holder cannot take that many places now.
    pub fn take(&self, holder: Holder, size: usize) -> Result<PlaceGuard> {
        self.try_take(holder, size).map_err(|scope| self.0.exhausted_error(scope))
    }

    /// Takes `size` places of the ceiling for a holder. Fails with the scope whose places are used up.
    pub fn try_take(&self, holder: Holder, size: usize) -> std::result::Result<PlaceGuard, CeilingScope> {
        let mut state = lock(&self.0.state);
        self.0.rules.check_fits(&state, holder, size)?;
        Ok(PlaceGuard::record(&self.0, &mut state, holder, size))
    }

    /// Takes `size` places of the ceiling for a holder, even if fewer places are available.
    pub fn take_beyond_limits(&self, holder: Holder, size: usize) -> PlaceGuard {
        PlaceGuard::record(&self.0, &mut lock(&self.0.state), holder, size)
    }

    /// Waits for the holder's turn, and takes `size` places of the ceiling when they are available.
    ///
    /// Fails with 503 `overloaded` if too many callers of the same client or workspace already wait.
    pub async fn wait(&self, holder: Holder, size: usize) -> Result<PlaceGuard> {
        let mut waiting = {
            let mut state = lock(&self.0.state);
            if !state.turns.has_waiter(holder) && self.0.rules.check_fits(&state, holder, size).is_ok() {
                return Ok(PlaceGuard::record(&self.0, &mut state, holder, size));
            }
            match state.turns.add_waiter(holder, size) {
                Ok(receiver) => PlaceRequest { shared: Arc::clone(&self.0), holder, receiver },
                Err(scope) => {
                    drop(state);
                    return Err(self.0.exhausted_error(scope));
                }
            }
        };
        (&mut waiting.receiver).await.map_err(Error::internal)
    }

    /// Takes one place for each given holder if a place is available, as if all these holders had waited.
    ///
    /// Workspaces take turns in the order of the holders, and so do the clients of a workspace.
    pub fn take_in_turn(&self, holders: impl IntoIterator<Item = Holder>) -> Vec<Option<PlaceGuard>> {
        let (waiting, granted) = {
            let mut state = lock(&self.0.state);
            let add = |holder| {
                let receiver = state.turns.add_waiter(holder, 1).ok()?;
                Some(PlaceRequest { shared: Arc::clone(&self.0), holder, receiver })
            };
            let waiting: Vec<Option<PlaceRequest>> = holders.into_iter().map(add).collect();
            (waiting, self.0.rules.grant_in_turn(&self.0, &mut state))
        };
        send_granted(granted);
        waiting.into_iter().map(|waiting| waiting?.receiver.try_recv().ok()).collect()
    }

    /// Waits until a client is below its quota and its workspace is below the number of all places.
    ///
    /// Places of a client beyond its quota do not count against its workspace.
    pub async fn wait_until_below_quota(&self, holder: Holder) {
        while !self.is_below_quota(holder) {
            let mut returned = pin!(self.0.places_returned.notified());
            // The notification is enabled before the counts are read, so that no returned place is missed.
            returned.as_mut().enable();
            if self.is_below_quota(holder) {
                return;
            }
            returned.await;
        }
    }

    /// Returns whether a client is below its quota and its workspace is below the number of all places.
    fn is_below_quota(&self, holder: Holder) -> bool {
        let counts = lock(&self.0.state).place_counts(holder);
        let QuotaCheck { client, workspace } = self.0.rules.check_quotas(counts);
        client && workspace
    }

    /// Returns the error for a caller that has waited for `size` places without success.
    pub fn exhausted(&self, holder: Holder, size: usize) -> Error {
        let fits = self.0.rules.check_fits(&lock(&self.0.state), holder, size);
        self.0.exhausted_error(fits.err().unwrap_or(CeilingScope::Server))
    }

    /// Returns whether no place is available to any holder.
    pub fn is_full(&self) -> bool {
        lock(&self.0.state).total >= self.0.rules.all
    }

    /// Returns how many additional clients of a workspace can take one place each, up to `limit`.
    pub fn room(&self, workspace: WorkspaceId, limit: usize) -> usize {
        let state = lock(&self.0.state);
        let rules = &self.0.rules;
        let mut own =
            PlaceCounts { client: 0, workspace: state.counted_places(workspace), total: state.total };
        let mut fits_one_more = || {
            let fits = rules.check_fits_workspace(&state, workspace, own, 1).is_ok();
            own = rules.with_counted(own, own.workspace.saturating_add(1));
            fits
        };
        (0..limit).take_while(|_| fits_one_more()).count()
    }

    /// Returns whether all places are taken, at least half of them by the given workspace.
    ///
    /// The workspace would then have to wait until its own places are returned.
    pub fn is_used_up_by(&self, workspace: WorkspaceId) -> bool {
        let state = lock(&self.0.state);
        let rules = &self.0.rules;
        state.total >= rules.all && !rules.is_in_share_of_workspace(state.counted_places(workspace), 1)
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
    /// Returns half of a number of places, rounded up.
    fn half(all: usize) -> usize {
        all.div_ceil(2)
    }

    /// Returns three quarters of a number of places, rounded down. The last quarter is reserved for other
    /// holders.
    fn three_quarters(all: usize) -> usize {
        all.saturating_sub(all.div_ceil(4))
    }

    /// Checks whether the holder can take `size` more places. Fails with the scope whose places are used up.
    fn check_fits(
        &self,
        state: &State,
        holder: Holder,
        size: usize,
    ) -> std::result::Result<(), CeilingScope> {
        if self.all == 0 {
            return Err(CeilingScope::Server);
        }
        let own = state.place_counts(holder);
        if !fits(own.client, size, self.client) || !self.fits_client(state, holder, own, size) {
            return Err(CeilingScope::Client);
        }
        self.check_fits_workspace(state, holder.workspace, own, size)
    }

    /// Checks whether the workspace can take `size` more places, for any of its clients. Fails with the scope
    /// that has too few free places.
    fn check_fits_workspace(
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

    /// Returns whether a client is below its quota, and whether its workspace is below the number of all
    /// places.
    fn check_quotas(&self, PlaceCounts { client, workspace, .. }: PlaceCounts) -> QuotaCheck {
        QuotaCheck { client: client < self.client, workspace: !self.has_shares || workspace < self.all }
    }

    /// Returns whether the rules between workspaces allow the workspace to take `size` more places.
    fn fits_workspace(&self, state: &State, workspace: WorkspaceId, own: PlaceCounts, size: usize) -> bool {
        self.is_in_share_of_workspace(own.workspace, size)
            || (own.total.saturating_add(size) <= Self::three_quarters(self.all)
                && !self.another_workspace_waits(state, workspace))
    }

    /// Returns whether the rules between the clients of a workspace allow the holder to take `size` more
    /// places.
    fn fits_client(&self, state: &State, holder: Holder, own: PlaceCounts, size: usize) -> bool {
        self.is_in_share_of_client(own, size)
            || (own.workspace.saturating_add(size) <= Self::three_quarters(self.workspace_max(own))
                && !self.another_client_waits(state, holder))
    }

    /// Returns whether a workspace stays within its share, half of all places, if it takes `size` more
    /// places.
    fn is_in_share_of_workspace(&self, counted: usize, size: usize) -> bool {
        !self.has_shares || fits(counted, size, Self::half(self.all))
    }

    /// Returns whether a client stays within its share of its workspace's places if it takes `size` more
    /// places.
    fn is_in_share_of_client(&self, own: PlaceCounts, size: usize) -> bool {
        !self.has_shares || fits(own.client, size, Self::half(self.workspace_max(own)))
    }

    /// Returns how many places a workspace may hold now.
    ///
    /// This is the larger of two numbers: half of all places, if other workspaces leave that many, and three
    /// quarters of all places minus the places of other workspaces. The quota of workspaces limits the
    /// result.
    fn workspace_max(&self, own: PlaceCounts) -> usize {
        let others = own.total.saturating_sub(self.count_towards_total(own.workspace));
        let share = Self::half(self.all).min(self.all.saturating_sub(others));
        share.max(Self::three_quarters(self.all).saturating_sub(others)).min(self.workspace)
    }

    /// Returns how many places of a workspace count towards the total, if `counted` places count against it.
    fn count_towards_total(&self, counted: usize) -> usize {
        if self.has_shares { counted.min(Self::three_quarters(self.all).max(1)) } else { counted }
    }

    /// Returns the place counts of a client after the number that counts against its workspace becomes
    /// `counted`.
    fn with_counted(&self, own: PlaceCounts, counted: usize) -> PlaceCounts {
        let [before, after] = [own.workspace, counted].map(|counted| self.count_towards_total(counted));
        PlaceCounts { workspace: counted, total: adjusted_sum(own.total, before, after), ..own }
    }

    /// Returns whether another workspace waits for a place within its share.
    fn another_workspace_waits(&self, state: &State, workspace: WorkspaceId) -> bool {
        let mut others = state.turns.first_waiters().filter(|(other, _)| other.workspace != workspace);
        others.any(|(other, waiter)| self.waits_within_share(state, other, waiter))
    }

    /// Returns whether another client of the workspace waits for a place within its share.
    fn another_client_waits(&self, state: &State, holder: Holder) -> bool {
        let mut others = state.turns.first_waiters_of(holder.workspace).filter(|(other, _)| *other != holder);
        others.any(|(other, waiter)| self.waits_within_share(state, other, waiter))
    }

    /// Returns whether the request of a waiting caller stays within the quotas and shares of its holder.
    fn waits_within_share(&self, state: &State, holder: Holder, waiter: &PlaceWaiter<PlaceGuard>) -> bool {
        let own = state.place_counts(holder);
        fits(own.client, waiter.size, self.client)
            && fits(own.workspace, waiter.size, self.workspace)
            && self.is_in_share_of_client(own, waiter.size)
            && self.is_in_share_of_workspace(own.workspace, waiter.size)
    }

    /// Changes a client's number of places, and updates the sums for its workspace and for the ceiling.
    ///
    /// Returns whether the client and the workspace were below their quotas before the change, and after it.
    fn change_places(
        &self,
        state: &mut State,
        holder: Holder,
        change: impl FnOnce(usize) -> usize,
    ) -> (QuotaCheck, QuotaCheck) {
        let own = state.clients.entry(holder).or_default();
        let taken = state.workspaces.entry(holder.workspace).or_default();
        let before = PlaceCounts { client: *own, workspace: taken.counted, total: state.total };
        *own = change(before.client);
        let counted = adjusted_sum(before.workspace, before.client.min(self.client), (*own).min(self.client));
        let after = PlaceCounts { client: *own, ..self.with_counted(before, counted) };
        state.total = after.total;
        *taken = WorkspacePlaces { held: adjusted_sum(taken.held, before.client, after.client), counted };
        if taken.held == 0 {
            state.workspaces.remove(&holder.workspace);
        }
        if after.client == 0 {
            state.clients.remove(&holder);
        }
        (self.check_quotas(before), self.check_quotas(after))
    }

    /// Grants places to the waiting callers that can have them now, in the order of their turns.
    fn grant_in_turn(&self, shared: &Arc<CeilingState>, state: &mut State) -> GrantedPlaces {
        let mut granted = GrantedPlaces::new();
        while let Some(holder) = self.next_holder(state) {
            let Some(waiter) = state.turns.take_first_waiter(holder) else { break };
            if !waiter.sender.is_closed() {
                granted.push((waiter.sender, PlaceGuard::record(shared, state, holder, waiter.size)));
            }
        }
        granted
    }

    /// Returns the first holder in the order of turns whose next request fits.
    fn next_holder(&self, state: &State) -> Option<Holder> {
        let fits = |(holder, waiter): &(Holder, &PlaceWaiter<PlaceGuard>)| {
            self.check_fits(state, *holder, waiter.size).is_ok()
        };
        state.turns.first_waiters().find(fits).map(|(holder, _)| holder)
    }
}

/// Returns whether a holder of `taken` places may take `size` more, up to `limit`. A holder without a place
/// may take any number.
fn fits(taken: usize, size: usize, limit: usize) -> bool {
    taken == 0 || taken.saturating_add(size) <= limit
}

/// Returns a sum after one of its addends has changed from `before` to `after`.
fn adjusted_sum(sum: usize, before: usize, after: usize) -> usize {
    sum.saturating_sub(before).saturating_add(after)
}

impl State {
    fn place_counts(&self, holder: Holder) -> PlaceCounts {
        let client = self.clients.get(&holder).copied().unwrap_or(0);
        PlaceCounts { client, workspace: self.counted_places(holder.workspace), total: self.total }
    }

    /// Returns the number of places that count against a workspace.
    fn counted_places(&self, workspace: WorkspaceId) -> usize {
        self.workspaces.get(&workspace).map_or(0, |taken| taken.counted)
    }
}

impl CeilingState {
    /// Returns the error for a caller whose request does not fit because the places of `scope` are used up.
    fn exhausted_error(&self, scope: CeilingScope) -> Error {
        let noun = self.noun;
        let detail = match scope {
            CeilingScope::Client => format!("this client already holds its share of the {noun}"),
            CeilingScope::Workspace => format!("the workspace already holds its share of the {noun}"),
            CeilingScope::Server => format!("the server has no room for more {noun}"),
        };
        let error = Error::new(Code::Overloaded, detail).with("retry_after_secs", RETRY_AFTER_SECS);
        error.with("scope", scope.name())
    }

    /// Grants places to waiting callers after places were returned, or after a caller has stopped waiting.
    fn grant_waiting(self: &Arc<Self>, state: &mut State) -> GrantedPlaces {
        if state.turns.is_empty() { GrantedPlaces::new() } else { self.rules.grant_in_turn(self, state) }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::id::TokenId;
    use crate::limits::WAITING_PER_CLIENT_MAX;
    use crate::rate::Client;

    fn holder(workspace: u128, client: u128) -> Holder {
        let client = Client::Token(TokenId::from(Uuid::from_u128(client)));
        Holder { client, workspace: WorkspaceId::from(Uuid::from_u128(workspace)) }
    }

    fn ceiling(all: usize) -> Ceiling {
        Ceiling::new("seats", all, Quotas::default())
    }

    /// Takes places one by one until the ceiling refuses one. Returns the places and the scope of the
    /// refusal.
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
        // Each case: the total number of places, and the numbers of places that a first client, a second
        // client of the same workspace, and another workspace can take.
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
        assert!(bytes.wait_until_below_quota(holder(1, 2)).now_or_never().is_none());
        assert!(bytes.wait_until_below_quota(holder(2, 1)).now_or_never().is_some());
        assert!(bytes.wait_until_below_quota(holder(1, 3)).now_or_never().is_some());
        drop((large, over));
        drop(colleague);
        let others: Vec<_> = (0..20).map(|client| bytes.take_beyond_limits(holder(1, client), 10)).collect();
        assert_eq!(bytes.taken(), 75, "the last quarter is left to others");
        assert!(
            bytes.wait_until_below_quota(holder(1, 30)).now_or_never().is_none(),
            "its workspace has all and more"
        );
        assert!(bytes.wait_until_below_quota(holder(2, 1)).now_or_never().is_some());
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
        // Workspace 1 takes more than half only after workspace 2 has received all the places that it
        // requests.
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
        // The caller stops waiting after the place was granted, but before it receives the place.
        drop(second);
        assert!(is_empty(&seats));
    }

    #[test]
    fn the_waiters_of_a_client_are_limited() {
        let seats = ceiling(1);
        let held = seats.take(holder(1, 1), 1).unwrap();
        let mut waiting = Vec::new();
        for client in 0..2 {
            for _ in 0..WAITING_PER_CLIENT_MAX {
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
        /// Whatever two clients in each of two workspaces have done, each workspace can take a quarter of all
        /// places. If only one workspace is active, each of its clients can take a quarter of the workspace's
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
                    let may = CeilingRules::half(all).max(CeilingRules::three_quarters(all));
                    if of_workspace(3 - workspace) == 0 && may > 1 && of(fewest) < may.div_ceil(4) {
                        prop_assert!(seats.take(fewest, 1).is_ok(), "{:?} of {}", fewest, all);
                    }
                    let most = CeilingRules::half(all).max(CeilingRules::three_quarters(all));
                    prop_assert!(of_workspace(workspace) <= most);
                }
            }
            drop(held);
            prop_assert!(is_empty(&seats));
        }
    }
}
