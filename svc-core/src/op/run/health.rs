//! The results of the health checks, for the readiness route and for `get_operator_status`.
//!
//! The checks that query the database run in one transaction; all others are independent of the database.

use crate::error::{Error, Result};
use crate::op::declare::health_check::{CheckMethod, HealthCheck};
use crate::op::run::context::Read;

/// The result of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthResult {
    /// Name of the component in the readiness report.
    pub name: &'static str,
    /// A description of the problem, or `None` if the component works.
    pub fault: Option<String>,
    /// Remark for the operator about a component that works, if there is one.
    pub remark: Option<String>,
}

impl HealthResult {
    /// Creates the result of the check `name`. `fault` is the problem that the check found, if any.
    pub fn new(name: &'static str, fault: Option<String>) -> Self {
        Self { name, fault, remark: None }
    }

    /// Returns the problem or the remark as text, or `ok` if there is neither.
    pub fn describe(self) -> String {
        self.fault.or(self.remark).unwrap_or_else(|| "ok".to_owned())
    }
}

/// Name of the health check for whether the database responds.
pub(crate) const DATABASE: &str = "database";

/// Returns the results of the checks in `checks` that need no database.
pub(crate) fn health_of_process<'a>(checks: impl Iterator<Item = &'a HealthCheck>) -> Vec<HealthResult> {
    let checked = checks.filter_map(|part| match &part.health {
        CheckMethod::InProcess(check) => Some(HealthResult::new(part.name, check())),
        CheckMethod::RemarkOnly(check) => {
            Some(HealthResult { remark: check(), ..HealthResult::new(part.name, None) })
        }
        CheckMethod::InDatabase(_) | CheckMethod::Unchecked => None,
    });
    checked.collect()
}

/// Returns the results of the checks that query the database.
pub(crate) fn health_in_database(cx: &Read<'_>) -> Result<Vec<HealthResult>> {
    let checked = cx.parts().filter_map(|part| match &part.health {
        CheckMethod::InDatabase(check) => Some(check(cx).map(|fault| HealthResult::new(part.name, fault))),
        CheckMethod::InProcess(_) | CheckMethod::RemarkOnly(_) | CheckMethod::Unchecked => None,
    });
    checked.collect()
}

/// Returns a failure for each check that queries the database, after the database failed with `error`.
pub(crate) fn health_without_database<'a>(
    checks: impl Iterator<Item = &'a HealthCheck>,
    error: &Error,
) -> Vec<HealthResult> {
    let asking = checks.filter(|part| matches!(part.health, CheckMethod::InDatabase(_)));
    let fault = |name| match name {
        DATABASE => error.detail(),
        _ => "not known, since the database does not respond",
    };
    asking.map(|part| HealthResult::new(part.name, Some(fault(part.name).to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn without_the_database_only_what_it_tells_is_not_known() {
        let here = || CheckMethod::InProcess(Box::new(|| Some("it is cold".to_owned())));
        let asks = || CheckMethod::InDatabase(|_| Ok(None));
        let checks =
            [(DATABASE, asks()), ("oven", here()), ("keys", asks()), ("bread", CheckMethod::Unchecked)];
        let checks = checks.map(|(name, health)| HealthCheck { name, health, status: None });
        let error = Error::new(Code::Unavailable, "the database is away");
        let mut found = health_without_database(checks.iter(), &error);
        found.extend(health_of_process(checks.iter()));
        let found: Vec<_> = found.iter().map(|part| (part.name, part.fault.as_deref().unwrap())).collect();
        let unknown = "not known, since the database does not respond";
        let wanted = [(DATABASE, "the database is away"), ("keys", unknown), ("oven", "it is cold")];
        assert_eq!(found, wanted);
    }
}
