//! Defines the card that shows an approval gate in a client's window.
//!
//! The card loads nothing from the network. The card sends messages to the client, which calls tools and
//! opens links for the card.

use serde_json::{Value, json};

use crate::catalogue::CARD_URI;

const MIME_TYPE: &str = "text/html;profile=mcp-app";

/// HTML source of the card, in one file.
const CARD_HTML: &str = concat!(
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Approval</title>\n<style>",
    include_str!("card/approval.css"),
    "</style>\n</head>\n<body>\n<main></main>\n<script>",
    include_str!("card/approval.js"),
    "</script>\n</body>\n</html>\n"
);

/// Card as a resource, for clients that show cards (the extension MCP Apps).
#[derive(Clone, Debug)]
pub struct Card {
    /// Entry of the card in the list of resources.
    pub item: Value,
    /// Contents of the card, as returned by a read of the resource.
    pub contents: Value,
}

/// Returns the card that shows approval gates.
pub fn approval() -> Card {
    // The card loads nothing, so its Content-Security-Policy allows no source.
    let ui = json!({"csp": {}, "prefersBorder": true});
    Card {
        item: json!({
            "uri": CARD_URI, "name": "approval-card", "title": "Approval",
            "description": "Shows an approval gate, and lets a person decide.",
            "mimeType": MIME_TYPE, "size": CARD_HTML.len(), "_meta": {"ui": ui},
        }),
        contents: json!({"uri": CARD_URI, "mimeType": MIME_TYPE, "text": CARD_HTML, "_meta": {"ui": ui}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_one_file_without_markup_from_words() {
        let card = approval();
        assert_eq!(card.item["uri"], card.contents["uri"]);
        for (wanted, number) in [("<script>", 1), ("</script>", 1), ("src=", 0), ("href=", 0), ("http://", 0)]
        {
            assert_eq!(CARD_HTML.matches(wanted).count(), number, "{wanted}");
        }
        for way in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function("] {
            assert!(!CARD_HTML.contains(way), "{way}");
        }
    }
}
