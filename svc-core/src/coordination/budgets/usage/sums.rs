//! The usage of a workspace: the daily totals of its members and models, added up.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{DAY_MICROS, day_of};
use crate::Result;
use crate::id::{MemberId, WorkspaceId};
use crate::identity::workspaces::Here;
use crate::limits::{PAGE_SCAN_MAX, USAGE_DAYS_DEFAULT, USAGE_SCAN_MAX, USAGE_SUMS_MAX};
use crate::op::Read;
use crate::page::Page;
use crate::store::columns;
use crate::time::Time;

/// Returns what was reported in a workspace, by member and model.
///
/// What was reported in channels that you may not see is part of the sums. They are of whole days in UTC, up
/// to now; `since` of the response says from when on.
///
/// It is later than what you asked for only if those days have more than 10,000 daily sums of a member and
/// model, of which the last are added up. The 1000 largest sums are returned, by tokens. Models beyond the
/// first 50 of a member and day are in the sum of a model named `other`. A workspace has one such read at a
/// time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetWorkspaceUsage {
    /// The workspace. It must be yours.
    workspace_id: Here,
    /// Only what was reported on the day of this time, in UTC, or later. Default: 30 days ago.
    since: Option<Time>,
}

/// What was reported in a workspace.
#[derive(Serialize, JsonSchema)]
pub(super) struct WorkspaceUsage {
    #[serde(flatten)]
    sums: Page<UsageSum>,
    /// From when on: the beginning of the first day whose reports are summed.
    since: Time,
}

/// What a member has reported with one model.
#[derive(Serialize, JsonSchema)]
struct UsageSum {
    /// The member.
    member_id: MemberId,
    /// The model; null for reports that named none, `other` for those of further models of a day too.
    model: Option<String>,
    /// How many reports there were.
    reports: i64,
    /// Tokens.
    tokens: i64,
    /// Millionths of a US dollar.
    usd_micros: i64,
    /// Turns.
    turns: i64,
}

/// What is summed of each member and model, by these, and how far the daily totals were read.
#[derive(Default)]
pub(super) struct Sums {
    /// The first day that is summed, once that is known.
    first: Option<i64>,
    /// The last daily total that was added: its day, member and model.
    last: (i64, Uuid, String),
    sums: BTreeMap<(MemberId, String), [i64; 4]>,
}

pub(super) fn begin(_: &GetWorkspaceUsage) -> Result<Sums> {
    Ok(Sums::default())
}

/// Adds the next daily totals. After the last ones, returns the sums.
pub(super) fn add_next_totals(
    cx: &Read<'_>,
    input: &GetWorkspaceUsage,
    all: &mut Sums,
) -> Result<Option<WorkspaceUsage>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let first = match all.first {
        Some(first) => first,
        None => all.begin(first_day(cx, input, workspace_id)?),
    };
    let (day, member, model) = &all.last;
    let totals: Vec<DailyTotal> = cx.query(TOTALS, &[&workspace_id, day, member, model, &PAGE_SCAN_MAX])?;
    let is_last = i64::try_from(totals.len()).unwrap_or(i64::MAX) < PAGE_SCAN_MAX;
    totals.into_iter().for_each(|total| all.add(total));
    if !is_last {
        return Ok(None);
    }
    let since = Time::from_micros(first.saturating_mul(DAY_MICROS));
    Ok(Some(WorkspaceUsage { sums: Page::whole(all.largest()), since }))
}

/// What a member has reported on a day with one model, whose name is empty if it named none.
struct DailyTotal {
    day: i64,
    member_id: MemberId,
    model: String,
    reports: i64,
    tokens: i64,
    usd_micros: i64,
    turns: i64,
}

columns! {
    total_columns: DailyTotal as t { day, member_id, model, reports, tokens, usd_micros, turns }
}

impl Sums {
    /// Begins with a day, which it returns.
    fn begin(&mut self, day: i64) -> i64 {
        self.first = Some(day);
        self.last = (day, Uuid::nil(), String::new());
        day
    }

    fn add(&mut self, total: DailyTotal) {
        let DailyTotal { day, member_id, model, reports, tokens, usd_micros, turns } = total;
        let sums = self.sums.entry((member_id, model.clone())).or_default();
        for (sum, more) in sums.iter_mut().zip([reports, tokens, usd_micros, turns]) {
            *sum = sum.saturating_add(more);
        }
        self.last = (day, member_id.uuid(), model);
    }

    /// Returns the largest ones, by tokens.
    fn largest(&mut self) -> Vec<UsageSum> {
        let sums = std::mem::take(&mut self.sums).into_iter();
        let mut sums: Vec<UsageSum> = sums
            .map(|((member_id, model), [reports, tokens, usd_micros, turns])| {
                let model = Some(model).filter(|model| !model.is_empty());
                UsageSum { member_id, model, reports, tokens, usd_micros, turns }
            })
            .collect();
        // Equals stay in the order of members and models.
        sums.sort_by_key(|sum| Reverse(sum.tokens));
        sums.truncate(USAGE_SUMS_MAX);
        sums
    }
}

/// Returns the first day that is summed: the one asked for, unless that are too many daily totals.
fn first_day(cx: &Read<'_>, input: &GetWorkspaceUsage, workspace: WorkspaceId) -> Result<i64> {
    let today = day_of(cx.now());
    let asked = input.since.map_or(today.saturating_sub(USAGE_DAYS_DEFAULT), day_of);
    let others = USAGE_SCAN_MAX.saturating_sub(1);
    let too_many: Option<(i64,)> = cx.one(TOO_MANY, &[&workspace, &asked, &others])?;
    // Today is summed however much it is: that is bounded by its members and their models.
    Ok(too_many.map_or(asked, |(day,)| day.saturating_add(1).min(today).max(asked)))
}

/// The day from which on there are as many rows as are read, or more.
const TOO_MANY: &str = "
    select day from usage_totals where workspace_id = $1 and day >= $2
    order by day desc limit 1 offset $3";

const TOTALS: &str = concat!(
    "select ",
    total_columns!(),
    " from usage_totals t where t.workspace_id = $1 and (t.day, t.member_id, t.model) > ($2, $3, $4)
     order by t.day, t.member_id, t.model limit $5"
);
