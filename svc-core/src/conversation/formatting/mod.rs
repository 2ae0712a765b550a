//! Formatting: parsing Markdown texts, including mentions, into the trees that the board displays.
//!
//! The service does not store the texts or the trees, and no event or audit row contains them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::capability::Right;
use crate::conversation::markdown::{Node, ParsedTree, with_line_feeds};
use crate::conversation::mentions::{
    NameBudget, PossibleMentions, UnreachedMention, resolve_mentions_of_texts,
};
use crate::conversation::visibility::visible_channel;
use crate::error::Error;
use crate::id::ChannelId;
use crate::limits::{MARKDOWN_ANSWER_BYTES_MAX, MARKDOWN_BYTES_MAX, MARKDOWN_TEXTS_MAX, MARKDOWN_TIME_MAX};
use crate::op::{Feature, Frame, Read, SharedState, reading, without_requests};
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
                .slow_to_prepare()
                .whole()
                .needs(&[Right::Session])
                .example(
                    |w| json!({"channel_id": w.id("channel"), "texts": ["Ready for **review**, @ada."]}),
                ),
        ],
    )
}

without_requests! { ParseMarkdown }

/// The trees of the texts in a request.
#[derive(Serialize, JsonSchema)]
struct ParsedMarkdown {
    /// The trees of the texts, in order. The last texts are missing if parsing takes too long or the trees
    /// exceed 2 MiB of JSON.
    #[serde(rename = "items")]
    texts: Vec<ParsedText>,
}

/// The tree of one text.
#[derive(Serialize, JsonSchema)]
struct ParsedText {
    /// The blocks of the text, such as paragraphs and lists.
    nodes: Vec<Node>,
    /// The mentions in the text that reach no member.
    not_reached: Vec<UnreachedMention>,
}

/// Parses texts in Markdown into trees of nodes, for the board.
///
/// Raw HTML becomes text, an image becomes a link, and links may have the schemes http, https, mailto and
/// svc. A tree has up to 5,000 nodes in 32 levels; source that exceeds these limits becomes plain text. The
/// answer is limited to 2 MiB of JSON and in time: it contains at least the first tree, and as many more as
/// the limits allow. Send the remaining texts again. Nothing is stored or logged.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ParseMarkdown {
    /// Id of the channel of the texts. Mentions reach only members who see this channel, and its groups.
    /// Default: no channel, so that mentions reach any member of the workspace, but no group.
    channel_id: Option<ChannelId>,
    /// The texts to parse: 1 to 100 texts of up to 1,048,576 bytes in total.
    texts: Items<String, MARKDOWN_TEXTS_MAX>,
}

/// The parsed texts of a request. The last texts are missing if time ran out.
struct ParsedRequest(Vec<TextWithMentions>);

/// A parsed text, and its possible mentions.
struct TextWithMentions {
    parsed: ParsedTree,
    possible_mentions: PossibleMentions,
}

/// Parses the texts in order until time runs out, but at least the first text.
fn parse(input: &ParseMarkdown, _: &SharedState, _: Time) -> Result<ParsedRequest> {
    check_total_size(&input.texts)?;
    let clock = Clock::system();
    let deadline = clock.deadline(MARKDOWN_TIME_MAX);
    let mut prepared = Vec::new();
    let mut budget = NameBudget::default();
    for text in input.texts.iter() {
        if !prepared.is_empty() && clock.monotonic() >= deadline {
            break;
        }
        let text = with_line_feeds(text);
        let possible_mentions = PossibleMentions::find_within_budget(&[&text], &mut budget);
        prepared.push(TextWithMentions { parsed: ParsedTree::parse(&text), possible_mentions });
    }
    Ok(ParsedRequest(prepared))
}

fn parse_markdown(cx: &Read<'_>, input: &ParseMarkdown, prepared: &ParsedRequest) -> Result<ParsedMarkdown> {
    cx.caller().check_capability(WorkspaceRead)?;
    let ParsedRequest(texts) = prepared;
    let channel = input.channel_id.map(|id| visible_channel(cx, id)).transpose()?;
    let possible_mentions: Vec<&PossibleMentions> =
        texts.iter().map(|text| &text.possible_mentions).collect();
    let reached = resolve_mentions_of_texts(cx, channel.map(|channel| channel.id), &possible_mentions)?;
    let mut trees = Vec::new();
    let mut bytes = 0_usize;
    for (text, reached) in texts.iter().zip(reached) {
        let tree =
            ParsedText { nodes: text.parsed.build_tree(&reached.mentions), not_reached: reached.not_reached };
        bytes = bytes.saturating_add(json_bytes(&tree)?);
        if bytes > MARKDOWN_ANSWER_BYTES_MAX && !trees.is_empty() {
            break;
        }
        trees.push(tree);
    }
    Ok(ParsedMarkdown { texts: trees })
}

fn check_total_size(texts: &[String]) -> Result<()> {
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
