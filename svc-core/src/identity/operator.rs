//! The status of a server for its operator: which checks pass, and how full it is.
//!
//! It is the status of the process that responds; another one on the same database has a different one. It
//! needs the database, which authenticates the caller: while that does not respond, use readiness.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::capability::Capability::OperatorGlobal;
use crate::error::Result;
use crate::op::{Depth, Feature, Read, health_in_database, health_of_process, read};

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "operator",
        vec![
            read("get_operator_status", get_operator_status)
                .title("Read the status of the server")
                .get("/operator/status")
                .needs(&[OperatorGlobal])
                .rest_only()
                .as_page()
                .example(|_| json!({})),
        ],
    )
}

/// Returns the status of the server that responds: its phase, its readiness checks and how full it is.
///
/// Over REST it is a page of HTML without scripts for a client that prefers that to JSON, as browsers do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetOperatorStatus {}

/// The readiness checks of a server, and how full it is.
#[derive(Debug, Serialize, JsonSchema)]
struct OperatorStatus {
    /// Its phase.
    phase: ServerPhase,
    /// Its version.
    version: String,
    /// Each readiness check: `ok`, or the fault.
    checks: BTreeMap<&'static str, String>,
    /// Current number of each limited resource, such as `websocket_connections`.
    queue_depths: BTreeMap<&'static str, Depth>,
}

/// Phase of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ServerPhase {
    /// It serves, and every check passes.
    Serving,
    /// It serves, and a check fails.
    Degraded,
    /// It is about to stop.
    Draining,
}

fn get_operator_status(cx: &Read<'_>, _: &GetOperatorStatus) -> Result<OperatorStatus> {
    let mut health = health_in_database(cx)?;
    health.extend(health_of_process(cx.parts()));
    let is_degraded = health.iter().any(|part| part.fault.is_some());
    let checks = health.into_iter().map(|part| (part.name, part.describe()));
    let depths = cx.parts().filter_map(|part| Some((part.name, part.status.as_ref()?())));
    Ok(OperatorStatus {
        phase: if cx.gauges().is_draining() {
            ServerPhase::Draining
        } else if is_degraded {
            ServerPhase::Degraded
        } else {
            ServerPhase::Serving
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        checks: checks.collect(),
        queue_depths: cx.gauges().depths().into_iter().chain(depths).collect(),
    })
}
