//! Quiet hours, in which a member receives no emails or pushes, and the times of digests.
//!
//! Quiet hours and digests use local times in the member's time zone. If a clock change skips a time, the end
//! of the gap is used. If a time occurs twice, the first occurrence is used, except for the end of quiet
//! hours: they end at the second occurrence, unless clocks are set back to exactly that time.

use std::borrow::Cow;
use std::time::Duration;

use jiff::civil::{Date, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone, db};
use jiff::{Timestamp, ToSpan as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::request::object;
use crate::store::named_enum;
use crate::text::{Items, nearest};
use crate::time::Time;

/// A time of day, as `HH:MM`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TimeOfDay(String);

impl std::ops::Deref for TimeOfDay {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

crate::argument::text_arguments! { TimeOfDay, ZoneName }

impl TimeOfDay {
    fn parse(text: String) -> Option<Self> {
        let number = |digits: &str, below: u8| {
            digits.len() == 2 && digits.parse().is_ok_and(|number: u8| number < below)
        };
        let is_time =
            text.split_once(':').is_some_and(|(hours, minutes)| number(hours, 24) && number(minutes, 60));
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
        (is_time && is_plain).then_some(Self(text))
    }
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let time = Self::parse(String::deserialize(deserializer)?);
        time.ok_or_else(|| de::Error::custom("expected a time of day from 00:00 to 23:59"))
    }
}

/// Deserializes the end of quiet hours: a time of day, or `24:00`, which is stored as `00:00`.
fn deserialize_end<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeOfDay, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = TimeOfDay::parse(if text == "24:00" { MIDNIGHT.to_owned() } else { text });
    time.ok_or_else(|| de::Error::custom("expected a time of day from 00:00 to 24:00"))
}

fn end_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"})
}

const MIDNIGHT: &str = "00:00";

impl JsonSchema for TimeOfDay {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "TimeOfDay".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"})
    }
}

/// Name of a time zone in the IANA database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ZoneName(String);

impl std::ops::Deref for ZoneName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Maximum characters in the name of a time zone.
const ZONE_NAME_MAX: usize = 64;

impl<'de> Deserialize<'de> for ZoneName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() <= ZONE_NAME_MAX
            && let Ok(zone) = TimeZone::get(&text)
            && let Some(name) = zone.iana_name()
        {
            return Ok(Self(name.to_owned()));
        }
        let known: Vec<String> = db().available().map(|name| name.as_str().to_owned()).collect();
        let known: Vec<&str> = known.iter().map(|name| &**name).collect();
        Err(de::Error::custom(match nearest(&text, &known) {
            Some(near) => format!("no time zone has this name, did you mean `{near}`?"),
            None => "no time zone has this name: expected one such as `Europe/Berlin`".to_owned(),
        }))
    }
}

impl JsonSchema for ZoneName {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ZoneName".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": ZONE_NAME_MAX})
    }
}

named_enum! {
    /// A day of the week.
    #[non_exhaustive]
    pub enum Day {
        Monday = "mon", Tuesday = "tue", Wednesday = "wed", Thursday = "thu", Friday = "fri",
        Saturday = "sat", Sunday = "sun",
    }
}

object! {
    /// Hours without emails and pushes.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[non_exhaustive]
    pub struct QuietHours {
        /// When the quiet hours begin.
        pub start: TimeOfDay,
        /// When the quiet hours end: on the next day, unless `end` is later than `start`. If both are the
        /// same, quiet hours last all day. `24:00` means `00:00`.
        #[serde(deserialize_with = "deserialize_end")]
        #[schemars(schema_with = "end_schema")]
        pub end: TimeOfDay,
        /// Name of the time zone in the IANA database.
        pub time_zone: ZoneName,
        /// The days on which the quiet hours begin. Default: every day.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub days: Option<Items<Day, 7>>,
    }

    new_quiet_hours::NewQuietHours(start: TimeOfDay, end: TimeOfDay, time_zone: ZoneName) for QuietHours
}

named_enum! {
    /// Interval between digests.
    #[schemars(rename = "Every")]
    pub enum DigestInterval { Hour = "hour", Day = "day", Week = "week" }
}

