//! Compares restoring a workspace from an export with bare inserts of the same rows.

use std::time::{Duration, Instant};

use serde_json::json;
use svc_core::Engine;
use svc_core::api::{ExportWorkspace, File, ImportMode, ImportWorkspace};
use svc_core::id::WorkspaceId;
use svc_core::spool::CompleteSpool;
use tokio::runtime::Runtime;

use super::posts::{callers, poster};
use super::rows::Rows;
use super::stage::Stage;
use super::{Finding, Sample, alternate};
use crate::database::TestDatabase;

const FILL: Duration = Duration::from_secs(12);
/// The tables with nearly all rows of an export; each post writes one row of each.
const TABLES: [&str; 3] = ["events", "messages", "audit"];

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let source = TestDatabase::on(engine);
    let stage = Stage::build(&source);
    callers(runtime, 64, FILL, poster(&stage));
    let file = export(&stage);
    let rows = Rows::read(&source, &TABLES, runtime);
    let measured = alternate(
        pairs,
        || {
            let database = TestDatabase::on(engine);
            let stage = Stage::build(&database);
            let begun = Instant::now();
            restore(&stage, &file);
            rate(rows.count(), begun)
        },
        || {
            let database = TestDatabase::on(engine);
            drop(Stage::build(&database));
            TABLES.iter().for_each(|table| database.execute(&format!("delete from {table}")));
            let begun = Instant::now();
            rows.insert(&database, runtime);
            rate(rows.count(), begun)
        },
    );
    Finding {
        name: "restore",
        engine,
        pairs: measured,
        floor_is: "bare inserts of the same rows, 500 in a transaction",
        extra: json!({"rows": rows.count(), "bytes": file.len()}),
    }
}

/// Exports the workspace of a stage.
pub fn export(stage: &Stage) -> CompleteSpool {
    let input = ExportWorkspace::new().workspace_id(stage.workspace_id);
    let exported = stage.service.call_as_instance(stage.workspace_id, &input);
    exported.expect("an export").spooled
}

/// Restores a copy of a stage's workspace next to it.
pub fn restore(stage: &Stage, file: &CompleteSpool) {
    let input = ImportWorkspace::new(ImportMode::Restore, File::from(file.clone()));
    let imported = stage.service.call_as_instance(WorkspaceId::INSTANCE, &input);
    assert!(imported.expect("an import").created, "the workspace was there before");
}

fn rate(rows: usize, begun: Instant) -> Sample {
    let elapsed = begun.elapsed();
    Sample { per_second: rows as f64 / elapsed.as_secs_f64(), latencies: vec![elapsed], cpu_us: None }
}
