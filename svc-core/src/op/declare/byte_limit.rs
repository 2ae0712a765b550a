//! Cuts answers to the maximum number of bytes that the caller accepts.
//!
//! A client drops an answer that is too long for it, and loses the data in that answer, for example a lease.
//! So the server cuts long answers. A page ends early, with a cursor. A text is cut, and its object contains
//! the offset of the next character. A list without a cursor is cut, and arbitrary JSON of a caller is
//! replaced by null; the member `omitted` reports both. Members that identify an object are kept: ids, times,
//! a lease, a title, a pin.
//!
//! The cut is made in the encoded answer, according to the schema of the output, so no output needs a second
//! type.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::cut_notes::{
    CURSOR_BYTES, ITEMS, NEWEST_LIST, NEWEST_OMITTED, NEXT_CURSOR, NEXT_OFFSET, NULLED_WHEN_CUT, OMITTED,
    RESUMABLE_TEXTS, TRUNCATED, UNCUT_STRING_BYTES, UNCUT_TEXT_BYTES, WHOLE_ITEMS, is_nullable, is_open,
};
use super::lean_answer::{OrderedMembers, parse_own_json};
use crate::error::{Error, Result};
use crate::page::{AnswerBounds, CURSORS, Cursor};
use crate::schema;

/// Names of the page members that contain the position of the page's last item.
const POSITIONS: &[&str] = &["after_id", "after_lsn"];

/// Names of the members that are never cut.
const NEVER_CUT: &[&str] = &["pin"];

/// Bytes reserved for the members that report a cut text.
const TRUNCATED_BYTES: usize = 48;
/// Bytes reserved for one entry of `omitted` without its name, and again for the member `omitted` itself.
const OMITTED_BYTES: usize = 16;

/// How the answers of an operation are cut to a maximum number of bytes.
#[derive(Default)]
pub(crate) struct ByteLimit {
    /// Whether the code keeps answers short although their schema sets no limit.
    pub is_always_short: bool,
    /// Whether answers of the operation are never cut.
    pub is_never_cut: bool,
    /// Name of the text member that callers can read from a character offset, if there is one.
    pub resumes_text: Option<&'static str>,
    /// The shape of the answers. Computed on first use.
    pub shape: OnceLock<AnswerShape>,
    /// Whether callers may set the maximum number of bytes of the answer. Computed on first use.
    pub has_max_bytes: OnceLock<bool>,
}

/// The shape of an answer: which of its parts may be cut, and how.
#[derive(Debug)]
pub(crate) enum AnswerShape {
    /// An object. In a member that the schema does not describe, a list or a long string is cut, and an
    /// object is kept whole or replaced by null.
    Object {
        members: BTreeMap<String, AnswerShape>,
        nullable: bool,
    },
    List(Box<AnswerShape>),
    /// A value that is kept whole or replaced by null.
    WholeOrNull,
    /// A value that is kept whole. Only a long string is cut.
    Plain,
}

impl AnswerShape {
    /// Derives the shape of an answer from the schema of the answer.
    pub fn from_schema(schema: &Value) -> Self {
        let nullable = is_nullable(schema);
        let merged = schema::merge_into_one_object(schema.clone());
        if let Some(members) = merged.get("properties").and_then(Value::as_object) {
            let shape = |(name, member): (&String, &Value)| {
                let shape = match name.as_str() {
                    name if NULLED_WHEN_CUT.contains(&name) => Self::WholeOrNull,
                    name if WHOLE_ITEMS.contains(&name) => Self::List(Box::new(Self::WholeOrNull)),
                    name if NEVER_CUT.contains(&name) => Self::Plain,
                    _ => Self::from_schema(member),
                };
                (name.clone(), shape)
            };
            return Self::Object { members: members.iter().map(shape).collect(), nullable };
        }
        match merged.get("items") {
            Some(items) => Self::List(Box::new(Self::from_schema(items))),
            None if is_open(schema) => Self::WholeOrNull,
            None => Self::Plain,
        }
    }

    /// Returns the shape of an object that no schema describes.
    pub fn without_schema() -> Self {
        Self::Object { members: BTreeMap::new(), nullable: false }
    }

