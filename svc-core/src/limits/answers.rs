//! Limits on answers: items per page, rows scanned and bytes.

/// Default number of items on a page.
pub const PAGE_DEFAULT: i64 = 50;
/// Default number of items on a page over MCP, where a model reads every item.
pub const PAGE_DEFAULT_MCP: i64 = 20;
/// Maximum items on a page.
pub const PAGE_MAX: i64 = 500;
/// Maximum total bytes of the items on a page. The last item may exceed this limit.
pub const PAGE_BYTES: usize = 1_048_576;
/// Default maximum bytes of an answer over MCP.
pub const ANSWER_MCP_BYTES: usize = 60_000;
/// Minimum value that a caller can set as the maximum bytes of an answer.
pub const ANSWER_BYTES_MIN: i64 = 4096;
/// Maximum value that a caller can set as the maximum bytes of an answer.
pub const ANSWER_BYTES_MAX: i64 = 1_048_576;
/// Maximum bytes of an answer in an MCP message, together with the answer's copy as text.
///
/// Some clients reject server-sent events above 1 MiB. The rest of that size is reserved for other fields,
/// such as the request's id.
pub const MCP_ANSWER_BYTES_MAX: usize = 1_048_576 - 8192;
/// Default maximum bytes of an answer in JSON, except over MCP.
pub const ANSWER_BYTES: usize = 4_194_304;
/// Bytes added to the size of an item's texts to estimate the size of the item on a page.
///
/// This is the approximate size of an object's names, ids, numbers and times in JSON.
pub const ROW_BYTES: usize = 1024;
/// Maximum rows scanned for one page when a filter or the caller's visibility excludes some of the rows.
pub const PAGE_SCAN_MAX: i64 = 2000;
