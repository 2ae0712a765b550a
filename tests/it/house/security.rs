//! The manual page of threats: tests prove its statements, and these tests exist.

use super::rules::{none, root};

/// Returns the threats of the page, each with the tests that it names.
fn named(page: &str) -> Vec<(String, Vec<String>)> {
    let mut threats: Vec<(String, Vec<String>)> = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix(".B ").filter(|_| page.contains(&format!(".TP\n{line}\n"))) {
            threats.push((title.to_owned(), Vec::new()));
        } else if let (Some(test), Some((_, tests))) = (line.strip_prefix(".I "), threats.last_mut()) {
            tests.push(test.to_owned());
        }
    }
    threats
}

/// Returns whether a module or a test exists that `cargo nextest run` would select by this name.
pub fn exists(name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").unwrap_or((name, ""));
    let is_unit = module.ends_with("::tests");
    let folders: &[&str] = if is_unit { &["svc-core/src", "svc-http/src"] } else { &["tests/it"] };
    let file_of = |module: &str| {
        let path = module.trim_end_matches("::tests").replace("::", "/");
        let files = folders
            .iter()
            .flat_map(|folder| [format!("{folder}/{path}.rs"), format!("{folder}/{path}/mod.rs")]);
        files.map(|file| root().join(file)).find_map(|file| std::fs::read_to_string(file).ok())
    };
    let has_test = |text: String| text.contains(&format!("#[test]\nfn {function}()"));
    let has_unit_test = |text: String| text.contains(&format!("#[test]\n    fn {function}()"));
    match is_unit {
        true => file_of(module).is_some_and(has_unit_test),
        false => file_of(module).is_some_and(has_test) || file_of(name).is_some(),
    }
}

#[test]
fn every_threat_has_its_tests() {
    let page = std::fs::read_to_string(root().join("man/svc-security.7")).unwrap();
    let threats = named(&page);
    assert!(threats.len() > 20, "{}", threats.len());
    let untested = threats.iter().filter(|(_, tests)| tests.is_empty());
    let untested = untested.map(|(threat, _)| format!("`{threat}` is shown by no test"));
    let tests = threats.iter().flat_map(|(_, tests)| tests).filter(|test| !exists(test));
    none(untested.chain(tests.map(|test| format!("there is no test `{test}`"))).collect());
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    let page = ".SH A\n.TP\n.B One\nText.\n.br\n.I op::access\n.TP\n.B Two\nSee\n.B NAME\n";
    let tests = vec!["op::access".to_owned()];
    assert_eq!(named(page), [("One".to_owned(), tests), ("Two".to_owned(), Vec::new())]);
    assert!(exists("op::access") && exists("house::security::every_threat_has_its_tests"));
    for name in ["op::nowhere", "op::access::nothing", "op::call::caller::tests::nothing"] {
        assert!(!exists(name), "{name}");
    }
}
