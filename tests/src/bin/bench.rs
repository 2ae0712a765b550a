//! `bench`: runs one benchmark and prints its result.
//!
//! `bench posts|reads|claims|herd|footprints|verify|verify-state|withdraw|admission|sessions|delegated|
//! limits|scim|fanout|posts-followed|posts-keyed|fanout-ws|posts-ws|prune|export|restore
//! [--engine sqlite|postgres] [--pairs N] [--json]`;
//! with `--json` the last line is an object. `bench pop --engine postgres [--callers N]` needs Postgres.
//! `bench mcp-whoami|mcp-context|mcp-posts|mcp-tools [--callers N] [--pipe]` uses N connections, or pipes.
//! `bench fair [--engine ..] [--pairs N]` measures the throughput of a workspace beside a greedy one.
//! `bench attacks [--engine ..] [--seconds N] [--only NAME]` attacks real servers, each attack for N seconds,
//! and exits with 1 if they do not withstand it; without `--engine` on every available engine.
//! `bench board [--pairs N]` needs a browser and Node.js.
//! `bench memory`, `bench idle` and `bench mcp-waits` print KiB. `bench simulate [--engine ..] [--steps N]
//! [--seed N] [--json]` takes steps of the simulation of the claim engine.

use std::process::ExitCode;
use std::time::Duration;

use mimalloc::MiMalloc;
use serde_json::Value;
use svc_core::Engine;
use svc_tests::bench::{
    admission, attacks, board, claims, credentials, export, fair, fanout, footprints, herd, idle, inboxes,
    mcp, memory, pop, posts, prune, reads, restore, scim, simulate, verify, waits, withdraw,
};

use svc_tests::database::{POSTGRES, engines};

/// The allocator of `svc-http`, for both sides.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "usage: bench posts|reads|claims|herd|footprints|verify|verify-state|withdraw|admission|\
    sessions|delegated|limits|scim|fanout|posts-followed|posts-keyed|fanout-ws|posts-ws|prune|export|restore|\
    fair [--engine sqlite|postgres] [--pairs N] [--json]\n   or: bench attacks \
    [--engine sqlite|postgres] [--seconds N] [--only ATTACK] [--json]\n   or: bench memory|idle|mcp-waits \
    [--engine sqlite|postgres] [--json]\n   or: bench pop --engine postgres [--callers N] [--pairs N] \
    [--json]\n   or: bench board [--pairs N] [--json]\n   \
    or: bench mcp-whoami|mcp-context|mcp-posts|mcp-tools [--callers N] [--pipe] \
    [--engine sqlite|postgres] [--pairs N] [--json]\n   or: bench simulate \
    [--engine sqlite|postgres] [--steps N] [--seed N] [--json]";

