//! The rules for the language of comments that a pattern can check.

use std::path::{Path, PathBuf};

use crate::house::rules::{none, sources};

/// First words of a summary that name neither a thing nor an action.
const RELATIVE: [&str; 7] = ["What", "Who", "Whoever", "Whom", "Where", "That", "Of"];

/// Phrases for which the field has a plainer one, and that one.
const PLAINER: &[(&str, &str)] = &[
    ("any more", "no longer"),
    ("anew", "again"),
    ("by then", "before that, until then"),
    ("heard of", "received from"),
    ("hears", "receives"),
    ("in the way", "conflicts with, blocks"),
    ("left out", "omitted"),
    ("lies in", "is stored in, is defined in"),
    ("meanwhile", "while"),
    ("most bytes", "maximum bytes"),
    ("none if", "returns `None` if"),
    ("nobody", "no member, no caller"),
    ("parcel", "delivery batch"),
    ("somebody", "a member, another process"),
    ("so many", "that number of"),
    ("stands in", "is stored in, is listed in"),
    ("told", "reported, notified"),
    ("whoever", "the caller, any member"),
];

/// The lines of comments, each with whether it begins a comment of documentation.
fn comments(text: &str) -> Vec<(usize, bool, String)> {
    let mut found = Vec::new();
    let mut before = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let kind = ["///", "//!", "//"].into_iter().find(|kind| line.starts_with(kind));
        if let Some(kind) = kind {
            let begins = kind != "//" && before != Some(kind);
            found.push((at + 1, begins, line[kind.len()..].trim().to_owned()));
        }
        before = kind;
    }
    found
}

/// Whether a line has a phrase as whole words, outside of code.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
    prose.match_indices(phrase).any(|(at, _)| {
        let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        is_edge(prose[..at].chars().next_back()) && is_edge(prose[at + phrase.len()..].chars().next())
    })
}

/// Returns a finding for each phrase in a line that has a plainer one.
fn plainer(place: &str, line: &str) -> Vec<String> {
    let odd = PLAINER.iter().filter(|(phrase, _)| has_phrase(line, phrase));
    odd.map(|(phrase, plain)| format!("{place}: \"{phrase}\": {plain}")).collect()
}

/// Returns whether a summary begins with a relative word.
fn begins_relative(summary: &str) -> bool {
    summary.split(' ').next().is_some_and(|first| RELATIVE.contains(&first))
}

/// A summary that begins with a relative clause has to be read twice.
#[test]
fn summaries_begin_with_a_verb_or_a_noun() {
    let control =
        comments("/// What is sent.\n/// Of two kinds.\nfn send() {\n    // Where it ends.\n}\n//! Sends.\n");
    let begins: Vec<bool> =
        control.iter().map(|(_, begins, text)| *begins && begins_relative(text)).collect();
    assert_eq!(begins, [true, false, false, false]);
    let mut findings = Vec::new();
    for source in sources() {
        for (line, begins, text) in comments(&source.text) {
            if begins && begins_relative(&text) {
                findings.push(format!("{}:{line}: {text}", source.path));
            }
        }
    }
    none(findings);
}

/// Coined and old-fashioned phrases cost each reader a moment.
#[test]
fn comments_use_the_words_of_the_field() {
    assert!(has_phrase("it is not sent any more, and", "any more"));
    assert!(!has_phrase("`told` is a field that many more have", "told"));
    assert!(!has_phrase("the newest untold story", "told"));
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| !source.path.ends_with("house/prose.rs")) {
        for (line, _, text) in comments(&source.text) {
            findings.extend(plainer(&format!("{}:{line}", source.path), &text));
        }
    }
    none(findings);
}

/// The manual, the README and the pages for developers follow the same rule.
#[test]
fn pages_use_the_words_of_the_field() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = ["man", "svc-core", "."].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let is_page = |path: &PathBuf| {
        let name = path.extension().unwrap_or_default();
        name == "md" || path.parent().is_some_and(|folder| folder.ends_with("man"))
    };
    let pages: Vec<PathBuf> = files.map(|file| file.unwrap().path()).filter(is_page).collect();
    assert!(pages.len() > 10, "{pages:?}");
    let mut findings = Vec::new();
    for page in pages {
        for (at, line) in std::fs::read_to_string(&page).unwrap().lines().enumerate() {
            // The manual lists tests by their names.
            let is_name = line.contains("::");
            let place = format!("{}:{}", page.display(), at + 1);
            findings.extend(plainer(&place, line).into_iter().filter(|_| !is_name));
        }
    }
    none(findings);
}
