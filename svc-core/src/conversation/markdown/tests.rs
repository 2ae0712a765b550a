//! Tests of the parser with the examples of the CommonMark specification, without the display rules.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;

use pulldown_cmark::{Event, Parser};

use super::parts::{LinkTarget, MarkdownPart, PartKind, parse_events, parse_parts, truncate_at_deep_nesting};

/// Environment variable with the path of the folder that contains the packages of tests/ui.
const PACKAGES: &str = "SVC_TEST_UI";

/// An example of the specification: a Markdown text, and the expected HTML.
struct Example {
    markdown: String,
    html: String,
}

/// Parses the examples of the specification. An arrow in an example represents a tab.
fn examples(spec: &str) -> Vec<Example> {
    let fence = "`".repeat(32);
    let begin = format!("{fence} example");
    let mut lines = spec.lines();
    let mut found = Vec::new();
    while lines.any(|line| line == begin) {
        let mut until = |end: &str| -> String {
            let lines = lines.by_ref().take_while(|line| *line != end);
            lines.map(|line| format!("{}\n", line.replace('→', "\t"))).collect()
        };
        found.push(Example { markdown: until("."), html: until(&fence) });
    }
    found
}

/// Writes Markdown parts as HTML, in the layout of the specification.
#[derive(Default)]
struct Html(String);

impl Html {
    /// Begins a new line of the HTML, unless the last line is empty.
    fn line(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with('\n') {
            self.0.push('\n');
        }
    }

    fn all(&mut self, parts: &[MarkdownPart]) {
        parts.iter().for_each(|part| self.part(part));
    }

    /// Writes an element with its children. If the element contains blocks, the children are on separate
    /// lines.
    fn block(&mut self, tag: &str, end: &str, has_blocks: bool, children: &[MarkdownPart]) {
        self.line();
        self.0.push_str(tag);
        if has_blocks {
            self.0.push('\n');
        }
        self.all(children);
        if has_blocks {
            self.line();
        }
        self.0.push_str(end);
        self.0.push('\n');
    }

    fn inline(&mut self, tag: &str, children: &[MarkdownPart]) {
        write!(self.0, "<{tag}>").unwrap();
        self.all(children);
        write!(self.0, "</{tag}>").unwrap();
    }

    fn part(&mut self, MarkdownPart { kind, children, .. }: &MarkdownPart) {
        match kind {
            PartKind::Paragraph => self.block("<p>", "</p>", false, children),
            PartKind::Heading(level) => {
                self.block(&format!("<h{level}>"), &format!("</h{level}>"), false, children);
            }
            PartKind::Quote => self.block("<blockquote>", "</blockquote>", true, children),
            PartKind::Rule => self.block("<hr />", "", false, children),
            PartKind::List(None) => self.block("<ul>", "</ul>", true, children),
            PartKind::List(Some(1)) => self.block("<ol>", "</ol>", true, children),
            PartKind::List(Some(start)) => {
                self.block(&format!("<ol start=\"{start}\">"), "</ol>", true, children);
            }
            PartKind::Item(_) => self.block("<li>", "</li>", false, children),
            PartKind::CodeBlock(info, text) => {
                let language = info.split_whitespace().next().map(escaped);
                let class = language.map(|name| format!(" class=\"language-{name}\"")).unwrap_or_default();
                self.block(&format!("<pre><code{class}>{}", escaped(text)), "</code></pre>", false, &[]);
            }
            PartKind::HtmlBlock => {
                self.line();
                self.all(children);
                self.line();
            }
            PartKind::Html(html) => self.0.push_str(html),
            PartKind::Text(run) => self.0.push_str(&escaped(&run.text)),
            PartKind::Code(text) => write!(self.0, "<code>{}</code>", escaped(text)).unwrap(),
            PartKind::Strong => self.inline("strong", children),
            PartKind::Emphasis => self.inline("em", children),
            PartKind::Link(target) => {
                let (href, title) = attributes(target);
                write!(self.0, "<a href=\"{href}\"{title}>").unwrap();
                self.all(children);
                self.0.push_str("</a>");
            }
            PartKind::Image(target) => {
                let (src, title) = attributes(target);
                let alt = escaped(&alt_text(children));
                write!(self.0, "<img src=\"{src}\" alt=\"{alt}\"{title} />").unwrap();
            }
            PartKind::Definitions => {}
            PartKind::SoftBreak => self.0.push('\n'),
            PartKind::HardBreak => self.0.push_str("<br />\n"),
            PartKind::Table(_) | PartKind::Row | PartKind::Cell | PartKind::Strike | PartKind::Source => {
                write!(self.0, "{kind:?}").unwrap();
            }
        }
    }
}

