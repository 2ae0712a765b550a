//! Parsing of the service's addresses, which are URIs such as `svc://<workspace id>/channels/<id>`.
//!
//! An address has one of three forms: a room URI of a workspace, a channel, a thread or a message, whose
//! authority is always a workspace's id; an event URI with a position; or a short form with which MCP refers
//! to resources. A fragment may cite a text by its hash. This file only parses addresses: other modules check
//! whether the object exists and whether the caller may see it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use uuid::Uuid;

use crate::hash::{ArtifactSha, parse_hash};
use crate::id::{ChannelId, MessageId, ThreadId, WorkspaceId};
use crate::limits::URI_MAX;

/// The object to which an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressTarget {
    Workspace(WorkspaceId),
    /// A channel, with the workspace if the address contains it.
    Channel(Option<WorkspaceId>, ChannelId),
    /// A thread, with the workspace and the channel if the address contains them.
    Thread(Option<(WorkspaceId, ChannelId)>, ThreadId),
    Message(WorkspaceId, ChannelId, ThreadId, MessageId),
    /// The event at this position in the log of the caller's workspace.
    Event(i64),
    Boot(ChannelId),
    Artifact(ArtifactSha),
}

/// A parsed address, with the hash from its fragment if the address has a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub target: AddressTarget,
    pub hash: Option<[u8; 32]>,
}

crate::argument::text_arguments! { Address }

const ROOM_URI_PREFIX: &str = "svc://";
const EVENT_URI_PREFIX: &str = "svc:event/";

impl Address {
    /// Parses an address. Returns `None` if the text is malformed or is not an address of the service.
    pub fn parse(uri: &str) -> Option<Self> {
        let (target, hash) = match uri.split_once('#') {
            Some((target, fragment)) => (target, Some(parse_hash(fragment)?)),
            None => (uri, None),
        };
        Some(Self { target: parse_object(target)?, hash })
    }
}

fn parse_object(uri: &str) -> Option<AddressTarget> {
    if let Some(lsn) = uri.strip_prefix(EVENT_URI_PREFIX) {
        let is_plain = lsn.bytes().all(|digit| digit.is_ascii_digit()) && !lsn.starts_with('0');
        return lsn.parse().ok().filter(|_| is_plain).map(AddressTarget::Event);
    }
    let segments: Vec<&str> = uri.strip_prefix(ROOM_URI_PREFIX)?.split('/').collect();
    Some(match segments.as_slice() {
        ["workspaces", id] => AddressTarget::Workspace(parse_uuid(id)?.into()),
        ["channels", id] => AddressTarget::Channel(None, parse_uuid(id)?.into()),
        ["threads", id] => AddressTarget::Thread(None, parse_uuid(id)?.into()),
        ["boots", id] => AddressTarget::Boot(parse_uuid(id)?.into()),
        ["artifacts", sha] => AddressTarget::Artifact(ArtifactSha::parse(sha)?),
        [workspace] => AddressTarget::Workspace(parse_uuid(workspace)?.into()),
        [workspace, "channels", channel] => {
            AddressTarget::Channel(Some(parse_uuid(workspace)?.into()), parse_uuid(channel)?.into())
        }
        [workspace, "channels", channel, "threads", thread] => AddressTarget::Thread(
            Some((parse_uuid(workspace)?.into(), parse_uuid(channel)?.into())),
            parse_uuid(thread)?.into(),
        ),
        [workspace, "channels", channel, "threads", thread, "messages", message] => AddressTarget::Message(
            parse_uuid(workspace)?.into(),
            parse_uuid(channel)?.into(),
            parse_uuid(thread)?.into(),
            parse_uuid(message)?.into(),
        ),
        _ => return None,
    })
}

/// Length of an id in an address: a hyphenated UUID of 36 characters.
const ID_LEN: usize = 36;

