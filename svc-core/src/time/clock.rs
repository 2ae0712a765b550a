//! The service's clock: the machine's clock, or on Postgres the database's, so that servers agree.
//!
//! Between two readings, time passes by the monotonic clock. If a clock is set by more than a little, the
//! service follows it only after the change has persisted (see [`FollowedClock`]); until then, the change is
//! logged and reported. A clock that is ahead when a process starts is followed from the start, because only
//! stored times could be compared with it.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use super::followed_clock::{ClockOffset, FollowedClock, StepChange};
use super::{Monotonic, Time};
use crate::limits::{CLOCK_STEP_IMMEDIATE_MAX, CLOCK_STEP_PERSISTENCE};
use crate::sync::lock;

/// The source of time for the service. Clones show the same time.
///
/// A mock clock moves only on request, for tests and simulations.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    followed: Mutex<FollowedClocks>,
}

#[derive(Debug)]
enum Source {
    /// The machine's clock, shifted by this many microseconds, for testing servers whose clocks disagree.
    Machine(i64),
    /// A mock clock, which moves only on request.
    Mock(MockTime),
}

/// State of the machine's and the database's clock, which may be set while the service follows them.
#[derive(Debug, Default)]
struct FollowedClocks {
    machine: Option<FollowedClock>,
    /// The database's clock, once it has been read.
    database: Option<FollowedClock>,
    /// The latest time that was returned or, at the start, the latest stored time.
    latest: Option<Time>,
}

/// The state of a mock clock: the times that it shows, and the sleepers that it wakes.
struct MockTime {
    reading: Mutex<ClockReading>,
    sleepers: Mutex<Vec<Weak<dyn Sleeper>>>,
}

#[derive(Clone, Copy)]
struct ClockReading {
    wall: Time,
    /// The time that the mocked clock of the database shows.
    database: Time,
    monotonic: Monotonic,
}

impl std::fmt::Debug for MockTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MockTime({})", lock(&self.reading).wall)
    }
}

/// A waiter that must read a mock clock again after it has moved.
pub(crate) trait Sleeper: Send + Sync {
    /// Called after the mock clock has moved.
    fn on_clock_moved(&self);
}

/// The process's first reading of the machine's monotonic clock, which is the origin of [`Monotonic`].
static START: OnceLock<Instant> = OnceLock::new();

impl Clock {
    /// Creates a clock that follows the machine's clock, until a database's clock is read, and then the
    /// database's.
    pub fn system() -> Self {
        Self::wrong(0)
    }

    /// Creates a clock that runs `micros` microseconds ahead of the machine's clock.
    pub fn wrong(micros: i64) -> Self {
        Self::with_source(Source::Machine(micros))
    }

    /// Creates a clock that shows `start` until it is advanced.
    pub fn mock(start: Time) -> Self {
        let reading = ClockReading { wall: start, database: start, monotonic: Monotonic::default() };
        Self::with_source(Source::Mock(MockTime { reading: Mutex::new(reading), sleepers: Mutex::default() }))
    }

    fn with_source(source: Source) -> Self {
        Self(Arc::new(Inner { source, followed: Mutex::default() }))
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        let mut followed = lock(&self.0.followed);
        let monotonic = self.monotonic();
        let wall = self.0.source.wall();
        let ahead = wall.micros().saturating_sub(monotonic.signed_micros());
        let reading = ClockOffset { min: ahead, max: ahead };
        let result = apply_reading(&mut followed.machine, reading, monotonic);
        let offset = followed.database.or(followed.machine).map_or(ahead, |clock| clock.offset_micros());
        let now = Time::from_micros(add_offset(monotonic, offset));
        followed.latest = followed.latest.max(Some(now));
        drop(followed);
        log_step(MACHINE_CLOCK, result);
        now
    }

