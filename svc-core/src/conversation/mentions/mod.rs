//! Mentions: resolving the `@` handles in a message to members.
//!
//! Possible mentions are found in a text before the request is queued. The transaction that posts the text
//! decides which members the mentions reach, and returns these members to the author. Mentions are part of
//! the sealed content: no event contains them in plaintext, and destroying the content destroys them.

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
use crate::limits::{GROUP_MENTION_MAX, GROUP_MENTION_WITHOUT_ADMIN_MAX};
use crate::log::event::RecordedEvent;
use crate::op::{Read, Write};
use crate::store::{Engine, columns, named_enum};
use parse::PossibleName;
pub(crate) use parse::{NameBudget, PossibleMentions};

/// A member whom a message mentions by handle and reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Mentioned")]
#[non_exhaustive]
pub struct MentionedMember {
    /// Id of the mentioned member.
    pub member_id: MemberId,
    /// Whether the member is online now.
    pub online: bool,
}

named_enum! {
    /// The reason why a mention reaches no member.
    #[non_exhaustive]
    pub enum WhyNot {
        Unknown = "unknown",
        CannotSee = "cannot_see",
        Inactive = "inactive",
        NotAllowed = "not_allowed",
        TooMany = "too_many",
    }
}

/// A mention that reaches no member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NotReached")]
#[non_exhaustive]
pub struct UnreachedMention {
    /// The mention as written in the text, including the `@`.
    pub text: String,
    /// Reason why the mention reaches no member: `unknown` if no member has the handle, `cannot_see` if the
    /// member may not see the channel, `inactive` if the member is deactivated, `not_allowed` if the group
    /// has more than 15 other members and the author lacks `channel:admin`, `too_many` if the group has more
    /// than 1000 other members, or if 50 other mentions precede this mention.
    pub why: WhyNot,
}

/// A group of a channel's members that a message can mention: `@channel` or `@here`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MentionGroup {
    /// `@channel`: all members of the channel.
    Channel,
    /// `@here`: the members of the channel who are online.
    Here,
}

impl MentionGroup {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "channel" => Some(Self::Channel),
            "here" => Some(Self::Here),
            _ => None,
        }
    }

    /// Returns the members to notify when the group is mentioned.
    fn recipients(self) -> Recipients<'static> {
        match self {
            Self::Channel => Recipients::ChannelMembers,
            Self::Here => Recipients::OnlineInChannel,
        }
    }
}

/// The result of resolving the mentions of a text: the members that the text reaches, and the mentions that
/// reach no member.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReachedMembers {
    /// The members that the text mentions by handle and reaches, in the order of the text, without the
    /// author.
    pub mentioned: Vec<MentionedMember>,
    pub not_reached: Vec<UnreachedMention>,
    /// All mentions to display as mentions: of active members who see the channel, including the author, and
    /// of groups.
    pub mentions: Vec<Mention>,
    groups: BTreeSet<MentionGroup>,
    /// All members that the text mentions by handle, including members that it does not reach.
    named_members: BTreeSet<MemberId>,
    named_groups: BTreeSet<MentionGroup>,
}

impl ReachedMembers {
    /// Returns the ids of the members that the text mentions by handle and reaches.
    fn member_ids(&self) -> Vec<MemberId> {
        self.mentioned.iter().map(|mentioned| mentioned.member_id).collect()
    }
}

/// A member whose handle occurs in a text, with the data that decides whether the text reaches the member.
struct HandleMatch {
    member_id: MemberId,
    handle: String,
    active: bool,
    sees_channel: bool,
    online: bool,
}

columns! {
    handle_match_columns: HandleMatch as m {
        member_id = id,
        handle,
        active = "m.deactivated_at is null",
        sees_channel = ("(c.id is null or ", seen_by!(c, "m.id"), ")"),
        online = ("exists (select 1 from presence p where p.member_id = m.id and ", online!(p, "$3"), ")"),
    }
}

/// Resolves the mentions of a text that is posted in a channel of the caller's workspace.
///
/// A text without mentions causes no database reads.
pub(crate) fn resolve_mentions(
    cx: &Read<'_>,
    channel: ChannelId,
    author: Option<MemberId>,
    possible_mentions: &PossibleMentions,
) -> Result<ReachedMembers> {
    Ok(MentionTargets::load(cx, Some(channel), [possible_mentions])?.resolve(author, possible_mentions))
}

