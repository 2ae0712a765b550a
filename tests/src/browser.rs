//! Scripts of `tests/ui` that run a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::program;

/// The variable with the folder of the packages of tests/ui, and of the program `node`.
pub const PACKAGES: &str = "SVC_TEST_UI";
/// The variable with the path of Chromium.
pub const CHROMIUM: &str = "SVC_TEST_CHROMIUM";

/// The command that runs a script in a folder of `tests/ui`, if the variables say with what.
pub fn script(folder: &str, arguments: &[&str]) -> Option<Command> {
    let packages = PathBuf::from(std::env::var_os(PACKAGES)?);
    std::env::var_os(CHROMIUM)?;
    let mut node = Command::new(packages.join("node"));
    node.current_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/ui")).join(folder))
        .arg("--disable-warning=MODULE_TYPELESS_PACKAGE_JSON")
        .args(["--import", "../packages.js"])
        .args(arguments)
        .env("SVC_TEST_PROGRAMS", program("svc-http").parent().unwrap());
    Some(node)
}
