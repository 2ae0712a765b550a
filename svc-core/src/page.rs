//! Pages of lists, `{items, next_cursor}`, and the cursors between them.
//!
//! A cursor is opaque and contains a position, normally one in a log (LSN), because LSNs become visible in
//! order. Ids and times do not, so a cursor on them could skip a row that commits late. A list in another
//! order uses another [`Position`].
//!
//! A page scans a bounded number of rows. If many of them are omitted, the page is short or empty, and its
//! cursor continues after the scanned rows. A page is also bounded in bytes while it is read: it can only be
//! made from [`PageRows`], which are fetched from the database no further than the page needs. Finally, a
//! page is bounded in time: it ends when half of the read's budget is used up, after at least one row.

mod cursor;

use schemars::transform::Transform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::Error;
use crate::limits::{PAGE_BYTES, PAGE_DEFAULT, PAGE_DEFAULT_MCP, PAGE_MAX, PAGE_SCAN_MAX};
use crate::schema::brief;
use crate::store::budget::{ReadBudget, too_expensive_error};
use crate::store::{Conn, FromRow, Row, ToParam};
use crate::text::{Count, described};
pub(crate) use cursor::{CURSORS, with_cursors};
pub use cursor::{Cursor, Position};
use cursor::{hides_cursors, serialize_as_cursors};

/// One page of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(bound = "T: Serialize, K: Position")]
#[schemars(rename = "Page_{T}", bound = "T: JsonSchema, K: Position")]
pub struct Page<T, K = i64> {
    /// The items, in the list's order. A page may be short or empty although more items follow.
    pub items: Vec<T>,
    /// The `cursor` of the next page, or null on the last page.
    pub next_cursor: Option<Cursor<K>>,
    /// The position of each item, so that the page can end after any of them.
    #[serde(rename = "$cursors")]
    #[serde(skip_serializing_if = "hides_cursors", serialize_with = "serialize_as_cursors")]
    #[schemars(skip)]
    positions: Vec<K>,
    #[serde(skip)]
    #[schemars(skip)]
    budget: Option<ReadBudget>,
    /// Whether the page ended because its time was used up.
    #[serde(skip)]
    #[schemars(skip)]
    is_late: bool,
}

/// The rows read for one page.
///
/// Reading stops at [`PAGE_BYTES`], after a single row that is larger, or when the time of the page is used
/// up.
#[derive(Debug)]
pub struct PageRows<T> {
    rows: Vec<T>,
    /// Whether the list may continue after these rows, because reading stopped at the byte limit or because
    /// the time of the page was used up.
    has_more: bool,
    /// Whether reading stopped because the time of the page was used up.
    is_late: bool,
    budget: Option<ReadBudget>,
}

impl<T> PageRows<T> {
    /// Reads the first rows that `sql` selects.
    pub(crate) fn read(conn: &Conn, sql: &'static str, params: &[&dyn ToParam]) -> Result<Self>
    where
        T: FromRow,
    {
        let (mut rows, is_late) = conn.query_page(PAGE_BYTES, sql, params)?;
        let weight = rows.iter().map(Row::weight).fold(0, usize::saturating_add);
        let rows: Vec<T> = rows.iter_mut().map(T::from_row).collect::<Result<_>>()?;
        let budget = conn.budget().cloned();
        if is_late && let Some(budget) = &budget {
            budget.extend_for_page();
        }
        Ok(Self { rows, has_more: weight >= PAGE_BYTES || is_late, is_late, budget })
    }

    /// Creates page rows from items in the order of the list. `has_more` tells whether the list may continue
    /// after these items.
    pub fn collected(rows: Vec<T>, has_more: bool) -> Self {
        Self { rows, has_more, is_late: false, budget: None }
    }

    /// Converts each row with `each`.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> PageRows<U> {
        let Self { rows, has_more, is_late, budget } = self;
        PageRows { rows: rows.into_iter().map(each).collect(), has_more, is_late, budget }
    }
}

/// Returns whether a page must end now, because its time is used up.
///
/// If so, the page gets another half of the budget to complete its items.
pub(crate) fn must_end_page(budget: &ReadBudget) -> bool {
    let ends = budget.is_page_time_used_up();
    if ends {
        budget.extend_for_page();
    }
    ends
}

