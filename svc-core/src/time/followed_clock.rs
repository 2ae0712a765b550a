//! Tracks an adjustable clock (the machine's or the database's) as an offset from the monotonic clock.
//!
//! Small differences apply immediately. A larger step applies only after it has persisted, so that a clock
//! that is wrong for a moment has no effect.

use crate::limits::{CLOCK_STEP_IMMEDIATE_MAX, CLOCK_STEP_PERSISTENCE};

use super::Monotonic;

/// A reading of the followed clock: its offset from the monotonic clock, as a minimum and a maximum.
///
/// In microseconds. The clock is read between two readings of the monotonic clock, so its offset is known
/// only within these bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockOffset {
    pub min: i64,
    pub max: i64,
}

impl ClockOffset {
    /// Returns the offset within the bounds of the reading that is closest to `offset`.
    fn closest_to(self, offset: i64) -> i64 {
        offset.max(self.min).min(self.max)
    }
}

/// The state of a followed clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct FollowedClock {
    /// Offset of the clock in microseconds, without a pending step.
    offset: i64,
    /// Offset of the clock in microseconds at `reference_at`. Steps are measured from this offset, so that
    /// many small steps add up to a large one.
    reference: i64,
    reference_at: Monotonic,
    step: Option<PendingStep>,
}

/// A step of the clock that does not apply yet.
#[derive(Clone, Copy, Debug)]
struct PendingStep {
    /// Offset of the clock in microseconds since the step.
    offset: i64,
    since: Monotonic,
}

/// The change that a reading makes to the step of a followed clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepChange {
    /// The clock was set, by this many microseconds. The step is pending.
    Pending(i64),
    /// The clock has returned to its previous offset.
    Undone,
    /// The step has persisted, and applies from now on.
    Applied(i64),
}

impl FollowedClock {
    /// Follows a clock from its first reading, as if the reply had taken no time.
    pub fn new(first: ClockOffset, now: Monotonic) -> Self {
        let offset = first.min;
        Self { offset, reference: offset, reference_at: now, step: None }
    }

    /// Returns the offset of the clock in microseconds, without a pending step.
    pub fn offset_micros(&self) -> i64 {
        self.offset
    }

    /// Returns by how many microseconds the clock was set, or `None` if no step is pending.
    pub fn pending_step_micros(&self) -> Option<i64> {
        self.step.map(|step| step.offset.saturating_sub(self.offset))
    }

    /// Applies a reading at the time `now`.
    pub fn apply_reading(&mut self, reading: ClockOffset, now: Monotonic) -> Option<StepChange> {
        let offset = reading.closest_to(self.offset);
        if is_small_step(offset, self.reference) {
            self.offset = offset;
            if now.since(self.reference_at) >= CLOCK_STEP_PERSISTENCE {
                (self.reference, self.reference_at) = (offset, now);
            }
            return self.step.take().map(|_| StepChange::Undone);
        }
        match self.step {
            Some(step) if is_small_step(reading.closest_to(step.offset), step.offset) => {
                if now.since(step.since) < CLOCK_STEP_PERSISTENCE {
                    return None;
                }
                let by = offset.saturating_sub(self.offset);
                *self = Self { offset, reference: offset, reference_at: now, step: None };
                Some(StepChange::Applied(by))
            }
            _ => {
                self.step = Some(PendingStep { offset, since: now });
                Some(StepChange::Pending(offset.saturating_sub(self.offset)))
            }
        }
    }
}

