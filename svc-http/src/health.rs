//! Responds to the liveness and readiness checks.
//!
//! Neither check needs a credential or counts against a limit, so the server responds even when it rejects
//! other requests.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use svc_core::{HealthResult, Service};
use tokio::time::timeout;

use crate::encode::{self, Response};
use crate::phase::Phase;

/// Returns the liveness response, which is always a success: a process that responds is alive.
pub(crate) fn liveness_response() -> Response {
    encode::json_response(StatusCode::OK, r#"{"status":"ok"}"#.into())
}

/// Returns the readiness response: 200 if all health checks pass and the server is not shutting down,
/// otherwise 503.
///
/// The response contains an entry for each health check: `ok`, a fault, or a remark if the check passes.
pub(crate) async fn readiness_response(service: &Service, phase: Phase) -> Response {
    let parts = timeout(CHECKS_TIMEOUT, service.health())
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
    encode::json_response(code, json!({"status": status, "checks": checks}).to_string().into())
}

const CHECKS_TIMEOUT: Duration = Duration::from_secs(2);