/// A count of matching rows among a limited number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundedCount {
    /// Number of matching rows.
    pub count: i64,
    /// Whether all rows were read. Otherwise there may be more matches.
    pub is_all: bool,
}

impl BoundedCount {
    /// Creates a count of matches in the `rows_read` rows that were read. Reading stopped after `limit` rows.
    pub fn of(count: i64, rows_read: i64, limit: i64) -> Self {
        Self { count, is_all: rows_read < limit }
    }
}

/// The maximum number of items on a page, as requested by a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Limit(Count<1, PAGE_MAX>);

impl Limit {
    /// Creates the limit after checking its bounds.
    pub fn new(number: i64) -> Result<Self, String> {
        Count::new(number).map(Self)
    }

    /// Returns the limit for a page with up to `max_items` items, even if the caller requested more.
    pub(crate) fn capped(limit: Option<Self>, max_items: i64) -> Option<Self> {
        Self::new(limit.map_or(PAGE_DEFAULT, Self::get).min(max_items)).ok()
    }

    /// Returns the number of items.
    pub fn get(self) -> i64 {
        self.0.get()
    }
}

impl JsonSchema for Limit {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Limit".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let description = format!(
            "Maximum number of items to return, 1 to {PAGE_MAX}. Default: {PAGE_DEFAULT}, \
             over MCP {PAGE_DEFAULT_MCP}."
        );
        let mut schema = described(Count::<1, PAGE_MAX>::json_schema(generator), description);
        brief(format!("Default: {PAGE_DEFAULT_MCP}.")).transform(&mut schema);
        schema
    }
}

/// The amount of detail in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Detail {
    Lean,
    Full,
}

/// The maximum size of an answer in bytes, and the offset of the text in the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerBounds {
    /// Maximum bytes of the answer in JSON.
    pub max_bytes: usize,
    /// Index of the first character of the text to return, for operations that continue reading a text.
    pub offset: usize,
}

/// Returns the number of rows to read for one page: one more than requested, to determine whether another
/// page follows.
pub fn rows_to_read(limit: Option<Limit>) -> i64 {
    limit.map_or(PAGE_DEFAULT, Limit::get).saturating_add(1)
}

/// Cuts a list after the item with which the list reaches `max_bytes` bytes of JSON.
pub(crate) fn within<T: Serialize>(mut items: Vec<T>, max_bytes: usize) -> Result<Vec<T>> {
    let mut kept = 0_usize;
    let mut bytes = 0_usize;
    for item in &items {
        if bytes >= max_bytes {
            break;
        }
        bytes = bytes.saturating_add(json_bytes(item)?);
        kept = kept.saturating_add(1);
    }
    items.truncate(kept);
    Ok(items)
}

/// Returns how many of the first items fill a page, including the item that fills it. `weight` returns the
/// bytes of an item.
pub(crate) fn filling<T>(items: &[T], weight: impl Fn(&T) -> usize) -> usize {
    let mut bytes: usize = 0;
    let last = items.iter().position(|item| {
        bytes = bytes.saturating_add(weight(item));
        bytes >= PAGE_BYTES
    });
    last.map_or(items.len(), |last| last.saturating_add(1))
}

/// Returns the number of bytes of an item in JSON.
pub(crate) fn json_bytes(item: &impl Serialize) -> Result<usize> {
    Ok(serde_json::to_vec(item).map_err(Error::internal)?.len())
}

impl<T, K: Position> Page<T, K> {
    /// Creates a page from rows read with [`rows_to_read`]. `position` returns the position of a row.
    pub fn of(rows: PageRows<T>, limit: Option<Limit>, position: impl Fn(&T) -> K) -> Self {
        let wanted = usize::try_from(limit.map_or(PAGE_DEFAULT, Limit::get)).unwrap_or(usize::MAX);
        let PageRows { rows: items, has_more, is_late, budget } = rows;
        let positions = items.iter().map(&position).collect();
        let mut page = Self { items, next_cursor: None, positions, budget, is_late };
        page.keep(wanted, &position);
        if has_more && page.next_cursor.is_none() {
            page.next_cursor = page.items.last().map(|row| Cursor(position(row)));
        }
        page
    }

