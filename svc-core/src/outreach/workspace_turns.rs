//! Turns of workspaces: selects the workspaces that have notifications to send on a delivery channel.
//!
//! The statement steps from one workspace to the next by an index that begins with the workspace, so its cost
//! does not depend on the number of notifications in each workspace.

/// SQL: selects one workspace after another; see [`workspaces`](crate::op::DeliveryChannel::workspaces).
///
/// The first two arguments are subqueries for the next workspace after `$2` and after `k.workspace_id`. The
/// third is the condition that a notification is due at `$1` in the workspace `k.workspace_id`. Write the
/// condition with `limit 1` instead of `exists`, for which Postgres may read the due rows of all workspaces.
macro_rules! workspaces_in_turn {
    ($first:expr, $next:expr, $is_due:expr) => {
        concat!(
            "with recursive walk (number, workspace_id) as (
                select cast(1 as bigint), ",
            $first,
            " union all
                select k.number + 1, ",
            $next,
            " from walk k where k.workspace_id is not null and k.number < $3)
             select w.id, coalesce(w.charged_to, w.id), w.state = 'live' and ",
            $is_due,
            " from walk k join workspaces w on w.id = k.workspace_id order by k.number"
        )
    };
}
pub(super) use workspaces_in_turn;
