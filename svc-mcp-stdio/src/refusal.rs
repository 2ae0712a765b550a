//! JSON-RPC errors, for requests that end without a result.
//!
//! The refusal of an operation is a result that a model reads. Errors are for requests that no operation has
//! answered. A transport maps the [`Fault`] to a status.

use std::borrow::Cow;

use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, RequestId};
use serde_json::{Value, json};
use svc_core::op::mcp::{self, ErrorForm};
use svc_core::text::echo;
use svc_core::{Code, Error};

use crate::revision::Revision;
use crate::wire::InvalidMessage;

/// The fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not JSON.
    Unreadable,
    /// It is not a message, or it is not allowed here.
    NoMessage,
    /// A header differs from the message.
    Headers,
    /// Its revision is not known.
    Revision,
    /// The client lacks a required capability.
    ClientCapability,
    /// Its `_meta` is malformed.
    Meta,
    /// The method does not exist.
    Method,
    /// Its parameters are malformed, or name an object that does not exist.
    Params,
    /// It names a resource that does not exist.
    Resource,
    /// The service has refused it before an operation, or with an error that clients know by its number.
    Refused(Code),
    /// The client has cancelled it.
    GivenUp,
}

/// A JSON-RPC error.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The fault.
    pub fault: Fault,
    code: i32,
    message: Cow<'static, str>,
    /// Data that the protocol requires in the error, in addition to the problem.
    data: Option<Value>,
    /// The error of the service, if it is one.
    pub error: Option<Box<Error>>,
}

impl Refusal {
    /// Creates the refusal for this fault, with this message.
    pub fn new(fault: Fault, message: impl Into<Cow<'static, str>>) -> Self {
        let code = match fault {
            Fault::Unreadable => -32_700,
            Fault::NoMessage => -32_600,
            Fault::Headers => -32_020,
            Fault::ClientCapability => -32_021,
            Fault::Revision => -32_022,
            Fault::Meta | Fault::Params | Fault::Resource => -32_602,
            Fault::Method => -32_601,
            Fault::Refused(code) => i32::from(code.status()),
            Fault::GivenUp => 499,
        };
        Self { fault, code, message: message.into(), data: None, error: None }
    }

    /// Rejects malformed parameters.
    pub fn params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Fault::Params, message)
    }

    /// Rejects a method that does not exist.
    pub fn method(method: &str) -> Self {
        Self::new(Fault::Method, format!("there is no method {}", echo(method)))
    }

    /// Rejects a revision that is not known.
    pub fn revision(context: &str) -> Self {
        let refusal = Self::new(Fault::Revision, format!("the revision {} is not known", echo(context)));
        Self { data: Some(json!({"supported": Revision::dates(), "requested": echo(context)})), ..refusal }
    }

    /// Rejects the name of a resource that does not exist, or that the caller may not see.
    pub fn resource(uri: &str, revision: Revision) -> Self {
        let refusal = Self::new(Fault::Resource, format!("NotFound: there is no resource {}", echo(uri)));
        Self { code: revision.resource_missing_code(), data: Some(json!({"uri": uri})), ..refusal }
    }

    /// Rejects a request that needs a capability which the client has not declared.
    pub fn client_capability(required: Value) -> Self {
        let message = "the client has not declared a capability that this takes";
        let refusal = Self::new(Fault::ClientCapability, message);
        Self { data: Some(json!({"requiredCapabilities": required})), ..refusal }
    }

    /// Returns the error of a request whose result cannot contain a problem.
    ///
    /// Many clients show the message of an error without its data, so the message also says what to do.
    pub fn of(error: Error) -> Self {
        let code = match mcp::error_form(error.code()) {
            ErrorForm::Error(code) => code,
            ErrorForm::Result => i32::from(error.code().status()),
        };
        let message = format!("{}. {}", error.detail(), error.next());
        let refusal = Self::new(Fault::Refused(error.code()), message);
        Self { code, error: Some(Box::new(error)), ..refusal }
    }

    /// Returns its error code.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// Returns its message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the problem, and the data that the protocol requires.
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

    /// Returns whether this refuses a repeat of a request that was refused before.
    fn is_repeated(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.is_repeated())
    }

    /// Returns the JSON-RPC response.
    pub fn response(&self, id: Option<&RequestId>) -> Vec<u8> {
        let data = ErrorData::new(ErrorCode(self.code), self.message.clone(), Some(self.data()));
        let mut response = json!(JsonRpcError::new(id.cloned(), data));
        if let (None, Some(members)) = (id, response.as_object_mut()) {
            // JSON-RPC 2.0, section 5: it is null if it could not be read, and not absent.
            members.insert("id".to_owned(), Value::Null);
        }
        response.to_string().into_bytes()
    }
}

impl From<&InvalidMessage> for Refusal {
    fn from(invalid: &InvalidMessage) -> Self {
        let fault = if invalid.is_unreadable { Fault::Unreadable } else { Fault::NoMessage };
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
        Self::of(error)
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
