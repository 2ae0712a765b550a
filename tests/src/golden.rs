//! Golden files: what was agreed, committed as text. `UPDATE_GOLDEN=1` writes them anew; reading the difference
//! is then the reviewer's work.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of all golden files.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Whether this run writes instead of comparing.
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
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|_| {
        panic!("{name} is missing: look at it and commit it (UPDATE_GOLDEN=1 writes it)")
    });
    if let Some((line, (was, is))) = first_difference(&golden, text) {
        panic!("{name} differs in line {line} (UPDATE_GOLDEN=1 writes it anew)\n  was: {was}\n  is:  {is}");
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

fn first_difference<'a>(was: &'a str, is: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    if was == is {
        return None;
    }
    let longest = was.lines().count().max(is.lines().count());
    let line = |text: &'a str, at: usize| text.lines().nth(at).unwrap_or("(nothing)");
    let at = (0..longest).find(|at| line(was, *at) != line(is, *at)).unwrap_or(longest);
    Some((at + 1, (line(was, at), line(is, at))))
}
