//! Encodes the results of requests as bytes.
//!
//! A result consists of encoded members, so that the output of an operation is inserted without being parsed.
//! The members that a revision requires in every result are added when the response is written.

use bytes::Bytes;
use rmcp::model::RequestId;
use serde::Serialize;
use serde_json::{Map, Value, json};
use svc_core::op::mcp::IDEMPOTENCY_REPLAYED;

use crate::revision::Revision;

/// Milliseconds for which clients may cache a result that rarely changes.
pub(crate) const LONG_TTL_MS: u64 = 3_600_000;

/// Name of the `_meta` member that contains a subscription id: the id of the request that began the
/// subscription.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Scope in which a result may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// The result is the same for every caller, so shared caches may keep it.
    Public,
    /// The result is only for the caller's credential.
    Private,
}

/// Result of a request, as encoded JSON members.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Encoded members of the result, without braces and without the members in the other fields of this
    /// type.
    members: Bytes,
    /// Encoded last member of the result, with all braces up to the end of the response. Many responses share
    /// these bytes without copying them.
    last: Bytes,
    meta: Map<String, Value>,
    needs_input: bool,
    cache: Option<(u64, CacheScope)>,
}

impl Response {
    /// Creates a result from encoded members, separated by commas.
    pub fn raw(members: impl Into<Bytes>) -> Self {
        Self { members: members.into(), ..Self::default() }
    }

    /// Creates a result from one encoded member that ends with [`RESPONSE_END`].
    pub(crate) fn from_last_member(last: Bytes) -> Self {
        Self { last, ..Self::default() }
    }

    /// Creates a result by serializing a type of the protocol's model.
    pub fn of(result: &impl Serialize) -> Self {
        let Ok(Value::Object(mut members)) = serde_json::to_value(result) else { return Self::default() };
        let needs_input = members.get("resultType").is_some_and(|of_type| of_type == "input_required");
        for added in ["resultType", "ttlMs", "cacheScope"] {
            members.remove(added);
        }
        let meta = match members.remove("_meta") {
            Some(Value::Object(meta)) => meta,
            _ => Map::new(),
        };
        let mut text = Value::Object(members).to_string().into_bytes();
        text.pop();
        let members = text.split_off(1.min(text.len())).into();
        Self { members, meta, needs_input, ..Self::default() }
    }

    /// Creates the result of `subscriptions/listen`, which the server sends when the subscription `id` has
    /// ended.
    pub fn subscription_ended(id: &RequestId) -> Self {
        Self::default().with_meta(SUBSCRIPTION_ID, json!(id))
    }

    /// Adds a member to the `_meta` of the result.
    #[must_use]
    pub fn with_meta(mut self, name: &str, value: Value) -> Self {
        self.meta.insert(name.to_owned(), value);
        self
    }

    /// Sets whether the result repeats the outcome of an earlier request with the same idempotency key.
    #[must_use]
    pub fn with_repeated(self, is_repeated: bool) -> Self {
        if is_repeated { self.with_meta(IDEMPOTENCY_REPLAYED, json!(true)) } else { self }
    }

    /// Sets for how many milliseconds the result may be cached, and in which scope.
    #[must_use]
    pub fn cached(mut self, ttl_ms: u64, scope: CacheScope) -> Self {
        self.cache = Some((ttl_ms, scope));
        self
    }

    /// Marks the result as a request for input instead of the final outcome.
    #[must_use]
    pub fn into_input_request(mut self) -> Self {
        self.needs_input = true;
        self
    }

