//! `bench`: runs one benchmark and prints its result.
//!
//! `bench posts|reads|claims|herd|footprints|verify|withdraw|admission [--engine sqlite|postgres] [--pairs N]
//! [--json]`; with `--json` the last line is an object.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use serde_json::Value;
use svc_core::Engine;
use svc_tests::bench::{admission, claims, footprints, herd, posts, reads, verify, withdraw};

/// The allocator of `svc-http`, for both sides.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "usage: bench posts|reads|claims|herd|footprints|verify|withdraw|admission \
    [--engine sqlite|postgres] [--pairs N] [--json]";

struct Arguments {
    name: String,
    engine: Engine,
    pairs: usize,
    json: bool,
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments { name: String::new(), engine: Engine::Sqlite, pairs: 5, json: false };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => parsed.json = true,
            "--engine" => match arguments.next().as_deref() {
                Some("sqlite") => parsed.engine = Engine::Sqlite,
                Some("postgres") => parsed.engine = Engine::Postgres,
                other => return Err(format!("unknown engine {other:?}")),
            },
            "--pairs" => {
                let pairs = arguments.next().and_then(|text| text.parse().ok()).filter(|pairs| *pairs >= 1);
                parsed.pairs = pairs.ok_or("--pairs takes a whole number from 1")?;
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
    let finding = match arguments.name.as_str() {
        "posts" => posts::run(engine, pairs, runtime),
        "reads" => reads::run(engine, pairs, runtime),
        "claims" => claims::run(engine, pairs, runtime),
        "herd" => herd::run(engine, pairs, runtime),
        "footprints" => footprints::run(engine, pairs, runtime),
        "verify" => verify::run(engine, pairs, runtime),
        "withdraw" => withdraw::run(engine, pairs, runtime),
        "admission" => admission::run(engine, pairs, runtime),
        other => {
            eprintln!("unknown benchmark {other:?}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let report = finding.report();
    if arguments.json {
        println!("{report}");
    } else if let Value::Object(members) = report {
        members.iter().for_each(|(name, value)| println!("{name}: {value}"));
    }
    ExitCode::SUCCESS
}
