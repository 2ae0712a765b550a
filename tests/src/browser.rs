//! Scripts of `tests/ui`, most of which run a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::program;

/// The variable with the folder of the packages of tests/ui, and of the program `node`.
pub const PACKAGES: &str = "SVC_TEST_UI";
/// The variable with the path of Chromium.
pub const CHROMIUM: &str = "SVC_TEST_CHROMIUM";

/// Suppresses the warning of Node.js that it had to detect the type of each module of the board.
const QUIET: &str = "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON";

/// Returns the command that runs Node.js with these packages, in a folder of `tests/ui`.
pub fn node(packages: &Path, folder: &str) -> Command {
    let mut node = Command::new(packages.join("node"));
    node.current_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/ui")).join(folder)).arg(QUIET);
    node
}

/// Returns the command that runs a script in a folder of `tests/ui`, if the variables name its programs.
pub fn script(folder: &str, arguments: &[&str]) -> Option<Command> {
    let packages = PathBuf::from(std::env::var_os(PACKAGES)?);
    std::env::var_os(CHROMIUM)?;
    let mut node = node(&packages, folder);
    node.args(["--import", "../packages.js"])
        .args(arguments)
        .env("SVC_TEST_PROGRAMS", program("svc-http").parent().unwrap());
    Some(node)
}