    /// Creates a page from rows up to a horizon. If the page is not full, the next page continues after the
    /// horizon.
    pub fn within(
        horizon: ScanHorizon<K>,
        rows: PageRows<T>,
        limit: Option<Limit>,
        position: impl Fn(&T) -> K,
    ) -> Self {
        let page = Self::of(rows, limit, position);
        Self { next_cursor: page.next_cursor.or(horizon.0.map(Cursor)), ..page }
    }

    /// Creates a page of an entire list that a limit of the service keeps short.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None, positions: Vec::new(), budget: None, is_late: false }
    }

    /// Creates a page with the rest of a short list after the cursor, as [`Page::whole`] does for the entire
    /// list.
    pub fn rest(items: Vec<T>, cursor: Option<Cursor<K>>, position: impl Fn(&T) -> K) -> Self
    where
        K: Ord,
    {
        let is_after = |item: &T| cursor.is_none_or(|cursor| position(item) > cursor.0);
        let items: Vec<T> = items.into_iter().filter(is_after).collect();
        let positions = items.iter().map(&position).collect();
        Self { positions, ..Self::whole(items) }
    }

    /// Cuts the page after the first `max_items` items, if the page has more. The next page continues
    /// after these items.
    pub fn keep(&mut self, max_items: usize, position: impl Fn(&T) -> K) {
        if self.items.len() > max_items {
            self.items.truncate(max_items);
            self.positions.truncate(max_items);
            self.next_cursor = self.items.last().map(|row| Cursor(position(row)));
        }
    }

    /// Returns the items of this page, in the order of the list.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the items of this page, for a response without pages. Fails if the page ended early.
    pub fn into_items(self) -> Result<Vec<T>> {
        if self.is_late {
            Err(too_expensive_error("not all rows were read in its time"))
        } else {
            Ok(self.items)
        }
    }

    /// Returns the cursor of the next page, if there is one.
    pub fn next_cursor(&self) -> Option<Cursor<K>> {
        self.next_cursor
    }

    /// Converts each item, keeping the cursor.
    pub fn try_map<U>(self, mut each: impl FnMut(T) -> Result<U>) -> Result<Page<U, K>> {
        self.try_filter_map(|item| each(item).map(Some))
    }

    /// Converts the items and omits some of them, keeping the cursor. The page may be short or empty.
    ///
    /// If the time of the page is used up during the conversion of an item, the page ends after that item.
    pub fn try_filter_map<U>(self, mut each: impl FnMut(T) -> Result<Option<U>>) -> Result<Page<U, K>> {
        let Self { items, mut next_cursor, positions, budget, mut is_late } = self;
        let last = positions.len().saturating_sub(1);
        let mut kept = Vec::new();
        let mut kept_at = Vec::new();
        for (place, item) in items.into_iter().enumerate() {
            let position = positions.get(place).copied();
            if let Some(item) = each(item)? {
                kept.push(item);
                kept_at.extend(position);
            }
            if let Some(position) = position.filter(|_| place < last)
                && budget.as_ref().is_some_and(must_end_page)
            {
                next_cursor = Some(Cursor(position));
                is_late = true;
                break;
            }
        }
        Ok(Page { items: kept, next_cursor, positions: kept_at, budget, is_late })
    }

    /// Converts the items, and ends the page with the item at which their JSON reaches [`PAGE_BYTES`].
    ///
    /// Use this function for items that are larger than their rows, such as messages whose text `each`
    /// decrypts.
    pub fn try_fill<U: Serialize>(
        self,
        position: impl Fn(&U) -> K,
        each: impl FnMut(T) -> Result<U>,
    ) -> Result<Page<U, K>> {
        self.try_fill_within((usize::MAX, |_: &U| 0), position, each)
    }

    /// Converts the items as [`Page::try_fill`] does, and also ends the page with the item that reaches a
    /// number of rows.
    ///
    /// `max_rows` is that number of rows, and `row_count` returns the number of rows of an item.
    pub fn try_fill_within<U: Serialize>(
        self,
        (max_rows, row_count): (usize, impl Fn(&U) -> usize),
        position: impl Fn(&U) -> K,
        mut each: impl FnMut(T) -> Result<U>,
    ) -> Result<Page<U, K>> {
        let Self { items, next_cursor, mut positions, budget, is_late } = self;
        let mut filled = Vec::new();
        let mut bytes = 0_usize;
        let mut rows = 0_usize;
        let mut left = items.into_iter();
        let is_full = |bytes, rows| bytes >= PAGE_BYTES || rows >= max_rows;
        while !is_full(bytes, rows) && (filled.is_empty() || !budget.as_ref().is_some_and(must_end_page)) {
            let Some(item) = left.next() else {
                return Ok(Page { items: filled, next_cursor, positions, budget, is_late });
            };
            let item = each(item)?;
            bytes = bytes.saturating_add(json_bytes(&item)?);
            rows = rows.saturating_add(row_count(&item));
            filled.push(item);
        }
        let next_cursor =
            if left.len() == 0 { next_cursor } else { filled.last().map(|item| Cursor(position(item))) };
        positions.truncate(filled.len());
        // If the page also reached its limit of bytes or rows, it is a full page.
        let is_late = is_late || !is_full(bytes, rows);
        Ok(Page { items: filled, next_cursor, positions, budget, is_late })
    }
}

