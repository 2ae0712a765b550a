//! The cost of an operation does not depend on the size of the workspace: a generated test fills a workspace
//! to its limits, calls every operation, and counts statements and the rows that they examine.

mod limits;
mod fill;
mod measure;
mod reads;
mod framed;
pub mod changes;

use svc_core::{Engine, ExecutedStatement};
use svc_tests::database::engines;

use measure::{ROWS_MAX, STATEMENTS_MAX, STEPS_MAX, filled, too_much};

/// One world for all, because filling it takes longer than most measurements.
#[test]
fn no_operation_costs_more_than_its_share_however_much_there_is() {
    let mut found = Vec::new();
    for engine in engines() {
        let began = std::time::Instant::now();
        let (world, seen) = filled(engine);
        eprintln!("{}: filled after {:?}", engine.name(), began.elapsed());
        let mut of_engine = reads::expensive(&world, &seen);
        of_engine.extend(reads::expensive_methods(&world, &seen));
        of_engine.extend(framed::expensive_reads(&world, &seen));
        reads::check_cut_counts(&world);
        eprintln!("{}: read after {:?}", engine.name(), began.elapsed());
        of_engine.extend(changes::expensive(&world, &seen));
        eprintln!("{}: changed after {:?}", engine.name(), began.elapsed());
        found.extend(of_engine.into_iter().map(|found| format!("{}: {found}", engine.name())));
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

/// The control: each count finds a call that costs too much.
#[test]
fn what_costs_more_than_its_share_is_found() {
    let statements = |count: usize, cost: u64| vec![ExecutedStatement { sql: "select 1", cost }; count];
    for (engine, most) in [(Engine::Sqlite, STEPS_MAX), (Engine::Postgres, ROWS_MAX)] {
        assert_eq!(too_much(engine, "x", &statements(STATEMENTS_MAX + 2, 0), 2), None);
        assert!(too_much(engine, "x", &statements(STATEMENTS_MAX + 3, 0), 2).is_some());
        assert_eq!(too_much(engine, "x", &statements(1, most), 0), None);
        assert!(too_much(engine, "x", &statements(1, most + 1), 0).is_some());
    }
}

/// An exception for a removed operation would apply to the next one with that name.
#[test]
fn exceptions_name_operations_that_exist() {
    let table = svc_core::operation_table().unwrap();
    let named = limits::EXCEPTIONS.iter().map(|(name, reason)| (*name, *reason));
    let named = named.chain(limits::MORE_ROWS.iter().map(|(name, _, reason)| (*name, *reason)));
    let named = named.chain(limits::MORE_STATEMENTS.iter().map(|(name, _, reason)| (*name, *reason)));
    for (name, reason) in named {
        let exists = name.contains('/') || table.rows().any(|row| row.name() == name);
        assert!(exists && reason.len() > 10, "{name}");
    }
    for name in limits::FIRST.iter().chain(limits::LAST) {
        assert!(table.rows().any(|row| row.name() == *name), "{name}");
    }
}
