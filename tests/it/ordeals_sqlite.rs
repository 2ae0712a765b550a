//! Ordeals on SQLite: a disk whose writes and syncs fail, once and often, beside two other processes.

use std::time::Duration;

use svc_core::Engine;
use svc_tests::ordeal::callers::{
    CALLERS, Caller, Progress, Workload, summary, until_it_writes, write_during,
};
use svc_tests::ordeal::checker::{Defect, assert_sound, check, check_recovery};
use svc_tests::ordeal::faults::{Calls, EIO, ENOSPC, Faults, How};
use svc_tests::ordeal::record::Record;
use svc_tests::ordeal::{for_a_while, rounds};
use svc_tests::process::until;
use svc_tests::site::{Server, Site};

/// Where nothing goes on for longer than this, nothing will.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Processes beside the server.
const AGENTS: usize = 2;
/// Of the member that writes when a fault is over.
const PROBE: usize = CALLERS + AGENTS;
/// How long faults go on that come often.
const OFTEN: Duration = Duration::from_millis(1500);
/// How often a fault comes that comes once at a time.
const TIMES: u64 = 6;

/// How a disk fails.
struct Fault {
    name: &'static str,
    calls: Calls,
    error: u64,
    how: How,
    halves: bool,
}

const fn fault(name: &'static str, calls: Calls, error: u64, how: How) -> Fault {
    Fault { name, calls, error, how, halves: false }
}

const FAULTS: [Fault; 7] = [
    fault("a write fails once, EIO", Calls::Writes, EIO, How::Once(1)),
    fault("writes fail often, EIO", Calls::Writes, EIO, How::Every(40)),
    fault("writes fail often, ENOSPC", Calls::Writes, ENOSPC, How::Every(40)),
    Fault {
        name: "writes are short, ENOSPC",
        calls: Calls::Writes,
        error: ENOSPC,
        how: How::Every(40),
        halves: true,
    },
    fault("a sync fails once, EIO", Calls::Syncs, EIO, How::Once(1)),
    fault("syncs fail often, EIO", Calls::Syncs, EIO, How::Every(4)),
    fault("every sync fails, EIO", Calls::Syncs, EIO, How::Every(1)),
];

/// A server under a plan of faults.
fn serve(site: &Site, faults: &Faults) -> Server {
    let variables = faults.variables();
    let variables = variables.each_ref().map(|(name, value)| (name.as_str(), value.as_str()));
    site.serve(&variables)
}

/// Callers at the server, and two in processes of their own.
fn everybody<'a>(site: &Site, workload: &'a Workload, server: &Server) -> Vec<Caller<'a>> {
    let callers = (0..CALLERS).map(|number| workload.caller(number, server.address()));
    let agents = (CALLERS..CALLERS + AGENTS).map(|number| workload.agent(number, site));
    callers.chain(agents).collect()
}

/// Lets operations fail for a while, and ends that.
fn fail(faults: &Faults, fault: &Fault, progress: &Progress) {
    match fault.how {
        How::Once(_) => {
            for turn in 1..=TIMES {
                faults.begin(fault.calls, fault.error, How::Once(turn), fault.halves);
                until(fault.name, || faults.failed() > 0);
                progress.wait_for(CALLERS, Duration::from_millis(500));
            }
        }
        How::Every(_) => {
            faults.begin(fault.calls, fault.error, fault.how, fault.halves);
            for_a_while(OFTEN, OFTEN, || {});
            assert!(faults.failed() > 0, "{}: nothing has failed", fault.name);
        }
    }
    faults.end();
}

/// Everything that is wrong after a fault.
fn suffer(fault: &Fault, faults: &Faults) -> Vec<Defect> {
    let site = Site::found(Engine::Sqlite);
    let workload = Workload::prepare(&site, PROBE + 1);
    let server = serve(&site, faults);
    let (mut records, (more, mut defects)) = write_during(everybody(&site, &workload, &server), |progress| {
        assert!(progress.wait_for(CALLERS, TIMEOUT), "nothing was acknowledged before the ordeal began");
        fail(faults, fault, progress);
        recovery(&workload, &server)
    });
    records.extend(more);
    drop(server);
    eprintln!("{}: {}", fault.name, summary(&records));
    defects.extend(check(&site, &records));
    defects
}

fn recovery(workload: &Workload, server: &Server) -> (Vec<Record>, Vec<Defect>) {
    let mut caller = workload.caller(PROBE, server.address());
    let slow = check_recovery(until_it_writes(&mut caller, TIMEOUT));
    (caller.records, slow.into_iter().collect())
}

fn suffer_all(wanted: impl Fn(&Fault) -> bool) {
    let Some(faults) = Faults::plan() else { return };
    let mut found = Vec::new();
    for fault in (0..rounds()).flat_map(|_| &FAULTS).filter(|fault| wanted(fault)) {
        let defects = suffer(fault, &faults);
        if !defects.is_empty() {
            eprintln!("{}: {} defects, such as {}", fault.name, defects.len(), defects[0]);
        }
        found.extend(defects);
    }
    assert_sound("failing disks", &found);
}

#[test]
fn failing_writes_lose_nothing() {
    suffer_all(|fault| fault.calls == Calls::Writes);
}

#[test]
fn failing_syncs_lose_nothing() {
    suffer_all(|fault| fault.calls == Calls::Syncs);
}
