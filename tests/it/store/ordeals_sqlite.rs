//! Ordeals on SQLite: failing and full disks.
//!
//! Reads, writes and syncs fail, once and often, beside two other processes; and a full disk gets a little
//! space back under load.

use std::time::{Duration, Instant};

use svc_core::Engine;
use svc_tests::ordeal::callers::{CALLERS, Caller, Progress, Workload, WriteProbe, summary, write_during};
use svc_tests::ordeal::checker::{Defect, assert_sound, check, internal_errors};
use svc_tests::ordeal::faults::{EIO, ENOSPC, EUCLEAN, FaultFrequency, FaultPlan, FaultyCalls};
use svc_tests::ordeal::{RECOVERY, for_a_while, rounds};
use svc_tests::process::{TEST_TIMEOUT, until};
use svc_tests::site::{Server, Site};

/// Processes beside the server.
const AGENTS: usize = 2;
/// The member that writes after a fault has ended.
const PROBE: usize = CALLERS + AGENTS;
/// Duration of a frequent fault.
const OFTEN: Duration = Duration::from_millis(1500);
/// Repetitions of a single fault.
const TIMES: u64 = 6;

/// A kind of disk failure.
struct Fault {
    name: &'static str,
    calls: FaultyCalls,
    error: u64,
    how: FaultFrequency,
    halves: bool,
}

const fn fault(name: &'static str, calls: FaultyCalls, error: u64, how: FaultFrequency) -> Fault {
    Fault { name, calls, error, how, halves: false }
}

const FAULTS: [Fault; 11] = [
    fault("a read fails once, EUCLEAN", FaultyCalls::Reads, EUCLEAN, FaultFrequency::Once(1)),
    fault("reads fail often, EUCLEAN", FaultyCalls::Reads, EUCLEAN, FaultFrequency::Every(12)),
    fault("a read fails once, EIO", FaultyCalls::Reads, EIO, FaultFrequency::Once(1)),
    fault("reads fail often, EIO", FaultyCalls::Reads, EIO, FaultFrequency::Every(12)),
    fault("a write fails once, EIO", FaultyCalls::Writes, EIO, FaultFrequency::Once(1)),
    fault("writes fail often, EIO", FaultyCalls::Writes, EIO, FaultFrequency::Every(40)),
    fault("writes fail often, ENOSPC", FaultyCalls::Writes, ENOSPC, FaultFrequency::Every(40)),
    Fault {
        name: "writes are short, ENOSPC",
        calls: FaultyCalls::Writes,
        error: ENOSPC,
        how: FaultFrequency::Every(40),
        halves: true,
    },
    fault("a sync fails once, EIO", FaultyCalls::Syncs, EIO, FaultFrequency::Once(1)),
    fault("syncs fail often, EIO", FaultyCalls::Syncs, EIO, FaultFrequency::Every(4)),
    fault("every sync fails, EIO", FaultyCalls::Syncs, EIO, FaultFrequency::Every(1)),
];

/// Starts a server under a plan of faults.
fn serve(site: &Site, faults: &FaultPlan) -> Server {
    let variables = faults.variables();
    let variables = variables.each_ref().map(|(name, value)| (name.as_str(), value.as_str()));
    site.serve(&variables)
}

/// Returns the callers of the server, and two in separate processes.
fn everybody<'a>(site: &Site, workload: &'a Workload, server: &Server) -> Vec<Caller<'a>> {
    let callers = (0..CALLERS).map(|number| workload.caller(number, server.address()));
    let agents = (CALLERS..CALLERS + AGENTS).map(|number| workload.agent(number, site));
    callers.chain(agents).collect()
}

/// Makes operations fail for a while.
fn fail(faults: &FaultPlan, fault: &Fault, progress: &Progress) {
    match fault.how {
        FaultFrequency::Once(_) => {
            for turn in 1..=TIMES {
                faults.begin(fault.calls, fault.error, FaultFrequency::Once(turn), fault.halves);
                until(fault.name, || faults.failed() > 0);
                progress.wait_for(CALLERS, Duration::from_millis(500));
            }
        }
        FaultFrequency::Every(_) => {
            faults.begin(fault.calls, fault.error, fault.how, fault.halves);
            for_a_while(OFTEN, OFTEN, || {});
            assert!(faults.failed() > 0, "{}: nothing has failed", fault.name);
        }
    }
    faults.end();
}

/// Returns every defect after a fault, and after a crash during it if `crash` is set.
fn suffer(fault: &Fault, faults: &FaultPlan, crash: bool) -> Vec<Defect> {
    let site = Site::found(Engine::Sqlite);
    let workload = Workload::prepare(&site, PROBE + 1);
    let mut server = serve(&site, faults);
    let (mut records, (probe, slow)) = write_during(everybody(&site, &workload, &server), |progress| {
        assert!(progress.wait_for(CALLERS, TEST_TIMEOUT), "nothing was acknowledged before the ordeal began");
        let mut probe = WriteProbe::prepare(workload.caller(PROBE, server.address()));
        fail(faults, fault, progress);
        let slow = if crash { None } else { probe.check_recovery() };
        (probe, slow)
    });
    let mut defects = Vec::from_iter(slow);
    let limit = probe.limit;
    records.extend(probe.caller.records);
    if crash {
        // The last write is rejected, and no other follows it before the crash.
        faults.begin(fault.calls, fault.error, fault.how, fault.halves);
        let mut last = workload.caller(PROBE, server.address());
        for _ in 0..4 {
            last.post();
        }
        server.running.kill();
        faults.end();
        records.extend(last.records);
        let server = serve(&site, faults);
        let mut probe = WriteProbe::within(workload.caller(PROBE, server.address()), limit);
        defects.extend(probe.check_recovery());
        records.extend(probe.caller.records);
    }
    drop(server);
    eprintln!("{}: {}", fault.name, summary(&records));
    defects.extend(check(&site, &records));
    defects
}

