//! Limits on imports: which workspace an import is charged to, and how many imports that workspace has left.
//!
//! A limit per workspace would be useless if its administrator could multiply it by importing copies. So an
//! imported workspace shares the limits of the workspace that imported it, and so does a copy of that copy.
//! All these workspaces together may import a limited number of workspaces in 24 hours. Imports by the
//! operator of the instance are not charged to any workspace.
//!
//! Imports write under the head of the instance's log, so two imports are never counted at the same time. An
//! import in progress counts until it has succeeded or its remaining rows are removed. A successful import
//! stays counted, even if its workspace is erased.

use std::time::Duration;

use crate::capability::Capability::OperatorGlobal;
use crate::error::{Code, Error, Result};
use crate::id::{ImportId, WorkspaceId};
use crate::op::{Caller, Input, Read, Write};
use crate::time::Time;

/// Time for which an import remains reserved for its caller after its last step.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// Period over which imports are counted.
const COUNT_PERIOD: Duration = Duration::from_secs(86_400);

/// Returns whether the caller operates the instance.
///
/// An operator is a member with the capability `operator:global`, or a caller that is not a member.
pub(super) fn is_operator(caller: &Caller) -> bool {
    !caller.is_member() || caller.capabilities.has(OperatorGlobal)
}

/// Returns the workspace to which an import by the caller is charged; `None` for an operator.
pub(super) fn charged_workspace(caller: &Caller) -> Option<WorkspaceId> {
    (!is_operator(caller)).then_some(caller.charged_to)
}

/// Fails with 429 if the charged workspace and its copies have reached their limit of imports in 24 hours.
pub(super) fn check_import_limit(cx: &Read<'_>, payer: Option<WorkspaceId>) -> Result<()> {
    let (Some(payer), Some(max)) = (payer, cx.settings().import_workspaces) else { return Ok(()) };
    let max = i64::from(max.get());
    let now = cx.now();
    let since = now.before(COUNT_PERIOD);
    let counted: Option<(i64, i64)> = cx.one(COUNT_IMPORTS, &[&payer, &since])?;
    let (done, in_progress) = counted.unwrap_or_default();
    if done.saturating_add(in_progress) < max {
        return Ok(());
    }
    // The next import is admitted once the oldest of the last `max` imports is a day old; one in progress may
    // also fail earlier.
    let last: Option<(Time,)> = cx.one(SELECT_IMPORT_TIME, &[&payer, &since, &max.saturating_sub(1)])?;
    let wait = last.map_or(LEASE, |(at,)| at.plus(COUNT_PERIOD).since(now));
    let secs = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1);
    let detail = format!(
        "the workspace and its copies import at most {max} workspaces in 24 hours; the next is admitted in \
         {secs} s"
    );
    Err(Error::new(Code::RateLimited, detail).with("retry_after_secs", secs))
}

/// Fails with 429, before the file is received, if the caller may not import another workspace yet.
///
/// A call that continues or repeats an import is admitted.
pub(super) fn check_limit_before_upload(cx: &Read<'_>, input: &Input) -> Result<()> {
    if let Some((_, id)) = input.text.iter().find(|(name, _)| name == "import_id") {
        let begun: Option<(i64,)> = cx.one(IS_BEGUN, &[&scoped_import_id(cx.caller(), id)])?;
        if begun.is_some() {
            return Ok(());
        }
    }
    check_import_limit(cx, charged_workspace(cx.caller()))
}

const IS_BEGUN: &str = "select cast(1 as bigint) from imports where id = $1";

/// Returns the id under which an import is stored.
///
/// The id contains the caller's workspace, so other workspaces cannot use it.
pub(super) fn scoped_import_id(caller: &Caller, id: &str) -> String {
    format!("{}/{id}", caller.workspace_id)
}

const COUNT_IMPORTS: &str = "
    select (select count(*) from charged_imports where charged_to = $1 and at > $2),
        (select count(*) from imports where charged_to = $1 and outcome is null)";

/// Selects the time of the successful import that is followed by `$3` newer ones.
const SELECT_IMPORT_TIME: &str = "
    select at from charged_imports where charged_to = $1 and at > $2
    order by at desc, id desc limit 1 offset $3";

/// Records a successful import, and removes records that no longer count towards the limit.
pub(super) fn record_import(cx: &mut Write<'_>, payer: Option<WorkspaceId>) -> Result<()> {
    let Some(payer) = payer.filter(|_| cx.settings().import_workspaces.is_some()) else { return Ok(()) };
    let now = cx.now();
    cx.execute_any(DELETE_OLD, &[&payer, &now.before(COUNT_PERIOD)])?;
    cx.execute(1, INSERT, &[&cx.new_id::<ImportId>()?, &payer, &now])
}

const DELETE_OLD: &str = "delete from charged_imports where charged_to = $1 and at <= $2";

const INSERT: &str = "insert into charged_imports (id, charged_to, at) values ($1, $2, $3)";

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::capability::Capability::TokenAdmin;

    #[test]
    fn an_import_is_charged_to_what_its_workspace_is_charged_to_and_an_operators_to_none() {
        let [own, first] = [1, 2].map(|n| WorkspaceId::from(Uuid::from_u128(n)));
        let member = Uuid::from_u128(3).into();
        let bearer = |can: &[_]| Caller::bearer_for_tests(own, member, can);
        assert_eq!(charged_workspace(&bearer(&[TokenAdmin])), Some(own));
        let mut of_copy = bearer(&[TokenAdmin]);
        of_copy.charged_to = first;
        assert_eq!(charged_workspace(&of_copy), Some(first));
        assert_eq!(charged_workspace(&bearer(&[TokenAdmin, OperatorGlobal])), None);
        assert_eq!(charged_workspace(&Caller::instance(WorkspaceId::INSTANCE)), None);
    }
}