object! {
    /// Schedule of the digest, an email with the notifications that are not emailed individually.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Digest {
        /// Interval between digests; weekly digests are sent on Mondays.
        pub every: DigestInterval,
        /// Time of the day, in the time zone of the quiet hours, or in UTC without quiet hours. With `hour`,
        /// only the minutes are used.
        pub at: TimeOfDay,
    }

    new_digest::NewDigest(every: DigestInterval, at: TimeOfDay) for Digest
}

/// Returns the time zone of the quiet hours, or UTC if there are none.
pub(super) fn zone_or_utc(quiet: Option<&QuietHours>) -> TimeZone {
    quiet.map_or(TimeZone::UTC, |quiet| quiet.time_zone.time_zone())
}

impl ZoneName {
    fn time_zone(&self) -> TimeZone {
        // The name was validated when it was parsed, against a database that is compiled into the program.
        TimeZone::get(&self.0).unwrap_or(TimeZone::UTC)
    }
}

impl Day {
    fn weekday(self) -> Weekday {
        match self {
            Self::Monday => Weekday::Monday,
            Self::Tuesday => Weekday::Tuesday,
            Self::Wednesday => Weekday::Wednesday,
            Self::Thursday => Weekday::Thursday,
            Self::Friday => Weekday::Friday,
            Self::Saturday => Weekday::Saturday,
            Self::Sunday => Weekday::Sunday,
        }
    }
}

impl TimeOfDay {
    /// Returns the hour and the minute of this time.
    fn hour_and_minute(&self) -> (i8, i8) {
        let (hour, minute) = self.0.split_once(':').unwrap_or_default();
        (hour.parse().unwrap_or_default(), minute.parse().unwrap_or_default())
    }
}

/// The occurrence to use for a local time that occurs twice.
#[derive(Clone, Copy)]
enum RepeatedTime {
    First,
    Second,
}

/// Returns the instant at which clocks in `zone` show this date and time.
fn local_instant(zone: &TimeZone, date: Date, time: &TimeOfDay, occurrence: RepeatedTime) -> Option<Time> {
    let (hour, minute) = time.hour_and_minute();
    let shown = date.at(hour, minute, 0, 0);
    let ambiguous = zone.to_ambiguous_timestamp(shown);
    let timestamp = match ambiguous.offset() {
        // The earlier candidate uses the offset after the gap, and lies before the gap.
        AmbiguousOffset::Gap { .. } => {
            let before = ambiguous.earlier().ok()?;
            zone.following(before).next()?.timestamp()
        }
        _ => match occurrence {
            RepeatedTime::First => ambiguous.earlier().ok()?,
            RepeatedTime::Second => {
                let later = ambiguous.later().ok()?;
                // If clocks show a later time just before this instant, they are set back to `shown`.
                let before = Timestamp::from_microsecond(later.as_microsecond().checked_sub(1)?).ok()?;
                if zone.to_datetime(before) < shown { later } else { ambiguous.earlier().ok()? }
            }
        },
    };
    Some(Time::from_micros(timestamp.as_microsecond()))
}

/// Returns the local date at `now` in `zone`.
fn local_date(zone: &TimeZone, now: Time) -> Option<Date> {
    Some(zone.to_datetime(Timestamp::from_microsecond(now.micros()).ok()?).date())
}

impl QuietHours {
    /// Returns when the current quiet hours end, or `None` if `now` is not within quiet hours.
    pub fn current_end(&self, now: Time) -> Option<Time> {
        let zone = self.time_zone.time_zone();
        let today = local_date(&zone, now)?;
        let ends = [today.yesterday().ok()?, today].into_iter().filter(|date| self.begins_on(*date));
        ends.filter_map(|date| {
            let begin = local_instant(&zone, date, &self.start, RepeatedTime::First)?;
            let last = if self.end.0 <= self.start.0 { date.tomorrow().ok()? } else { date };
            let end = local_instant(&zone, last, &self.end, RepeatedTime::Second)?;
            (begin <= now && now < end).then_some(end)
        })
        .max()
    }

    fn begins_on(&self, date: Date) -> bool {
        let weekday = date.weekday();
        self.days.as_ref().is_none_or(|days| days.iter().any(|day| day.weekday() == weekday))
    }
}

impl Digest {
    /// Returns the default digest, which is sent on the hour.
    pub fn hourly() -> Self {
        Self { every: DigestInterval::Hour, at: TimeOfDay(MIDNIGHT.to_owned()) }
    }

