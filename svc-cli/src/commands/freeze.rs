//! Implements `svc freeze` and `svc unfreeze`, which freeze a member and lift the freeze.

use clap::Args;
use svc_core::Result;
use svc_core::api::{FreezeMember, UnfreezeMember};
use svc_core::setup::Variables;

use super::TargetMember;
use crate::output::Printer;

/// Freeze a member: the member's claims end, and the member may only read until the freeze is lifted.
///
/// Running servers refuse changes by the member from the next request on. Acts as the member of the token in
/// SVC_TOKEN, which must have the capability token:admin, or with --as-instance with the rights of the
/// machine's administrator.
#[derive(Args)]
pub struct Freeze {
    #[command(flatten)]
    target: TargetMember,
    /// Reason for the freeze. Administrators, and members who may read the log, can see the reason.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Lift the freeze of a member.
///
/// Claims that the freeze has ended are not restored. Acts with the same authority as `svc freeze`.
#[derive(Args)]
pub struct Unfreeze {
    #[command(flatten)]
    target: TargetMember,
}

/// Runs `svc freeze`: freezes a member, and prints how many claims of the member have ended.
pub fn run(command: &Freeze, variables: &Variables, output: &Printer) -> Result<()> {
    let (caller, member) = command.target.find(variables)?;
    let mut wanted = FreezeMember::new(member.id).workspace_id(member.workspace_id);
    if let Some(reason) = &command.reason {
        wanted = wanted.reason(reason);
    }
    let frozen = caller.call(&wanted)?;
    let text = format!("{} is frozen. Claims released: {}.", member.handle, frozen.claims_released);
    output.print_result(&frozen, &text)
}

/// Runs `svc unfreeze`: lifts the freeze of a member.
pub fn run_unfreeze(command: &Unfreeze, variables: &Variables, output: &Printer) -> Result<()> {
    let (caller, member) = command.target.find(variables)?;
    let member = caller.call(&UnfreezeMember::new(member.id).workspace_id(member.workspace_id))?;
    output.print_result(&member, &format!("{} is not frozen.", member.handle))
}