/// Resolves the mentions of each given text, in a channel or in the whole workspace, without regard to the
/// author.
///
/// Groups can be mentioned only in a channel.
pub(crate) fn resolve_mentions_of_texts(
    cx: &Read<'_>,
    channel: Option<ChannelId>,
    texts: &[&PossibleMentions],
) -> Result<Vec<ReachedMembers>> {
    let targets = MentionTargets::load(cx, channel, texts.iter().copied())?;
    Ok(texts.iter().map(|possible_mentions| targets.resolve(None, possible_mentions)).collect())
}

/// The members and groups to which the possible names in some texts refer.
struct MentionTargets {
    members: BTreeMap<String, HandleMatch>,
    /// The groups that occur in the texts, each with the reason why the caller cannot mention the group, or
    /// `None`.
    groups: BTreeMap<MentionGroup, Option<WhyNot>>,
}

/// Meaning of a mention: the member or the group with the longest existing name that the mention could mean.
#[derive(Clone, Copy)]
enum MentionTarget<'m> {
    Member(MentionText<'m>, &'m HandleMatch),
    Group(MentionText<'m>, MentionGroup, Option<WhyNot>),
    Unknown(&'m str),
}

/// A mention as written, including the `@`.
type MentionText<'m> = &'m str;

/// Maximum names in one statement that looks up members by handle.
const NAMES_PER_QUERY_MAX: usize = 1000;

impl MentionTargets {
    /// Loads the members and groups to which the possible names in the texts refer.
    fn load<'m>(
        cx: &Read<'_>,
        channel: Option<ChannelId>,
        texts: impl IntoIterator<Item = &'m PossibleMentions>,
    ) -> Result<Self> {
        let found = texts.into_iter().flat_map(|possible_mentions| &possible_mentions.distinct);
        let names: BTreeSet<&str> =
            found.flat_map(|mention| &mention.names).map(|name| &*name.name).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut members = BTreeMap::new();
        for names in names.chunks(NAMES_PER_QUERY_MAX) {
            let called = members_with_handles(cx, channel, names)?.into_iter();
            members.extend(called.map(|called| (called.handle.clone(), called)));
        }
        let mut groups = BTreeMap::new();
        if let Some(channel) = channel {
            for group in names.iter().filter_map(|name| MentionGroup::from_name(name)) {
                groups.insert(group, reason_group_not_reached(cx, channel, group)?);
            }
        }
        Ok(Self { members, groups })
    }

    /// Returns the member or the group that a possible mention refers to, if any.
    fn find_target<'m>(&'m self, mention: &'m parse::PossibleMention) -> MentionTarget<'m> {
        let target = |name: &'m PossibleName| {
            if let Some(member) = self.members.get(&name.name) {
                return Some(MentionTarget::Member(mention.written_as(name), member));
            }
            let group = MentionGroup::from_name(&name.name)?;
            let why_not = self.groups.get(&group)?;
            Some(MentionTarget::Group(mention.written_as(name), group, *why_not))
        };
        mention.names.iter().find_map(target).unwrap_or(MentionTarget::Unknown(&mention.reported_text))
    }

    /// Resolves the mentions of one of the texts from which the targets were loaded.
    fn resolve(&self, author: Option<MemberId>, possible_mentions: &PossibleMentions) -> ReachedMembers {
        let mut reached = ReachBuilder { author, ..ReachBuilder::default() };
        let mut outcomes: Vec<Option<ResolvedMention>> = vec![None; possible_mentions.distinct.len()];
        let mut covered = 0;
        for place in &possible_mentions.places {
            // This `@` is part of the preceding handle, as in an email address.
            if place.position < covered {
                continue;
            }
            let found = possible_mentions
                .distinct
                .get(place.mention_index)
                .zip(outcomes.get_mut(place.mention_index));
            let Some((mention, outcome)) = found else { continue };
            let ResolvedMention { length, displayed_as } =
                *outcome.get_or_insert_with(|| reached.add_mention(self.find_target(mention)));
            let end = place.position.saturating_add(length);
            if length > 0 {
                covered = end;
            }
            reached
                .reached
                .mentions
                .extend(displayed_as.map(|member| Mention { range: place.position..end, member }));
        }
        for text in &possible_mentions.beyond_limit {
            reached.add_not_reached(text, WhyNot::TooMany);
        }
        reached.reached
    }
}

