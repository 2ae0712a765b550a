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
use ground::{Arms, Ground, Size, Tally, Team};

/// The requirements of an attack beside the attacker's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
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
pub enum Target {
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
    pub needs: Needs,
    /// The resource that it occupies.
    pub target: Target,
    /// Variables that lower a limit to what one machine can open.
    pub variables: &'static [(&'static str, &'static str)],
    /// Seconds in which servers that are stopped under the attack must end.
    pub ends_in_secs: u32,
    /// Starts it.
    pub run: fn(Arc<Ground>, Arc<Tally>) -> Attacking,
}

/// An attack that runs until it is dropped.
pub type Attacking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Fewer WebSockets than the default, so that the attack does not need thousands of descriptors.
const FEW_SOCKETS: &[(&str, &str)] = &[("SVC_MAX_WS_CONNECTIONS", "300")];

/// Every attack.
pub const ALL: &[Attack] = &[
    attack("expensive-reads", Needs::Footprints, Target::Requests, |g, t| {
        Box::pin(callers::expensive_reads(g, t))
    }),
    attack("in-flight", Needs::Footprints, Target::Requests, |g, t| Box::pin(callers::in_flight(g, t))),
    attack("writes", Needs::Nothing, Target::Requests, |g, t| Box::pin(callers::writes(g, t))),
    attack("large-writes", Needs::Nothing, Target::Requests, |g, t| Box::pin(callers::large_writes(g, t))),
    attack("unread-pages", Needs::LargeThread, Target::Requests, |g, t| Box::pin(streams::pages(g, t))),
    Attack {
        variables: FEW_SOCKETS,
        ..attack("handshakes", Needs::Nothing, Target::Sockets, |g, t| Box::pin(places::handshakes(g, t)))
    },
    Attack {
        variables: FEW_SOCKETS,
        ..attack("sockets", Needs::Nothing, Target::Sockets, |g, t| Box::pin(places::sockets(g, t)))
    },
    attack("mcp-sessions", Needs::Nothing, Target::Sessions, |g, t| Box::pin(callers::sessions(g, t))),
    attack("stopped-files", Needs::LargeExport, Target::Files, |g, t| Box::pin(places::stopped_files(g, t))),
    attack("junk-files", Needs::Export, Target::Files, |g, t| Box::pin(places::junk_files(g, t))),
    attack("unread-exports", Needs::LargeExport, Target::Files, |g, t| Box::pin(streams::exports(g, t))),
    attack("imports", Needs::Export, Target::Requests, |g, t| Box::pin(callers::imports(g, t))),
    attack("stopped-bodies", Needs::Nothing, Target::Requests, |g, t| Box::pin(places::stopped_bodies(g, t))),
    Attack {
        ends_in_secs: 2,
        ..attack("half-heads", Needs::Nothing, Target::Requests, |g, t| Box::pin(places::half_heads(g, t)))
    },
];

const fn attack(
    name: &'static str,
    needs: Needs,
    target: Target,
    run: fn(Arc<Ground>, Arc<Tally>) -> Attacking,
) -> Attack {
    Attack { name, needs, target, variables: &[], ends_in_secs: 15, run }
}

/// Creates two workspaces and prepares the attack of the first on the second.
///
/// The servers at the addresses are not started yet.
pub fn prepare(service: &Service, operator: &str, needs: Needs, size: Size) -> Ground {
    let attacker = Team::found(service, operator, "attacker", 10);
    let victim = Team::found(service, operator, "victim", 4);
    victim.add_tasks(service, size.tasks);
    let mut arms = Arms::default();
    match needs {
        Needs::Nothing => {}
        Needs::Footprints => {
            attacker.add_footprints(service, size);
            attacker.add_messages(service, size.messages);
        }
        Needs::LargeThread => arms.large_thread = attacker.add_large(service, size.large),
        Needs::Export | Needs::LargeExport => {
            if needs == Needs::LargeExport {
                attacker.add_large(service, size.large);
            }
            arms.admins = attacker.administrators(service);
            arms.export = attacker.export(service);
            arms.victims_export = victim.export(service);
        }
    }
    Ground { addresses: Vec::new(), attacker, victim, arms }
}

/// A running attack. It ends when this is dropped.
pub struct Begun {
    /// Its results so far.
    pub tally: Arc<Tally>,
    task: JoinHandle<()>,
}

impl Begun {
    /// Starts an attack.
    pub fn new(run: impl FnOnce(Arc<Ground>, Arc<Tally>) -> Attacking, ground: &Arc<Ground>) -> Self {
        let tally = Arc::new(Tally::default());
        let task = runtime().spawn(run(Arc::clone(ground), Arc::clone(&tally)));
        Self { tally, task }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.task.abort();
    }
}
