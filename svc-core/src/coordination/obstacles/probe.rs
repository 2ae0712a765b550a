//! Finds the live claims that conflict with footprints, by the indexes of the table `live_items`.
//!
//! An item overlaps the items that begin with it, which form one span of the sort order, and the items with
//! which it begins itself, which `find_live_prefixes` finds. One statement reads these spans for the items of
//! many footprints. For a shared item the statement reads no shared items, regardless of their number: the
//! index stores exclusive items separately.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::prefixes::{PrefixScope, candidate_prefixes};
use super::{BlockingConflict, Conflict, ConflictReason, Obstacle};
use crate::Result;
use crate::conversation::visibility::visible;
use crate::coordination::footprint::{Extent, Footprint, FootprintItem, ItemSpace, extents};
use crate::error::Error;
use crate::id::{MemberId, ThreadId};
use crate::limits::CONFLICTS_MAX;
use crate::op::Read;
use crate::store::{Engine, FromRow, Row, ToParam};
use crate::time::Time;

/// Maximum items of live claims that are read to find conflicts with footprints.
const OVERLAPS_READ_MAX: i64 = 2500;

/// A claim that overlaps an item of a footprint.
struct OverlappingClaim {
    /// The index of the footprint's item in `ProbedItems::touched`.
    number: i64,
    holder: Option<MemberId>,
    until: Option<Time>,
    thread: ThreadId,
    /// Whether the caller may see the claim's thread.
    is_visible: bool,
    /// The first prefix of the claim that the item overlaps.
    prefix: String,
    /// Whether the claim is live, and not on the thread that the statement ignores.
    is_conflict: bool,
    /// Number of the claim's items that overlap the footprint's item.
    items: i64,
}

impl FromRow for OverlappingClaim {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            number: row.take()?,
            holder: row.take()?,
            until: row.take()?,
            thread: row.take()?,
            is_visible: row.take()?,
            prefix: row.take()?,
            is_conflict: row.take()?,
            items: row.take()?,
        })
    }
}

/// The items of footprints, in the form in which they are compared.
struct ProbedItems {
    /// The items, each with the index of its footprint.
    touched: Vec<(usize, FootprintItem, Extent)>,
    /// The spans of live items that overlap the items, as JSON, in the order of the items.
    spans: String,
}

impl ProbedItems {
    /// Prepares the items of footprints for comparison, or returns `None` if all items are slots.
    fn prepare(cx: &Read<'_>, footprints: &[&Footprint]) -> Result<Option<Self>> {
        let touched: Vec<(usize, FootprintItem, Extent)> = footprints
            .iter()
            .enumerate()
            .flat_map(|(number, footprint)| {
                let items = footprint.items.iter().cloned().zip(extents(footprint));
                items.map(move |(item, extent)| (number, item, extent))
            })
            .filter(|(.., extent)| extent.space != ItemSpace::Slot)
            .collect();
        if touched.is_empty() {
            return Ok(None);
        }
        let above = find_live_prefixes(cx, &touched)?;
        let mut spans: Vec<Value> = Vec::new();
        for (number, (.., extent)) in touched.iter().enumerate() {
            let Extent { repo_key, space, prefix, exclusive } = extent;
            let mut span = |exclusive: bool, low: &str, end: String| {
                spans.push(json!([number, &**repo_key, space.name(), exclusive, low, end]));
            };
            // An item that is not exclusive conflicts only with exclusive claims.
            let modes = if *exclusive { &[true, false][..] } else { &[true] };
            for mode in modes {
                span(*mode, prefix, extent.upper_bound());
            }
            let above = above.get(&PrefixScope::of(extent)).filter(|_| *space == ItemSpace::Path);
            for beginning in above.into_iter().flatten().filter(|text| is_proper_prefix(text, prefix)) {
                for mode in modes {
                    // No prefix contains a control character, so this span contains `beginning` only.
                    span(*mode, beginning, format!("{beginning}\u{1}"));
                }
            }
        }
        Ok(Some(Self { touched, spans: Value::from(spans).to_string() }))
    }

    /// Reads the claims that overlap the items, up to the limits of one statement.
    ///
    /// A claim is one row for each item of the footprints that it overlaps, even if several of its own items
    /// overlap that item.
    fn read_overlaps(
        &self,
        cx: &Read<'_>,
        ignored_thread: Option<ThreadId>,
    ) -> Result<Vec<OverlappingClaim>> {
        let sql = match cx.engine() {
            Engine::Sqlite => OVERLAPS_SQLITE,
            Engine::Postgres => OVERLAPS_POSTGRES,
        };
        self.query_overlaps(cx, sql, ignored_thread, &[&OVERLAPS_READ_MAX, &CONFLICTS_MAX])
    }

