//! Operations that set, read and check the footprints of threads.
//!
//! A footprint blocks other claims while its thread has a live claim. On a thread without a live claim, any
//! footprint can be stored; it then determines which conflicts prevent a claim of the thread.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::coordination::claims::{expire_lapsed_claims, release_footprint};
use crate::coordination::footprint::{self, Footprint, FootprintItem, FootprintMode, Repo};
use crate::coordination::obstacles::{self, Conflict};
use crate::coordination::rules::live_claim;
use crate::coordination::thread_row::visible_thread;
use crate::error::Code;
use crate::id::ThreadId;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{CONFLICTS_MAX, FOOTPRINT_ITEMS_MAX};
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Read, Records, Write, idempotent, read};
use crate::request::request;
use crate::schema::{brief, mark_explained_elsewhere};
use crate::text::Items;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "footprints",
            vec![
                idempotent("set_thread_footprint", set_thread_footprint)
                    .after(expire_lapsed_claims)
                    .title("Set a thread's footprint")
                    .when(
                        "Declare the files and resources that a thread will touch. Use before work that may \
                         overlap with the work of others.",
                    )
                    .put("/threads/{thread_id}/footprint")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState, Code::FootprintConflict])
                    .example(|w| {
                        json!({
                            "thread_id": w.id("thread"), "repo": "acme/app", "mode": "exclusive",
                            "items": [{"kind": "path", "value": "src/parser"},
                                      {"kind": "slot", "value": "gpu"}],
                        })
                    }),
                read("get_thread_footprint", get_thread_footprint)
                    .quick()
                    .title("Read a thread's footprint")
                    .when(
                        "Get a thread's footprint: the paths and slots that it will touch. Use \
                         `check_footprint` to find conflicts.",
                    )
                    .get("/threads/{thread_id}/footprint")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"thread_id": w.id("thread")})),
                read("check_footprint", check_footprint)
                    .title("Check what a footprint conflicts with")
                    .when(
                        "List the conflicts with a footprint: the paths and slots that a thread will touch. \
                         Use before you claim a thread or set a footprint.",
                    )
                    .post("/workspaces/{workspace_id}/footprint-check")
                    .needs(&[WorkspaceRead])
                    .example(|w| {
                        json!({
                            "workspace_id": w.id("workspace"),
                            "footprint": {"repo": "acme/app", "items": [{"kind": "crate", "value": "core"}]},
                        })
                    }),
            ],
        )
        .events(vec![EventKind::of::<ThreadFootprintChanged>()])
        .records(vec![
            Records::table("footprints", "workspace_id id")
                .after("workspaces")
                .ids("workspace_id")
                .ints("id")
                .digest("digest", |row| footprint::footprint_digest(&footprint::footprint_in_row(row)?))
                .derives_ids(|workspace, row| {
                    Ok(obstacles::obstacle_ids(workspace, &footprint::footprint_in_row(row)?))
                })
                .texts("repo repo_key mode items")
                .unproven("id repo repo_key mode items digest", "compared where a thread has it"),
        ])
}

/// A thread's footprint was set or cleared.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ThreadFootprintChanged<'a> {
    /// The thread's new footprint; null if the footprint was cleared.
    footprint: Option<&'a Footprint>,
}

impl Event for ThreadFootprintChanged<'_> {
    const KIND: &'static str = "ThreadFootprintChanged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let touched = footprint::footprint_in_event(event);
        event.row_of("threads", "$thread")?.set_known("footprint", touched).keep()
    }
}

request! {
    /// Sets the paths and slots that a thread will touch (its footprint), and returns the stored footprint.
    ///
    /// A path starts at the root of the repository and covers everything below it; a glob covers all paths
    /// that begin with its text before the first `*`, `?`, `[` or `{`. A slot is a resource of the whole
    /// workspace.
    ///
    /// Paths are normalised; an empty list of items clears the footprint. On a thread without a live claim,
    /// the footprint is stored regardless of conflicts; the thread can then be claimed once nothing blocks
    /// it.
    ///
    /// Fails with 409 `wrong-state` if the thread is archived; 409 `footprint-conflict` with `conflicts` if
    /// the thread has a live claim and the footprint overlaps that of another live claim, its repository is
    /// paused or one of its slots is full. Nothing is stored then.
    #[derive(Serialize)]
    struct SetThreadFootprint {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The repository, as `owner/name`; a clone URL is accepted. Optional if all items are slots.
        #[schemars(transform = brief("`owner/name` or a clone URL. Optional if all items are slots."))]
        repo: Option<Repo>,
        /// `exclusive` conflicts with all overlapping footprints, `shared` only with exclusive ones. Default:
        /// `exclusive`.
        #[serde(default)]
        mode: FootprintMode,
        /// Items that the thread will touch; an empty list clears the footprint.
        items: Items<FootprintItem, FOOTPRINT_ITEMS_MAX>,
    }

    set_thread_footprint(thread_id: ThreadId, items: Items<FootprintItem, FOOTPRINT_ITEMS_MAX>) -> Footprint
}

