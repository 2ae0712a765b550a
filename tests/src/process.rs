//! The real programs, started as separate processes.
//!
//! Their output is read line by line, and they are killed no later than at the end of the test. Cargo puts
//! them beside the test programs; they must be built before the tests run.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The timeout of everything that a test waits for.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the path of the program `name`.
pub fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    // Tests are in a separate folder, next to the programs.
    let found = here.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "there is no {name} beside {}: build the programs first, with `cargo build --workspace --bins` \
             or by using tests/run",
            here.display()
        )
    })
}

/// The exit code and the output of a program.
#[derive(Debug)]
pub struct ExitedProgram {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Runs a program to its end.
pub fn run(command: &mut Command) -> ExitedProgram {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{error}: {command:?}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    ExitedProgram { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A running program. It is killed when this is dropped.
pub struct RunningProgram {
    child: Child,
    input: Option<ChildStdin>,
    /// The lines that it prints.
    pub out: Lines,
    /// The lines of its log.
    pub err: Lines,
}

impl RunningProgram {
    /// Starts a program.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{error}: {command:?}"));
        let out = Lines::of(child.stdout.take().unwrap());
        let err = Lines::of(child.stderr.take().unwrap());
        Self { input: child.stdin.take(), child, out, err }
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to the program.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").and_then(|()| input.flush()).unwrap_or_else(|error| {
            panic!("{error}; the program's log: {}", self.err.text());
        });
    }

    /// Returns the next line that the program prints.
    pub fn next_line(&mut self) -> String {
        self.out.next().unwrap_or_else(|| panic!("the program ended; its log: {}", self.err.text()))
    }

    /// Suspends the program, as a suspended machine does.
    pub fn pause(&self) {
        self.signal("STOP");
        let status = format!("/proc/{}/status", self.child.id());
        let is_stopped = || std::fs::read_to_string(&status).unwrap().contains("\nState:\tT");
        until("the program is suspended", is_stopped);
    }

    /// Resumes a suspended program.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Sends the program a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let outcome = run(Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.child.id())));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }

    /// Closes the program's input, waits for its end and returns the outcome.
    pub fn ended(mut self) -> ExitedProgram {
        drop(self.input.take());
        let out = self.out.whole();
        let err = self.err.whole();
        ExitedProgram { code: self.child.wait().unwrap().code(), out, err }
    }

    /// Asks the program to shut down, and waits until it has ended.
    pub fn end(&mut self) {
        self.signal("TERM");
        self.child.wait().unwrap();
    }

    /// Kills the program, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of one of a program's streams.
///
/// They are read as they come, so that the program never blocks on them.
pub struct Lines {
    shared: Arc<StreamState>,
    taken: usize,
}

#[derive(Default)]
struct StreamState {
    received: Mutex<ReceivedLines>,
    more: Condvar,
}

#[derive(Default)]
struct ReceivedLines {
    lines: Vec<String>,
    ended: bool,
}

impl StreamState {
    fn lock(&self) -> MutexGuard<'_, ReceivedLines> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut ReceivedLines)) {
        change(&mut self.lock());
        self.more.notify_all();
    }
}

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let shared = Arc::new(StreamState::default());
        let listener = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
                listener.change(|received| received.lines.push(text));
                line.clear();
            }
            listener.change(|received| received.ended = true);
        });
        Self { shared, taken: 0 }
    }

    /// Returns everything received up to now.
    pub fn text(&self) -> String {
        self.shared.lock().lines.join("\n")
    }

    /// Waits until the program has closed the stream, and returns all of it.
    pub fn whole(&self) -> String {
        let received = self.wait(|received| received.ended);
        received.lines.join("\n")
    }

    fn wait(&self, enough: impl Fn(&ReceivedLines) -> bool) -> MutexGuard<'_, ReceivedLines> {
        let received = self.shared.lock();
        let waited =
            self.shared.more.wait_timeout_while(received, TEST_TIMEOUT, |received| !enough(received));
        let (received, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(
            !waited.timed_out(),
            "nothing was received; before, there was: {}",
            received.lines.join("\n")
        );
        received
    }
}

/// The lines in order, each once; `None` once the program has closed the stream.
impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let taken = self.taken;
        let received = self.wait(|received| received.ended || received.lines.len() > taken);
        let line = received.lines.get(taken).cloned();
        drop(received);
        self.taken += usize::from(line.is_some());
        line
    }
}

/// Polls until it has happened, for conditions without a notification.
#[track_caller]
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !happened() {
        assert!(Instant::now() < deadline, "{what}: has not happened");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
