//! Mentions: whom the words of a message speak to.
//!
//! What a text may mention is found before the queue; whom it reaches is decided in the transaction that
//! posts it, and returned to its author. A mention is part of the words: no event names it, and it goes with
//! them.

mod parse;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::capability::Capability;
use crate::conversation::inbox::{self, InboxReason, To};
use crate::conversation::places::{members_in, seen_by};
use crate::conversation::presence::{online, online_since};
use crate::error::Error;
use crate::id::{ChannelId, MemberId, MessageId};
use crate::limits::{GROUP_MENTION_FREE, GROUP_MENTION_MAX};
use crate::log::event::Recorded;
use crate::op::{Read, Write};
use crate::store::{Engine, columns, named_enum};
pub(crate) use parse::Mentioning;

/// A member whom a message mentions by its handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Mentioned {
    /// The member.
    member_id: MemberId,
    /// Whether it is online now.
    online: bool,
}

named_enum! {
    /// Why a mention reaches nobody.
    pub(crate) enum WhyNot {
        Unknown = "unknown",
        CannotSee = "cannot_see",
        Inactive = "inactive",
        NotAllowed = "not_allowed",
        TooMany = "too_many",
    }
}

/// A mention that reaches nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct NotReached {
    /// The mention, as it is written.
    text: String,
    /// `unknown` if no member has the handle, `cannot_see` if the member may not see the channel, `inactive`
    /// if it is deactivated, `not_allowed` if a group of more than 15 needs `channel:admin`, `too_many` if
    /// the group has more than 1000 others, or if it is behind the first 50 mentions.
    why: WhyNot,
}

/// Some members of a channel, by one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Those who are in it.
    Channel,
    /// Those of them who are online.
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

    fn members(self) -> To<'static> {
        match self {
            Self::Channel => To::ChannelMembers,
            Self::Here => To::OnlineInChannel,
        }
    }
}

/// Whom a text reaches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached {
    /// The members that it mentions by their handles, in its order, without its author.
    pub mentioned: Vec<Mentioned>,
    pub not_reached: Vec<NotReached>,
    groups: BTreeSet<Group>,
    /// All members and groups that it names, reached or not.
    named: BTreeSet<MemberId>,
    named_groups: BTreeSet<Group>,
}

impl Reached {
    fn members(&self) -> Vec<MemberId> {
        self.mentioned.iter().map(|mentioned| mentioned.member_id).collect()
    }
}

/// A member whose handle stands in a text.
struct Called {
    member_id: MemberId,
    handle: String,
    active: bool,
    sees: bool,
    online: bool,
}

columns! {
    called_columns: Called as m {
        member_id = id,
        handle,
        active = "m.deactivated_at is null",
        sees = (seen_by!(c, "m.id")),
        online = ("exists (select 1 from presence p where p.member_id = m.id and ", online!(p, "$3"), ")"),
    }
}

/// Finds whom a text reaches in a channel of the caller's workspace.
///
/// For a text that mentions nobody it reads nothing.
pub(crate) fn reached(
    cx: &Read<'_>,
    channel: ChannelId,
    author: Option<MemberId>,
    mentioning: &Mentioning,
) -> Result<Reached> {
    let mut reached = Reached::default();
    if mentioning.is_empty() {
        return Ok(reached);
    }
    let called = called(cx, channel, mentioning)?;
    let (mut covered, mut unreached) = (0, BTreeSet::new());
    let mut not_reached = |reached: &mut Reached, text: &str, why| {
        if unreached.insert(text.to_lowercase()) {
            reached.not_reached.push(NotReached { text: text.to_owned(), why });
        }
    };
    for mention in &mentioning.found {
        // Part of a handle before it, as in an email address.
        if mention.at < covered {
            continue;
        }
        let found = mention.names.iter().find_map(|name| {
            let member = called.iter().find(|called| called.handle == name.name);
            let group = Group::called(&name.name);
            (member.is_some() || group.is_some()).then_some((name, member, group))
        });
        let Some((name, member, group)) = found else {
            // A sign without anything like a handle behind it is not a mention.
            if !mention.text.is_empty() {
                not_reached(&mut reached, &mention.text, WhyNot::Unknown);
            }
            continue;
        };
        covered = name.end;
        match member {
            Some(member) => drop(reached.named.insert(member.member_id)),
            None => reached.named_groups.extend(group),
        }
        match (member, group) {
            (Some(member), _) if Some(member.member_id) == author => {}
            (Some(Called { active: false, .. }), _) => {
                not_reached(&mut reached, &name.text, WhyNot::Inactive);
            }
            (Some(Called { sees: false, .. }), _) => {
                not_reached(&mut reached, &name.text, WhyNot::CannotSee);
            }
            (Some(Called { member_id, online, .. }), _) => {
                let mentioned = Mentioned { member_id: *member_id, online: *online };
                if !reached.mentioned.contains(&mentioned) {
                    reached.mentioned.push(mentioned);
                }
            }
            (None, Some(group)) => match why_not(cx, channel, group)? {
                None => drop(reached.groups.insert(group)),
                Some(why) => not_reached(&mut reached, &name.text, why),
            },
            (None, None) => not_reached(&mut reached, &name.text, WhyNot::Unknown),
        }
    }
    for text in &mentioning.beyond {
        not_reached(&mut reached, text, WhyNot::TooMany);
    }
    Ok(reached)
}