    /// Returns the time of the first digest after `after`.
    pub fn next_time(&self, after: Time, zone: &TimeZone) -> Time {
        let next = match self.every {
            DigestInterval::Hour => self.next_hourly(after, zone),
            DigestInterval::Day => self.next_on_matching_day(after, zone, |_| true),
            DigestInterval::Week => {
                self.next_on_matching_day(after, zone, |date| date.weekday() == Weekday::Monday)
            }
        };
        next.unwrap_or(after.plus(ONE_DAY))
    }

    /// Finds the next matching minute by trying each minute, because an offset may change by half an hour.
    fn next_hourly(&self, after: Time, zone: &TimeZone) -> Option<Time> {
        let (_, minute) = self.at.hour_and_minute();
        let begun = after.micros().div_euclid(MINUTE_MICROS).saturating_mul(MINUTE_MICROS);
        let minutes =
            (1..=120).map(|n| Time::from_micros(begun.saturating_add(MINUTE_MICROS.saturating_mul(n))));
        minutes.into_iter().find(|time| {
            let shown = Timestamp::from_microsecond(time.micros()).map(|time| zone.to_datetime(time));
            shown.is_ok_and(|shown| shown.minute() == minute)
        })
    }

    /// Returns the first occurrence of the digest's time after `after` on a day for which `is_day` is true.
    fn next_on_matching_day(
        &self,
        after: Time,
        zone: &TimeZone,
        is_day: impl Fn(Date) -> bool,
    ) -> Option<Time> {
        let today = local_date(zone, after)?;
        let dates = (0..=8).filter_map(|days: i64| today.checked_add(days.days()).ok());
        let times = dates
            .filter(|date| is_day(*date))
            .filter_map(|date| local_instant(zone, date, &self.at, RepeatedTime::First));
        times.filter(|time| *time > after).min()
    }
}

const ONE_DAY: Duration = Duration::from_secs(86_400);

