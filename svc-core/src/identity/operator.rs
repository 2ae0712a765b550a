//! Status of a server for the operator: health checks, and the use of the server's limited resources.
//!
//! The status is that of the process that responds. Other processes on the same database report their own
//! status. The request needs the database to authenticate the caller: if the database does not respond, use
//! the readiness endpoint.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::capability::Capability::OperatorGlobal;
use crate::error::Result;
use crate::op::{Depth, Feature, Read, health_in_database, health_of_process, read};
use crate::request::request;

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

request! {
    /// Returns the status of the responding server: its phase, its health checks and the use of its limited
    /// resources.
    ///
    /// Over REST, a client that prefers HTML to JSON, such as a browser, receives an HTML page without
    /// scripts.
    struct GetOperatorStatus {
    }

    get_operator_status() -> OperatorStatus
}

/// Status of a server: phase, health checks, and the use of limited resources.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OperatorStatus {
    /// Whether the server serves requests, serves requests although a check fails, or is shutting down.
    pub phase: ServerPhase,
    /// Version of the server.
    pub version: String,
    /// Result of each health check, by the name of the check: `ok` or a description of the fault.
    pub checks: BTreeMap<&'static str, String>,
    /// Current use of each limited resource, by the name of the resource, such as `websocket_connections`.
    pub queue_depths: BTreeMap<&'static str, Depth>,
}

/// Phase of the server, from serving requests to shutting down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ServerPhase {
    /// The server serves requests, and every health check passes.
    Serving,
    /// The server serves requests, but a health check fails.
    Degraded,
    /// The server is shutting down.
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
