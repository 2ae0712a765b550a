//! Editing messages, and listing the earlier versions of a message's text.
//!
//! Every edit is sealed under the message's own key, with a fresh nonce, and bound to the number of the edit.
//! Withdrawing the message therefore destroys the earlier texts too. An edit is drafted before it is queued:
//! the cost grows with the length of the text and would otherwise delay other requests in the queue.

use schemars::JsonSchema;
use serde::Serialize;

use super::Message;
use super::citations::{self, CitationChange, CitationRelation};
use super::content::{self, Block, GivenContent, Metadata};
use super::message_row::{MessageContent, MessagePlace, StoredMessage, visible_message};
use super::plaintext::{self, GivenMetadata, Plaintext, SealedContent};
use crate::Result;
use crate::conversation::mentions::{
    self, MentionedMember, PossibleMentions, ReachedMembers, UnreachedMention,
};
use crate::conversation::visibility::{check_not_archived, visible_channel};
use crate::error::{Code, Error};
use crate::id::{MemberId, MessageId, RelationId};
use crate::limits::MESSAGE_MAX;
use crate::log::canonical;
use crate::log::event::{Event, RecordedEvent};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Caller, DestroyPermit, PreflightResult, Read, Write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::{dereferences, request};
use crate::store::columns;
use crate::text::{Change, Patch, Prose};
use crate::time::Time;

/// An earlier text of a message, which an edit has replaced.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct EarlierText {
    /// Id of the message.
    pub message_id: MessageId,
    /// Number of the text: 0 for the text as posted, 1 after the first edit, and so on.
    pub edit: i64,
    /// Time at which the text was written.
    pub written_at: Time,
    /// Whether the message is live but this text cannot be decrypted, because the database or a key is
    /// damaged.
    pub unreadable: bool,
    /// Body of the earlier text; blank if the message is withdrawn, or if the text is unreadable.
    pub body: String,
    /// Metadata of the earlier text; empty if the message is withdrawn, or if the text is unreadable.
    pub metadata: Metadata,
    /// Content blocks in addition to the body; empty if the message is withdrawn, or if the text is
    /// unreadable.
    pub content: Vec<Block>,
    /// Position in the workspace's log of the edit that replaced this text.
    pub lsn: i64,
}

/// A message after an edit.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct EditedMessage {
    #[serde(flatten)]
    pub message: Message,
    /// The members that the message mentions by handle and reaches, without yourself.
    pub mentioned: Vec<MentionedMember>,
    /// The mentions in the message that reach no member.
    pub not_reached: Vec<UnreachedMention>,
}

dereferences! { EditedMessage => message: Message }

impl Answer<EditMessage> for EditedMessage {
    type Kept = MessageId;

    fn kept(&self) -> Option<MessageId> {
        Some(self.message.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &EditMessage, id: MessageId) -> Result<Self> {
        let stored = visible_message(cx, id)?;
        let ReachedMembers { mentioned, not_reached, .. } = stored.reached_members(cx)?;
        Ok(Self { message: stored.decrypt(cx)?, mentioned, not_reached })
    }
}

/// A message was edited by its author.
///
/// The payload contains the new content, sealed under the message's key.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessageEdited {
    /// Id of the message.
    message_id: MessageId,
    /// Number of the edit, starting at 1.
    edit: i64,
    /// The sealed content after the edit, as base64.
    sealed: String,
    /// Relations to other messages that citations in the new content create.
    cites: Vec<CitationRelation>,
    /// Ids of the relations that ended because the message no longer cites the related messages.
    cites_no_more: Vec<RelationId>,
}

impl Event for MessageEdited {
    const KIND: &'static str = "MessageEdited";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let message = event.row_of("messages", "message_id")?;
        let last = message.value("edited_at").filter(|at| !at.is_null());
        let written_at = last.or_else(|| message.value("posted_at")).cloned();
        let number = event.int("edit").map(|edit| edit.saturating_sub(1).into());
        let earlier = event.row("message_edits", message.key().iter().cloned().chain(number))?.made();
        let earlier = earlier.set_known("sealed", message.value("sealed").cloned());
        earlier.set_known("written_at", written_at).set("lsn", event.lsn()).keep()?;
        let message = message.set_to("edits", "edit").set("edited_at", event.at()).copy("sealed");
        message.set("content_hash", event.content_hash()).keep()?;
        citations::replay(event)
    }
}

