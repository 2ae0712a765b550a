//! The nodes of a Markdown tree, to which the display rules convert the parts of a text.

use std::iter::Peekable;
use std::ops::Range;
use std::slice;

use pulldown_cmark::Alignment;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::addresses;
use super::parts::{LinkTarget, MarkdownPart, PartKind, TextRun, allowed_href, parts};
use crate::id::MemberId;
use crate::limits::{MARKDOWN_LEVELS_MAX, MARKDOWN_NODES_MAX, MARKDOWN_NODES_MIN};

/// A node of a Markdown tree, as the board displays it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Node {
    Paragraph {
        children: Vec<Node>,
    },
    Heading {
        level: u8,
        children: Vec<Node>,
    },
    Quote {
        children: Vec<Node>,
    },
    Rule,
    List {
        /// Number of the list's first item; absent if the list is not ordered.
        #[serde(skip_serializing_if = "Option::is_none")]
        start: Option<u64>,
        children: Vec<Node>,
    },
    Item {
        /// Whether the item's checkbox is checked; absent if the item has no checkbox.
        #[serde(skip_serializing_if = "Option::is_none")]
        checked: Option<bool>,
        children: Vec<Node>,
    },
    CodeBlock {
        /// First word of the code block's info string, which is empty if the block has no info string.
        language: String,
        /// The whole info string; absent if it has at most one word.
        #[serde(skip_serializing_if = "Option::is_none")]
        info: Option<String>,
        text: String,
    },
    Table {
        align: Vec<Align>,
        children: Vec<Node>,
    },
    Row {
        children: Vec<Node>,
    },
    Cell {
        children: Vec<Node>,
    },
    Text {
        text: String,
    },
    Code {
        text: String,
    },
    Strong {
        children: Vec<Node>,
    },
    Em {
        children: Vec<Node>,
    },
    Strike {
        children: Vec<Node>,
    },
    Link {
        href: String,
        children: Vec<Node>,
    },
    Break,
    Mention {
        text: String,
        /// Id of the mentioned member; absent for a group.
        #[serde(skip_serializing_if = "Option::is_none")]
        member: Option<MemberId>,
    },
}

/// The alignment of the cells in a table column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Align {
    None,
    Left,
    Center,
    Right,
}

impl From<Alignment> for Align {
    fn from(alignment: Alignment) -> Self {
        match alignment {
            Alignment::None => Self::None,
            Alignment::Left => Self::Left,
            Alignment::Center => Self::Center,
            Alignment::Right => Self::Right,
        }
    }
}

impl Node {
    fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns the child nodes of this node.
    #[cfg(test)]
    pub(crate) fn children(&self) -> &[Self] {
        match self {
            Self::Paragraph { children }
            | Self::Heading { children, .. }
            | Self::Quote { children }
            | Self::List { children, .. }
            | Self::Item { children, .. }
            | Self::Table { children, .. }
            | Self::Row { children }
            | Self::Cell { children }
            | Self::Strong { children }
            | Self::Em { children }
            | Self::Strike { children }
            | Self::Link { children, .. } => children,
            Self::Rule
            | Self::CodeBlock { .. }
            | Self::Text { .. }
            | Self::Code { .. }
            | Self::Break
            | Self::Mention { .. } => &[],
        }
    }
}

/// The schema describes only the type of a node, because nodes are recursive and these schemas contain no
/// references.
impl JsonSchema for Node {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MarkdownNode".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "Type of the node, which determines its fields. `children` are nodes.",
                    "enum": [
                        "paragraph", "heading", "quote", "rule", "list", "item", "code_block", "table", "row",
                        "cell", "text", "code", "strong", "em", "strike", "link", "break", "mention",
                    ],
                },
            },
        })
    }
}

/// A mention of a member or a group in a text, with the range of the mention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Range of the mention in the text.
    pub place: Range<usize>,
    /// Id of the mentioned member, or `None` for a group.
    pub member: Option<MemberId>,
}

/// A parsed text, before its mentions are resolved and its tree is built.
#[derive(Debug)]
pub(crate) struct ParsedTree {
    text: String,
    parts: Vec<MarkdownPart>,
}

impl ParsedTree {
    /// Parses a text. The lines of the text must end [with line feeds](super::with_line_feeds).
    pub fn of(text: &str) -> Self {
        Self { text: text.to_owned(), parts: parts(text) }
    }

    /// Builds the tree of the text with the given mentions, which must be in the order of the text.
    pub fn tree(&self, mentions: &[Mention]) -> Vec<Node> {
        let room = MARKDOWN_NODES_MAX.saturating_sub(MARKDOWN_NODES_MIN);
        let text = &*self.text;
        let mentions = mentions.iter().peekable();
        let mut builder = TreeBuilder { text, mentions, mentioned: 0..0, room, rest: None };
        let mut nodes = builder.build_nodes(&self.parts, NodeContext { level: 1, is_link: false });
        if let Some(rest) = builder.rest.and_then(|rest| text.get(rest..)) {
            nodes.push(Node::Paragraph { children: vec![Node::text(rest)] });
        }
        nodes
    }
}

