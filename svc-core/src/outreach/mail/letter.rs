//! Letters: single emails, ready to be sent.
//!
//! A letter is composed when it is taken for sending, and is never stored. Text written by members, such as
//! titles, is sent only to confirmed addresses: an unconfirmed address receives a code and no names.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::conversation::inbox::InboxReason;
use crate::conversation::notifications::outgoing::OutgoingItem;
use crate::id::MemberId;
use crate::mailbox::MailAddress;
use crate::outreach::delivery_address::ConfirmationCode;
use crate::time::Time;

/// Maximum number of items listed in one email. For further items, the email contains only their number.
const MAIL_ITEMS_MAX: usize = 50;

/// Kind of a letter, with the log positions of the items in the letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LetterKind {
    /// Contains the code for an address that is not confirmed.
    Code,
    /// Notifies the former address that another address was set.
    FormerAddress,
    /// Lists items of one thread or channel.
    Items(Vec<i64>),
    /// Lists the items of a digest.
    Digest(Vec<i64>),
}

/// An email to a member.
pub struct Letter {
    pub(super) kind: LetterKind,
    to: MailAddress,
    subject: String,
    text: String,
    html: String,
    id: String,
    references: Option<String>,
    unsubscribe: Option<String>,
}

impl Letter {
    /// Returns the address of the recipient.
    pub fn to(&self) -> &MailAddress {
        &self.to
    }

    /// Returns the subject, which is a single line.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the body as plain text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the body as HTML.
    pub fn html(&self) -> &str {
        &self.html
    }

    /// Returns the part of the Message-ID before the `@`, which stays the same when the letter is sent again.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the link that turns emails off, or `None` for a letter about the address itself.
    pub fn unsubscribe(&self) -> Option<&str> {
        self.unsubscribe.as_deref()
    }

    /// Returns the part of the `References` header before the `@`, which is the same for all letters about a
    /// thread or channel.
    ///
    /// Returns `None` for a digest, and for a letter about the address itself.
    pub fn references(&self) -> Option<&str> {
        self.references.as_deref()
    }
}

/// The recipient of letters, and the names that letters contain.
pub(super) struct LetterRecipient<'a> {
    pub member: MemberId,
    pub handle: &'a str,
    pub workspace: &'a str,
    /// The public address of the service.
    pub origin: &'a str,
    /// The link that turns off emails to the address, if the address is confirmed.
    pub unsubscribe: Option<String>,
}