    /// Follows the database's clock, which showed `database_time` in the reply to a query sent at
    /// `requested_at`.
    ///
    /// After that, the current time is that of the database.
    pub fn follow_database(&self, database_time: Time, requested_at: Monotonic) {
        let mut followed = lock(&self.0.followed);
        let now = self.monotonic();
        let database_time = match &self.0.source {
            Source::Machine(_) => database_time,
            Source::Mock(mock) => lock(&mock.reading).database,
        };
        let ahead_at = |moment: Monotonic| database_time.micros().saturating_sub(moment.signed_micros());
        let reading = ClockOffset { min: ahead_at(now), max: ahead_at(requested_at) };
        if followed.database.is_none() {
            // Until now, the machine's clock was followed.
            followed.latest = None;
        }
        let result = apply_reading(&mut followed.database, reading, now);
        drop(followed);
        log_step(DATABASE_CLOCK, result);
    }

    /// Records a time that was stored before this process started. Logs the time if it is in the future.
    pub fn note_stored_time(&self, stored: Time) {
        let now = self.now();
        let mut followed = lock(&self.0.followed);
        followed.latest = followed.latest.max(Some(stored));
        drop(followed);
        if is_too_far_ahead(stored, now) {
            tracing::warn!(%stored, %now, "the newest stored time lies in the future: a clock is wrong");
        }
    }

    /// Returns a warning if a clock was set or times in the future were used, or `None` if all is well.
    pub fn warning(&self) -> Option<String> {
        let now = self.now();
        let followed = lock(&self.0.followed);
        let describe_step = |name, clock: Option<FollowedClock>| {
            let by = clock?.pending_step_micros()?;
            Some(format!("{name} was set {}, which does not count yet", format_step(by)))
        };
        let latest = followed.latest.filter(|latest| is_too_far_ahead(*latest, now));
        let remarks = [
            describe_step(MACHINE_CLOCK, followed.machine),
            describe_step(DATABASE_CLOCK, followed.database),
            latest.map(|latest| {
                format!("times up to {latest} were given, which lie in the future: it is {now}")
            }),
        ];
        let remarks: Vec<String> = remarks.into_iter().flatten().collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }

    /// Returns the current time of the monotonic clock.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the service reads the machine's monotonic clock"
    )]
    pub fn monotonic(&self) -> Monotonic {
        match &self.0.source {
            Source::Machine(_) => {
                let now = Instant::now();
                Monotonic(now.saturating_duration_since(*START.get_or_init(|| now)))
            }
            Source::Mock(mock) => lock(&mock.reading).monotonic,
        }
    }

    /// Returns the deadline `span` from now.
    pub fn deadline(&self, span: Duration) -> Monotonic {
        self.monotonic().plus(span)
    }

    /// Returns the remaining time until `deadline`, or zero if the deadline has passed.
    pub fn remaining(&self, deadline: Monotonic) -> Duration {
        deadline.since(self.monotonic())
    }

    /// Returns whether time passes only by [`Clock::advance`].
    pub(crate) fn is_mock(&self) -> bool {
        matches!(self.0.source, Source::Mock(_))
    }

    /// Moves a mock clock forward and wakes its sleepers. Has no effect on the system's clock.
    pub fn advance(&self, span: Duration) {
        self.update_mock_and_wake(|reading| ClockReading {
            wall: reading.wall.plus(span),
            database: reading.database.plus(span),
            monotonic: reading.monotonic.plus(span),
        });
    }

    /// Sets a mock clock to `time`, forward or back, without moving any deadline, as if the change had
    /// already persisted.
    ///
    /// Has no effect on the system's clock.
    pub fn set(&self, time: Time) {
        if !self.is_mock() {
            return;
        }
        let mut followed = lock(&self.0.followed);
        (followed.machine, followed.database) = (None, None);
        self.update_mock(|reading| ClockReading { wall: time, database: time, ..reading });
        drop(followed);
        self.wake_sleepers();
    }

    /// Sets the mocked clock of the machine `micros` microseconds ahead, or back if `micros` is negative.
    ///
    /// Has no effect on the system's clock.
    pub fn step(&self, micros: i64) {
        self.update_mock_and_wake(|reading| ClockReading { wall: reading.wall.shifted(micros), ..reading });
    }

    /// Sets the mocked clock of the database `micros` microseconds ahead, or back if `micros` is negative.
    ///
    /// Has no effect on the system's clock.
    pub fn step_database(&self, micros: i64) {
        self.update_mock_and_wake(|reading| ClockReading {
            database: reading.database.shifted(micros),
            ..reading
        });
    }

    /// Registers `sleeper` to be woken whenever a mock clock moves, until `sleeper` is dropped.
    pub(crate) fn wake(&self, sleeper: Weak<dyn Sleeper>) {
        if let Source::Mock(mock) = &self.0.source {
            lock(&mock.sleepers).push(sleeper);
        }
    }

    fn update_mock_and_wake(&self, next: impl FnOnce(ClockReading) -> ClockReading) {
        self.update_mock(next);
        self.wake_sleepers();
    }

    fn update_mock(&self, next: impl FnOnce(ClockReading) -> ClockReading) {
        if let Source::Mock(mock) = &self.0.source {
            let mut reading = lock(&mock.reading);
            *reading = next(*reading);
        }
    }

    fn wake_sleepers(&self) {
        let Source::Mock(mock) = &self.0.source else { return };
        let mut sleepers = lock(&mock.sleepers);
        sleepers.retain(|sleeper| sleeper.strong_count() > 0);
        let woken: Vec<_> = sleepers.iter().filter_map(Weak::upgrade).collect();
        // No lock of the clock is held while sleepers are woken, because they read the clock.
        drop(sleepers);
        woken.iter().for_each(|sleeper| sleeper.on_clock_moved());
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl Source {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the service reads the machine's clock"
    )]
    fn wall(&self) -> Time {
        match self {
            Self::Machine(micros) => Time(jiff::Timestamp::now().as_microsecond()).shifted(*micros),
            Self::Mock(mock) => lock(&mock.reading).wall,
        }
    }
}