    /// Runs a statement that selects overlapping claims; `limits` are the statement's last parameters.
    fn query_overlaps(
        &self,
        cx: &Read<'_>,
        sql: &'static str,
        ignored_thread: Option<ThreadId>,
        limits: &[&dyn ToParam],
    ) -> Result<Vec<OverlappingClaim>> {
        let ignored_thread = ignored_thread.map(ThreadId::uuid).unwrap_or_default();
        let workspace = cx.caller().workspace_id;
        let now = cx.now();
        let about: [&dyn ToParam; 4] = [&workspace, &ignored_thread, &now, &self.spans];
        cx.query(sql, &cx.caller().visibility.params().and(&[about.as_slice(), limits].concat()))
    }

    /// Reads one live claim that overlaps any of the items, or returns `None` if no live claim does.
    fn read_one_overlap(
        &self,
        cx: &Read<'_>,
        ignored_thread: Option<ThreadId>,
    ) -> Result<Option<BlockingConflict>> {
        let sql = match cx.engine() {
            Engine::Sqlite => ONE_OVERLAP_SQLITE,
            Engine::Postgres => ONE_OVERLAP_POSTGRES,
        };
        let rows = self.query_overlaps(cx, sql, ignored_thread, &[])?;
        let found = rows.into_iter().map(|row| self.to_conflict(cx, row));
        Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().next().map(|(_, blocked)| blocked))
    }

    /// Converts a row to a conflict with the index of its footprint, or returns `None` if the claim is no
    /// conflict.
    fn to_conflict(
        &self,
        cx: &Read<'_>,
        found: OverlappingClaim,
    ) -> Result<Option<(usize, BlockingConflict)>> {
        let OverlappingClaim { number, holder, until, thread, is_visible, prefix, is_conflict, .. } = found;
        if !is_conflict {
            return Ok(None);
        }
        let at = usize::try_from(number).map_err(Error::internal)?;
        let found = self.touched.get(at);
        let (footprint, item, extent) =
            found.ok_or_else(|| Error::internal("a conflict with an unknown item"))?;
        let workspace = cx.caller().workspace_id;
        let conflict = Conflict {
            reason: ConflictReason::Overlap,
            item: Some(item.clone()),
            holder,
            lease_expires_at: until,
            thread_id: is_visible.then_some(thread),
        };
        let obstacle = Obstacle::new(workspace, &extent.repo_key, extent.space.name(), &prefix);
        Ok(Some((
            *footprint,
            BlockingConflict { conflict, thread: Some(thread), obstacle, exclusive: extent.exclusive },
        )))
    }
}

/// Returns whether `prefix` begins with `beginning` and is longer than `beginning`.
fn is_proper_prefix(beginning: &str, prefix: &str) -> bool {
    beginning.len() < prefix.len() && prefix.starts_with(beginning)
}

