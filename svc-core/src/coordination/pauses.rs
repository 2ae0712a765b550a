//! Pauses of repositories: while a repository is paused, no thread that touches it can be claimed.
//!
//! Existing claims continue.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::Result;
use crate::capability::Capability::{TokenAdmin, WorkspaceRead};
use crate::coordination::footprint::{Repo, RepoKey};
use crate::coordination::obstacles::Obstacle;
use crate::coordination::queue;
use crate::error::{Code, Error};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{PAUSE_REASON_MAX, PAUSES_MAX};
use crate::log::event::{CachedEntryKind, Event, EventKind, Subject};
use crate::log::replay::{ReplayedEvent, RowChange};
use crate::op::{Answer, Feature, Read, Records, Sample, Write, destructive, idempotent, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::schema::{brief, default_is};
use crate::store::{FromValue as _, Value as StoredValue, columns, new_row};
use crate::text::Prose;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "pauses",
            vec![
                idempotent("pause_repo", pause_repo)
                    .title("Pause a repository")
                    .when(
                        "Pause a repository, such as before a release, so that no thread in it can be \
                         claimed. Use `resume_repo` to end the pause.",
                    )
                    .put("/workspaces/{workspace_id}/repo-pauses")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::WrongState])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "repo": "acme/app",
                               "reason": "The main branch is broken."})
                    }),
                destructive("resume_repo", resume_repo)
                    .title("Resume a paused repository")
                    .when("End the pause of a repository, so that threads in it can be claimed again.")
                    .reversible()
                    .delete("/workspaces/{workspace_id}/repo-pauses")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::NotFound])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "repo": "acme/paused"})),
                read("list_repo_pauses", list_repo_pauses)
                    .title("List the paused repositories of a workspace")
                    .when(
                        "List the paused repositories, in which no thread can be claimed, with the reasons.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/repo-pauses")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
            ],
        )
        .events(vec![
            EventKind::of::<RepoPaused>().invalidates(CachedEntryKind::Rules),
            EventKind::of::<RepoResumed>().invalidates(CachedEntryKind::Rules),
        ])
        .sample(
            Sample::new(
                "paused_repo",
                "pause_repo",
                |w| json!({"workspace_id": w.id("workspace"), "repo": "acme/paused"}),
            )
            .id_at("/workspace_id"),
        )
        .records(vec![
            Records::table("repo_pauses", "lsn obstacle")
                .after("members")
                .ids("workspace_id paused_by obstacle")
                .texts("repo_key repo reason")
                .derives_ids(|workspace, row| {
                    let repo = row.text("repo_key").unwrap_or_default().to_owned();
                    let repo = RepoKey::from_value(StoredValue::Text(repo))?;
                    Ok(vec![Obstacle::pause(workspace, &repo).uuid()])
                })
                .times("paused_at")
                .ints("lsn")
                .proven("repo", "repo_key reason paused_by paused_at lsn")
                .unproven("obstacle", "follows from the repository"),
        ])
}

type PauseReason = Prose<1, PAUSE_REASON_MAX>;

/// A repository was paused, or the reason of its pause was changed.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct RepoPaused<'a> {
    /// The repository, as `owner/name`.
    repo: &'a str,
    /// The reason for the pause; null if the caller gave no reason.
    reason: Option<&'a str>,
    /// Whether the repository was paused already, so that only the reason has changed.
    again: bool,
}

impl Event for RepoPaused<'_> {
    const KIND: &'static str = "RepoPaused";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let row = event.row_of("repo_pauses", "repo")?;
        let again = event.field("again").and_then(Json::as_bool).unwrap_or(row.exists());
        let row = if again { row } else { set_pause_columns(event, row.made()) };
        row.copy("reason").keep()
    }
}

/// Sets the columns of a new pause from the event that began the pause.
fn set_pause_columns<'e>(event: &ReplayedEvent<'_>, row: RowChange<'e>) -> RowChange<'e> {
    let key = event.text("repo").map(|repo| RepoKey::of(repo).to_string().into());
    let row = row.set_known("repo_key", key).set("paused_by", event.subject());
    row.set("paused_at", event.at()).set("lsn", event.lsn())
}

/// A paused repository was resumed.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct RepoResumed<'a> {
    /// The repository, as `owner/name`.
    repo: &'a str,
}

impl Event for RepoResumed<'_> {
    const KIND: &'static str = "RepoResumed";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("repo_pauses", "repo")?.remove()
    }
}

/// A paused repository, in which no thread can be claimed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RepoPause {
    /// Id of the workspace in which the repository is paused.
    pub workspace_id: WorkspaceId,
    /// The repository, as `owner/name`.
    pub repo: Repo,
    /// The reason for the pause; null if the caller gave no reason.
    pub reason: Option<String>,
    /// The member who paused the repository; null for the service itself.
    pub paused_by: Option<MemberId>,
    /// Time at which the repository was paused.
    pub paused_at: Time,
    /// Position of the pause in the workspace's event log.
    pub lsn: i64,
}

columns! {
    repo_pause_columns: RepoPause as p {
        workspace_id,
        repo,
        reason,
        paused_by,
        paused_at,
        lsn,
    }
}

/// Answers a repeated request: fails once the pause has ended, even if the repository is paused again.
impl<I> Answer<I> for RepoPause {
    /// The position of the pause in the log, which identifies the pause.
    type Kept = i64;

    fn kept(&self) -> Option<i64> {
        Some(self.lsn)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, lsn: i64) -> Result<Self> {
        let pause = load_pauses(cx)?.into_iter().find(|pause| pause.lsn == lsn);
        pause.ok_or_else(|| Error::not_found("repository pause"))
    }
}

