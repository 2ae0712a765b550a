//! The envelope of JSON-RPC 2.0, checked before anything else looks at a message: which kind of message it is, and
//! the refusal of what is none. Methods and their parameters are not looked at.

use serde_json::{Value, json};
use svc_core::Error;
use svc_core::json::{self, Unread};

/// Messages in one batch at the most.
pub const BATCH_MAX: usize = 100;

/// Bytes of a batch with a wait in it at the most: all of it is kept while that is parked.
pub const WAIT_BATCH_MAX: usize = 64 << 10;

/// Values in what is sent at once, at all depths together: more than the largest arguments have.
const VALUES_MAX: usize = 300_000;
/// Values in a request beside the arguments of a call. They stay as they are for as long as it is under way.
const VALUES_BESIDE_MAX: usize = 256;

/// The bytes are not JSON.
pub const PARSE_ERROR: i32 = -32_700;
/// The JSON is not a JSON-RPC message.
pub const INVALID_REQUEST: i32 = -32_600;

/// What came in.
#[derive(Debug)]
pub enum Payload {
    /// One message.
    One(Message),
    /// An array of messages, each sound or refused.
    Batch(Vec<Result<Message, Refusal>>),
}

/// A message with a sound envelope.
#[derive(Debug)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// All of it.
    pub value: Value,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Wants an answer.
    Request,
    /// Wants none.
    Notification,
    /// Is one.
    Response,
}

impl Message {
    /// The method; empty for a response.
    pub fn method(&self) -> &str {
        self.value.get("method").and_then(Value::as_str).unwrap_or_default()
    }

    /// The id; null if it has none.
    pub fn id(&self) -> Value {
        self.value.get("id").cloned().unwrap_or_default()
    }
}

/// An error answer to what was not a message.
#[derive(Debug)]
pub struct Refusal {
    code: i32,
    message: &'static str,
    id: Value,
}

impl Refusal {
    /// A refusal of something that is not a request, with the id as far as it could be read.
    pub fn invalid(message: &'static str, id: Value) -> Self {
        Self { code: INVALID_REQUEST, message, id }
    }

    /// The same as an error of the service.
    pub fn error(&self) -> Error {
        Error::malformed(self.message)
    }

    /// The id of what is refused, as far as it could be read.
    pub fn id(&self) -> Value {
        self.id.clone()
    }

    /// The answer.
    pub fn answer(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.message}})
    }
}

/// Reads one message or one batch.
pub fn read(bytes: &[u8]) -> Result<Payload, Refusal> {
    let value = json::read_at_most(bytes, VALUES_MAX).map_err(|unread| match unread {
        Unread::TooMany => Refusal::invalid("the message has more than 300,000 values", Value::Null),
        Unread::Twice => Refusal::invalid("a member stands twice in the message", Value::Null),
        Unread::NotJson => Refusal { code: PARSE_ERROR, message: "the message is not JSON", id: Value::Null },
    })?;
    match value {
        Value::Array(items) if items.is_empty() => Err(Refusal::invalid("the batch is empty", Value::Null)),
        Value::Array(items) if items.len() > BATCH_MAX => {
            Err(Refusal::invalid("the batch has more than 100 messages", Value::Null))
        }
        Value::Array(items) => Ok(Payload::Batch(items.into_iter().map(message).collect())),
        value => message(value).map(Payload::One),
    }
}

fn message(value: Value) -> Result<Message, Refusal> {
    let readable = |id: &&Value| id.is_string() || id.is_i64();
    let id = value.get("id").filter(readable).cloned().unwrap_or_default();
    let refuse = |message| Err(Refusal::invalid(message, id.clone()));
    let Some(members) = value.as_object() else { return refuse("a message is a JSON object") };
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
        if values(&value) - arguments > VALUES_BESIDE_MAX {
            return refuse("the message has more than 256 values beside the arguments of a call");
        }
    }
    Ok(Message { kind, value })
}

/// How many values there are, at all depths together.
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
    fn sound_envelopes_are_told_apart() {
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
    fn what_is_no_message_is_refused_with_the_id_if_it_has_one() {
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
    fn what_has_more_values_than_it_may_is_refused() {
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
    fn a_batch_keeps_sound_and_refused_messages_apart() {
        let Ok(Payload::Batch(items)) = read(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},3]"#) else {
            panic!("no batch")
        };
        assert!(items[0].is_ok() && items[1].is_err());
        let long = format!("[{}]", vec!["1"; BATCH_MAX + 1].join(","));
        assert!(read(long.as_bytes()).is_err());
    }
}