    /// Cuts an encoded answer to the maximum bytes in `bounds`. An answer that is not an object is returned
    /// unchanged.
    pub fn cut_to_fit(&self, full: &[u8], bounds: AnswerBounds) -> Result<Vec<u8>> {
        let full: &RawValue = serde_json::from_slice(full).map_err(Error::internal)?;
        match self {
            Self::Object { members, .. } if full.get().starts_with('{') => {
                CutObject::parse(members, full)?.cut_to_fit(bounds.max_bytes, bounds.offset)
            }
            _ => Ok(full.get().as_bytes().to_vec()),
        }
    }
}

/// Removes the first `count` characters from the member `text_member` of an encoded answer.
///
/// In a page, the characters are removed from the text of the first item.
pub(crate) fn skip_text_characters(full: &[u8], text_member: &str, count: usize) -> Result<Vec<u8>> {
    let mut answer: Map<String, Value> = serde_json::from_slice(full).map_err(Error::internal)?;
    let object = match answer.get_mut(ITEMS).and_then(Value::as_array_mut) {
        Some(items) => items.first_mut().and_then(Value::as_object_mut),
        None => Some(&mut answer),
    };
    if let Some(Value::String(text)) = object.and_then(|object| object.get_mut(text_member)) {
        let begin = text.char_indices().nth(count).map_or(text.len(), |(begin, _)| begin);
        text.drain(..begin);
    }
    serde_json::to_vec(&answer).map_err(Error::internal)
}

/// How a member of an object is shortened.
#[derive(Clone, Copy)]
enum CutKind<'a> {
    ReplaceByNull,
    Text,
    List(&'a AnswerShape),
    Object { members: &'a BTreeMap<String, AnswerShape>, nullable: bool },
}

impl<'a> CutKind<'a> {
    /// Returns how a member is shortened, or `None` if it is kept whole.
    fn for_member(name: &str, value: &RawValue, shape: Option<&'a AnswerShape>) -> Option<Self> {
        match (value.get().as_bytes().first()?, shape) {
            (b'{' | b'[' | b'"', Some(AnswerShape::WholeOrNull)) => Some(Self::ReplaceByNull),
            (b'{', Some(AnswerShape::Object { members, nullable })) => {
                Some(Self::Object { members, nullable: *nullable })
            }
            (b'[', Some(AnswerShape::List(items))) => Some(Self::List(items)),
            (b'[', _) => Some(Self::List(&AnswerShape::WholeOrNull)),
            (b'{', None) => Some(Self::ReplaceByNull),
            (b'"', _) if RESUMABLE_TEXTS.contains(&name) => {
                (value.get().len() > UNCUT_TEXT_BYTES).then_some(Self::Text)
            }
            (b'"', _) => (value.get().len() > UNCUT_STRING_BYTES).then_some(Self::Text),
            _ => None,
        }
    }

    /// Returns the number of bytes to reserve for the members that report this cut.
    fn report_bytes(self, name: &str) -> usize {
        match self {
            Self::Text => TRUNCATED_BYTES,
            _ => name.len().saturating_add(2 * OMITTED_BYTES),
        }
    }
}

/// A member of an object, complete or cut.
struct ObjectMember<'a> {
    name: &'a str,
    /// The complete value.
    full: &'a RawValue,
    /// How the member may be shortened, or `None` if it is kept whole.
    cut: Option<CutKind<'a>>,
    /// The shortened value as JSON, if the member was shortened.
    short: Option<Vec<u8>>,
}

impl ObjectMember<'_> {
    /// Returns the JSON of the member, after the cut if it was cut.
    fn bytes(&self) -> &[u8] {
        self.short.as_deref().unwrap_or(self.full.get().as_bytes())
    }
}

/// An object that is being cut.
struct CutObject<'a> {
    members: OrderedMembers<'a>,
    shapes: &'a BTreeMap<String, AnswerShape>,
}

/// The members of an object that report its cuts.
#[derive(Default)]
struct CutReport<'a> {
    next_offset: Option<usize>,
    is_truncated: bool,
    omitted: Map<String, Value>,
    newest_omitted: Option<usize>,
    cursor: Option<&'a RawValue>,
}

impl<'a> CutObject<'a> {
    fn parse(shapes: &'a BTreeMap<String, AnswerShape>, full: &'a RawValue) -> Result<Self> {
        Ok(Self { members: parse_own_json(full)?, shapes })
    }

