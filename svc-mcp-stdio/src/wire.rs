//! Parses bytes into JSON-RPC 2.0 messages, for every transport.
//!
//! The parser splits a payload into messages, determines their kinds and rejects invalid messages. The values
//! of members stay unparsed, so that the arguments of a call are decoded only once, by the operation. Unknown
//! members are ignored. Methods and their parameters are not checked here.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use rmcp::model::RequestId;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use svc_core::json::invalid_character_message;

/// Maximum messages in a batch.
pub const BATCH_MAX: usize = 100;

/// Maximum bytes of a batch that contains a wait.
///
/// The whole batch is kept in memory while the wait is parked.
pub const WAIT_BATCH_MAX: usize = 64 << 10;

/// Maximum bytes of a request's parameters, not counting the arguments of a call.
///
/// The server parses these parameters into values, which need many times as much memory.
const PARAMS_MAX: usize = 64 << 10;

/// Maximum bytes of a request id as JSON.
const ID_MAX: usize = 1024;

/// Maximum members of a message object, and of the parameters object in a message.
const MEMBERS_MAX: usize = 64;

/// Received payload: one message or a batch of messages.
#[derive(Debug)]
pub enum Payload {
    /// A single message, the usual case.
    One(Message),
    /// An array of messages. Each item is a valid message, or the description of an invalid one.
    Batch(Vec<Result<Message, InvalidMessage>>),
}

/// A valid JSON-RPC message, whose method and parameters are not checked.
#[derive(Clone, Debug)]
pub struct Message {
    /// Whether the message is a request, a notification or a response.
    pub kind: Kind,
    /// Id of the message; `None` for a notification.
    pub id: Option<RequestId>,
    /// Method of the message; empty for a response.
    pub method: String,
    /// Parameters of the message.
    pub params: Params,
    /// Number of bytes of the encoded message.
    pub size: usize,
}

/// Kind of a JSON-RPC message, determined by its members `method`, `id`, `result` and `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request, which expects a response.
    Request,
    /// A notification, which expects no response.
    Notification,
    /// A response to a request.
    Response,
}

/// Parameters of a message: the name and the JSON text of each member.
#[derive(Clone, Debug, Default)]
pub struct Params(Vec<(String, Bytes)>);

impl Params {
    /// Returns the JSON text of a member, or `None` if the member is absent or null.
    pub fn text(&self, name: &str) -> Option<&Bytes> {
        let (_, text) = self.0.iter().find(|(member, _)| member == name)?;
        Some(text).filter(|text| text.as_ref() != b"null")
    }

    /// Parses a member, or returns `None` if the member is absent or null.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, serde_json::Error> {
        self.text(name).map(|text| serde_json::from_slice(text)).transpose()
    }

    /// Returns the value of a string member, or `None` if the member is absent or not a string.
    pub fn string(&self, name: &str) -> Option<Cow<'_, str>> {
        self.text(name).and_then(|text| parse_string(text))
    }

    /// Returns the members of an object that is a parameter; empty if the parameter is absent or not an
    /// object.
    ///
    /// Fails if the object has duplicate members or too many members.
    pub(crate) fn members(&self, name: &str) -> Result<Members<'_>, serde_json::Error> {
        let text = self.text(name).filter(|text| text.starts_with(b"{"));
        Ok(text.map(|text| serde_json::from_slice(text)).transpose()?.unwrap_or_default())
    }

    /// Parses the members `names` as one object. Null members are treated as absent.
    pub fn read_members<T: DeserializeOwned>(&self, names: &[&str]) -> Result<T, serde_json::Error> {
        let mut text = Vec::new();
        for (name, member) in names.iter().filter_map(|name| Some((name, self.text(name)?))) {
            text.push(if text.is_empty() { b'{' } else { b',' });
            serde_json::to_writer(&mut text, name)?;
            text.push(b':');
            text.extend_from_slice(member);
        }
        if text.is_empty() {
            text.push(b'{');
        }
        text.push(b'}');
        serde_json::from_slice(&text)
    }
}