const MINUTE_MICROS: i64 = 60_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Time zones that change clocks at different times, one of them by half an hour; the last never does.
    const ZONES: [&str; 3] = ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"];

    fn quiet(start: &str, end: &str, zone: &str, days: Option<Vec<&str>>) -> QuietHours {
        let mut value = serde_json::json!({"start": start, "end": end, "time_zone": zone});
        if let Some(days) = days {
            value["days"] = days.into();
        }
        serde_json::from_value(value).unwrap()
    }

    fn digest(every: &str, at: &str) -> Digest {
        serde_json::from_value(serde_json::json!({"every": every, "at": at})).unwrap()
    }

    fn at(text: &str) -> Time {
        Time::from_micros(text.parse::<Timestamp>().unwrap().as_microsecond())
    }

    fn minute(n: i64) -> Time {
        Time::from_micros(n * MINUTE_MICROS)
    }

    /// Returns the end of the quiet hours by checking local time minute by minute, as a test oracle.
    fn seen_on_the_wall(quiet: &QuietHours, now: i64) -> Option<i64> {
        let zone = quiet.time_zone.time_zone();
        let shown = |n: i64| zone.to_datetime(Timestamp::from_microsecond(n * MINUTE_MICROS).unwrap());
        let minutes = (now - 3 * 1440)..(now + 3 * 1440);
        let walls: Vec<_> = minutes.clone().map(|n| (n, shown(n))).collect();
        let mut found = None;
        for days in -2..=1 {
            let date = shown(now).date().checked_add(days.days()).unwrap();
            if !quiet.days.as_ref().is_none_or(|all| all.iter().any(|day| day.weekday() == date.weekday())) {
                continue;
            }
            let (start_hour, start_minute) = quiet.start.hour_and_minute();
            let (end_hour, end_minute) = quiet.end.hour_and_minute();
            let start = date.at(start_hour, start_minute, 0, 0);
            let next = if (end_hour, end_minute) <= (start_hour, start_minute) { 1 } else { 0 };
            let end = date.checked_add(next.days()).unwrap().at(end_hour, end_minute, 0, 0);
            let begins = walls.iter().find(|(_, wall)| *wall >= start).unwrap().0;
            let ends = walls.iter().rfind(|(_, wall)| *wall < end).unwrap().0 + 1;
            if begins <= now && now < ends {
                found = found.max(Some(ends));
            }
        }
        found
    }

    /// Generates minutes from several years, many of them around clock changes.
    fn moments() -> impl Strategy<Value = i64> {
        let changes =
            ["2027-03-28T01:00:00Z", "2026-10-25T01:00:00Z", "2027-04-03T15:00:00Z", "2026-10-03T15:30:00Z"]
                .map(|text| at(text).micros() / MINUTE_MICROS);
        prop_oneof![
            29_000_000_i64..31_000_000,
            (0..4_usize, -2000_i64..2000).prop_map(move |(n, away)| changes[n] + away),
        ]
    }

    fn time_of_day() -> impl Strategy<Value = String> {
        prop_oneof![(0..24, 0..60), (1..4, 0..60)].prop_map(|(hour, minute)| format!("{hour:02}:{minute:02}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn quiet_hours_are_those_of_the_clock_on_the_wall(
            now in moments(), start in time_of_day(), end in time_of_day(), zone in 0..3_usize,
            days in proptest::option::of(
                proptest::sample::subsequence(vec!["mon", "wed", "sat", "sun"], 1..4)
            ),
        ) {
            let quiet = quiet(&start, &end, ZONES[zone], days);
            let until = quiet.current_end(minute(now)).map(|time| time.micros() / MINUTE_MICROS);
            prop_assert_eq!(until, seen_on_the_wall(&quiet, now));
        }

        #[test]
        fn a_digest_is_due_when_the_clock_on_the_wall_shows_its_time(
            now in moments(), time in time_of_day(), every in 0..3_usize, zone in 0..3_usize,
        ) {
            let every = ["hour", "day", "week"][every];
            let zone = TimeZone::get(ZONES[zone]).unwrap();
            let next = digest(every, &time).next_time(minute(now), &zone).micros() / MINUTE_MICROS;
            let shown = |n: i64| zone.to_datetime(Timestamp::from_microsecond(n * MINUTE_MICROS).unwrap());
            let before = |n: i64| shown(n - 1);
            let (hour, minute) = TimeOfDay(time).hour_and_minute();
            let is_due = |n: i64| {
                let wall = shown(n);
                if every == "hour" {
                    return wall.minute() == minute;
                }
                let due = wall.date().at(hour, minute, 0, 0);
                // The expected result is the time itself or, in a gap, the end of the gap; the first
                // occurrence if there are two.
                let is_first = || !(n - 180..n).any(|earlier| shown(earlier) == wall);
                let comes = (wall == due || (before(n) < due && due < wall)) && is_first();
                comes && (every == "day" || wall.weekday() == Weekday::Monday)
            };
            let found = (now + 1..=now + 9 * 1440).find(|n| is_due(*n));
            prop_assert_eq!(Some(next), found);
        }
    }

    #[test]
    fn what_the_clock_skips_ends_with_the_gap() {
        // The clock goes from 02:00 to 03:00.
        let quiet_in = quiet("22:00", "02:30", "Europe/Berlin", None);
        assert_eq!(quiet_in.current_end(at("2027-03-28T00:59:59Z")), Some(at("2027-03-28T01:00:00Z")));
        assert_eq!(quiet_in.current_end(at("2027-03-28T01:00:00Z")), None);
        let from = quiet("02:30", "04:00", "Europe/Berlin", None);
        assert_eq!(from.current_end(at("2027-03-28T00:59:59Z")), None);
        assert_eq!(from.current_end(at("2027-03-28T01:00:00Z")), Some(at("2027-03-28T02:00:00Z")));
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let daily = digest("day", "02:30");
        assert_eq!(daily.next_time(at("2027-03-27T12:00:00Z"), &berlin), at("2027-03-28T01:00:00Z"));
        // The clock goes back from 03:00 to 02:00, so 02:30 occurs twice.
        assert_eq!(quiet_in.current_end(at("2026-10-25T00:45:00Z")), Some(at("2026-10-25T01:30:00Z")));
        let until_two = quiet("22:00", "02:00", "Europe/Berlin", None);
        assert_eq!(until_two.current_end(at("2026-10-24T23:30:00Z")), Some(at("2026-10-25T00:00:00Z")));
        assert_eq!(until_two.current_end(at("2026-10-25T00:30:00Z")), None, "it was 02:00 before");
        assert_eq!(daily.next_time(at("2026-10-24T12:00:00Z"), &berlin), at("2026-10-25T00:30:00Z"));
        assert_eq!(daily.next_time(at("2026-10-25T00:30:00Z"), &berlin), at("2026-10-26T01:30:00Z"));
    }

    /// Quiet hours are in effect on the days on which they begin.
    #[test]
    fn quiet_hours_that_end_when_they_begin_last_all_day() {
        let always = |time: &str, end: &str, days: Option<Vec<&str>>| quiet(time, end, "Europe/Berlin", days);
        for (start, end) in [("00:00", "24:00"), ("00:00", "00:00")] {
            let weekend = always(start, end, Some(vec!["sat", "sun"]));
            assert_eq!(weekend.current_end(at("2026-11-20T22:59:59Z")), None, "a Friday");
            for (now, until) in [
                ("2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z"),
                ("2026-11-21T23:00:00Z", "2026-11-22T23:00:00Z"),
                ("2026-11-22T22:59:59Z", "2026-11-22T23:00:00Z"),
                // These days have 25 and 23 hours.
                ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
                ("2027-03-27T23:00:00Z", "2027-03-28T22:00:00Z"),
            ] {
                assert_eq!(weekend.current_end(at(now)), Some(at(until)), "{now}");
            }
            assert_eq!(weekend.current_end(at("2026-11-22T23:00:00Z")), None, "a Monday");
        }
        let evening = quiet("18:00", "24:00", "UTC", None);
        assert_eq!(evening.current_end(at("2026-11-20T18:00:00Z")), Some(at("2026-11-21T00:00:00Z")));
        assert_eq!(evening.current_end(at("2026-11-21T00:00:00Z")), None);
        assert_eq!(serde_json::to_value(&evening).unwrap()["end"], "00:00");
        let from_noon = always("12:00", "12:00", Some(vec!["fri"]));
        assert_eq!(from_noon.current_end(at("2026-11-21T10:59:59Z")), Some(at("2026-11-21T11:00:00Z")));
        for (start, end) in [("24:00", "08:00"), ("08:00", "24:01"), ("08:00", "25:00"), ("8:00", "24:00")] {
            let value = serde_json::json!({"start": start, "end": end, "time_zone": "UTC"});
            assert!(serde_json::from_value::<QuietHours>(value).is_err(), "{start} to {end}");
        }
    }

    /// Quiet hours on every day never end, whatever the clock changes.
    #[test]
    fn quiet_hours_of_every_day_have_no_gap() {
        for zone in ZONES.into_iter().chain(["America/Havana", "Africa/Cairo", "Asia/Beirut"]) {
            for time in ["00:00", "00:30", "02:30", "12:00"] {
                let quiet = quiet(time, time, zone, None);
                let mut now = at("2026-10-01T00:00:00Z");
                let end = at("2027-12-01T00:00:00Z");
                while now < end {
                    let until = quiet.current_end(now).unwrap_or_else(|| panic!("{zone} {time}: {now}"));
                    assert!(until > now && until.since(now) <= Duration::from_secs(25 * 3600 + 1800));
                    now = until;
                }
            }
        }
    }

    #[test]
    fn quiet_hours_may_cross_midnight_on_the_days_on_which_they_begin() {
        let weekend = quiet("20:00", "08:00", "UTC", Some(vec!["fri", "sat"]));
        assert_eq!(weekend.current_end(at("2026-11-20T19:59:00Z")), None, "a Friday");
        assert_eq!(weekend.current_end(at("2026-11-20T20:00:00Z")), Some(at("2026-11-21T08:00:00Z")));
        assert_eq!(weekend.current_end(at("2026-11-22T07:59:00Z")), Some(at("2026-11-22T08:00:00Z")));
        assert_eq!(weekend.current_end(at("2026-11-22T21:00:00Z")), None, "a Sunday");
        let weekly = digest("week", "09:00");
        assert_eq!(weekly.next_time(at("2026-11-18T00:00:00Z"), &TimeZone::UTC), at("2026-11-23T09:00:00Z"));
        assert_eq!(
            Digest::hourly().next_time(at("2026-11-18T09:00:00Z"), &TimeZone::UTC),
            at("2026-11-18T10:00:00Z")
        );
    }
}