/// Returns up to `limit` live claims that overlap a footprint, in the order of its items.
///
/// A claim is returned once for each item that it overlaps. If `limit` is 1, any overlapping claim may be
/// returned, and no more are read. If there are very many claims, only some are read, but at least one.
pub(super) fn find_overlaps(
    cx: &Read<'_>,
    footprint: &Footprint,
    ignored_thread: Option<ThreadId>,
    limit: i64,
) -> Result<Vec<BlockingConflict>> {
    let Some(asked) = ProbedItems::prepare(cx, &[footprint])? else { return Ok(Vec::new()) };
    if limit == 1 {
        return Ok(asked.read_one_overlap(cx, ignored_thread)?.into_iter().collect());
    }
    let rows = asked.read_overlaps(cx, ignored_thread)?;
    let is_all = is_complete(&rows);
    let found = rows.into_iter().map(|row| asked.to_conflict(cx, row)).filter_map(Result::transpose);
    let mut found = found.map(|found| found.map(|(_, blocked)| blocked)).collect::<Result<Vec<_>>>()?;
    if found.is_empty() && !is_all {
        // All claims that were read have lapsed.
        found.extend(asked.read_one_overlap(cx, ignored_thread)?);
    }
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

/// Returns, for each of the first footprints, the live claims that overlap it.
///
/// The result covers as many footprints as one read allows, and at least the first one.
pub(super) fn find_overlaps_of_each(
    cx: &Read<'_>,
    footprints: &[&Footprint],
    limit: i64,
) -> Result<Vec<Vec<BlockingConflict>>> {
    let Some(asked) = ProbedItems::prepare(cx, footprints)? else {
        return Ok(footprints.iter().map(|_| Vec::new()).collect());
    };
    let rows = asked.read_overlaps(cx, None)?;
    let last = rows.iter().map(|row| row.number).max().and_then(|number| usize::try_from(number).ok());
    let last = last.and_then(|number| asked.touched.get(number)).map(|(footprint, ..)| *footprint);
    // The last footprint that was read may have more overlaps, so it is not covered.
    let read = last.filter(|_| !is_complete(&rows)).unwrap_or(footprints.len());
    let mut found: Vec<Vec<BlockingConflict>> = footprints.iter().take(read).map(|_| Vec::new()).collect();
    for row in rows {
        if let Some((number, blocked)) = asked.to_conflict(cx, row)?
            && let Some(of_footprint) = found.get_mut(number)
        {
            of_footprint.push(blocked);
        }
    }
    if let (true, Some(first)) = (found.is_empty(), footprints.first()) {
        found.push(find_overlaps(cx, first, None, limit)?);
    }
    Ok(found)
}

/// Returns the indexes of the footprints that a live claim overlaps.
pub(super) fn find_overlapped_footprints(
    cx: &Read<'_>,
    footprints: &[&Footprint],
) -> Result<BTreeSet<usize>> {
    let Some(asked) = ProbedItems::prepare(cx, footprints)? else { return Ok(BTreeSet::new()) };
    let sql = match cx.engine() {
        Engine::Sqlite => ANY_SQLITE,
        Engine::Postgres => ANY_POSTGRES,
    };
    let workspace = cx.caller().workspace_id;
    let now = cx.now();
    let rows: Vec<(i64,)> = cx.query(sql, &[&workspace, &now, &asked.spans])?;
    let numbers = rows.into_iter().filter_map(|(number,)| usize::try_from(number).ok());
    Ok(numbers.filter_map(|number| asked.touched.get(number)).map(|(footprint, ..)| *footprint).collect())
}

/// Returns whether the rows are complete, because no limit of the statement was reached.
fn is_complete(rows: &[OverlappingClaim]) -> bool {
    let items = rows.iter().fold(0_i64, |items, row| items.saturating_add(row.items));
    let claims = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    items < OVERLAPS_READ_MAX && claims < CONFLICTS_MAX
}

/// Returns beginnings of the paths among the items, including every live prefix of a path.
///
/// A live prefix of a path is the prefix of a live claim with which the path begins. For paths that are not
/// touched exclusively, only the prefixes of exclusive claims are included.
fn find_live_prefixes(
    cx: &Read<'_>,
    items: &[(usize, FootprintItem, Extent)],
) -> Result<BTreeMap<PrefixScope, BTreeSet<String>>> {
    let sql = match cx.engine() {
        Engine::Sqlite => NEAREST_SQLITE,
        Engine::Postgres => NEAREST_POSTGRES,
    };
    let paths = items.iter().filter(|(.., extent)| extent.space == ItemSpace::Path);
    let paths = paths.map(|(.., extent)| (PrefixScope::of(extent), extent.prefix.clone()));
    candidate_prefixes(paths, |texts| {
        let sent: Vec<Value> =
            texts.iter().map(|(place, text)| json!([&*place.repo_key, place.exclusive, text])).collect();
        let found: Vec<(i64, Option<String>)> =
            cx.query(sql, &[&cx.caller().workspace_id, &Value::from(sent).to_string()])?;
        let mut before: Vec<Option<String>> = texts.iter().map(|_| None).collect();
        for (number, nearest) in found {
            if let Some(place) = usize::try_from(number).ok().and_then(|number| before.get_mut(number)) {
                *place = nearest;
            }
        }
        Ok(before)
    })
}

/// Selects, for each text, the greatest live prefix that sorts before the text.
///
/// Only exclusive claims are searched unless the text is touched exclusively.
macro_rules! nearest {
    ($texts:literal) => {
        concat!(
            "select p.number, (
                 select max(n.prefix) from (
                     select (
                         select l.prefix from live_items l
                         where l.workspace_id = $1 and l.repo_key = p.repo_key and l.space = 'path'
                             and l.exclusive = true and l.prefix < p.prefix
                         order by l.prefix desc limit 1) as prefix
                     union all
                     select (
                         select l.prefix from live_items l
                         where p.exclusive and l.workspace_id = $1 and l.repo_key = p.repo_key
                             and l.space = 'path' and l.exclusive = false and l.prefix < p.prefix
                         order by l.prefix desc limit 1)) n)
             from ",
            $texts,
            " p"
        )
    };
}

const NEAREST_SQLITE: &str = nearest!(
    "(select key as number, value ->> 0 as repo_key, value ->> 1 as exclusive, value ->> 2 as prefix
      from json_each($2))"
);

const NEAREST_POSTGRES: &str = nearest!(
    "(select ordinality - 1 as number, value ->> 0 as repo_key, cast(value ->> 1 as boolean) as exclusive,
          value ->> 2 as prefix
      from jsonb_array_elements(cast(cast($2 as text) as jsonb)) with ordinality)"
);

