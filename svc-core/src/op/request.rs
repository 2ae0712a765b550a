//! A request as a shell hands it over: text fields from path and query, a JSON body, and what the audit row and
//! the rate limit need to know about the way it came. Shells frame bytes; everything else is decided in here.

use std::net::IpAddr;

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::{Map, Value};

use super::access::Surface;

/// One call of an operation.
#[derive(Debug, Default)]
pub struct Request {
    /// The bearer token, if one was sent.
    pub credential: Option<SecretString>,
    /// Path variables and query fields, by name, percent-decoded. A name may repeat for a list.
    pub text: Vec<(String, String)>,
    /// The JSON body over REST, the arguments over MCP; empty when there is none.
    pub body: Bytes,
    /// The way it came in.
    pub surface: Surface,
    /// The path as it was asked for, for the audit row.
    pub path: String,
    /// The address it came from: what the rate limit knows a caller by before it is authenticated.
    pub peer: Option<IpAddr>,
    /// Whether it belongs to a connection that was counted when it began, so that no rate limit counts it again.
    pub follow_up: bool,
}

impl Request {
    /// A request over `surface` with `credential` and a JSON body.
    pub fn json(surface: Surface, credential: Option<SecretString>, body: impl Into<Bytes>) -> Self {
        Self { credential, body: body.into(), surface, ..Self::default() }
    }

    /// The fields that name something by its id, wherever they stand; nothing else of the request.
    pub(super) fn ids(&self) -> Map<String, Value> {
        let body: Map<String, Value> = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = self.text.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str())));
        body.into_iter()
            .chain(text)
            .filter(|(name, value)| name.ends_with("_id") && value.is_string())
            .collect()
    }
}