/// A value that is not a valid message.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidMessage {
    /// Whether the value is not JSON.
    pub is_unreadable: bool,
    /// Description of the fault.
    pub message: Cow<'static, str>,
    /// Id of the message; `None` if the id could not be parsed.
    pub id: Option<RequestId>,
}

impl InvalidMessage {
    /// Creates the error for a value that is JSON but not a valid message.
    pub fn new(message: impl Into<Cow<'static, str>>, id: Option<RequestId>) -> Self {
        Self { is_unreadable: false, message: message.into(), id }
    }

    /// Creates the error for a batch, or for an item of a batch, in a revision without batches.
    pub fn no_batches(id: Option<RequestId>) -> Self {
        Self::new("batches exist only in revision 2025-03-26", id)
    }

    fn from_json_error(error: &serde_json::Error) -> Self {
        if error.is_data() {
            return Self::new("a member of the message appears twice, or it has more than 64 members", None);
        }
        Self::unreadable(invalid_character_message(error).unwrap_or("the message is not JSON"))
    }

    fn unreadable(message: &'static str) -> Self {
        Self { is_unreadable: true, message: message.into(), id: None }
    }
}

/// Parses one message or one batch.
pub fn parse_payload(payload: &Bytes) -> Result<Payload, InvalidMessage> {
    match payload.trim_ascii_start().first() {
        Some(b'{') => parse_message(payload).map(Payload::One),
        Some(b'[') => parse_batch(payload).map(Payload::Batch),
        None => Err(InvalidMessage::unreadable("the message is empty")),
        _ => {
            serde_json::from_slice::<IgnoredAny>(payload)
                .map_err(|error| InvalidMessage::from_json_error(&error))?;
            Err(InvalidMessage::new("a message must be a JSON object", None))
        }
    }
}

fn parse_batch(payload: &Bytes) -> Result<Vec<Result<Message, InvalidMessage>>, InvalidMessage> {
    // The items are counted before anything is stored, because the array may have millions of items.
    let ArrayLength(items) =
        serde_json::from_slice(payload).map_err(|error| InvalidMessage::from_json_error(&error))?;
    match items {
        0 => return Err(InvalidMessage::new("the batch is empty", None)),
        1..=BATCH_MAX => {}
        _ => return Err(InvalidMessage::new("the batch has more than 100 messages", None)),
    }
    let items: Vec<&RawValue> =
        serde_json::from_slice(payload).map_err(|error| InvalidMessage::from_json_error(&error))?;
    let one = |item: &RawValue| match item.get().as_bytes().first() {
        Some(b'{') => parse_message(&payload.slice_ref(item.get().as_bytes())),
        _ => Err(InvalidMessage::new("a message must be a JSON object", None)),
    };
    Ok(items.into_iter().map(one).collect())
}

fn parse_message(text: &Bytes) -> Result<Message, InvalidMessage> {
    let Members(members) =
        serde_json::from_slice(text).map_err(|error| InvalidMessage::from_json_error(&error))?;
    let member = |name: &str| members.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    let sent_id = member("id");
    let id = sent_id.and_then(|id| parse_request_id(id.get()));
    let refuse = |message: &'static str| Err(InvalidMessage::new(message, id.clone()));
    if member("jsonrpc").is_none_or(|version| version.get() != r#""2.0""#) {
        return refuse("the member jsonrpc must be \"2.0\"");
    }
    // Some libraries write the members of every kind of message and set unused ones to null.
    let has = |name: &str| member(name).is_some_and(|value| value.get() != "null");
    let is_response = match member("method") {
        Some(_) => has("result") || has("error"),
        None => member("result").is_some() || member("error").is_some(),
    };
    if sent_id.is_some() && id.is_none() && member("error").is_none() {
        let otherwise = "the id must be a string or an integer, of at most 1,024 bytes";
        return Err(InvalidMessage::new(not_a_string_message("the id", sent_id, otherwise), None));
    }
    let method = match member("method") {
        Some(_) if is_response => return refuse("a message is a request or a response, not both"),
        Some(method) => match serde_json::from_str::<String>(method.get()) {
            Ok(method) => method,
            Err(_) => {
                let message = not_a_string_message("the method", Some(method), "the method must be a string");
                return Err(InvalidMessage::new(message, id.clone()));
            }
        },
        None if is_response => String::new(),
        None => return refuse("the message has no method"),
    };
    let params = match member("params") {
        None => Params::default(),
        Some(params) if params.get() == "null" => Params::default(),
        Some(params) if params.get().starts_with('{') => {
            match parse_params(text, params).map_err(|invalid| invalid.message) {
                Ok(params) => params,
                Err(message) => return Err(InvalidMessage::new(message, id.clone())),
            }
        }
        Some(_) => return refuse("the member params must be an object"),
    };
    let kind = match (is_response, &id) {
        (true, _) => Kind::Response,
        (false, Some(_)) => Kind::Request,
        (false, None) => Kind::Notification,
    };
    Ok(Message { kind, id, method, params, size: text.len() })
}

