//! Parsing a text into Markdown parts, by CommonMark and GFM. The display rules are applied later.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{
    Alignment, CodeBlockKind, Event, HeadingLevel, LinkType, OffsetIter, Options, Parser, Tag, TagEnd,
};
use url::Url;

use crate::limits::{
    MARKDOWN_HREF_BYTES_MIN, MARKDOWN_HREF_BYTES_PER_BYTE, MARKDOWN_LEVELS_MAX, MARKDOWN_NODES_MAX,
    MARKDOWN_NODES_MIN,
};

/// Converts all line endings of a text to line feeds.
///
/// In CommonMark, a carriage return also ends a line, but the parser does not implement this everywhere.
pub(crate) fn with_line_feeds(text: &str) -> Cow<'_, str> {
    match text.contains('\r') {
        true => text.replace("\r\n", "\n").replace('\r', "\n").into(),
        false => text.into(),
    }
}

/// Returns the beginning of a text that is parsed: all lines before the first line that nests too many
/// containers.
///
/// The limit is needed because the parser takes time in proportion to the number of lines times the depth of
/// the quotes and lists around the lines.
pub(crate) fn truncate_at_deep_nesting(text: &str) -> &str {
    let mut end = 0_usize;
    for line in text.split_inclusive('\n') {
        if nests_too_much(line) {
            break;
        }
        end = end.saturating_add(line.len());
    }
    text.get(..end).unwrap_or(text)
}

/// Maximum columns before the last container marker of a line. Each container needs at least two columns.
const MARKER_COLUMNS_MAX: usize = 256;

/// Returns whether a line may open or continue more quotes and lists than the levels of a tree allow.
fn nests_too_much(line: &str) -> bool {
    let mut rest = line;
    let mut columns = 0_usize;
    let mut markers = 0_usize;
    loop {
        let marker = rest.trim_start_matches([' ', '\t']);
        let indent = rest.get(..rest.len().saturating_sub(marker.len())).unwrap_or_default();
        columns = indent.chars().fold(columns, |sum, c| sum.saturating_add(if c == '\t' { 4 } else { 1 }));
        let Some(after) = strip_container_marker(marker).filter(|_| !is_thematic_break(marker)) else {
            return false;
        };
        columns = columns.saturating_add(marker.len().saturating_sub(after.len()));
        markers = markers.saturating_add(1);
        if markers > MARKDOWN_LEVELS_MAX || columns > MARKER_COLUMNS_MAX {
            return true;
        }
        rest = after;
    }
}

