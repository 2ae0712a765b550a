//! What shows an approval gate to a person: the script and the stylesheet of the page of a link.

/// The script.
pub const SCRIPT: &str = include_str!("card/approval.js");
/// The stylesheet.
pub const STYLE: &str = include_str!("card/approval.css");
