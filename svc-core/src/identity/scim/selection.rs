//! Filters of users that the database evaluates: filters that use only `active` and `userName`.
//!
//! This process evaluates all other filters. The database and this process agree on the results, because
//! stored handles are in lower case and the database compares bytes.

use scim_v2::filter::CompareOp;

use super::attributes::Attribute;
use super::filter::{Filter, Operand};
use crate::identity::members::{HANDLE_TESTS_MAX, HandleTest, OUTCOME_COUNT, PeopleCondition};

/// A filter in which each test is replaced by a bit of a combination of test results.
enum BitFilter {
    All(Vec<BitFilter>),
    Any(Vec<BitFilter>),
    Not(Box<BitFilter>),
    Always,
    /// A bit of the combination: whether the person is active, or whether a test of the handle succeeds.
    Bit(usize),
}

/// Bit that is set if the person is active.
const ACTIVE_BIT: usize = 1;
/// Bits for the results of the handle tests, in order.
const HANDLE_TEST_BITS: [usize; HANDLE_TESTS_MAX] = [2, 4, 8];

impl BitFilter {
    /// Returns whether a person with this combination of test results matches the filter.
    fn is_met_by(&self, combination: usize) -> bool {
        match self {
            Self::All(items) => items.iter().all(|item| item.is_met_by(combination)),
            Self::Any(items) => items.iter().any(|item| item.is_met_by(combination)),
            Self::Not(inner) => !inner.is_met_by(combination),
            Self::Always => true,
            Self::Bit(bit) => combination & bit != 0,
        }
    }

    /// Returns a filter that no person matches.
    fn never() -> Self {
        Self::Not(Box::new(Self::Always))
    }
}

/// Returns the condition on people that equals a filter of users.
///
/// Returns `None` if the database cannot evaluate the filter.
pub(super) fn people_condition(filter: &Filter) -> Option<PeopleCondition> {
    let mut tests = Vec::new();
    let numbered = assign_test_bits(filter, &mut tests)?;
    let mut outcomes = [false; OUTCOME_COUNT];
    outcomes
        .iter_mut()
        .enumerate()
        .for_each(|(combination, wanted)| *wanted = numbered.is_met_by(combination));
    Some(PeopleCondition { tests, outcomes })
}

/// Replaces the tests of a filter by bits, and collects the handle tests in `tests`.
///
/// Returns `None` if the filter has too many tests, or one that the database does not support.
fn assign_test_bits(filter: &Filter, tests: &mut Vec<(HandleTest, String)>) -> Option<BitFilter> {
    let mut each = |items: &[Filter]| -> Option<Vec<BitFilter>> {
        items.iter().map(|item| assign_test_bits(item, tests)).collect()
    };
    match filter {
        Filter::All(items) => each(items).map(BitFilter::All),
        Filter::Any(items) => each(items).map(BitFilter::Any),
        Filter::Not(inner) => Some(BitFilter::Not(Box::new(assign_test_bits(inner, tests)?))),
        Filter::NoMatch => Some(BitFilter::never()),
        Filter::Present(Attribute::Id | Attribute::UserName | Attribute::Active) => Some(BitFilter::Always),
        Filter::Compare(Attribute::Active, op, Operand::Flag(flag)) => {
            let active = BitFilter::Bit(ACTIVE_BIT);
            let is_wanted = (*op == CompareOp::Eq) == *flag;
            Some(if is_wanted { active } else { BitFilter::Not(Box::new(active)) })
        }
        Filter::Compare(Attribute::UserName, op, Operand::Text(text)) => {
            assign_name_test_bit(op, text, tests)
        }
        Filter::Present(_) | Filter::Compare(..) => None,
    }
}

