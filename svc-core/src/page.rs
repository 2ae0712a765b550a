//! Lists: `{items, next_cursor}`. A cursor is opaque and stands for a log position (LSN), because LSNs become
//! visible in order; ids and times do not, and a cursor on them could pass over a row that commits late. A page
//! looks at a bounded number of rows: where many are left out it is short, or empty, and says where to read on.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::{PAGE_DEFAULT, PAGE_MAX, PAGE_SCAN_MAX};
use crate::store::{Param, ToParam};
use crate::text::Count;

/// One page of a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Page<T> {
    /// The rows, in the list's order. A page may be short or empty although there is more.
    pub items: Vec<T>,
    /// Pass as `cursor` to read on; null on the last page.
    pub next_cursor: Option<Cursor>,
}

/// How many rows a page may hold.
pub type Limit = Count<1, PAGE_MAX>;

/// The number of rows to read for one page: one more than asked for, to see whether there is a next page.
pub fn rows_to_read(limit: Option<Limit>) -> i64 {
    limit.map_or(PAGE_DEFAULT, Limit::get).saturating_add(1)
}

impl<T> Page<T> {
    /// Makes a page of rows read with [`rows_to_read`]; `lsn` tells each row's position.
    pub fn of(mut rows: Vec<T>, limit: Option<Limit>, lsn: impl Fn(&T) -> i64) -> Self {
        let wanted = usize::try_from(limit.map_or(PAGE_DEFAULT, Limit::get)).unwrap_or(usize::MAX);
        let more = rows.len() > wanted;
        rows.truncate(wanted);
        let next_cursor = if more { rows.last().map(|row| Cursor(lsn(row))) } else { None };
        Self { items: rows, next_cursor }
    }

    /// The same of rows that were looked for up to a horizon: reading goes on from there if the page is not full.
    pub fn within(horizon: Horizon, rows: Vec<T>, limit: Option<Limit>, lsn: impl Fn(&T) -> i64) -> Self {
        let page = Self::of(rows, limit, lsn);
        Self { next_cursor: page.next_cursor.or(horizon.0.map(Cursor)), ..page }
    }
}

/// How far one page looks: the position of the last row that it may look at; none if the list ends before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon(pub Option<i64>);

impl Horizon {
    /// Of a list that goes up from `after` to `last` without holes.
    pub fn above(after: i64, last: i64) -> Self {
        Self(Some(after.saturating_add(PAGE_SCAN_MAX)).filter(|horizon| *horizon < last))
    }

    /// Of a list that goes down from `before` to 1 without holes.
    pub fn below(before: i64) -> Self {
        Self(Some(before.saturating_sub(PAGE_SCAN_MAX)).filter(|horizon| *horizon > 1))
    }

    /// The last position of a list that goes up.
    pub fn up_to(self) -> i64 {
        self.0.unwrap_or(i64::MAX)
    }

    /// The last position of a list that goes down.
    pub fn down_to(self) -> i64 {
        self.0.unwrap_or(0)
    }
}

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub i64);

impl Cursor {
    /// The LSN after which an ascending list begins.
    pub fn after(cursor: Option<Cursor>) -> i64 {
        cursor.map_or(0, |cursor| cursor.0)
    }

    /// The LSN before which a descending list begins.
    pub fn before(cursor: Option<Cursor>) -> i64 {
        cursor.map_or(i64::MAX, |cursor| cursor.0)
    }
}

impl ToParam for Cursor {
    fn param(&self) -> Param<'_> {
        Param::Int(self.0)
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0.to_be_bytes()))
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(&text).ok().and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        let bytes = bytes
            .ok_or_else(|| de::Error::custom("not a cursor of this list: pass next_cursor as it came"))?;
        Ok(Self(i64::from_be_bytes(bytes)))
    }
}

impl JsonSchema for Cursor {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cursor".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_horizon_is_never_beyond_the_list() {
        assert_eq!(Horizon::above(10, 11 + PAGE_SCAN_MAX), Horizon(Some(10 + PAGE_SCAN_MAX)));
        assert_eq!(Horizon::above(10, 10 + PAGE_SCAN_MAX), Horizon(None));
        assert_eq!(Horizon::below(PAGE_SCAN_MAX + 3), Horizon(Some(3)));
        assert_eq!(Horizon::below(PAGE_SCAN_MAX + 1), Horizon(None));
        assert_eq!((Horizon(None).up_to(), Horizon(None).down_to()), (i64::MAX, 0));
    }

    #[test]
    fn the_cursor_appears_only_when_there_is_more() {
        let two = Some(Limit::new(2).unwrap());
        assert_eq!(rows_to_read(two), 3);
        let page = Page::of(vec![4, 5, 6], two, |lsn| *lsn);
        assert_eq!((page.items, page.next_cursor), (vec![4, 5], Some(Cursor(5))));
        assert_eq!(Page::of(vec![4, 5], two, |lsn| *lsn).next_cursor, None);
        let within = |horizon| Page::within(Horizon(horizon), vec![4, 5], two, |lsn| *lsn).next_cursor;
        assert_eq!((within(None), within(Some(9))), (None, Some(Cursor(9))));
        let full = Page::within(Horizon(Some(9)), vec![4, 5, 6], two, |lsn| *lsn);
        assert_eq!(full.next_cursor, Some(Cursor(5)), "a full page ends before the horizon");
        let text = serde_json::to_string(&Cursor(5)).unwrap();
        assert_eq!(serde_json::from_str::<Cursor>(&text).unwrap(), Cursor(5));
        assert!(serde_json::from_str::<Cursor>("\"5\"").is_err());
    }
}
