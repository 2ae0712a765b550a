//! The nodes of a Markdown tree, to which the display rules convert the parts of a text.

use std::iter::Peekable;
use std::ops::Range;
use std::slice;

use pulldown_cmark::Alignment;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::addresses;
use super::parts::{LinkTarget, MarkdownPart, PartKind, TextRun, allowed_href, parse_parts};
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
    pub range: Range<usize>,
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
    pub fn parse(text: &str) -> Self {
        Self { text: text.to_owned(), parts: parse_parts(text) }
    }

    /// Builds the tree of the text with the given mentions, which must be in the order of the text.
    pub fn build_tree(&self, mentions: &[Mention]) -> Vec<Node> {
        let nodes_left = MARKDOWN_NODES_MAX.saturating_sub(MARKDOWN_NODES_MIN);
        let text = &*self.text;
        let mentions = mentions.iter().peekable();
        let mut builder =
            TreeBuilder { text, mentions, last_mention: 0..0, nodes_left, limit_position: None };
        let mut nodes = builder.build_nodes(&self.parts, NodeContext { level: 1, is_link: false });
        if let Some(rest) = builder.limit_position.and_then(|rest| text.get(rest..)) {
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
    last_mention: Range<usize>,
    /// Number of nodes that may still be added.
    nodes_left: usize,
    /// Position in the source at which the limit on nodes was reached, if it was reached.
    limit_position: Option<usize>,
}

/// The context in which a node is added.
#[derive(Clone, Copy)]
struct NodeContext {
    level: usize,
    /// Whether the node is inside a link. A link may not contain another link.
    is_link: bool,
}

impl NodeContext {
    /// Returns the context of the children of a node in this context.
    fn nested(self) -> Self {
        Self { level: self.level.saturating_add(1), ..self }
    }
}

impl TreeBuilder<'_> {
    /// Builds the nodes of the given parts until the limit on nodes is reached.
    fn build_nodes(&mut self, parts: &[MarkdownPart], context: NodeContext) -> Vec<Node> {
        let mut nodes = Vec::with_capacity(parts.len());
        for part in parts {
            if self.limit_position.is_some() {
                break;
            }
            self.push_part(part, context, &mut nodes);
        }
        nodes
    }

    /// Adds the node of a part, with its children. If the limit on nodes is reached, ends the tree instead.
    fn push_part(&mut self, part: &MarkdownPart, context: NodeContext, nodes: &mut Vec<Node>) {
        let MarkdownPart { kind, source, children } = part;
        let is_mentioned = source.end <= self.last_mention.end;
        let lines = match kind {
            PartKind::HtmlBlock => {
                children.iter().map(|line| line.kind.max_nodes()).fold(0, usize::saturating_add)
            }
            _ => 0,
        };
        if !self.reserve_nodes(kind.max_nodes().saturating_add(lines)) {
            return self.end_tree(source);
        }
        match kind {
            PartKind::Text(run) => self.push_text_run(run, context, true, nodes),
            PartKind::Source => {
                self.push_text_run(&TextRun::from_source(self.text, source.clone()), context, false, nodes)
            }
            PartKind::Definitions => {
                let text = self.text.get(source.clone()).unwrap_or_default();
                nodes.push(Node::Paragraph { children: vec![Node::text(text)] });
            }
            _ if is_mentioned => {}
            PartKind::Html(html) => push_text(html, nodes),
            PartKind::HtmlBlock => nodes.push(Node::Paragraph { children: html_line_nodes(children) }),
            PartKind::Code(text) => nodes.push(Node::Code { text: text.clone() }),
            PartKind::CodeBlock(info, text) => nodes.push(code_block_node(info, text)),
            PartKind::SoftBreak | PartKind::HardBreak => nodes.push(Node::Break),
            PartKind::Rule => nodes.push(Node::Rule),
            PartKind::Link(target) | PartKind::Image(target) => self.push_link(part, target, context, nodes),
            _ => {
                let made = self.build_nodes(children, context.nested());
                let is_in_mention = made.is_empty() && !children.is_empty();
                if self.limit_position.is_some() && (made.is_empty() || kind.is_inline_container()) {
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
        context: NodeContext,
        nodes: &mut Vec<Node>,
    ) {
        let MarkdownPart { source, children, .. } = part;
        let inner = match (children.first(), children.last()) {
            (Some(first), Some(last)) => first.source.start..last.source.end,
            _ => source.end..source.end,
        };
        let Some(href) = href else {
            self.push_source(source.start..inner.start, nodes);
            append_nodes(self.build_nodes(children, context), nodes);
            if self.limit_position.is_none() {
                self.push_source(inner.end..source.end, nodes);
            }
            return;
        };
        let within = match context.is_link {
            true => context,
            false => NodeContext { is_link: true, ..context.nested() },
        };
        let mut made = self.build_nodes(children, within);
        if self.limit_position.is_some() {
            return self.end_tree(source);
        }
        if made.is_empty() {
            made.push(Node::text(&**href));
        }
        match context.is_link {
            true => append_nodes(made, nodes),
            false => nodes.push(Node::Link { href: href.clone(), children: made }),
        }
    }

    /// Ends the tree before the part with the given source, or after a mention that overlaps the part.
    fn end_tree(&mut self, source: &Range<usize>) {
        let is_in_mention = self.last_mention.start < source.start;
        self.limit_position =
            Some(if is_in_mention { source.start.max(self.last_mention.end) } else { source.start });
    }

    /// Adds a range of the source as text, without the text that the last mention covers.
    fn push_source(&self, source: Range<usize>, nodes: &mut Vec<Node>) {
        let begin = source.start.max(self.last_mention.end);
        push_text(self.text.get(begin..source.end).unwrap_or_default(), nodes);
    }

    /// Adds a run of text, with nodes for the mentions and the bare addresses in it.
    fn push_text_run(
        &mut self,
        run: &TextRun,
        context: NodeContext,
        has_addresses: bool,
        nodes: &mut Vec<Node>,
    ) {
        let has_addresses = has_addresses && !context.is_link && context.level < MARKDOWN_LEVELS_MAX;
        let mut at = run.next_text_position(self.last_mention.end);
        while let Some(mention) = self.mentions.peek().copied() {
            let begin = run.text_position(mention.range.start);
            let is_passed = run.ends_after(mention.range.start);
            match begin {
                Some(begin) if begin >= at && self.reserve_nodes(2) => {
                    self.push_plain_text(run, at..begin, has_addresses, nodes);
                    let text = self.text.get(mention.range.clone()).unwrap_or_default().to_owned();
                    nodes.push(Node::Mention { text, member: mention.member });
                    self.last_mention = mention.range.clone();
                    at = run.next_text_position(self.last_mention.end);
                }
                _ if is_passed => {}
                _ => break,
            }
            self.mentions.next();
        }
        self.push_plain_text(run, at..run.text.len(), has_addresses, nodes);
    }

    /// Adds a range of a run without mentions, with links for the bare addresses in it.
    fn push_plain_text(
        &mut self,
        run: &TextRun,
        range: Range<usize>,
        has_addresses: bool,
        nodes: &mut Vec<Node>,
    ) {
        let text = |range: Range<usize>| run.text.get(range).unwrap_or_default();
        let mut rest = range;
        while has_addresses && let Some(found) = addresses::find_first(run, rest.clone()) {
            let written = text(found.range.clone());
            let Some(href) = allowed_href(&found.target) else {
                push_text(text(rest.start..found.range.end), nodes);
                rest.start = found.range.end;
                continue;
            };
            if !self.reserve_nodes(3) {
                break;
            }
            push_text(text(rest.start..found.range.start), nodes);
            nodes.push(Node::Link { href, children: vec![Node::text(written)] });
            rest.start = found.range.end;
        }
        push_text(text(rest), nodes);
    }

    /// Reserves a number of nodes. Returns false, and reserves nothing, if the limit on nodes would be
    /// exceeded.
    fn reserve_nodes(&mut self, nodes: usize) -> bool {
        let left = self.nodes_left.checked_sub(nodes);
        self.nodes_left = left.unwrap_or(self.nodes_left);
        left.is_some()
    }
}

/// Builds the node of a code block from its info string and its text.
fn code_block_node(info: &str, text: &str) -> Node {
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
fn append_nodes(added: Vec<Node>, nodes: &mut Vec<Node>) {
    for node in added {
        match node {
            Node::Text { text } => push_text(&text, nodes),
            node => nodes.push(node),
        }
    }
}

/// Returns the source of an HTML block as text nodes, one for each line, with line breaks between them.
fn html_line_nodes(parts: &[MarkdownPart]) -> Vec<Node> {
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