/// The result of resolving a mention. It is the same for all occurrences of the mention in a text.
#[derive(Clone, Copy, Default)]
struct ResolvedMention {
    /// Length of the mention in bytes, or 0 if the text is not a mention.
    length: usize,
    /// `None` if the text is not displayed as a mention, `Some(None)` for a group, `Some(Some(id))` for a
    /// member.
    displayed_as: Option<Option<MemberId>>,
}

/// Builder of [`ReachedMembers`], to which mentions are added one by one.
#[derive(Default)]
struct ReachBuilder {
    author: Option<MemberId>,
    reached: ReachedMembers,
    /// The mentions recorded as not reached, in lower case, so that each is recorded once.
    unreached: BTreeSet<String>,
}

impl ReachBuilder {
    /// Records the first occurrence of a mention, and returns the result of resolving the mention.
    fn add_mention(&mut self, target: MentionTarget<'_>) -> ResolvedMention {
        let (written, displayed_as) = match target {
            MentionTarget::Unknown(text) => {
                // An `@` without a handle-like text after it is not a mention.
                if !text.is_empty() {
                    self.add_not_reached(text, WhyNot::Unknown);
                }
                return ResolvedMention::default();
            }
            MentionTarget::Member(written, called) => {
                self.reached.named_members.insert(called.member_id);
                match called {
                    HandleMatch { member_id, .. } if Some(*member_id) == self.author => {}
                    HandleMatch { active: false, .. } => self.add_not_reached(written, WhyNot::Inactive),
                    HandleMatch { sees_channel: false, .. } => {
                        self.add_not_reached(written, WhyNot::CannotSee)
                    }
                    HandleMatch { member_id, online, .. } => {
                        let mentioned = MentionedMember { member_id: *member_id, online: *online };
                        if !self.reached.mentioned.contains(&mentioned) {
                            self.reached.mentioned.push(mentioned);
                        }
                    }
                }
                (written, (called.active && called.sees_channel).then_some(Some(called.member_id)))
            }
            MentionTarget::Group(written, group, why_not) => {
                self.reached.named_groups.insert(group);
                match why_not {
                    None => drop(self.reached.groups.insert(group)),
                    Some(why) => self.add_not_reached(written, why),
                }
                (written, Some(None))
            }
        };
        ResolvedMention { length: written.len(), displayed_as }
    }

    /// Records a mention that reaches no member, once per text.
    fn add_not_reached(&mut self, text: &str, why: WhyNot) {
        if self.unreached.insert(text.to_lowercase()) {
            self.reached.not_reached.push(UnreachedMention { text: text.to_owned(), why });
        }
    }
}

/// Loads the members whose handles are among the given names.
fn members_with_handles(
    cx: &Read<'_>,
    channel: Option<ChannelId>,
    names: &[&str],
) -> Result<Vec<HandleMatch>> {
    let names = serde_json::to_string(names).map_err(Error::internal)?;
    let sql = match cx.engine() {
        Engine::Sqlite => HANDLE_MATCHES_SQLITE,
        Engine::Postgres => HANDLE_MATCHES_POSTGRES,
    };
    cx.query(sql, &[&channel, &names, &online_since(cx.now()), &cx.caller().workspace_id])
}