/// Replaces a test of the user name by a bit, and adds the test to `tests` unless it is there already.
///
/// Returns `None` if `tests` already has the maximum length, or if the database does not support the test.
fn assign_name_test_bit(
    op: &CompareOp,
    text: &str,
    tests: &mut Vec<(HandleTest, String)>,
) -> Option<BitFilter> {
    let (test, negated) = match op {
        CompareOp::Eq => (HandleTest::Equals, false),
        CompareOp::Ne => (HandleTest::Equals, true),
        CompareOp::Sw => (HandleTest::StartsWith, false),
        CompareOp::Co => (HandleTest::Contains, false),
        CompareOp::Ew => (HandleTest::EndsWith, false),
        // The database engines order texts differently.
        CompareOp::Gt | CompareOp::Ge | CompareOp::Lt | CompareOp::Le => return None,
    };
    let text = text.to_lowercase();
    let outcome = if text.is_empty() {
        // No handle is empty, and every handle begins and ends with the empty text.
        if test == HandleTest::Equals { BitFilter::never() } else { BitFilter::Always }
    } else if text.contains(char::is_control) {
        // No handle contains a control character, and not every engine accepts one as a parameter.
        BitFilter::never()
    } else {
        let wanted = (test, text);
        let known = tests.iter().position(|known| *known == wanted);
        let bit = *HANDLE_TEST_BITS.get(known.unwrap_or(tests.len()))?;
        if known.is_none() {
            tests.push(wanted);
        }
        BitFilter::Bit(bit)
    };
    Some(if negated { BitFilter::Not(Box::new(outcome)) } else { outcome })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::attributes::AttributeValue;
    use super::super::attributes::ResourceKind;
    use super::super::filter::{FilterTarget, parse_filter};
    use super::*;

    struct Someone(&'static str, bool);

    impl FilterTarget for Someone {
        fn value(&self, attribute: Attribute) -> AttributeValue<'_> {
            match attribute {
                Attribute::UserName => AttributeValue::Text(Cow::Borrowed(self.0)),
                Attribute::Active => AttributeValue::Flag(self.1),
                Attribute::Id => AttributeValue::Text(Cow::Borrowed("1")),
                _ => AttributeValue::Nothing,
            }
        }
    }

    /// Returns whether a person matches a condition, evaluated in the same way as by the SQL statement.
    fn wants(wanted: &PeopleCondition, someone: &Someone) -> bool {
        let tests = wanted.tests.iter().map(|(test, text)| match test {
            HandleTest::Equals => someone.0 == text,
            HandleTest::StartsWith => someone.0.starts_with(text.as_str()),
            HandleTest::Contains => someone.0.contains(text.as_str()),
            HandleTest::EndsWith => someone.0.ends_with(text.as_str()),
        });
        let bits = std::iter::once(someone.1).chain(tests);
        let combination = bits.enumerate().map(|(bit, holds)| usize::from(holds) << bit).sum::<usize>();
        wanted.outcomes[combination]
    }

    #[test]
    fn what_the_database_selects_is_what_matches() {
        let people = [
            Someone("ada@corp.example", true),
            Someone("äda@corp.example", false),
            Someone("bob", true),
            Someone("bob@other.example", false),
        ];
        for (filter, is_selected) in [
            ("active eq true", true),
            ("active ne true", true),
            ("active eq \"False\"", true),
            ("userName pr", true),
            ("not (userName pr)", true),
            ("userName sw \"A\"", true),
            ("userName sw \"Ä\" or userName co \"OTHER\"", true),
            ("userName ew \".example\" and not (active eq true)", true),
            ("userName ne \"Bob\" and active eq true", true),
            ("userName eq \"bob\" or userName eq \"nobody\"", true),
            ("userName co \"\" and userName ne \"\"", true),
            ("userName eq \"\" or userName co \"\\u0000\"", true),
            ("not (userName sw \"a\" or userName sw \"b\" or userName sw \"a\")", true),
            ("userName sw \"a\" or userName sw \"b\" or userName co \"c\" or userName ew \"d\"", false),
            ("userName gt \"b\"", false),
            ("active eq true and displayName pr", false),
            ("externalId eq \"1\" or active eq true", false),
        ] {
            let parsed = parse_filter(filter, &[ResourceKind::User]).unwrap().remove(0);
            let wanted = people_condition(&parsed);
            assert_eq!(wanted.is_some(), is_selected, "{filter}");
            let Some(wanted) = wanted else { continue };
            for someone in &people {
                assert_eq!(wants(&wanted, someone), parsed.matches(someone), "{filter}: {}", someone.0);
            }
        }
    }
}