fn suffer_all(wanted: impl Fn(&Fault) -> bool, crash: bool) {
    let Some(faults) = FaultPlan::plan() else { return };
    let mut found = Vec::new();
    for fault in (0..rounds()).flat_map(|_| &FAULTS).filter(|fault| wanted(fault)) {
        let defects = suffer(fault, &faults, crash);
        if !defects.is_empty() {
            eprintln!("{}: {} defects, such as {}", fault.name, defects.len(), defects[0]);
        }
        found.extend(defects);
    }
    assert_sound("failing disks", &found);
}

#[test]
fn failing_reads_lose_nothing() {
    suffer_all(|fault| fault.calls == FaultyCalls::Reads, false);
}

#[test]
fn failing_writes_lose_nothing() {
    suffer_all(|fault| fault.calls == FaultyCalls::Writes, false);
}

#[test]
fn failing_syncs_lose_nothing() {
    suffer_all(|fault| fault.calls == FaultyCalls::Syncs, false);
}

#[test]
fn a_crash_after_failed_syncs_revives_no_rejected_write() {
    suffer_all(|fault| fault.calls == FaultyCalls::Syncs, true);
}

/// The space on the disk.
const ROOM: u64 = 8 << 20;
/// The space of a page in the log and its header, which is too little for any request.
const A_PAGE: u64 = 8 << 10;
/// The space that becomes free.
///
/// It is less than the size at which the log is truncated, so the log fills it. The log is truncated
/// nevertheless, because the file has space for it.
const BACK: u64 = 3 << 20;
/// Characters of a message while the disk fills, so that it fills soon.
const PADDING: usize = 60_000;
/// Number of short writes that follow in the space that became free.
///
/// Their log is larger than that space, their rows take a part of it.
const AFTERWARDS: usize = 500;

/// Returns whether readiness soon reports that nothing can be written.
fn readiness_reports_it(server: &Server) -> bool {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut ready = true;
    while ready && Instant::now() < deadline {
        ready = server.caller("").ask("GET", "/health/ready", None).is_success();
    }
    !ready
}

fn bytes_of(site: &Site, files: &[&str]) -> u64 {
    files.iter().map(|file| std::fs::metadata(site.path().join(file)).unwrap().len()).sum()
}

/// Returns whether readiness reports a working disk again although no write was accepted since it reported
/// the fault.
fn readiness_takes_it_back(server: &Server, progress: &Progress) -> bool {
    let mut full_at = None;
    let mut taken_back_at = None;
    let deadline = Instant::now() + 2 * OFTEN;
    while Instant::now() < deadline {
        match server.caller("").ask("GET", "/health/ready", None).is_success() {
            true => taken_back_at = full_at,
            false => full_at = Some(progress.acknowledged()),
        }
    }
    // A write that was accepted just now may not have been counted yet.
    taken_back_at == Some(progress.acknowledged()) && !progress.wait_for(1, OFTEN)
}

#[test]
fn a_full_disk_that_gets_space_back_recovers_under_load() {
    let Some(faults) = FaultPlan::plan() else { return };
    (0..rounds()).for_each(|_| fill_the_disk(&faults));
}

fn fill_the_disk(faults: &FaultPlan) {
    let site = Site::found(Engine::Sqlite);
    let workload = Workload::prepare(&site, PROBE + 1);
    let refused_before = faults.refused();
    faults.allow(ROOM);
    workload.pad(PADDING);
    let server = serve(&site, faults);
    let callers = (0..CALLERS).map(|number| workload.caller(number, server.address()));
    let (mut records, (more, mut defects)) = write_during(callers.collect(), |progress| {
        // Without `prepare`: the disk is full before that.
        let mut probe = WriteProbe::within(workload.caller(PROBE, server.address()), 5 * RECOVERY);
        until("the disk is full", || faults.refused() > refused_before);
        let until_full = progress.acknowledged();
        // No file can grow now: the log has reserved space in the file.
        faults.allow(1);
        until("the log is truncated", || bytes_of(&site, &["svc.db-wal"]) == 0);
        let taken = bytes_of(&site, &["svc.db", "svc.db-shm"]);
        faults.allow(taken + A_PAGE);
        until("a caller is rejected", || !probe.caller.create_thread());
        let silent = !readiness_reports_it(&server) || readiness_takes_it_back(&server, progress);
        // Short messages do not fill the free space. It lasts if the log, which is many times as large, is
        // truncated.
        workload.pad(0);
        faults.allow(taken + BACK);
        let slow = probe.check_recovery();
        let goes_on = progress.wait_for(AFTERWARDS, TEST_TIMEOUT);
        eprintln!("a full disk: {until_full} writes until full, {} until the end", progress.acknowledged());
        let unsaid = silent.then(|| Defect::Late("readiness does not say that the disk is full".to_owned()));
        let ended = (!goes_on).then(|| Defect::Late("the writes stopped again".to_owned()));
        (probe.caller.records, slow.into_iter().chain(ended).chain(unsaid).collect::<Vec<_>>())
    });
    records.extend(more);
    drop(server);
    faults.allow(0);
    eprintln!("a full disk: {}", summary(&records));
    defects.extend(internal_errors(&records));
    defects.extend(check(&site, &records));
    assert_sound("a full disk", &defects);
}
