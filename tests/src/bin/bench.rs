//! `bench`: runs one benchmark and prints its result.
//!
//! `bench posts|reads|claims|herd|footprints|verify|withdraw|admission|sessions|delegated|limits|scim|fanout|
//! posts-followed|fanout-ws|posts-ws|prune|export|restore [--engine sqlite|postgres] [--pairs N] [--json]`;
//! with `--json` the last line is an object. `bench pop --engine postgres [--callers N]` needs Postgres.
//! `bench mcp-whoami|mcp-context|mcp-posts|mcp-tools [--callers N] [--pipe]` takes so many
//! connections, or pipes.
//! `bench board [--pairs N]` needs a browser and Node.js.
//! `bench memory`, `bench idle` and `bench mcp-waits` print KiB. `bench simulate [--engine ..] [--steps N]
//! [--seed N] [--json]` takes steps of the simulation of the claim engine.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use serde_json::Value;
use svc_core::Engine;
use svc_tests::bench::{
    admission, board, claims, credentials, export, fanout, footprints, herd, idle, inboxes, mcp, memory, pop,
    posts, prune, reads, restore, scim, simulate, verify, waits, withdraw,
};

/// The allocator of `svc-http`, for both sides.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "usage: bench posts|reads|claims|herd|footprints|verify|withdraw|admission|sessions|\
    delegated|limits|scim|fanout|posts-followed|fanout-ws|posts-ws|prune|export|restore \
    [--engine sqlite|postgres] [--pairs N] [--json]\n   or: bench memory|idle|mcp-waits \
    [--engine sqlite|postgres] [--json]\n   or: bench pop --engine postgres [--callers N] [--pairs N] \
    [--json]\n   or: bench board [--pairs N] [--json]\n   \
    or: bench mcp-whoami|mcp-context|mcp-posts|mcp-tools [--callers N] [--pipe] \
    [--engine sqlite|postgres] [--pairs N] [--json]\n   or: bench simulate \
    [--engine sqlite|postgres] [--steps N] [--seed N] [--json]";

struct Arguments {
    name: String,
    engine: Engine,
    pairs: usize,
    callers: usize,
    carrier: mcp::Carrier,
    steps: usize,
    seed: usize,
    json: bool,
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        name: String::new(),
        engine: Engine::Sqlite,
        pairs: 5,
        callers: 64,
        carrier: mcp::Carrier::Http,
        steps: 100_000,
        seed: 1,
        json: false,
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => parsed.json = true,
            "--pipe" => parsed.carrier = mcp::Carrier::Pipe,
            "--engine" => match arguments.next().as_deref() {
                Some("sqlite") => parsed.engine = Engine::Sqlite,
                Some("postgres") => parsed.engine = Engine::Postgres,
                other => return Err(format!("unknown engine {other:?}")),
            },
            "--pairs" | "--callers" | "--steps" | "--seed" => {
                let number =
                    arguments.next().and_then(|text| text.parse().ok()).filter(|number| *number >= 1);
                let number = number.ok_or_else(|| format!("{argument} takes a whole number from 1"))?;
                match argument.as_str() {
                    "--pairs" => parsed.pairs = number,
                    "--callers" => parsed.callers = number,
                    "--steps" => parsed.steps = number,
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
    // One loop for the load, the server and the floor: no side pays for threads of its own.
    let runtime = svc_tests::runtime();
    let (engine, pairs) = (arguments.engine, arguments.pairs);
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
        "reads" => reads::run(engine, pairs, runtime),
        "claims" => claims::run(engine, pairs, runtime),
        "herd" => herd::run(engine, pairs, runtime),
        "footprints" => footprints::run(engine, pairs, runtime),
        "verify" => verify::run(engine, pairs, runtime),
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
        "export" => export::run(engine, pairs, runtime),
        "restore" => restore::run(engine, pairs, runtime),
        "scim" => scim::run(engine, pairs, runtime),
        "mcp-whoami" => over_mcp(mcp::Compared::Whoami),
        "mcp-context" => over_mcp(mcp::Compared::Context),
        "mcp-posts" => over_mcp(mcp::Compared::Post),
        "mcp-tools" => over_mcp(mcp::Compared::Tools),
        other => {
            eprintln!("unknown benchmark {other:?}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    print(finding.report(), arguments.json);
    ExitCode::SUCCESS
}

fn print(report: Value, as_json: bool) {
    if as_json {
        println!("{report}");
    } else if let Value::Object(members) = report {
        members.iter().for_each(|(name, value)| println!("{name}: {value}"));
    }
}
