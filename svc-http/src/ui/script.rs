//! A module of the board as it is sent: without its comments, each line where it was.
//!
//! The comments are most of what a first load would fetch. Only those are left out that begin a line; what
//! follows one on its line stays.

/// Returns a script without the comments that begin a line.
pub(super) fn without_comments(source: &str) -> String {
    let mut kept = String::with_capacity(source.len());
    let mut in_comment = false;
    for line in source.split_inclusive('\n') {
        let mut code = line;
        // A line may end one comment and begin the next.
        loop {
            if in_comment {
                let Some((_, after)) = code.split_once("*/") else { break code = "" };
                (in_comment, code) = (false, after);
            }
            let Some(comment) = code.trim_start().strip_prefix("/*") else { break };
            (in_comment, code) = (true, comment);
        }
        let code = code.trim_end();
        if !code.trim_start().starts_with("//") {
            kept.push_str(code);
        }
        if line.ends_with('\n') {
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_lines_stay() {
        let source = "// What it is.\n\n/** @type {A} */\nexport const a = 1; // one\n/**\n * Two.\n */\n\
                      const b = /** @type {B} */ (a);\n  /** @type {C} */ (b).c();\n  // Why.\n\
                      f(\"/* no */\");\n";
        let sent = "\n\n\nexport const a = 1; // one\n\n\n\n\
                    const b = /** @type {B} */ (a);\n (b).c();\n\n\
                    f(\"/* no */\");\n";
        assert_eq!(without_comments(source), sent);
        assert_eq!(without_comments("/* a */ // b\nc"), "\nc");
        assert_eq!(without_comments("/* a */ /* b\n/* c */ x();\ny();"), "\n x();\ny();");
    }
}
