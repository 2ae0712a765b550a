//! Votes: questions with options, from which the members who may see a thread can choose.
//!
//! The question is posted as a message of the thread, with a content block for the vote. Question and options
//! are message content, and sealed like all content. Ballots are not secret. A vote counts as closed from its
//! closing time on, although the event is written later. This file defines and opens votes; `ballot` records
//! choices, `close` closes votes.

pub(crate) mod ballot;
pub(crate) mod close;

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{WorkspaceRead, WorkspaceWrite};
use crate::conversation::messages::{self, SealedPost, ServiceBlock, VOTES_OF_MESSAGES, not_pruned};
use crate::conversation::visibility::{visible_channel, visible_thread_place};
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, MessageId, ThreadId, VoteId};
use crate::limits::{PAGE_BALLOTS_MAX, QUESTION_MAX, VOTE_OPTION_MAX, VOTE_OPTIONS_MAX, VOTES_MAX};
use crate::log::event::{Event, EventKind, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Answer, Effect, Feature, Operation, Read, Records, Sample, SharedState, Write, changing, idempotent, read,
};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::schema::default_is;
use crate::store::{columns, new_row};
use crate::text::{Items, Prose, Text};
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("votes", operations())
        .events(vec![
            EventKind::of::<VoteOpened>(),
            EventKind::of::<ballot::BallotCast>(),
            EventKind::of::<close::VoteClosed>(),
        ])
        .chore(close::due_votes_chore())
        .cleaners("votes", close::close_withdrawn, close::remove_votes)
        .sample(
            Sample::new("vote", "create_vote", |w| {
                json!({"thread_id": w.id("thread"), "question": "Which parser generator?",
                       "options": ["lalrpop", "none"]})
            })
            .then("cast_vote", |w| json!({"vote_id": w.id("vote"), "options": [1]})),
        )
        .records(vec![
            Records::table("votes", "lsn id")
                .after("messages")
                .after("members")
                .ids("id workspace_id channel_id thread_id message_id created_by closed_by")
                .ints("options lsn")
                .bools("multiple")
                .times("closes_at closed_at")
                .proven(
                    "id",
                    "channel_id thread_id message_id options multiple created_by lsn closes_at closed_at \
                     closed_by",
                )
                .removed_with("message_id", "messages"),
            Records::table("ballots", "vote_id choice member_id")
                .through("vote_id", "votes")
                .ids("vote_id member_id")
                .ints("choice lsn")
                .proven("vote_id member_id choice", "lsn")
                .removed_with("vote_id", "votes")
                .after_import(ballot::count_imported),
            Records::table("ballot_counts", "vote_id choice").through("vote_id", "votes").stays(),
        ])
}

fn operations() -> Vec<Operation> {
    vec![
        changing("create_vote", Effect::Write)
            .prepare(seal_question)
            .run(create_vote)
            .title("Open a vote")
            .when("Open a vote in a thread, so that members can choose between options.")
            .post("/threads/{thread_id}/votes")
            .needs(&[WorkspaceWrite])
            .created()
            .refuses(&[Code::WrongState])
            .example(|w| {
                json!({"thread_id": w.id("thread"), "question": "When do we ship?",
                       "options": ["today", "tomorrow", "next week"], "multiple": true})
            }),
        read("list_votes", list_votes)
            .title("List the votes of a thread")
            .when("List the votes in a thread.")
            .detailed()
            .get("/threads/{thread_id}/votes")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"thread_id": w.id("thread"), "limit": 10})),
        read("get_vote", get_vote)
            .resumes_text("question")
            .title("Read a vote")
            .when("Return one vote by its id, with its results and the voters of each option.")
            .get("/votes/{vote_id}")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"vote_id": w.id("vote")})),
        idempotent("cast_vote", ballot::cast_vote)
            .title("Cast your ballot")
            .when("Cast your ballot in a vote, replacing any earlier ballot of yours.")
            .put("/votes/{vote_id}/ballot")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"vote_id": w.id("vote"), "options": [0]})),
        idempotent("close_vote", close::close_vote)
            .title("Close a vote")
            .when("Close a vote, so that no more ballots can be cast.")
            .post("/votes/{vote_id}/close")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::Forbidden])
            .example(|w| json!({"vote_id": w.id("vote")})),
    ]
}

