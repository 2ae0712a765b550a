//! The operation that adds up the daily usage sums of a workspace, by member and model.

use schemars::JsonSchema;
use serde::Serialize;

use super::{DAY_MICROS, day_number};
use crate::Result;
use crate::id::MemberId;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{USAGE_DAYS_DEFAULT, USAGE_SCAN_MAX, USAGE_SUMS_MAX};
use crate::op::Read;
use crate::page::{Cursor, Page};
use crate::request::{dereferences, paged_outputs, request};
use crate::store::columns;
use crate::time::Time;

request! {
    /// Returns the tokens, money and turns that were reported in a workspace, by member and model.
    ///
    /// The totals include channels that you may not see. They cover whole UTC days, up to now; `since` in the
    /// response is the start of the first day.
    ///
    /// `since` in the response is later than the day that you requested only if more than 10,000 daily sums
    /// exist after that day; only the latest sums are then added up. Returns the 1000 largest totals, by
    /// tokens. Models beyond the first 50 of a member and day are counted under a model named `other`.
    pub(super) struct GetWorkspaceUsage {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// Only reports since the UTC day of this time. Default: 30 days ago.
        since: Option<Time>,
        cursor: Option<Cursor>,
    }

    get_workspace_usage() -> WorkspaceUsage
}

/// The reported usage of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WorkspaceUsage {
    #[serde(flatten)]
    pub sums: Page<UsageSum>,
    /// Start of the first day whose reports are included.
    pub since: Time,
}

dereferences! { WorkspaceUsage => sums: Page<UsageSum> }
paged_outputs! { WorkspaceUsage => sums: UsageSum }

/// The reported usage of one member with one model.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct UsageSum {
    /// The member who reported the usage.
    pub member_id: MemberId,
    /// The model; null for reports without a model. `other` combines models without their own daily sum.
    pub model: Option<String>,
    /// Number of usage reports by the member with the model.
    pub reports: i64,
    /// Total tokens that the member reported with the model.
    pub tokens: i64,
    /// Total money that the member reported with the model, in millionths of a US dollar.
    pub usd_micros: i64,
    /// Total turns that the member reported with the model.
    pub turns: i64,
}

columns! {
    sum_columns: UsageSum as s {
        member_id, model = "nullif(s.model, '')", reports, tokens, usd_micros, turns,
    }
}

pub(super) fn get_workspace_usage(cx: &Read<'_>, input: &GetWorkspaceUsage) -> Result<WorkspaceUsage> {
    let workspace_id = input.workspace_id.of(cx)?;
    let today = day_number(cx.now());
    let asked = input.since.map_or(today.saturating_sub(USAGE_DAYS_DEFAULT), day_number);
    let others = USAGE_SCAN_MAX.saturating_sub(1);
    let too_many: Option<(i64,)> = cx.one(DAY_AT_OFFSET, &[&workspace_id, &asked, &others])?;
    // Today's sums are always included: the limits on members and models limit the number of rows per day.
    let first = too_many.map_or(asked, |(day,)| day.saturating_add(1).min(today).max(asked));
    let sums: Vec<UsageSum> = cx.query(SUMS, &[&workspace_id, &first, &USAGE_SUMS_MAX])?;
    let since = Time::from_micros(first.saturating_mul(DAY_MICROS));
    Ok(WorkspaceUsage { sums: Page::rest_after_index(sums, input.cursor), since })
}

/// Selects the day of the row at offset `$3`, newest days first.
const DAY_AT_OFFSET: &str = "
    select day from usage_totals where workspace_id = $1 and day >= $2
    order by day desc limit 1 offset $3";

const SUMS: &str = concat!(
    "select ",
    sum_columns!(),
    " from (
         select member_id, model, cast(sum(reports) as bigint) as reports,
             cast(sum(tokens) as bigint) as tokens, cast(sum(usd_micros) as bigint) as usd_micros,
             cast(sum(turns) as bigint) as turns
         from usage_totals where workspace_id = $1 and day >= $2
         group by member_id, model) s
     order by s.tokens desc, s.member_id, s.model limit $3"
);