request! {
    /// Changes one of your own messages and returns the message.
    ///
    /// Absent fields keep their value; an edit that changes nothing is not recorded. `list_message_edits`
    /// returns the earlier text.
    ///
    /// Members whom only the new text mentions are notified; notifications of members whom only the old text
    /// mentions are removed. If another edit of the message is committed first, and the old and new texts
    /// have more than 16 KiB together, the request may fail with 503 `overloaded` and must be sent again.
    ///
    /// Fails with 403 `forbidden` if you are not the author; 409 `wrong-state` if the message is withdrawn or
    /// unreadable, if it contains the text of a review, an approval gate or a vote, or if its channel is
    /// archived.
    #[derive(Serialize)]
    pub(super) struct EditMessage {
        /// Id of the message.
        message_id: MessageId,
        /// New text of the message, in Markdown.
        #[serde(default, skip_serializing_if = "Change::is_keep")]
        body: Change<Prose<1, MESSAGE_MAX>>,
        /// Replaces the whole metadata; null empties it. A `notice` of the service is kept, and cannot be
        /// set.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        metadata: Patch<GivenMetadata>,
        /// Replaces all content blocks; null removes them.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        content: Patch<GivenContent>,
    }

    edit_message(message_id: MessageId)
        clears(metadata => clear_metadata, content => clear_content) -> EditedMessage
}

/// An edit that is ready to be written: the content before and after the edit, all mentions in both, and the
/// sealed new content.
///
/// The draft is valid until another edit of the message is committed.
pub(super) struct EditDraft {
    /// Number of the text that the edit replaces.
    edits: i64,
    before: Plaintext,
    after: Plaintext,
    /// The sealed new content, or `None` if the edit changes nothing.
    sealed: Option<SealedContent>,
    mentions_before: PossibleMentions,
    mentions_after: PossibleMentions,
    bytes: usize,
}

