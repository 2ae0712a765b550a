//! Markdown trees: CommonMark 0.31 with the tables, task lists, strikethrough and bare addresses of GFM.
//!
//! A text is parsed into parts, which keep everything that CommonMark defines. The display rules turn the
//! parts into nodes: HTML becomes text, a link may lead to the web, to mail or into the service, and an image
//! becomes a link. The number of nodes, of levels, and of bytes that references repeat is limited. Text that
//! exceeds a limit or violates a rule is displayed as source. So are reference definitions, and cells without
//! a column in their table, because agents read them. A line that nests too many quotes and lists is not
//! parsed, nor are the lines after it, and mentions in them are ignored. Titles of links are not displayed.
//!
//! This module does not read, store or log anything.

mod parts;
mod addresses;
mod nodes;

pub(crate) use nodes::{Mention, Node, ParsedTree};
pub(crate) use parts::{events, with_line_feeds};

#[cfg(test)]
mod tests;
