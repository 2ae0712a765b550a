//! Parses the tools that a request selects in its query and headers.
//!
//! An invalid value is rejected, because ignoring the value would show more tools than the client wants. The
//! query overrides the headers, but either the query or a header can restrict the tools to read-only tools.

use hyper::header::{HeaderMap, HeaderName};
use svc_core::text::echo;
use svc_mcp_stdio::refusal::Refusal;
use svc_mcp_stdio::tool_filter::ToolChoice;

use crate::decode::TextFields;

const TOOLSETS: &str = "toolsets";
const TOOLS: &str = "tools";
const READONLY: &str = "readonly";
/// Prefix of the headers that select tools.
const HEADER_PREFIX: &str = "x-mcp-";

/// Returns the choice of tools in the query and the headers of a request.
pub(super) fn parse_tool_choice(headers: &HeaderMap, query: &TextFields) -> Result<ToolChoice, Refusal> {
    if query.is_empty() && !headers.keys().any(|name| name.as_str().starts_with(HEADER_PREFIX)) {
        return Ok(ToolChoice::default());
    }
    query.iter().try_for_each(|(name, _)| reject_misspelled_field(name, name))?;
    let named = headers.keys().map(HeaderName::as_str);
    let mut own = named.filter_map(|name| Some((name, name.strip_prefix(HEADER_PREFIX)?)));
    own.try_for_each(|(name, field)| reject_misspelled_field(name, field))?;
    let words = |field: &'static str| -> Result<Option<String>, Refusal> {
        // A list without a name does not choose any tools.
        let has_words = |list: &String| list.chars().any(|c| c != ',' && !c.is_whitespace());
        Ok(query_value(query, field)?.filter(has_words).or(header_value(headers, field)?))
    };
    let reads_only = [query_value(query, READONLY)?, header_value(headers, READONLY)?];
    Ok(ToolChoice {
        toolsets: words(TOOLSETS)?,
        tools: words(TOOLS)?,
        reads_only: reads_only
            .iter()
            .flatten()
            .try_fold(false, |any, word| Ok::<_, Refusal>(any | parse_flag(word)?))?,
    })
}

/// Rejects a misspelled field: one that equals a known field except for case, separators or a final `s`.
fn reject_misspelled_field(name: &str, field: &str) -> Result<(), Refusal> {
    let plain: String = field.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let is_meant = |known: &&str| plain.trim_end_matches('s') == known.trim_end_matches('s');
    match [TOOLSETS, TOOLS, READONLY].into_iter().find(is_meant) {
        Some(meant) if meant != field => {
            Err(Refusal::params(format!("there is no {}; did you mean {meant}?", echo(name))))
        }
        _ => Ok(()),
    }
}

fn query_value(query: &TextFields, field: &str) -> Result<Option<String>, Refusal> {
    let mut values = query.iter().filter(|(name, _)| name == field).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(Refusal::params(format!("{field} is given twice"))),
        (value, None) => Ok(value.cloned()),
    }
}

fn header_value(headers: &HeaderMap, field: &str) -> Result<Option<String>, Refusal> {
    let Ok(name) = HeaderName::try_from(format!("{HEADER_PREFIX}{field}")) else { return Ok(None) };
    let mut values = headers.get_all(&name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(Refusal::params(format!("the header {name} is given twice"))),
        (None, None) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(value) => Ok(Some(value.to_owned())),
            Err(_) => Err(Refusal::params(format!("the header {name} is not in ASCII"))),
        },
    }
}

fn parse_flag(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" | "1" | "" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Refusal::params("readonly is true or false")),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn chosen(query: &[(&str, &str)], headers: &[(&'static str, &[u8])]) -> Option<(Option<String>, bool)> {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            sent.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        parse_tool_choice(&sent, &query).ok().map(|choice| (choice.toolsets, choice.reads_only))
    }

    #[test]
    fn a_choice_narrows_or_is_rejected() {
        let claims = || Some("claims".to_owned());
        assert_eq!(chosen(&[], &[]), Some((None, false)));
        assert_eq!(chosen(&[("toolsets", "claims"), ("key", "x")], &[]), Some((claims(), false)));
        assert_eq!(chosen(&[], &[("x-mcp-toolsets", b"claims")]), Some((claims(), false)));
        assert_eq!(
            chosen(&[("toolsets", "claims")], &[("x-mcp-toolsets", b"messages")]),
            Some((claims(), false))
        );
        for reads_only in ["true", "1", ""] {
            assert_eq!(chosen(&[("readonly", reads_only)], &[]), Some((None, true)));
        }
        assert_eq!(chosen(&[("readonly", "false")], &[("x-mcp-readonly", b"true")]), Some((None, true)));
        for twice in ["readonly", "toolsets", "tools"] {
            assert_eq!(chosen(&[(twice, "false"), (twice, "true")], &[]), None, "{twice}");
        }
        for name in ["toolset", "tool", "Readonly", "readonlys", "read_only", "read-only", "toolSets"] {
            assert_eq!(chosen(&[(name, "true")], &[]), None, "{name}");
        }
        assert_eq!(chosen(&[], &[("x-mcp-read-only", b"true")]), None);
        assert_eq!(chosen(&[("toolsets", " ,")], &[("x-mcp-toolsets", b"claims")]), Some((claims(), false)));
        assert_eq!(chosen(&[("readonly", "yes")], &[]), None);
        assert_eq!(chosen(&[], &[("x-mcp-readonly", b"\xff")]), None);
        assert_eq!(chosen(&[], &[("x-mcp-readonly", b"false"), ("x-mcp-readonly", b"true")]), None);
    }
}
