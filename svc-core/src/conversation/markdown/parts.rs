//! The parts of a text: what CommonMark and GFM make of it, before the rules of what is shown.

use std::ops::Range;

use pulldown_cmark::{
    Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, OffsetIter, Options, Parser, Tag,
};

use crate::limits::{MARKDOWN_LEVELS_MAX, MARKDOWN_NODES_MIN};

/// Parses a text, for whatever reads Markdown: what is shown is what is searched for mentions.
pub(crate) fn events(text: &str) -> OffsetIter<'_> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(text, options).into_offset_iter()
}

/// The parts of a text, and at most how many nodes they become.
pub(super) struct Parts<'t> {
    pub roots: Vec<Part<'t>>,
    pub nodes: usize,
}

/// A part of a text.
#[derive(Debug)]
pub(super) struct Part<'t> {
    pub kind: Kind<'t>,
    /// The place of its source.
    pub source: Range<usize>,
    pub children: Vec<Part<'t>>,
}

impl Part<'_> {
    /// Returns the HTML that it is, if it is that.
    pub fn html(&self) -> Option<&str> {
        match &self.kind {
            Kind::Html(html) => Some(html),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) enum Kind<'t> {
    Paragraph,
    Heading(u8),
    Quote,
    Rule,
    /// With its first number, if it is ordered.
    List(Option<u64>),
    /// With the state of its box, if it has one.
    Item(Option<bool>),
    /// With the info string, and with the text as it is before its last line break is removed.
    CodeBlock(CowStr<'t>, String),
    Table(Vec<Alignment>),
    Row,
    Cell,
    HtmlBlock,
    Html(CowStr<'t>),
    Text(Run),
    /// Source that is beyond a bound.
    Source,
    Code(CowStr<'t>),
    Strong,
    Emphasis,
    Strike,
    Link(Target<'t>),
    Image(Target<'t>),
    SoftBreak,
    HardBreak,
}

/// Where a link or an image leads.
#[derive(Debug)]
pub(super) struct Target<'t> {
    pub url: CowStr<'t>,
    #[cfg_attr(not(test), expect(dead_code, reason = "the examples of CommonMark have titles"))]
    pub title: CowStr<'t>,
    pub is_email: bool,
}

impl Kind<'_> {
    /// Returns whether it can hold other parts, and how many levels it needs at least with them.
    fn levels(&self) -> Option<usize> {
        match self {
            Self::Table(_) => Some(4),
            Self::List(_) | Self::Row => Some(3),
            Self::Rule
            | Self::Html(_)
            | Self::Text(_)
            | Self::Source
            | Self::Code(_)
            | Self::SoftBreak
            | Self::HardBreak => None,
            Self::CodeBlock(..) => Some(1),
            _ => Some(2),
        }
    }

    /// Returns how many nodes it becomes at most, without its children.
    fn nodes(&self) -> usize {
        match self {
            // The text before and after it, if it leads nowhere; or it and its address.
            Self::Link(_) | Self::Image(_) => 2,
            // A line and its end.
            Self::Html(_) => 2,
            _ => 1,
        }
    }

    /// Returns whether it is part of a line.
    fn is_inline(&self) -> bool {
        matches!(self, Self::Strong | Self::Emphasis | Self::Strike | Self::Link(_) | Self::Image(_))
    }
}

/// Text without a break, and where its pieces are in the source.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub text: String,
    pieces: Vec<Piece>,
}

/// A piece of a run.
#[derive(Debug)]
struct Piece {
    /// Its place in the text.
    at: usize,
    source: Range<usize>,
    /// The text is other than its source, such as for an entity.
    is_other: bool,
}

impl Run {
    /// Returns the run of a source that is text as it is.
    pub fn of_source(text: &str, source: Range<usize>) -> Self {
        let text = text.get(source.clone()).unwrap_or_default().to_owned();
        Self { text, pieces: vec![Piece { at: 0, source, is_other: false }] }
    }

    fn push(&mut self, text: &str, source: Range<usize>, is_other: bool) {
        let at = self.text.len();
        self.text.push_str(text);
        match self.pieces.last_mut() {
            Some(last) if !last.is_other && !is_other && last.source.end == source.start => {
                last.source.end = source.end;
            }
            _ => self.pieces.push(Piece { at, source, is_other }),
        }
    }

    /// Returns where a character of the source is in the text, if it is there as it is.
    pub fn begins(&self, source: usize) -> Option<usize> {
        let index = self.pieces.partition_point(|piece| piece.source.end <= source);
        let piece = self.pieces.get(index).filter(|piece| !piece.is_other)?;
        Some(piece.at.saturating_add(source.checked_sub(piece.source.start)?))
    }

    /// Returns where the text goes on behind a place in the source.
    pub fn goes_on(&self, source: usize) -> usize {
        let index = self.pieces.partition_point(|piece| piece.source.end <= source);
        match self.pieces.get(index) {
            None => self.text.len(),
            Some(piece) if piece.is_other => piece.at,
            Some(piece) => piece.at.saturating_add(source.saturating_sub(piece.source.start)),
        }
    }

    /// Returns whether a place in the source is before the end of the text.
    pub fn is_past(&self, source: usize) -> bool {
        self.pieces.last().is_some_and(|last| last.source.end > source)
    }

    /// Returns where the entity begins that ends at a place in the text, if one does.
    pub fn entity_before(&self, end: usize) -> Option<usize> {
        let index = self.pieces.partition_point(|piece| piece.at < end).checked_sub(1)?;
        let next = self.pieces.get(index.saturating_add(1)).map_or(self.text.len(), |piece| piece.at);
        self.pieces.get(index).filter(|piece| piece.is_other && next == end).map(|piece| piece.at)
    }
}

/// Returns the parts of a text, which become no more than so many nodes.
pub(super) fn parts(text: &str, nodes_max: usize) -> Parts<'_> {
    // The rest of the text is a paragraph.
    let most = nodes_max.saturating_sub(MARKDOWN_NODES_MIN);
    let mut builder = Builder { text, open: Vec::new(), roots: Vec::new(), nodes: 0, most };
    let rest = builder.build();
    builder.end(rest);
    Parts { roots: builder.roots, nodes: builder.nodes }
}

/// Parts while they are being made.
struct Builder<'t> {
    text: &'t str,
    /// Those that are not closed yet, each in the one before.
    open: Vec<Part<'t>>,
    roots: Vec<Part<'t>>,
    nodes: usize,
    most: usize,
}

