//! Fields by which a request limits its answer. They are sent beside the fields of an input.

use serde_json::Value;

use crate::limits::{ANSWER_BYTES, ANSWER_BYTES_MAX, ANSWER_BYTES_MIN, ANSWER_MCP_BYTES};
use crate::page::Detail;
use crate::schema;
use crate::text::Count;

/// The fields about the answer that a request may send beside those of its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerOptions {
    /// Whether the request may choose the level of detail.
    pub detail: bool,
    /// Whether the request may limit the bytes.
    pub max_bytes: bool,
    /// Whether the request may name the character at which the text begins.
    pub offset: bool,
}

/// The names of these fields.
pub(super) const DETAIL: &str = "detail";
pub(super) const MAX_BYTES: &str = "max_bytes";
pub(super) const OFFSET: &str = "offset";

/// Maximum bytes of an answer, as a caller requests them.
pub(super) type MaxBytes = Count<ANSWER_BYTES_MIN, ANSWER_BYTES_MAX>;
/// A position in a text, in characters.
pub(super) type Offset = Count<0, { i64::MAX }>;

impl AnswerOptions {
    pub fn names(self) -> Vec<&'static str> {
        let all = [(self.detail, DETAIL), (self.max_bytes, MAX_BYTES), (self.offset, OFFSET)];
        all.into_iter().filter(|(may_ask, _)| *may_ask).map(|(_, name)| name).collect()
    }

    /// Adds the schemas of these fields to the schema of an input, with their annotations.
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
