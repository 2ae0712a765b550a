//! The HTTP endpoint of an operation: method, paths, and status code on success.

use crate::op::declare::frame::Frame;

/// The HTTP method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// Returns the name of the method in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// The HTTP status of a successful response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// Status 200: the response contains the output.
    Ok,
    /// Status 201: the call has created an object.
    Created,
    /// Status 204: the response has no body.
    NoContent,
    /// Status 303: the browser follows a redirect to another address with a GET.
    SeeOther,
}

impl Success {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::Created => 201,
            Self::NoContent => 204,
            Self::SeeOther => 303,
        }
    }
}

/// The HTTP endpoint of an operation.
pub struct Http {
    pub method: Method,
    /// Canonical path template, with variables in braces.
    pub path: &'static str,
    /// Additional path templates that serve the same operation.
    pub aliases: Vec<&'static str>,
    pub success: Success,
    /// Whether the operation is excluded from the MCP tools.
    pub rest_only: bool,
    /// Whether the body is a file: the input field [`FILE_FIELD`](crate::spool::FILE_FIELD).
    pub takes_file: bool,
    /// Whether the response is a file.
    pub returns_file: bool,
    /// Whether a client that prefers HTML to JSON receives the output as a web page.
    pub is_page: bool,
    /// The wire format, if this is a framed route instead of an operation of the API.
    pub frame: Option<Frame>,
}

impl Http {
    /// Returns every path template of the endpoint, the canonical one first.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.path).chain(self.aliases.iter().copied())
    }
}
