//! Formatting: turning Markdown texts into the trees, including mentions, that the board displays.
//!
//! Neither the texts nor their trees are stored, and no event or audit row contains any of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::capability::Right;
use crate::conversation::markdown::{Node, ParsedTree, with_line_feeds};
use crate::conversation::mentions::{NameBudget, NotReached, PossibleMentions, reached_by_each};
use crate::conversation::visibility::visible_channel;
use crate::error::Error;
use crate::id::ChannelId;
use crate::limits::{MARKDOWN_ANSWER_BYTES_MAX, MARKDOWN_BYTES_MAX, MARKDOWN_TEXTS_MAX, MARKDOWN_TIME_MAX};
use crate::op::{Feature, Frame, Read, SharedState, reading};
use crate::page::json_bytes;
use crate::text::Items;
use crate::time::{Clock, Time};

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "board",
        vec![
            reading("parse_markdown")
                .prepare(parse)
                .run(parse_markdown)
                .title("Parse texts in Markdown")
                .post("/ui/api/markdown")
                .framed(Frame::Markdown)
                .prepared_apart()
                .whole()
                .needs(&[Right::Session])
                .example(
                    |w| json!({"channel_id": w.id("channel"), "texts": ["Ready for **review**, @ada."]}),
                ),
        ],
    )
}

/// Trees of the texts of a request.
#[derive(Serialize, JsonSchema)]
struct ParsedMarkdown {
    /// Trees of the first texts, in order: of all texts, unless that takes too long or exceeds 2 MiB of JSON.
    #[serde(rename = "items")]
    texts: Vec<ParsedText>,
}

/// The tree of one text.
#[derive(Serialize, JsonSchema)]
struct ParsedText {
    /// Blocks of the text.
    nodes: Vec<Node>,
    /// The mentions that reach no member.
    not_reached: Vec<NotReached>,
}

/// Parses texts in Markdown into trees of nodes, for the board.
///
/// Raw HTML is text, links lead to http, https, mailto and svc, and an image is a link. A tree has up to
/// 5,000 nodes in 32 levels; beyond that, the source is plain text. The answer has up to 2 MiB of JSON, and
/// takes a limited time: it has the trees of as many of the first texts as possible, at least one; send the
/// remaining texts again. Nothing is stored or logged.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ParseMarkdown {
    /// Channel of the texts, which limits the members that mentions reach. Default: any member of the
    /// workspace, and no group.
    channel_id: Option<ChannelId>,
    /// 1 to 100 texts, up to 1,048,576 bytes in total.
    texts: Items<String, MARKDOWN_TEXTS_MAX>,
}

/// The parsed texts of a request: as many of the first ones as time allowed.
struct Prepared(Vec<PreparedText>);

/// A parsed text with its possible mentions.
struct PreparedText {
    parsed: ParsedTree,
    mentioning: PossibleMentions,
}

/// Parses as many of the first texts as time allows, but at least one.
fn parse(input: &ParseMarkdown, _: &SharedState, _: Time) -> Result<Prepared> {
    check_size(&input.texts)?;
    let clock = Clock::system();
    let deadline = clock.deadline(MARKDOWN_TIME_MAX);
    let mut prepared = Vec::new();
    let mut room = NameBudget::default();
    for text in input.texts.iter() {
        if !prepared.is_empty() && clock.monotonic() >= deadline {
            break;
        }
        let text = with_line_feeds(text);
        let mentioning = PossibleMentions::within(&[&text], &mut room);
        prepared.push(PreparedText { parsed: ParsedTree::of(&text), mentioning });
    }
    Ok(Prepared(prepared))
}

fn parse_markdown(cx: &Read<'_>, input: &ParseMarkdown, prepared: &Prepared) -> Result<ParsedMarkdown> {
    cx.caller().check_has(WorkspaceRead)?;
    let Prepared(texts) = prepared;
    let channel = input.channel_id.map(|id| visible_channel(cx, id)).transpose()?;
    let mentioning: Vec<&PossibleMentions> = texts.iter().map(|text| &text.mentioning).collect();
    let reached = reached_by_each(cx, channel.map(|channel| channel.id), &mentioning)?;
    let mut trees = Vec::new();
    let mut bytes = 0_usize;
    for (text, reached) in texts.iter().zip(reached) {
        let tree =
            ParsedText { nodes: text.parsed.tree(&reached.mentions), not_reached: reached.not_reached };
        bytes = bytes.saturating_add(json_bytes(&tree)?);
        if bytes > MARKDOWN_ANSWER_BYTES_MAX && !trees.is_empty() {
            break;
        }
        trees.push(tree);
    }
    Ok(ParsedMarkdown { texts: trees })
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
