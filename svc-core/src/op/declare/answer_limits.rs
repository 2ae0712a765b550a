//! Declares how answers of an operation are shortened: by omitting redundant members, and by cutting to a
//! maximum number of bytes.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::op::call::answer_options::AnswerOptions;
use crate::op::declare::byte_limit::AnswerShape;
use crate::op::declare::cut_notes;
use crate::op::declare::effect::Effect;
use crate::op::declare::frame::Frame;
use crate::op::declare::job::TimedOut;
use crate::op::declare::lean_answer::LeanForm;
use crate::op::declare::operation::Operation;
use crate::schema;

impl Operation {
    /// Lets callers choose the level of detail of the answer, as for every list.
    pub fn detailed(mut self) -> Self {
        self.run.lean_form = Some(OnceLock::new());
        self
    }

    /// Declares that answers of the operation are short: the code limits the number of items, although the
    /// schema does not.
    pub fn short(mut self) -> Self {
        self.run.byte_limit.is_always_short = true;
        self
    }

    /// Declares that answers of the operation are never cut, because callers need complete answers.
    pub fn whole(mut self) -> Self {
        self.run.byte_limit.is_never_cut = true;
        self
    }

    /// Lets callers read the member `text` of the answer from a character offset, to continue after a cut.
    pub fn resumes_text(mut self, text: &'static str) -> Self {
        self.run.byte_limit.resumes_text = Some(text);
        self
    }

    /// Returns whether the server cuts answers of the operation that are too long.
    ///
    /// Files are never cut, and SCIM has its own page sizes.
    pub(in crate::op) fn is_cut(&self) -> bool {
        !self.run.byte_limit.is_never_cut
            && !self.http().returns_file
            && self.http().frame != Some(Frame::Scim)
    }

    /// Returns the name of the text member that callers can read from a character offset, or `None` if there
    /// is none.
    pub fn resumable_text(&self) -> Option<&'static str> {
        self.run.byte_limit.resumes_text
    }

    /// Returns the answer options that requests for the operation can set.
    pub(in crate::op) fn answer_options(&self) -> AnswerOptions {
        let has_max_bytes = || {
            self.is_cut()
                && !self.run.byte_limit.is_always_short
                && !self.http().rest_only
                && cut_notes::may_be_long(&self.full_schema())
        };
        AnswerOptions {
            detail: self.is_detailed(),
            max_bytes: *self.run.byte_limit.has_max_bytes.get_or_init(has_max_bytes),
            offset: self.run.byte_limit.resumes_text.is_some(),
        }
    }

    /// Returns the shape of the operation's answers, which determines how they are cut.
    pub(in crate::op) fn shape(&self) -> &AnswerShape {
        self.run.byte_limit.shape.get_or_init(|| AnswerShape::from_schema(&self.full_schema()))
    }

    /// Returns the maximum bytes of an uncut answer according to its schema, or `usize::MAX` if the schema
    /// sets no limit.
    pub fn max_uncut_answer_bytes(&self) -> usize {
        cut_notes::max_bytes("", &self.full_schema())
    }

    /// Returns the maximum bytes of an answer after every possible cut.
    pub fn max_cut_answer_bytes(&self) -> usize {
        cut_notes::max_bytes_after_cuts(&self.full_schema())
    }

    /// Lists the parts of answers that no cut can limit: strings of unknown length, and objects with several
    /// resumable texts.
    pub fn unbounded_parts(&self) -> Vec<String> {
        cut_notes::unbounded_parts(&self.full_schema())
    }

    /// Returns whether callers can choose the level of detail of the operation's answers.
    pub fn is_detailed(&self) -> bool {
        self.run.lean_form.is_some()
    }

    /// Returns how answers of the operation are made lean, or `None` if callers cannot request lean answers.
    pub(in crate::op) fn lean_form(&self) -> Option<&LeanForm> {
        self.run
            .lean_form
            .as_ref()
            .map(|lean| lean.get_or_init(|| LeanForm::from_schema(&self.full_schema())))
    }

    /// Returns the JSON Schema (2020-12) of the output: one object, without references.
    ///
    /// If the output is one of several objects, the schema contains the members of all of them.
    pub fn output_schema(&self) -> Value {
        let mut schema = self.full_schema();
        if self.is_cut() {
            cut_notes::add_cut_members(&mut schema);
        }
        schema
    }

    /// Returns the schema of an answer before any cut.
    fn full_schema(&self) -> Value {
        let schema = schema::inlined_output(self.docs().output);
        if self.effect() == Effect::Wait {
            let timed_out = schema::inlined_output(schema::of::<TimedOut>);
            return schema::merge_into_one_object(json!({
                "description": schema.get("description"),
                "anyOf": [schema, timed_out],
            }));
        }
        schema::merge_into_one_object(schema)
    }
}