/// Parses an id in its hyphenated form. Other forms of a UUID are rejected.
fn parse_uuid(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|_| text.len() == ID_LEN)
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(
                "expected an address of the service, such as \
                 svc://<workspace id>/channels/<id>/threads/<id>, with ids and no handles, and \
                 no fragment but #sha256:<64 hex digits>",
            )
        })
    }
}

impl JsonSchema for Address {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let id = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
        let room = format!("(workspaces/|channels/|threads/|boots/)?{id}");
        let within = format!("{id}/channels/{id}(/threads/{id}(/messages/{id})?)?");
        let target = format!("event/[1-9][0-9]{{0,17}}|//({room}|{within}|artifacts/[0-9a-f]{{64}})");
        let pattern = format!("^svc:({target})(#sha256:[0-9A-Fa-f]{{64}})?$");
        json_schema!({"type": "string", "maxLength": URI_MAX, "pattern": pattern})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id<T: From<Uuid>>(number: u128) -> T {
        Uuid::from_u128(number).into()
    }

    #[test]
    fn an_address_names_one_thing() {
        let [w, c, t, m] = [1, 2, 3, 4].map(Uuid::from_u128);
        let sha = "ab".repeat(32);
        let hash = format!("sha256:{}", "0f".repeat(32));
        let cases = [
            (format!("svc://{w}"), AddressTarget::Workspace(id(1))),
            (format!("svc://{w}/channels/{c}"), AddressTarget::Channel(Some(id(1)), id(2))),
            (
                format!("svc://{w}/channels/{c}/threads/{t}"),
                AddressTarget::Thread(Some((id(1), id(2))), id(3)),
            ),
            (
                format!("svc://{w}/channels/{c}/threads/{t}/messages/{m}"),
                AddressTarget::Message(id(1), id(2), id(3), id(4)),
            ),
            ("svc:event/17".to_owned(), AddressTarget::Event(17)),
            (format!("svc://workspaces/{w}"), AddressTarget::Workspace(id(1))),
            (format!("svc://channels/{c}"), AddressTarget::Channel(None, id(2))),
            (format!("svc://threads/{t}"), AddressTarget::Thread(None, id(3))),
            (format!("svc://boots/{c}"), AddressTarget::Boot(id(2))),
            (format!("svc://artifacts/{sha}"), AddressTarget::Artifact(ArtifactSha::parse(&sha).unwrap())),
        ];
        for (uri, target) in cases {
            assert_eq!(Address::parse(&uri), Some(Address { target, hash: None }), "{uri}");
            let cited = Address::parse(&format!("{uri}#{hash}"));
            assert_eq!(cited, Some(Address { target, hash: Some([0x0f; 32]) }), "{uri}");
            for more in ["/", "?a=b", "#", "#sha256:", "#sha256:0f", "#other", " ", "/channels/"] {
                assert_eq!(Address::parse(&format!("{uri}{more}")), None, "{uri}{more}");
            }
        }
        let simple = w.simple();
        for uri in [
            String::new(),
            "svc:".to_owned(),
            "svc://".to_owned(),
            "svc://acme".to_owned(),
            format!("svc://acme/channels/{c}"),
            format!("svc://{simple}"),
            format!("svc://{{{w}}}"),
            format!("svc://{w}/threads/{t}"),
            format!("svc://{w}/channels/{c}/messages/{m}"),
            format!("svc://messages/{m}"),
            format!("svc://artifacts/{}", sha.to_uppercase()),
            "svc:event/".to_owned(),
            "svc:event/0".to_owned(),
            "svc:event/+1".to_owned(),
            "svc:event/99999999999999999999".to_owned(),
            format!("https://{w}/channels/{c}"),
        ] {
            assert_eq!(Address::parse(&uri), None, "{uri}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_none(text in any::<String>(), rest in "[a-z0-9/#:-]{0,80}") {
            for uri in [text, format!("svc:{rest}"), format!("svc://{rest}")] {
                let _ = Address::parse(&uri);
            }
        }
    }
}
