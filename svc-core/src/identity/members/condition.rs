//! Conditions on people, by their activity and their handles, that the database checks.
//!
//! A condition combines a few tests with "and", "or" and "not". It becomes the parameters of one statement:
//! the tests, and for each combination of their outcomes whether a person matches.

/// Maximum number of tests of a handle in a condition.
pub(crate) const HANDLE_TESTS_MAX: usize = 3;

/// Number of combinations of outcomes: of the tests of a handle, and of being active.
pub(crate) const OUTCOMES: usize = 2 << HANDLE_TESTS_MAX;

/// A comparison of a handle with a text, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleTest {
    Is,
    Begins,
    Contains,
    Ends,
}

impl HandleTest {
    fn name(self) -> &'static str {
        match self {
            Self::Is => "is",
            Self::Begins => "begins",
            Self::Contains => "contains",
            Self::Ends => "ends",
        }
    }
}

/// A condition on people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeopleCondition {
    /// The tests. Their texts are not empty.
    pub tests: Vec<(HandleTest, String)>,
    /// Whether each combination matches. In its number, bit 0 means that the person is active, bit 1 that the
    /// first test holds, and so on.
    pub outcomes: [bool; OUTCOMES],
}

impl PeopleCondition {
    /// Returns the name and the text of each test, and the outcomes as a text of digits.
    pub(super) fn params(&self) -> ([&'static str; HANDLE_TESTS_MAX], [&str; HANDLE_TESTS_MAX], String) {
        let mut names = ["none"; HANDLE_TESTS_MAX];
        let mut texts = [""; HANDLE_TESTS_MAX];
        for ((name, text), (test, with)) in names.iter_mut().zip(&mut texts).zip(&self.tests) {
            (*name, *text) = (test.name(), with);
        }
        let outcomes = self.outcomes.iter().map(|wanted| if *wanted { '1' } else { '0' }).collect();
        (names, texts, outcomes)
    }
}

/// The bit of a test in the number of a combination: `$worth`, or 0 if the test does not hold.
macro_rules! outcome {
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

/// The condition that a person's combination matches.
macro_rules! wanted {
    ($rest:literal) => {
        concat!(
            "and substr(cast($8 as text), 1 + case when m.deactivated_at is null then 1 else 0 end + ",
            outcome!("$2", "cast($5 as text)", "2"),
            " + ",
            outcome!("$3", "cast($6 as text)", "4"),
            " + ",
            outcome!("$4", "cast($7 as text)", "8"),
            ", 1) = '1' ",
            $rest
        )
    };
}

pub(super) use {outcome, wanted};
