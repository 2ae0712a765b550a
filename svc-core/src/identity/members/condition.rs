//! Conditions that select people by their activity and their handles. The database evaluates these
//! conditions.
//!
//! A condition combines a few tests with "and", "or" and "not". The same SQL statement evaluates every
//! condition. The parameters of the statement are the tests and, for each combination of test results,
//! whether a person matches.

/// Maximum number of handle tests in one condition.
pub(crate) const HANDLE_TESTS_MAX: usize = 3;

/// Number of combinations of test results: [`HANDLE_TESTS_MAX`] handle tests, and whether the person is
/// active.
pub(crate) const OUTCOME_COUNT: usize = 2 << HANDLE_TESTS_MAX;

/// Comparison of a handle with a text, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleTest {
    Equals,
    StartsWith,
    Contains,
    EndsWith,
}

impl HandleTest {
    fn name(self) -> &'static str {
        match self {
            Self::Equals => "is",
            Self::StartsWith => "begins",
            Self::Contains => "contains",
            Self::EndsWith => "ends",
        }
    }
}

/// A condition on people of a workspace: every person either matches or does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeopleCondition {
    /// Tests of the handle, each with a non-empty text to compare the handle with.
    pub tests: Vec<(HandleTest, String)>,
    /// For each combination of test results, whether a person with these results matches.
    ///
    /// The index is a bit set: bit 0 is set if the person is active, bit 1 if the first handle test succeeds,
    /// bit 2 if the second one does, and so on.
    pub outcomes: [bool; OUTCOME_COUNT],
}

impl PeopleCondition {
    /// Returns the name and the text of each handle test, and the expected outcomes as a string of the digits
    /// 0 and 1.
    pub(super) fn sql_params(&self) -> ([&'static str; HANDLE_TESTS_MAX], [&str; HANDLE_TESTS_MAX], String) {
        let mut names = ["none"; HANDLE_TESTS_MAX];
        let mut texts = [""; HANDLE_TESTS_MAX];
        for ((name, text), (test, with)) in names.iter_mut().zip(&mut texts).zip(&self.tests) {
            (*name, *text) = (test.name(), with);
        }
        let outcomes = self.outcomes.iter().map(|wanted| if *wanted { '1' } else { '0' }).collect();
        (names, texts, outcomes)
    }
}

/// SQL expression for the bit of a handle test in the index of a combination: `$worth` if the test succeeds,
/// otherwise 0.
macro_rules! outcome_bit {
    ($test:literal, $text:literal, $worth:literal) => {
        concat!(
            "case when case cast(",
            $test,
            " as text) when 'is' then m.handle = ",
            $text,
            " when 'begins' then substr(m.handle, 1, length(",
            $text,
            ")) = ",
            $text,
            " when 'contains' then replace(m.handle, ",
            $text,
            ", '') <> m.handle when 'ends' then length(m.handle) >= length(",
            $text,
            ") and substr(m.handle, length(m.handle) - length(",
            $text,
            ") + 1) = ",
            $text,
            " else 1 = 0 end then ",
            $worth,
            " else 0 end"
        )
    };
}

/// SQL condition: the person's combination of test results is marked as matching in `$8`.
macro_rules! matches_condition {
    ($rest:literal) => {
        concat!(
            "and substr(cast($8 as text), 1 + case when m.deactivated_at is null then 1 else 0 end + ",
            outcome_bit!("$2", "cast($5 as text)", "2"),
            " + ",
            outcome_bit!("$3", "cast($6 as text)", "4"),
            " + ",
            outcome_bit!("$4", "cast($7 as text)", "8"),
            ", 1) = '1' ",
            $rest
        )
    };
}

pub(super) use {matches_condition, outcome_bit};