/// Builds a tree of [`Node`]s from the parts of a text.
struct TreeBuilder<'t> {
    text: &'t str,
    /// The mentions that were not added yet, in the order of the text.
    mentions: Peekable<slice::Iter<'t, Mention>>,
    /// Range of the last mention that was added. A mention may cover several parts, for example if the handle
    /// contains `*`.
    mentioned: Range<usize>,
    /// Number of nodes that may still be added.
    room: usize,
    /// Position in the source at which the limit on nodes was reached, if it was reached.
    rest: Option<usize>,
}

/// The context in which a node is added.
#[derive(Clone, Copy)]
struct NodeContext {
    level: usize,
    /// Whether the node is inside a link. A link may not contain another link.
    is_link: bool,
}

impl NodeContext {
    fn within(self) -> Self {
        Self { level: self.level.saturating_add(1), ..self }
    }
}

impl TreeBuilder<'_> {
    fn build_nodes(&mut self, parts: &[MarkdownPart], around: NodeContext) -> Vec<Node> {
        let mut nodes = Vec::with_capacity(parts.len());
        for part in parts {
            if self.rest.is_some() {
                break;
            }
            self.push(part, around, &mut nodes);
        }
        nodes
    }

    fn push(&mut self, part: &MarkdownPart, around: NodeContext, nodes: &mut Vec<Node>) {
        let MarkdownPart { kind, source, children } = part;
        let is_mentioned = source.end <= self.mentioned.end;
        let lines = match kind {
            PartKind::HtmlBlock => {
                children.iter().map(|line| line.kind.nodes()).fold(0, usize::saturating_add)
            }
            _ => 0,
        };
        if !self.reserve(kind.nodes().saturating_add(lines)) {
            return self.end_tree(source);
        }
        match kind {
            PartKind::Text(run) => self.push_run(run, around, true, nodes),
            PartKind::Source => {
                self.push_run(&TextRun::of_source(self.text, source.clone()), around, false, nodes)
            }
            PartKind::Definitions => {
                let text = self.text.get(source.clone()).unwrap_or_default();
                nodes.push(Node::Paragraph { children: vec![Node::text(text)] });
            }
            _ if is_mentioned => {}
            PartKind::Html(html) => push_text(html, nodes),
            PartKind::HtmlBlock => nodes.push(Node::Paragraph { children: lines_of_html(children) }),
            PartKind::Code(text) => nodes.push(Node::Code { text: text.clone() }),
            PartKind::CodeBlock(info, text) => nodes.push(code_block(info, text)),
            PartKind::SoftBreak | PartKind::HardBreak => nodes.push(Node::Break),
            PartKind::Rule => nodes.push(Node::Rule),
            PartKind::Link(target) | PartKind::Image(target) => self.push_link(part, target, around, nodes),
            _ => {
                let made = self.build_nodes(children, around.within());
                let is_in_mention = made.is_empty() && !children.is_empty();
                if self.rest.is_some() && (made.is_empty() || kind.is_inline()) {
                    self.end_tree(source);
                } else if !is_in_mention {
                    nodes.push(container_node(kind, made));
                }
            }
        }
    }

    /// Adds a link or an image as a link. If the target is not allowed, adds the source around the link text
    /// as text.
    fn push_link(
        &mut self,
        part: &MarkdownPart,
        LinkTarget { href, .. }: &LinkTarget,
        around: NodeContext,
        nodes: &mut Vec<Node>,
    ) {
        let MarkdownPart { source, children, .. } = part;
        let inner = match (children.first(), children.last()) {
            (Some(first), Some(last)) => first.source.start..last.source.end,
            _ => source.end..source.end,
        };
        let Some(href) = href else {
            self.push_source(source.start..inner.start, nodes);
            append(self.build_nodes(children, around), nodes);
            if self.rest.is_none() {
                self.push_source(inner.end..source.end, nodes);
            }
            return;
        };
        let within = match around.is_link {
            true => around,
            false => NodeContext { is_link: true, ..around.within() },
        };
        let mut made = self.build_nodes(children, within);
        if self.rest.is_some() {
            return self.end_tree(source);
        }
        if made.is_empty() {
            made.push(Node::text(&**href));
        }
        match around.is_link {
            true => append(made, nodes),
            false => nodes.push(Node::Link { href: href.clone(), children: made }),
        }
    }

    /// Ends the tree before the part with the given source, or after a mention that overlaps the part.
    fn end_tree(&mut self, source: &Range<usize>) {
        let is_in_mention = self.mentioned.start < source.start;
        self.rest = Some(if is_in_mention { source.start.max(self.mentioned.end) } else { source.start });
    }

    /// Adds a range of the source as text, without the text that the last mention covers.
    fn push_source(&self, source: Range<usize>, nodes: &mut Vec<Node>) {
        let begin = source.start.max(self.mentioned.end);
        push_text(self.text.get(begin..source.end).unwrap_or_default(), nodes);
    }

    /// Adds a run of text, with nodes for the mentions and the bare addresses in it.
    fn push_run(&mut self, run: &TextRun, around: NodeContext, has_addresses: bool, nodes: &mut Vec<Node>) {
        let has_addresses = has_addresses && !around.is_link && around.level < MARKDOWN_LEVELS_MAX;
        let mut at = run.continues_at(self.mentioned.end);
        while let Some(mention) = self.mentions.peek().copied() {
            let begin = run.text_position(mention.place.start);
            let is_passed = run.ends_after(mention.place.start);
            match begin {
                Some(begin) if begin >= at && self.reserve(2) => {
                    self.push_plain(run, at..begin, has_addresses, nodes);
                    let text = self.text.get(mention.place.clone()).unwrap_or_default().to_owned();
                    nodes.push(Node::Mention { text, member: mention.member });
                    self.mentioned = mention.place.clone();
                    at = run.continues_at(self.mentioned.end);
                }
                _ if is_passed => {}
                _ => break,
            }
            self.mentions.next();
        }
        self.push_plain(run, at..run.text.len(), has_addresses, nodes);
    }

    /// Adds a range of a run without mentions, with links for the bare addresses in it.
    fn push_plain(&mut self, run: &TextRun, place: Range<usize>, has_addresses: bool, nodes: &mut Vec<Node>) {
        let text = |place: Range<usize>| run.text.get(place).unwrap_or_default();
        let mut rest = place;
        while has_addresses && let Some(found) = addresses::find_first(run, rest.clone()) {
            let written = text(found.place.clone());
            let Some(href) = allowed_href(&found.target) else {
                push_text(text(rest.start..found.place.end), nodes);
                rest.start = found.place.end;
                continue;
            };
            if !self.reserve(3) {
                break;
            }
            push_text(text(rest.start..found.place.start), nodes);
            nodes.push(Node::Link { href, children: vec![Node::text(written)] });
            rest.start = found.place.end;
        }
        push_text(text(rest), nodes);
    }

    /// Reserves a number of nodes. Returns false, and reserves nothing, if the limit on nodes would be
    /// exceeded.
    fn reserve(&mut self, nodes: usize) -> bool {
        let left = self.room.checked_sub(nodes);
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }
}

