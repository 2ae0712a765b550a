//! Attacks by one workspace on all others, for the benchmark and for tests.
//!
//! An attack is a future that never ends by itself. It does everything that the default limits allow to
//! several members of one workspace, and counts the results. During the attack the members of another
//! workspace must be served.

pub mod wire;
pub mod ground;
pub mod callers;
pub mod places;
pub mod streams;

use std::pin::Pin;
use std::sync::Arc;

use svc_core::Service;
use tokio::task::JoinHandle;

use crate::runtime;
use ground::{AttackGround, AttackSetup, AttackSize, AttackTeam, OutcomeTally};

/// The requirements of an attack beside the attacker's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttackNeeds {
    /// Nothing.
    Nothing,
    /// Threads with footprints, and a thread with many events.
    Footprints,
    /// A thread with large messages.
    LargeThread,
    /// Administrators, and an export of the workspace.
    Export,
    /// Administrators, and an export of a workspace with large messages.
    LargeExport,
}

/// The resource that an attack occupies, beside time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttackTarget {
    /// Only requests.
    Requests,
    /// WebSocket subscriptions.
    Sockets,
    /// Sessions of MCP.
    Sessions,
    /// Verification of exports.
    Files,
}

/// An attack.
#[derive(Clone, Copy)]
pub struct Attack {
    /// Its name in reports.
    pub name: &'static str,
    /// Its requirements.
    pub needs: AttackNeeds,
    /// The resource that it occupies.
    pub target: AttackTarget,
    /// Variables that lower a limit to what one machine can open.
    pub variables: &'static [(&'static str, &'static str)],
    /// Seconds in which servers that are stopped under the attack must end.
    pub ends_in_secs: u32,
    /// Starts it.
    pub run: fn(Arc<AttackGround>, Arc<OutcomeTally>) -> RunningAttack,
}

/// An attack that runs until it is dropped.
pub type RunningAttack = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Fewer WebSockets than the default, so that the attack does not need thousands of descriptors.
const FEW_SOCKETS: &[(&str, &str)] = &[("SVC_MAX_WS_CONNECTIONS", "300")];

/// Every attack.
pub const ALL: &[Attack] = &[
    attack("expensive-reads", AttackNeeds::Footprints, AttackTarget::Requests, |g, t| {
        Box::pin(callers::expensive_reads(g, t))
    }),
    attack("in-flight", AttackNeeds::Footprints, AttackTarget::Requests, |g, t| {
        Box::pin(callers::in_flight(g, t))
    }),
    attack("writes", AttackNeeds::Nothing, AttackTarget::Requests, |g, t| Box::pin(callers::writes(g, t))),
    attack("large-writes", AttackNeeds::Nothing, AttackTarget::Requests, |g, t| {
        Box::pin(callers::large_writes(g, t))
    }),
    attack("unread-pages", AttackNeeds::LargeThread, AttackTarget::Requests, |g, t| {
        Box::pin(streams::pages(g, t))
    }),
    Attack {
        variables: FEW_SOCKETS,
        ..attack("handshakes", AttackNeeds::Nothing, AttackTarget::Sockets, |g, t| {
            Box::pin(places::handshakes(g, t))
        })
    },
    Attack {
        variables: FEW_SOCKETS,
        ..attack("sockets", AttackNeeds::Nothing, AttackTarget::Sockets, |g, t| {
            Box::pin(places::sockets(g, t))
        })
    },
    attack("mcp-sessions", AttackNeeds::Nothing, AttackTarget::Sessions, |g, t| {
        Box::pin(callers::sessions(g, t))
    }),
    attack("stopped-files", AttackNeeds::LargeExport, AttackTarget::Files, |g, t| {
        Box::pin(places::stopped_files(g, t))
    }),
    attack("junk-files", AttackNeeds::Export, AttackTarget::Files, |g, t| Box::pin(places::junk_files(g, t))),
    attack("unread-exports", AttackNeeds::LargeExport, AttackTarget::Files, |g, t| {
        Box::pin(streams::exports(g, t))
    }),
    attack("imports", AttackNeeds::Export, AttackTarget::Requests, |g, t| Box::pin(callers::imports(g, t))),
    attack("stopped-bodies", AttackNeeds::Nothing, AttackTarget::Requests, |g, t| {
        Box::pin(places::stopped_bodies(g, t))
    }),
    Attack {
        ends_in_secs: 2,
        ..attack("half-heads", AttackNeeds::Nothing, AttackTarget::Requests, |g, t| {
            Box::pin(places::half_heads(g, t))
        })
    },
];

const fn attack(
    name: &'static str,
    needs: AttackNeeds,
    target: AttackTarget,
    run: fn(Arc<AttackGround>, Arc<OutcomeTally>) -> RunningAttack,
) -> Attack {
    Attack { name, needs, target, variables: &[], ends_in_secs: 15, run }
}

/// Creates two workspaces and prepares the attack of the first on the second.
///
/// The servers at the addresses are not started yet.
pub fn prepare(service: &Service, operator: &str, needs: AttackNeeds, size: AttackSize) -> AttackGround {
    let attacker = AttackTeam::found(service, operator, "attacker", 10);
    let victim = AttackTeam::found(service, operator, "victim", 4);
    victim.add_tasks(service, size.tasks);
    let mut arms = AttackSetup::default();
    match needs {
        AttackNeeds::Nothing => {}
        AttackNeeds::Footprints => {
            attacker.add_footprints(service, size);
            attacker.add_messages(service, size.messages);
        }
        AttackNeeds::LargeThread => arms.large_thread = attacker.add_large(service, size.large),
        AttackNeeds::Export | AttackNeeds::LargeExport => {
            if needs == AttackNeeds::LargeExport {
                attacker.add_large(service, size.large);
            }
            arms.admins = attacker.administrators(service);
            arms.export = attacker.export(service);
            arms.victims_export = victim.export(service);
        }
    }
    AttackGround { addresses: Vec::new(), attacker, victim, arms }
}

/// A running attack. It ends when this is dropped.
pub struct AttackHandle {
    /// Its results so far.
    pub tally: Arc<OutcomeTally>,
    task: JoinHandle<()>,
}

impl AttackHandle {
    /// Starts an attack.
    pub fn new(
        run: impl FnOnce(Arc<AttackGround>, Arc<OutcomeTally>) -> RunningAttack,
        ground: &Arc<AttackGround>,
    ) -> Self {
        let tally = Arc::new(OutcomeTally::default());
        let task = runtime().spawn(run(Arc::clone(ground), Arc::clone(&tally)));
        Self { tally, task }
    }
}

impl Drop for AttackHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}
