//! The formatting of texts: what the board draws of a text in Markdown, with the mentions in it.
//!
//! Neither a text nor its tree is kept, and no event or audit row has anything of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::capability::Right;
use crate::conversation::markdown::{Node, tree};
use crate::conversation::mentions::{Mentioning, NotReached, reached_by_each};
use crate::conversation::places::visible_channel;
use crate::error::Error;
use crate::id::ChannelId;
use crate::limits::{MARKDOWN_BYTES_MAX, MARKDOWN_REQUEST_NODES_MAX, MARKDOWN_TEXTS_MAX};
use crate::op::{Feature, Frame, Read, read};
use crate::text::Items;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "board",
        vec![
            read("parse_markdown", parse_markdown)
                .title("Parse texts in Markdown")
                .post("/ui/api/markdown")
                .framed(Frame::Markdown)
                .whole()
                .needs(&[Right::Session])
                .example(
                    |w| json!({"channel_id": w.id("channel"), "texts": ["Ready for **review**, @ada."]}),
                ),
        ],
    )
}

/// The trees of some texts.
#[derive(Serialize, JsonSchema)]
struct ParsedMarkdown {
    /// Those of each text, in their order.
    #[serde(rename = "items")]
    texts: Vec<ParsedText>,
}

/// The tree of a text.
#[derive(Serialize, JsonSchema)]
struct ParsedText {
    /// Its blocks.
    nodes: Vec<Node>,
    /// The mentions that reach nobody.
    not_reached: Vec<NotReached>,
}

/// Parses texts in Markdown into trees of nodes, for the board.
///
/// Raw HTML is text, links lead to http, https, mailto and svc, and an image is a link. A text has at most
/// 5,000 nodes in 32 levels, and the texts of a request have at most 100,000 together; what is beyond is
/// plain text. Nothing is stored or logged.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ParseMarkdown {
    /// The channel of the texts, which decides whom their mentions reach. Default: any member of the
    /// workspace, and no group.
    channel_id: Option<ChannelId>,
    /// 1 to 100 texts, together at most 1,048,576 bytes.
    texts: Items<String, MARKDOWN_TEXTS_MAX>,
}

fn parse_markdown(cx: &Read<'_>, input: &ParseMarkdown) -> Result<ParsedMarkdown> {
    cx.caller().check_has(WorkspaceRead)?;
    check_size(&input.texts)?;
    let channel = input.channel_id.map(|id| visible_channel(cx, id)).transpose()?;
    let mentioning: Vec<Mentioning> = input.texts.iter().map(|text| Mentioning::of(&[text])).collect();
    let reached = reached_by_each(cx, channel.map(|channel| channel.id), &mentioning)?;
    let mut room = MARKDOWN_REQUEST_NODES_MAX;
    let texts = input.texts.iter().zip(reached).map(|(text, reached)| {
        let nodes = tree(text, &reached.mentions, room);
        let count = nodes.iter().map(Node::count).fold(0, usize::saturating_add);
        room = room.saturating_sub(count);
        ParsedText { nodes, not_reached: reached.not_reached }
    });
    Ok(ParsedMarkdown { texts: texts.collect() })
}

fn check_size(texts: &[String]) -> Result<()> {
    if texts.is_empty() {
        let detail = format!("expected 1 to {MARKDOWN_TEXTS_MAX} items, found 0");
        return Err(Error::in_field("texts", detail));
    }
    let bytes = texts.iter().map(String::len).fold(0, usize::saturating_add);
    if bytes > MARKDOWN_BYTES_MAX {
        let detail = format!("expected at most {MARKDOWN_BYTES_MAX} bytes together, found {bytes}");
        return Err(Error::in_field("texts", detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
