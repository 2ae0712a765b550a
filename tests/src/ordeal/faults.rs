//! Faults of file operations beneath a program.
//!
//! A plan for the preloaded library that `tests/run` compiles from `tests/faults.c`. The plan can be changed
//! while the program runs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::database::skipped;

/// The variable with the path of the library.
pub const LIBRARY: &str = "SVC_TEST_FAULTS";

/// "Input/output error".
pub const EIO: u64 = 5;
/// "No space left on device".
pub const ENOSPC: u64 = 28;
/// "Structure needs cleaning", the error of file systems for corrupt metadata.
pub const EUCLEAN: u64 = 117;

/// The operations that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyCalls {
    /// Reads.
    Reads = 1,
    /// Writes.
    Writes = 2,
    /// Syncs to the disk.
    Syncs = 4,
}

/// The frequency of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultFrequency {
    /// The call of this number, counted from the start of the plan.
    Once(u64),
    /// One in this many calls.
    Every(u64),
}

/// The offsets of the fields of the plan, in units of 64 bits.
const ON: u64 = 0;
const BUDGET: u64 = 7;
const CALLS: u64 = 8;
const FAILED: u64 = 9;
const REFUSED: u64 = 10;
const WORDS: usize = 11;

/// A plan for one program.
pub struct FaultPlan {
    library: PathBuf,
    file: File,
    folder: TempDir,
}

impl FaultPlan {
    /// Returns a plan without faults.
    ///
    /// Returns `None`, with a report, if the library is missing; in CI that is a failure.
    pub fn plan() -> Option<Self> {
        let Some(library) = std::env::var_os(LIBRARY) else {
            skipped("failing disks", LIBRARY);
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan");
        std::fs::write(&path, [0; 8 * WORDS]).unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        Some(Self { library: library.into(), file, folder })
    }

    /// Returns the variables that put a program under the plan.
    pub fn variables(&self) -> [(String, String); 2] {
        let path = |path: PathBuf| path.into_os_string().into_string().unwrap();
        [
            ("LD_PRELOAD".to_owned(), path(self.library.clone())),
            ("FAULT_PLAN".to_owned(), path(self.folder.path().join("plan"))),
        ]
    }

    fn word(&self, place: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, 8 * place).unwrap();
        u64::from_ne_bytes(bytes)
    }

    fn set(&self, place: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.file.write_all_at(&bytes, 8 * place).unwrap();
    }

    /// Makes operations fail with `error` from now on; reads fail only on the threads that write.
    ///
    /// With `halves` a write does half of its work first.
    pub fn begin(&self, calls: FaultyCalls, error: u64, how: FaultFrequency, halves: bool) {
        self.end();
        let (nth, every) = match how {
            FaultFrequency::Once(nth) => (nth, 0),
            FaultFrequency::Every(every) => (0, every),
        };
        let writer_only = u64::from(calls == FaultyCalls::Reads);
        self.set(CALLS, &[0, 0]);
        self.set(1, &[calls as u64, error, nth, every, u64::from(halves), writer_only]);
        self.set(ON, &[1]);
    }

    /// Ends all faults.
    pub fn end(&self) {
        self.set(ON, &[0]);
    }

    /// Sets the maximum total size of the files of the database; 0 for no limit.
    pub fn allow(&self, bytes: u64) {
        self.set(BUDGET, &[bytes]);
    }

    /// Returns how many operations have failed since the plan began.
    pub fn failed(&self) -> u64 {
        self.word(FAILED)
    }

    /// Returns how many operations failed for lack of space.
    pub fn refused(&self) -> u64 {
        self.word(REFUSED)
    }
}
