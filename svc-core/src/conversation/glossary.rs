//! The glossary of a workspace: terms and their definitions.
//!
//! Terms are compared without regard to case and surrounding space. The event log does not contain
//! definitions, because a definition may be deleted. The version of a definition is the log position of the
//! event that set it.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;
use crate::capability::Capability::{WorkspaceRead, WorkspaceWrite};
use crate::error::{Code, Error};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{
    CONTEXT_SEARCH_BYTES_MAX, CONTEXT_TERMS_MAX, DEFINITION_MAX, GLOSSARY_MAX, PAGE_BYTES, TERM_MAX,
};
use crate::log::event::{Event, EventKind, RecordedEvent, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Answer, Class, DestroyPermit, Feature, Read, Records, Sample, Write, destructive, idempotent, purged,
    read,
};
use crate::page::{Cursor, Limit, Page, rows_to_read, within};
use crate::request::request;
use crate::store::columns;
use crate::text::{Prose, Text, characters};
use crate::time::Time;

/// Name of the table. A legal hold also preserves replaced definitions under this name.
const TABLE: &str = "glossary";

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "glossary",
            vec![
                read("list_glossary", list_glossary)
                    .title("List the terms of a workspace")
                    .when("List the workspace's glossary: terms with their definitions.")
                    .detailed()
                    .get("/workspaces/{workspace_id}/glossary")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
                idempotent("set_glossary_term", set_glossary_term)
                    .title("Set the definition of a term")
                    .when("Set the definition of a term in the workspace's glossary.")
                    .put("/workspaces/{workspace_id}/glossary/{term}")
                    .needs(&[WorkspaceWrite])
                    .refuses(&[Code::WrongState])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "term": "Night shift",
                               "definition": "Work that runs from 22:00 to 06:00 without people."})
                    }),
                destructive("delete_glossary_term", delete_glossary_term)
                    .title("Delete a term")
                    .when("Delete a term and its definition from the workspace's glossary.")
                    .delete("/workspaces/{workspace_id}/glossary/{term}")
                    .needs(&[WorkspaceWrite])
                    .refuses(&[Code::NotFound, Code::LegalHold])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "term": "token"})),
            ],
        )
        .events(vec![EventKind::of::<GlossaryTermSet>(), EventKind::of::<GlossaryTermDeleted>()])
        .sample(
            Sample::new("glossary_term", "set_glossary_term", |w| {
                json!({"workspace_id": w.id("workspace"), "term": "Token",
                       "definition": "A piece of the source that the lexer returns."})
            })
            .id_at("/workspace_id"),
        )
        .records(vec![
            Records::table(TABLE, "key")
                .after("members")
                .ids("workspace_id updated_by")
                .texts("key term")
                .times("at")
                .ints("lsn")
                .words("definition", purge_batch)
                .proven("key", "term updated_by at lsn")
                .purge_removes_rows()
                // Events contain the length of the definition only, because the definition may be
                // destroyed.
                .proven_as("definition", Class::Int, "t.definition"),
        ])
}

/// A term in the glossary of a workspace, with its definition.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct GlossaryTerm {
    /// Id of the workspace.
    pub workspace_id: WorkspaceId,
    /// The term in lower case. This key identifies the term.
    pub key: String,
    /// The term, in the spelling that was last set.
    pub term: String,
    /// The definition of the term.
    pub definition: String,
    /// Id of the member who last set the term; null if the service itself set it.
    pub updated_by: Option<MemberId>,
    /// Time at which the term was last set.
    pub updated_at: Time,
    /// Position in the workspace's log at which the term was last set. This position is the version of the
    /// definition.
    pub lsn: i64,
}

columns! {
    term_columns: GlossaryTerm as g { workspace_id, key, term, definition, updated_by, updated_at = at, lsn }
}

/// The definition of a glossary term was set. The position of this event is the version of the definition.
#[derive(Serialize, JsonSchema)]
struct GlossaryTermSet {
    /// The term in lower case, which identifies the term.
    key: String,
    /// The term, in the spelling that was set.
    term: String,
    /// Length of the definition, in characters.
    size: i64,
}

