//! Markdown as trees: CommonMark 0.31 with tables, task lists, strikethrough and bare addresses of GFM.
//!
//! A text is parsed into parts, which have all that CommonMark knows of it, and the parts become nodes by the
//! rules of what a page may show: HTML is text, a link leads to the web, to mail or into the service, and an
//! image is a link. A text gives a bounded number of nodes in a bounded number of levels, and references
//! repeat a bounded number of bytes. What is beyond these bounds, or against the rules, is shown as its
//! source. So are definitions of references, and cells that a table has no columns for: an agent reads them.
//! Titles of links are not shown.
//!
//! Nothing here reads, keeps or logs anything.

mod parts;
mod addresses;
mod nodes;

pub(crate) use nodes::{Mention, Node, Parsed};
pub(crate) use parts::{events, with_line_feeds};

#[cfg(test)]
mod tests;
