//! Retention: its policies, and the operations that destroy content.

mod held_content;
mod holds;
mod purging;
pub mod policy;
