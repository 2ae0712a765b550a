//! Combines the style sheets of the board into one sheet, which contains each imported sheet instead of the
//! import.
//!
//! Without this, a browser would start to fetch imported sheets only after it has read the first sheet.

use std::collections::BTreeMap;

use super::script::{Result, length_of_text};

/// Name of the style sheet that the page loads, which imports all other style sheets.
const MAIN_SHEET: &str = "css/screens.css";

/// Combines style sheets, listed by file name, into one style sheet. Fails if a sheet is not imported.
pub(super) fn combine(sources: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let mut left = sources.clone();
    let mut sheet = String::new();
    inline_sheet(MAIN_SHEET, &mut left, &mut sheet)?;
    match left.into_keys().next() {
        Some(name) => Err(format!("{name} is imported by no sheet")),
        None => Ok([(MAIN_SHEET.to_owned(), sheet)].into()),
    }
}

fn inline_sheet(name: &str, left: &mut BTreeMap<String, String>, sheet: &mut String) -> Result<()> {
    let source = left.remove(name).ok_or_else(|| format!("{name} is no sheet, or is imported twice"))?;
    let mut rest = minify(&source).map_err(|wrong| format!("{name}: {wrong}"))?;
    while let Some((import, after)) = rest.strip_prefix("@import ").and_then(|rest| rest.split_once(';')) {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let file = import.trim_matches('"');
        if !file.chars().all(plain) {
            return Err(format!("{name} imports {import}, which is no file beside it"));
        }
        inline_sheet(&format!("{folder}/{file}"), left, sheet)?;
        rest = after.to_owned();
    }
    if rest.contains("@import") {
        return Err(format!("{name} imports something after its first rule"));
    }
    sheet.push_str(&rest);
    sheet.push('\n');
    Ok(())
}

/// Returns a style sheet without comments and unnecessary space.
fn minify(source: &str) -> Result<String> {
    let mut short = String::with_capacity(source.len());
    let mut rest = source;
    let mut is_apart = false;
    while let Some(first) = rest.chars().next() {
        let (length, is_space) = if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or("a comment does not end")?;
            (end + 4, true)
        } else if first.is_whitespace() {
            (rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()), true)
        } else if first == '"' || first == '\'' {
            (length_of_text(rest, first).ok_or("a text does not end")?, false)
        } else {
            (first.len_utf8(), false)
        };
        let (taken, after) = rest.split_at(length);
        rest = after;
        if is_space {
            is_apart = true;
            continue;
        }
        // A space before a colon may be a descendant combinator.
        let is_needed = !short.is_empty() && !short.ends_with(['{', '}', ';', ',', ':', '>']);
        if is_apart && is_needed && !['{', '}', ';', ',', '>'].contains(&first) {
            short.push(' ');
        }
        if first == '}' && short.ends_with(';') {
            short.pop();
        }
        short.push_str(taken);
        is_apart = false;
    }
    Ok(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheets(sheets: &[(&str, &str)]) -> Result<String> {
        let of = |(name, source): &(&str, &str)| (format!("css/{name}.css"), (*source).to_owned());
        combine(&sheets.iter().map(of).collect()).map(|mut files| files.remove(MAIN_SHEET).unwrap())
    }

    #[test]
    fn sheets_stand_where_they_are_imported() {
        let all = [
            ("screens", "/* a */\n@import \"one.css\";\n@import \"two.css\";\n\nb {\n  c: d;\n}\n"),
            ("one", "@import \"three.css\";\none { a: b }"),
            ("two", "two { a: b }"),
            ("three", "three { a: b }"),
        ];
        let sheet = sheets(&all).unwrap();
        assert_eq!(sheet, "three{a:b}\none{a:b}\ntwo{a:b}\nb{c:d}\n");
    }

    #[test]
    fn a_sheet_keeps_what_it_says() {
        for (source, wanted) in [
            (
                "a :hover > b,\n.c {\n  d: e f;\n  g: calc(1px + 2 * var(--h));\n}\n",
                "a :hover>b,.c{d:e f;g:calc(1px + 2 * var(--h))}",
            ),
            ("a::after { content: \"/* {  ; \\\" */\"; }", "a::after{content:\"/* {  ; \\\" */\"}"),
            ("a/* b */c {}", "a c{}"),
            ("@media (width > 4px) and (b: c) { d { e: f } }", "@media (width>4px) and (b:c){d{e:f}}"),
        ] {
            assert_eq!(minify(source).unwrap(), wanted);
        }
    }

    #[test]
    fn what_cannot_be_put_together_is_told() {
        for (sheets_of, wanted) in [
            (&[("other", "")][..], "css/screens.css is no sheet, or is imported twice"),
            (&[("screens", ""), ("other", "")], "css/other.css is imported by no sheet"),
            (&[("screens", "@import \"other.css\";")], "css/other.css is no sheet, or is imported twice"),
            (&[("screens", "@import \"screens.css\";")], "css/screens.css is no sheet, or is imported twice"),
            (&[("screens", "@import url(x);")], "css/screens.css imports url(x), which is no file beside it"),
            (
                &[("screens", "a{}@import \"b.css\";")],
                "css/screens.css imports something after its first rule",
            ),
            (&[("screens", "/* a")], "css/screens.css: a comment does not end"),
            (&[("screens", "a{b:\"c}")], "css/screens.css: a text does not end"),
        ] {
            assert_eq!(sheets(sheets_of).unwrap_err(), wanted);
        }
    }
}
