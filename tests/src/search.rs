//! Searches files for bytes that must not be in any, because they were sealed or destroyed.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;

/// Something to search for.
pub struct Needle {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Needle {
    /// Returns a needle, which must be long enough not to occur by chance.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let name = name.into();
        let bytes = bytes.into();
        assert!(bytes.len() >= 8, "{name} could be found by chance");
        Self { name, bytes }
    }

    /// Returns secret bytes in pieces, because a database may store the two ends of a row in different
    /// places.
    pub fn pieces(name: &str, bytes: &[u8]) -> Vec<Self> {
        let pieces = bytes.chunks_exact(16).enumerate();
        pieces.map(|(number, piece)| Self::new(format!("{name}, piece {number}"), piece)).collect()
    }

    /// Returns secret bytes in the encodings that a text might use.
    pub fn spellings(name: &str, bytes: &[u8]) -> Vec<Self> {
        use base64::Engine as _;
        let hex = hex::encode(bytes);
        let list = bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        let base64 = base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes);
        vec![
            Self::new(format!("{name} in hex"), hex.to_uppercase()),
            Self::new(format!("{name} in hex"), hex),
            Self::new(format!("{name} as a list"), list),
            Self::new(format!("{name} in base64"), base64),
        ]
    }
}

/// Returns the names of the `needles` in `hay`.
pub fn found_in(hay: &[u8], needles: &[Needle]) -> Vec<String> {
    named(&searcher(needles), hay, needles).collect()
}

fn searcher(needles: &[Needle]) -> AhoCorasick {
    AhoCorasick::new(needles.iter().map(|needle| &needle.bytes)).unwrap()
}

fn named<'n>(
    searcher: &AhoCorasick,
    hay: &[u8],
    needles: &'n [Needle],
) -> impl Iterator<Item = String> + use<'n> {
    let found: BTreeSet<usize> =
        searcher.find_overlapping_iter(hay).map(|hit| hit.pattern().as_usize()).collect();
    found.into_iter().map(|number| needles[number].name.clone())
}

/// Returns the `needles` in the files in or below `folder`, each with its file.
///
/// It skips files that are removed during the search.
pub fn found_below(folder: &Path, needles: &[Needle]) -> Vec<(String, PathBuf)> {
    let searcher = searcher(needles);
    let mut hits = Vec::new();
    for path in files_below(folder) {
        match std::fs::read(&path) {
            Ok(hay) => hits.extend(named(&searcher, &hay, needles).map(|name| (name, path.clone()))),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{}", path.display()),
        }
    }
    hits
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => panic!("{error}: {}", folder.display()),
    };
    let mut files = Vec::new();
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}