impl PreflightResult for EditDraft {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Drafts an edit. Returns `None` if the edit is rejected; the operation then determines the reason again.
pub(super) fn draft_edit(cx: &Read<'_>, input: &EditMessage) -> Result<Option<EditDraft>> {
    let drafted = visible_message(cx, input.message_id).and_then(|stored| {
        check_author(cx.caller(), stored.author_id)?;
        EditDraft::new(cx, &stored, input, usize::MAX)
    });
    match drafted {
        Err(error) if error.code().status() < 500 => Ok(None),
        drafted => drafted.map(Some),
    }
}

/// Maximum bytes of the old and new texts together in which mentions are searched inside the transaction,
/// while other requests wait in the queue.
const QUEUED_SEARCH_BYTES_MAX: usize = 16 * 1024;

impl EditDraft {
    /// Drafts an edit of a message. Fails if the texts before and after the edit have more than `max_bytes`
    /// bytes together.
    fn new(cx: &Read<'_>, stored: &StoredMessage, input: &EditMessage, max_bytes: usize) -> Result<Self> {
        let (MessageContent::Plaintext(before), Ok(key)) = (stored.content(cx)?, stored.key(cx)?) else {
            let what = "the message is unreadable and cannot be edited; post a new one";
            return Err(Error::wrong_state(what));
        };
        if before.contains_record() {
            let what = "the text of a review, an approval gate or a vote cannot be edited";
            return Err(Error::wrong_state(what));
        }
        let after = apply_edit(before.clone(), input)?;
        let edit = stored.edits.saturating_add(1);
        let seal = || plaintext::seal(cx.sealer(), &key, stored.id, edit, &after);
        let sealed = if after == before { None } else { Some(seal()?) };
        let texts = before.texts().into_iter().chain(after.texts());
        if texts.map(str::len).fold(0, usize::saturating_add) > max_bytes {
            let what = "another edit of the message was committed first; send this edit again";
            return Err(Error::new(Code::Overloaded, what));
        }
        let mentions_before = PossibleMentions::find(&before.texts());
        let mentions_after = PossibleMentions::find(&after.texts());
        // The sealed content has about as many bytes as the text, and the event also contains it as base64.
        let bytes_after = sealed.as_ref().map_or(0, |sealed| sealed.base64.len().saturating_mul(3));
        let bytes = stored.sealed.as_ref().map_or(0, Vec::len).saturating_add(bytes_after);
        Ok(Self { edits: stored.edits, before, after, sealed, mentions_before, mentions_after, bytes })
    }
}

pub(super) fn edit_message(
    cx: &mut Write<'_>,
    input: &EditMessage,
    draft: &Option<EditDraft>,
) -> Result<EditedMessage> {
    let mut stored = visible_message(cx, input.message_id)?;
    check_author(cx.caller(), stored.author_id)?;
    if stored.withdrawn {
        return Err(Error::wrong_state("the message is withdrawn and cannot be edited; post a new one"));
    }
    check_not_archived(&visible_channel(cx, stored.channel_id)?)?;
    let redrafted;
    let draft = match draft.as_ref().filter(|draft| draft.edits == stored.edits) {
        Some(draft) => draft,
        None => {
            redrafted = EditDraft::new(cx, &stored, input, QUEUED_SEARCH_BYTES_MAX)?;
            &redrafted
        }
    };
    let EditDraft { before, after, .. } = draft;
    let marks = stored.marks(cx)?;
    let reached = |possible_mentions: &PossibleMentions| {
        mentions::resolve_mentions(cx, stored.channel_id, stored.author_id, possible_mentions)
    };
    let reached_before = reached(&draft.mentions_before)?;
    let reached = if after.texts() == before.texts() {
        reached_before.clone()
    } else {
        reached(&draft.mentions_after)?
    };
    let edited = |stored: StoredMessage, reached: ReachedMembers| EditedMessage {
        message: stored.into_message(MessageContent::Plaintext(after.clone()), marks),
        mentioned: reached.mentioned,
        not_reached: reached.not_reached,
    };
    let Some(sealed) = &draft.sealed else { return Ok(edited(stored, reached)) };
    let edit = stored.edits.saturating_add(1);
    let at = MessagePlace::from_stored(&stored);
    let citations = CitationChange::for_edit(cx, &at, [&before.metadata, &after.metadata])?;
    let event = MessageEdited {
        message_id: stored.id,
        edit,
        sealed: sealed.base64.clone(),
        cites: citations.added_relations(),
        cites_no_more: citations.removed_relation_ids(),
    };
    let recorded = cx.emit(stored.subject(), &event)?;
    let RecordedEvent { lsn, at: edited_at, content_hash, .. } = recorded;
    mentions::update_mention_notifications(cx, &recorded, stored.id, &reached_before, &reached)?;
    cx.execute(1, INSERT_EARLIER_TEXT, &[&stored.id, &lsn])?;
    cx.execute(1, UPDATE_MESSAGE, &[&stored.id, &edit, &edited_at, &sealed.bytes, &content_hash])?;
    citations.write_rows(cx, &at, (lsn, edited_at))?;
    stored.edits = edit;
    stored.edited_at = Some(edited_at);
    stored.content_hash = Some(content_hash);
    Ok(edited(stored, reached))
}

const INSERT_EARLIER_TEXT: &str = "
    insert into message_edits (message_id, edit, written_at, sealed, lsn)
    select id, edits, coalesce(edited_at, posted_at), sealed, cast($2 as bigint) from messages where id = $1";

const UPDATE_MESSAGE: &str =
    "update messages set edits = $2, edited_at = $3, sealed = $4, content_hash = $5 where id = $1";

/// Removes the rows with the earlier texts of the given messages.
pub(super) fn remove_edits(cx: &mut Write<'_>, _: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
    messages.iter().try_for_each(|id| cx.execute_any(DELETE_EDITS, &[id]))
}

const DELETE_EDITS: &str = "delete from message_edits where message_id = $1";

/// Fails unless the caller is the author of the message. No capability allows editing another member's
/// message.
fn check_author(caller: &Caller, author: Option<MemberId>) -> Result<()> {
    if caller.is_member() && author == caller.member {
        return Ok(());
    }
    Err(Error::forbidden("only the author can edit a message"))
}

/// Returns the plaintext after the requested edit, with metadata and content in canonical form.
fn apply_edit(mut plaintext: Plaintext, wanted: &EditMessage) -> Result<Plaintext> {
    if let Some(body) = wanted.body.get() {
        plaintext.body = body.to_string();
    }
    match &wanted.metadata {
        Patch::Keep => {}
        Patch::Clear => {
            plaintext.metadata = GivenMetadata::default().with_reserved_members_of(plaintext.metadata)
        }
        Patch::Set(metadata) => {
            plaintext.metadata = canonical::form(&metadata.with_reserved_members_of(plaintext.metadata))?
        }
    }
    match &wanted.content {
        Patch::Keep => {}
        Patch::Clear => plaintext.content = Vec::new(),
        Patch::Set(content) => plaintext.content = canonical::form(&content::to_blocks(Some(content)))?,
    }
    Ok(plaintext)
}

request! {
    /// Returns the earlier texts of a message, which edits have replaced, oldest first.
    ///
    /// A message that was never edited has no earlier texts; `get_message` returns the current text. If the
    /// message is withdrawn, its earlier texts are blank.
    pub(super) struct ListMessageEdits {
        /// Id of the message.
        message_id: MessageId,
        #[serde(default)]
        cursor: Option<Cursor>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_message_edits(message_id: MessageId) -> Page<EarlierText>
}

pub(super) fn list_message_edits(cx: &Read<'_>, input: &ListMessageEdits) -> Result<Page<EarlierText>> {
    let message = visible_message(cx, input.message_id)?;
    let rows =
        cx.rows(LIST_EDITS, &[&message.id, &Cursor::after(input.cursor), &rows_to_read(input.limit)])?;
    Page::of(rows, input.limit, |row: &StoredEdit| row.lsn).try_map(|row| row.decrypt(cx, &message))
}

struct StoredEdit {
    edit: i64,
    written_at: Time,
    sealed: Option<Vec<u8>>,
    lsn: i64,
}

columns! { edit_columns: StoredEdit as e { edit, written_at, sealed, lsn } }

const LIST_EDITS: &str = concat!(
    "select ",
    edit_columns!(),
    " from message_edits e where e.message_id = $1 and e.lsn > $2 order by e.lsn limit $3"
);

impl StoredEdit {
    fn decrypt(self, cx: &Read<'_>, message: &StoredMessage) -> Result<EarlierText> {
        let content = if message.withdrawn {
            MessageContent::Withdrawn
        } else {
            message.content_of_edit(cx, self.edit, self.sealed.as_deref())?
        };
        let unreadable = content.is_unreadable();
        let Plaintext { body, metadata, content } = content.into_plaintext();
        Ok(EarlierText {
            message_id: message.id,
            edit: self.edit,
            written_at: self.written_at,
            unreadable,
            body,
            metadata,
            content,
            lsn: self.lsn,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::capability::Capability;
    use crate::id::WorkspaceId;

    fn wanted(mut fields: Value) -> EditMessage {
        fields["message_id"] = json!(Uuid::from_u128(1));
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn an_edit_changes_what_it_names() {
        let metadata = json!({"a": 1}).as_object().unwrap().clone();
        let before = Plaintext::new("old", metadata.clone());
        assert!(apply_edit(before.clone(), &wanted(json!({}))).unwrap() == before);
        let body = apply_edit(before.clone(), &wanted(json!({"body": "new"}))).unwrap();
        assert!(body == Plaintext::new("new", metadata));
        let cleared = apply_edit(before.clone(), &wanted(json!({"metadata": null}))).unwrap();
        assert!(cleared == Plaintext::new("old", Metadata::new()));
        let set = apply_edit(before, &wanted(json!({"metadata": {"b": -0.0}}))).unwrap();
        assert_eq!(Value::Object(set.metadata.clone()).to_string(), r#"{"b":0}"#, "as it is read later");
        let blocks = json!([{"type": "data", "data": {"a": 1.0}}]);
        let with = apply_edit(set.clone(), &wanted(json!({"content": blocks}))).unwrap();
        assert!(with.metadata == set.metadata);
        let read = serde_json::to_string(&with.content).unwrap();
        assert_eq!(read, r#"[{"type":"data","data":{"a":1}}]"#, "as it is read later");
        assert!(apply_edit(with.clone(), &wanted(json!({"body": "old"}))).unwrap() == with);
        for none in [json!(null), json!([])] {
            assert!(apply_edit(with.clone(), &wanted(json!({"content": none}))).unwrap() == set);
        }
    }

    #[test]
    fn only_the_author_edits() {
        let [author, other] = [1, 2].map(|id| MemberId::from(Uuid::from_u128(id)));
        let may = |caller: &Caller, author| check_author(caller, author).is_ok();
        let bearer = |member| Caller::bearer_for_tests(WorkspaceId::INSTANCE, member, Capability::ALL);
        let instance = Caller::instance(WorkspaceId::INSTANCE);
        assert!(!may(&instance, Some(author)) && !may(&instance, None));
        assert!(!may(&bearer(other), Some(author)) && !may(&bearer(other), None));
        assert!(may(&bearer(author), Some(author)));
    }
}