impl<'t> Builder<'t> {
    /// Adds parts until there are too many, and returns where in the source those begin.
    fn build(&mut self) -> Option<usize> {
        // How many containers are open that are shown as their source.
        let mut skipped = 0_usize;
        for (event, source) in events(self.text) {
            match event {
                Event::Start(_) if skipped > 0 => skipped = skipped.saturating_add(1),
                Event::End(_) if skipped > 0 => skipped = skipped.saturating_sub(1),
                _ if skipped > 0 => {}
                Event::End(_) => self.close(),
                Event::Text(text) => {
                    if !self.add_text(&text, source.clone()) {
                        return Some(source.start);
                    }
                }
                Event::TaskListMarker(is_checked) => self.check(is_checked),
                event => {
                    let Some(kind) = kind_of(event) else { continue };
                    let at = source.start;
                    match self.add(kind, source) {
                        Added::Yes => {}
                        Added::AsSource => skipped = 1,
                        Added::No => return Some(at),
                    }
                }
            }
        }
        None
    }

    /// Returns the level of the next part.
    fn level(&self) -> usize {
        self.open.len().saturating_add(1)
    }

    fn siblings(&mut self) -> &mut Vec<Part<'t>> {
        match self.open.last_mut() {
            Some(parent) => &mut parent.children,
            None => &mut self.roots,
        }
    }

    fn has_room(&mut self, nodes: usize) -> bool {
        let after = self.nodes.saturating_add(nodes);
        let has_room = after <= self.most;
        if has_room {
            self.nodes = after;
        }
        has_room
    }

    fn add(&mut self, kind: Kind<'t>, source: Range<usize>) -> Added {
        let levels = kind.levels();
        let last = self.level().saturating_add(levels.unwrap_or(1)).saturating_sub(1);
        let is_too_deep = levels.is_some() && last > MARKDOWN_LEVELS_MAX;
        let (kind, levels) = if is_too_deep { (Kind::Source, None) } else { (kind, levels) };
        if !self.has_room(kind.nodes()) {
            return Added::No;
        }
        let part = Part { kind, source, children: Vec::new() };
        match levels {
            Some(_) => self.open.push(part),
            None => self.siblings().push(part),
        }
        if is_too_deep { Added::AsSource } else { Added::Yes }
    }

    /// Adds text to the one before it, or to the code that it is in.
    fn add_text(&mut self, text: &str, source: Range<usize>) -> bool {
        if let Some(Part { kind: Kind::CodeBlock(_, code), .. }) = self.open.last_mut() {
            code.push_str(text);
            return true;
        }
        let is_other = self.text.get(source.clone()) != Some(text);
        if let Some(Part { kind: Kind::Text(run), source: whole, .. }) = self.siblings().last_mut() {
            whole.end = source.end;
            run.push(text, source, is_other);
            return true;
        }
        if !self.has_room(1) {
            return false;
        }
        let mut run = Run::default();
        run.push(text, source.clone(), is_other);
        self.siblings().push(Part { kind: Kind::Text(run), source, children: Vec::new() });
        true
    }

    /// Sets the state of the box of the item that was opened last.
    fn check(&mut self, is_checked: bool) {
        let item = self.open.iter_mut().rev().find_map(|part| match &mut part.kind {
            Kind::Item(checked) => Some(checked),
            _ => None,
        });
        if let Some(checked) = item {
            *checked = Some(is_checked);
        }
    }

    fn close(&mut self) {
        if let Some(part) = self.open.pop() {
            self.siblings().push(part);
        }
    }

    /// Closes what is open, and adds the rest of the source as it is.
    fn end(&mut self, rest: Option<usize>) {
        let Some(mut rest) = rest else { return };
        // A part of a line that is not whole is of the rest, and so is what has nothing in it yet.
        let is_of_rest = |part: &mut Part<'_>| part.kind.is_inline() || part.children.is_empty();
        while let Some(part) = self.open.pop_if(is_of_rest) {
            rest = part.source.start;
        }
        while !self.open.is_empty() {
            self.close();
        }
        let source = rest..self.text.len();
        let shown = Part { kind: Kind::Source, source: source.clone(), children: Vec::new() };
        self.roots.push(Part { kind: Kind::Paragraph, source, children: vec![shown] });
        self.nodes = self.nodes.saturating_add(MARKDOWN_NODES_MIN);
    }
}

