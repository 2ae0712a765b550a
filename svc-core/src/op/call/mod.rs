//! From the bytes of a request to a typed call: its head and input, the strict decoding of that input, and the caller
//! whom a credential stands for. Nothing here runs anything.

pub(super) mod caller;
pub(super) mod input;
pub(super) mod request;