/// A member opened a vote.
#[derive(Serialize, JsonSchema)]
struct VoteOpened {
    /// Id of the vote.
    vote_id: VoteId,
    /// Id of the message with the question.
    message_id: MessageId,
    /// Number of options of the vote.
    options: i64,
    /// Whether a member may choose several options.
    multiple: bool,
    /// Time at which the vote closes automatically; null if it stays open until a member closes it.
    closes_at: Option<Time>,
}

impl Event for VoteOpened {
    const KIND: &'static str = "VoteOpened";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let vote = event.row_of("votes", "vote_id")?.made().copy("message_id options multiple closes_at");
        let vote = vote.set_to("channel_id", "$channel").set_to("thread_id", "$thread");
        let vote = vote.set_to("created_by", "$member").clear("closed_at").clear("closed_by");
        vote.set("lsn", event.lsn()).keep()?;
        event.row_of(VOTES_OF_MESSAGES, "message_id vote_id")?.keep()
    }
}

/// An option of a vote.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct VoteOption {
    /// Text of the option; blank if the message with the question is withdrawn or unreadable.
    pub text: String,
    /// Number of members who have chosen the option.
    pub votes: i64,
    /// Ids of the first 200 members who have chosen the option, in the order of their choices.
    pub voter_ids: Vec<MemberId>,
}

impl VoteOption {
    /// Returns the number of database rows that were read for this option.
    fn rows_read(&self) -> usize {
        self.voter_ids.len().saturating_add(1)
    }
}

/// A vote in a thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Vote {
    /// Id of the vote.
    pub id: VoteId,
    /// Id of the thread that contains the vote.
    pub thread_id: ThreadId,
    /// Id of the message that contains the question.
    pub message_id: MessageId,
    /// Question of the vote; blank if the message with the question is withdrawn or unreadable.
    pub question: String,
    /// Options of the vote, in the order of their indexes, which start at 0.
    pub options: Vec<VoteOption>,
    /// Whether a member may choose several options.
    pub multiple: bool,
    /// Time at which the vote closes automatically; null if it stays open until a member closes it.
    pub closes_at: Option<Time>,
    /// Time at which the vote was closed; null while it is open.
    pub closed_at: Option<Time>,
    /// Id of the member who closed the vote; null if the vote is open or closed automatically.
    pub closed_by: Option<MemberId>,
    /// Id of the member who opened the vote.
    pub created_by: MemberId,
    /// Position in the workspace's log at which the vote was opened.
    pub lsn: i64,
}

impl<I> Answer<I> for Vote {
    type Kept = VoteId;

    fn kept(&self) -> Option<VoteId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: VoteId) -> Result<Self> {
        visible_vote(cx, id)?.load(cx)
    }
}

/// Row of a vote.
struct StoredVote {
    id: VoteId,
    channel_id: ChannelId,
    thread_id: ThreadId,
    message_id: MessageId,
    options: i64,
    multiple: bool,
    closes_at: Option<Time>,
    closed_at: Option<Time>,
    closed_by: Option<MemberId>,
    created_by: MemberId,
    lsn: i64,
}

columns! {
    pub(super) vote_columns: StoredVote as v {
        id,
        channel_id,
        thread_id,
        message_id,
        options,
        multiple,
        closes_at,
        closed_at,
        closed_by,
        created_by,
        lsn,
    }
}

impl StoredVote {
    /// Returns the subject of the vote's events: the channel, the thread, and the member who opened the vote.
    fn subject(&self) -> Subject {
        Subject::thread(self.channel_id, self.thread_id).about(self.created_by)
    }

    /// Returns the time at which the vote closed, or `None` if the vote is open at `now`.
    fn closing_time(&self, now: Time) -> Option<Time> {
        self.closed_at.or(self.closes_at.filter(|end| *end <= now))
    }