const MACHINE_CLOCK: &str = "the machine's clock";
const DATABASE_CLOCK: &str = "the database's clock";

fn apply_reading(
    clock: &mut Option<FollowedClock>,
    reading: ClockOffset,
    now: Monotonic,
) -> Option<StepChange> {
    match clock {
        Some(clock) => clock.apply_reading(reading, now),
        None => {
            *clock = Some(FollowedClock::new(reading, now));
            None
        }
    }
}

fn log_step(clock: &'static str, result: Option<StepChange>) {
    match result {
        None => {}
        Some(StepChange::Pending(by)) => {
            let secs = CLOCK_STEP_PERSISTENCE.as_secs();
            tracing::warn!("{clock} was set {}: that counts if it lasts {secs} s", format_step(by));
        }
        Some(StepChange::Undone) => {
            tracing::warn!("{clock} is right again: nothing has followed from it")
        }
        Some(StepChange::Applied(by)) => {
            tracing::warn!("{clock} was set {}: that counts from now on", format_step(by))
        }
    }
}

fn format_step(micros: i64) -> String {
    let secs = micros.unsigned_abs() / 1_000_000;
    format!("{secs} s {}", if micros < 0 { "back" } else { "ahead" })
}

/// Returns whether `time` is so far after `now` that a clock must be wrong.
fn is_too_far_ahead(time: Time, now: Time) -> bool {
    time.since(now) > CLOCK_STEP_IMMEDIATE_MAX
}

