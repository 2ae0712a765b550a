//! The OpenAPI document: built at the first request, then the same bytes for everybody.

use std::sync::OnceLock;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use svc_core::op::{Table, openapi};

use crate::encode::{self, Response};

/// The finished bytes.
#[derive(Default)]
pub(crate) struct Document(OnceLock<Bytes>);

impl Document {
    pub fn response(&self, table: &Table) -> Response {
        let bytes = self.0.get_or_init(|| openapi::document(table).to_string().into());
        let mut response = encode::json(StatusCode::OK, bytes.clone());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
        response
    }
}
