//! Rate limits: a number of requests per window for each client and each workspace.
//!
//! Requests are counted in this process, before any lookup. Servers that share a database exchange their
//! counts: once a server has admitted a twentieth of a client's limit, it reports these requests, and
//! receives the number of requests that the other servers have admitted. The request that reaches the
//! twentieth waits for that exchange. So a client with fewer requests costs no statement, and while the
//! database cannot be reached, each server enforces limits by its own count. Rejected requests count too,
//! unless a limit rejected them. The caller of this module decides which client a request is charged to.

mod bucket;
mod sharing;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use uuid::Uuid;

use crate::error::{Code, Error, Result};
use crate::hash::sha256;
use crate::id::{InstallationId, MemberId, ShareTicketId, TokenId, WorkspaceId};
use crate::limits;
use crate::monitor::Monitor;
use crate::time::{Clock, Monotonic};
use bucket::{Allowance, UsageBucket};
use sharing::UsageQueue;
pub(crate) use sharing::{LimitUsage, SharingTask};

/// The client to which a rate limit applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// A token together with all tokens derived from it, so that a token cannot multiply its limit.
    Token(TokenId),
    /// An installed app with all its tokens.
    Installation(InstallationId),
    /// A member with all sessions that were not created from a token.
    Member(MemberId),
    /// A share ticket, for all its users together.
    Ticket(ShareTicketId),
    /// The sender at a network address, or with a name that a proxy provides.
    Peer(Peer),
}

/// The sender of a request, as known from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(Sender);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sender {
    /// An IP address. For IPv6, the /64 prefix, which is usually assigned to one host.
    Address(IpAddr),
    /// The hash of a name, because names may be long and peers are kept in tables.
    Name([u8; 16]),
}

impl Peer {
    /// Returns the sender for a name that a proxy provides instead of an address. Case is ignored.
    pub fn named(name: &[u8]) -> Self {
        Self(Sender::Name(first_half(sha256(&name.to_ascii_lowercase()))))
    }
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self(Sender::Address(match address {
            IpAddr::V6(address) => embedded_v4(address).map_or_else(
                || Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << PREFIX_REST_BITS)).into(),
                IpAddr::V4,
            ),
            v4 => v4,
        }))
    }
}

/// Returns the IPv4 address that an IPv6 address embeds.
///
/// The address may be IPv4-mapped or IPv4-compatible (RFC 4291, 2.5.5), or from a NAT64 with the well-known
/// prefix (RFC 6052). All of these share one /64, so the prefix does not identify a host.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        // `::` and `::1` are not IPv4-compatible: no host has an address in 0.0.0.0/8.
        [0, 0, 0, 0, 0, 0, high, _] if high < 0x100 => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

impl From<[u8; 4]> for Peer {
    fn from(address: [u8; 4]) -> Self {
        IpAddr::from(address).into()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Sender::Address(address) => write!(f, "{address}"),
            Sender::Name(hash) => write!(f, "name {}", hex::encode(hash)),
        }
    }
}

/// A client that occupies a place under a `Ceiling`, and the workspace that the
/// client's work is charged to.
///
/// Callers without a credential all count as one workspace, the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The client that occupies the place.
    pub client: Client,
    /// The workspace that the client's work is charged to.
    pub workspace: WorkspaceId,
}

impl Holder {
    /// Returns the holder for a caller without a credential.
    pub fn at(peer: Peer) -> Self {
        Self { client: Client::Peer(peer), workspace: WorkspaceId::INSTANCE }
    }
}

/// Number of bits in an IPv6 address after its /64 prefix.
const PREFIX_REST_BITS: u32 = 64;

/// The client and the workspace that the requests of a credential are charged to.
#[derive(Clone, Debug)]
pub(crate) struct Payer {
    /// The client, or `None` to charge the peer that sent the request.
    pub client: Option<Client>,
    /// The workspace whose limits the requests count against.
    pub workspace: WorkspaceId,
    /// Tokens and installations with a quota, each with its number of requests per window.
    pub quotas: Vec<(Client, i64)>,
}

/// The client or workspace to which a limit applies, with the kind of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LimitSubject {
    Client(Client),
    /// A token or an installation with a quota.
    Quota(Client),
    Workspace(WorkspaceId),
}

