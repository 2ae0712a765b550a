//! Exit codes of the command-line programs.

use super::Code;

/// The exit codes of the command-line programs, with their meanings.
pub const EXIT_CODES: [(u8, &str); 8] = [
    (0, "success"),
    (1, "failure of the database, the file system or the service itself"),
    (2, "invalid command line, variable or input"),
    (3, "a log does not verify, or tables differ from it"),
    (4, "not found, or the folder or database is not set up"),
    (5, "the current state does not allow it, such as a second set-up"),
    (6, "the token is missing, unknown, or does not allow it"),
    (7, "the log verifies, and was pruned beyond the head that was expected"),
];

impl Code {
    /// Returns the exit code of a program that fails with this error code.
    pub fn exit_code(self) -> u8 {
        match (self, self.status()) {
            (Self::Configuration, _) | (_, 400 | 422) => 2,
            (Self::EventLogBroken | Self::StateDiffers, _) => 3,
            (Self::BelowFloor, _) => 7,
            (_, 401 | 403) => 6,
            (_, 404) => 4,
            (_, 409) => 5,
            _ => 1,
        }
    }
}
