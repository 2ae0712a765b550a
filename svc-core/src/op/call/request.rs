//! A request as a shell hands it over: its head and its input.
//!
//! It is admitted by its head; the input is read after that. Shells frame bytes; everything else is decided
//! here.

use std::net::IpAddr;

use bytes::Bytes;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use crate::op::call::caller::{Surface, secret_hash};

/// What is known of a request before its body is read.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The bearer token, if one was sent.
    pub credential: Option<SecretString>,
    /// The surface that it came in over.
    pub surface: Surface,
    /// The path as it was requested, for the audit row.
    pub path: String,
    /// The address that it came from.
    ///
    /// The rate limit counts a caller without a live credential by it.
    pub peer: Option<IpAddr>,
}

impl Head {
    /// Returns the hash that identifies the credential; none if none was sent.
    pub(in crate::op) fn secret_hash(&self) -> Option<[u8; 32]> {
        self.credential.as_ref().filter(|secret| !secret.expose_secret().is_empty()).map(secret_hash)
    }
}

/// The input of a request: text fields from path and query, and a JSON body.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Path variables and query fields, by name, percent-decoded. A name is repeated for a list.
    pub text: Vec<(String, String)>,
    /// The JSON body over REST, the arguments over MCP; empty when there is none.
    pub body: Bytes,
}

impl Input {
    /// Creates an input that has only a JSON body.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self { text: Vec::new(), body: body.into() }
    }

    /// Returns the string fields of text and body whose names end in `_id`, and nothing else.
    pub(in crate::op) fn ids(&self) -> Map<String, Value> {
        let body: Map<String, Value> = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = self.text.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str())));
        body.into_iter()
            .chain(text)
            .filter(|(name, value)| name.ends_with("_id") && value.is_string())
            .collect()
    }
}

/// One call of an operation, received entirely.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The credential, and where the request comes from.
    pub head: Head,
    /// The input of the operation.
    pub input: Input,
}

impl Request {
    /// Creates a request over `surface` with `credential` and a JSON body.
    pub fn json(surface: Surface, credential: Option<SecretString>, body: impl Into<Bytes>) -> Self {
        Self { head: Head { credential, surface, ..Head::default() }, input: Input::json(body) }
    }
}