fn set_thread_footprint(cx: &mut Write<'_>, input: &SetThreadFootprint) -> Result<Footprint> {
    let thread = visible_thread(cx, input.thread_id)?;
    thread.check_not_archived()?;
    let sent = Footprint { repo: input.repo.clone(), mode: input.mode, items: input.items.clone() };
    let wanted = sent.into_stored_form("repo")?;
    if wanted != thread.footprint {
        let is_live = live_claim(&thread, cx.now()).is_some();
        if let Some(touched) = wanted.as_ref().filter(|_| is_live) {
            obstacles::check_no_conflicts(cx, touched, Some(thread.id))?;
        }
        let id = footprint::intern(cx, wanted.as_ref())?;
        cx.execute(1, SET_FOOTPRINT, &[&thread.id, &id])?;
        if is_live && let Some(touched) = &thread.footprint {
            release_footprint(cx, thread.id, touched)?;
        }
        if let Some(touched) = wanted.as_ref().filter(|_| is_live) {
            obstacles::insert_live_items(cx, thread.id, touched)?;
        }
        cx.emit(thread.place(), &ThreadFootprintChanged { footprint: wanted.as_ref() })?;
    }
    Ok(wanted.unwrap_or_default())
}

const SET_FOOTPRINT: &str = "update threads set footprint = $2 where id = $1";

impl Answer<SetThreadFootprint> for Footprint {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, input: &SetThreadFootprint, (): ()) -> Result<Self> {
        get_thread_footprint(cx, &GetThreadFootprint { thread_id: input.thread_id })
    }
}

request! {
    /// Returns a thread's footprint, which has no items if it was never set.
    struct GetThreadFootprint {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    get_thread_footprint(thread_id: ThreadId) -> Footprint
}

fn get_thread_footprint(cx: &Read<'_>, input: &GetThreadFootprint) -> Result<Footprint> {
    Ok(visible_thread(cx, input.thread_id)?.footprint.unwrap_or_default())
}

request! {
    /// Returns the conflicts with a footprint, or with the footprint of a thread, and changes nothing.
    ///
    /// Pass `footprint`, `thread_id` or both: with both, the footprint is checked as if it were set on the
    /// thread. The thread's own claim is ignored.
    ///
    /// If you pass neither, no conflicts are returned. Up to 1000 conflicts are returned, including conflicts
    /// with claims on threads that you may not see. For such a claim the response shows the item that
    /// conflicts, the holder and the end of the lease, but not the thread.
    struct CheckFootprint {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// Id of the thread.
        thread_id: Option<ThreadId>,
        /// The footprint, as in `set_thread_footprint`. Default: the thread's own.
        #[schemars(transform = mark_explained_elsewhere)]
        footprint: Option<Footprint>,
    }

    check_footprint() -> FootprintCheck
}

/// The conflicts that a check of a footprint has found.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FootprintCheck {
    /// The live claims, pauses and full slots that conflict with the footprint; empty if nothing conflicts.
    pub conflicts: Vec<Conflict>,
}

fn check_footprint(cx: &Read<'_>, input: &CheckFootprint) -> Result<FootprintCheck> {
    input.workspace_id.of(cx)?;
    let thread = input.thread_id.map(|id| visible_thread(cx, id)).transpose()?;
    let touched = match (&input.footprint, &thread) {
        (Some(sent), _) => sent.clone().into_stored_form("footprint.repo")?,
        (None, Some(thread)) => thread.footprint.clone(),
        (None, None) => None,
    };
    let Some(touched) = touched else { return Ok(FootprintCheck { conflicts: Vec::new() }) };
    let found = obstacles::conflicts_with(cx, &touched, thread.map(|thread| thread.id), CONFLICTS_MAX)?;
    Ok(FootprintCheck { conflicts: found.into_iter().map(|blocked| blocked.conflict).collect() })
}
