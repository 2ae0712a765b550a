//! Mentions: resolving the `@` handles in a message to members.
//!
//! Possible mentions are found in a text before the request is queued. The transaction that posts the text
//! decides which members the mentions reach, and returns those members to the author. A mention is part of
//! the content: no event contains it, and destroying the content destroys it.

mod parse;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::capability::Capability;
use crate::conversation::inbox::{self, InboxReason, Recipients};
use crate::conversation::markdown::Mention;
use crate::conversation::presence::{online, online_since};
use crate::conversation::visibility::{members_in, seen_by};
use crate::error::Error;
use crate::id::{ChannelId, MemberId, MessageId};
use crate::limits::{GROUP_MENTION_FREE, GROUP_MENTION_MAX};
use crate::log::event::Recorded;
use crate::op::{Read, Write};
use crate::store::{Engine, columns, named_enum};
use parse::PossibleName;
pub(crate) use parse::{NameBudget, PossibleMentions};

/// A member that a message mentions by handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Mentioned {
    /// The member.
    member_id: MemberId,
    /// Whether the member is online now.
    online: bool,
}

named_enum! {
    /// Reason why a mention reaches no member.
    pub(crate) enum WhyNot {
        Unknown = "unknown",
        CannotSee = "cannot_see",
        Inactive = "inactive",
        NotAllowed = "not_allowed",
        TooMany = "too_many",
    }
}

/// A mention that reaches no member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct NotReached {
    /// The mention as written.
    text: String,
    /// `unknown` if no member has the handle, `cannot_see` if the member may not see the channel, `inactive`
    /// if the member is deactivated, `not_allowed` if a group of more than 15 needs `channel:admin`,
    /// `too_many` if the group has more than 1000 others, or if the mention comes after the first 50
    /// mentions.
    why: WhyNot,
}

/// A named group of a channel's members that can be mentioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// All members of the channel.
    Channel,
    /// The members of the channel who are online.
    Here,
}

impl Group {
    fn called(name: &str) -> Option<Self> {
        match name {
            "channel" => Some(Self::Channel),
            "here" => Some(Self::Here),
            _ => None,
        }
    }

    fn members(self) -> Recipients<'static> {
        match self {
            Self::Channel => Recipients::ChannelMembers,
            Self::Here => Recipients::OnlineInChannel,
        }
    }
}

/// Result of resolving the mentions of a text: the members that the text reaches, and the mentions that reach
/// no member.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReachedMembers {
    /// The members mentioned by handle, in the order of the text, without the author.
    pub mentioned: Vec<Mentioned>,
    pub not_reached: Vec<NotReached>,
    /// Ranges of all mentions that are displayed: of the author, of other reached members, and of groups.
    pub mentions: Vec<Mention>,
    groups: BTreeSet<Group>,
    /// All members that the text mentions by handle, reached or not.
    named: BTreeSet<MemberId>,
    named_groups: BTreeSet<Group>,
}

impl ReachedMembers {
    fn members(&self) -> Vec<MemberId> {
        self.mentioned.iter().map(|mentioned| mentioned.member_id).collect()
    }
}

/// A member whose handle occurs in a text.
struct HandleMatch {
    member_id: MemberId,
    handle: String,
    active: bool,
    sees: bool,
    online: bool,
}

columns! {
    called_columns: HandleMatch as m {
        member_id = id,
        handle,
        active = "m.deactivated_at is null",
        sees = ("(c.id is null or ", seen_by!(c, "m.id"), ")"),
        online = ("exists (select 1 from presence p where p.member_id = m.id and ", online!(p, "$3"), ")"),
    }
}

/// Resolves the mentions of a text that is posted in a channel of the caller's workspace.
///
/// A text without mentions causes no database reads.
pub(crate) fn reached(
    cx: &Read<'_>,
    channel: ChannelId,
    author: Option<MemberId>,
    mentioning: &PossibleMentions,
) -> Result<ReachedMembers> {
    Ok(MentionTargets::by(cx, Some(channel), [mentioning])?.reached(author, mentioning))
}

/// Resolves the mentions of each given text, in a channel or in the whole workspace, for any author.
///
/// Groups can be mentioned only in a channel.
pub(crate) fn reached_by_each(
    cx: &Read<'_>,
    channel: Option<ChannelId>,
    texts: &[&PossibleMentions],
) -> Result<Vec<ReachedMembers>> {
    let meant = MentionTargets::by(cx, channel, texts.iter().copied())?;
    Ok(texts.iter().map(|mentioning| meant.reached(None, mentioning)).collect())
}

/// The members and groups that the possible names in some texts refer to.
struct MentionTargets {
    members: BTreeMap<String, HandleMatch>,
    /// The groups that occur in the texts, each with the reason why the caller cannot reach it, or `None`.
    groups: BTreeMap<Group, Option<WhyNot>>,
}

