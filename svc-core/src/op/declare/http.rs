//! The HTTP endpoint of an operation: its method, its paths, and the status of its success.

use crate::op::declare::frame::Frame;

/// An HTTP method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// Returns the name on the wire.
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

/// The status of a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// 200.
    Ok,
    /// 201: a new object has an address.
    Created,
    /// 204: there is nothing to return.
    NoContent,
    /// 303: the browser continues at another address, with a GET.
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
    /// The main path template.
    pub path: &'static str,
    /// The other path templates.
    pub aliases: Vec<&'static str>,
    pub success: Success,
    /// It is not an MCP tool.
    pub rest_only: bool,
    /// Its body is a file: the field [`FILE_FIELD`](crate::spool::FILE_FIELD) of its input.
    pub takes_file: bool,
    /// Its response is a file.
    pub returns_file: bool,
    /// A client that prefers HTML to JSON gets its output as a page.
    pub is_page: bool,
    /// Its wire format, if it is not an operation of the API.
    pub frame: Option<Frame>,
}

impl Http {
    /// Returns every path template that it is served under, the main one first.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.path).chain(self.aliases.iter().copied())
    }
}
