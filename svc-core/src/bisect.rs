//! Binary search in a range of positions.

use crate::Result;

/// Returns the last position from `low + 1` to `high` at which `predicate` returns true, or `low` if there
/// is no such position.
///
/// `predicate` must return true up to some position, and false after that.
pub(crate) fn last_position_where(
    mut low: i64,
    mut high: i64,
    mut predicate: impl FnMut(i64) -> Result<bool>,
) -> Result<i64> {
    while low < high {
        let middle = high.saturating_sub(high.saturating_sub(low) / 2);
        if predicate(middle)? {
            low = middle;
        } else {
            high = middle.saturating_sub(1);
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_position_is_found_wherever_it_is() {
        for (low, high) in [(0, 0), (0, 1), (4, 21), (i64::MAX - 3, i64::MAX)] {
            for last in low..=high {
                let mut steps = 0;
                let found = last_position_where(low, high, |position| {
                    assert!(position > low && position <= high);
                    steps += 1;
                    Ok(position <= last)
                });
                assert_eq!(found.unwrap(), last);
                assert!(steps <= 5, "{steps}");
            }
        }
    }
}
