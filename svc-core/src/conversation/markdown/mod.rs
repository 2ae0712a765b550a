//! Markdown as trees: CommonMark 0.31 with tables, task lists, strikethrough and bare addresses of GFM.
//!
//! A text is parsed into parts, which have all that CommonMark knows of it, and the parts become nodes by the
//! rules of what a page may show: HTML is text, a link leads to the web, to mail or into the service, and an
//! image is a link. A text gives a bounded number of nodes in a bounded number of levels. What is beyond
//! these bounds, or against the rules, is shown as its source, so that nothing of a text disappears.
//!
//! Nothing here reads, keeps or logs anything.

mod parts;
mod addresses;
mod nodes;

pub(crate) use nodes::{Mention, Node, tree};
pub(crate) use parts::events;

#[cfg(test)]
mod tests;
