//! The house rules: conditions on the sources, the operation table and the agreed API.

mod agreed;
pub mod areas;
mod document;
mod order;
mod permits;
mod records;
pub mod rules;
pub mod schema;
mod security;
mod promises;
mod prose;
pub mod source;
mod table;
mod tables;
