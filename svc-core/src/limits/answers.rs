//! Limits on the pages and the bytes of answers.

/// Default number of items on a page.
pub const PAGE_DEFAULT: i64 = 50;
/// Default number of items on a page over MCP, where a model reads every item.
pub const PAGE_DEFAULT_MCP: i64 = 20;
/// Maximum items on a page.
pub const PAGE_MAX: i64 = 500;
/// Maximum bytes of the items on a page. The last item may exceed it.
pub const PAGE_BYTES: usize = 1_048_576;
/// Default maximum bytes of an answer over MCP.
pub const ANSWER_MCP_BYTES: usize = 60_000;
/// Minimum value that a caller can set as the maximum bytes of an answer.
pub const ANSWER_BYTES_MIN: i64 = 4096;
/// Maximum value that a caller can set as the maximum bytes of an answer.
pub const ANSWER_BYTES_MAX: i64 = 1_048_576;
/// Maximum bytes of an MCP message with an answer. Some clients reject longer server-sent events.
pub const MCP_MESSAGE_BYTES_MAX: usize = 1_048_576;
/// Bytes of an MCP message that are reserved for everything but the answer, such as the id of the request.
pub const MCP_ENVELOPE_BYTES: usize = 8192;
/// Maximum bytes of an answer in JSON.
pub const ANSWER_BYTES: usize = 4_194_304;
/// Number of bytes that an item on a page counts for in addition to its texts.
///
/// This is the approximate size of an object's names, ids, numbers and times in JSON.
pub const ROW_BYTES: usize = 1024;
/// Maximum rows scanned for one page if a filter or visibility omits some of them.
pub const PAGE_SCAN_MAX: i64 = 2000;
