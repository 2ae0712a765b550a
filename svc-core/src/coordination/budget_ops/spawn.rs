//! The spawn budget of a workspace: limits on the number, depth and tools of child threads.
//!
//! Each workspace has one spawn budget. The creation of a child thread checks the number of children that the
//! parent ever had, the depth of the child, and the number of its tools. An event records each rejected
//! child.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{TokenAdmin, WorkspaceRead};
use crate::coordination::thread_row::Thread;
use crate::error::{Code, Error};
use crate::id::{ThreadId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{SPAWN_CHILDREN_MAX, SPAWN_TOOLS_MAX, THREAD_DEPTH_MAX};
use crate::log::event::{Event, EventKind, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Read, RecordedRefusal, Records, Write, idempotent, read};
use crate::request::request;
use crate::store::columns;
use crate::text::Count;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "budgets",
            vec![
                idempotent("set_spawn_budget", set_spawn_budget)
                    .title("Set the spawn budget of a workspace")
                    .when(
                        "Limit how many child threads a thread may have, how deep threads may nest, and how \
                         many tools a child may list.",
                    )
                    .put("/workspaces/{workspace_id}/spawn-budget")
                    .needs(&[TokenAdmin])
                    .example(
                        |w| json!({"workspace_id": w.id("workspace"), "max_children": 50, "max_depth": 4}),
                    ),
                read("get_spawn_budget", get_spawn_budget)
                    .title("Read the spawn budget of a workspace")
                    .when(
                        "Get the workspace's limits on child threads. Call it before you create many with \
                         `create_child_thread`.",
                    )
                    .get("/workspaces/{workspace_id}/spawn-budget")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
            ],
        )
        .events(vec![EventKind::of::<SpawnBudgetSet>(), EventKind::of::<ThreadSpawnDenied>()])
        .records(vec![
            Records::table("spawn_budgets", "workspace_id")
                .after("workspaces")
                .ids("workspace_id")
                .ints("max_children max_depth max_tools")
                .proven("workspace_id", "max_children max_depth max_tools"),
        ])
}

/// The spawn budget of a workspace: its limits on child threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SpawnBudget {
    /// Maximum children that one thread may ever have; null for any number.
    pub max_children: Option<i64>,
    /// Maximum nesting depth of threads, where a thread without a parent has depth 1; null for any depth.
    pub max_depth: Option<i64>,
    /// Maximum tools that may be listed for one child thread; null for any number.
    pub max_tools: Option<i64>,
}

impl<I> Answer<I> for SpawnBudget {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (): ()) -> Result<Self> {
        load_spawn_budget(cx, cx.caller().workspace_id)
    }
}

columns! { spawn_budget_columns: SpawnBudget as b { max_children, max_depth, max_tools } }

/// The spawn budget of the workspace was set.
#[derive(Serialize, JsonSchema)]
struct SpawnBudgetSet {
    #[serde(flatten)]
    budget: SpawnBudget,
}

impl Event for SpawnBudgetSet {
    const KIND: &'static str = "SpawnBudgetSet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let row = event.row_of("spawn_budgets", "$workspace")?.made();
        row.copy("max_children max_depth max_tools").keep()
    }
}

/// A child thread was not created, because the spawn budget does not allow it.
#[derive(Serialize, JsonSchema)]
struct ThreadSpawnDenied {
    /// The limit that was exceeded: `max_children`, `max_depth` or `max_tools`.
    limit: &'static str,
    /// The maximum that the limit allows.
    allowed: i64,
    /// Id of the thread that would have been the child's parent.
    parent_id: ThreadId,
}

impl Event for ThreadSpawnDenied {
    const KIND: &'static str = "ThreadSpawnDenied";

    fn replay(_: &ReplayedEvent<'_>) -> Result<()> {
        Ok(())
    }
}

request! {
    /// Sets the limits on the child threads of a workspace, and returns the spawn budget.
    ///
    /// Existing threads are kept, and count toward the limits.
    #[derive(Serialize)]
    struct SetSpawnBudget {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// Maximum children that one thread may ever have. Default: any number.
        max_children: Option<Count<0, SPAWN_CHILDREN_MAX>>,
        /// Maximum nesting depth of threads; a thread without a parent has depth 1. Default: any depth.
        max_depth: Option<Count<0, THREAD_DEPTH_MAX>>,
        /// Maximum tools listed for one child. Default: any number.
        max_tools: Option<Count<0, SPAWN_TOOLS_MAX>>,
    }

    set_spawn_budget() -> SpawnBudget
}