    /// Encodes the object in at most `budget` bytes, or in as few bytes as possible if `budget` is too small.
    ///
    /// `offset` is the number of characters that were removed from the beginning of the object's text.
    fn cut_to_fit(&self, budget: usize, offset: usize) -> Result<Vec<u8>> {
        let cursors: Vec<&RawValue> = match self.members.get(CURSORS) {
            Some(cursors) => parse_own_json(cursors)?,
            None => Vec::new(),
        };
        let is_page = self.shapes.contains_key(NEXT_CURSOR) && !cursors.is_empty();
        let mut parts: Vec<ObjectMember<'_>> = self
            .members
            .iter()
            .filter(|(name, _)| *name != CURSORS)
            .map(|(name, full)| ObjectMember {
                name,
                full,
                cut: CutKind::for_member(name, full, self.shapes.get(name)),
                short: None,
            })
            .collect();
        let mut left = budget.saturating_sub(if is_page { CURSOR_BYTES } else { 2 });
        for part in &parts {
            // The overhead of a member: the quotation marks of its name, a colon and a comma.
            left = left.saturating_sub(part.name.len().saturating_add(4));
            left = left
                .saturating_sub(part.cut.map_or(part.full.get().len(), |cut| cut.report_bytes(part.name)));
        }
        let mut report = CutReport::default();
        let order = |part: &&mut ObjectMember<'_>| {
            (!matches!(part.cut, Some(CutKind::ReplaceByNull)), part.full.get().len())
        };
        let mut short: Vec<&mut ObjectMember<'_>> =
            parts.iter_mut().filter(|part| part.cut.is_some()).collect();
        short.sort_by_key(order);
        let mut others = short.len();
        for part in short {
            let share = left.checked_div(others).unwrap_or_default();
            others = others.saturating_sub(1);
            if part.full.get().len() > share {
                let cursors: &[&RawValue] = if is_page && part.name == ITEMS { &cursors } else { &[] };
                part.shorten(share, offset, cursors, &mut report)?;
            }
            left = left.saturating_sub(part.bytes().len());
        }
        encode_object(&parts, report)
    }
}

impl<'a> ObjectMember<'a> {
    /// Shortens a member to `share` bytes, and records the cut in `report`.
    fn shorten(
        &mut self,
        share: usize,
        offset: usize,
        cursors: &[&'a RawValue],
        report: &mut CutReport<'a>,
    ) -> Result<()> {
        match self.cut {
            None => {}
            Some(CutKind::ReplaceByNull) => self.omit(report),
            Some(CutKind::Text) => {
                let text: String = parse_own_json(self.full)?;
                let (begin, kept) = longest_prefix(&text, share);
                self.short = Some(serde_json::to_vec(begin).map_err(Error::internal)?);
                report.is_truncated = true;
                if RESUMABLE_TEXTS.contains(&self.name) {
                    report.next_offset = Some(offset.saturating_add(kept));
                }
            }
            Some(CutKind::Object { members, nullable }) => {
                let short = CutObject::parse(members, self.full)?.cut_to_fit(share, 0)?;
                if nullable && short.len() > share {
                    self.omit(report);
                } else {
                    self.short = Some(short);
                }
            }
            Some(CutKind::List(shape)) => {
                let listed: Vec<&RawValue> = parse_own_json(self.full)?;
                let is_newest_last = self.name == NEWEST_LIST;
                let is_page = !cursors.is_empty();
                let (kept, short) =
                    cut_list(&listed, shape, share, is_newest_last, is_page.then_some(offset))?;
                let omitted = listed.len().saturating_sub(kept);
                self.short = Some(short);
                match cursors.get(kept.saturating_sub(1)) {
                    _ if omitted == 0 => {}
                    Some(cursor) => report.cursor = Some(cursor),
                    None if is_newest_last => report.newest_omitted = Some(omitted),
                    None => drop(report.omitted.insert(self.name.to_owned(), omitted.into())),
                }
            }
        }
        Ok(())
    }

    /// Replaces the member by null, and records that in `report`.
    fn omit(&mut self, report: &mut CutReport<'_>) {
        report.omitted.insert(self.name.to_owned(), self.full.get().len().into());
        self.short = Some(b"null".to_vec());
    }
}

/// Returns the longest prefix of a text that has at most `max_bytes` bytes as JSON, and the number of
/// characters in the prefix.
fn longest_prefix(text: &str, max_bytes: usize) -> (&str, usize) {
    let mut bytes = 2_usize;
    let mut kept = 0_usize;
    for (place, c) in text.char_indices() {
        bytes = bytes.saturating_add(match c {
            '"' | '\\' | '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => 2,
            c if c < ' ' => 6,
            c => c.len_utf8(),
        });
        if bytes > max_bytes {
            return (text.split_at(place).0, kept);
        }
        kept = kept.saturating_add(1);
    }
    (text, kept)
}

/// Shortens a list to `share` bytes. Returns the number of kept items, and the encoded list.
///
/// The first items are kept, or the last ones if `keep_last` is set. If not even one item fits, that item is
/// cut. A page always keeps one item; for a page, `page_text_offset` is the offset of that item's text.
fn cut_list(
    items: &[&RawValue],
    shape: &AnswerShape,
    share: usize,
    keep_last: bool,
    page_text_offset: Option<usize>,
) -> Result<(usize, Vec<u8>)> {
    let mut kept = 0_usize;
    let mut bytes = 2_usize;
    let mut next: Box<dyn Iterator<Item = &&RawValue>> =
        if keep_last { Box::new(items.iter().rev()) } else { Box::new(items.iter()) };
    let mut first = None;
    for item in next.by_ref() {
        first = first.or(Some(*item));
        let with = bytes.saturating_add(item.get().len()).saturating_add(usize::from(kept > 0));
        if with > share {
            break;
        }
        (bytes, kept) = (with, kept.saturating_add(1));
    }
    let mut out = Vec::with_capacity(bytes);
    out.push(b'[');
    match (kept, first) {
        (0, Some(first)) => {
            let short = match shape {
                AnswerShape::Object { members, .. } if first.get().starts_with('{') => {
                    CutObject::parse(members, first)?
                        .cut_to_fit(share.saturating_sub(2), page_text_offset.unwrap_or_default())?
                }
                _ => first.get().as_bytes().to_vec(),
            };
            if page_text_offset.is_some() || short.len().saturating_add(2) <= share {
                out.extend_from_slice(&short);
                kept = 1;
            }
        }
        _ => {
            let skipped = if keep_last { items.len().saturating_sub(kept) } else { 0 };
            for (place, item) in items.iter().skip(skipped).take(kept).enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(item.get().as_bytes());
            }
        }
    }
    out.push(b']');
    Ok((kept, out))
}

