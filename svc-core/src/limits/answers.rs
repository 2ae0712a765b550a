//! Limits of answers: of their pages and of their bytes.

/// Default number of items on a page.
pub const PAGE_DEFAULT: i64 = 50;
/// Default number of items on a page over MCP, where a model reads each.
pub const PAGE_DEFAULT_MCP: i64 = 20;
/// Maximum items on a page.
pub const PAGE_MAX: i64 = 500;
/// Maximum bytes of the items of a page, exceeded by less than one item.
pub const PAGE_BYTES: usize = 1_048_576;
/// Default maximum bytes of an answer over MCP.
pub const ANSWER_MCP_BYTES: usize = 60_000;
/// Minimum that a caller can set for the bytes of an answer.
pub const ANSWER_BYTES_MIN: i64 = 4096;
/// Maximum that a caller can set for the bytes of an answer.
pub const ANSWER_BYTES_MAX: i64 = 1_048_576;
/// Maximum bytes of an answer in JSON.
pub const ANSWER_BYTES: usize = 4_194_304;
/// Bytes that an item of a page counts for in addition to its texts.
///
/// This is about the size of an object's names, ids, numbers and times in JSON.
pub const ROW_BYTES: usize = 1024;
/// Maximum rows scanned for one page if a filter or privacy omits some.
pub const PAGE_SCAN_MAX: i64 = 2000;