    /// Returns the vote as members read it now, with its texts and its ballots.
    fn load(self, cx: &Read<'_>) -> Result<Vote> {
        let words = messages::find_service_block(cx, self.message_id)?;
        let closed_at = self.closing_time(cx.now());
        let number = usize::try_from(self.options).unwrap_or_default();
        let (question, mut texts) = match words {
            Some(ServiceBlock::Vote { question, options, .. }) => (question, options),
            None => (String::new(), Vec::new()),
        };
        texts.resize(number, String::new());
        let votes = ballot::load_tally(cx, self.id, self.options)?.per_option;
        let mut options = Vec::with_capacity(number);
        for ((text, votes), choice) in texts.into_iter().zip(votes).zip(0..) {
            let voter_ids = if votes > 0 { ballot::voters(cx, self.id, choice)? } else { Vec::new() };
            options.push(VoteOption { text, votes, voter_ids });
        }
        Ok(Vote {
            id: self.id,
            thread_id: self.thread_id,
            message_id: self.message_id,
            question,
            options,
            multiple: self.multiple,
            closes_at: self.closes_at,
            closed_at,
            closed_by: self.closed_by,
            created_by: self.created_by,
            lsn: self.lsn,
        })
    }
}

/// The options of a new vote: 2 to 20 different texts.
#[derive(Clone, Debug, Serialize)]
pub struct Options(Items<Text<1, VOTE_OPTION_MAX>, VOTE_OPTIONS_MAX>);

impl crate::argument::Field for Options {}

impl<V: IntoIterator<Item: Into<String>>> crate::argument::Argument<Options> for V {
    fn value(self) -> serde_json::Value {
        self.into_iter().map(Into::into).collect()
    }
}

/// Minimum number of options in a vote.
const OPTIONS_MIN: usize = 2;

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let options = Items::<Text<1, VOTE_OPTION_MAX>, VOTE_OPTIONS_MAX>::deserialize(deserializer)?;
        let distinct: BTreeSet<&str> = options.iter().map(|option| option.trim()).collect();
        if options.len() < OPTIONS_MIN {
            return Err(de::Error::custom(format!("expected {OPTIONS_MIN} to {VOTE_OPTIONS_MAX} options")));
        }
        if distinct.len() < options.len() {
            return Err(de::Error::custom("expected options of which no two are the same"));
        }
        Ok(Self(options))
    }
}

impl JsonSchema for Options {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "VoteOptions".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let option = Text::<1, VOTE_OPTION_MAX>::json_schema(generator);
        json_schema!({
            "type": "array", "items": option, "minItems": OPTIONS_MIN, "maxItems": VOTE_OPTIONS_MAX,
            "uniqueItems": true,
        })
    }
}

request! {
    /// Opens a vote in a thread and returns the vote.
    ///
    /// The question is posted as your message with a `vote` block. The message cannot be edited; withdrawing
    /// it closes the vote.
    ///
    /// Fails with 409 `wrong-state` if the thread's channel is archived, or if the thread already has 1000
    /// votes.
    #[derive(Serialize)]
    struct CreateVote {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The question.
        question: Prose<1, QUESTION_MAX>,
        /// The options: 2 to 20 different texts.
        options: Options,
        /// Whether a member may choose several options.
        #[schemars(transform = default_is("false"))]
        #[serde(default)]
        multiple: bool,
        /// Future time at which the vote closes automatically. Default: never.
        closes_at: Option<Time>,
    }

    create_vote(thread_id: ThreadId, question: Prose<1, QUESTION_MAX>, options: Options) -> Vote
}

/// The sealed message with the question of a vote, ready to be posted, and the id of the vote.
struct SealedQuestion {
    id: VoteId,
    post: SealedPost,
}

fn seal_question(input: &CreateVote, shared: &SharedState, now: Time) -> Result<SealedQuestion> {
    let id = shared.entropy.id(now)?;
    let Options(options) = &input.options;
    let question = input.question.to_string();
    let options = options.iter().map(|it| it.to_string()).collect();
    let block = ServiceBlock::Vote { vote_id: id, question, options };
    Ok(SealedQuestion { id, post: messages::seal_post_with_block(shared, now, &input.question, block)? })
}