fn set_spawn_budget(cx: &mut Write<'_>, input: &SetSpawnBudget) -> Result<SpawnBudget> {
    let workspace_id = input.workspace_id.of(cx)?;
    let budget = SpawnBudget {
        max_children: input.max_children.map(Count::get),
        max_depth: input.max_depth.map(Count::get),
        max_tools: input.max_tools.map(Count::get),
    };
    if budget != load_spawn_budget(cx, workspace_id)? {
        let SpawnBudget { max_children, max_depth, max_tools } = budget;
        cx.execute(1, SET, &[&workspace_id, &max_children, &max_depth, &max_tools])?;
        cx.emit(Subject::WORKSPACE, &SpawnBudgetSet { budget })?;
    }
    Ok(budget)
}

const SET: &str = "
    insert into spawn_budgets (workspace_id, max_children, max_depth, max_tools) values ($1, $2, $3, $4)
    on conflict (workspace_id) do update set max_children = excluded.max_children,
        max_depth = excluded.max_depth, max_tools = excluded.max_tools";

request! {
    /// Returns the limits on the child threads of a workspace.
    struct GetSpawnBudget {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
    }

    get_spawn_budget() -> SpawnBudget
}

fn get_spawn_budget(cx: &Read<'_>, input: &GetSpawnBudget) -> Result<SpawnBudget> {
    let workspace_id = input.workspace_id.of(cx)?;
    load_spawn_budget(cx, workspace_id)
}

fn load_spawn_budget(cx: &Read<'_>, workspace: WorkspaceId) -> Result<SpawnBudget> {
    Ok(cx.one(LOAD, &[&workspace])?.unwrap_or_default())
}

const LOAD: &str =
    concat!("select ", spawn_budget_columns!(), " from spawn_budgets b where b.workspace_id = $1");

/// Fails, and records an event, if the spawn budget does not allow `parent` another child with `tool_count`
/// tools.
pub(in crate::coordination) fn check_spawn_budget(
    cx: &mut Write<'_>,
    parent: &Thread,
    tool_count: usize,
) -> Result<(), RecordedRefusal> {
    let budget = load_spawn_budget(cx, parent.workspace_id)?;
    let tool_count = i64::try_from(tool_count).unwrap_or(i64::MAX);
    let Some((limit, allowed)) = exceeded_limit(budget, parent.children_ever, parent.depth, tool_count)
    else {
        return Ok(());
    };
    cx.emit(parent.place(), &ThreadSpawnDenied { limit, allowed, parent_id: parent.id })?;
    let detail = format!("the workspace's spawn budget has a {limit} of {allowed}");
    let refusal = Error::new(Code::SpawnRejected, detail).with("limit", limit).with("allowed", allowed);
    Err(RecordedRefusal::recorded(refusal))
}

/// Returns the first limit that one more child would exceed, with the maximum that the limit allows.
fn exceeded_limit(budget: SpawnBudget, children: i64, depth: i64, tools: i64) -> Option<(&'static str, i64)> {
    let SpawnBudget { max_children, max_depth, max_tools } = budget;
    let wanted = [
        ("max_children", max_children, children.saturating_add(1)),
        ("max_depth", max_depth, depth.saturating_add(1)),
        ("max_tools", max_tools, tools),
    ];
    wanted.into_iter().find_map(|(limit, allowed, wanted)| {
        allowed.filter(|allowed| wanted > *allowed).map(|allowed| (limit, allowed))
    })
}

/// Increases the number of children in the row of `parent` by one.
pub(in crate::coordination) fn increment_child_count(cx: &mut Write<'_>, parent: ThreadId) -> Result<()> {
    cx.execute(1, COUNT_CHILD, &[&parent])
}

const COUNT_CHILD: &str = "update threads set children_ever = children_ever + 1 where id = $1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_denied_by_the_first_limit_that_it_would_exceed() {
        let all = SpawnBudget { max_children: Some(2), max_depth: Some(3), max_tools: Some(1) };
        for (budget, children, depth, tools, limit) in [
            (all, 1, 2, 1, None),
            (all, 2, 3, 2, Some(("max_children", 2))),
            (all, 0, 3, 2, Some(("max_depth", 3))),
            (all, 0, 0, 2, Some(("max_tools", 1))),
            (SpawnBudget::default(), 1000, 15, 100, None),
            (SpawnBudget { max_children: Some(0), ..all }, 0, 1, 0, Some(("max_children", 0))),
            (SpawnBudget { max_depth: Some(0), ..all }, 0, 1, 0, Some(("max_depth", 0))),
            (SpawnBudget { max_depth: Some(1), ..all }, 0, 1, 0, Some(("max_depth", 1))),
        ] {
            assert_eq!(exceeded_limit(budget, children, depth, tools), limit, "{children} {depth} {tools}");
        }
    }
}
