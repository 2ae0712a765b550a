//! Counts the statements of a call, and the rows that they examine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use svc_core::{Engine, ExecutedStatement};
use svc_tests::client::Answer;
use svc_tests::{Setup, World};

use super::fill::fill;
use super::limits::{MORE_ROWS, MORE_STATEMENTS};

/// Maximum statements of a call, beside one for each item that it takes or returns.
pub const STATEMENTS_MAX: usize = 50;
/// Maximum rows that the statements of a call examine, on Postgres, unless it is listed with more.
pub const ROWS_MAX: u64 = 10_000;
/// Maximum steps of SQLite's virtual machine for the statements of a call.
pub const STEPS_MAX: u64 = 500_000;

/// Maximum characters of a statement in a report.
const SHOWN: usize = 1200;

/// The statements that the service has run.
#[derive(Clone, Default)]
pub struct SeenStatements(Arc<Mutex<Vec<ExecutedStatement>>>);

impl SeenStatements {
    /// Takes the statements since the last call.
    pub fn take(&self) -> Vec<ExecutedStatement> {
        self.take_transactions().concat()
    }

    /// Takes the statements since the last call, by their transaction. Reads belong to the next one.
    pub fn take_transactions(&self) -> Vec<Vec<ExecutedStatement>> {
        let ran = std::mem::take(&mut *self.0.lock().unwrap());
        let ends = |ran: &ExecutedStatement| {
            ["begin", "commit", "rollback"].iter().any(|word| ran.sql.starts_with(word))
        };
        let transactions = ran.split(|ran| ran.sql == ExecutedStatement::COMMIT.sql);
        transactions.map(|ran| ran.iter().filter(|ran| !ends(ran)).cloned().collect()).collect()
    }
}

/// Returns a world whose workspace is filled.
pub fn filled(engine: Engine) -> (World, SeenStatements) {
    let seen = SeenStatements::default();
    let sink = seen.clone();
    let watcher = Arc::new(move |ran: &ExecutedStatement| sink.0.lock().unwrap().push(ran.clone()));
    // Postgres reads a table of this size as a whole where that costs less than an index, to hash, sort or
    // merge it. The plan for a larger table counts.
    let postgres_options = Some(
        "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off \
         -c enable_sort=off -c enable_material=off",
    );
    let setup =
        Setup { seed: 77, in_memory: true, watcher: Some(watcher), postgres_options, ..Setup::default() };
    let world = World::with(engine, setup);
    fill(&world);
    (world, seen)
}

/// Calls `ask`, and returns the answer with a report if that has cost too much.
///
/// Periodic work may run beside a call, but not beside each of a few.
pub fn asked(
    world: &World,
    seen: &SeenStatements,
    what: &str,
    ask: impl Fn() -> Answer,
) -> (Answer, Option<String>) {
    let once = || {
        seen.take();
        let answer = ask();
        let cost = too_much(world.engine(), what, &seen.take(), items(&answer.body));
        (answer, cost)
    };
    (0..3).map(|_| once()).find(|(_, cost)| cost.is_none()).unwrap_or_else(once)
}

/// Returns a report of a call that has cost too much.
pub fn too_much(engine: Engine, what: &str, ran: &[ExecutedStatement], items: usize) -> Option<String> {
    let cost: u64 = ran.iter().map(|ran| ran.cost).sum();
    let listed = MORE_ROWS.iter().find(|(name, ..)| what.split(' ').next() == Some(*name));
    let rows = listed.map_or(ROWS_MAX, |(_, most, _)| *most);
    let most = match engine {
        Engine::Sqlite => STEPS_MAX * rows / ROWS_MAX,
        Engine::Postgres => rows,
    };
    let listed = MORE_STATEMENTS.iter().find(|(name, ..)| what.split(' ').next() == Some(*name));
    let more = listed.filter(|_| engine == Engine::Sqlite);
    let statements = more.map_or(STATEMENTS_MAX, |(_, most, _)| *most);
    if ran.len() <= statements + items && cost <= most {
        return None;
    }
    let mut by_statement: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for ran in ran {
        let of = by_statement.entry(ran.sql).or_default();
        *of = (of.0 + 1, of.1 + ran.cost);
    }
    let mut by_statement: Vec<_> = by_statement.into_iter().collect();
    by_statement.sort_by_key(|(_, (times, cost))| std::cmp::Reverse((*cost, *times)));
    let shown = by_statement.iter().take(4).map(|(sql, (times, cost))| {
        let sql: Vec<&str> = sql.split_whitespace().collect();
        let sql: String = sql.join(" ").chars().take(SHOWN).collect();
        format!("\n  {cost} by {times} x {sql}")
    });
    Some(format!(
        "{} statements for {items} items, {cost} examined, of which{}",
        ran.len(),
        shown.collect::<String>()
    ))
}

/// Returns the number of items of an input or output, at any depth.
pub fn items(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.len() + values.iter().map(items).sum::<usize>(),
        Value::Object(fields) => fields.values().map(items).sum(),
        _ => 0,
    }
}