impl LimitSubject {
    /// Returns the name of the limit in responses.
    fn name(self) -> &'static str {
        match self {
            Self::Client(_) => "client",
            Self::Quota(_) => "token",
            Self::Workspace(_) => "workspace",
        }
    }

    /// Returns the key of the limit, which all servers share.
    fn key(self) -> Uuid {
        let client_text = |client| match client {
            Client::Token(token) => format!("token {token}"),
            Client::Installation(installation) => format!("installation {installation}"),
            Client::Member(member) => format!("member {member}"),
            Client::Ticket(ticket) => format!("ticket {ticket}"),
            Client::Peer(peer) => format!("peer {peer}"),
        };
        let text = match self {
            Self::Client(client) => client_text(client),
            Self::Quota(client) => format!("quota of {}", client_text(client)),
            Self::Workspace(workspace) => format!("workspace {workspace}"),
        };
        Uuid::from_bytes(first_half(sha256(text.as_bytes())))
    }
}

/// Returns the first half of a hash.
fn first_half(hash: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.iter_mut().zip(hash).for_each(|(to, byte)| *to = byte);
    half
}

/// The state of a limit: the allowance, and the unused requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// The name of the limit.
    pub limit: &'static str,
    /// Number of requests that the limit allows per window.
    pub requests: u32,
    /// Length of the window.
    pub window: Duration,
    /// Number of remaining requests.
    pub left: u32,
    /// Time until all requests are available again.
    pub full_in: Duration,
}

/// The result of counting a request against its rate limits.
#[derive(Debug, Default)]
pub(crate) struct ChargeResult {
    /// The state of each limit that the request counted against.
    pub standings: Vec<LimitState>,
    /// The limits whose usage must be reported to the other servers before the request continues.
    pub due: Vec<LimitSubject>,
}

impl ChargeResult {
    /// Adds the state of a limit. Of several limits with the same name, keeps the limit with the
    /// fewest requests left.
    fn add_state(&mut self, state: LimitState) {
        match self.standings.iter_mut().find(|known| known.limit == state.limit) {
            Some(known) if state.left < known.left => *known = state,
            Some(_) => {}
            None => self.standings.push(state),
        }
    }
}

/// Counts requests by client and by workspace, and rejects requests beyond the limits.
pub struct RateLimits {
    buckets: DashMap<LimitSubject, UsageBucket>,
    per_client: Option<Allowance>,
    per_workspace: Option<Allowance>,
    window: Duration,
    clock: Clock,
    /// Usage to report to other servers, or `None` if there are no other servers.
    queue: Option<Arc<Monitor<UsageQueue>>>,
}

/// The configured rate limits.
#[derive(Clone, Copy, Debug)]
pub struct RateSettings {
    /// Requests per client and window. 0 means no limit.
    pub per_client: i64,
    /// Requests per workspace and window. 0 means no limit.
    pub per_workspace: i64,
    /// Time until a fully used allowance is available again.
    pub window: Duration,
}

impl Default for RateSettings {
    fn default() -> Self {
        Self {
            per_client: limits::RATE_LIMIT_MAX,
            per_workspace: limits::WORKSPACE_RATE_LIMIT_MAX,
            window: Duration::from_secs(limits::RATE_LIMIT_WINDOW_SECS.unsigned_abs()),
        }
    }
}

impl RateLimits {
    /// Creates the limits from the settings. `shared` is whether several servers may share the database.
    pub fn new(settings: RateSettings, clock: &Clock, shared: bool) -> Self {
        Self {
            buckets: DashMap::new(),
            per_client: Allowance::new(settings.per_client, settings.window),
            per_workspace: Allowance::new(settings.per_workspace, settings.window),
            window: settings.window,
            clock: clock.clone(),
            queue: shared.then(|| Monitor::new(clock, UsageQueue::default())),
        }
    }

    /// Counts a request by a client. Fails with 429 `rate-limited` and the time to wait if the limit is
    /// exceeded.
    pub fn charge(&self, client: Client, result: &mut ChargeResult) -> Result<()> {
        self.charge_limit(LimitSubject::Client(client), self.per_client, result)
    }

    /// Counts a request with a credential. Fails with 429 `rate-limited` and the time to wait if a limit is
    /// exceeded.
    ///
    /// A payer without a client is charged as the client at `peer`. A request from within this process has no
    /// peer.
    pub fn charge_payer(&self, payer: &Payer, peer: Option<Peer>, result: &mut ChargeResult) -> Result<()> {
        if let Some(client) = payer.client.or(peer.map(Client::Peer)) {
            self.charge(client, result)?;
        }
        for (client, requests) in &payer.quotas {
            let quota = Allowance::new(*requests, self.window);
            self.charge_limit(LimitSubject::Quota(*client), quota, result)?;
        }
        Ok(())
    }

