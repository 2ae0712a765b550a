//! Builds the page of the board, whose relative URLs depend on the depth of the screen, and the pages that
//! contain only text.
//!
//! The template has two placeholders: `{up}` is the relative path to the folder of the board, and `{digest}`
//! is the digest of the files. Nothing else is filled in, so the page never contains data of a workspace.

use svc_core::Error;

use crate::html::escape_html;

/// Maximum number of folders between the board's folder and a screen.
pub(super) const DEPTH_MAX: usize = 4;

/// Fills in the page template for a screen that is `depth` folders below the board's folder.
pub(super) fn fill_template(template: &str, depth: usize, digest: &str) -> String {
    template.replace("{up}", &"../".repeat(depth)).replace("{digest}", digest)
}

/// Returns a page with the title and the detail of an error, and an optional link to the board.
pub(super) fn error_page(error: &Error, board: Option<&str>) -> String {
    let title = escape_html(error.code().title());
    let detail = escape_html(error.detail());
    let link = board.map(link_to_board).unwrap_or_default();
    render_page(&title, &format!("<p>{detail}</p>\n{link}"))
}

/// Returns a page that asks the reader to confirm unsubscribing from mail.
pub(super) fn unsubscribe_page() -> String {
    // A form without an action is sent to the URL of its page.
    render_page(
        "Unsubscribe from mail",
        "<p>If you unsubscribe, this service no longer sends you mail. Your inbox does not change.</p>\n\
         <form method=\"post\">\n<input type=\"hidden\" name=\"List-Unsubscribe\" value=\"One-Click\">\n\
         <p><button>Unsubscribe</button></p>\n</form>\n",
    )
}

/// Returns a page that confirms that mail is off.
pub(super) fn unsubscribed_page(board: &str) -> String {
    let said = "<p>You will no longer get mail. You can turn it on again in your settings.</p>\n";
    render_page("You are unsubscribed", &format!("{said}{}", link_to_board(board)))
}

fn link_to_board(board: &str) -> String {
    format!("<p><a href=\"{}\">Open the board</a></p>\n", escape_html(board))
}

/// Returns a page with a title and a content, which must be escaped HTML.
fn render_page(title: &str, content: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{title}</title>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         {content}</main>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use svc_core::Code;

    use super::*;

    const TEMPLATE: &str = include_str!("../../ui/index.html");

    /// A URL without the placeholder would work only at one depth.
    #[test]
    fn every_address_in_the_page_is_marked() {
        let addresses = || ["href=\"", "src=\""].into_iter().flat_map(|name| TEMPLATE.split(name).skip(1));
        assert!(addresses().all(|rest| rest.starts_with("{up}")), "{TEMPLATE}");
        assert_eq!((addresses().count(), TEMPLATE.matches("{up}").count()), (4, 4));
        assert_eq!(TEMPLATE.matches("{up}f/{digest}/").count(), 3, "all but the manifest's");
        let filled = fill_template(TEMPLATE, 1, "0123456789ab");
        assert!(!filled.contains(['{', '}']), "{filled}");
    }

    /// The Content-Security-Policy of the page would block inline scripts and styles.
    #[test]
    fn the_page_has_nothing_inline() {
        for inline in ["<style", "style=", " on", "javascript:"] {
            assert!(!TEMPLATE.replace(" one", "").contains(inline), "{inline}");
        }
        assert_eq!(
            TEMPLATE.matches("<script").count(),
            TEMPLATE.matches("<script type=\"module\" src=").count()
        );
    }

    #[test]
    fn words_are_no_markup() {
        let error = Error::new(Code::Forbidden, "<b>&</b>");
        let page = error_page(&error, None);
        assert!(page.contains("&lt;b&gt;&amp;&lt;/b&gt;") && !page.contains("<b>"), "{page}");
        assert!(
            !page.contains("<a ") && error_page(&error, Some("/a\"b")).contains("href=\"/a&quot;b\""),
            "{page}"
        );
    }
}