/// Encodes an object with the members that report its cuts.
fn encode_object(parts: &[ObjectMember<'_>], report: CutReport<'_>) -> Result<Vec<u8>> {
    let mut out = vec![b'{'];
    let mut member = |name: &str, value: &[u8]| {
        if out.len() > 1 {
            out.push(b',');
        }
        serde_json::to_writer(&mut out, name).map_err(Error::internal)?;
        out.push(b':');
        out.extend_from_slice(value);
        Ok::<(), Error>(())
    };
    // A list that is read by position also contains the position of the cursor, for example in `after_lsn`.
    let position = report
        .cursor
        .and_then(|cursor| parse_own_json::<Cursor>(cursor).ok())
        .map(|Cursor(at)| at.to_string());
    // Items may already have been omitted before this cut.
    let before = parts.iter().find(|part| part.name == NEWEST_OMITTED);
    let before = before.and_then(|part| parse_own_json::<usize>(part.full).ok()).unwrap_or_default();
    for part in parts {
        match (part.name, &report.cursor, &position) {
            (NEXT_CURSOR, Some(_), _) => {}
            (NEWEST_OMITTED, ..) if report.newest_omitted.is_some() => {}
            (name, _, Some(at)) if POSITIONS.contains(&name) => member(name, at.as_bytes())?,
            (name, ..) => member(name, part.bytes())?,
        }
    }
    if let Some(cursor) = report.cursor {
        member(NEXT_CURSOR, cursor.get().as_bytes())?;
    }
    if report.is_truncated {
        member(TRUNCATED, b"true")?;
    }
    if let Some(offset) = report.next_offset {
        member(NEXT_OFFSET, offset.to_string().as_bytes())?;
    }
    if let Some(omitted) = report.newest_omitted {
        member(NEWEST_OMITTED, omitted.saturating_add(before).to_string().as_bytes())?;
    }
    if !report.omitted.is_empty() {
        member(OMITTED, Value::Object(report.omitted).to_string().as_bytes())?;
    }
    out.push(b'}');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::limits::ANSWER_BYTES_MIN;

    const LEAST: usize = 4096;

    fn fit(shape: &AnswerShape, full: &Value, max_bytes: usize) -> Value {
        let fitted =
            shape.cut_to_fit(full.to_string().as_bytes(), AnswerBounds { max_bytes, offset: 0 }).unwrap();
        assert!(fitted.len() <= max_bytes, "{} of {max_bytes} bytes", fitted.len());
        serde_json::from_slice(&fitted).unwrap()
    }

    /// Returns a number in an answer, or zero if the number is absent.
    fn count(number: Option<&Value>) -> usize {
        number.map_or(0, |number| number.as_u64().unwrap().try_into().unwrap())
    }

    fn word(max: usize) -> Value {
        json!({"type": "string", "maxLength": max})
    }

    fn object(members: Value) -> Value {
        json!({"type": "object", "properties": members})
    }

    /// Returns a schema similar to that of a thread's context.
    fn pack() -> Value {
        let message =
            object(json!({"id": word(36), "body": {"type": "string"}, "metadata": {"type": "object"},
            "content": {"type": "array", "items": {"type": "object"}}}));
        let task = object(json!({"id": word(36), "title": word(200), "claim_lease_id": word(36),
            "tools": {"type": "array", "items": word(200)}, "footprint": {"type": ["object", "null"]},
            "pin": object(json!({"uri": word(60)}))}));
        object(json!({
            "thread": task,
            "boot": {"anyOf": [object(json!({"text": {"type": "string"}, "version": {"type": "integer"}})),
                               {"type": "null"}]},
            "blocks": {"type": "array",
                       "items": object(json!({"label": word(100), "value": {"type": "string"}}))},
            "messages": {"type": "array", "items": message},
            "result": {},
        }))
    }

    fn page() -> Value {
        let item = pack()["properties"]["messages"]["items"].clone();
        object(json!({"items": {"type": "array", "items": item}, "after_id": {"type": "integer"},
                      "next_cursor": {"type": ["string", "null"]}}))
    }

    fn cursor(place: usize) -> Value {
        serde_json::to_value(Cursor(i64::try_from(place).unwrap())).unwrap()
    }

    /// Generates texts of fewer than `most` characters.
    fn texts(most: usize) -> impl Strategy<Value = String> {
        let alphabet = prop_oneof!["[a-z ]{1,9}", "[é漢\u{1f600}]{1,9}", "[\"\\\\\n\u{1}\u{7f}]{1,9}"];
        (alphabet, 0..most).prop_map(|(some, length)| some.chars().cycle().take(length).collect())
    }

    fn messages() -> impl Strategy<Value = Vec<Value>> {
        let message = (texts(30_000), texts(3000), 0..4_usize).prop_map(|(body, long, blocks)| {
            let content = vec![json!({"text": long}); blocks];
            json!({"id": "m", "body": body, "metadata": {"a": long}, "content": content})
        });
        proptest::collection::vec(message, 0..9).prop_map(|mut messages| {
            for (place, message) in messages.iter_mut().enumerate() {
                message["id"] = json!(place.to_string());
            }
            messages
        })
    }

    /// Checks that `short` contains a prefix of the text in `full`, and reports a cut correctly.
    fn check_text(short: &Value, full: &Value, text: &str) -> Result<(), TestCaseError> {
        let kept = short[text].as_str().unwrap();
        let whole = full[text].as_str().unwrap();
        prop_assert!(whole.starts_with(kept));
        prop_assert_eq!(short.get("truncated").is_some(), kept.len() < whole.len());
        let offset = short.get("next_offset").map(|offset| offset.as_u64().unwrap());
        prop_assert_eq!(offset.is_some(), kept.len() < whole.len());
        prop_assert!(offset.is_none_or(|offset| offset == kept.chars().count() as u64));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Any context of a thread fits, reports its omitted parts, and keeps the members that identify the
        /// thread.
        #[test]
        fn any_pack_fits(
            messages in messages(),
            (boot, value, title) in (texts(20_000), texts(9_000), "[a-zé]{0,200}"),
            tools in proptest::collection::vec("[a-z\u{1f600}]{0,200}", 0..60),
            (result, most) in (texts(9_000), LEAST..90_000),
        ) {
            let thread = json!({"id": "t", "title": title, "claim_lease_id": "lease", "tools": tools,
                                "footprint": {"items": tools}, "pin": {"uri": "svc:event/1"}});
            let full = json!({"thread": thread, "boot": {"text": boot, "version": 1},
                              "blocks": [{"label": "a", "value": value}], "messages": messages,
                              "result": {"a": result}});
            let short = fit(&AnswerShape::from_schema(&pack()), &full, most);
            for kept in ["id", "title", "claim_lease_id", "pin"] {
                prop_assert_eq!(&short["thread"][kept], &full["thread"][kept]);
            }
            let own = short["thread"]["tools"].as_array().unwrap();
            prop_assert!(tools.iter().take(own.len()).eq(own.iter().map(|tool| tool.as_str().unwrap())));
            let omitted = count(short["thread"]["omitted"].get("tools"));
            prop_assert_eq!(own.len() + omitted, tools.len());
            let last = short["messages"].as_array().unwrap();
            let left = count(short.get("messages_omitted"));
            prop_assert_eq!(last.len() + left, messages.len(), "the newest stay");
            for (short, full) in last.iter().zip(messages.iter().skip(left)) {
                prop_assert_eq!(&short["id"], &full["id"]);
                check_text(short, full, "body")?;
            }
            match &short["boot"] {
                Value::Null => prop_assert!(short["omitted"]["boot"].is_number()),
                boot => check_text(boot, &full["boot"], "text")?,
            }
            let is_whole = short["result"] == full["result"];
            prop_assert_eq!(is_whole, short["omitted"].get("result").is_none());
            prop_assert!(is_whole || short["result"].is_null());
        }

        /// A cut page has at least one item, and its cursor is the cursor of its last item.
        #[test]
        fn any_page_fits_and_goes_on(messages in messages(), most in LEAST..90_000) {
            prop_assume!(!messages.is_empty());
            let cursors: Vec<Value> = (1..=messages.len()).map(cursor).collect();
            let full = json!({"items": messages, "after_id": 99, "next_cursor": null, CURSORS: cursors});
            let short = fit(&AnswerShape::from_schema(&page()), &full, most);
            let kept = short["items"].as_array().unwrap();
            prop_assert!(!kept.is_empty() && short.get(CURSORS).is_none());
            if kept.len() < messages.len() {
                prop_assert_eq!(&short["next_cursor"], &cursor(kept.len()));
                prop_assert_eq!(&short["after_id"], &json!(kept.len()), "the position is the cursor, too");
            } else {
                prop_assert_eq!((&short["next_cursor"], &short["after_id"]), (&Value::Null, &json!(99)));
            }
            for (short, full) in kept.iter().zip(&messages) {
                check_text(short, full, "body")?;
            }
        }

        /// JSON that no schema describes, such as the problem document of a refusal, also fits.
        #[test]
        fn any_problem_fits(
            conflicts in proptest::collection::vec(texts(500), 0..99),
            most in LEAST..20_000,
        ) {
            let full = json!({"conflicts": conflicts, "field": "x"});
            let short = fit(&AnswerShape::without_schema(), &full, most);
            prop_assert_eq!(&short["field"], "x");
            let kept = short["conflicts"].as_array().unwrap().len();
            let omitted = count(short["omitted"].get("conflicts"));
            prop_assert_eq!(kept + omitted, conflicts.len());
        }

        /// Reading a text in parts returns the whole text.
        #[test]
        fn a_text_is_read_part_by_part(body in texts(20_000)) {
            let shape = AnswerShape::from_schema(&page()["properties"]["items"]["items"]);
            let full = json!({"id": "m", "body": body, "metadata": {}, "content": []}).to_string();
            let mut read = String::new();
            let mut offset = 0;
            loop {
                let rest = skip_text_characters(full.as_bytes(), "body", offset).unwrap();
                let bounds = AnswerBounds { max_bytes: LEAST, offset };
                let part = if rest.len() > LEAST { shape.cut_to_fit(&rest, bounds).unwrap() } else { rest };
                prop_assert!(part.len() <= LEAST);
                let part: Value = serde_json::from_slice(&part).unwrap();
                read.push_str(part["body"].as_str().unwrap());
                let Some(next) = part.get("next_offset") else { break };
                prop_assert!(count(Some(next)) > offset);
                offset = count(Some(next));
            }
            prop_assert_eq!(read, body);
        }
    }

    #[test]
    fn the_beginning_of_a_text_ends_between_characters() {
        assert_eq!(i64::try_from(LEAST).unwrap(), ANSWER_BYTES_MIN);
        for (text, most, wanted) in [
            ("ab", 4, ("ab", 2)),
            ("ab", 3, ("a", 1)),
            ("é漢b", 6, ("é", 1)),
            ("é漢b", 7, ("é漢", 2)),
            ("\n\u{1}x", 9, ("\n", 1)),
            ("\n\u{1}x", 10, ("\n\u{1}", 2)),
            ("x", 0, ("", 0)),
        ] {
            assert_eq!(longest_prefix(text, most), wanted, "{text:?} in {most}");
        }
    }
}
