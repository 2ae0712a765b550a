//! The house rules: what must be true of the sources, of the operation table and of the API as it was agreed.

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
pub mod source;
mod table;
mod tables;
