//! Whether this process is up, and whether it can do its work. Nobody has to authenticate, and neither limit
//! applies, so that the answer is there when nothing else is.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use svc_core::{PartHealth, Service};
use tokio::time::timeout;

use crate::encode::{self, Response};
use crate::server::Phase;

/// The process is up: it answers.
pub(crate) fn liveness() -> Response {
    encode::json(StatusCode::OK, r#"{"status":"ok"}"#.into())
}

/// The process can do its work, part by part. A part is `ok`, or says what is wrong with it.
pub(crate) async fn readiness(service: &Service, phase: Phase) -> Response {
    let parts = timeout(TIMEOUT, service.health()).await.unwrap_or_else(|_| {
        vec![PartHealth { name: "database", fault: Some("it does not answer".to_owned()) }]
    });
    let ready = parts.iter().all(|part| part.fault.is_none());
    let status = match phase {
        Phase::Serving if ready => "ok",
        Phase::Serving => "unavailable",
        Phase::Draining | Phase::Closing => "draining",
    };
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let checks = parts.into_iter().map(|part| (part.name, part.fault.unwrap_or_else(|| "ok".to_owned())));
    let checks: BTreeMap<&str, String> = checks.collect();
    encode::json(code, json!({"status": status, "checks": checks}).to_string().into())
}

const TIMEOUT: Duration = Duration::from_secs(2);