/// Returns the error message for a member that is not a valid string. The message describes an invalid
/// character, or else is `otherwise`.
fn not_a_string_message(what: &str, member: Option<&RawValue>, otherwise: &'static str) -> Cow<'static, str> {
    let error = member.and_then(|member| serde_json::from_str::<String>(member.get()).err());
    let fault = error.as_ref().and_then(invalid_character_message);
    fault.map_or(otherwise.into(), |fault| format!("{what}: {fault}").into())
}

fn parse_params(text: &Bytes, params: &RawValue) -> Result<Params, InvalidMessage> {
    let Members(members) =
        serde_json::from_str(params.get()).map_err(|error| InvalidMessage::from_json_error(&error))?;
    let arguments: usize =
        members.iter().filter(|(name, _)| name == "arguments").map(|(_, value)| value.get().len()).sum();
    if params.get().len().saturating_sub(arguments) > PARAMS_MAX {
        let message = "the message has more than 65,536 bytes outside of the arguments of a call";
        return Err(InvalidMessage::new(message, None));
    }
    let owned = |(name, value): (Cow<'_, str>, &RawValue)| {
        (name.into_owned(), text.slice_ref(value.get().as_bytes()))
    };
    Ok(Params(members.into_iter().map(owned).collect()))
}

/// Parses the id of a request, which must be a string or an integer.
pub fn parse_request_id(text: &str) -> Option<RequestId> {
    if text.len() > ID_MAX {
        return None;
    }
    match text.as_bytes().first()? {
        b'"' => serde_json::from_str(text).ok().map(|id: String| RequestId::String(id.into())),
        _ => serde_json::from_str(text).ok().map(RequestId::Number),
    }
}

/// Names and JSON texts of the members of a JSON object. The names are unique.
#[derive(Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl Members<'_> {
    /// Returns the JSON text of a member, or `None` if the object has no such member.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.get())
    }
}

/// Parses JSON text as a string, without copying it if it contains no escapes.
pub(crate) fn parse_string(text: &[u8]) -> Option<Cow<'_, str>> {
    serde_json::from_slice(text).ok().map(|Name(text)| text)
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::with_capacity(4);
                while let Some((Name(name), value)) = access.next_entry()? {
                    if members.len() == MEMBERS_MAX || members.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom("a member appears twice, or there are too many"));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// Number of values in a JSON array, counted without parsing them.
struct ArrayLength(usize);

