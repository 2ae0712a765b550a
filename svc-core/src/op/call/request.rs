//! The request type that shells pass to the core: a head and an input.
//!
//! The pipeline admits a request by its head; the shell reads the input after that. Shells only frame bytes;
//! the core makes every decision.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::id::ThreadId;
use crate::op::call::caller::Surface;
use crate::op::call::credential::Credential;
use crate::op::call::key::IdempotencyKey;
use crate::rate::Peer;
use crate::spool::Upload;

/// The head of a request: the data that a shell knows before it reads the body.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The credential of the request.
    pub credential: Credential,
    /// The interface through which the request arrived.
    pub surface: Surface,
    /// The requested path, for the audit row.
    pub path: String,
    /// The network address of the sender, if known.
    ///
    /// The rate limit for requests without a live credential applies to this address.
    pub peer: Option<Peer>,
}

/// The input of a request: text fields from the path and the query, and a JSON body.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Names and values of path variables and query fields, percent-decoded. A list has one entry per item,
    /// all with the same name.
    pub text: Vec<(String, String)>,
    /// The JSON body over REST, or the arguments over MCP. Empty if there is no body.
    pub body: Bytes,
    /// The uploaded file, if the operation accepts a file.
    pub file: Option<Upload>,
    /// The idempotency key, if the client sent one.
    pub key: Option<IdempotencyKey>,
}

impl Input {
    /// Creates an input with only a JSON body.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }
}

impl Input {
    /// Returns the thread id in the input, if any.
    pub(in crate::op) fn thread_id(&self) -> Option<ThreadId> {
        #[derive(Deserialize)]
        struct ThreadIdField {
            thread_id: ThreadId,
        }
        match self.text.iter().find(|(name, _)| name.as_str() == "thread_id") {
            Some((_, text)) => text.parse::<uuid::Uuid>().ok().map(ThreadId::from),
            None => serde_json::from_slice::<ThreadIdField>(&self.body).ok().map(|named| named.thread_id),
        }
    }
}

impl Input {
    /// Returns the string fields of the input whose names end in `_id`.
    pub(in crate::op) fn ids(&self) -> Map<String, Value> {
        // Only ids are parsed into values, because the values of a large body would occupy many times the
        // bytes of its text.
        let body: BTreeMap<String, &RawValue> = serde_json::from_slice(&self.body).unwrap_or_default();
        let is_id = |(name, text): &(String, &RawValue)| is_id(name) && text.get().starts_with('"');
        let ids = body.into_iter().filter(is_id);
        let ids = ids.filter_map(|(name, text)| Some((name, serde_json::from_str(text.get()).ok()?)));
        let text = self.text.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str())));
        keep_ids(ids.chain(text))
    }

    /// Returns the approximate size of the input in bytes.
    pub(in crate::op) fn bytes(&self) -> usize {
        self.body.len()
    }
}

/// Keeps the fields whose names end in `_id` and whose values are strings.
fn keep_ids(fields: impl Iterator<Item = (String, Value)>) -> Map<String, Value> {
    fields.filter(|(name, value)| is_id(name) && value.is_string()).collect()
}

fn is_id(name: &str) -> bool {
    name.ends_with("_id")
}

/// A complete request to call an operation.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The head of the request: credential and origin.
    pub head: RequestHead,
    /// The input of the operation.
    pub input: Input,
}

impl Request {
    /// Creates a request over `surface` with `credential` and a JSON body.
    pub fn json(surface: Surface, credential: impl Into<Credential>, body: impl Into<Bytes>) -> Self {
        let head = RequestHead { credential: credential.into(), surface, ..RequestHead::default() };
        Self { head, input: Input::json(body) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_ids_of_an_input_are_its_texts_named_so() {
        let fields = json!({"thread_id": "t", "parent_id": null, "lease_id": 7, "title": "x"});
        let encoded = Input::json(fields.to_string());
        assert_eq!(Value::Object(encoded.ids()), json!({"thread_id": "t"}));
        assert_eq!(encoded.bytes(), fields.to_string().len());
    }
}
