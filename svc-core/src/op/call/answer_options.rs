//! Answer options: the input fields that set the level of detail and the maximum size of an answer.
//!
//! Requests contain the answer options beside the fields of the operation's input.

use serde_json::Value;

use crate::limits::{ANSWER_BYTES, ANSWER_BYTES_MAX, ANSWER_BYTES_MIN, ANSWER_MCP_BYTES};
use crate::page::Detail;
use crate::schema;
use crate::text::Count;

/// The answer options (`detail`, `max_bytes`, `offset`) that requests for an operation can set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerOptions {
    /// Whether a request may choose the level of detail.
    pub detail: bool,
    /// Whether a request may set the maximum number of bytes of the answer.
    pub max_bytes: bool,
    /// Whether a request may set the offset, in characters, at which the text in the answer begins.
    pub offset: bool,
}

/// Name of the input field that sets the level of detail.
pub(super) const DETAIL: &str = "detail";
pub(super) const MAX_BYTES: &str = "max_bytes";
pub(super) const OFFSET: &str = "offset";

/// Value of the field `max_bytes`: the maximum number of bytes that the caller accepts in an answer.
pub(super) type MaxBytes = Count<ANSWER_BYTES_MIN, ANSWER_BYTES_MAX>;
/// Value of the field `offset`: the number of characters to skip at the beginning of the answer's text.
pub(super) type Offset = Count<0, { i64::MAX }>;

impl AnswerOptions {
    /// Returns the names of the enabled answer options.
    pub fn field_names(self) -> Vec<&'static str> {
        let all = [(self.detail, DETAIL), (self.max_bytes, MAX_BYTES), (self.offset, OFFSET)];
        all.into_iter().filter(|(may_ask, _)| *may_ask).map(|(_, name)| name).collect()
    }

    /// Adds the schemas of the enabled answer options, with their annotations, to the schema of an
    /// operation's input.
    pub fn add_to_schema(self, schema: &mut Value) {
        let Some(Value::Object(members)) = schema.get_mut("properties") else { return };
        for name in self.field_names() {
            let (mut field, description, brief) = match name {
                DETAIL => (schema::annotated_input(schema::of::<Detail>), DETAIL_DESCRIPTION.to_owned(), ""),
                MAX_BYTES => (schema::annotated_input(schema::of::<MaxBytes>), max_bytes_description(), ""),
                _ => (
                    schema::annotated_input(schema::of::<Offset>),
                    OFFSET_DESCRIPTION.to_owned(),
                    OFFSET_BRIEF,
                ),
            };
            if let Some(keywords) = field.as_object_mut() {
                keywords.insert("description".to_owned(), description.into());
                keywords.insert(schema::BRIEF.to_owned(), brief.into());
            }
            members.insert(name.to_owned(), field);
        }
    }
}

const DETAIL_DESCRIPTION: &str =
    "`lean` omits null, false and empty members, hashes and known ids. Default: `full`, over MCP `lean`.";
const OFFSET_DESCRIPTION: &str =
    "Number of characters of the text to skip: `next_offset` of the previous answer. Default: 0.";
const OFFSET_BRIEF: &str = "`next_offset` of the previous answer.";

fn max_bytes_description() -> String {
    format!(
        "Maximum bytes of the answer, as JSON. A longer answer is cut: `next_cursor`, `next_offset`, \
         `truncated` or `omitted` reports the cut. Default: {ANSWER_BYTES}; over MCP: {ANSWER_MCP_BYTES}."
    )
}
