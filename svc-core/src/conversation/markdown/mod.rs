//! Markdown trees: parsing CommonMark 0.31 with the tables, task lists, strikethrough and bare addresses of
//! GFM.
//!
//! A text is parsed into parts, which represent everything that CommonMark defines. The display rules convert
//! the parts into nodes: HTML becomes text, an image becomes a link, and a link may lead to the web, to mail
//! or into the service. The number of nodes, the number of levels, and the bytes of link addresses are
//! limited. Text that exceeds a limit or violates a rule is displayed as source. Reference definitions, and
//! table cells without a column, are also displayed as source, because agents read them. If a line nests too
//! many quotes and lists, the text is not parsed from this line on, and mentions there are ignored. Titles of
//! links are not displayed.
//!
//! This module does not access the database and does not log anything.

mod parts;
mod addresses;
mod nodes;

pub(crate) use nodes::{Mention, Node, ParsedTree};
pub(crate) use parts::{parse_events, with_line_feeds};

#[cfg(test)]
mod tests;