impl LetterRecipient<'_> {
    /// Composes the letter with a confirmation code.
    pub fn compose_code(&self, to: MailAddress, code: &ConfirmationCode) -> Letter {
        let origin = self.origin;
        let mut body = LetterBody::default();
        body.add_line(&format!("{} is the code for this address.", code.digits()));
        body.add_line(&format!(
            "It confirms that {origin} may send notifications here, and is valid for 24 hours. If you did \
             not request it, ignore this email: without the code, no further emails are sent."
        ));
        let id = letter_id("code", self.member, &[code.digits().as_bytes()]);
        self.compose(LetterKind::Code, to, "The code for your address".to_owned(), body, id, None)
    }

    /// Composes the notice to a former address about the new address.
    pub fn compose_former_notice(&self, to: MailAddress, now: Time) -> Letter {
        let mut body = LetterBody::default();
        body.add_line(&format!(
            "Another email address was set for the notifications of @{} in {}.",
            self.handle, self.workspace
        ));
        body.add_line(
            "Notifications are sent to this address until the other one is confirmed. If this was not you, \
             revoke the token or end the session that was used.",
        );
        let id = letter_id("former", self.member, &[&now.micros().to_be_bytes()]);
        let subject = format!("[{}] Another address was set for your notifications", self.workspace);
        self.compose(LetterKind::FormerAddress, to, subject, body, id, None)
    }

    /// Composes a letter about items of one place, which is a thread or a channel.
    pub fn compose_items(&self, to: MailAddress, place: Uuid, items: &[&OutgoingItem]) -> Letter {
        let mut body = LetterBody::default();
        let title = items.iter().find_map(|item| item.thread.as_deref());
        if let Some(item) = items.first() {
            self.add_heading(&mut body, item);
        }
        body.add_items(items);
        self.add_footer(&mut body);
        let lsns: Vec<i64> = items.iter().map(|item| item.lsn).collect();
        let place_name = items.first().map(|item| channel_name(item)).unwrap_or_default();
        let untitled = || format!("{} in {place_name}", unread_count_text(items.len()));
        let subject = title.map_or_else(untitled, str::to_owned);
        let references = letter_id("thread", self.member, &[place.as_bytes()]);
        let id = letter_id("items", self.member, &[place.as_bytes(), &first_and_last_bytes(&lsns)]);
        let subject = format!("[{}] {subject}", self.workspace);
        self.compose(LetterKind::Items(lsns), to, subject, body, id, Some(references))
    }

    /// Composes a digest about items of several places.
    pub fn compose_digest(&self, to: MailAddress, places: &[(Uuid, Vec<&OutgoingItem>)]) -> Letter {
        let mut body = LetterBody::default();
        let mut left = MAIL_ITEMS_MAX;
        for (_, items) in places {
            let Some(item) = items.first().filter(|_| left > 0) else { break };
            self.add_heading(&mut body, item);
            body.add_items(items.get(..left.min(items.len())).unwrap_or_default());
            left = left.saturating_sub(items.len());
        }
        let lsns: Vec<i64> = places.iter().flat_map(|(_, items)| items).map(|item| item.lsn).collect();
        if lsns.len() > MAIL_ITEMS_MAX {
            body.add_line(&format!("And {} more.", lsns.len().saturating_sub(MAIL_ITEMS_MAX)));
        }
        self.add_footer(&mut body);
        let id = letter_id("digest", self.member, &[&first_and_last_bytes(&lsns)]);
        let subject = format!("[{}] {}", self.workspace, unread_count_text(lsns.len()));
        self.compose(LetterKind::Digest(lsns), to, subject, body, id, None)
    }

    fn add_footer(&self, body: &mut LetterBody) {
        let Self { handle, workspace, origin, .. } = self;
        body.add_line(&format!("You are @{handle} in {workspace} at {origin}."));
        body.add_link("Choose which emails you receive", &format!("{origin}/ui/settings"));
        if let Some(link) = &self.unsubscribe {
            body.add_link("Unsubscribe from all mail", link);
        }
    }

    /// Adds a heading with the channel and thread of an item, linked to the item's screen on the board.
    fn add_heading(&self, body: &mut LetterBody, item: &OutgoingItem) {
        let message = item.message_id.map(|message| format!("#m-{message}")).unwrap_or_default();
        let screen = match item.thread_id {
            Some(thread) => format!("t/{thread}{message}"),
            None => format!("c/{}", item.channel_id),
        };
        body.add_heading(&place_title(item), &format!("{}/ui/{screen}", self.origin));
    }

    fn compose(
        &self,
        kind: LetterKind,
        to: MailAddress,
        subject: String,
        body: LetterBody,
        id: String,
        references: Option<String>,
    ) -> Letter {
        let subject = subject.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let LetterBody { text, html } = body;
        let html = format!("<!doctype html><html><body>{html}</body></html>\n");
        let is_notice = matches!(kind, LetterKind::Code | LetterKind::FormerAddress);
        let unsubscribe = self.unsubscribe.clone().filter(|_| !is_notice);
        Letter { kind, to, subject, text, html, id, references, unsubscribe }
    }
}

fn unread_count_text(count: usize) -> String {
    if count == 1 { "1 unread notification".to_owned() } else { format!("{count} unread notifications") }
}

/// Returns the name of an item's channel, for use within a sentence.
fn channel_name(item: &OutgoingItem) -> String {
    if item.dm { "a direct message".to_owned() } else { format!("#{}", item.channel) }
}

/// Returns the name of an item's channel, with the title of the thread if the item has one.
fn place_title(item: &OutgoingItem) -> String {
    let channel = if item.dm { "Direct message".to_owned() } else { format!("#{}", item.channel) };
    match &item.thread {
        Some(title) => format!("{channel}: {title}"),
        None => channel,
    }
}

