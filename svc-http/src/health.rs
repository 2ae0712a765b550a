//! Responds to the liveness and readiness checks.
//!
//! The checks need no credential, and no limit applies to them, so they respond even when other routes do
//! not.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use svc_core::{HealthResult, Service};
use tokio::time::timeout;

use crate::encode::{self, Response};
use crate::phase::Phase;

/// Returns the liveness response, which is always a success: a process that responds is alive.
pub(crate) fn liveness() -> Response {
    encode::json(StatusCode::OK, r#"{"status":"ok"}"#.into())
}

/// Returns the readiness response: whether the process can do its work.
///
/// The response has an entry for each health check: `ok`, the fault, or a remark about a component that
/// works.
pub(crate) async fn readiness(service: &Service, phase: Phase) -> Response {
    let parts = timeout(TIMEOUT, service.health())
        .await
        .unwrap_or_else(|_| vec![HealthResult::new("database", Some("it does not respond".to_owned()))]);
    let ready = parts.iter().all(|part| part.fault.is_none());
    let status = match phase {
        Phase::Serving if ready => "ok",
        Phase::Serving => "unavailable",
        Phase::Draining | Phase::Closing => "draining",
    };
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let checks = parts.into_iter().map(|part| (part.name, part.describe()));
    let checks: BTreeMap<&str, String> = checks.collect();
    encode::json(code, json!({"status": status, "checks": checks}).to_string().into())
}

const TIMEOUT: Duration = Duration::from_secs(2);
