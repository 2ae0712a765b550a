//! Reactions: the emoji with which members respond to a message.
//!
//! A shortcode is stored as the emoji that it represents, and an emoji in its fully qualified form, so that
//! different spellings are the same reaction. Reactions are not content: the events of reactions contain the
//! emoji. Withdrawing a message removes its reactions.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::json;

use super::message_row::visible_message;
use crate::Result;
use crate::capability::Capability::{MessagePost, WorkspaceRead};
use crate::error::{Code, Error};
use crate::id::{MemberId, MessageId};
use crate::limits::{EMOJI_MAX, REACTING_MEMBERS_LISTED_MAX, REACTION_KINDS_MAX, REACTIONS_COUNTED_MAX};
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Answer, DestroyPermit, Feature, Operation, Read, Records, Sample, Write, destructive, idempotent, read,
};
use crate::page::{Cursor, Page};
use crate::request::request;
use crate::store::{Param, ToParam, columns, new_row};

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("reactions", operations())
        .events(vec![EventKind::of::<ReactionAdded>(), EventKind::of::<ReactionRemoved>()])
        .cleaner_at_withdrawal("reactions", remove_reactions)
        .sample(
            Sample::new(
                "reacted_message",
                "post_message",
                |w| json!({"thread_id": w.id("thread"), "body": "the parser is next"}),
            )
            .then("add_reaction", |w| json!({"message_id": w.id("reacted_message"), "emoji": "eyes"})),
        )
        .records(vec![
            Records::table("reactions", "message_id emoji member_id")
                .through("message_id", "messages")
                .after("members")
                .ids("message_id member_id")
                .texts("emoji")
                .ints("lsn")
                .proven("message_id emoji member_id", "lsn")
                .removed_with("message_id", "messages"),
        ])
}

fn operations() -> Vec<Operation> {
    vec![
        idempotent("add_reaction", add_reaction)
            .title("React to a message")
            .when(
                "Add your emoji reaction to a message, when no text is needed. Use `post_message` to reply \
                 with text.",
            )
            .put("/messages/{message_id}/reactions/{emoji}")
            .needs(&[MessagePost])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"message_id": w.id("reacted_message"), "emoji": "tada"})),
        destructive("remove_reaction", remove_reaction)
            .title("Remove a reaction")
            .when("Remove your own reaction from a message.")
            .reversible()
            .delete("/messages/{message_id}/reactions/{emoji}")
            .needs(&[MessagePost])
            .refuses(&[Code::NotFound])
            .example(|w| json!({"message_id": w.id("reacted_message"), "emoji": "eyes"})),
        read("list_reactions", list_reactions)
            .detailed()
            .title("List the reactions to a message")
            .when("List the reactions to a message, with the members who reacted.")
            .get("/messages/{message_id}/reactions")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"message_id": w.id("reacted_message")})),
    ]
}

/// An emoji, its shortcode such as `tada`, or a custom name: 1 to 32 of the characters a-z, 0-9, `_`, `+` and
/// `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Emoji(Cow<'static, str>);

crate::argument::text_arguments! { Emoji }

/// Maximum characters of a custom reaction name.
const NAME_MAX: usize = 32;

impl Emoji {
    fn new(text: &str) -> Result<Self, String> {
        if let Some(known) = emojis::get(text).or_else(|| emojis::get_by_shortcode(text)) {
            return Ok(Self(Cow::Borrowed(known.as_str())));
        }
        let is_plain =
            |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'+' | b'-');
        if (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
            return Ok(Self(Cow::Owned(text.to_owned())));
        }
        Err(format!("expected one emoji, its shortcode such as `tada`, or 1 to {NAME_MAX} of a-z, 0-9, _+-"))
    }
}

impl<'de> Deserialize<'de> for Emoji {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for Emoji {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Emoji".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": EMOJI_MAX})
    }
}

impl ToParam for Emoji {
    fn param(&self) -> Param<'_> {
        Param::Text(&self.0)
    }
}

/// A member's reaction to a message.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Reaction {
    /// Id of the message.
    pub message_id: MessageId,
    /// The emoji or the custom name. A shortcode in the request is converted to its emoji.
    pub emoji: String,
    /// Id of the member who reacted.
    pub member_id: MemberId,
    /// Position in the workspace's log at which the reaction was added.
    pub lsn: i64,
}