/// The position of the last row that one page may scan, or `None` if the list ends before such a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanHorizon<K = i64>(pub Option<K>);

impl ScanHorizon {
    /// Returns the horizon of a list that ascends from `after` to `last` without gaps.
    pub fn above(after: i64, last: i64) -> Self {
        Self(Some(after.saturating_add(PAGE_SCAN_MAX)).filter(|horizon| *horizon < last))
    }

    /// Returns the horizon of a list that descends from `before` to 1 without gaps.
    pub fn below(before: i64) -> Self {
        Self(Some(before.saturating_sub(PAGE_SCAN_MAX)).filter(|horizon| *horizon > 1))
    }

    /// Returns the last position of an ascending list.
    pub fn up_to(self) -> i64 {
        self.0.unwrap_or(i64::MAX)
    }

    /// Returns the last position of a descending list.
    pub fn down_to(self) -> i64 {
        self.0.unwrap_or(0)
    }
}

impl<T> Page<T> {
    /// Creates a page with the rest of an entire list after the cursor, which is an index into the list.
    ///
    /// Use this function for lists that are not ordered by a position.
    pub fn rest_after_index(items: Vec<T>, cursor: Option<Cursor>) -> Self {
        let skipped = usize::try_from(Cursor::after(cursor)).unwrap_or(usize::MAX);
        let items: Vec<T> = items.into_iter().skip(skipped).collect();
        let positions = (Cursor::after(cursor)..).skip(1).take(items.len()).collect();
        Self { positions, ..Self::whole(items) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::id::WorkspaceId;
    use crate::time::{Clock, Time};

    #[test]
    fn a_horizon_is_never_beyond_the_list() {
        assert_eq!(ScanHorizon::above(10, 11 + PAGE_SCAN_MAX), ScanHorizon(Some(10 + PAGE_SCAN_MAX)));
        assert_eq!(ScanHorizon::above(10, 10 + PAGE_SCAN_MAX), ScanHorizon(None));
        assert_eq!(ScanHorizon::below(PAGE_SCAN_MAX + 3), ScanHorizon(Some(3)));
        assert_eq!(ScanHorizon::below(PAGE_SCAN_MAX + 1), ScanHorizon(None));
        assert_eq!((ScanHorizon(None).up_to(), ScanHorizon(None).down_to()), (i64::MAX, 0));
    }

    #[test]
    fn the_cursor_appears_only_when_there_is_more() {
        let two = Some(Limit::new(2).unwrap());
        assert_eq!(rows_to_read(two), 3);
        let rows = |rows: &[i64], full| PageRows::collected(rows.to_vec(), full);
        let page = Page::of(rows(&[4, 5, 6], false), two, |lsn| *lsn);
        assert_eq!((page.items, page.next_cursor), (vec![4, 5], Some(Cursor(5))));
        assert_eq!(Page::of(rows(&[4, 5], false), two, |lsn| *lsn).next_cursor, None);
        for read in [&[4][..], &[4, 5], &[4, 5, 6]] {
            let page = Page::of(rows(read, true), two, |lsn| *lsn);
            assert_eq!(
                page.next_cursor,
                page.items.last().copied().map(Cursor),
                "{read:?}: it ended at the byte limit"
            );
        }
        let within =
            |horizon| Page::within(ScanHorizon(horizon), rows(&[4, 5], false), two, |lsn| *lsn).next_cursor;
        assert_eq!((within(None), within(Some(9))), (None, Some(Cursor(9))));
        for full in [rows(&[4, 5, 6], false), rows(&[4, 5], true)] {
            let page = Page::within(ScanHorizon(Some(9)), full, two, |lsn| *lsn);
            assert_eq!(page.next_cursor, Some(Cursor(5)), "a full page ends before the horizon");
        }
        let mut page = Page::of(rows(&[4, 5], false), two, |lsn| *lsn);
        page.keep(1, |lsn| *lsn);
        assert_eq!((page.items(), page.next_cursor()), (&[4][..], Some(Cursor(4))));
        let text = serde_json::to_string(&Cursor(5_i64)).unwrap();
        assert_eq!(serde_json::from_str::<Cursor>(&text).unwrap(), Cursor(5));
        assert!(serde_json::from_str::<Cursor>("\"5\"").is_err());
    }

    #[test]
    fn a_page_that_words_fill_ends_with_the_one_that_fills_it() {
        // With the position and a quotation mark that JSON escapes, four such texts fill a page.
        let words = |lsn: i64| Ok((lsn, format!("\"{}", "x".repeat(PAGE_BYTES / 4 - 8))));
        let filled = |lsns: &[i64], cursor: Option<i64>| {
            let page = Page { next_cursor: cursor.map(Cursor), ..Page::whole(lsns.to_vec()) };
            let page = page.try_fill(|(lsn, _)| *lsn, words).unwrap();
            (page.items.len(), page.next_cursor.map(|cursor| cursor.0))
        };
        assert_eq!(filled(&[], Some(9)), (0, Some(9)));
        assert_eq!(filled(&[4, 5, 6], Some(9)), (3, Some(9)));
        assert_eq!(filled(&[4, 5, 6, 7], None), (4, None), "none is left");
        assert_eq!(filled(&[4, 5, 6, 7, 8], Some(9)), (4, Some(7)));
        assert_eq!(filled(&[4, 5, 6, 7, 8], None), (4, Some(7)));
        let page = Page::whole(vec![4, 5, 6]);
        let page = page.try_fill_within((9, |lsn: &i64| usize::try_from(*lsn).unwrap()), |lsn| *lsn, Ok);
        let page = page.unwrap();
        assert_eq!((page.items.len(), page.next_cursor), (2, Some(Cursor(5))), "two have nine rows");
        let failing = Page::<i64>::whole(vec![4]);
        assert!(failing.try_fill(|lsn| *lsn, |_| Err::<i64, _>(Error::internal("no"))).is_err());
    }

    #[test]
    fn a_page_without_time_ends_after_what_it_has_looked_at() {
        let clock = Clock::mock(Time::from_micros(0));
        let second = Duration::from_secs(1);
        let page = || {
            let budget = ReadBudget::new(&clock);
            budget.begin(Some(2 * second));
            let rows = PageRows { budget: Some(budget), ..PageRows::collected(vec![4, 5, 6], true) };
            Page::of(rows, None, |lsn| *lsn)
        };
        // The conversion of each item takes the number of seconds in `secs`.
        let pass = |lsn: i64, secs: [u32; 3]| clock.advance(secs[usize::try_from(lsn - 4).unwrap()] * second);
        for (secs, examined, cursor) in
            [([0, 0, 0], 3, 6), ([9, 0, 0], 1, 4), ([0, 1, 0], 2, 5), ([0, 0, 9], 3, 6)]
        {
            let mapped = page().try_map(|lsn| {
                pass(lsn, secs);
                Ok(())
            });
            let mapped = mapped.unwrap();
            assert_eq!(
                (mapped.items.len(), mapped.next_cursor),
                (examined, Some(Cursor(cursor))),
                "{secs:?}"
            );
            let mut seen = 0;
            let empty = page().try_filter_map(|lsn| {
                seen += 1;
                pass(lsn, secs);
                Ok(None::<()>)
            });
            let empty = empty.unwrap();
            assert_eq!((empty.items.len(), seen), (0, examined), "{secs:?}");
            assert_eq!(empty.next_cursor, Some(Cursor(cursor)), "an empty page moves on, too: {secs:?}");
            let filled = page().try_fill(
                |lsn| *lsn,
                |lsn| {
                    pass(lsn, secs);
                    Ok(lsn)
                },
            );
            let filled = filled.unwrap();
            assert_eq!(
                (filled.items.len(), filled.next_cursor),
                (examined, Some(Cursor(cursor))),
                "{secs:?}"
            );
        }
    }

    #[test]
    fn a_list_that_is_no_page_ends_with_the_item_that_fills_it() {
        let kept = |lengths: &[usize]| {
            let items = lengths.iter().map(|length| "x".repeat(length - 2)).collect();
            within(items, 100).unwrap().len()
        };
        for (lengths, wanted) in [(&[][..], 0), (&[2, 97, 9], 3), (&[2, 98, 9], 2), (&[200, 9], 1)] {
            assert_eq!(kept(lengths), wanted, "{lengths:?}");
        }
    }

    #[test]
    fn a_cursor_matches_its_schema() {
        let last = "AEIMQUYcgkosw048";
        let alphabet = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']);
        for end in alphabet {
            let text = format!("\"zZ9_-zZ9_-{end}\"");
            assert_eq!(serde_json::from_str::<Cursor>(&text).is_ok(), last.contains(end), "{text}");
        }
        let wide = format!("\"{}w\"", "zZ9_-zZ9_-".repeat(4) + "zZ");
        assert!(serde_json::from_str::<Cursor<(Time, WorkspaceId, i64)>>(&wide).is_ok());
        for (text, is_wide) in [(wide.as_str(), true), ("\"zZ9_-zZ9_-w\"", false)] {
            let fits = |pattern: &str| pattern.contains(if is_wide { "{42}" } else { "{10}" });
            assert_eq!(serde_json::from_str::<Cursor>(text).is_ok(), fits(<i64 as Position>::PATTERN));
            assert_eq!(
                serde_json::from_str::<Cursor<(Time, WorkspaceId, i64)>>(text).is_ok(),
                fits(<(Time, WorkspaceId, i64)>::PATTERN),
            );
        }
        for bad in ["\"zZ9_-zZ9_-AA\"", "\"zZ9_-zZ9_A\"", "\"zZ9_-zZ9_-A=\""] {
            assert!(serde_json::from_str::<Cursor>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Any text is either read as one of our cursors or rejected, and our cursors round-trip.
        #[test]
        fn any_cursor_is_read_or_rejected(
            text in any::<String>(),
            bytes in any::<Vec<u8>>(),
            lsn in any::<i64>(),
            workspace in any::<[u8; 16]>(),
        ) {
            let at = (Time::from_micros(lsn), WorkspaceId::from(Uuid::from_bytes(workspace)), lsn >> 7);
            let ours = serde_json::to_value(Cursor(at)).unwrap();
            prop_assert_eq!(serde_json::from_value::<Cursor<_>>(ours).unwrap(), Cursor(at));
            let among = (lsn, Uuid::from_bytes(workspace));
            let ours = serde_json::to_value(Cursor(among)).unwrap();
            prop_assert_eq!(serde_json::from_value::<Cursor<_>>(ours).unwrap(), Cursor(among));
            for text in [text, String::from_utf8_lossy(&bytes).into_owned()] {
                if let Ok(cursor) = serde_json::from_value::<Cursor>(text.as_str().into()) {
                    prop_assert_eq!(serde_json::to_value(cursor).unwrap(), serde_json::Value::from(text));
                }
            }
            let ours = serde_json::to_value(Cursor(lsn & i64::MAX)).unwrap();
            prop_assert_eq!(serde_json::from_value::<Cursor>(ours).unwrap(), Cursor(lsn & i64::MAX));
        }
    }
}
