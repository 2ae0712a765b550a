//! Creates JSON-RPC errors, for requests that end without a result.
//!
//! If an operation refuses a call, the refusal is a tool result, which a model reads. JSON-RPC errors are for
//! requests that no operation has answered. A transport maps the [`Fault`] to an HTTP status.

use std::borrow::Cow;

use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, RequestId};
use serde_json::{Value, json};
use svc_core::op::mcp::{self, ErrorForm};
use svc_core::text::echo;
use svc_core::{Code, Error};

use crate::revision::Revision;
use crate::wire::InvalidMessage;

/// Fault of a request, which determines the error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The message is not JSON.
    NotJson,
    /// The JSON is not a valid JSON-RPC message, or the server does not accept such a message.
    NotAMessage,
    /// A header differs from the message.
    Headers,
    /// The requested revision is not supported.
    Revision,
    /// The client lacks a required capability.
    ClientCapability,
    /// The `_meta` of the request is malformed.
    Meta,
    /// The method does not exist.
    Method,
    /// The parameters are malformed, or refer to an object that does not exist.
    Params,
    /// The requested resource does not exist, or the caller may not see it.
    Resource,
    /// The service has refused the request before it reached an operation, or with an error that has a
    /// separate JSON-RPC code.
    Refused(Code),
    /// The client has cancelled the request.
    Cancelled,
}

/// JSON-RPC error for a request, with the fault of the request.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Fault of the request.
    pub fault: Fault,
    code: i32,
    message: Cow<'static, str>,
    /// Data that the protocol requires in the error, in addition to the problem.
    data: Option<Value>,
    /// Error of the service that caused the refusal; `None` if the protocol layer refused the request.
    pub error: Option<Box<Error>>,
}

impl Refusal {
    /// Creates the refusal for a fault with an error message.
    pub fn new(fault: Fault, message: impl Into<Cow<'static, str>>) -> Self {
        let code = match fault {
            Fault::NotJson => -32_700,
            Fault::NotAMessage => -32_600,
            Fault::Headers => -32_020,
            Fault::ClientCapability => -32_021,
            Fault::Revision => -32_022,
            Fault::Meta | Fault::Params | Fault::Resource => -32_602,
            Fault::Method => -32_601,
            Fault::Refused(code) => i32::from(code.status()),
            Fault::Cancelled => 499,
        };
        Self { fault, code, message: message.into(), data: None, error: None }
    }

    /// Creates the refusal of malformed parameters.
    pub fn params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Fault::Params, message)
    }

    /// Creates the refusal of a method that does not exist.
    pub fn method(method: &str) -> Self {
        Self::new(Fault::Method, format!("there is no method {}", echo(method)))
    }

    /// Creates the refusal of a revision that is not supported.
    pub fn revision(date: &str) -> Self {
        let refusal = Self::new(Fault::Revision, format!("the revision {} is not known", echo(date)));
        Self { data: Some(json!({"supported": Revision::dates(), "requested": echo(date)})), ..refusal }
    }

    /// Creates the refusal for a resource that does not exist or that the caller may not see.
    pub fn resource(uri: &str, revision: Revision) -> Self {
        let refusal = Self::new(Fault::Resource, format!("NotFound: there is no resource {}", echo(uri)));
        Self { code: revision.resource_missing_code(), data: Some(json!({"uri": uri})), ..refusal }
    }

    /// Creates the refusal of a request that needs an undeclared capability of the client.
    pub fn client_capability(required: Value) -> Self {
        let message = "the client has not declared a capability that this request needs";
        let refusal = Self::new(Fault::ClientCapability, message);
        Self { data: Some(json!({"requiredCapabilities": required})), ..refusal }
    }

    /// Converts an error of the service, for a request whose result cannot contain a problem.
    ///
    /// Many clients show the message of an error without its data, so the message also contains the next
    /// step.
    pub fn from_error(error: Error) -> Self {
        let code = match mcp::error_form(error.code()) {
            ErrorForm::Error(code) => code,
            ErrorForm::Result => i32::from(error.code().status()),
        };
        let message = format!("{}. {}", error.detail(), error.next_step());
        let refusal = Self::new(Fault::Refused(error.code()), message);
        Self { code, error: Some(Box::new(error)), ..refusal }
    }

    /// Returns the JSON-RPC error code.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// Returns the message of the error.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the `data` of the error: the problem, and the data that the protocol requires.
    fn data(&self) -> Value {
        let own = || match self.fault {
            Fault::Method | Fault::Resource => Error::new(Code::NotFound, self.message.clone()),
            _ => Error::malformed(self.message.clone()),
        };
        let mut data = json!(mcp::problem(&self.error.as_deref().cloned().unwrap_or_else(own)));
        if let (Value::Object(members), Some(Value::Object(more))) = (&mut data, &self.data) {
            members.extend(more.clone());
        }
        if let (Value::Object(members), true) = (&mut data, self.is_repeated()) {
            members.insert(mcp::IDEMPOTENCY_REPLAYED.to_owned(), json!(true));
        }
        data
    }

    /// Returns whether the refusal repeats the outcome of an earlier request with the same idempotency key.
    fn is_repeated(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.is_repeated())
    }

    /// Encodes the refusal as a JSON-RPC response.
    pub fn response(&self, id: Option<&RequestId>) -> Vec<u8> {
        let data = ErrorData::new(ErrorCode(self.code), self.message.clone(), Some(self.data()));
        let mut response = json!(JsonRpcError::new(id.cloned(), data));
        if let (None, Some(members)) = (id, response.as_object_mut()) {
            // The id of a request whose id could not be parsed is null instead of absent (JSON-RPC 2.0,
            // section 5).
            members.insert("id".to_owned(), Value::Null);
        }
        response.to_string().into_bytes()
    }
}

impl From<&InvalidMessage> for Refusal {
    fn from(invalid: &InvalidMessage) -> Self {
        let fault = if invalid.is_unreadable { Fault::NotJson } else { Fault::NotAMessage };
        Self::new(fault, invalid.message.clone())
    }
}

impl From<InvalidMessage> for Refusal {
    fn from(invalid: InvalidMessage) -> Self {
        Self::from(&invalid)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::from_error(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_always_has_an_id() {
        let response = |id: Option<RequestId>| -> Value {
            serde_json::from_slice(&Refusal::method("x").response(id.as_ref())).unwrap()
        };
        assert_eq!(response(None)["id"], Value::Null);
        assert!(response(None).as_object().unwrap().contains_key("id"));
        assert_eq!(response(Some(RequestId::Number(7)))["id"], 7);
        assert_eq!(response(None)["error"]["code"], -32_601);
        assert_eq!(response(None)["error"]["data"]["status"], 404);
        let unknown = Refusal::revision("2031-01-01").data();
        assert_eq!((&unknown["requested"], &unknown["status"]), (&json!("2031-01-01"), &json!(400)));
    }

    #[test]
    fn a_missing_resource_has_the_code_of_the_revision() {
        let codes = Revision::ALL.map(|revision| Refusal::resource("svc://x", revision).code());
        assert_eq!(codes, [-32_602, -32_002, -32_002, -32_002, -32_002]);
    }
}