    /// Counts a request in a workspace. Fails with 429 `rate-limited` and the time to wait if the limit is
    /// exceeded.
    pub fn charge_workspace(&self, workspace: WorkspaceId, result: &mut ChargeResult) -> Result<()> {
        self.charge_limit(LimitSubject::Workspace(workspace), self.per_workspace, result)
    }

    fn charge_limit(
        &self,
        subject: LimitSubject,
        allowance: Option<Allowance>,
        result: &mut ChargeResult,
    ) -> Result<()> {
        let Some(allowance) = allowance else { return Ok(()) };
        let now = self.clock.monotonic();
        let (taken, left, due) = {
            let mut bucket = self.buckets.entry(subject).or_insert_with(|| UsageBucket::new(allowance, now));
            (bucket.count_request(now), bucket.remaining(now), bucket.unreported_share())
        };
        result.add_state(LimitState {
            limit: subject.name(),
            requests: allowance.requests,
            window: allowance.window,
            left: left.requests,
            full_in: left.full_in,
        });
        taken.map_err(limit_exceeded_error)?;
        if due.is_some() && self.queue.is_some() {
            result.due.push(subject);
        }
        Ok(())
    }

    /// Drops the state of clients and workspaces that have been idle for a window.
    pub fn drop_idle_buckets(&self) {
        let now = self.clock.monotonic();
        self.buckets.retain(|_, bucket| !bucket.is_idle(now));
        if let Some(queue) = &self.queue {
            queue.lock().is_tidy_requested = true;
            queue.notify();
        }
    }

    fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }
}

