//! Whether this process is up, and whether it can do its work. Nobody has to authenticate, and neither limit
//! applies, so that the answer is there when nothing else is.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use svc_core::Service;
use tokio::time::timeout;

use crate::encode::{self, Response};
use crate::server::Phase;

/// The process is up: it answers.
pub(crate) fn liveness() -> Response {
    encode::json(StatusCode::OK, r#"{"status":"ok"}"#.into())
}

/// The process can do its work, part by part.
pub(crate) async fn readiness(service: &Service, phase: Phase) -> Response {
    let database = matches!(timeout(PATIENCE, service.ping()).await, Ok(Ok(())));
    let status = match phase {
        Phase::Serving if database => "ok",
        Phase::Serving => "unavailable",
        Phase::Draining | Phase::Closing => "draining",
    };
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let database = if database { "ok" } else { "unavailable" };
    let body = json!({"status": status, "checks": {"database": database}});
    encode::json(code, body.to_string().into())
}

const PATIENCE: Duration = Duration::from_secs(2);
