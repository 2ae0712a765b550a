//! Random bytes and ids for the whole service.
//!
//! The source is either the operating system or a seeded stream that makes tests repeatable.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Result;
use crate::error::Error;
use crate::id::Id;
use crate::time::Time;

/// A source of random bytes.
#[derive(Clone, Debug, Default)]
pub enum Entropy {
    /// The random number generator of the operating system.
    #[default]
    System,
    /// A repeatable stream. For tests only, because its keys and secrets can be guessed.
    Seeded(Arc<Mutex<u64>>),
}

impl Entropy {
    /// Creates a stream that is the same for every use of the same `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(Mutex::new(seed)))
    }

    /// Returns `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        match self {
            Self::System => {
                getrandom::fill(&mut bytes).map_err(|error| Error::internal(error.to_string()))?
            }
            Self::Seeded(state) => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                for chunk in bytes.chunks_mut(8) {
                    let word = split_mix(&mut state).to_le_bytes();
                    for (byte, random) in chunk.iter_mut().zip(word) {
                        *byte = random;
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// Returns a new id (UUID version 7, RFC 9562) for the time `now`.
    pub fn id<T: Id>(&self, now: Time) -> Result<T> {
        let millis = u64::try_from(now.micros() / 1000).unwrap_or(0);
        Ok(T::from(uuid::Builder::from_unix_timestamp_millis(millis, &self.bytes()?).into_uuid()))
    }
}

/// Performs one step of the random number generator SplitMix64, and returns the next number.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ThreadId;

    #[test]
    fn a_seed_repeats_and_an_id_is_version_7() {
        let now = Time::from_micros(1_795_000_000_000_000);
        let first: ThreadId = Entropy::seeded(1).id(now).unwrap();
        assert_eq!(first, Entropy::seeded(1).id(now).unwrap());
        assert_ne!(first, Entropy::seeded(2).id(now).unwrap());
        assert_eq!(first.uuid().get_version_num(), 7);
    }
}
