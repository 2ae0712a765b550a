//! Usage quotas of a token, which all tokens derived from the token share.
//!
//! A caller that mints a token can set the token's quotas, but not higher than the caller's own; by default
//! the token inherits the caller's quotas. The quotas of a derived token cannot exceed those of its parent.
//! The quotas of an app's token cannot exceed those of the app's installation, which equal those of the token
//! that installed the app. All tokens of an installation count towards the installation's quotas. Quotas
//! apply in addition to the service's limits for every client. Rotating a token keeps its quotas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::limits::TOKEN_QUOTA_MAX;
use crate::op::Caller;
use crate::request::object;
use crate::store::{FromValue, Param, ToParam, Value};
use crate::text::Count;

object! {
    /// Usage quotas of a token.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Quotas {
        /// Requests per rate window (`SVC_RATE_LIMIT_WINDOW_SECS`), including requests with derived tokens.
        pub requests: Count<1, TOKEN_QUOTA_MAX>,
    }

    new_quotas::NewQuotas(requests: Count<1, TOKEN_QUOTA_MAX>) for Quotas
}

impl Quotas {
    /// Creates the quotas of a token.
    pub fn new(requests: Count<1, TOKEN_QUOTA_MAX>) -> Self {
        Self { requests }
    }

    /// Returns the quotas of a new token: `requested`, or by default `parent_limit`, the quota of the token
    /// that creates it.
    ///
    /// Fails if `requested` exceeds `parent_limit`.
    pub(crate) fn within(parent_limit: Option<i64>, requested: Option<Self>) -> Result<Option<Self>> {
        match (parent_limit, requested) {
            (Some(parent_limit), Some(requested)) if requested.requests.get() > parent_limit => {
                Err(Error::forbidden(format!("`quotas`: you can grant {parent_limit} requests, no more")))
            }
            (Some(parent_limit), None) => Ok(Some(Self::of(parent_limit)?)),
            (_, requested) => Ok(requested),
        }
    }

    /// Fails if a caller with the quota `caller_quota` rotates a token that may make more requests than the
    /// caller.
    pub(super) fn check_may_rotate(caller_quota: Option<i64>, token_quotas: Option<Self>) -> Result<()> {
        match (caller_quota, token_quotas) {
            (None, _) => Ok(()),
            (Some(own), Some(token_quotas)) if token_quotas.requests.get() <= own => Ok(()),
            (Some(own), _) => {
                Err(Error::forbidden(format!("your token may make {own} requests, and the other one more")))
            }
        }
    }

    /// Returns the quotas of the caller, which the caller's new tokens inherit.
    pub(crate) fn of_caller(caller: &Caller) -> Result<Option<Self>> {
        caller.quota.map(Self::of).transpose()
    }

    fn of(requests: i64) -> Result<Self> {
        Ok(Self { requests: Count::new(requests).map_err(Error::internal)? })
    }
}

impl ToParam for Quotas {
    fn param(&self) -> Param<'_> {
        Param::Int(self.requests.get())
    }
}

impl FromValue for Quotas {
    fn from_value(value: Value) -> Result<Self> {
        i64::from_value(value).and_then(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn a_derived_token_may_no_more_than_its_parent() {
        let quotas = |requests: i64| Quotas::of(requests).unwrap();
        for (parent, asked, wanted) in [
            (None, None, Ok(None)),
            (None, Some(7), Ok(Some(7))),
            (Some(7), None, Ok(Some(7))),
            (Some(7), Some(7), Ok(Some(7))),
            (Some(7), Some(1), Ok(Some(1))),
            (Some(7), Some(8), Err(Code::Forbidden)),
        ] {
            let found = Quotas::within(parent, asked.map(quotas)).map_err(|error| error.code());
            assert_eq!(found, wanted.map(|wanted| wanted.map(quotas)), "{parent:?} {asked:?}");
        }
        for (own, other, fits) in [
            (None, None, true),
            (None, Some(9), true),
            (Some(7), Some(7), true),
            (Some(7), Some(8), false),
            (Some(7), None, false),
        ] {
            let found = Quotas::check_may_rotate(own, other.map(quotas));
            assert_eq!(found.is_ok(), fits, "{own:?} {other:?}");
        }
    }
}
