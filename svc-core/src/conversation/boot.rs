//! The boot of a channel: the text that agents read when they start work in the channel.
//!
//! A channel has one boot text, which may be empty. The event log contains only the version and the length of
//! the text.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;
use crate::capability::Capability::{WorkspaceRead, WorkspaceWrite};
use crate::conversation::visibility::{check_not_archived, visible_channel};
use crate::error::Code;
use crate::id::{ChannelId, MemberId};
use crate::limits::BOOT_MAX;
use crate::log::event::{Event, EventKind, RecordedEvent, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Class, DestroyPermit, Feature, Read, Records, Write, idempotent, purged, read};
use crate::request::request;
use crate::store::columns;
use crate::text::{Prose, characters};
use crate::time::Time;

/// Name of the table. A legal hold also preserves replaced boot texts under this name.
const TABLE: &str = "boots";

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "channels",
            vec![
                read("get_channel_boot", get_channel_boot)
                    .quick()
                    .resumes_text("text")
                    .title("Read a channel's boot")
                    .when(
                        "Get a channel's boot, the text that agents read when they start work in the \
                         channel. `get_thread_context` includes it.",
                    )
                    .get("/channels/{channel_id}/boot")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"channel_id": w.id("channel")})),
                idempotent("set_channel_boot", set_channel_boot)
                    .title("Set a channel's boot")
                    .when(
                        "Set a channel's boot, the text that agents read when they start work in the \
                         channel.",
                    )
                    .put("/channels/{channel_id}/boot")
                    .needs(&[WorkspaceWrite])
                    .refuses(&[Code::WrongState])
                    .example(|w| {
                        json!({"channel_id": w.id("channel"),
                               "text": "Branches are named after threads. Run the tests before a result."})
                    }),
            ],
        )
        .events(vec![EventKind::of::<ChannelBootSet>()])
        .records(vec![
            Records::table(TABLE, "channel_id")
                .through("channel_id", "channels")
                .ids("channel_id updated_by")
                .ints("version lsn")
                .times("at")
                .words("text", purge_batch)
                .proven("channel_id", "version updated_by at lsn")
                // Events contain the length of the text only, because the text may be destroyed.
                .proven_as("text", Class::Int, "t.text"),
        ])
}

/// The boot of a channel, the text that agents read when they start work in the channel.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChannelBoot {
    /// Id of the channel.
    pub channel_id: ChannelId,
    /// Text of the boot; empty if no text was ever set.
    pub text: String,
    /// Version of the text, which rises with each change; 0 if no text was ever set.
    pub version: i64,
    /// Id of the member who last set the text; null if no text was ever set, or if the service itself set it.
    pub updated_by: Option<MemberId>,
    /// Time at which the text was last set; null if no text was ever set.
    pub updated_at: Option<Time>,
    /// Position of the last change to the text in the workspace's log; null if no text was ever set.
    pub lsn: Option<i64>,
}

columns! {
    boot_columns: ChannelBoot as b { channel_id, text, version, updated_by, updated_at = at, lsn }
}

impl<I> Answer<I> for ChannelBoot {
    type Kept = ChannelId;

    fn kept(&self) -> Option<ChannelId> {
        Some(self.channel_id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, channel_id: ChannelId) -> Result<Self> {
        get_channel_boot(cx, &GetChannelBoot { channel_id })
    }
}

/// The boot of a channel was set.
#[derive(Serialize, JsonSchema)]
struct ChannelBootSet {
    /// Id of the channel.
    channel_id: ChannelId,
    /// Version of the text, which rises with each change.
    version: i64,
    /// Length of the text, in characters.
    size: i64,
}

impl Event for ChannelBootSet {
    const KIND: &'static str = "ChannelBootSet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let boot = event.row_of(TABLE, "channel_id")?.made().copy("version").set_to("text", "size");
        let boot = boot.set("updated_by", event.subject()).set("at", event.at());
        boot.set("lsn", event.lsn()).keep()
    }
}

request! {
    /// Returns a channel's boot, the text that agents read when they start work in the channel.
    ///
    /// The text is empty if no text was ever set.
    struct GetChannelBoot {
        /// Id of the channel.
        channel_id: ChannelId,
    }

    get_channel_boot(channel_id: ChannelId) -> ChannelBoot
}

