//! What the command says, and the code that it exits with. Results go to standard output, for people or, with
//! `--json`, for programs; errors go to standard error.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use svc_core::{Code, EXIT_CODES, Error, Result};

/// The table as the help shows it.
pub fn exit_codes_help() -> String {
    EXIT_CODES
        .iter()
        .fold("Exit codes:\n".to_owned(), |text, (code, meaning)| format!("{text}  {code}  {meaning}\n"))
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
        match self.print(value, text)? {
            // Whoever read the output has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(Error::internal),
        }
    }

    /// Prints a result with a secret in it, which nobody can see again. Where it cannot be printed, be it that nobody
    /// reads it, that is an error, with `lost` to say what was done and how to get another secret.
    pub fn show_once(&self, value: &impl Serialize, text: &str, lost: impl FnOnce() -> String) -> Result<()> {
        self.print(value, text)?.map_err(|error| Error::new(Code::Internal, lost()).caused_by(error))
    }

    fn print(&self, value: &impl Serialize, text: &str) -> Result<io::Result<()>> {
        let printed = if self.json {
            serde_json::to_string_pretty(value).map_err(Error::internal)?
        } else {
            text.trim_end().to_owned()
        };
        let mut out = io::stdout().lock();
        Ok(writeln!(out, "{printed}").and_then(|()| out.flush()))
    }

    /// Prints an error on one line and answers its exit code. Whoever runs this command may see the causes.
    pub fn refuse(&self, error: &Error) -> ExitCode {
        if !self.json {
            return svc_mcp_stdio::refuse("svc", error);
        }
        // Where standard error is closed there is nobody to tell.
        let _ = writeln!(io::stderr().lock(), "{}", json_line(error));
        ExitCode::from(error.code().exit_code())
    }
}

/// The problem, and what caused it.
fn json_line(error: &Error) -> String {
    let mut problem = error.problem();
    let causes = error.causes();
    if !causes.is_empty() {
        problem.extra.insert("causes".to_owned(), causes.into());
    }
    serde_json::to_string(&problem).unwrap_or_else(|_| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_the_table() {
        let page = include_str!("../../man/svc.1").replace("\\-", "-");
        for (code, meaning) in EXIT_CODES {
            assert!(page.contains(&format!(".TP\n.B {code}\n{meaning}\n")), "man/svc.1 lacks {code}");
        }
    }

    #[test]
    fn the_help_has_the_table() {
        assert!(exit_codes_help().contains("  3  a log does not verify\n"));
    }

    #[test]
    fn programs_are_told_the_causes_too() {
        let error = Error::configuration("correct it").caused_by("it is wrong");
        assert!(json_line(&error).contains("\"causes\":[\"it is wrong\"]"), "{}", json_line(&error));
        assert!(!json_line(&Error::configuration("correct it")).contains("causes"));
    }
}
