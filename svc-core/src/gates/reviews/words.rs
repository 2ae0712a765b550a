//! The words of a review and of its findings: one text, so that they are sealed and withdrawn together.
//!
//! The text is for readers of the thread. Its metadata says where each part stands in it, by bytes.

use serde_json::{Value, json};

use super::findings::{Finding, Severity};
use super::verdicts::Verdict;
use crate::conversation::messages::Metadata;
use crate::id::ReviewId;

/// The notice of a review's message.
const NOTICE: &str = "review";
/// Where the parts stand, in the metadata: pairs of a beginning and an end, the review's own words first.
const SPANS: &str = "spans";

/// A finding as its words name it.
pub(super) struct Part<'a> {
    pub severity: Severity,
    pub path: Option<&'a str>,
    pub line: Option<i64>,
    pub body: &'a str,
}

/// Composes the text of a review, and the metadata of its message.
pub(super) fn compose(review: ReviewId, verdict: Verdict, body: &str, parts: &[Part<'_>]) -> (String, Value) {
    let mut text = format!("Review: {}", verdict.name().replace('_', " "));
    let mut spans = Vec::new();
    let mut append = |heading: &str, words: &str| {
        if !words.is_empty() {
            text.push_str("\n\n");
            text.push_str(heading);
        }
        let begin = text.len();
        text.push_str(words);
        spans.push([begin, text.len()]);
    };
    append("", body);
    for part in parts {
        let place = match (part.path, part.line) {
            (Some(path), Some(line)) => format!(", {path}:{line}"),
            (Some(path), None) => format!(", {path}"),
            (None, _) => String::new(),
        };
        append(&format!("{}{place}: ", part.severity.name()), part.body);
    }
    let metadata = json!({"notice": NOTICE, "review_id": review, "verdict": verdict, SPANS: spans});
    (text, metadata)
}

/// Splits the text of a review: returns its own words, and gives each finding its part.
///
/// What the metadata does not place is blank.
pub(super) fn split(text: &str, metadata: &Metadata, findings: &mut [Finding]) -> String {
    let bound = |span: &Value, at: usize| {
        span.get(at).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok())
    };
    let part = |number: usize| {
        let span = metadata.get(SPANS)?.get(number)?;
        text.get(bound(span, 0)?..bound(span, 1)?)
    };
    for finding in findings {
        let number = usize::try_from(finding.number).ok().and_then(|number| number.checked_add(1));
        finding.body = number.and_then(part).unwrap_or_default().to_owned();
    }
    part(0).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn finding(number: i64) -> Finding {
        Finding {
            id: Uuid::from_u128(3).into(),
            review_id: Uuid::from_u128(4).into(),
            severity: Severity::Info,
            path: None,
            line: None,
            body: "before".to_owned(),
            resolution: None,
            resolved_by: None,
            resolved_at: None,
            number,
        }
    }

    #[test]
    fn a_text_splits_into_what_it_was_composed_of() {
        let part = |path, line, body| Part { severity: Severity::Critical, path, line, body };
        let parts = [part(Some("a.rs"), Some(3), "é\n\ncritical: no"), part(None, Some(9), "two")];
        for (body, wanted) in [
            (
                "Good.\n\ncritical: x",
                "Review: request changes\n\nGood.\n\ncritical: x\n\ncritical, a.rs:3: é",
            ),
            ("", "Review: request changes\n\ncritical, a.rs:3: é"),
        ] {
            let id = Uuid::from_u128(4).into();
            let (text, metadata) = compose(id, Verdict::RequestChanges, body, &parts);
            assert!(text.starts_with(wanted) && text.ends_with("\n\ncritical: two"), "{text}");
            let mut findings = [finding(0), finding(1), finding(2)];
            let metadata = metadata.as_object().unwrap();
            assert_eq!(split(&text, metadata, &mut findings), body);
            assert_eq!(findings.each_ref().map(|it| it.body.as_str()), ["é\n\ncritical: no", "two", ""]);
            assert_eq!(split(&text, &Metadata::new(), &mut findings), "");
        }
    }
}