/// Describes an item by its actor and the action, as a sentence without the final period.
fn item_text(item: &OutgoingItem) -> String {
    let actor = item.actor.as_ref().map_or_else(|| "The service".to_owned(), |handle| format!("@{handle}"));
    let happened = match item.reasons.each().next() {
        Some(InboxReason::Mention) => "has mentioned you",
        Some(InboxReason::Reply) => "has replied to you",
        Some(InboxReason::Dm) => "has written to you",
        Some(InboxReason::GroupMention) => "has mentioned a group that you are in",
        Some(InboxReason::Assigned) => "has assigned this to you",
        Some(InboxReason::Owner) => "has made you the owner of this",
        Some(InboxReason::Refuted) => "has refuted what you wrote",
        Some(InboxReason::Added) => "has added you",
        Some(InboxReason::Result) => "has published a result",
        Some(InboxReason::ClaimUnacknowledged) => "reports that a claim was not acknowledged in time",
        Some(InboxReason::ClaimExpired) => "reports that a claim has expired",
        Some(InboxReason::ReviewRequested) => "has asked for your review",
        Some(InboxReason::ApprovalRequested) => "has asked for your approval",
        Some(InboxReason::ClaimTaken) => "has taken a claim from you",
        None => "has done something",
    };
    format!("{actor} {happened}")
}

/// Body of a letter, as plain text and as HTML.
#[derive(Default)]
struct LetterBody {
    text: String,
    html: String,
}

impl LetterBody {
    fn add_line(&mut self, line: &str) {
        let _ = write!(self.text, "{line}\n\n");
        let _ = writeln!(self.html, "<p>{}</p>", escape_html(line));
    }

    fn add_heading(&mut self, line: &str, address: &str) {
        let _ = write!(self.text, "{line}\n{address}\n\n");
        let _ =
            writeln!(self.html, "<h3><a href=\"{}\">{}</a></h3>", escape_html(address), escape_html(line));
    }

    fn add_link(&mut self, line: &str, address: &str) {
        let _ = write!(self.text, "{line}: {address}\n\n");
        let _ = writeln!(self.html, "<p><a href=\"{}\">{}</a></p>", escape_html(address), escape_html(line));
    }

    fn add_items(&mut self, items: &[&OutgoingItem]) {
        for item in items.iter().take(MAIL_ITEMS_MAX) {
            let said = item_text(item);
            let Some(preview) = &item.preview else {
                self.add_line(&format!("{said}."));
                continue;
            };
            let _ = write!(self.text, "{said}:\n\n");
            preview.lines().for_each(|line| {
                let _ = writeln!(self.text, "    {line}");
            });
            self.text.push('\n');
            let quoted = escape_html(preview).replace('\n', "<br>");
            let _ = writeln!(self.html, "<p>{}:</p><blockquote>{quoted}</blockquote>", escape_html(&said));
        }
        if items.len() > MAIL_ITEMS_MAX {
            self.add_line(&format!("And {} more.", items.len().saturating_sub(MAIL_ITEMS_MAX)));
        }
    }
}

/// Returns a text escaped for HTML.
fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Returns the first and the last of the positions as bytes.
///
/// The id of a letter is derived from both positions, so a letter that is sent again with a new item gets
/// another id.
fn first_and_last_bytes(lsns: &[i64]) -> [u8; 16] {
    let [first, last] = [lsns.first(), lsns.last()].map(|lsn| lsn.copied().unwrap_or_default());
    let mut ends = [0; 16];
    for (to, from) in ends.iter_mut().zip(first.to_be_bytes().into_iter().chain(last.to_be_bytes())) {
        *to = from;
    }
    ends
}

/// Derives the opaque id of a letter from the kind, the member and `parts`.
fn letter_id(kind: &str, member: MemberId, parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new_with_prefix("svc mail 1\0");
    hash.update(kind);
    hash.update(member.uuid().as_bytes());
    parts.iter().for_each(|part| hash.update(part));
    hex::encode(hash.finalize()).chars().take(LETTER_ID_CHARS).collect()
}

/// Number of hexadecimal digits in the id of a letter: 128 bits.
const LETTER_ID_CHARS: usize = 32;