macro_rules! select_handle_matches {
    ($names:literal) => {
        concat!(
            "select ",
            handle_match_columns!(),
            " from members m left join channels c on c.id = $1
             where m.workspace_id = $4 and m.handle in (",
            $names,
            ")"
        )
    };
}

const HANDLE_MATCHES_SQLITE: &str = select_handle_matches!("select value from json_each($2)");

const HANDLE_MATCHES_POSTGRES: &str =
    select_handle_matches!("select jsonb_array_elements_text(cast(cast($2 as text) as jsonb))");

/// Returns the reason why the caller cannot mention a group of a channel, or `None` if the caller can.
fn reason_group_not_reached(
    cx: &Read<'_>,
    channel: ChannelId,
    group: MentionGroup,
) -> Result<Option<WhyNot>> {
    let (limit, why) = match cx.caller().capabilities.has(Capability::ChannelAdmin) {
        true => (GROUP_MENTION_MAX, WhyNot::TooMany),
        false => (GROUP_MENTION_WITHOUT_ADMIN_MAX, WhyNot::NotAllowed),
    };
    let is_here = group == MentionGroup::Here;
    let since = online_since(cx.now());
    let counted: Option<(i64,)> =
        cx.one(COUNT_GROUP, &[&channel, &cx.caller().member, &is_here, &since, &limit.saturating_add(1)])?;
    Ok(counted.filter(|(count,)| *count > limit).map(|_| why))
}

/// Counts the members of a group other than the caller, up to a limit.
const COUNT_GROUP: &str = concat!(
    "select count(*) from (
        select m.id from members m where m.id in ",
    members_in!("$1"),
    " and m.deactivated_at is null and m.id <> $2
            and (not $3 or exists (select 1 from presence p where p.member_id = m.id and ",
    online!(p, "$4"),
    ")) limit $5) others"
);

/// Notifies the members that a new message reaches by mentions. In a direct message, notifies all other
/// members.
pub(crate) fn notify_reached_members(
    cx: &mut Write<'_>,
    cause: &RecordedEvent,
    message: MessageId,
    reached: &ReachedMembers,
    is_dm: bool,
) -> Result<()> {
    let members = reached.member_ids();
    let mentioned = (!members.is_empty()).then_some((InboxReason::Mention, Recipients::Members(&members)));
    let groups = reached.groups.iter().map(|group| (InboxReason::GroupMention, group.recipients()));
    let all = is_dm.then_some((InboxReason::Dm, Recipients::ChannelMembers));
    for (place, (reason, to)) in mentioned.into_iter().chain(groups).chain(all).enumerate() {
        match place {
            0 => inbox::notify_of_new_message(cx, cause, reason, message, to)?,
            _ => inbox::notify(cx, cause, reason, Some(message), to)?,
        }
    }
    Ok(())
}

/// Updates the notifications of an edited message: adds notifications for new mentions, and removes
/// notifications for removed mentions.
pub(crate) fn update_mention_notifications(
    cx: &mut Write<'_>,
    cause: &RecordedEvent,
    message: MessageId,
    before: &ReachedMembers,
    after: &ReachedMembers,
) -> Result<()> {
    // The removed mentions include members who no longer see the channel but were notified earlier.
    let gone: Vec<MemberId> = before.named_members.difference(&after.named_members).copied().collect();
    if !gone.is_empty() {
        inbox::remove_reason(cx, message, InboxReason::Mention, Some(&gone))?;
    }
    // If the edit removes a mention of a group, all group notifications are removed. The members of a
    // remaining group are then notified again.
    let mut still = before.named_groups.clone();
    if before.named_groups.difference(&after.named_groups).next().is_some() {
        inbox::remove_reason(cx, message, InboxReason::GroupMention, None)?;
        still.clear();
    }
    // The earlier text may not have reached a member whom both texts mention. If it did, the member's item is
    // not changed.
    let members = after.member_ids();
    if !members.is_empty() {
        inbox::notify(cx, cause, InboxReason::Mention, Some(message), Recipients::Members(&members))?;
    }
    for group in after.groups.difference(&still) {
        inbox::notify(cx, cause, InboxReason::GroupMention, Some(message), group.recipients())?;
    }
    Ok(())
}

/// Resolves the mentions of a text among the given members, as in a channel in which groups can be mentioned.
#[cfg(test)]
pub(crate) fn reached_among(members: &[(&str, MemberId)], text: &str) -> ReachedMembers {
    let called = |(handle, member_id): &(&str, MemberId)| HandleMatch {
        member_id: *member_id,
        handle: (*handle).to_owned(),
        active: true,
        sees_channel: true,
        online: false,
    };
    let members = members.iter().map(|member| (member.0.to_owned(), called(member))).collect();
    let groups = [(MentionGroup::Channel, None), (MentionGroup::Here, None)].into();
    MentionTargets { members, groups }.resolve(None, &PossibleMentions::find(&[text]))
}
