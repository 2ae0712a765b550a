//! The JSON-RPC 2.0 envelope, checked before a message is processed any further.
//!
//! It determines the kind of a message and rejects what is not a message. Methods and their parameters are
//! not checked here.

use serde_json::{Value, json};
use svc_core::Error;
use svc_core::json::{self, Unread};

/// Limit on the messages in a batch.
pub const BATCH_MAX: usize = 100;

/// Limit on the bytes of a batch with a wait in it.
///
/// The whole batch is kept in memory while the wait is parked.
pub const WAIT_BATCH_MAX: usize = 64 << 10;

/// Limit on the JSON values in one payload, at all depths together: more than the largest arguments have.
const VALUES_MAX: usize = 300_000;
/// Limit on the JSON values in a request outside of a call's arguments.
///
/// These stay parsed as long as the request is in progress.
const VALUES_OUTSIDE_MAX: usize = 256;

/// JSON-RPC error code: the bytes are not JSON.
pub const PARSE_ERROR: i32 = -32_700;
/// JSON-RPC error code: the JSON is not a JSON-RPC message.
pub const INVALID_REQUEST: i32 = -32_600;

/// A received payload.
#[derive(Debug)]
pub enum Payload {
    /// A JSON object by itself, as nearly all clients send it.
    One(Message),
    /// An array of messages, each valid or rejected.
    Batch(Vec<Result<Message, InvalidMessage>>),
}

/// A message with a valid envelope.
#[derive(Debug)]
pub struct Message {
    /// Whether it wants a response, or is one.
    pub kind: Kind,
    /// The whole message.
    pub value: Value,
}

/// What JSON-RPC makes of a message, by its members `method`, `id`, `result` and `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Expects a response.
    Request,
    /// Expects no response.
    Notification,
    /// A response to a request.
    Response,
}

impl Message {
    /// Returns the method; empty for a response.
    pub fn method(&self) -> &str {
        self.value.get("method").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the id; null if the message has none.
    pub fn id(&self) -> Value {
        self.value.get("id").cloned().unwrap_or_default()
    }
}

/// The error response to something that is not a valid message.
#[derive(Debug)]
pub struct InvalidMessage {
    code: i32,
    message: &'static str,
    id: Value,
}

impl InvalidMessage {
    /// Creates the error for an invalid request, with its id if that could be read.
    pub fn invalid(message: &'static str, id: Value) -> Self {
        Self { code: INVALID_REQUEST, message, id }
    }

    /// Returns it as an error of the service.
    pub fn error(&self) -> Error {
        Error::malformed(self.message)
    }

    /// Returns the id of the invalid message, null if it could not be read.
    pub fn id(&self) -> Value {
        self.id.clone()
    }

    /// Returns the JSON-RPC error response.
    pub fn answer(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.message}})
    }
}

/// Parses one message or one batch.
pub fn read(bytes: &[u8]) -> Result<Payload, InvalidMessage> {
    let value = json::read_at_most(bytes, VALUES_MAX).map_err(|unread| match unread {
        Unread::TooMany => InvalidMessage::invalid("the message has more than 300,000 values", Value::Null),
        Unread::Twice => InvalidMessage::invalid("a member appears twice in the message", Value::Null),
        Unread::NotJson => {
            InvalidMessage { code: PARSE_ERROR, message: "the message is not JSON", id: Value::Null }
        }
    })?;
    match value {
        Value::Array(items) if items.is_empty() => {
            Err(InvalidMessage::invalid("the batch is empty", Value::Null))
        }
        Value::Array(items) if items.len() > BATCH_MAX => {
            Err(InvalidMessage::invalid("the batch has more than 100 messages", Value::Null))
        }
        Value::Array(items) => Ok(Payload::Batch(items.into_iter().map(message).collect())),
        value => message(value).map(Payload::One),
    }
}

