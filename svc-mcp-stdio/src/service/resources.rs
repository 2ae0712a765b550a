//! Lists and reads resources. The content of a resource is the output of operations that run as the caller.

use bytes::Bytes;
use rmcp::model::{Resource, ResourceTemplate};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use svc_core::id::{ChannelId, WorkspaceId};
use svc_core::limits::ANSWER_MCP_BYTES;
use svc_core::{Code, Error, Result};

use super::ServiceHandler;
use super::operation_calls::ArgumentKind;
use crate::address::Address;
use crate::card;
use crate::catalogue::CARD_URI;
use crate::handler::Outcome;
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::response::{CacheScope, LONG_TTL_MS, Response, push_as_string};
use crate::revision::Revision;

const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";

/// Milliseconds for which clients may cache a resource other than a thread.
const SHORT_TTL_MS: u64 = 60_000;
/// Maximum bytes of a resource's encoded content in an answer. The other members of the answer need some
/// bytes too.
const CONTENT_BYTES_MAX: usize = ANSWER_MCP_BYTES - 512;
/// Maximum bytes of a resource's text before escaping: for the first attempt, and for the second, which
/// always fits.
///
/// The text is JSON within JSON, in which each quotation mark and each backslash needs two bytes. So a text
/// with many of these characters may not fit at the first attempt.
const TEXT_BYTES_MAX: [usize; 2] = [ANSWER_MCP_BYTES / 4 * 3, CONTENT_BYTES_MAX / 2 - 512];
/// Maximum open threads in the resource of a channel.
const OPEN_THREADS_MAX: i64 = 20;
/// Maximum pages of channels that the list of resources includes.
const CHANNEL_PAGES_MAX: usize = 2;

/// Kind of a resource, with the template of its addresses.
pub(super) struct ResourceKind {
    pub template: &'static str,
    name: &'static str,
    description: &'static str,
    mime_type: &'static str,
    /// Kind of the template's argument, which determines how the argument is completed.
    pub argument_kind: ArgumentKind,
}

const WORKSPACE: ResourceKind = ResourceKind {
    template: "svc://workspaces/{id}",
    name: "workspace",
    description: "Your work in the workspace: your claims, the next thread, pending reviews and approvals",
    mime_type: JSON,
    argument_kind: ArgumentKind::Workspace,
};
const CHANNEL: ResourceKind = ResourceKind {
    template: "svc://channels/{id}",
    name: "channel",
    description: "A channel, and its 20 newest open threads",
    mime_type: JSON,
    argument_kind: ArgumentKind::Channel,
};
const THREAD: ResourceKind = ResourceKind {
    template: "svc://threads/{id}",
    name: "thread",
    description: "The context for work on a thread: the task, its state and its messages",
    mime_type: JSON,
    argument_kind: ArgumentKind::Thread(None),
};
const BOOT: ResourceKind = ResourceKind {
    template: "svc://boots/{channel_id}",
    name: "boot",
    description: "The text that an agent reads first in a channel",
    mime_type: MARKDOWN,
    argument_kind: ArgumentKind::Channel,
};

/// All kinds of resources.
pub(super) const RESOURCE_KINDS: [ResourceKind; 4] = [WORKSPACE, CHANNEL, THREAD, BOOT];

impl ResourceKind {
    fn for_address(address: Address) -> Self {
        match address {
            Address::Workspace(_) => WORKSPACE,
            Address::Channel(_) => CHANNEL,
            Address::Thread(_) => THREAD,
            Address::Boot(_) => BOOT,
        }
    }
}

/// Content of a resource as text.
pub(super) struct Content {
    uri: String,
    mime_type: &'static str,
    /// Text of the resource in UTF-8.
    text: Bytes,
    /// Offset in characters at which the text continues; `None` if the text is complete.
    next_offset: Option<u64>,
}