/// Returns the rest of a line after the marker of a quote or a list item, or `None` if the line does not
/// begin with a marker.
fn strip_container_marker(line: &str) -> Option<&str> {
    if let Some(after) = line.strip_prefix('>') {
        return Some(after);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let after = match digits {
        0 => line.strip_prefix(['-', '+', '*'])?,
        1..=9 => line.get(digits..)?.strip_prefix(['.', ')'])?,
        _ => return None,
    };
    after.is_empty().then_some(after).or_else(|| after.starts_with(char::is_whitespace).then_some(after))
}

/// Returns whether a line is a thematic break (a horizontal rule), such as `- - -`.
fn is_thematic_break(line: &str) -> bool {
    let mark = line.chars().next();
    matches!(mark, Some('-' | '*'))
        && line.matches(['-', '*']).count() > 2
        && line.chars().all(|c| Some(c) == mark || c.is_whitespace())
}

/// Parses a text into the events of the Markdown parser, for the board and for the search for mentions.
///
/// The text must have [line feeds](with_line_feeds) as line endings. Only [the first
/// lines](truncate_at_deep_nesting) are parsed if a line nests too many containers.
pub(crate) fn parse_events(text: &str) -> OffsetIter<'_> {
    let text = truncate_at_deep_nesting(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(text, options).into_offset_iter()
}

/// A part of a Markdown text: a block or inline element, with its child elements.
#[derive(Debug)]
pub(super) struct MarkdownPart {
    pub kind: PartKind,
    /// Range of the part in the source text.
    pub source: Range<usize>,
    pub children: Vec<MarkdownPart>,
}

impl MarkdownPart {
    /// Returns the HTML source of this part, or `None` if this part is not HTML.
    pub fn html(&self) -> Option<&str> {
        match &self.kind {
            PartKind::Html(html) => Some(html),
            _ => None,
        }
    }
}

/// Kind of a Markdown part, with the data that depends on the kind.
#[derive(Debug)]
pub(super) enum PartKind {
    Paragraph,
    Heading(u8),
    Quote,
    Rule,
    /// A list. An ordered list has the number of its first item.
    List(Option<u64>),
    /// A list item. A task has the state of its checkbox.
    Item(Option<bool>),
    /// A code block: the info string, and the text including the last line break.
    CodeBlock(String, String),
    Table(Vec<Alignment>),
    Row,
    Cell,
    HtmlBlock,
    Html(String),
    Text(TextRun),
    /// Source that is displayed unchanged because it exceeds a limit, or because CommonMark does not display
    /// it.
    Source,
    /// Source of reference definitions, which is displayed unchanged because CommonMark does not display it.
    Definitions,
    Code(String),
    Strong,
    Emphasis,
    Strike,
    Link(LinkTarget),
    Image(LinkTarget),
    SoftBreak,
    HardBreak,
}

/// The target of a link or an image.
#[derive(Debug)]
pub(super) struct LinkTarget {
    /// The address as browsers parse it, or `None` if the display rules do not allow a link to this address.
    pub href: Option<String>,
    /// The address as written in the text.
    #[cfg_attr(not(test), expect(dead_code, reason = "the examples of CommonMark have all addresses"))]
    pub url: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "the examples of CommonMark have titles"))]
    pub title: String,
}

impl PartKind {
    /// Returns the number of tree levels that this part needs together with its possible children, or `None`
    /// if it cannot have children.
    fn required_levels(&self) -> Option<usize> {
        match self {
            Self::Table(_) => Some(4),
            Self::List(_) | Self::Row => Some(3),
            Self::Rule
            | Self::Html(_)
            | Self::Text(_)
            | Self::Source
            | Self::Definitions
            | Self::Code(_)
            | Self::SoftBreak
            | Self::HardBreak => None,
            Self::CodeBlock(..) => Some(1),
            _ => Some(2),
        }
    }

    /// Returns the maximum number of nodes for this part, not counting its children.
    pub fn max_nodes(&self) -> usize {
        match self {
            // If the target is not allowed, the source before and after the link text. Otherwise, the link
            // and a text node with its address.
            Self::Link(_) | Self::Image(_) => 2,
            // The text of a line, and a line break.
            Self::Html(_) => 2,
            // A paragraph, and its text.
            Self::Definitions => 2,
            _ => 1,
        }
    }

    /// Returns whether this part is an inline element that can have children.
    pub fn is_inline_container(&self) -> bool {
        matches!(self, Self::Strong | Self::Emphasis | Self::Strike | Self::Link(_) | Self::Image(_))
    }
}

/// A run of text, which may consist of pieces from different ranges of the source.
#[derive(Debug, Default)]
pub(super) struct TextRun {
    pub text: String,
    pieces: Vec<RunPiece>,
}

/// A piece of a [`TextRun`] from one range of the source.
#[derive(Debug)]
struct RunPiece {
    /// Position of the piece in the text of the run.
    start: usize,
    source: Range<usize>,
    /// Whether the text of the piece differs from its source, for example for an entity such as `&amp;`.
    differs_from_source: bool,
}

impl TextRun {
    /// Creates a run whose text equals a range of the source.
    pub fn from_source(text: &str, source: Range<usize>) -> Self {
        let text = text.get(source.clone()).unwrap_or_default().to_owned();
        Self { text, pieces: vec![RunPiece { start: 0, source, differs_from_source: false }] }
    }