/// Meaning of a mention: its longest existing name, and the member or group with that name.
#[derive(Clone, Copy)]
enum MentionTarget<'m> {
    Member(MentionText<'m>, &'m HandleMatch),
    Group(MentionText<'m>, Group, Option<WhyNot>),
    Unknown(&'m str),
}

/// A mention as written, including the `@`.
type MentionText<'m> = &'m str;

/// Maximum number of names in one lookup statement.
const NAMES_AT_ONCE: usize = 1000;

impl MentionTargets {
    fn by<'m>(
        cx: &Read<'_>,
        channel: Option<ChannelId>,
        texts: impl IntoIterator<Item = &'m PossibleMentions>,
    ) -> Result<Self> {
        let found = texts.into_iter().flat_map(|mentioning| &mentioning.found);
        let names: BTreeSet<&str> =
            found.flat_map(|mention| &mention.names).map(|name| &*name.name).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut members = BTreeMap::new();
        for names in names.chunks(NAMES_AT_ONCE) {
            let called = members_with_handles(cx, channel, names)?.into_iter();
            members.extend(called.map(|called| (called.handle.clone(), called)));
        }
        let mut groups = BTreeMap::new();
        if let Some(channel) = channel {
            for group in names.iter().filter_map(|name| Group::called(name)) {
                groups.insert(group, unreached_reason(cx, channel, group)?);
            }
        }
        Ok(Self { members, groups })
    }

    fn meaning<'m>(&'m self, mention: &'m parse::PossibleMention) -> MentionTarget<'m> {
        let meaning = |name: &'m PossibleName| {
            if let Some(member) = self.members.get(&name.name) {
                return Some(MentionTarget::Member(mention.written_as(name), member));
            }
            let group = Group::called(&name.name)?;
            let why_not = self.groups.get(&group)?;
            Some(MentionTarget::Group(mention.written_as(name), group, *why_not))
        };
        mention.names.iter().find_map(meaning).unwrap_or(MentionTarget::Unknown(&mention.text))
    }

    /// Resolves the mentions of one of the texts.
    fn reached(&self, author: Option<MemberId>, mentioning: &PossibleMentions) -> ReachedMembers {
        let mut reached = ReachBuilder { author, ..ReachBuilder::default() };
        let mut outcomes: Vec<Option<ResolvedMention>> = vec![None; mentioning.found.len()];
        let mut covered = 0;
        for place in &mentioning.places {
            // Part of the preceding handle, as in an email address.
            if place.at < covered {
                continue;
            }
            let found = mentioning.found.get(place.mention).zip(outcomes.get_mut(place.mention));
            let Some((mention, outcome)) = found else { continue };
            let ResolvedMention { length, shown } =
                *outcome.get_or_insert_with(|| reached.add(self.meaning(mention)));
            let end = place.at.saturating_add(length);
            if length > 0 {
                covered = end;
            }
            reached.reached.mentions.extend(shown.map(|member| Mention { place: place.at..end, member }));
        }
        for text in &mentioning.beyond {
            reached.not_reached(text, WhyNot::TooMany);
        }
        reached.reached
    }
}

/// Result of resolving a mention, which is the same everywhere in a text.
#[derive(Clone, Copy, Default)]
struct ResolvedMention {
    /// Length of the mention in bytes; 0 if the text is not a mention.
    length: usize,
    /// `None` if the text is not shown as a mention; `Some(None)` for a group, `Some(Some(id))` for a member.
    shown: Option<Option<MemberId>>,
}

/// Builder of [`ReachedMembers`].
#[derive(Default)]
struct ReachBuilder {
    author: Option<MemberId>,
    reached: ReachedMembers,
    /// The mentions that reach no member, in lower case.
    unreached: BTreeSet<String>,
}

impl ReachBuilder {
    /// Records the first occurrence of a mention, and returns how it resolves.
    fn add(&mut self, meaning: MentionTarget<'_>) -> ResolvedMention {
        let (written, shown) = match meaning {
            MentionTarget::Unknown(text) => {
                // An `@` that is not followed by a handle-like text is not a mention.
                if !text.is_empty() {
                    self.not_reached(text, WhyNot::Unknown);
                }
                return ResolvedMention::default();
            }
            MentionTarget::Member(written, called) => {
                self.reached.named.insert(called.member_id);
                match called {
                    HandleMatch { member_id, .. } if Some(*member_id) == self.author => {}
                    HandleMatch { active: false, .. } => self.not_reached(written, WhyNot::Inactive),
                    HandleMatch { sees: false, .. } => self.not_reached(written, WhyNot::CannotSee),
                    HandleMatch { member_id, online, .. } => {
                        let mentioned = Mentioned { member_id: *member_id, online: *online };
                        if !self.reached.mentioned.contains(&mentioned) {
                            self.reached.mentioned.push(mentioned);
                        }
                    }
                }
                (written, (called.active && called.sees).then_some(Some(called.member_id)))
            }
            MentionTarget::Group(written, group, why_not) => {
                self.reached.named_groups.insert(group);
                match why_not {
                    None => drop(self.reached.groups.insert(group)),
                    Some(why) => self.not_reached(written, why),
                }
                (written, Some(None))
            }
        };
        ResolvedMention { length: written.len(), shown }
    }

    fn not_reached(&mut self, text: &str, why: WhyNot) {
        if self.unreached.insert(text.to_lowercase()) {
            self.reached.not_reached.push(NotReached { text: text.to_owned(), why });
        }
    }
}