/// Returns the error for a request that would be admitted after `wait`.
fn limit_exceeded_error(wait: Duration) -> Error {
    let secs = wait.as_secs().saturating_add(1);
    Error::new(Code::RateLimited, format!("too many requests; the next is admitted in {secs} s"))
        .with("retry_after_secs", secs)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::sharing::UsageReport;
    use super::*;

    const WINDOW: Duration = Duration::from_secs(3600);

    fn limits(per_client: i64, per_workspace: i64, shared: bool) -> (RateLimits, Clock) {
        let clock = Clock::mock(crate::time::Time::from_micros(0));
        (RateLimits::new(RateSettings { per_client, per_workspace, window: WINDOW }, &clock, shared), clock)
    }

    fn peer(address: &str) -> Client {
        Client::Peer(address.parse::<IpAddr>().unwrap().into())
    }

    /// Counts a request of a client, and returns the result.
    fn charge(limits: &RateLimits) -> Result<ChargeResult> {
        let mut result = ChargeResult::default();
        limits.charge(peer("192.0.2.1"), &mut result).map(|()| result)
    }

    #[test]
    fn a_client_is_rejected_beyond_its_quota_and_admitted_after_a_refill() {
        let (limits, clock) = limits(2, 3, false);
        let mut result = ChargeResult::default();
        for _ in 0..2 {
            limits.charge(peer("192.0.2.1"), &mut result).unwrap();
            limits.charge_workspace(WorkspaceId::INSTANCE, &mut result).unwrap();
        }
        let left: Vec<_> = result.standings.iter().map(|s| (s.limit, s.left, s.full_in.as_secs())).collect();
        let wanted = [("client", 0, 3600), ("workspace", 1, 2400)];
        assert_eq!((left.as_slice(), result.due.len()), (&wanted[..], 0));
        let rejected = limits.charge(peer("192.0.2.1"), &mut result).unwrap_err();
        assert_eq!((rejected.code(), rejected.retry_after_secs()), (Code::RateLimited, Some(1801)));
        limits.charge(peer("192.0.2.2"), &mut result).unwrap();
        limits.charge_workspace(WorkspaceId::INSTANCE, &mut result).unwrap();
        let workspace = limits.charge_workspace(WorkspaceId::INSTANCE, &mut result);
        assert!(workspace.is_err(), "the workspace has a window of its own");
        clock.advance(WINDOW / 2);
        limits.charge(peer("192.0.2.1"), &mut result).unwrap();
        assert!(limits.charge(peer("192.0.2.1"), &mut result).is_err());
    }

    #[test]
    fn zero_means_no_limit() {
        let (limits, _) = limits(0, 0, true);
        assert!((0..100).all(|_| charge(&limits).unwrap().standings.is_empty()));
    }

    #[test]
    fn an_ipv6_host_is_one_client_with_all_its_addresses() {
        assert_eq!(peer("2001:db8:0:1::5"), peer("2001:db8:0:1:ffff::"));
        assert_ne!(peer("2001:db8:0:1::5"), peer("2001:db8:0:2::5"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }

    #[test]
    fn an_ipv4_address_within_an_ipv6_address_is_the_client() {
        for (written, wanted) in [
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("::192.0.2.1", "192.0.2.1"),
            ("64:ff9b::192.0.2.1", "192.0.2.1"),
            ("64:ff9b::c000:201", "192.0.2.1"),
            ("::ffff:0.0.0.1", "0.0.0.1"),
            ("::1", "::2"),
            ("::", "::1"),
            ("64:ff9b:0:0:0:1:c000:201", "64:ff9b::1:0:0"),
            ("64:ff9b:1::192.0.2.1", "64:ff9b:1::192.0.2.2"),
            ("2002:c000:201::1", "2002:c000:201::2"),
            ("::fffe:192.0.2.1", "::fffe:192.0.2.2"),
        ] {
            assert_eq!(peer(written), peer(wanted), "{written}");
        }
        for prefix in ["::ffff:", "::", "64:ff9b::"] {
            let address_in = |host: u8| peer(&format!("{prefix}192.0.2.{host}"));
            assert_ne!(address_in(1), address_in(2), "{prefix}");
        }
    }

    #[test]
    fn a_name_is_one_client_of_its_own() {
        let peer_with_name = |name: &str| Client::Peer(Peer::named(name.as_bytes()));
        assert_eq!(peer_with_name("_Gateway"), peer_with_name("_gateway"));
        assert_ne!(peer_with_name("_gateway"), peer_with_name("_gatewax"));
        assert_ne!(
            peer_with_name("192.0.2.1"),
            peer("192.0.2.1"),
            "what is written as a name is not an address"
        );
        let key = |client| LimitSubject::Client(client).key();
        assert_ne!(
            key(peer_with_name("_gateway")),
            key(peer_with_name("unknown")),
            "servers share the counts of each"
        );
    }

    /// Starts reporting the limits that are due, and returns a receiver for the outcome.
    fn share_usage(limits: &RateLimits, due: Vec<LimitSubject>) -> mpsc::Receiver<Result<()>> {
        let (sender, receiver) = mpsc::channel();
        limits.share_usage(due, move |outcome| sender.send(outcome).unwrap());
        receiver
    }

    fn next(limits: &RateLimits) -> UsageReport {
        let Some(SharingTask::Report(told)) = limits.wait_for_sharing_task(None) else {
            panic!("there is no report")
        };
        told
    }

    #[test]
    fn a_share_of_a_limit_is_told_and_what_others_used_counts() {
        let (limits, _) = limits(100, 0, true);
        limits.set_served(true);
        assert!((0..4).all(|_| charge(&limits).unwrap().due.is_empty()), "fewer than a twentieth");
        let outcome = share_usage(&limits, charge(&limits).unwrap().due);
        let told = next(&limits);
        assert_eq!(told.usage().iter().map(|usage| usage.cost).collect::<Vec<_>>(), [WINDOW / 20]);
        assert!(outcome.try_recv().is_err(), "it waits for the others");
        // Another server has admitted 90 requests.
        limits.complete_report(told, Some(vec![WINDOW * 95 / 100]));
        outcome.recv().unwrap().unwrap();
        let standings = charge(&limits).unwrap().standings;
        assert_eq!(standings.iter().map(|state| state.left).collect::<Vec<_>>(), [4]);
        assert!((0..3).all(|_| charge(&limits).unwrap().due.is_empty()));
        let outcome = share_usage(&limits, charge(&limits).unwrap().due);
        // Another server has admitted one more request, which came first.
        limits.complete_report(next(&limits), Some(vec![WINDOW * 101 / 100]));
        assert_eq!(outcome.recv().unwrap().unwrap_err().retry_after_secs(), Some(37));
        assert!(charge(&limits).is_err());
    }

    #[test]
    fn nobody_waits_for_servers_that_cannot_be_told() {
        let (limits, clock) = limits(20, 0, true);
        let due = || charge(&limits).unwrap().due;
        share_usage(&limits, due()).try_recv().unwrap().unwrap();
        limits.set_served(true);
        let waiting = share_usage(&limits, due());
        limits.set_served(false);
        waiting.try_recv().unwrap().unwrap();
        assert!(matches!(limits.wait_for_sharing_task(Some(clock.monotonic())), Some(SharingTask::Connect)));
        limits.set_served(true);
        let waiting = share_usage(&limits, due());
        let told = next(&limits);
        assert_eq!(told.usage().len(), 1, "all that was not told, in one row");
        limits.complete_report(told, None);
        waiting.try_recv().unwrap().unwrap();
        let waiting = share_usage(&limits, due());
        limits.close();
        waiting.try_recv().unwrap().unwrap();
        assert!(limits.wait_for_sharing_task(None).is_none());
    }
}
