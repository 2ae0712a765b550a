//! Golden files: the agreed output, committed as text.
//!
//! `UPDATE_GOLDEN=1` regenerates them; the reviewer then reads the difference.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Returns the folder of all golden files.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Returns whether this run writes instead of comparing.
pub fn updating() -> bool {
    std::env::var("UPDATE_GOLDEN").is_ok_and(|update| update == "1")
}

/// Compares `text` with the golden file `name`, or writes it.
pub fn check(name: &str, text: &str) {
    let path = folder().join(name);
    if updating() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path)
        .unwrap_or_else(|_| panic!("{name} is missing: UPDATE_GOLDEN=1 writes it; read it and commit it"));
    if let Some((line, (was, is))) = first_difference(&golden, text) {
        panic!("{name} differs in line {line} (UPDATE_GOLDEN=1 regenerates it)\n  was: {was}\n  is:  {is}");
    }
}

/// Checks that the folder `name` has the files `wanted` and no others.
pub fn check_folder(name: &str, wanted: impl IntoIterator<Item = String>) {
    let wanted: BTreeSet<String> = wanted.into_iter().collect();
    let folder = folder().join(name);
    let found = std::fs::read_dir(&folder).into_iter().flatten();
    for file in found.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        if wanted.contains(&file) {
            continue;
        }
        assert!(updating(), "{name}/{file} belongs to nothing any more: remove it");
        std::fs::remove_file(folder.join(file)).unwrap();
    }
}

/// Maximum columns of a line of [`compact`].
const COLUMNS: usize = 120;

/// Returns JSON with each value on one line if it fits.
pub fn compact(value: &Value) -> String {
    let mut out = String::new();
    write_compact(value, 0, 0, &mut out);
    out + "\n"
}

/// Writes a value that begins in `column`, in a block indented by `indent`.
fn write_compact(value: &Value, indent: usize, column: usize, out: &mut String) {
    let line = one_line(value);
    let (open, close, members): (_, _, Vec<(String, &Value)>) = match value {
        _ if column + line.len() < COLUMNS => return out.push_str(&line),
        Value::Object(members) => {
            ('{', '}', members.iter().map(|(name, member)| (format!("{}: ", json!(name)), member)).collect())
        }
        Value::Array(items) => ('[', ']', items.iter().map(|item| (String::new(), item)).collect()),
        _ => return out.push_str(&line),
    };
    out.push(open);
    if members.iter().all(|(name, member)| name.is_empty() && !member.is_object() && !member.is_array()) {
        return write_filled(&members, indent, out);
    }
    for (at, (name, member)) in members.iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&" ".repeat(indent + 2));
        out.push_str(name);
        write_compact(member, indent + 2, indent + 2 + name.len(), out);
    }
    out.push('\n');
    out.push_str(&" ".repeat(indent));
    out.push(close);
}

/// Writes the items of a list of plain values, as many on a line as fit.
fn write_filled(items: &[(String, &Value)], indent: usize, out: &mut String) {
    let mut column = COLUMNS;
    for (at, (_, item)) in items.iter().enumerate() {
        let text = one_line(item);
        if at > 0 {
            out.push(',');
        }
        if column + text.len() + 2 >= COLUMNS {
            out.push('\n');
            out.push_str(&" ".repeat(indent + 2));
            column = indent + 2;
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(&text);
        column += text.len() + 1;
    }
    out.push('\n');
    out.push_str(&" ".repeat(indent));
    out.push(']');
}

/// Returns JSON on one line, with spaces after commas and colons.
fn one_line(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let member = |(name, member): (&String, &Value)| format!("{}: {}", json!(name), one_line(member));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        plain => plain.to_string(),
    }
}

fn first_difference<'a>(was: &'a str, is: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    if was == is {
        return None;
    }
    let longest = was.lines().count().max(is.lines().count());
    let line = |text: &'a str, at: usize| text.lines().nth(at).unwrap_or("(nothing)");
    let at = (0..longest).find(|at| line(was, *at) != line(is, *at)).unwrap_or(longest);
    Some((at + 1, (line(was, at), line(is, at))))
}
