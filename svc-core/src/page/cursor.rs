//! Cursors: the positions in a list at which a page ends and the next page begins.
//!
//! Only a page that must be cut is encoded with the cursor after each item, so that it can end after any
//! item.

use std::cell::Cell;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use crate::id::WorkspaceId;
use crate::schema::BRIEF;
use crate::store::{Param, ToParam};
use crate::time::Time;

/// A position in a list that a cursor can encode.
pub trait Position: Copy {
    /// Regular expression for a cursor: the bytes of a position in base64.
    const PATTERN: &'static str;

    /// Encodes the position as bytes.
    fn to_bytes(self) -> Vec<u8>;

    /// Decodes a position from bytes, or returns `None` if the bytes are invalid.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

/// Regular expression for most cursors: eight bytes in base64, of which the last character encodes four bits.
const CURSOR_PATTERN: &str = "^[A-Za-z0-9_-]{10}[AEIMQUYcgkosw048]$";

/// A position in a log, or in another list that is numbered in order.
impl Position for i64 {
    const PATTERN: &'static str = CURSOR_PATTERN;

    fn to_bytes(self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

/// A position in a log, and an id among items with the same position.
impl Position for (i64, Uuid) {
    const PATTERN: &'static str = "^[A-Za-z0-9_-]{32}$";

    fn to_bytes(self) -> Vec<u8> {
        let (lsn, id) = self;
        [lsn.to_bytes(), id.into_bytes().to_vec()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (lsn, id) = bytes.split_first_chunk::<8>()?;
        Some((i64::from_be_bytes(*lsn), Uuid::from_bytes(id.try_into().ok()?)))
    }
}

/// A position in a list of events of all workspaces: a time, a workspace, and a number within that workspace.
impl Position for (Time, WorkspaceId, i64) {
    const PATTERN: &'static str = "^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$";

    fn to_bytes(self) -> Vec<u8> {
        let (at, workspace, number) = self;
        [at.micros().to_bytes(), workspace.uuid().into_bytes().to_vec(), number.to_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (at, rest) = bytes.split_first_chunk::<8>()?;
        let (workspace, number) = rest.split_first_chunk::<16>()?;
        let at = Time::from_micros(i64::from_be_bytes(*at));
        Some((at, Uuid::from_bytes(*workspace).into(), i64::from_bytes(number)?))
    }
}

/// A cursor: a position between two pages of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor<K = i64>(pub K);

impl Cursor {
    /// Returns the LSN after which an ascending list begins: 0 without a cursor.
    pub fn after(cursor: Option<Cursor>) -> i64 {
        cursor.map_or(0, |cursor| cursor.0)
    }

    /// Returns the LSN before which a descending list begins: the maximum without a cursor.
    pub fn before(cursor: Option<Cursor>) -> i64 {
        cursor.map_or(i64::MAX, |cursor| cursor.0)
    }

    /// Returns the LSN after which an ascending list, or before which a descending list begins.
    pub fn beyond(cursor: Option<Cursor>, newest_first: bool) -> i64 {
        if newest_first { Self::before(cursor) } else { Self::after(cursor) }
    }
}

impl ToParam for Cursor {
    fn param(&self) -> Param<'_> {
        Param::Int(self.0)
    }
}

/// Returns the opaque text of the cursor.
impl<K: Position> From<Cursor<K>> for String {
    fn from(cursor: Cursor<K>) -> Self {
        URL_SAFE_NO_PAD.encode(cursor.0.to_bytes())
    }
}

impl<K: Position> Serialize for Cursor<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0.to_bytes()))
    }
}

impl<'de, K: Position> Deserialize<'de> for Cursor<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let position = URL_SAFE_NO_PAD.decode(&text).ok().and_then(|bytes| K::from_bytes(&bytes));
        position
            .map(Self)
            .ok_or_else(|| de::Error::custom("not a cursor of this list: pass next_cursor unchanged"))
    }
}

impl<K: Position> JsonSchema for Cursor<K> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cursor".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Where to continue: the `next_cursor` of the previous page.",
            BRIEF: "`next_cursor` of the previous page.",
            "type": "string",
            "pattern": K::PATTERN,
        })
    }
}

/// Name of the page member that contains the cursor after each item. Only a page that must be cut has this
/// member.
pub(crate) const CURSORS: &str = "$cursors";

thread_local! {
    /// Whether this thread encodes pages with the cursors of their items. A thread-local flag, because Serde
    /// passes no argument to the values that it encodes.
    static ENCODES_CURSORS: Cell<bool> = const { Cell::new(false) };
}

/// Calls `encode` while pages are encoded with the cursor after each item, for an output that must be cut.
pub(crate) fn with_cursors<T>(encode: impl FnOnce() -> T) -> T {
    /// Resets the flag when dropped, even after a panic.
    struct ResetOnDrop;
    impl Drop for ResetOnDrop {
        fn drop(&mut self) {
            ENCODES_CURSORS.set(false);
        }
    }
    let _reset = ResetOnDrop;
    ENCODES_CURSORS.set(true);
    encode()
}

/// Returns whether a page is encoded without the cursors of its items.
pub(super) fn hides_cursors<K>(positions: &[K]) -> bool {
    positions.is_empty() || !ENCODES_CURSORS.get()
}

/// Encodes positions as cursors.
pub(super) fn serialize_as_cursors<K: Position, S: Serializer>(
    positions: &[K],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_seq(positions.iter().map(|position| Cursor(*position)))
}