fn create_vote(cx: &mut Write<'_>, input: &CreateVote, sealed: &SealedQuestion) -> Result<Vote> {
    let place = visible_thread_place(cx, input.thread_id)?;
    let created_by = cx.caller().member_id()?;
    if input.closes_at.is_some_and(|end| end <= cx.now()) {
        return Err(Error::in_field("closes_at", "expected a time in the future"));
    }
    place.check_not_archived()?;
    let (votes,): (i64,) = cx.one(COUNT_VOTES, &[&place.thread_id])?.unwrap_or_default();
    if votes >= VOTES_MAX {
        return Err(Error::wrong_state(format!("a thread has at most {VOTES_MAX} votes")));
    }
    let Options(options) = &input.options;
    let mut stored = StoredVote {
        id: sealed.id,
        channel_id: place.channel_id,
        thread_id: place.thread_id,
        message_id: sealed.post.message_id(),
        options: i64::try_from(options.len()).unwrap_or(i64::MAX),
        multiple: input.multiple,
        closes_at: input.closes_at,
        closed_at: None,
        closed_by: None,
        created_by,
        lsn: 0,
    };
    let event = VoteOpened {
        vote_id: stored.id,
        message_id: stored.message_id,
        options: stored.options,
        multiple: stored.multiple,
        closes_at: stored.closes_at,
    };
    stored.lsn = cx.emit(stored.subject(), &event)?.lsn;
    messages::post_sealed(cx, &place, Some(created_by), &sealed.post)?;
    let StoredVote { id, channel_id, thread_id, message_id, options, multiple, closes_at, lsn, .. } = stored;
    let workspace_id = place.workspace_id;
    cx.insert(&new_row!("insert into votes" {
        id, workspace_id, channel_id, thread_id, message_id, options, multiple, created_by, closes_at, lsn
    }))?;
    stored.load(cx)
}

const COUNT_VOTES: &str = "select count(*) from votes where thread_id = $1";

request! {
    /// Returns one vote with its question, its options and the members who chose each option.
    struct GetVote {
        /// Id of the vote.
        vote_id: VoteId,
    }

    get_vote(vote_id: VoteId) -> Vote
}

fn get_vote(cx: &Read<'_>, input: &GetVote) -> Result<Vote> {
    visible_vote(cx, input.vote_id)?.load(cx)
}

/// Loads the row of a vote. Fails with *not found* if the caller may not see the vote's channel.
fn visible_vote(cx: &Read<'_>, id: VoteId) -> Result<StoredVote> {
    let found: Option<StoredVote> = cx.one(SELECT_VOTE, &[&id, &cx.caller().workspace_id])?;
    let stored = found.ok_or_else(|| Error::not_found("vote"))?;
    visible_channel(cx, stored.channel_id).map_err(|error| match error.code() {
        Code::NotFound => Error::not_found("vote"),
        _ => error,
    })?;
    Ok(stored)
}

/// SQL that selects votes, except for votes whose questions were pruned.
macro_rules! select_votes {
    ($rest:literal) => {
        concat!(
            "select ",
            vote_columns!(),
            " from votes v join messages m on m.id = v.message_id where ",
            not_pruned!(),
            " and ",
            $rest
        )
    };
}

const SELECT_VOTE: &str = select_votes!("v.id = $1 and v.workspace_id = $2");

request! {
    /// Returns the votes of a thread, in the order in which they were opened.
    struct ListVotes {
        /// Id of the thread.
        thread_id: ThreadId,
        #[serde(default)]
        cursor: Option<Cursor>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_votes(thread_id: ThreadId) -> Page<Vote>
}

fn list_votes(cx: &Read<'_>, input: &ListVotes) -> Result<Page<Vote>> {
    let place = visible_thread_place(cx, input.thread_id)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let page = Page::of(
        cx.rows(LIST_VOTES, &[&place.thread_id, &after, &rows])?,
        input.limit,
        |row: &StoredVote| row.lsn,
    );
    let rows = |vote: &Vote| vote.options.iter().map(VoteOption::rows_read).sum();
    page.try_fill_within((PAGE_BALLOTS_MAX, rows), |vote| vote.lsn, |row| row.load(cx))
}

const LIST_VOTES: &str = select_votes!("v.thread_id = $1 and v.lsn > $2 order by v.lsn limit $3");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_two_to_twenty_different_texts() {
        let read = |options: &[&str]| serde_json::from_value::<Options>(json!(options));
        let many: Vec<String> = (0..=VOTE_OPTIONS_MAX).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for good in [&["a", "b"][..], &["a", "A"], &many[1..]] {
            assert!(read(good).is_ok(), "{good:?}");
        }
        for bad in [&[][..], &["a"], &["a", "b", "a"], &["a", " a"], &["a", ""], &many] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
