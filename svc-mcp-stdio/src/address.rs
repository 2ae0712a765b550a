//! Parses and formats the addresses (URIs) of resources.

use std::fmt;

use svc_core::id::{ChannelId, ThreadId, WorkspaceId};

/// Address of a resource: the kind and the id of the object that the resource describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Address {
    Workspace(WorkspaceId),
    Channel(ChannelId),
    Thread(ThreadId),
    Boot(ChannelId),
}

impl Address {
    /// Parses an address. Returns `None` if `uri` is not a resource address in canonical form.
    pub fn parse(uri: &str) -> Option<Self> {
        let (kind, id) = uri.strip_prefix("svc://")?.split_once('/')?;
        let address = match kind {
            "workspaces" => Self::Workspace(id.parse().ok()?),
            "channels" => Self::Channel(id.parse().ok()?),
            "threads" => Self::Thread(id.parse().ok()?),
            "boots" => Self::Boot(id.parse().ok()?),
            _ => return None,
        };
        // Each resource has exactly one address, so that notifications contain the same address as the
        // subscription.
        (address.to_string() == uri).then_some(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workspace(id) => write!(f, "svc://workspaces/{id}"),
            Self::Channel(id) => write!(f, "svc://channels/{id}"),
            Self::Thread(id) => write!(f, "svc://threads/{id}"),
            Self::Boot(id) => write!(f, "svc://boots/{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        let id = "01990000-0000-7000-8000-00000000000a";
        for kind in ["workspaces", "channels", "threads", "boots"] {
            let uri = format!("svc://{kind}/{id}");
            assert_eq!(Address::parse(&uri).unwrap().to_string(), uri);
            let other_ways = [uri.to_uppercase(), format!("svc://{kind}/{}", id.to_uppercase())];
            for bad in other_ways.iter().map(String::as_str).chain([
                &*format!("{uri}/"),
                &*format!("{uri}?x"),
                &*format!("svc://{kind}/{{{id}}}"),
                &*format!("svc://{kind}/"),
            ]) {
                assert_eq!(Address::parse(bad), None, "{bad}");
            }
        }
        for bad in ["", "svc://", "svc://threads", "http://threads/x", "svc://artifacts/00"] {
            assert_eq!(Address::parse(bad), None, "{bad}");
        }
    }
}