/// A reaction that was removed.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RemovedReaction {
    /// Id of the message.
    pub message_id: MessageId,
    /// The emoji or the custom name of the removed reaction.
    pub emoji: String,
    /// Id of the member whose reaction was removed.
    pub member_id: MemberId,
}

/// A member reacted to a message.
#[derive(Serialize, JsonSchema)]
struct ReactionAdded<'a> {
    /// Id of the message.
    message_id: MessageId,
    /// The emoji of the reaction, or a custom name.
    emoji: &'a str,
    /// Id of the member who reacted.
    member_id: MemberId,
}

impl Event for ReactionAdded<'_> {
    const KIND: &'static str = "ReactionAdded";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let reaction = event.row_of("reactions", "message_id emoji member_id")?.made();
        reaction.set("lsn", event.lsn()).keep()?;
        event.row_of("messages", "message_id")?.set("marked", true).keep()
    }
}

/// A member removed a reaction.
#[derive(Serialize, JsonSchema)]
struct ReactionRemoved<'a> {
    /// Id of the message.
    message_id: MessageId,
    /// The emoji of the reaction, or a custom name.
    emoji: &'a str,
    /// Id of the member whose reaction was removed.
    member_id: MemberId,
}

impl Event for ReactionRemoved<'_> {
    const KIND: &'static str = "ReactionRemoved";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("reactions", "message_id emoji member_id")?.remove()
    }
}

request! {
    /// Adds your emoji reaction to a message, and returns the reaction.
    ///
    /// Adding the same reaction again changes nothing.
    ///
    /// Reactions are removed when the message is withdrawn; the log keeps their events.
    ///
    /// Fails with 409 `wrong-state` if the message is withdrawn, if its channel is archived, or if the
    /// message already has reactions with 50 other emoji.
    #[derive(Serialize)]
    struct AddReaction {
        /// Id of the message.
        message_id: MessageId,
        /// An emoji, its shortcode such as `tada`, or a custom name.
        ///
        /// A shortcode means the same reaction as its emoji, and so does an emoji without its variation
        /// selector. A name has 1 to 32 of the characters a-z, 0-9, `_`, `+` and `-`.
        emoji: Emoji,
    }

    add_reaction(message_id: MessageId, emoji: Emoji) -> Reaction
}

fn add_reaction(cx: &mut Write<'_>, input: &AddReaction) -> Result<Reaction> {
    let stored = visible_message(cx, input.message_id)?;
    let message_id = stored.id;
    let member_id = cx.caller().member_id()?;
    let emoji = &input.emoji;
    let added = |lsn| Reaction { message_id, emoji: emoji.0.to_string(), member_id, lsn };
    if let Some((lsn,)) = cx.one(FIND_REACTION, &[&message_id, emoji, &member_id])? {
        return Ok(added(lsn));
    }
    stored.check_accepts_marks(cx)?;
    let others = distinct_emoji(cx, message_id)?.into_iter().filter(|kind| *kind != emoji.0).count();
    if i64::try_from(others).unwrap_or(i64::MAX) >= REACTION_KINDS_MAX {
        return Err(Error::wrong_state(format!(
            "the message has reactions with {REACTION_KINDS_MAX} other emoji, the maximum: use one of these"
        )));
    }
    let event = ReactionAdded { message_id, emoji: &emoji.0, member_id };
    let lsn = cx.emit(stored.subject(), &event)?.lsn;
    cx.insert(&new_row!("insert into reactions" { message_id, emoji: *emoji, member_id, lsn }))?;
    stored.set_marked(cx)?;
    Ok(added(lsn))
}

impl Answer<AddReaction> for Reaction {
    type Kept = (MessageId, MemberId, i64);

    fn kept(&self) -> Option<Self::Kept> {
        Some((self.message_id, self.member_id, self.lsn))
    }

    fn answer_repeat(
        cx: &Read<'_>,
        input: &AddReaction,
        (message, member_id, lsn): Self::Kept,
    ) -> Result<Self> {
        let message_id = visible_message(cx, message)?.id;
        let emoji = &input.emoji;
        let found: Option<(i64,)> = cx.one(FIND_REACTION, &[&message_id, emoji, &member_id])?;
        found.filter(|found| *found == (lsn,)).ok_or_else(|| Error::not_found("reaction"))?;
        Ok(Self { message_id, emoji: emoji.0.to_string(), member_id, lsn })
    }
}

const FIND_REACTION: &str =
    "select lsn from reactions where message_id = $1 and emoji = $2 and member_id = $3";

