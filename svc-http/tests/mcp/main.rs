//! Tests the Model Context Protocol on a whole server.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod posts;
mod server;
mod sessions;
mod streams;