request! {
    /// Pauses a repository, so that no thread with a footprint in this repository can be claimed, and returns
    /// the pause.
    ///
    /// Existing claims continue. Pausing again changes the reason.
    ///
    /// Fails with 409 `wrong-state` if 1000 other repositories are paused.
    #[derive(Serialize)]
    struct PauseRepo {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// The repository, as `owner/name`; a clone URL is accepted.
        #[schemars(transform = brief("`owner/name` or a clone URL."))]
        repo: Repo,
        /// The reason for the pause.
        #[schemars(transform = default_is("none"))]
        reason: Option<PauseReason>,
    }

    pause_repo(repo: Repo) -> RepoPause
}

fn pause_repo(cx: &mut Write<'_>, input: &PauseRepo) -> Result<RepoPause> {
    let workspace_id = input.workspace_id.of(cx)?;
    let repo_key = input.repo.key();
    let reason = input.reason.as_ref().map(|reason| reason.to_string());
    let known: Option<RepoPause> = cx.one(BY_REPO, &[&workspace_id, &repo_key])?;
    if let Some(known) = known.as_ref().filter(|known| known.reason == reason) {
        return Ok(known.clone());
    }
    let repo = known.as_ref().map_or_else(|| input.repo.clone(), |known| known.repo.clone());
    let metadata = json!({"repo": repo, "reason": reason});
    let pause = if let Some(known) = known {
        cx.execute(1, SET_REASON, &[&workspace_id, &repo_key, &reason])?;
        let paused = RepoPaused { repo: &repo, reason: reason.as_deref(), again: true };
        cx.emit(Subject::WORKSPACE, &paused)?;
        RepoPause { reason, ..known }
    } else {
        let (count,) = cx.one::<(i64,)>(COUNT, &[&workspace_id])?.unwrap_or_default();
        if count >= PAUSES_MAX {
            return Err(Error::wrong_state(format!("{PAUSES_MAX} repositories are paused")));
        }
        let paused = RepoPaused { repo: &repo, reason: reason.as_deref(), again: false };
        let lsn = cx.emit(Subject::WORKSPACE, &paused)?.lsn;
        let paused_by = cx.caller().member;
        let paused_at = cx.now();
        let obstacle = Obstacle::pause(workspace_id, &repo_key);
        cx.insert(&new_row!("insert into repo_pauses" {
            workspace_id,
            repo_key,
            repo: repo.clone(),
            reason: reason.clone(),
            paused_by,
            paused_at,
            lsn,
            obstacle,
        }))?;
        RepoPause { workspace_id, repo, reason, paused_by, paused_at, lsn }
    };
    cx.audit("repo.pause", metadata)?;
    Ok(pause)
}

const BY_REPO: &str = concat!(
    "select ",
    repo_pause_columns!(),
    " from repo_pauses p where p.workspace_id = $1 and p.repo_key = $2"
);

const COUNT: &str = "select count(*) from repo_pauses where workspace_id = $1";

const SET_REASON: &str = "update repo_pauses set reason = $3 where workspace_id = $1 and repo_key = $2";

request! {
    /// Resumes a paused repository, and returns the pause that ended.
    ///
    /// Threads that the pause blocked can be claimed unless something else blocks them.
    ///
    /// Fails with 404 `not-found` if the repository is not paused.
    #[derive(Serialize)]
    struct ResumeRepo {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// The repository, as `owner/name`; a clone URL is accepted.
        #[schemars(transform = brief("`owner/name` or a clone URL."))]
        repo: Repo,
    }

    resume_repo(repo: Repo) -> RepoPause
}

fn resume_repo(cx: &mut Write<'_>, input: &ResumeRepo) -> Result<RepoPause> {
    let workspace_id = input.workspace_id.of(cx)?;
    let workspace = workspace_id;
    let repo_key = input.repo.key();
    let known: Option<RepoPause> = cx.one(BY_REPO, &[&workspace, &repo_key])?;
    let pause = known.ok_or_else(|| Error::not_found("repository pause"))?;
    cx.execute(1, RESUME, &[&workspace, &repo_key])?;
    cx.emit(Subject::WORKSPACE, &RepoResumed { repo: &pause.repo })?;
    cx.audit("repo.resume", json!({"repo": pause.repo}))?;
    queue::unpark_behind(cx, Obstacle::pause(workspace, &repo_key))?;
    Ok(pause)
}

const RESUME: &str = "delete from repo_pauses where workspace_id = $1 and repo_key = $2";

request! {
    /// Returns the paused repositories of a workspace, in the order in which they were paused.
    struct ListRepoPauses {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_repo_pauses() -> Page<RepoPause>
}

fn list_repo_pauses(cx: &Read<'_>, input: &ListRepoPauses) -> Result<Page<RepoPause>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let pauses = cx.rows(PAUSES, &[&workspace_id, &after, &rows])?;
    Ok(Page::of(pauses, input.limit, |pause: &RepoPause| pause.lsn))
}

/// Returns every paused repository of the workspace.
pub(in crate::coordination) fn load_pauses(cx: &Read<'_>) -> Result<Vec<RepoPause>> {
    cx.query(PAUSES, &[&cx.caller().workspace_id, &0_i64, &PAUSES_MAX])
}

const PAUSES: &str = concat!(
    "select ",
    repo_pause_columns!(),
    " from repo_pauses p where p.workspace_id = $1 and p.lsn > $2 order by p.lsn limit $3"
);