fn code_block(info: &str, text: &str) -> Node {
    let info = info.trim();
    let language = info.split_whitespace().next().unwrap_or_default();
    Node::CodeBlock {
        language: language.to_owned(),
        info: (language.len() < info.len()).then(|| info.to_owned()),
        text: text.strip_suffix('\n').unwrap_or(text).to_owned(),
    }
}

/// Converts a part that can have children to a node with the given children.
fn container_node(kind: &PartKind, children: Vec<Node>) -> Node {
    match kind {
        PartKind::Heading(level) => Node::Heading { level: *level, children },
        PartKind::Quote => Node::Quote { children },
        PartKind::List(start) => Node::List { start: *start, children },
        PartKind::Item(checked) => Node::Item { checked: *checked, children },
        PartKind::Table(align) => {
            Node::Table { align: align.iter().map(|align| Align::from(*align)).collect(), children }
        }
        PartKind::Row => Node::Row { children },
        PartKind::Cell => Node::Cell { children },
        PartKind::Strong => Node::Strong { children },
        PartKind::Emphasis => Node::Em { children },
        PartKind::Strike => Node::Strike { children },
        _ => Node::Paragraph { children },
    }
}

/// Appends text to the last node if that node is text, otherwise adds a text node.
fn push_text(added: &str, nodes: &mut Vec<Node>) {
    match nodes.last_mut() {
        _ if added.is_empty() => {}
        Some(Node::Text { text }) => text.push_str(added),
        _ => nodes.push(Node::text(added)),
    }
}

/// Appends nodes. If the first added node and the last existing node are text, merges them.
fn append(added: Vec<Node>, nodes: &mut Vec<Node>) {
    for node in added {
        match node {
            Node::Text { text } => push_text(&text, nodes),
            node => nodes.push(node),
        }
    }
}

/// Returns the source of an HTML block as text nodes, one for each line, with line breaks between them.
fn lines_of_html(parts: &[MarkdownPart]) -> Vec<Node> {
    let html: String = parts.iter().filter_map(MarkdownPart::html).collect();
    let mut nodes = Vec::new();
    for (number, line) in html.strip_suffix('\n').unwrap_or(&html).split('\n').enumerate() {
        if number > 0 {
            nodes.push(Node::Break);
        }
        push_text(line, &mut nodes);
    }
    nodes
}