impl<'de> Deserialize<'de> for ArrayLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = ArrayLength;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut access: A) -> Result<ArrayLength, A::Error> {
                let mut count = 0;
                while access.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(ArrayLength(count))
            }
        }
        deserializer.deserialize_seq(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn one(text: &str) -> Result<(Kind, String), (bool, Option<RequestId>)> {
        match parse_payload(&of(text)) {
            Ok(Payload::One(message)) => Ok((message.kind, message.method)),
            Ok(Payload::Batch(_)) => panic!("a batch"),
            Err(refusal) => Err((refusal.is_unreadable, refusal.id)),
        }
    }

    fn number(id: i64) -> Option<RequestId> {
        Some(RequestId::Number(id))
    }

    #[test]
    fn kinds_of_messages_are_distinguished() {
        let ping = r#" {"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert_eq!(one(ping), Ok((Kind::Request, "ping".to_owned())));
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":null}"#;
        assert_eq!(one(note), Ok((Kind::Notification, "notifications/initialized".to_owned())));
        let answer = r#"{"jsonrpc":"2.0","id":"a","result":{}}"#;
        assert_eq!(one(answer), Ok((Kind::Response, String::new())));
        for more in [r#""result":null,"error":null"#, r#""params":null"#, r#""jsonrpc2":7,"context":[{}]"#] {
            let all = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping",{more}}}"#);
            assert_eq!(one(&all), Ok((Kind::Request, "ping".to_owned())), "{more}");
        }
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#;
        assert_eq!(one(error), Ok((Kind::Response, String::new())));
    }

    #[test]
    fn an_invalid_message_is_rejected_with_its_id() {
        for text in ["{", "", "7 7", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"} x"] {
            assert_eq!(one(text), Err((true, None)), "{text}");
        }
        assert_eq!(one("7"), Err((false, None)));
        assert_eq!(one("[]"), Err((false, None)));
        for rest in [
            r#""method":"ping""#,
            r#""jsonrpc":"2.0""#,
            r#""jsonrpc":"2.0","method":1"#,
            r#""jsonrpc":"2.0","method":"ping","result":{}"#,
            r#""jsonrpc":"2.0","method":"ping","params":[]"#,
            r#""jsonrpc":"2.0","method":"ping","params":{"a":1,"a":2}"#,
        ] {
            assert_eq!(one(&format!(r#"{{"id":7,{rest}}}"#)), Err((false, number(7))), "{rest}");
        }
        for id in ["null", "1.5", "[]", "9223372036854775808"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(one(&text), Err((false, None)), "{id}");
        }
        for (rest, wanted) in [
            (r#""id":"a\ud800","method":"ping""#, "the id: an escape from \\ud800 to \\udfff is half"),
            (r#""id":7,"method":"\udc00""#, "the method: an escape from \\ud800"),
            (r#""id":7,"method":"ping","a\ud800":1"#, "an escape from \\ud800"),
            (r#""id":7,"method":8"#, "the method must be a string"),
            (r#""id":{},"method":"ping""#, "the id must be a string or an integer"),
        ] {
            let refused = parse_payload(&of(&format!(r#"{{"jsonrpc":"2.0",{rest}}}"#))).unwrap_err();
            assert!(refused.message.starts_with(wanted), "{rest}: {}", refused.message);
        }
        let twice = r#"{"jsonrpc":"2.0","id":7,"method":"ping","id":8}"#;
        assert_eq!(one(twice), Err((false, None)));
    }

    #[test]
    fn only_arguments_may_be_large() {
        let call = |name: &str, size: usize| {
            let text = "x".repeat(size);
            one(&format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"{name}":"{text}"}}}}"#
            ))
        };
        let sound = Ok((Kind::Request, "tools/call".to_owned()));
        assert_eq!((call("_meta", 60_000), call("arguments", 1 << 20)), (sound.clone(), sound));
        assert_eq!(call("_meta", 70_000), Err((false, number(7))));
    }

    #[test]
    fn members_keep_the_bytes_that_they_came_in() {
        let text = r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"arguments": {"a" : 1.0 },"b":null}}"#;
        let Ok(Payload::One(message)) = parse_payload(&of(text)) else { panic!("no message") };
        assert_eq!(message.params.text("arguments").unwrap().as_ref(), br#"{"a" : 1.0 }"#);
        assert_eq!(message.params.text("b"), None);
        let read = |params: &Params, names: &[&str]| params.read_members::<serde_json::Value>(names).unwrap();
        assert_eq!(
            read(&message.params, &["b", "arguments", "c"]),
            serde_json::json!({"arguments": {"a": 1.0}})
        );
        assert_eq!(read(&message.params, &["c"]), serde_json::json!({}));
    }

    #[test]
    fn a_batch_keeps_valid_and_rejected_messages_apart() {
        let Ok(Payload::Batch(items)) = parse_payload(&of(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},3]"#))
        else {
            panic!("no batch")
        };
        assert!(items[0].is_ok() && items[1].is_err());
        let long = format!("[{}]", vec!["1"; BATCH_MAX + 1].join(","));
        assert!(parse_payload(&of(&long)).is_err());
    }
}