impl Event for GlossaryTermSet {
    const KIND: &'static str = "GlossaryTermSet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let term = event.row_of(TABLE, "key")?.made().copy("term").set_to("definition", "size");
        let term = term.set("updated_by", event.subject()).set("at", event.at());
        term.set("lsn", event.lsn()).keep()
    }
}

/// A glossary term was deleted together with its definition.
#[derive(Serialize, JsonSchema)]
struct GlossaryTermDeleted {
    /// The term in lower case, which identifies the term.
    key: String,
    /// Version of the deleted definition: the position of the event that set it.
    version: i64,
}

impl Event for GlossaryTermDeleted {
    const KIND: &'static str = "GlossaryTermDeleted";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of(TABLE, "key")?.remove()
    }
}

request! {
    /// Returns the glossary of a workspace: its terms with their definitions, in the order in which the terms
    /// were last set.
    struct ListGlossary {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_glossary() -> Page<GlossaryTerm>
}

fn list_glossary(cx: &Read<'_>, input: &ListGlossary) -> Result<Page<GlossaryTerm>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let terms = cx.rows(LIST_TERMS, &[&workspace_id, &after, &rows])?;
    Ok(Page::of(terms, input.limit, |term: &GlossaryTerm| term.lsn))
}

const LIST_TERMS: &str = concat!(
    "select ",
    term_columns!(),
    " from glossary g where g.workspace_id = $1 and g.lsn > $2 order by g.lsn limit $3"
);

request! {
    /// Sets the definition of a glossary term, and returns the term.
    ///
    /// Terms that differ only in case or surrounding space are the same term; the spelling that you send is
    /// stored. An existing definition is replaced.
    ///
    /// Fails with 409 `wrong-state` if the term is new and the workspace already has 500 terms.
    #[derive(Serialize)]
    struct SetGlossaryTerm {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// The term to define, not blank.
        term: Text<1, TERM_MAX>,
        /// The definition of the term.
        definition: Prose<1, DEFINITION_MAX>,
    }

    set_glossary_term(term: Text<1, TERM_MAX>, definition: Prose<1, DEFINITION_MAX>) -> GlossaryTerm
}

fn set_glossary_term(cx: &mut Write<'_>, input: &SetGlossaryTerm) -> Result<GlossaryTerm> {
    let workspace_id = input.workspace_id.of(cx)?;
    let key = term_key(&input.term)?;
    let term = input.term.trim().to_owned();
    let definition = input.definition.to_string();
    match find_term(cx, workspace_id, &key)? {
        Some(known) if known.term == term && known.definition == definition => return Ok(known),
        Some(known) => cx.keep_replaced(TABLE, workspace_id.uuid(), known.lsn, &known.definition)?,
        None => {
            let (count,) = cx.one::<(i64,)>(COUNT_TERMS, &[&workspace_id])?.unwrap_or_default();
            if count >= GLOSSARY_MAX {
                return Err(Error::wrong_state(format!(
                    "the workspace has {GLOSSARY_MAX} terms, the maximum"
                )));
            }
        }
    }
    let size = characters(&definition);
    let set = GlossaryTermSet { key: key.clone(), term: term.clone(), size };
    let RecordedEvent { at: updated_at, lsn, .. } = cx.emit(Subject::WORKSPACE, &set)?;
    let updated_by = cx.caller().member;
    cx.execute(1, UPSERT_TERM, &[&workspace_id, &key, &term, &definition, &updated_by, &updated_at, &lsn])?;
    Ok(GlossaryTerm { workspace_id, key, term, definition, updated_by, updated_at, lsn })
}

impl Answer<SetGlossaryTerm> for GlossaryTerm {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, input: &SetGlossaryTerm, (): ()) -> Result<Self> {
        let found = find_term(cx, input.workspace_id.of(cx)?, &term_key(&input.term)?)?;
        found.ok_or_else(|| Error::not_found("term"))
    }
}