request! {
    /// Removes your reaction with an emoji from a message, and returns the removed reaction.
    ///
    /// Fails with 404 `not-found` if you have not reacted to the message with that emoji.
    #[derive(Serialize)]
    struct RemoveReaction {
        /// Id of the message.
        message_id: MessageId,
        /// The emoji, its shortcode, or the custom name.
        emoji: Emoji,
    }

    remove_reaction(message_id: MessageId, emoji: Emoji) -> RemovedReaction
}

fn remove_reaction(cx: &mut Write<'_>, input: &RemoveReaction) -> Result<RemovedReaction> {
    let stored = visible_message(cx, input.message_id)?;
    let message_id = stored.id;
    let member_id = cx.caller().member_id()?;
    let emoji = &input.emoji;
    if cx.one::<(i64,)>(FIND_REACTION, &[&message_id, emoji, &member_id])?.is_none() {
        return Err(Error::not_found("reaction"));
    }
    cx.emit(stored.subject(), &ReactionRemoved { message_id, emoji: &emoji.0, member_id })?;
    cx.execute(1, DELETE_REACTION, &[&message_id, emoji, &member_id])?;
    Ok(RemovedReaction { message_id, emoji: emoji.0.to_string(), member_id })
}

impl Answer<RemoveReaction> for RemovedReaction {
    type Kept = (MessageId, MemberId);

    fn kept(&self) -> Option<(MessageId, MemberId)> {
        Some((self.message_id, self.member_id))
    }

    fn answer_repeat(
        cx: &Read<'_>,
        input: &RemoveReaction,
        (message, member_id): (MessageId, MemberId),
    ) -> Result<Self> {
        let message_id = visible_message(cx, message)?.id;
        Ok(Self { message_id, emoji: input.emoji.0.to_string(), member_id })
    }
}

const DELETE_REACTION: &str = "delete from reactions where message_id = $1 and emoji = $2 and member_id = $3";

/// Removes the reactions to the given messages.
fn remove_reactions(cx: &mut Write<'_>, _: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
    messages.iter().try_for_each(|id| cx.execute_any(DELETE_REACTIONS, &[id]))
}

const DELETE_REACTIONS: &str = "delete from reactions where message_id = $1";

/// The reactions to a message with one emoji.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct EmojiReactions {
    /// The emoji of the reaction, or a custom name.
    pub emoji: String,
    /// Number of members who reacted with the emoji.
    pub count: i64,
    /// Present and true if `count` is a lower bound, because the message has too many reactions to count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Ids of the first 50 members who reacted with the emoji, in the order of their reactions.
    pub member_ids: Vec<MemberId>,
    /// Position in the workspace's log of the first reaction with the emoji.
    pub lsn: i64,
}

request! {
    /// Returns the reactions to a message, grouped by emoji, in the order in which each emoji was first used.
    ///
    /// A withdrawn message has no reactions.
    struct ListReactions {
        /// Id of the message.
        message_id: MessageId,
        cursor: Option<Cursor>,
    }

    list_reactions(message_id: MessageId) -> Page<EmojiReactions>
}

fn list_reactions(cx: &Read<'_>, input: &ListReactions) -> Result<Page<EmojiReactions>> {
    let stored = visible_message(cx, input.message_id)?;
    let rows: Vec<ReactingMember> =
        cx.query(LIST_REACTIONS, &[&stored.id, &REACTING_MEMBERS_LISTED_MAX, &REACTIONS_COUNTED_MAX])?;
    let mut listed: Vec<EmojiReactions> = Vec::new();
    for ReactingMember { emoji, member_id, count, since } in rows {
        match listed.last_mut().filter(|last| last.lsn == since) {
            Some(last) => last.member_ids.push(member_id),
            None => {
                let member_ids = vec![member_id];
                let lsn = since;
                listed.push(EmojiReactions { emoji, count, at_least: false, member_ids, lsn });
            }
        }
    }
    let counted = listed.iter().fold(0_i64, |all, of_emoji| all.saturating_add(of_emoji.count));
    if counted >= REACTIONS_COUNTED_MAX {
        listed = load_first_reactions(cx, stored.id)?;
    }
    Ok(Page::rest(listed, input.cursor, |of_emoji: &EmojiReactions| of_emoji.lsn))
}

/// Row of a member's reaction, with the number of reactions with the same emoji.
struct ReactingMember {
    emoji: String,
    member_id: MemberId,
    count: i64,
    since: i64,
}