impl Content {
    /// Encodes the content in the format of the protocol.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"uri":"#);
        push_as_string(out, self.uri.as_bytes());
        out.extend_from_slice(format!(r#","mimeType":"{}","text":"#, self.mime_type).as_bytes());
        push_as_string(out, &self.text);
        if let Some(offset) = self.next_offset {
            let meta = format!(r#","_meta":{{"svc/truncated":true,"svc/next_offset":{offset}}}"#);
            out.extend_from_slice(meta.as_bytes());
        }
        out.push(b'}');
    }
}

#[derive(Deserialize)]
struct Workspace {
    name: String,
}

#[derive(Deserialize)]
struct NamedChannel {
    id: ChannelId,
    name: String,
    topic: Option<String>,
    has_boot: bool,
}

/// The boot text of a channel.
#[derive(Deserialize)]
struct ChannelBoot {
    #[serde(default)]
    text: String,
    next_offset: Option<u64>,
}

impl ServiceHandler {
    /// Lists the workspace, the channels that the caller may see, and the boot texts of these channels.
    pub(super) async fn list_resources(&self, context: &RequestContext) -> Outcome {
        let caller = &context.principal.with_admission(&self.service).await?;
        let workspace = self.workspace_of(caller).await?;
        let input = json!({"workspace_id": workspace});
        let Workspace { name } = self.run_and_parse(caller, "get_workspace", &input).await?;
        let mut resources = vec![list_entry(Address::Workspace(workspace), name)];
        let channels: Vec<NamedChannel> = self.listed_channels(caller, workspace).await?;
        for NamedChannel { id, name, topic, .. } in &channels {
            let listed = list_entry(Address::Channel(*id), name);
            resources.push(match topic {
                Some(topic) => listed.with_description(topic),
                None => listed,
            });
        }
        for NamedChannel { id, name, .. } in channels.iter().filter(|channel| channel.has_boot) {
            resources.push(list_entry(Address::Boot(*id), format!("{name} boot")));
        }
        let mut resources: Vec<Value> = resources.iter().map(|resource| json!(resource)).collect();
        resources.extend(context.declared.cards.then(|| card::approval().item));
        Ok(Response::of(&json!({"resources": resources})).cached(LONG_TTL_MS, CacheScope::Private))
    }

    /// Returns the channels that the list of resources includes.
    pub(super) async fn listed_channels<T: DeserializeOwned>(
        &self,
        caller: &Principal,
        workspace: WorkspaceId,
    ) -> Result<Vec<T>> {
        let live = json!({"workspace_id": workspace, "archived": false});
        Ok(self.read_pages(caller, "list_channels", live, CHANNEL_PAGES_MAX).await?.items)
    }

    /// Reads the resource at `uri`.
    pub(super) async fn read_resource(&self, context: &RequestContext, uri: &str) -> Outcome {
        if uri == CARD_URI && context.declared.cards {
            let contents = json!({"contents": [card::approval().contents]});
            return Ok(Response::of(&contents).cached(LONG_TTL_MS, CacheScope::Public));
        }
        let address = Address::parse(uri).ok_or_else(|| Refusal::resource(uri, context.revision))?;
        let caller = &context.principal.with_admission(&self.service).await?;
        let mut members = br#""contents":["#.to_vec();
        members.extend_from_slice(&self.content(caller, address, context.revision).await?);
        members.push(b']');
        let ttl_ms = if matches!(address, Address::Thread(_)) { 0 } else { SHORT_TTL_MS };
        Ok(Response::raw(members).cached(ttl_ms, CacheScope::Private))
    }

    /// Returns the encoded content of a resource for the caller, within the size limit of an answer.
    pub(super) async fn content(
        &self,
        caller: &Principal,
        address: Address,
        revision: Revision,
    ) -> Result<Vec<u8>, Refusal> {
        let mut written = Vec::new();
        for max_bytes in TEXT_BYTES_MAX {
            written.clear();
            self.content_within(caller, address, revision, max_bytes).await?.write(&mut written);
            if written.len() <= CONTENT_BYTES_MAX {
                break;
            }
        }
        Ok(written)
    }

    async fn content_within(
        &self,
        caller: &Principal,
        address: Address,
        revision: Revision,
        max_bytes: usize,
    ) -> Result<Content, Refusal> {
        let mut next_offset = None;
        let text = match address {
            Address::Workspace(id) => {
                let input = json!({"workspace_id": id, "max_bytes": max_bytes});
                self.run_operation(caller, "get_workspace_context", &input).await
            }
            Address::Channel(id) => self.read_channel(caller, id, max_bytes).await,
            Address::Thread(id) => {
                let input = json!({"thread_id": id, "max_bytes": max_bytes});
                self.run_operation(caller, "get_thread_context", &input).await
            }
            Address::Boot(id) => self.read_boot(caller, id, max_bytes).await.map(|boot| {
                next_offset = boot.next_offset;
                boot.text.into_bytes()
            }),
        };
        let uri = address.to_string();
        match text {
            Ok(text) => Ok(Content {
                mime_type: ResourceKind::for_address(address).mime_type,
                text: text.into(),
                next_offset,
                uri,
            }),
            Err(error) => Err(resource_refusal(error, &uri, revision)),
        }
    }

    /// Checks that the caller may see a resource. Fails as [`content`](Self::content) does, but at less cost.
    pub(super) async fn check_visible(&self, caller: &Principal, address: Address) -> Result<()> {
        let (operation, input) = match address {
            Address::Workspace(id) => ("get_workspace", json!({"workspace_id": id})),
            Address::Channel(id) | Address::Boot(id) => ("get_channel", json!({"channel_id": id})),
            Address::Thread(id) => ("get_thread", json!({"thread_id": id})),
        };
        self.run_operation(caller, operation, &input).await.map(drop)
    }

    async fn read_boot(
        &self,
        caller: &Principal,
        channel: ChannelId,
        max_bytes: usize,
    ) -> Result<ChannelBoot> {
        let input = json!({"channel_id": channel, "max_bytes": max_bytes});
        self.run_and_parse(caller, "get_channel_boot", &input).await
    }

    /// Returns a channel with as many of its newest open threads as fit in an answer.
    async fn read_channel(&self, caller: &Principal, id: ChannelId, max_bytes: usize) -> Result<Vec<u8>> {
        #[derive(Deserialize)]
        struct Threads<'a> {
            #[serde(borrow)]
            items: Option<&'a RawValue>,
            #[serde(borrow)]
            next_cursor: Option<&'a RawValue>,
        }
        let channel = self.run_operation(caller, "get_channel", &json!({"channel_id": id})).await?;
        // The member names of the combined object also need a few bytes.
        let room = max_bytes.saturating_sub(channel.len()).saturating_sub(64);
        let newest = json!({"channel_id": id, "state": "open", "newest_first": true,
                            "limit": OPEN_THREADS_MAX,
                            "max_bytes": room});
        let threads = self.run_operation(caller, "list_threads", &newest).await?;
        let Threads { items, next_cursor } = serde_json::from_slice(&threads).map_err(Error::internal)?;
        let items = items.map_or("[]", RawValue::get);
        let more =
            next_cursor.map(|cursor| format!(r#","next_cursor":{}"#, cursor.get())).unwrap_or_default();
        let channel = &*channel;
        let items = items.as_bytes();
        let more = more.as_bytes();
        Ok([br#"{"channel":"#, channel, br#","open_threads":"#, items, more, b"}"].concat())
    }
}

/// Returns the result of `resources/templates/list`.
pub(super) fn templates() -> Response {
    let templates = RESOURCE_KINDS.map(|kind| {
        ResourceTemplate::new(kind.template, kind.name)
            .with_description(kind.description)
            .with_mime_type(kind.mime_type)
    });
    Response::of(&json!({"resourceTemplates": templates})).cached(LONG_TTL_MS, CacheScope::Public)
}

fn list_entry(address: Address, name: impl Into<String>) -> Resource {
    let kind = ResourceKind::for_address(address);
    Resource::new(address.to_string(), name).with_description(kind.description).with_mime_type(kind.mime_type)
}

/// Returns the refusal of a request for a resource. If the caller may not see the resource, the refusal
/// reports it as missing.
pub(super) fn resource_refusal(error: Error, uri: &str, revision: Revision) -> Refusal {
    match error.code() {
        Code::NotFound => Refusal::resource(uri, revision),
        _ => Refusal::from_error(error),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ListResourceTemplatesResult, ReadResourceResult, RequestId};
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_written_is_read_by_the_model_of_the_protocol() {
        let response = |answered: Response| -> Value {
            let bytes = answered.response(&RequestId::Number(1), Revision::V20260728, "{}");
            serde_json::from_slice::<Value>(&bytes.into_contiguous()).unwrap()["result"].take()
        };
        let text = "{\"a\":\"\\\"\u{2028}\"}\n".to_owned();
        let uri = "svc://x/\"".to_owned();
        let content = Content { uri, mime_type: JSON, text: text.clone().into(), next_offset: None };
        let mut members = br#""contents":["#.to_vec();
        content.write(&mut members);
        members.push(b']');
        let read: ReadResourceResult = serde_json::from_value(response(Response::raw(members))).unwrap();
        let json = serde_json::to_value(&read.contents).unwrap();
        assert_eq!(json, json!([{"uri": "svc://x/\"", "mimeType": JSON, "text": text}]));
        let listed = response(templates());
        assert_eq!((&listed["ttlMs"], &listed["cacheScope"]), (&json!(3_600_000), &json!("public")));
        let listed: ListResourceTemplatesResult = serde_json::from_value(listed).unwrap();
        assert_eq!(listed.resource_templates.len(), RESOURCE_KINDS.len());
    }
}