const COUNT_TERMS: &str = "select count(*) from glossary where workspace_id = $1";

const UPSERT_TERM: &str = "
    insert into glossary (workspace_id, key, term, definition, updated_by, at, lsn)
    values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (workspace_id, key) do update set
        term = excluded.term, definition = excluded.definition, updated_by = excluded.updated_by,
        at = excluded.at, lsn = excluded.lsn";

/// Returns the key of a term: the term in lower case, without surrounding space. Fails if the term is blank.
fn term_key(term: &str) -> Result<String> {
    let key = term.trim().to_lowercase();
    if key.is_empty() { Err(Error::in_field("term", "expected a term that is not blank")) } else { Ok(key) }
}

fn find_term(cx: &Read<'_>, workspace: WorkspaceId, key: &str) -> Result<Option<GlossaryTerm>> {
    cx.one(FIND_TERM, &[&workspace, &key])
}

const FIND_TERM: &str =
    concat!("select ", term_columns!(), " from glossary g where g.workspace_id = $1 and g.key = $2");

request! {
    /// Deletes a glossary term together with its definition, and returns the deleted term.
    ///
    /// Fails with 404 `not-found` if the glossary does not contain the term; 409 `legal-hold` if the
    /// workspace is under a legal hold.
    #[derive(Serialize)]
    struct DeleteGlossaryTerm {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// The term, in upper or lower case.
        term: Text<1, TERM_MAX>,
    }

    delete_glossary_term(term: Text<1, TERM_MAX>) -> GlossaryTerm
}

fn delete_glossary_term(cx: &mut Write<'_>, input: &DeleteGlossaryTerm) -> Result<GlossaryTerm> {
    let workspace_id = input.workspace_id.of(cx)?;
    let found = find_term(cx, workspace_id, &term_key(&input.term)?)?;
    let term = found.ok_or_else(|| Error::not_found("term"))?;
    let permit = cx.permit()?;
    remove_term(cx, &permit, &term)?;
    let deleted = GlossaryTermDeleted { key: term.key.clone(), version: term.lsn };
    cx.emit(Subject::WORKSPACE, &deleted)?;
    Ok(term)
}

/// The answer to a repeated request is *not found*, because the term may have been set again after the
/// deletion.
impl Answer<DeleteGlossaryTerm> for GlossaryTerm {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(_: &Read<'_>, _: &DeleteGlossaryTerm, (): ()) -> Result<Self> {
        Err(Error::not_found("term"))
    }
}

fn remove_term(cx: &mut Write<'_>, _: &DestroyPermit<'_>, term: &GlossaryTerm) -> Result<()> {
    cx.execute(1, DELETE_TERM, &[&term.workspace_id, &term.key])
}

const DELETE_TERM: &str = "delete from glossary where workspace_id = $1 and key = $2";

/// Maximum bytes of the glossary terms in a thread's context. The last term may exceed this limit.
const CONTEXT_BYTES_MAX: usize = PAGE_BYTES / 4;

/// Returns terms of the caller's workspace for a thread's context. Terms that occur in the given texts come
/// first.
pub(crate) fn terms_for_texts<'a>(
    cx: &Read<'_>,
    texts: impl Iterator<Item = &'a str>,
) -> Result<Vec<GlossaryTerm>> {
    let mut terms: Vec<GlossaryTerm> = cx.query(ALL_TERMS, &[&cx.caller().workspace_id, &GLOSSARY_MAX])?;
    let occurring: BTreeSet<String> = {
        let keys = terms.iter().map(|term| &*term.key);
        find_keys_in_texts(keys, texts, CONTEXT_SEARCH_BYTES_MAX).into_iter().map(str::to_owned).collect()
    };
    terms.sort_by(|a, b| {
        let place = |term: &GlossaryTerm| !occurring.contains(&term.key);
        place(a).cmp(&place(b)).then_with(|| a.key.cmp(&b.key))
    });
    terms.truncate(CONTEXT_TERMS_MAX);
    within(terms, CONTEXT_BYTES_MAX)
}