fn get_channel_boot(cx: &Read<'_>, input: &GetChannelBoot) -> Result<ChannelBoot> {
    load_boot(cx, visible_channel(cx, input.channel_id)?.id)
}

/// Returns the boot of a channel. The calling function must have checked that the caller may see the channel.
pub(crate) fn load_boot(cx: &Read<'_>, channel_id: ChannelId) -> Result<ChannelBoot> {
    let found = cx.one(SELECT_BOOT, &[&channel_id])?;
    let text = String::new();
    let version = 0;
    let none = ChannelBoot { channel_id, text, version, updated_by: None, updated_at: None, lsn: None };
    Ok(found.unwrap_or(none))
}

const SELECT_BOOT: &str = concat!("select ", boot_columns!(), " from boots b where b.channel_id = $1");

request! {
    /// Sets a channel's boot, the text that agents read when they start work in the channel, and returns it.
    ///
    /// Replaces the earlier text; an empty text removes it.
    ///
    /// All members who see the channel can read the text.
    ///
    /// Fails with 409 `wrong-state` if the channel is archived.
    #[derive(Serialize)]
    struct SetChannelBoot {
        /// Id of the channel.
        channel_id: ChannelId,
        /// The text, in Markdown.
        text: Prose<0, BOOT_MAX>,
    }

    set_channel_boot(channel_id: ChannelId, text: Prose<0, BOOT_MAX>) -> ChannelBoot
}

fn set_channel_boot(cx: &mut Write<'_>, input: &SetChannelBoot) -> Result<ChannelBoot> {
    let channel = visible_channel(cx, input.channel_id)?;
    check_not_archived(&channel)?;
    let before = load_boot(cx, channel.id)?;
    let text: &str = &input.text;
    if text == before.text {
        return Ok(before);
    }
    if before.version > 0 {
        cx.keep_replaced(TABLE, channel.id.uuid(), before.version, &before.text)?;
    }
    let version = before.version.saturating_add(1);
    let event = ChannelBootSet { channel_id: channel.id, version, size: characters(text) };
    let RecordedEvent { at, lsn, .. } = cx.emit(Subject::channel(channel.id), &event)?;
    let updated_by = cx.caller().member;
    cx.execute(1, UPSERT_BOOT, &[&channel.id, &text, &version, &updated_by, &at, &lsn])?;
    let text = text.to_owned();
    Ok(ChannelBoot {
        channel_id: channel.id,
        text,
        version,
        updated_by,
        updated_at: Some(at),
        lsn: Some(lsn),
    })
}

const UPSERT_BOOT: &str = "
    insert into boots (channel_id, text, version, updated_by, at, lsn) values ($1, $2, $3, $4, $5, $6)
    on conflict (channel_id) do update set
        text = excluded.text, version = excluded.version, updated_by = excluded.updated_by,
        at = excluded.at, lsn = excluded.lsn";

/// Purges some boot texts, up to a log position. The rows remain, so that no version number is used twice.
fn purge_batch(
    cx: &mut Write<'_>,
    _: &DestroyPermit<'_>,
    (_, up_to): (i64, i64),
    limit: i64,
) -> Result<Option<(i64, i64)>> {
    let workspace = cx.caller().workspace_id;
    purged(cx.change(PURGE_BOOTS, &[&workspace, &up_to, &limit])?)
}

const PURGE_BOOTS: &str = "
    update boots set text = '', version = version + 1
    where channel_id in (
        select b.channel_id from boots b join channels c on c.id = b.channel_id
        where c.workspace_id = $1 and b.lsn <= $2 and b.text <> '' limit $3)";

/// Replays a purge: empties the boot texts up to a log position.
pub(crate) fn replay_purged(event: &ReplayedEvent<'_>, up_to: i64) -> Result<()> {
    event.rows(TABLE, &[], |boot| {
        let int = |column| boot.value(column).and_then(Value::as_i64);
        let is_purged = int("lsn").is_some_and(|lsn| lsn <= up_to) && int("text") != Some(0);
        if is_purged { boot.add("version", 1).set("text", 0).keep() } else { Ok(()) }
    })
}