    /// Encodes the JSON-RPC response, with the members that the revision adds to results.
    ///
    /// `server_info` contains the name and the version of the server as JSON.
    pub fn response(self, id: &RequestId, revision: Revision, server_info: &str) -> EncodedResponse {
        let Self { members, last, meta, needs_input, cache } = self;
        let mut out = Vec::with_capacity(members.len() + 256);
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        match id {
            RequestId::Number(id) => out.extend_from_slice(id.to_string().as_bytes()),
            RequestId::String(id) => out.extend_from_slice(Value::from(id.as_ref()).to_string().as_bytes()),
        }
        out.extend_from_slice(br#","result":{"#);
        let mut is_first = members.is_empty();
        out.extend_from_slice(&members);
        let mut add = |out: &mut Vec<u8>, member: &str| {
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            out.extend_from_slice(member.as_bytes());
        };
        if revision.is_stateless() {
            let result_type = if needs_input { "input_required" } else { "complete" };
            add(&mut out, &format!(r#""resultType":"{result_type}""#));
            if let Some((ttl_ms, scope)) = cache.filter(|_| !needs_input) {
                let scope = if scope == CacheScope::Public { "public" } else { "private" };
                add(&mut out, &format!(r#""ttlMs":{ttl_ms},"cacheScope":"{scope}""#));
            }
            let meta = if meta.is_empty() { String::new() } else { Value::Object(meta).to_string() };
            let own = meta.strip_prefix('{').and_then(|meta| meta.strip_suffix('}')).unwrap_or_default();
            let comma = if own.is_empty() { "" } else { "," };
            let info = format!(r#""io.modelcontextprotocol/serverInfo":{server_info}"#);
            add(&mut out, &format!(r#""_meta":{{{own}{comma}{info}}}"#));
        } else if !meta.is_empty() {
            add(&mut out, &format!(r#""_meta":{}"#, Value::Object(meta)));
        }
        if last.is_empty() {
            out.extend_from_slice(RESPONSE_END);
        } else if !is_first {
            out.push(b',');
        }
        EncodedResponse { start: out, rest: last }
    }
}

/// Closing braces of the result and of the response.
pub(crate) const RESPONSE_END: &[u8] = b"}}";

/// Encoded JSON-RPC response, whose last bytes may be shared with other responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedResponse {
    /// First bytes of the response, which are not shared.
    pub start: Vec<u8>,
    /// Last bytes of the response, which may be shared with other responses.
    pub rest: Bytes,
}

impl EncodedResponse {
    /// Returns the total number of bytes of the response.
    pub fn size(&self) -> usize {
        self.start.len().saturating_add(self.rest.len())
    }

    /// Returns the response as one contiguous buffer.
    pub fn into_contiguous(self) -> Vec<u8> {
        let Self { mut start, rest } = self;
        start.extend_from_slice(&rest);
        start
    }
}

impl From<Vec<u8>> for EncodedResponse {
    fn from(start: Vec<u8>) -> Self {
        Self { start, rest: Bytes::new() }
    }
}

/// Appends JSON text to `out` as an escaped JSON string, in one pass.
///
/// U+2028 and U+2029 need no escape in JSON.
pub(crate) fn push_as_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + text.len() / 8 + 2);
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..=0x1f)) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answered: Response, revision: Revision) -> Value {
        let response = answered.response(&RequestId::String("a\"b".into()), revision, r#"{"name":"svc"}"#);
        serde_json::from_slice(&response.into_contiguous()).unwrap()
    }

    #[test]
    fn a_result_has_what_its_revision_adds() {
        let result = || Response::of(&json!({"tools": [1], "ttlMs": 0, "_meta": {"own": {"n": 1}}}));
        let old = read(result().cached(7, CacheScope::Private), Revision::V20251125);
        assert_eq!(
            old,
            json!({"jsonrpc": "2.0", "id": "a\"b", "result": {"tools": [1], "_meta": {"own": {"n": 1}}}})
        );
        let new = read(result().cached(7, CacheScope::Private), Revision::V20260728);
        assert_eq!(
            new["result"],
            json!({"tools": [1], "resultType": "complete", "ttlMs": 7, "cacheScope": "private",
                   "_meta": {"own": {"n": 1}, "io.modelcontextprotocol/serverInfo": {"name": "svc"}}})
        );
        let asking = read(result().cached(7, CacheScope::Private).into_input_request(), Revision::V20260728);
        assert_eq!(asking["result"]["resultType"], "input_required");
        assert!(asking["result"].get("ttlMs").is_none());
    }

    #[test]
    fn an_empty_result_is_an_object() {
        for empty in [Response::of(&json!({})), Response::raw(Vec::new())] {
            assert_eq!(read(empty.clone(), Revision::V20241105)["result"], json!({}));
            assert_eq!(read(empty, Revision::V20260728)["result"]["resultType"], "complete");
        }
    }

    #[test]
    fn a_shared_member_ends_the_response() {
        for revision in Revision::ALL {
            let shared = Bytes::from_static(br#""tools":[1]}}"#);
            let response = Response::from_last_member(shared.clone())
                .with_meta("own", json!(1))
                .cached(7, CacheScope::Public);
            let response = response.response(&RequestId::Number(1), revision, "{}");
            assert_eq!(response.rest.as_ptr(), shared.as_ptr(), "it is not copied");
            assert_eq!(response.size(), response.clone().into_contiguous().len());
            let read: Value = serde_json::from_slice(&response.into_contiguous()).unwrap();
            assert_eq!((&read["result"]["tools"], &read["result"]["_meta"]["own"]), (&json!([1]), &json!(1)));
        }
    }

    #[test]
    fn text_is_escaped_as_serde_does() {
        for text in ["", "plain", "{\"a\":\"b\\n\\\"c\"}", "\u{2028}\u{1f600}\n\t\u{1}\u{7f}"] {
            let mut out = Vec::new();
            push_as_string(&mut out, text.as_bytes());
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
        let mut out = Vec::new();
        push_as_string(&mut out, "{\"a\":\"\u{2028}\"}".as_bytes());
        assert_eq!(out, serde_json::to_vec("{\"a\":\"\u{2028}\"}").unwrap());
    }
}
