//! What the command says, and the code that it exits with. Results go to standard output, for people or, with
//! `--json`, for programs; errors go to standard error.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use svc_core::{Code, Error, Result};

/// Every exit code and what it means. The help and svc(1) show this table.
pub const EXIT_CODES: [(u8, &str); 7] = [
    (0, "it is done"),
    (1, "it failed: the database, the file system, or the service itself"),
    (2, "the command line, a variable or an input is not as it must be"),
    (3, "a log does not verify"),
    (4, "there is no such thing, or the folder or database is not set up"),
    (5, "the present state does not allow it, such as a second set-up"),
    (6, "the token is missing, not known, or does not allow it"),
];

/// The table as the help shows it.
pub fn exit_codes_help() -> String {
    EXIT_CODES
        .iter()
        .fold("Exit codes:\n".to_owned(), |text, (code, meaning)| format!("{text}  {code}  {meaning}\n"))
}

/// The exit code of a failure.
fn exit_code(error: &Error) -> u8 {
    match (error.code(), error.code().status()) {
        (Code::Configuration, _) | (_, 400) => 2,
        (Code::EventLogBroken, _) => 3,
        (_, 401 | 403) => 6,
        (_, 404) => 4,
        (_, 409) => 5,
        _ => 1,
    }
}

/// Where results and errors go, and in which form.
pub struct Output {
    json: bool,
}

impl Output {
    /// Output for programs if `json`, otherwise for people.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints a result: `value` for programs, `text` for people.
    pub fn show(&self, value: &impl Serialize, text: &str) -> Result<()> {
        let printed = if self.json {
            serde_json::to_string_pretty(value).map_err(Error::internal)?
        } else {
            text.trim_end().to_owned()
        };
        match writeln!(io::stdout().lock(), "{printed}") {
            // Whoever read the output has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Error::internal(error)),
            Ok(()) => Ok(()),
        }
    }

    /// Prints an error and answers its exit code. Whoever runs this command may see the cause.
    pub fn refuse(&self, error: &Error) -> ExitCode {
        let mut text = if self.json {
            serde_json::to_string(&error.problem()).unwrap_or_else(|_| error.to_string())
        } else {
            format!("svc: {}", error.detail())
        };
        if !self.json {
            let mut cause = error.cause().map(|cause| cause as &dyn std::error::Error);
            while let Some(error) = cause {
                text.push_str(&format!("\n  because: {error}"));
                cause = error.source();
            }
        }
        // Where standard error is closed there is nobody to tell.
        let _ = writeln!(io::stderr().lock(), "{text}");
        ExitCode::from(exit_code(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_code_of_the_table() {
        for code in Code::ALL {
            let exit = exit_code(&Error::new(*code, ""));
            assert!(exit != 0 && EXIT_CODES.iter().any(|(known, _)| *known == exit), "{code:?}");
        }
    }

    #[test]
    fn the_manual_has_the_table() {
        let page = include_str!("../../man/svc.1").replace("\\-", "-");
        for (code, meaning) in EXIT_CODES {
            assert!(page.contains(&format!(".TP\n.B {code}\n{meaning}\n")), "man/svc.1 lacks {code}");
        }
    }

    #[test]
    fn failures_are_told_apart() {
        let cases = [
            (Code::Internal, 1),
            (Code::Unavailable, 1),
            (Code::Malformed, 2),
            (Code::Configuration, 2),
            (Code::EventLogBroken, 3),
            (Code::NotFound, 4),
            (Code::AlreadyInitialised, 5),
            (Code::WrongState, 5),
            (Code::Unauthenticated, 6),
            (Code::MissingCapability, 6),
        ];
        for (code, exit) in cases {
            assert_eq!(exit_code(&Error::new(code, "")), exit, "{code:?}");
        }
        assert!(exit_codes_help().contains("  3  a log does not verify\n"));
    }
}
