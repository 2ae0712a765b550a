//! Prints the output of the command `svc`, and lists its exit codes.
//!
//! Results are printed on standard output: as text for people or, with `--json`, as JSON for programs. Errors
//! are printed on standard error.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde::Serialize;
use svc_core::{Code, EXIT_CODES, Error, Result};

/// Returns the table of exit codes for the help text.
pub fn exit_codes_help() -> String {
    EXIT_CODES
        .iter()
        .fold("Exit codes:\n".to_owned(), |text, (code, meaning)| format!("{text}  {code}  {meaning}\n"))
}

/// Prints results and errors as text or JSON.
pub struct Printer {
    json: bool,
}

impl Printer {
    /// Creates a printer that prints JSON for programs if `json` is set, and text for people otherwise.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints a result: `value` as JSON for programs, or `text` for people.
    pub fn print_result(&self, value: &impl Serialize, text: &str) -> Result<()> {
        match self.print(value, text)? {
            // The reader has closed the output because it needs no more data, which is not an error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(Error::internal),
        }
    }

    /// Prints one of many results on a separate line: `value` as JSON for programs, or `text` for people.
    pub fn print_line(&self, value: &impl Serialize, text: &str) -> Result<()> {
        let line =
            if self.json { serde_json::to_string(value).map_err(Error::internal)? } else { text.to_owned() };
        match writeln!(io::stdout().lock(), "{line}") {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(Error::internal),
        }
    }

    /// Prints a result with a secret that cannot be shown again.
    ///
    /// Fails if the result cannot be printed, even if the reader has only closed the output. `lost_message`
    /// returns the error message: what the command has done, and how to create another secret.
    pub fn print_secret_result(
        &self,
        value: &impl Serialize,
        text: &str,
        lost_message: impl FnOnce() -> String,
    ) -> Result<()> {
        self.print(value, text)?.map_err(|error| Error::new(Code::Internal, lost_message()).caused_by(error))
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

    /// Prints a remark about ignored settings on standard error. With JSON output, prints nothing, because
    /// programs expect only errors there.
    pub fn print_remark(&self, ignored: Option<String>) {
        if let Some(ignored) = ignored.filter(|_| !self.json) {
            // If standard error is closed, the failure cannot be reported.
            let _ = writeln!(io::stderr().lock(), "svc: {ignored}");
        }
    }

    /// Prints an error and its causes on one line, and returns the exit code for the error.
    pub fn print_error(&self, error: &Error) -> ExitCode {
        if !self.json {
            return svc_mcp_stdio::report_fatal_error("svc", error);
        }
        // If standard error is closed, the failure cannot be reported.
        let _ = writeln!(io::stderr().lock(), "{}", error_line(error));
        ExitCode::from(error.code().exit_code())
    }
}

/// Returns a progress bar for `bytes` bytes on standard error, which is shown only on a terminal.
pub fn progress_bar(label: &'static str, bytes: u64) -> ProgressBar {
    let template = "{msg} {bar:40} {bytes}/{total_bytes} {eta}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style).with_message(label).with_finish(ProgressFinish::AndClear)
}

/// Returns a spinner with the elapsed time on standard error, which is shown only on a terminal.
pub fn spinner(label: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {spinner} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(SPINNER_INTERVAL);
    bar.with_message(label).with_finish(ProgressFinish::AndClear)
}

/// Interval between movements of the spinner.
const SPINNER_INTERVAL: Duration = Duration::from_millis(200);

/// Encodes the problem and the causes of an error as one line of JSON.
fn error_line(error: &Error) -> String {
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
        assert!(exit_codes_help().contains("  3  a log does not verify, or tables differ from it\n"));
    }

    #[test]
    fn json_errors_have_the_causes() {
        let error = Error::configuration("correct it").caused_by("it is wrong");
        assert!(error_line(&error).contains("\"causes\":[\"it is wrong\"]"), "{}", error_line(&error));
        assert!(!error_line(&Error::configuration("correct it")).contains("causes"));
    }
}