/// Returns whether a change of the offset is small enough to apply immediately.
fn is_small_step(offset: i64, previous: i64) -> bool {
    u128::from(offset.abs_diff(previous)) <= CLOCK_STEP_IMMEDIATE_MAX.as_micros()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: i64 = 1_000_000;
    const DAY: i64 = 86_400 * SECOND;

    /// A followed clock with the current time.
    struct Followed(FollowedClock, Monotonic);

    impl Followed {
        fn new() -> Self {
            let start = Monotonic::default();
            Self(FollowedClock::new(ClockOffset { min: 5, max: 5 }, start), start)
        }

        /// Applies a reading after `secs` more seconds, in which the clock is `ahead` of its first reading.
        fn after(&mut self, secs: u64, ahead: i64) -> Option<StepChange> {
            self.after_between(secs, ahead, ahead)
        }

        fn after_between(&mut self, secs: u64, at_least: i64, at_most: i64) -> Option<StepChange> {
            self.1 = self.1.plus(Duration::from_secs(secs));
            self.0.apply_reading(ClockOffset { min: 5 + at_least, max: 5 + at_most }, self.1)
        }

        fn ahead(&self) -> i64 {
            self.0.offset_micros() - 5
        }
    }

    #[test]
    fn what_is_small_counts_at_once() {
        let mut clock = Followed::new();
        for ahead in [3, -3, 10 * SECOND, -10 * SECOND, 0] {
            assert_eq!((clock.after(1, ahead), clock.ahead()), (None, ahead));
        }
    }

    #[test]
    fn a_step_counts_once_it_has_lasted() {
        for step in [10 * SECOND + 1, DAY, -10 * SECOND - 1, -DAY] {
            let mut clock = Followed::new();
            assert_eq!(clock.after(7, step), Some(StepChange::Pending(step)));
            assert_eq!((clock.ahead(), clock.0.pending_step_micros()), (0, Some(step)));
            assert_eq!((clock.after(59, step + step.signum()), clock.ahead()), (None, 0), "it may drift");
            assert_eq!(clock.after(1, step), Some(StepChange::Applied(step)));
            assert_eq!((clock.ahead(), clock.0.pending_step_micros()), (step, None));
            assert_eq!((clock.after(1, step), clock.ahead()), (None, step));
        }
    }

    #[test]
    fn a_clock_that_goes_back_in_time_was_never_set() {
        let mut clock = Followed::new();
        assert_eq!(clock.after(1, DAY), Some(StepChange::Pending(DAY)));
        assert_eq!((clock.after(59, 1), clock.ahead()), (Some(StepChange::Undone), 1));
        assert_eq!(
            (clock.after(1, DAY), clock.ahead()),
            (Some(StepChange::Pending(DAY - 1)), 1),
            "begun anew"
        );
        assert_eq!((clock.after(59, DAY), clock.ahead()), (None, 1));
    }

    #[test]
    fn another_step_begins_anew() {
        let mut clock = Followed::new();
        assert_eq!(clock.after(1, DAY), Some(StepChange::Pending(DAY)));
        assert_eq!(clock.after(59, 2 * DAY), Some(StepChange::Pending(2 * DAY)));
        assert_eq!((clock.after(59, 2 * DAY), clock.ahead()), (None, 0));
        assert_eq!((clock.after(1, 2 * DAY), clock.ahead()), (Some(StepChange::Applied(2 * DAY)), 2 * DAY));
    }

    #[test]
    fn many_small_steps_are_a_large_one() {
        let mut clock = Followed::new();
        assert_eq!((clock.after(1, 9 * SECOND), clock.ahead()), (None, 9 * SECOND));
        assert_eq!(clock.after(1, 18 * SECOND), Some(StepChange::Pending(9 * SECOND)));
        assert_eq!(clock.after(1, 27 * SECOND), None, "it moves on with the clock");
        assert_eq!(clock.ahead(), 9 * SECOND);
        let mut slow = Followed::new();
        for second in 1..100 {
            assert_eq!(slow.after(60, second * 9 * SECOND), None, "this is slow enough");
        }
        assert_eq!(slow.ahead(), 99 * 9 * SECOND);
    }

    #[test]
    fn a_slow_reading_tells_little() {
        let mut clock = Followed::new();
        assert_eq!((clock.after_between(1, -30 * SECOND, 1), clock.ahead()), (None, 0));
        assert_eq!((clock.after_between(1, -30 * SECOND, -SECOND), clock.ahead()), (None, -SECOND));
        assert_eq!((clock.after_between(1, SECOND, DAY), clock.ahead()), (None, SECOND));
        let step = clock.after_between(1, 20 * SECOND, DAY);
        assert_eq!((step, clock.ahead()), (Some(StepChange::Pending(19 * SECOND)), SECOND));
    }
}
