//! Benchmarks: the code under test and a floor run in one process, in alternation.
//!
//! Both have the same statements, settings, sealing and hashing. The ratio is what counts; absolute numbers
//! depend on the machine.

pub mod admission;
pub mod attacks;
pub mod board;
pub mod claims;
pub mod credentials;
pub mod export;
pub mod fair;
pub mod fanout;
pub mod floor;
pub mod footprints;
pub mod herd;
pub mod idle;
pub mod inboxes;
pub mod load;
pub mod mcp;
pub mod memory;
pub mod old_events;
pub mod pop;
pub mod posts;
pub mod prune;
pub mod reads;
pub mod restore;
pub mod rows;
pub mod scim;
pub mod simulate;
pub mod stage;
pub mod verify;
pub mod waits;
pub mod withdraw;

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;

/// One side of a pair: operations per second and the time of each operation.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub per_second: f64,
    pub latencies: Vec<Duration>,
    /// Microseconds of processor time per operation, of server and load together, if it was measured.
    ///
    /// It is steadier than the rate while other programs use the machine.
    pub cpu_us: Option<f64>,
}

/// The result of one benchmark.
#[derive(Clone, Debug)]
pub struct Finding {
    pub name: &'static str,
    pub engine: Engine,
    pub pairs: Vec<(Sample, Sample)>,
    /// A description of `floor`.
    pub floor_is: &'static str,
    /// More members for the report.
    pub extra: Value,
}

impl Finding {
    /// Returns the median of the pairs' ratios, and the numbers that it is computed from.
    pub fn report(&self) -> Value {
        let mut latencies: Vec<Duration> =
            self.pairs.iter().flat_map(|(ours, _)| ours.latencies.clone()).collect();
        latencies.sort_unstable();
        let ratios: Vec<f64> =
            self.pairs.iter().map(|(ours, floor)| ours.per_second / floor.per_second).collect();
        let mut report = json!({
            "name": self.name,
            "engine": self.engine.name(),
            "ours": round(median(self.pairs.iter().map(|(ours, _)| ours.per_second))),
            "floor": round(median(self.pairs.iter().map(|(_, floor)| floor.per_second))),
            "floor_is": self.floor_is,
            "ratio": round(median(ratios.iter().copied())),
            "ratios": ratios.iter().map(|ratio| round(*ratio)).collect::<Vec<_>>(),
            "p50_ms": percentile(&latencies, 50),
            "p99_ms": percentile(&latencies, 99),
        });
        let cpu = |side: fn(&(Sample, Sample)) -> Option<f64>| {
            let measured: Option<Vec<f64>> = self.pairs.iter().map(side).collect();
            measured.map(|measured| round(median(measured.into_iter())))
        };
        if let (Some(ours), Some(floor)) = (cpu(|pair| pair.0.cpu_us), cpu(|pair| pair.1.cpu_us)) {
            report["cpu_us"] = json!({"ours": ours, "floor": floor});
        }
        if let (Some(report), Some(extra)) = (report.as_object_mut(), self.extra.as_object()) {
            report.extend(extra.clone());
        }
        report
    }
}

/// Runs `ours` and `floor` in alternation; the first pair warms up and does not count.
pub fn alternate(
    pairs: usize,
    mut ours: impl FnMut() -> Sample,
    mut floor: impl FnMut() -> Sample,
) -> Vec<(Sample, Sample)> {
    let mut measured = Vec::new();
    for round in 0..=pairs {
        let pair = (ours(), floor());
        eprintln!("pair {round}: ours {:.0}/s, floor {:.0}/s", pair.0.per_second, pair.1.per_second);
        if round > 0 {
            measured.push(pair);
        }
    }
    measured
}

/// Returns the user and system time of all threads of this process, from proc_pid_stat(5).
///
/// Returns `None` where that file does not exist.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let after_name = stat.rsplit(')').next()?;
    // Fields 14 and 15 of the line, in hundredths of a second.
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    Some(Duration::from_millis(ticks.sum::<u64>() * 10))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(f64::NAN, |latency| round(latency.as_secs_f64() * 1000.0))
}

fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
