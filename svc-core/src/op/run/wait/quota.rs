//! The quota of waits: a limit in total, and a share for each client and workspace.
//!
//! So nobody can take all of it. A permit is taken when a wait arrives and returned when it ends, whatever
//! ends it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::limits::{WAITS_MAX, WAITS_OF_CLIENT_MAX, WAITS_OF_WORKSPACE_MAX};
use crate::op::run::AdmittedBy;
use crate::rate::Client;
use crate::sync::lock;

/// The quota of one process. Clones are handles to the same quota.
#[derive(Clone, Default)]
pub(in crate::op) struct WaitQuota(Arc<Mutex<HashMap<Holder, usize>>>);

/// Whose waits are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::op) enum Holder {
    All,
    Workspace(WorkspaceId),
    Client(Client),
}

/// The permit of one wait, which is returned when this is dropped.
#[must_use = "dropping the permit returns it"]
pub(in crate::op) struct WaitPermit {
    quota: WaitQuota,
    holders: Vec<Holder>,
}

impl Holder {
    /// Returns those against whose quota a wait counts.
    pub fn of(access: &AdmittedBy, client: Option<Client>) -> Vec<Self> {
        let AdmittedBy::Known(_) = access else { return vec![Self::All] };
        let client = client.map(Self::Client);
        client.into_iter().chain([Self::Workspace(access.workspace()), Self::All]).collect()
    }

    fn most(self) -> usize {
        match self {
            Self::All => WAITS_MAX,
            Self::Workspace(_) => WAITS_OF_WORKSPACE_MAX,
            Self::Client(_) => WAITS_OF_CLIENT_MAX,
        }
    }

    fn exceeded(self) -> Error {
        let whose = match self {
            Self::All => "too many waits are parked".to_owned(),
            Self::Workspace(_) => format!("the workspace already has {WAITS_OF_WORKSPACE_MAX} waits parked"),
            Self::Client(_) => {
                format!("a token, with all derived from it, already has {WAITS_OF_CLIENT_MAX} waits parked")
            }
        };
        Error::new(Code::Overloaded, whose)
    }
}

impl WaitQuota {
    /// Takes a permit, or says whose quota is exhausted.
    pub fn take(&self, holders: Vec<Holder>) -> Result<WaitPermit, Error> {
        let mut taken = lock(&self.0);
        let has = |holder: &Holder| taken.get(holder).copied().unwrap_or(0);
        if let Some(full) = holders.iter().find(|holder| has(holder) >= holder.most()) {
            return Err(full.exceeded());
        }
        for holder in &holders {
            let count = taken.entry(*holder).or_default();
            *count = count.saturating_add(1);
        }
        drop(taken);
        Ok(WaitPermit { quota: self.clone(), holders })
    }
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        let mut taken = lock(&self.quota.0);
        for holder in &self.holders {
            let left = taken.get(holder).map_or(0, |count| count.saturating_sub(1));
            if left == 0 {
                taken.remove(holder);
            } else {
                taken.insert(*holder, left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TokenId;

    fn of(client: u128, workspace: u128) -> Vec<Holder> {
        let client = Client::Token(TokenId::from(uuid::Uuid::from_u128(client)));
        let workspace = WorkspaceId::from(uuid::Uuid::from_u128(workspace));
        vec![Holder::Client(client), Holder::Workspace(workspace), Holder::All]
    }

    fn rejected(quota: &WaitQuota, holders: Vec<Holder>) -> String {
        let error = quota.take(holders).map(drop).unwrap_err();
        assert_eq!(error.code(), Code::Overloaded);
        error.detail().to_owned()
    }

    #[test]
    fn a_client_and_a_workspace_are_limited_without_affecting_others() {
        let quota = WaitQuota::default();
        let mut held = Vec::new();
        for number in 0..WAITS_OF_WORKSPACE_MAX {
            held.push(quota.take(of((number / WAITS_OF_CLIENT_MAX) as u128, 1)).unwrap());
        }
        assert!(rejected(&quota, of(0, 2)).contains("a token"), "it has its tenth");
        assert!(rejected(&quota, of(99, 1)).contains("the workspace"), "it has three quarters");
        let other = quota.take(of(99, 2)).unwrap();
        drop(held.remove(0));
        let again = quota.take(of(0, 1)).unwrap();
        assert!(rejected(&quota, of(99, 1)).contains("the workspace"));
        drop((held, other, again));
        assert!(lock(&quota.0).is_empty(), "holders without permits are removed");
    }

    #[test]
    fn there_is_a_total_limit() {
        let quota = WaitQuota::default();
        let mut held: Vec<WaitPermit> = (0..WAITS_MAX)
            .map(|number| quota.take(of(number as u128, number as u128 % 2)).unwrap())
            .collect();
        assert!(rejected(&quota, of(WAITS_MAX as u128, 7)).starts_with("too many waits"));
        held.pop();
        assert!(quota.take(of(WAITS_MAX as u128, 7)).is_ok(), "one has ended");
    }
}