const ALL_TERMS: &str =
    concat!("select ", term_columns!(), " from glossary g where g.workspace_id = $1 limit $2");

/// Finds the keys that occur as words in the given texts. Searches only the first `max_bytes` bytes of the
/// texts together.
///
/// A key that begins or ends with an ASCII letter, digit or `_` does not match inside a longer word.
fn find_keys_in_texts<'k, 'a>(
    keys: impl Iterator<Item = &'k str>,
    texts: impl Iterator<Item = &'a str>,
    max_bytes: usize,
) -> BTreeSet<&'k str> {
    let mut by_first: HashMap<char, Vec<&str>> = HashMap::new();
    for key in keys {
        if let Some(first) = key.chars().next() {
            by_first.entry(first).or_default().push(key);
        }
    }
    let mut found = BTreeSet::new();
    let mut left = max_bytes;
    for text in texts {
        let part = text.get(..text.floor_char_boundary(left)).unwrap_or_default();
        left = left.saturating_sub(text.len());
        let text = part.to_lowercase();
        let mut before = None;
        for (at, first) in text.char_indices() {
            let rest = text.get(at..).unwrap_or_default();
            if let Some(keys) = by_first.get_mut(&first).filter(|_| !are_in_same_word(before, Some(first))) {
                keys.retain(|key| {
                    let occurs = rest.strip_prefix(key).is_some_and(|after| {
                        !are_in_same_word(key.chars().next_back(), after.chars().next())
                    });
                    if occurs {
                        found.insert(*key);
                    }
                    !occurs
                });
            }
            before = Some(first);
        }
    }
    found
}

/// Returns whether two adjacent characters are in the same word: both are ASCII letters, digits or `_`.
fn are_in_same_word(before: Option<char>, after: Option<char>) -> bool {
    let is_in_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    is_in_word(before) && is_in_word(after)
}

/// Purges some definitions together with their terms, because a term without a definition is useless.
fn purge_batch(
    cx: &mut Write<'_>,
    _: &DestroyPermit<'_>,
    (_, up_to): (i64, i64),
    limit: i64,
) -> Result<Option<(i64, i64)>> {
    let workspace = cx.caller().workspace_id;
    purged(cx.change(PURGE_TERMS, &[&workspace, &up_to, &limit])?)
}

const PURGE_TERMS: &str = "
    delete from glossary where workspace_id = $1 and key in (
        select key from glossary where workspace_id = $1 and lsn <= $2 limit $3)";

/// Replays a purge: removes the terms that were last set up to a log position.
pub(crate) fn replay_purged(event: &ReplayedEvent<'_>, up_to: i64) -> Result<()> {
    event.rows(TABLE, &[], |term| {
        let lsn = term.value("lsn").and_then(Value::as_i64);
        if lsn.is_some_and(|lsn| lsn <= up_to) { term.remove() } else { Ok(()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_occurs_where_it_is_a_word() {
        let found = |key: &str, text: &str| {
            !find_keys_in_texts([key].into_iter(), [text].into_iter(), 100).is_empty()
        };
        for (key, text, is_found) in [
            ("token", "Each Token, once", true),
            ("token", "tokens", false),
            ("token", "a_token", false),
            ("token", "token", true),
            ("night shift", "the NIGHT shift's end", true),
            ("night shift", "the night  shift", false),
            ("c++", "use c++17 or c++ 20", true),
            ("トークン", "字句トークンを返す", true),
            ("é", "caf\u{c9}", true),
            ("token", "", false),
        ] {
            assert_eq!(found(key, text), is_found, "{key} in {text}");
        }
    }

    #[test]
    fn terms_are_looked_for_in_the_first_bytes() {
        let found =
            |most| find_keys_in_texts(["a", "b", "é"].into_iter(), ["é a", "b"].into_iter(), most).len();
        assert_eq!([0, 1, 2, 4, 5].map(found), [0, 0, 1, 2, 3]);
    }
}
