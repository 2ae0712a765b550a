//! The fields by which a request says how much of its answer it wants. They stand beside those of an input.

use serde_json::Value;

use crate::limits::{ANSWER_BYTES, ANSWER_BYTES_MAX, ANSWER_BYTES_MIN, ANSWER_MCP_BYTES};
use crate::page::Detail;
use crate::schema;
use crate::text::Count;

/// What a request may ask of its answer, in fields that are no fields of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asks {
    /// How much it says.
    pub detail: bool,
    /// How many bytes it has at most.
    pub max_bytes: bool,
    /// The character at which its text begins.
    pub offset: bool,
}

/// The names of these fields.
pub(super) const DETAIL: &str = "detail";
pub(super) const MAX_BYTES: &str = "max_bytes";
pub(super) const OFFSET: &str = "offset";

/// The most bytes of an answer, as a caller asks for them.
pub(super) type MaxBytes = Count<ANSWER_BYTES_MIN, ANSWER_BYTES_MAX>;
/// A place in a text, in characters.
pub(super) type Offset = Count<0, { i64::MAX }>;

impl Asks {
    pub fn names(self) -> Vec<&'static str> {
        let all = [(self.detail, DETAIL), (self.max_bytes, MAX_BYTES), (self.offset, OFFSET)];
        all.into_iter().filter(|(may_ask, _)| *may_ask).map(|(_, name)| name).collect()
    }

    /// Adds the schemas of its fields to that of an input, with their annotations.
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