struct Arguments {
    name: String,
    engine: Option<Engine>,
    pairs: usize,
    callers: usize,
    carrier: mcp::CallTransport,
    steps: usize,
    seed: usize,
    seconds: usize,
    only: Option<String>,
    json: bool,
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        name: String::new(),
        engine: None,
        pairs: 5,
        callers: 64,
        carrier: mcp::CallTransport::Http,
        steps: 100_000,
        seed: 1,
        seconds: 60,
        only: None,
        json: false,
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => parsed.json = true,
            "--pipe" => parsed.carrier = mcp::CallTransport::Pipe,
            "--engine" => match arguments.next().as_deref() {
                Some("sqlite") => parsed.engine = Some(Engine::Sqlite),
                Some("postgres") => parsed.engine = Some(Engine::Postgres),
                other => return Err(format!("unknown engine {other:?}")),
            },
            "--only" => parsed.only = Some(arguments.next().ok_or("--only takes the name of an attack")?),
            "--pairs" | "--callers" | "--steps" | "--seed" | "--seconds" => {
                let number =
                    arguments.next().and_then(|text| text.parse().ok()).filter(|number| *number >= 1);
                let number = number.ok_or_else(|| format!("{argument} takes a whole number from 1"))?;
                match argument.as_str() {
                    "--pairs" => parsed.pairs = number,
                    "--callers" => parsed.callers = number,
                    "--steps" => parsed.steps = number,
                    "--seconds" => parsed.seconds = number,
                    _ => parsed.seed = number,
                }
            }
            name if parsed.name.is_empty() && !name.starts_with('-') => parsed.name = name.to_owned(),
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = check_engine(&arguments) {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    if arguments.name == "attacks" {
        return run_attacks(&arguments);
    }
    // One runtime for the load, the server and the floor, so that all share their threads.
    let runtime = svc_tests::runtime();
    let engine = arguments.engine.unwrap_or(Engine::Sqlite);
    let pairs = arguments.pairs;
    let printed = match arguments.name.as_str() {
        "simulate" => {
            let seed = u64::try_from(arguments.seed).expect("a seed of 64 bits");
            Some(simulate::run(engine, seed, arguments.steps))
        }
        "memory" => Some(memory::run(engine)),
        "idle" => Some(idle::run(engine, runtime)),
        "mcp-waits" => Some(waits::run(engine, runtime)),
        "board" => match board::run(pairs) {
            Ok(report) => Some(report),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        },
        _ => None,
    };
    if let Some(report) = printed {
        print(report, arguments.json);
        return ExitCode::SUCCESS;
    }
    let over_mcp =
        |compared| mcp::run(compared, arguments.carrier, engine, pairs, arguments.callers, runtime);
    let finding = match arguments.name.as_str() {
        "pop" if engine == Engine::Postgres => pop::run(arguments.callers, pairs, runtime),
        "posts" => posts::run(engine, pairs, runtime),
        "posts-keyed" => posts::keyed(engine, pairs, runtime),
        "reads" => reads::run(engine, pairs, runtime),
        "claims" => claims::run(engine, pairs, runtime),
        "herd" => herd::run(engine, pairs, runtime),
        "footprints" => footprints::run(engine, pairs, runtime),
        "verify" => verify::run(engine, pairs, runtime),
        "verify-state" => verify::state(engine, pairs, runtime),
        "withdraw" => withdraw::run(engine, pairs, runtime),
        "admission" => admission::run(engine, pairs, runtime),
        "sessions" => credentials::sessions(engine, pairs, runtime),
        "delegated" => credentials::delegated(engine, pairs, runtime),
        "limits" => credentials::limits(engine, pairs, runtime),
        "fanout" => inboxes::fanout(engine, pairs, runtime),
        "posts-followed" => inboxes::followed(engine, pairs, runtime),
        "fanout-ws" => fanout::fanout(engine, pairs, runtime),
        "posts-ws" => fanout::quiet(engine, pairs, runtime),
        "prune" => prune::run(engine, pairs, runtime),
        "fair" => fair::run(engine, pairs, runtime),
        "export" => export::run(engine, pairs, runtime),
        "restore" => restore::run(engine, pairs, runtime),
        "scim" => scim::run(engine, pairs, runtime),
        "mcp-whoami" => over_mcp(mcp::ComparedCalls::Whoami),
        "mcp-context" => over_mcp(mcp::ComparedCalls::Context),
        "mcp-posts" => over_mcp(mcp::ComparedCalls::Post),
        "mcp-tools" => over_mcp(mcp::ComparedCalls::Tools),
        other => {
            eprintln!("unknown benchmark {other:?}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    print(finding.report(), arguments.json);
    ExitCode::SUCCESS
}

/// Returns a sentence as the error if a benchmark needs a Postgres server that is missing.
fn check_engine(arguments: &Arguments) -> Result<(), String> {
    if arguments.name == "pop" && arguments.engine != Some(Engine::Postgres) {
        return Err("bench pop runs on Postgres only: add --engine postgres".to_owned());
    }
    if arguments.engine == Some(Engine::Postgres) && std::env::var_os(POSTGRES).is_none() {
        return Err(format!(
            "bench {} --engine postgres needs a PostgreSQL server: set {POSTGRES} to the URL of one whose \
             user may create databases, such as postgres://user@host/postgres",
            arguments.name
        ));
    }
    Ok(())
}

/// Runs the attacks, and prints a line for each.
fn run_attacks(arguments: &Arguments) -> ExitCode {
    let engines = arguments.engine.map_or_else(engines, |engine| vec![engine]);
    let span = Duration::from_secs(u64::try_from(arguments.seconds).unwrap_or(u64::MAX));
    let mut all_held = true;
    for engine in engines {
        let show = |report: &Value| {
            if arguments.json {
                println!("{report}");
            } else {
                println!("{}", attacks::line(report));
            }
        };
        match attacks::run(engine, arguments.only.as_deref(), span, show) {
            Ok(held) => all_held &= held,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        }
    }
    if all_held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(report: Value, as_json: bool) {
    if as_json {
        println!("{report}");
    } else if let Value::Object(members) = report {
        members.iter().for_each(|(name, value)| println!("{name}: {value}"));
    }
}
