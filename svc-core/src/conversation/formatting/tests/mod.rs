//! Tests of Markdown trees: examples of GFM, mutated texts, and hostile texts.

mod forms;

use proptest::prelude::ProptestConfig;
use proptest::{prop_assert_eq, proptest};
use pulldown_cmark::Event;

use crate::conversation::markdown::{Node, ParsedTree, parse_events, with_line_feeds};
use crate::conversation::mentions::reached_among;
use crate::id::MemberId;
use crate::limits::{MARKDOWN_LEVELS_MAX, MARKDOWN_NODES_MAX};
use crate::strangers;

const ADA: &str = "00000000-0000-7000-8000-000000000001";
const BOB: &str = "00000000-0000-7000-8000-000000000002";
const ODD: &str = "00000000-0000-7000-8000-000000000003";

/// Returns the handles and the ids of the members that the test texts mention.
fn members() -> [(&'static str, MemberId); 3] {
    [("ada", ADA), ("bob", BOB), ("a*b*c", ODD)].map(|(handle, id)| (handle, id.parse().unwrap()))
}

fn formatted(text: &str) -> Vec<Node> {
    ParsedTree::parse(&with_line_feeds(text)).build_tree(&reached_among(&members(), text).mentions)
}

/// Returns the depth of a tree of nodes.
fn levels(nodes: &[Node]) -> usize {
    nodes.iter().map(|node| 1 + levels(node.children())).max().unwrap_or(0)
}

fn count(nodes: &[Node]) -> usize {
    nodes.iter().map(|node| 1 + count(node.children())).sum()
}

#[track_caller]
fn check_bounds(nodes: &[Node], text: &str) {
    let begin: String = text.chars().take(200).collect();
    assert!(count(nodes) <= MARKDOWN_NODES_MAX, "{} nodes: {begin}", count(nodes));
    assert!(levels(nodes) <= MARKDOWN_LEVELS_MAX, "{} levels: {begin}", levels(nodes));
}

/// Collects the displayed text of nodes, and the members that the nodes mention, or `None` for groups.
fn collect_text(nodes: &[Node], said: &mut String, mentioned: &mut Vec<Option<MemberId>>) {
    for node in nodes {
        match node {
            Node::Text { text } | Node::Code { text } | Node::CodeBlock { text, .. } => said.push_str(text),
            Node::Mention { text, member } => {
                said.push_str(text);
                mentioned.push(*member);
            }
            node => collect_text(node.children(), said, mentioned),
        }
    }
}

/// Returns the first character that CommonMark displays but that the tree lacks, or `None`.
fn lost(text: &str, said: &str) -> Option<char> {
    let mut shown = said.chars();
    let text = with_line_feeds(text);
    let texts = parse_events(&text).filter_map(|(event, _)| match event {
        Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => Some(text),
        _ => None,
    });
    let chars: Vec<char> = texts.flat_map(|text| text.chars().collect::<Vec<_>>()).collect();
    chars.into_iter().filter(|c| !c.is_whitespace()).find(|c| !shown.any(|other| other == *c))
}

/// Number of mutated texts, unless an environment variable sets another number.
const MUTATED: u32 = 10_000;

/// Fragments from which mutated texts are built.
const PIECES: [&str; 73] = [
    "@ada",
    "@bob",
    "@a*b*c",
    "@here",
    "@nobody",
    "＠ada",
    "@",
    "a",
    "word ",
    " ",
    "  ",
    "    ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\\",
    "*",
    "**",
    "_",
    "__",
    "~",
    "~~",
    "`",
    "``",
    "```",
    "\n```\n",
    "~~~\n",
    "[",
    "]",
    "(",
    ")",
    "](",
    "![",
    "<",
    ">",
    "\n> ",
    "\n- ",
    "\n1. ",
    "\n   ",
    "- [ ] ",
    "- [x] ",
    "#",
    "\n## ",
    "\n---\n",
    "\n===\n",
    "|",
    "\n|a|b|\n|-|:-:|\n|",
    "\\|",
    "http://",
    "https://x.example",
    "www.x.example",
    "svc://threads/1",
    "javascript:x",
    "a@x.example",
    "mailto:",
    "/@ada",
    "，",
    "。",
    "é",
    "木",
    "\u{301}",
    "\u{202e}",
    "&amp;",
    "&lt;",
    "<b>",
    "</b>",
    "\n<div>\n",
    "<!--",
    "-->",
    "[a]: https://x.example\n",
    "\"",
];

fn mutated() -> ProptestConfig {
    let inputs = strangers::inputs();
    let cases = inputs.cases.max(MUTATED.div_ceil(8));
    ProptestConfig { cases, ..inputs }
}

proptest! {
    #![proptest_config(mutated())]

    #[test]
    fn a_mutated_text_is_shown_whole_and_mentions_whom_the_notifier_reaches(
        texts in strangers::texts(&PIECES)
    ) {
        for text in texts {
            let reached = reached_among(&members(), &text);
            let nodes = ParsedTree::parse(&with_line_feeds(&text)).build_tree(&reached.mentions);
            check_bounds(&nodes, &text);
            let mut said = String::new();
            let mut mentioned = Vec::new();
            collect_text(&nodes, &mut said, &mut mentioned);
            let lost = lost(&text, &said);
            prop_assert_eq!(lost, None, "{:?} says {:?}", text, said);
            let wanted: Vec<_> = reached.mentions.iter().map(|mention| mention.member).collect();
            prop_assert_eq!(mentioned, wanted, "{:?}", text);
            let plain = with_line_feeds(&text);
            prop_assert_eq!(formatted(&plain.replace('\n', "\r")), formatted(&plain), "{:?}", text);
        }
    }
}

/// Length of a hostile text, in bytes.
const HOSTILE: usize = 100_000;

/// Fragments that hostile texts consist of, each repeated many times.
const REPEATED: [&str; 46] = [
    "\u{301}",
    "\u{202e}",
    "\u{0}",
    "\u{1}",
    "[",
    "]",
    "![",
    "[]",
    "[a](",
    "[a](b",
    "](",
    "[[]]",
    "<",
    "<a ",
    "<!--",
    "<?",
    "<![CDATA[",
    ">",
    "> ",
    "`",
    "`a``",
    "*",
    "*a",
    "a*",
    "**a* ",
    "_a",
    "*a_",
    "~",
    "~a~~",
    "\\",
    "&",
    "&amp;",
    "|",
    "|a|\n",
    "- ",
    "1. ",
    "\n- ",
    "#",
    "\"",
    "'",
    "www.",
    "https://",
    "http://a.",
    "a@a.",
    "@ada ",
    "[a]: b\n",
];

fn hostile() -> Vec<String> {
    let mut texts: Vec<String> =
        REPEATED.iter().map(|repeated| repeated.repeat(HOSTILE / repeated.len())).collect();
    let table = |columns: usize, rows: usize| {
        let row = |cell: &str| format!("{}\n", cell.repeat(columns));
        format!("{}{}{}", row("|a"), row("|-"), row("|b").repeat(rows))
    };
    let nested = |mark: &str, levels: usize| -> String {
        (0..levels).map(|level| format!("{}{mark}x\n", "  ".repeat(level))).collect()
    };
    let runs: String = (1..440).map(|length| format!("a{}", "`".repeat(length))).collect();
    texts.extend([
        table(300, 100),
        table(3, 10_000),
        table(30_000, 1),
        format!("{}{}", table(5000, 0), "|\n".repeat(40_000)),
        nested("- ", 300),
        nested("1. ", 300),
        format!("{}a", "> ".repeat(HOSTILE / 2)),
        format!("{}\n", "> ".repeat(200)).repeat(HOSTILE / 400),
        format!("{}{}", "[".repeat(HOSTILE / 2), "]".repeat(HOSTILE / 2)),
        format!("{}a{}", "*".repeat(HOSTILE / 2), "*".repeat(HOSTILE / 2)),
        format!("{}a{}", "**a ".repeat(HOSTILE / 8), " a**".repeat(HOSTILE / 8)),
        format!("{}{}", "[a](<b".repeat(HOSTILE / 6), ">)"),
        format!("{}b", "a**b".repeat(HOSTILE / 4)),
        format!("[a]: b\n\n{}", "[a]".repeat(HOSTILE / 3)),
        format!("[a]: {}\n\n{}", "b".repeat(HOSTILE / 2), "[a]".repeat(HOSTILE / 6)),
        format!("https://a.example/{}", "(".repeat(HOSTILE)),
        format!("https://a.example/{}", ")".repeat(HOSTILE)),
        "www._a.".repeat(HOSTILE / 7),
        "a\n".repeat(HOSTILE / 2),
        "**a**".repeat(HOSTILE / 5),
        "a https://x.example/b ".repeat(HOSTILE / 22),
        "<b>\n".repeat(HOSTILE / 4),
        runs,
    ]);
    texts
}

#[test]
fn a_hostile_text_gives_a_bounded_tree_that_shows_all_of_it() {
    for text in hostile() {
        let nodes = formatted(&text);
        check_bounds(&nodes, &text);
        let mut said = String::new();
        collect_text(&nodes, &mut said, &mut Vec::new());
        let begin: String = text.chars().take(50).collect();
        assert_eq!(lost(&text, &said), None, "{begin}");
        // Each use of a reference definition repeats its address.
        let bytes = serde_json::to_vec(&nodes).unwrap().len();
        assert!(bytes < 8 * HOSTILE + 60 * MARKDOWN_NODES_MAX, "{begin}: {bytes} bytes");
    }
}

#[test]
fn the_beginning_of_a_long_text_keeps_its_mentions_and_links() {
    for rest in ["a\n", "*a* ", "<b>\n", "- a\n", "> a\n\n", "|a|\n|-|\n|b|\n\n", "**@bob b** "] {
        let text = format!("@ada https://x.example\n\n{}", rest.repeat(6000));
        let nodes = formatted(&text);
        check_bounds(&nodes, &text);
        let mut said = String::new();
        let mut mentioned = Vec::new();
        collect_text(&nodes, &mut said, &mut mentioned);
        assert_eq!(mentioned.first(), Some(&Some(ADA.parse().unwrap())), "{rest}");
        assert!(matches!(nodes[0].children(), [Node::Mention { .. }, Node::Text { .. }, Node::Link { .. }]));
        assert_eq!(lost(&text, &said), None, "{rest}");
        let Some(Node::Paragraph { children }) = nodes.last() else { panic!("{rest}") };
        let [Node::Text { text: last }] = &**children else { panic!("{rest}") };
        assert!(text.ends_with(last) && last.len() > 1000, "{rest}");
    }
}

#[test]
fn references_repeat_a_bounded_number_of_bytes() {
    for repeated in ["![][x]", "[a][x]", "[@ada][x] "] {
        for target in ["http://a.b/", "javascript:"] {
            let text = format!("[x]: {target}{}\n\n{}", "木".repeat(1600), repeated.repeat(5000));
            let nodes = formatted(&text);
            check_bounds(&nodes, &text);
            let bytes = serde_json::to_vec(&nodes).unwrap().len();
            assert!(bytes < 5 * text.len() + (64 << 10) + 60 * MARKDOWN_NODES_MAX, "{repeated}: {bytes}");
            let mut said = String::new();
            collect_text(&nodes, &mut said, &mut Vec::new());
            assert!(said.ends_with(repeated.trim()), "{repeated}");
        }
    }
}
