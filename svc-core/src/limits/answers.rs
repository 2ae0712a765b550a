//! Limits of answers: of their pages and of their bytes.

/// Items on a page unless the caller asks otherwise.
pub const PAGE_DEFAULT: i64 = 50;
/// The same over MCP, where a model reads each.
pub const PAGE_DEFAULT_MCP: i64 = 20;
/// Most items on a page.
pub const PAGE_MAX: i64 = 500;
/// Bytes of items at which a page ends. It may exceed this by less than one item.
pub const PAGE_BYTES: usize = 1_048_576;
/// Bytes of an answer over MCP unless the caller asks otherwise.
pub const ANSWER_MCP_BYTES: usize = 60_000;
/// Fewest bytes of an answer that a caller can ask for.
pub const ANSWER_BYTES_MIN: i64 = 4096;
/// Most bytes of an answer that a caller can ask for.
pub const ANSWER_BYTES_MAX: i64 = 1_048_576;
/// Most bytes of an answer that is JSON.
pub const ANSWER_BYTES: usize = 4_194_304;
/// Bytes that an item of a page counts for in addition to its texts.
///
/// About what an object's names, ids, numbers and times take as JSON.
pub const ROW_BYTES: usize = 1024;
/// Most rows scanned for one page, where a filter or privacy leaves some out.
pub const PAGE_SCAN_MAX: i64 = 2000;