columns! { reacting_columns: ReactingMember as r { emoji, member_id, count, since } }

const LIST_REACTIONS: &str = concat!(
    "select ",
    reacting_columns!(),
    " from (
        select emoji, member_id, count(*) over same as count, min(lsn) over same as since,
            row_number() over (partition by emoji order by lsn) as place
        from (select emoji, member_id, lsn from reactions where message_id = $1 limit $3) counted
        window same as (partition by emoji)) r
     where r.place <= $2 order by r.since, r.place"
);

/// Returns the first reactions with each emoji, for a message that has too many reactions to count.
fn load_first_reactions(cx: &Read<'_>, message: MessageId) -> Result<Vec<EmojiReactions>> {
    let kinds = distinct_emoji(cx, message)?;
    let count = i64::try_from(kinds.len()).unwrap_or(i64::MAX).max(1);
    let limit = REACTIONS_COUNTED_MAX.checked_div(count).unwrap_or_default().max(REACTING_MEMBERS_LISTED_MAX);
    let mut listed = Vec::new();
    for emoji in kinds {
        let first: Vec<(MemberId, i64)> = cx.query(FIRST_REACTIONS, &[&message, &emoji, &limit])?;
        let Some(&(_, lsn)) = first.first() else { continue };
        let count = i64::try_from(first.len()).unwrap_or(i64::MAX);
        let shown = usize::try_from(REACTING_MEMBERS_LISTED_MAX).unwrap_or(usize::MAX);
        let member_ids = first.into_iter().take(shown).map(|(member, _)| member).collect();
        listed.push(EmojiReactions { emoji, count, at_least: count >= limit, member_ids, lsn });
    }
    listed.sort_by_key(|of_emoji| of_emoji.lsn);
    Ok(listed)
}

/// Returns the distinct emoji with which members reacted to a message.
fn distinct_emoji(cx: &Read<'_>, message: MessageId) -> Result<Vec<String>> {
    let kinds: Vec<(String,)> = cx.query(DISTINCT_EMOJI, &[&message])?;
    Ok(kinds.into_iter().map(|(emoji,)| emoji).collect())
}

/// SQL query that steps through the index from one emoji to the next.
const DISTINCT_EMOJI: &str = "
    with recursive kinds (emoji) as (
        select (select r.emoji from reactions r where r.message_id = $1 order by r.emoji limit 1)
        union all
        select (
            select r.emoji from reactions r where r.message_id = $1 and r.emoji > k.emoji
            order by r.emoji limit 1)
        from kinds k where k.emoji is not null)
    select emoji from kinds where emoji is not null";

const FIRST_REACTIONS: &str = "
    select member_id, lsn from reactions where message_id = $1 and emoji = $2 order by lsn limit $3";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_emoji_are_one_and_other_names_are_plain() {
        let stored = |text: &str| Emoji::new(text).map(|emoji| emoji.0.into_owned());
        for (text, wanted) in [
            ("🎉", "🎉"),
            ("tada", "🎉"),
            ("+1", "👍"),
            ("thumbsup", "👍"),
            ("👍🏽", "👍🏽"),
            ("\u{2764}", "\u{2764}\u{fe0f}"),
            ("heart", "\u{2764}\u{fe0f}"),
            ("shipit", "shipit"),
            ("lgtm_2-x", "lgtm_2-x"),
            ("7", "7"),
        ] {
            assert_eq!(stored(text).as_deref(), Ok(wanted), "{text}");
            assert_eq!(stored(wanted).as_deref(), Ok(wanted), "stored as {wanted}, it is found again");
        }
        let long = "a".repeat(NAME_MAX + 1);
        for text in ["", " ", "🎉🎉", "🎉 ", ":tada:", "Tada", "a b", "é", "\u{fe0f}", "a\n", &long] {
            assert!(stored(text).is_err(), "{text:?}");
        }
    }

    /// Otherwise the published schema would reject input that the service accepts.
    #[test]
    fn each_emoji_and_shortcode_is_within_the_schema() {
        for emoji in emojis::iter() {
            let spellings = emoji.shortcodes().chain([emoji.as_str()]);
            for text in spellings.chain(emoji.skin_tones().into_iter().flatten().map(|toned| toned.as_str()))
            {
                assert!((1..=EMOJI_MAX).contains(&text.chars().count()), "{text}");
                assert!(Emoji::new(text).is_ok(), "{text}");
            }
        }
    }
}