/// Loads the members who have one of the given handles.
fn members_with_handles(
    cx: &Read<'_>,
    channel: Option<ChannelId>,
    names: &[&str],
) -> Result<Vec<HandleMatch>> {
    let names = serde_json::to_string(names).map_err(Error::internal)?;
    let sql = match cx.engine() {
        Engine::Sqlite => CALLED_SQLITE,
        Engine::Postgres => CALLED_POSTGRES,
    };
    cx.query(sql, &[&channel, &names, &online_since(cx.now()), &cx.caller().workspace_id])
}

macro_rules! select_called {
    ($names:literal) => {
        concat!(
            "select ",
            called_columns!(),
            " from members m left join channels c on c.id = $1
             where m.workspace_id = $4 and m.handle in (",
            $names,
            ")"
        )
    };
}

const CALLED_SQLITE: &str = select_called!("select value from json_each($2)");

const CALLED_POSTGRES: &str =
    select_called!("select jsonb_array_elements_text(cast(cast($2 as text) as jsonb))");

/// Returns why the caller cannot mention a group of a channel, or `None` if the caller can.
fn unreached_reason(cx: &Read<'_>, channel: ChannelId, group: Group) -> Result<Option<WhyNot>> {
    let (most, why) = match cx.caller().capabilities.has(Capability::ChannelAdmin) {
        true => (GROUP_MENTION_MAX, WhyNot::TooMany),
        false => (GROUP_MENTION_FREE, WhyNot::NotAllowed),
    };
    let is_here = group == Group::Here;
    let since = online_since(cx.now());
    let counted: Option<(i64,)> =
        cx.one(COUNT_GROUP, &[&channel, &cx.caller().member, &is_here, &since, &most.saturating_add(1)])?;
    Ok(counted.filter(|(count,)| *count > most).map(|_| why))
}

/// Counts the other members of a group, up to a limit.
const COUNT_GROUP: &str = concat!(
    "select count(*) from (
        select m.id from members m where m.id in ",
    members_in!("$1"),
    " and m.deactivated_at is null and m.id <> $2
            and (not $3 or exists (select 1 from presence p where p.member_id = m.id and ",
    online!(p, "$4"),
    ")) limit $5) others"
);

/// Notifies the members that a new message mentions and, in a direct message, all its other members.
pub(crate) fn notify_reached(
    cx: &mut Write<'_>,
    because: &Recorded,
    message: MessageId,
    reached: &ReachedMembers,
    is_dm: bool,
) -> Result<()> {
    let members = reached.members();
    let mentioned = (!members.is_empty()).then_some((InboxReason::Mention, Recipients::Members(&members)));
    let groups = reached.groups.iter().map(|group| (InboxReason::GroupMention, group.members()));
    let all = is_dm.then_some((InboxReason::Dm, Recipients::ChannelMembers));
    for (place, (reason, to)) in mentioned.into_iter().chain(groups).chain(all).enumerate() {
        match place {
            0 => inbox::notify_first(cx, because, reason, message, to)?,
            _ => inbox::notify(cx, because, reason, Some(message), to)?,
        }
    }
    Ok(())
}

/// Updates the notifications of an edited message: adds those of new mentions and deletes those of removed
/// mentions.
pub(crate) fn update_notifications(
    cx: &mut Write<'_>,
    because: &Recorded,
    message: MessageId,
    before: &ReachedMembers,
    after: &ReachedMembers,
) -> Result<()> {
    // This includes members who no longer see the channel, but were notified when they did.
    let gone: Vec<MemberId> = before.named.difference(&after.named).copied().collect();
    if !gone.is_empty() {
        inbox::remove_reason(cx, message, InboxReason::Mention, Some(&gone))?;
    }
    // If the edit removes a mention of a larger group, members of a remaining group are notified again.
    let mut still = before.named_groups.clone();
    if before.named_groups.difference(&after.named_groups).next().is_some() {
        inbox::remove_reason(cx, message, InboxReason::GroupMention, None)?;
        still.clear();
    }
    // A member in both texts may not have been reached by the first. If it was, its item is not changed.
    let members = after.members();
    if !members.is_empty() {
        inbox::notify(cx, because, InboxReason::Mention, Some(message), Recipients::Members(&members))?;
    }
    for group in after.groups.difference(&still) {
        inbox::notify(cx, because, InboxReason::GroupMention, Some(message), group.members())?;
    }
    Ok(())
}

/// Resolves the mentions of a text among the given members, in a place where groups can be mentioned.
#[cfg(test)]
pub(crate) fn reached_among(members: &[(&str, MemberId)], text: &str) -> ReachedMembers {
    let called = |(handle, member_id): &(&str, MemberId)| HandleMatch {
        member_id: *member_id,
        handle: (*handle).to_owned(),
        active: true,
        sees: true,
        online: false,
    };
    let members = members.iter().map(|member| (member.0.to_owned(), called(member))).collect();
    let groups = [(Group::Channel, None), (Group::Here, None)].into();
    MentionTargets { members, groups }.reached(None, &PossibleMentions::of(&[text]))
}