/// Returns the members whose handles a text may name.
fn called(cx: &Read<'_>, channel: ChannelId, mentioning: &Mentioning) -> Result<Vec<Called>> {
    let names: BTreeSet<&str> =
        mentioning.found.iter().flat_map(|mention| &mention.names).map(|name| &*name.name).collect();
    let names = serde_json::to_string(&names).map_err(Error::internal)?;
    let sql = match cx.engine() {
        Engine::Sqlite => CALLED_SQLITE,
        Engine::Postgres => CALLED_POSTGRES,
    };
    cx.query(sql, &[&channel, &names, &online_since(cx.now())])
}

macro_rules! select_called {
    ($names:literal) => {
        concat!(
            "select ",
            called_columns!(),
            " from channels c join members m on m.workspace_id = c.workspace_id
             where c.id = $1 and m.handle in (",
            $names,
            ")"
        )
    };
}

const CALLED_SQLITE: &str = select_called!("select value from json_each($2)");

const CALLED_POSTGRES: &str =
    select_called!("select jsonb_array_elements_text(cast(cast($2 as text) as jsonb))");

/// Returns why the caller reaches nobody by the name of a group of a channel, if that is so.
fn why_not(cx: &Read<'_>, channel: ChannelId, group: Group) -> Result<Option<WhyNot>> {
    let (most, why) = match cx.caller().capabilities.has(Capability::ChannelAdmin) {
        true => (GROUP_MENTION_MAX, WhyNot::TooMany),
        false => (GROUP_MENTION_FREE, WhyNot::NotAllowed),
    };
    let (is_here, since) = (group == Group::Here, online_since(cx.now()));
    let counted: Option<(i64,)> =
        cx.one(COUNT_GROUP, &[&channel, &cx.caller().member, &is_here, &since, &most.saturating_add(1)])?;
    Ok(counted.filter(|(count,)| *count > most).map(|_| why))
}

/// Counts the others of a group, no further than is needed.
const COUNT_GROUP: &str = concat!(
    "select count(*) from (
        select m.id from members m where m.id in ",
    members_in!("$1"),
    " and m.deactivated_at is null and m.id <> $2
            and (not $3 or exists (select 1 from presence p where p.member_id = m.id and ",
    online!(p, "$4"),
    ")) limit $5) others"
);

/// Tells those whom a new message reaches, and in a direct message all others who are in it.
pub(crate) fn tell(
    cx: &mut Write<'_>,
    because: &Recorded,
    message: MessageId,
    reached: &Reached,
    is_dm: bool,
) -> Result<()> {
    let members = reached.members();
    let mentioned = (!members.is_empty()).then_some((InboxReason::Mention, To::Members(&members)));
    let groups = reached.groups.iter().map(|group| (InboxReason::GroupMention, group.members()));
    let all = is_dm.then_some((InboxReason::Dm, To::ChannelMembers));
    for (place, (reason, to)) in mentioned.into_iter().chain(groups).chain(all).enumerate() {
        match place {
            0 => inbox::notify_first(cx, because, reason, message, to)?,
            _ => inbox::notify(cx, because, reason, Some(message), to)?,
        }
    }
    Ok(())
}

/// Tells those whom an edited message reaches and did not before, and takes back what it told the others.
pub(crate) fn retell(
    cx: &mut Write<'_>,
    because: &Recorded,
    message: MessageId,
    before: &Reached,
    after: &Reached,
) -> Result<()> {
    // Whoever does not see the channel now may have been told when it did.
    let gone: Vec<MemberId> = before.named.difference(&after.named).copied().collect();
    if !gone.is_empty() {
        inbox::take_back(cx, message, InboxReason::Mention, Some(&gone))?;
    }
    // Who is told of a group that is still named is told anew if a larger one is not named any more.
    let mut still = before.named_groups.clone();
    if before.named_groups.difference(&after.named_groups).next().is_some() {
        inbox::take_back(cx, message, InboxReason::GroupMention, None)?;
        still.clear();
    }
    // Whom both texts name was perhaps not reached by the first. Whoever was has an item, and keeps that.
    let members = after.members();
    if !members.is_empty() {
        inbox::notify(cx, because, InboxReason::Mention, Some(message), To::Members(&members))?;
    }
    for group in after.groups.difference(&still) {
        inbox::notify(cx, because, InboxReason::GroupMention, Some(message), group.members())?;
    }
    Ok(())
}
