//! Text of a review and its findings, stored as a single sealed message.
//!
//! The whole text is sealed, and withdrawn, as one unit.
//!
//! Members who can see the thread see the whole text. The metadata of the message contains the byte range of
//! each section.

use serde_json::{Value, json};

use super::findings::{Finding, Severity};
use super::verdicts::Verdict;
use crate::conversation::messages::Metadata;
use crate::id::ReviewId;

/// Value of the key `notice` in the metadata of a review's message.
const REVIEW_NOTICE: &str = "review";
/// Metadata key of the sections' byte ranges, as pairs of start and end. The review's body is the first
/// section.
const SPANS_KEY: &str = "spans";

/// Text of a finding, and where the finding is located, for the text of a review.
pub(super) struct FindingText<'a> {
    pub severity: Severity,
    pub path: Option<&'a str>,
    pub line: Option<i64>,
    pub body: &'a str,
}

/// Composes the text of a review and the metadata of the review's message.
pub(super) fn compose_review(
    review_id: ReviewId,
    verdict: Verdict,
    body: &str,
    findings: &[FindingText<'_>],
) -> (String, Value) {
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
    for finding in findings {
        append(&finding_heading(finding), finding.body);
    }
    let metadata =
        json!({"notice": REVIEW_NOTICE, "review_id": review_id, "verdict": verdict, SPANS_KEY: spans});
    (text, metadata)
}

/// Returns the heading of a finding in the text of a review. Only this heading contains the finding's path.
fn finding_heading(finding: &FindingText<'_>) -> String {
    let place = match (finding.path, finding.line) {
        (Some(path), Some(line)) => format!(", {path}:{line}"),
        (Some(path), None) => format!(", {path}"),
        (None, _) => String::new(),
    };
    format!("{}{place}: ", finding.severity.name())
}

/// Extracts the path of the file from the [`finding_heading`] of a finding.
fn path_from_heading(heading: &str, finding: &Finding) -> Option<String> {
    let place = heading.strip_prefix(finding.severity.name())?.strip_suffix(": ")?.strip_prefix(", ")?;
    let path = match finding.line {
        Some(line) => place.strip_suffix(&format!(":{line}"))?,
        None => place,
    };
    Some(path.to_owned())
}

/// Splits the text of a review: returns the review's own body, and sets the body and path of each finding.
///
/// A section is blank if the metadata contains no valid byte range for it.
pub(super) fn split_review(text: &str, metadata: &Metadata, findings: &mut [Finding]) -> String {
    let bound = |number: usize, at: usize| {
        let bound = metadata.get(SPANS_KEY)?.get(number)?.get(at)?.as_u64()?;
        usize::try_from(bound).ok()
    };
    let part = |number: usize| text.get(bound(number, 0)?..bound(number, 1)?);
    // The heading begins where the previous section ends, after a blank line.
    let heading =
        |number: usize| text.get(bound(number.checked_sub(1)?, 1)?..bound(number, 0)?)?.strip_prefix("\n\n");
    for finding in findings {
        let number = usize::try_from(finding.number).ok().and_then(|number| number.checked_add(1));
        finding.body = number.and_then(part).unwrap_or_default().to_owned();
        finding.path = number.and_then(heading).and_then(|heading| path_from_heading(heading, finding));
    }
    part(0).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn finding(number: i64, line: Option<i64>) -> Finding {
        Finding {
            id: Uuid::from_u128(3).into(),
            review_id: Uuid::from_u128(4).into(),
            severity: Severity::Critical,
            path: Some("before".to_owned()),
            line,
            body: "before".to_owned(),
            resolution: None,
            resolved_by: None,
            resolved_actor_id: None,
            resolved_at: None,
            number,
        }
    }

    /// Returns the path, line and body of each finding.
    const FOUND: [(Option<&str>, Option<i64>, &str); 6] = [
        (Some("a.rs"), Some(3), "é\n\ncritical: no"),
        (None, Some(9), "two"),
        (None, None, ": three"),
        (Some("a: b, c:4"), None, "four"),
        (Some(":5"), Some(5), "five"),
        (Some(", é: "), Some(1), "\n\n"),
    ];

    #[test]
    fn a_text_splits_into_what_it_was_composed_of() {
        let part = |(path, line, body)| FindingText { severity: Severity::Critical, path, line, body };
        let parts = FOUND.map(part);
        for (body, wanted) in [
            (
                "Good.\n\ncritical: x",
                "Review: request changes\n\nGood.\n\ncritical: x\n\ncritical, a.rs:3: é",
            ),
            ("", "Review: request changes\n\ncritical, a.rs:3: é"),
        ] {
            let id = Uuid::from_u128(4).into();
            let (text, metadata) = compose_review(id, Verdict::RequestChanges, body, &parts);
            assert!(text.starts_with(wanted), "{text}");
            assert!(
                text.contains("\n\ncritical: two\n\ncritical: : three\n\ncritical, a: b, c:4: four"),
                "{text}"
            );
            let more = FOUND.iter().chain(&[(None, None, "")]);
            let mut findings: Vec<Finding> =
                (0..).zip(more).map(|(n, (_, line, _))| finding(n, *line)).collect();
            let metadata = metadata.as_object().unwrap();
            assert_eq!(split_review(&text, metadata, &mut findings), body);
            let more = FOUND.iter().chain(&[(None, None, "")]);
            for (found, (path, _, words)) in findings.iter().zip(more) {
                assert_eq!((found.path.as_deref(), found.body.as_str()), (*path, *words));
            }
            assert_eq!(split_review(&text, &Metadata::new(), &mut findings), "");
            assert!(findings.iter().all(|found| found.path.is_none() && found.body.is_empty()));
        }
    }
}
