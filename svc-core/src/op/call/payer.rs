//! The client, the workspace and the quotas that the requests of a credential are charged to.

use crate::error::{Error, Result};
use crate::id::TokenId;
use crate::op::call::caller::{Caller, CredentialKind};
use crate::op::call::lookup::installation_quota;
use crate::rate::{Client, Payer};
use crate::store::{Conn, FromRow};

impl Caller {
    /// Returns the client, the workspace and the quotas that this caller's requests are charged to.
    ///
    /// A session that was created from a token is charged like that token. All other sessions of a member are
    /// charged to the member. A derived token is charged to the original token, and counts against the quotas
    /// of all its ancestors. A token of an app is charged to the app's installation. A share ticket is a
    /// separate client: its bearers are unknown, and use no quota of its issuer.
    ///
    /// The charged workspace is the workspace of the credential. For an imported workspace, it is the
    /// workspace of the first importer, so that a copy has no separate limits.
    pub(crate) fn payer(&self, conn: &Conn) -> Result<Payer> {
        let workspace = self.charged_to;
        let token_id = match self.via {
            CredentialKind::Ticket(id) => {
                return Ok(Payer { client: Some(Client::Ticket(id)), workspace, quotas: Vec::new() });
            }
            CredentialKind::Session { token, .. } => token,
            _ => self.token_id,
        };
        match (token_id, self.member) {
            // Without a credential, the request is charged to the sender's address.
            _ if self.via == CredentialKind::Anonymous => {
                Ok(Payer { client: None, workspace, quotas: Vec::new() })
            }
            (Some(token_id), _) => {
                let mut rows = conn.query(ANCESTORS, &[&token_id])?;
                let lineage = rows.iter_mut().map(FromRow::from_row);
                let lineage: Vec<(TokenId, Option<i64>)> = lineage.collect::<Result<_>>()?;
                let (root, _) = *lineage.last().ok_or_else(|| Error::internal("a token has no root"))?;
                let mut lineage: Vec<_> =
                    lineage.into_iter().map(|(token, quota)| (Client::Token(token), quota)).collect();
                let client = self.installation.map_or(Client::Token(root), Client::Installation);
                if let Some(installation) = self.installation {
                    lineage.push((client, installation_quota(conn, installation)?));
                }
                Ok(Payer { client: Some(client), workspace, quotas: distinct_quotas(&lineage) })
            }
            (None, Some(member)) => {
                Ok(Payer { client: Some(Client::Member(member)), workspace, quotas: Vec::new() })
            }
            (None, None) => Err(Error::internal("a credential has neither token nor member")),
        }
    }
}

/// Selects a token and the tokens that it is derived from, nearest first.
const ANCESTORS: &str = "
    with recursive above (id, parent_id, quota, depth) as (
        select t.id, t.parent_id, t.quota, 0 from tokens t where t.id = $1
        union all
        select p.id, p.parent_id, p.quota, a.depth + 1 from above a join tokens p on p.id = a.parent_id
    )
    select id, quota from above order by depth";

/// Returns the quotas that limit a token: those of the token, of its ancestors and of its app installation.
///
/// A quota that equals the next one is omitted, because each request that counts against the former also
/// counts against the latter.
fn distinct_quotas(lineage: &[(Client, Option<i64>)]) -> Vec<(Client, i64)> {
    let parents = lineage.iter().skip(1).map(|(_, quota)| *quota).chain([None]);
    let own = lineage.iter().zip(parents).filter(|((_, quota), parent)| quota != parent);
    own.filter_map(|((client, quota), _)| quota.map(|quota| (*client, quota))).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_quota_that_is_its_parents_counts_once() {
        let [own, parent, root] = [1, 2, 3].map(|n| Client::Token(Uuid::from_u128(n).into()));
        for (quotas, wanted) in [
            ([None, None, None], vec![]),
            ([Some(5), Some(5), Some(5)], vec![(root, 5)]),
            ([Some(2), Some(5), Some(5)], vec![(own, 2), (root, 5)]),
            ([Some(2), Some(2), None], vec![(parent, 2)]),
        ] {
            let lineage: Vec<_> = [own, parent, root].into_iter().zip(quotas).collect();
            assert_eq!(distinct_quotas(&lineage), wanted, "{quotas:?}");
        }
    }
}
