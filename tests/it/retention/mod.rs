//! How long things are kept, and what destroys them.

mod held_content;
mod holds;
mod purging;
pub mod policy;