enum Added {
    Yes,
    /// It would be too deep: what it holds is in its source.
    AsSource,
    /// There is no room for it.
    No,
}

/// Returns what a part is that begins with an event, or is one; none for what these options do not make.
fn kind_of(event: Event<'_>) -> Option<Kind<'_>> {
    let tag = match event {
        Event::Start(tag) => tag,
        Event::Code(text) => return Some(Kind::Code(text)),
        Event::Html(text) | Event::InlineHtml(text) => return Some(Kind::Html(text)),
        Event::SoftBreak => return Some(Kind::SoftBreak),
        Event::HardBreak => return Some(Kind::HardBreak),
        Event::Rule => return Some(Kind::Rule),
        _ => return None,
    };
    Some(match tag {
        Tag::Heading { level, .. } => Kind::Heading(number(level)),
        Tag::BlockQuote(_) => Kind::Quote,
        Tag::CodeBlock(CodeBlockKind::Fenced(info)) => Kind::CodeBlock(info, String::new()),
        Tag::CodeBlock(CodeBlockKind::Indented) => Kind::CodeBlock("".into(), String::new()),
        Tag::HtmlBlock => Kind::HtmlBlock,
        Tag::List(start) => Kind::List(start),
        Tag::Item => Kind::Item(None),
        Tag::Table(align) => Kind::Table(align),
        Tag::TableHead | Tag::TableRow => Kind::Row,
        Tag::TableCell => Kind::Cell,
        Tag::Emphasis => Kind::Emphasis,
        Tag::Strong => Kind::Strong,
        Tag::Strikethrough => Kind::Strike,
        Tag::Link { link_type, dest_url: url, title, .. } => {
            Kind::Link(Target { url, title, is_email: link_type == LinkType::Email })
        }
        Tag::Image { dest_url: url, title, .. } => Kind::Image(Target { url, title, is_email: false }),
        _ => Kind::Paragraph,
    })
}

fn number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}