/// Returns the time, in microseconds since the Unix epoch, of a clock that is `micros` microseconds ahead of
/// the monotonic clock.
fn add_offset(monotonic: Monotonic, micros: i64) -> i64 {
    monotonic.signed_micros().saturating_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn mock() -> (Clock, Time) {
        let start = Time::from_micros(1_795_000_000_000_000);
        let clock = Clock::mock(start);
        assert_eq!(clock.now(), start);
        (clock, start)
    }

    fn after(start: Time, secs: u64) -> Time {
        start.plus(Duration::from_secs(secs))
    }

    #[test]
    fn setting_a_clock_moves_no_deadline() {
        let clock = Clock::mock(Time::from_micros(1_000_000));
        let deadline = clock.deadline(Duration::from_secs(5));
        clock.set(Time::from_micros(86_400_000_000));
        assert_eq!(clock.now(), Time::from_micros(86_400_000_000));
        assert_eq!(clock.remaining(deadline), Duration::from_secs(5));
        clock.set(Time::from_micros(1));
        clock.advance(Duration::from_secs(6));
        assert_eq!(clock.now(), Time::from_micros(6_000_001));
        assert_eq!(clock.remaining(deadline), Duration::ZERO);
    }

    #[test]
    fn the_system_clock_goes_forward_and_cannot_be_advanced() {
        let clock = Clock::system();
        let before = clock.monotonic();
        let now = clock.now();
        clock.advance(Duration::from_secs(1_000_000));
        clock.set(Time::from_micros(1));
        clock.step(DAY);
        clock.step_database(DAY);
        assert!(clock.monotonic() >= before);
        assert!(clock.remaining(before.plus(Duration::from_secs(1_000_000))) > Duration::ZERO);
        assert!(clock.now().micros().abs_diff(now.micros()) < DAY.unsigned_abs());
    }

    #[test]
    fn time_follows_a_machine_that_was_set_after_a_minute() {
        for step in [DAY, -DAY] {
            let (clock, start) = mock();
            clock.step(step);
            assert_eq!(clock.now(), start);
            assert!(clock.warning().unwrap().starts_with("the machine's clock was set 86400 s "));
            clock.advance(Duration::from_secs(59));
            assert_eq!(clock.now(), after(start, 59));
            clock.advance(Duration::from_secs(1));
            assert_eq!(clock.now(), after(start, 60).shifted(step));
            let back = (step < 0).then(|| {
                format!(
                    "times up to {} were given, which lie in the future: it is {}",
                    after(start, 59),
                    clock.now()
                )
            });
            assert_eq!(clock.warning(), back, "later times were handed out before");
        }
    }

    #[test]
    fn a_machine_that_is_wrong_for_a_moment_leaves_nothing() {
        let (clock, start) = mock();
        clock.step(DAY);
        assert_eq!(clock.now(), start);
        clock.advance(Duration::from_secs(6));
        clock.step(-DAY);
        assert_eq!((clock.now(), clock.warning()), (after(start, 6), None));
        clock.advance(Duration::from_secs(3600));
        assert_eq!((clock.now(), clock.warning()), (after(start, 3606), None));
        clock.step(9_000_000);
        assert_eq!((clock.now(), clock.warning()), (after(start, 3615), None), "this is a small one");
    }

    #[test]
    fn where_there_is_a_database_time_is_its() {
        let (clock, start) = mock();
        let follow_database = || clock.follow_database(Time::from_micros(1), clock.monotonic());
        clock.step_database(3_000_000);
        assert_eq!(clock.now(), start, "it is not known yet");
        follow_database();
        assert_eq!(clock.now(), after(start, 3));
        clock.step(DAY);
        assert!(clock.warning().unwrap().starts_with("the machine's clock was set 86400 s ahead"));
        clock.advance(Duration::from_secs(60));
        follow_database();
        assert_eq!(
            (clock.now(), clock.warning()),
            (after(start, 63), None),
            "the machine's counts for nothing"
        );
        clock.step_database(-DAY);
        follow_database();
        assert_eq!(clock.now(), after(start, 63));
        assert!(clock.warning().unwrap().starts_with("the database's clock was set 86400 s back"));
        clock.advance(Duration::from_secs(60));
        assert_eq!(clock.now(), after(start, 123), "it was not heard again");
        follow_database();
        assert_eq!(clock.now(), after(start, 123).shifted(-DAY));
    }

    #[test]
    fn a_real_database_is_heard_by_when_it_was_asked() {
        let clock = Clock::wrong(DAY);
        let right = clock.now().shifted(-DAY);
        clock.follow_database(right, clock.monotonic());
        let late = clock.now().since(right);
        assert!(right <= clock.now() && late < Duration::from_secs(3600), "{late:?}");
        // A reply that took long is not a step of the clock.
        let requested_at = Monotonic::default();
        clock.follow_database(
            clock.now().before(Duration::from_micros(clock.monotonic().micros())),
            requested_at,
        );
        assert!(clock.now() >= right);
        assert_eq!(clock.warning(), None);
    }

    #[test]
    fn a_stored_time_is_remarked_on_until_it_has_come() {
        let (clock, start) = mock();
        clock.note_stored_time(after(start, 10));
        assert_eq!(clock.warning(), None);
        clock.note_stored_time(after(start, 11));
        assert!(clock.warning().unwrap().starts_with("times up to "));
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.warning(), None);
    }
}