    /// Appends text from a range of the source.
    fn push(&mut self, text: &str, source: Range<usize>, differs_from_source: bool) {
        let start = self.text.len();
        self.text.push_str(text);
        match self.pieces.last_mut() {
            Some(last)
                if !last.differs_from_source && !differs_from_source && last.source.end == source.start =>
            {
                last.source.end = source.end;
            }
            _ => self.pieces.push(RunPiece { start, source, differs_from_source }),
        }
    }

    /// Maps a position in the source to a position in the text. Returns `None` if the text differs from the
    /// source there.
    pub fn text_position(&self, source_position: usize) -> Option<usize> {
        let index = self.pieces.partition_point(|piece| piece.source.end <= source_position);
        let piece = self.pieces.get(index).filter(|piece| !piece.differs_from_source)?;
        Some(piece.start.saturating_add(source_position.checked_sub(piece.source.start)?))
    }

    /// Returns the position at which the text continues after a position in the source.
    pub fn next_text_position(&self, source_position: usize) -> usize {
        let index = self.pieces.partition_point(|piece| piece.source.end <= source_position);
        match self.pieces.get(index) {
            None => self.text.len(),
            Some(piece) if piece.differs_from_source => piece.start,
            Some(piece) => piece.start.saturating_add(source_position.saturating_sub(piece.source.start)),
        }
    }

    /// Returns whether the run ends after a position in the source.
    pub fn ends_after(&self, source_position: usize) -> bool {
        self.pieces.last().is_some_and(|last| last.source.end > source_position)
    }

    /// Returns the beginning of the entity that ends at a position in the text, or `None` if no entity ends
    /// there.
    pub fn find_entity_before(&self, end: usize) -> Option<usize> {
        let index = self.pieces.partition_point(|piece| piece.start < end).checked_sub(1)?;
        let next = self.pieces.get(index.saturating_add(1)).map_or(self.text.len(), |piece| piece.start);
        self.pieces
            .get(index)
            .filter(|piece| piece.differs_from_source && next == end)
            .map(|piece| piece.start)
    }
}

/// Parses a text into its Markdown parts. The lines of the text must end with line feeds.
///
/// Without mentions and bare addresses, the parts need no more nodes than a tree may have.
pub(super) fn parse_parts(text: &str) -> Vec<MarkdownPart> {
    // Some nodes are reserved for the paragraph that contains the rest of the text.
    let nodes_left = MARKDOWN_NODES_MAX.saturating_sub(MARKDOWN_NODES_MIN);
    let href_bytes_left =
        text.len().saturating_mul(MARKDOWN_HREF_BYTES_PER_BYTE).saturating_add(MARKDOWN_HREF_BYTES_MIN);
    let mut builder = PartsBuilder {
        text,
        open_parts: Vec::new(),
        roots: Vec::new(),
        nodes_left,
        href_bytes_left,
        processed_end: 0,
    };
    let rest = builder.build();
    builder.add_rest(rest);
    builder.roots
}

/// Position in the source at which the rest begins: the text that is not parsed because a limit was reached.
type RestStart = usize;

/// Builds the tree of [`MarkdownPart`]s from the parser's events.
struct PartsBuilder<'t> {
    text: &'t str,
    /// The parts that are still open. Each part is a child of the part before it.
    open_parts: Vec<MarkdownPart>,
    roots: Vec<MarkdownPart>,
    /// Number of nodes that may still be added.
    nodes_left: usize,
    /// Number of bytes of addresses that may still be added.
    href_bytes_left: usize,
    /// Source offset up to which the text has been processed: the end of the last part, or the start of the
    /// container that was opened last.
    processed_end: usize,
}