/// Returns the alternative text of an image: the text of its children.
fn alt_text(parts: &[MarkdownPart]) -> String {
    let says = |part: &MarkdownPart| match &part.kind {
        PartKind::Text(run) => run.text.clone(),
        PartKind::Code(text) => text.to_string(),
        _ => alt_text(&part.children),
    };
    parts.iter().map(says).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the address and title attributes of a link.
fn attributes(LinkTarget { url, title, .. }: &LinkTarget) -> (String, String) {
    let mut href = String::new();
    for byte in url.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b";/?:@&=+$,-_.!~*'()#%".contains(&byte) => {
                href.push(char::from(byte));
            }
            byte => write!(href, "%{byte:02X}").unwrap(),
        }
    }
    let title = if title.is_empty() { String::new() } else { format!(" title=\"{}\"", escaped(title)) };
    (escaped(&href), title)
}

#[test]
fn the_examples_of_commonmark_are_what_the_specification_makes_of_them() {
    let Some(packages) = std::env::var_os(PACKAGES) else {
        let in_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!in_ci, "CI must test the examples of CommonMark: set {PACKAGES}");
        eprintln!("SKIPPED the examples of CommonMark: {PACKAGES} is not set");
        return;
    };
    let spec = PathBuf::from(packages).join("node_modules/commonmark-spec/spec.txt");
    let spec = std::fs::read_to_string(&spec).expect("the packages of tests/ui/package-lock.json");
    let examples = examples(&spec);
    assert_eq!(examples.len(), 652);
    let mut findings = String::new();
    for (number, Example { markdown, html }) in (1..).zip(&examples) {
        let mut made = Html::default();
        made.all(&parse_parts(markdown));
        if made.0 != *html {
            write!(findings, "{number}: {markdown:?}\n  wanted {html:?}\n  is     {:?}\n", made.0).unwrap();
        }
    }
    assert!(findings.is_empty(), "\n{findings}");
}

/// Returns the maximum number of elements that are open at the same time in a text.
fn depth<'t>(events: impl Iterator<Item = (Event<'t>, Range<usize>)>) -> i32 {
    let mut depth = 0;
    events
        .map(|(event, _)| {
            depth += match event {
                Event::Start(_) => 1,
                Event::End(_) => -1,
                _ => 0,
            };
            depth
        })
        .max()
        .unwrap_or(0)
}

/// The parser takes time in proportion to the number of lines times the depth of the containers around the
/// lines.
#[test]
fn no_text_nests_containers_without_end() {
    for marker in ["- ", "> ", ">", "+ ", "1. ", "12) ", "* > ", "-\t"] {
        let line = format!("{}a\n", marker.repeat(1_000));
        let text = format!("{line}{}", "a\n".repeat(1_000));
        let control = depth(Parser::new(&text).into_offset_iter());
        assert!(control > 900, "{marker:?} nests {control} elements");
        assert_eq!(truncate_at_deep_nesting(&text), "", "{marker:?}");
        let wide = format!("first\n\n{text}");
        assert_eq!(truncate_at_deep_nesting(&wide), "first\n\n", "{marker:?}");
    }
    let steps: String = (0..400).map(|level| format!("{}- a\n", "  ".repeat(level))).collect();
    assert!(depth(Parser::new(&steps).into_offset_iter()) > 700);
    assert!(depth(parse_events(&steps)) < 300);
    for kept in [
        "- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - -\n",
        "* * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * *",
        "------------------------------------------------------------------------------------",
        "****************************************bold****************************************",
        "> > > > > > > > - - - - 1. a\n",
        "1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1",
        "",
    ] {
        assert_eq!(truncate_at_deep_nesting(kept), kept);
    }
}
