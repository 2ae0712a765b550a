//! Decodes the bytes of a request into a typed call.
//!
//! The modules define the head and the input of a request, the strict decoding of that input, and the caller
//! that a credential identifies. No module here runs an operation.

pub(super) mod credential;
pub(super) mod caller;
mod lookup;
mod payer;
pub(super) mod key;
pub(super) mod request;
pub(super) mod faults;
mod text_fields;
mod absent_fields;
pub(super) mod answer_options;
pub(super) mod input;
