//! Fields with which a request limits its answer. They are sent beside the fields of the operation's input.

use serde_json::Value;

use crate::limits::{ANSWER_BYTES, ANSWER_BYTES_MAX, ANSWER_BYTES_MIN, ANSWER_MCP_BYTES};
use crate::page::Detail;
use crate::schema;
use crate::text::Count;

/// The answer options (`detail`, `max_bytes`, `offset`) that requests for an operation may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerOptions {
    /// Whether a request may choose the level of detail.
    pub detail: bool,
    /// Whether a request may limit the bytes of the answer.
    pub max_bytes: bool,
    /// Whether a request may set the offset, in characters, at which the text in the answer begins.
    pub offset: bool,
}

/// Field name of the level of detail.
pub(super) const DETAIL: &str = "detail";
pub(super) const MAX_BYTES: &str = "max_bytes";
pub(super) const OFFSET: &str = "offset";

/// Maximum number of bytes that a caller requests for an answer.
pub(super) type MaxBytes = Count<ANSWER_BYTES_MIN, ANSWER_BYTES_MAX>;
/// Offset in a text, in characters.
pub(super) type Offset = Count<0, { i64::MAX }>;

impl AnswerOptions {
    pub fn names(self) -> Vec<&'static str> {
        let all = [(self.detail, DETAIL), (self.max_bytes, MAX_BYTES), (self.offset, OFFSET)];
        all.into_iter().filter(|(may_ask, _)| *may_ask).map(|(_, name)| name).collect()
    }

    /// Adds the schemas of the enabled answer options, with their annotations, to the schema of an input.
    pub fn describe(self, schema: &mut Value) {
        let Some(Value::Object(members)) = schema.get_mut("properties") else { return };
        for name in self.names() {
            let (mut field, description, brief) = match name {
                DETAIL => (schema::annotated_input(schema::of::<Detail>), ABOUT_DETAIL.to_owned(), ""),
                MAX_BYTES => (schema::annotated_input(schema::of::<MaxBytes>), about_max_bytes(), ""),
                _ => (schema::annotated_input(schema::of::<Offset>), ABOUT_OFFSET.to_owned(), BRIEF_OFFSET),
            };
            if let Some(keywords) = field.as_object_mut() {
                keywords.insert("description".to_owned(), description.into());
                keywords.insert(schema::BRIEF.to_owned(), brief.into());
            }
            members.insert(name.to_owned(), field);
        }
    }
}

const ABOUT_DETAIL: &str =
    "`lean` leaves out what is null, false, empty or known to you. Default: `full`, over MCP `lean`.";
const ABOUT_OFFSET: &str =
    "The character at which the text of the answer begins: `next_offset` of the answer before. Default: 0.";
const BRIEF_OFFSET: &str = "`next_offset` of the answer before.";

fn about_max_bytes() -> String {
    format!(
        "Most bytes of the answer, as JSON: what exceeds them is cut, and the answer says where to go on. \
         Default: {ANSWER_BYTES}, over MCP {ANSWER_MCP_BYTES}."
    )
}
