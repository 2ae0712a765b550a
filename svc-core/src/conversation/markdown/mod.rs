//! Markdown as trees: CommonMark 0.31 with tables, task lists, strikethrough and bare addresses of GFM.
//!
//! A text is parsed into parts, which keep everything that CommonMark defines, and the parts become nodes by
//! the rules for display: HTML is text, a link leads to the web, to mail or into the service, and an image is
//! a link. The number of nodes, of levels, and of bytes that references repeat is bounded. Text beyond these
//! bounds, or against the rules, is shown as its source. So are definitions of references, and cells without
//! a column in their table, because agents read them. A line that nests too many quotes and lists, and the
//! lines after it, are not parsed and mention no member. Titles of links are not shown.
//!
//! Nothing here reads, stores or logs anything.

mod parts;
mod addresses;
mod nodes;

pub(crate) use nodes::{Mention, Node, ParsedTree};
pub(crate) use parts::{events, with_line_feeds};

#[cfg(test)]
mod tests;