fn message(value: Value) -> Result<Message, InvalidMessage> {
    let readable = |id: &&Value| id.is_string() || id.is_i64();
    let id = value.get("id").filter(readable).cloned().unwrap_or_default();
    let refuse = |message| Err(InvalidMessage::invalid(message, id.clone()));
    let Some(members) = value.as_object() else { return refuse("a message must be a JSON object") };
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse("the member jsonrpc must be \"2.0\"");
    }
    if members.contains_key("id") && id.is_null() && !members.contains_key("error") {
        return refuse("the id must be a string or an integer");
    }
    if !members.get("params").is_none_or(|params| params.is_object() || params.is_null()) {
        return refuse("the member params must be an object");
    }
    let kind = match members.get("method") {
        Some(Value::String(_)) if id.is_null() => Kind::Notification,
        Some(Value::String(_)) => Kind::Request,
        Some(_) => return refuse("the method must be a string"),
        None if members.contains_key("result") || members.contains_key("error") => Kind::Response,
        None => return refuse("the message has no method"),
    };
    if kind == Kind::Request {
        let arguments = value.pointer("/params/arguments").map_or(0, values);
        if values(&value) - arguments > VALUES_OUTSIDE_MAX {
            return refuse("the message has more than 256 values outside of the arguments of a call");
        }
    }
    Ok(Message { kind, value })
}

/// Counts the values at all depths together.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(members) => members.values().map(values).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<(Kind, String), (i32, Value)> {
        match read(text.as_bytes()) {
            Ok(Payload::One(message)) => Ok((message.kind, message.method().to_owned())),
            Ok(Payload::Batch(_)) => panic!("a batch"),
            Err(refusal) => Err((refusal.code, refusal.id)),
        }
    }

    #[test]
    fn kinds_of_messages_are_distinguished() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert_eq!(one(ping), Ok((Kind::Request, "ping".to_owned())));
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":null}"#;
        assert_eq!(one(note), Ok((Kind::Notification, "notifications/initialized".to_owned())));
        let answer = r#"{"jsonrpc":"2.0","id":"a","result":{}}"#;
        assert_eq!(one(answer), Ok((Kind::Response, String::new())));
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#;
        assert_eq!(one(error), Ok((Kind::Response, String::new())));
    }

    #[test]
    fn an_invalid_message_is_rejected_with_its_id() {
        assert_eq!(one("{"), Err((PARSE_ERROR, Value::Null)));
        assert_eq!(one("7"), Err((INVALID_REQUEST, Value::Null)));
        assert_eq!(one("[]"), Err((INVALID_REQUEST, Value::Null)));
        assert_eq!(one(r#"{"id":7,"method":"ping"}"#), Err((INVALID_REQUEST, json!(7))));
        assert_eq!(one(r#"{"jsonrpc":"2.0","id":7}"#), Err((INVALID_REQUEST, json!(7))));
        assert_eq!(one(r#"{"jsonrpc":"2.0","id":7,"method":1}"#), Err((INVALID_REQUEST, json!(7))));
        for id in ["null", "1.5", "[]"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(one(&text), Err((INVALID_REQUEST, Value::Null)), "{id}");
        }
        let twice = r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":[{"b":1,"b":2}]}}"#;
        assert_eq!(one(twice), Err((INVALID_REQUEST, Value::Null)));
        let listed = r#"{"jsonrpc":"2.0","id":"x","method":"ping","params":[]}"#;
        assert_eq!(one(listed), Err((INVALID_REQUEST, json!("x"))));
    }

    #[test]
    fn too_many_values_are_rejected() {
        let call = |name: &str, count: usize| {
            let zeros = vec!["0"; count].join(",");
            one(&format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"{name}":[{zeros}]}}}}"#
            ))
        };
        let sound = Ok((Kind::Request, "tools/call".to_owned()));
        assert_eq!((call("_meta", 250), call("arguments", 299_994)), (sound.clone(), sound));
        assert_eq!(call("_meta", 251), Err((INVALID_REQUEST, json!(7))));
        assert_eq!(call("arguments", 299_995), Err((INVALID_REQUEST, Value::Null)));
    }

    #[test]
    fn a_batch_keeps_valid_and_rejected_messages_apart() {
        let Ok(Payload::Batch(items)) = read(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},3]"#) else {
            panic!("no batch")
        };
        assert!(items[0].is_ok() && items[1].is_err());
        let long = format!("[{}]", vec!["1"; BATCH_MAX + 1].join(","));
        assert!(read(long.as_bytes()).is_err());
    }
}