impl PartsBuilder<'_> {
    /// Adds parts until a limit is reached. Returns the position at which the rest of the source begins, or
    /// `None` if the parts cover the whole source.
    fn build(&mut self) -> Option<RestStart> {
        // Number of open containers inside a part that is displayed as source.
        let mut skipped = 0_usize;
        for (event, source) in parse_events(self.text) {
            match event {
                Event::Start(_) if skipped > 0 => skipped = skipped.saturating_add(1),
                Event::End(_) if skipped > 0 => skipped = skipped.saturating_sub(1),
                _ if skipped > 0 => {}
                event => match self.add_event(event, source) {
                    AddOutcome::Added => {}
                    AddOutcome::AddedAsSource => skipped = 1,
                    AddOutcome::LimitReached(rest) => return Some(rest),
                },
            }
        }
        let parsed = truncate_at_deep_nesting(self.text).len();
        let rest = (parsed < self.text.len()).then_some(parsed);
        self.add_definitions_before(parsed).err().or(rest)
    }

    /// Adds the part of an event of the parser, together with the unparsed source before the event.
    fn add_event(&mut self, event: Event<'_>, source: Range<usize>) -> AddOutcome {
        let Range { start, end } = source;
        let is_end = matches!(event, Event::End(_));
        let shown = match event {
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => self.add_excess_cells(end),
            _ => self.add_definitions_before(if is_end { end } else { start }),
        };
        if let Err(rest) = shown {
            return AddOutcome::LimitReached(rest);
        }
        let processed_end = match event {
            Event::Start(_) => start,
            _ => end,
        };
        self.processed_end = self.processed_end.max(processed_end);
        match event {
            Event::End(_) => self.close_part(),
            Event::Text(text) => {
                if !self.add_text(&text, source) {
                    return AddOutcome::LimitReached(start);
                }
            }
            Event::TaskListMarker(is_checked) => self.set_checkbox(is_checked),
            event => {
                if let Some(kind) = self.part_kind(event) {
                    return self.add_part(kind, source);
                }
            }
        }
        AddOutcome::Added
    }

    /// Adds the reference definitions before a position, if the open part may contain reference definitions.
    ///
    /// The parser has no events for reference definitions. Fails with the position of the definitions if they
    /// exceed a limit.
    fn add_definitions_before(&mut self, position: usize) -> Result<(), RestStart> {
        let contains_blocks = |part: &MarkdownPart| {
            matches!(part.kind, PartKind::Quote | PartKind::List(_) | PartKind::Item(_))
        };
        if !self.open_parts.last().is_none_or(contains_blocks) {
            return Ok(());
        }
        // The text before the definitions consists of the markers of quotes and list items.
        let between = self.text.get(self.processed_end..position).unwrap_or_default();
        let begins = |(at, _): &(usize, &str)| !begins_with_checkbox(between.get(*at..).unwrap_or_default());
        let Some((begin, _)) = between.match_indices('[').find(begins) else { return Ok(()) };
        let start = self.processed_end.saturating_add(begin);
        let shown = between.get(begin..).unwrap_or_default();
        let shown = shown.trim_end_matches(|c: char| c.is_whitespace() || c == '>');
        let kind = if self.level() < MARKDOWN_LEVELS_MAX { PartKind::Definitions } else { PartKind::Source };
        self.add_source(kind, start..start.saturating_add(shown.len()))
    }

    /// Adds the source of excess cells of a table row, for which the table has no column, to the row's last
    /// cell.
    fn add_excess_cells(&mut self, row_end: usize) -> Result<(), RestStart> {
        let beyond = self.text.get(self.processed_end..row_end).unwrap_or_default();
        let is_mark = |c: char| c.is_whitespace() || c == '|';
        if beyond.trim_matches(is_mark).is_empty() {
            return Ok(());
        }
        let end = self.processed_end.saturating_add(beyond.trim_end().len());
        let Some(cell) = self.open_parts.last_mut().and_then(|row| row.children.pop()) else { return Ok(()) };
        let start = cell.children.last().map_or(self.processed_end, |last| last.source.end);
        let source = start..end;
        self.open_parts.push(cell);
        let added = self.add_source(PartKind::Source, source);
        self.close_part();
        added
    }

    /// Adds a range of the source as a part without children. Fails if the limit on nodes would be exceeded.
    fn add_source(&mut self, kind: PartKind, source: Range<usize>) -> Result<(), RestStart> {
        if !self.reserve_nodes(kind.max_nodes()) {
            return Err(source.start);
        }
        self.processed_end = source.end;
        self.siblings().push(MarkdownPart { kind, source, children: Vec::new() });
        Ok(())
    }

    /// Returns the level of the tree at which the next part will be added.
    fn level(&self) -> usize {
        self.open_parts.len().saturating_add(1)
    }

    /// Returns the list to which the next part will be added: the children of the innermost open part, or the
    /// roots.
    fn siblings(&mut self) -> &mut Vec<MarkdownPart> {
        match self.open_parts.last_mut() {
            Some(parent) => &mut parent.children,
            None => &mut self.roots,
        }
    }

    /// Reserves a number of nodes. Returns false, and reserves nothing, if the limit on nodes would be
    /// exceeded.
    fn reserve_nodes(&mut self, nodes: usize) -> bool {
        let left = self.nodes_left.checked_sub(nodes);
        self.nodes_left = left.unwrap_or(self.nodes_left);
        left.is_some()
    }

    /// Adds a part, which stays open if it can have children.
    fn add_part(&mut self, kind: PartKind, source: Range<usize>) -> AddOutcome {
        let levels = kind.required_levels();
        let last = self.level().saturating_add(levels.unwrap_or(1)).saturating_sub(1);
        let is_too_deep = levels.is_some() && last > MARKDOWN_LEVELS_MAX;
        let (kind, levels) = if is_too_deep { (PartKind::Source, None) } else { (kind, levels) };
        let is_source = matches!(kind, PartKind::Source);
        if !self.reserve_nodes(kind.max_nodes()) {
            return AddOutcome::LimitReached(source.start);
        }
        if is_source {
            self.processed_end = self.processed_end.max(source.end);
        }
        let part = MarkdownPart { kind, source, children: Vec::new() };
        match levels {
            Some(_) => self.open_parts.push(part),
            None => self.siblings().push(part),
        }
        if is_source { AddOutcome::AddedAsSource } else { AddOutcome::Added }
    }

    /// Adds text to the preceding text, to the open code block, or as a new part. Returns false if a new part
    /// would exceed the limits.
    fn add_text(&mut self, text: &str, source: Range<usize>) -> bool {
        if let Some(MarkdownPart { kind: PartKind::CodeBlock(_, code), .. }) = self.open_parts.last_mut() {
            code.push_str(text);
            return true;
        }
        let differs_from_source = self.text.get(source.clone()) != Some(text);
        if let Some(MarkdownPart { kind: PartKind::Text(run), source: whole, .. }) =
            self.siblings().last_mut()
        {
            whole.end = source.end;
            run.push(text, source, differs_from_source);
            return true;
        }
        if !self.reserve_nodes(1) {
            return false;
        }
        let mut run = TextRun::default();
        run.push(text, source.clone(), differs_from_source);
        self.siblings().push(MarkdownPart { kind: PartKind::Text(run), source, children: Vec::new() });
        true
    }

    /// Sets the state of the checkbox of the innermost open list item.
    fn set_checkbox(&mut self, is_checked: bool) {
        let item = self.open_parts.iter_mut().rev().find_map(|part| match &mut part.kind {
            PartKind::Item(checked) => Some(checked),
            _ => None,
        });
        if let Some(checked) = item {
            *checked = Some(is_checked);
        }
    }

    /// Closes the innermost open part.
    fn close_part(&mut self) {
        if let Some(part) = self.open_parts.pop() {
            self.siblings().push(part);
        }
    }

    /// Closes all open parts. If there is a rest of the source, adds it unchanged in a paragraph.
    fn add_rest(&mut self, rest: Option<RestStart>) {
        let Some(mut rest) = rest else { return };
        // Open inline parts, and open parts without children, are added to the rest.
        let belongs_to_rest =
            |part: &mut MarkdownPart| part.kind.is_inline_container() || part.children.is_empty();
        while let Some(part) = self.open_parts.pop_if(belongs_to_rest) {
            rest = part.source.start;
        }
        while !self.open_parts.is_empty() {
            self.close_part();
        }
        let source = rest..self.text.len();
        let shown = MarkdownPart { kind: PartKind::Source, source: source.clone(), children: Vec::new() };
        self.roots.push(MarkdownPart { kind: PartKind::Paragraph, source, children: vec![shown] });
    }

    /// Returns the kind of the part that an event begins. Returns `None` for events that the parser's options
    /// exclude.
    fn part_kind(&mut self, event: Event<'_>) -> Option<PartKind> {
        let tag = match event {
            Event::Start(tag) => tag,
            Event::Code(text) => return Some(PartKind::Code(text.into_string())),
            Event::Html(text) | Event::InlineHtml(text) => return Some(PartKind::Html(text.into_string())),
            Event::SoftBreak => return Some(PartKind::SoftBreak),
            Event::HardBreak => return Some(PartKind::HardBreak),
            Event::Rule => return Some(PartKind::Rule),
            _ => return None,
        };
        Some(match tag {
            Tag::Heading { level, .. } => PartKind::Heading(heading_level(level)),
            Tag::BlockQuote(_) => PartKind::Quote,
            Tag::CodeBlock(CodeBlockKind::Fenced(info)) => {
                PartKind::CodeBlock(info.into_string(), String::new())
            }
            Tag::CodeBlock(CodeBlockKind::Indented) => PartKind::CodeBlock(String::new(), String::new()),
            Tag::HtmlBlock => PartKind::HtmlBlock,
            Tag::List(start) => PartKind::List(start),
            Tag::Item => PartKind::Item(None),
            Tag::Table(align) => PartKind::Table(align),
            Tag::TableHead | Tag::TableRow => PartKind::Row,
            Tag::TableCell => PartKind::Cell,
            Tag::Emphasis => PartKind::Emphasis,
            Tag::Strong => PartKind::Strong,
            Tag::Strikethrough => PartKind::Strike,
            Tag::Link { link_type, dest_url, title, .. } => {
                let is_email = link_type == LinkType::Email;
                self.link_target(&dest_url, &title, is_email).map_or(PartKind::Source, PartKind::Link)
            }
            Tag::Image { dest_url, title, .. } => {
                self.link_target(&dest_url, &title, false).map_or(PartKind::Source, PartKind::Image)
            }
            _ => PartKind::Paragraph,
        })
    }

    /// Returns the target of a link, or `None` if the link addresses of the tree would exceed their limit in
    /// bytes.
    fn link_target(&mut self, url: &str, title: &str, is_email: bool) -> Option<LinkTarget> {
        self.href_bytes_left = self.href_bytes_left.checked_sub(url.len())?;
        let url = if is_email { format!("mailto:{url}") } else { url.to_owned() };
        let href = allowed_href(&url);
        // The address counts twice, because it may also be the text of the link.
        let bytes = href.as_ref().map_or(0, String::len).saturating_mul(2);
        self.href_bytes_left = self.href_bytes_left.checked_sub(bytes.saturating_sub(url.len()))?;
        Some(LinkTarget { href, url, title: title.to_owned() })
    }
}

/// Result of adding a part to the tree.
enum AddOutcome {
    Added,
    /// The part was added as source, because it would be too deep or exceed the limit on link addresses.
    AddedAsSource,
    /// The part, or the source before it, would exceed the limit on nodes. The rest of the source begins at
    /// this position.
    LimitReached(RestStart),
}

/// Returns whether a text that begins with `[` begins with a task checkbox, not with the label of a reference
/// definition.
fn begins_with_checkbox(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    let has_state = chars.next().is_some_and(|c| c.is_whitespace() || matches!(c, 'x' | 'X'));
    has_state && chars.next() == Some(']') && chars.next().is_none_or(char::is_whitespace)
}

fn heading_level(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// Returns an address as browsers parse it, or `None` if the display rules do not allow a link to this
/// address.
pub(super) fn allowed_href(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let is_allowed = matches!(url.scheme(), "http" | "https" | "mailto" | "svc");
    // A reader could mistake a user name before the `@` for the host.
    let is_plain = url.username().is_empty() && url.password().is_none();
    (is_allowed && is_plain).then(|| url.into())
}
