//! Hostile input for property tests of parsers: pieces of valid input, in any order.
//!
//! Used by unit tests of this crate, and by those of `svc-http`, which include this file.

use proptest::prelude::{ProptestConfig, Strategy, any};
use proptest::{collection, prop_oneof, sample};

/// Variable with the number of inputs for each property. More inputs find more faults.
const INPUTS: &str = "SVC_TEST_INPUTS";
/// Number of inputs for each property if the variable is not set.
const INPUTS_DEFAULT: u32 = 4000;

/// Number of inputs in one case. The inputs of a case share most pieces, because pieces are slow to choose.
const PER_CASE: usize = 8;

/// Returns the settings for a property whose cases are created by [`sent`].
pub(crate) fn inputs() -> ProptestConfig {
    let inputs: Option<u32> = std::env::var(INPUTS).ok().and_then(|inputs| inputs.parse().ok());
    let per_case = u32::try_from(PER_CASE).unwrap_or(1);
    ProptestConfig::with_cases(inputs.unwrap_or(INPUTS_DEFAULT).div_ceil(per_case))
}

/// Returns the inputs of one case: pieces of `known` and other bytes, each input one piece shorter than the
/// previous one.
pub(crate) fn sent(known: &[&str]) -> impl Strategy<Value = [Vec<u8>; PER_CASE]> + use<> {
    let known: Vec<Vec<u8>> = known.iter().map(|piece| piece.as_bytes().to_vec()).collect();
    let other = collection::vec(any::<u8>(), 0..4);
    let piece = prop_oneof![8 => sample::select(known), 1 => other];
    let pieces = collection::vec(piece, PER_CASE..PER_CASE * 2);
    pieces.prop_map(|pieces| std::array::from_fn(|first| pieces[first..].concat()))
}

/// Returns the inputs of one case, as [`sent`] does, but as texts.
pub(crate) fn texts(known: &[&str]) -> impl Strategy<Value = [String; PER_CASE]> + use<> {
    sent(known).prop_map(|inputs| inputs.map(|input| String::from_utf8_lossy(&input).into_owned()))
}
