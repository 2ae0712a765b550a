//! A request as a shell hands it over: its head, from which it is let in, and its input, which is read after that.
//! Shells frame bytes; everything else is decided in here.

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
    /// The way it came in.
    pub surface: Surface,
    /// The path as it was asked for, for the audit row.
    pub path: String,
    /// The address it came from: what the rate limit knows a caller by who shows no live credential.
    pub peer: Option<IpAddr>,
}

impl Head {
    /// The hash by which the credential is known; none if none was sent.
    pub(in crate::op) fn secret_hash(&self) -> Option<[u8; 32]> {
        self.credential.as_ref().filter(|secret| !secret.expose_secret().is_empty()).map(secret_hash)
    }
}

/// What is asked: text fields from path and query, and a JSON body.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Path variables and query fields, by name, percent-decoded. A name may repeat for a list.
    pub text: Vec<(String, String)>,
    /// The JSON body over REST, the arguments over MCP; empty when there is none.
    pub body: Bytes,
}

impl Input {
    /// A JSON body alone.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self { text: Vec::new(), body: body.into() }
    }

    /// The fields that name something by its id, wherever they stand; nothing else of the request.
    pub(in crate::op) fn ids(&self) -> Map<String, Value> {
        let body: Map<String, Value> = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = self.text.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str())));
        body.into_iter()
            .chain(text)
            .filter(|(name, value)| name.ends_with("_id") && value.is_string())
            .collect()
    }
}

/// One call of an operation, all of which is there.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Who asks, and from where.
    pub head: Head,
    /// What is asked.
    pub input: Input,
}

impl Request {
    /// A request over `surface` with `credential` and a JSON body.
    pub fn json(surface: Surface, credential: Option<SecretString>, body: impl Into<Bytes>) -> Self {
        Self { head: Head { credential, surface, ..Head::default() }, input: Input::json(body) }
    }
}
