//! The prepared SQLite database that worlds copy, as a file that the processes of a test program share.
//!
//! The test runner starts one process per test. The first to need the file prepares it. Those that start
//! before it exists prepare one themselves, and any of these files may remain.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::database::{NAMES_BEGIN, TestDatabase, names_begin};
use crate::prepare::{Fixtures, seed};

/// The initial state of a prepared database.
pub(crate) struct Original {
    /// Its fixtures.
    pub fixtures: Fixtures,
    /// The bytes of the SQLite file.
    pub bytes: Vec<u8>,
}

impl Original {
    /// Reads the original of this program, or creates it.
    pub fn get() -> Self {
        Self::kept_in(&folder(), &names_begin())
    }

    fn kept_in(folder: &Path, names_begin: &str) -> Self {
        let path = folder.join(format!("{names_begin}original"));
        match std::fs::read(&path) {
            Ok(file) => Self::read(&file),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let made = Self::make();
                std::fs::create_dir_all(folder).unwrap();
                remove_others(folder, names_begin);
                made.write(folder, names_begin, &path);
                made
            }
            Err(error) => panic!("{error}: {}", path.display()),
        }
    }

    fn make() -> Self {
        let database = TestDatabase::sqlite();
        let fixtures = seed(&database);
        Self { fixtures, bytes: database.sqlite_bytes() }
    }

    /// Reads the file: the fixtures in its first line, then the database.
    ///
    /// They are one file, so that no process reads one without the other.
    fn read(file: &[u8]) -> Self {
        let end = file.iter().position(|byte| *byte == b'\n').expect("a first line");
        let fixtures = serde_json::from_slice(&file[..end]).unwrap();
        Self { fixtures, bytes: file[end + 1..].to_vec() }
    }

    /// Writes the file under its name only once it is complete, even if this is interrupted.
    fn write(&self, folder: &Path, names_begin: &str, path: &Path) {
        let mut file = tempfile::Builder::new().prefix(names_begin).tempfile_in(folder).unwrap();
        file.write_all(serde_json::to_string(&self.fixtures).unwrap().as_bytes()).unwrap();
        file.write_all(b"\n").unwrap();
        file.write_all(&self.bytes).unwrap();
        file.as_file().sync_all().unwrap();
        match file.persist(path) {
            Ok(_) => {}
            // Another program has removed the file. A later process writes it.
            Err(error) if error.error.kind() == ErrorKind::NotFound => {}
            Err(error) => panic!("{error}: {}", path.display()),
        }
    }
}

/// Removes files of other programs, such as earlier builds of this one, and of interrupted writers.
fn remove_others(folder: &Path, names_begin: &str) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(NAMES_BEGIN) && !name.starts_with(names_begin) {
            // Another process may remove it at the same time.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns the folder `tmp` beside the one of the profile, which cargo keeps for files of tests.
fn folder() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let profile = program.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).unwrap();
    profile.parent().unwrap().join("tmp")
}