/// A table of the spans in `$spans`, each with the number of its item.
macro_rules! spans_sqlite {
    ($spans:literal) => {
        concat!(
            "(select value ->> 0 as number, value ->> 1 as repo_key, value ->> 2 as space,
                  value ->> 3 as exclusive, value ->> 4 as low, value ->> 5 as beyond
              from json_each(",
            $spans,
            "))"
        )
    };
}

macro_rules! spans_postgres {
    ($spans:literal) => {
        concat!(
            "(select cast(value ->> 0 as bigint) as number, value ->> 1 as repo_key, value ->> 2 as space,
                  cast(value ->> 3 as boolean) as exclusive, value ->> 4 as low, value ->> 5 as beyond
              from jsonb_array_elements(cast(cast(",
            $spans,
            " as text) as jsonb)))"
        )
    };
}

/// The condition that a live item `l` of the workspace `$workspace` is in the span `p`.
macro_rules! in_span {
    ($workspace:literal) => {
        concat!(
            "l.workspace_id = ",
            $workspace,
            " and l.repo_key = p.repo_key and l.space = p.space and l.exclusive = p.exclusive
                 and l.prefix >= p.low and l.prefix < p.beyond"
        )
    };
}

/// The beginning of a statement that selects the columns of a found claim `f` on a thread `t` in the channel
/// `c`.
macro_rules! claim_columns {
    ($found:literal) => {
        concat!(
            "select f.number, t.assignee_id, t.assignment_expires_at, t.id, coalesce(",
            visible!(c),
            ", false), f.prefix, t.id <> $6 and coalesce(t.assignment_expires_at > $7, false), ",
            $found
        )
    };
}

const OVERLAPS_SQLITE: &str = concat!(
    claim_columns!("f.items"),
    " from (
         select number, thread_id, min(prefix) as prefix, count(*) as items from (
             select p.number, l.thread_id, l.prefix from ",
    spans_sqlite!("$8"),
    " p cross join live_items l where ",
    in_span!("$5"),
    " limit $9) found
         group by number, thread_id order by number limit $10) f
     cross join threads t cross join channels c
     where t.id = f.thread_id and c.id = t.channel_id
     order by f.number, t.assignment_expires_at, t.id"
);

/// Uses lateral joins, because Postgres without table statistics would otherwise read whole tables.
const OVERLAPS_POSTGRES: &str = concat!(
    claim_columns!("f.items"),
    " from (
         select number, thread_id, min(prefix) as prefix, count(*) as items from (
             select p.number, l.thread_id, l.prefix from ",
    spans_postgres!("$8"),
    " p cross join lateral (select l.thread_id, l.prefix from live_items l where ",
    in_span!("$5"),
    " offset 0) l limit $9) found
         group by number, thread_id order by number limit $10) f
     cross join lateral (select * from threads where id = f.thread_id offset 0) t
     cross join lateral (select * from channels where id = t.channel_id offset 0) c
     order by f.number, t.assignment_expires_at, t.id"
);

const ONE_OVERLAP_SQLITE: &str = concat!(
    claim_columns!("1"),
    " from (
         select p.number, l.thread_id, l.prefix from ",
    spans_sqlite!("$8"),
    " p cross join live_items l where ",
    in_span!("$5"),
    ") f cross join threads t cross join channels c
     where t.id = f.thread_id and c.id = t.channel_id and t.id <> $6 and t.assignment_expires_at > $7
     limit 1"
);

const ONE_OVERLAP_POSTGRES: &str = concat!(
    claim_columns!("cast(1 as bigint)"),
    " from ",
    spans_postgres!("$8"),
    " p cross join lateral (select p.number, l.thread_id, l.prefix from live_items l where ",
    in_span!("$5"),
    " offset 0) f
     cross join lateral (select * from threads where id = f.thread_id offset 0) t
     cross join lateral (select * from channels where id = t.channel_id offset 0) c
     where t.id <> $6 and t.assignment_expires_at > $7
     limit 1"
);

const ANY_SQLITE: &str = concat!(
    "select p.number from ",
    spans_sqlite!("$3"),
    " p where (
         select 1 from live_items l cross join threads t where ",
    in_span!("$1"),
    " and t.id = l.thread_id and t.assignment_expires_at > $2 limit 1) is not null"
);

const ANY_POSTGRES: &str = concat!(
    "select p.number from ",
    spans_postgres!("$3"),
    " p where (
         select 1 from (select l.thread_id from live_items l where ",
    in_span!("$1"),
    " offset 0) l
         cross join lateral (select assignment_expires_at from threads where id = l.thread_id offset 0) t
         where t.assignment_expires_at > $2 limit 1) is not null"
);
