//! The statements that find the first threads of the queue, for each of its orders and each engine.

/// The statements that query the queue by channel or by pool, for all repositories or for one.
pub(super) struct QueueStatements {
    /// Finds the first thread of one channel or pool with the lowest skill set that is at least a given one.
    pub first_sqlite: &'static str,
    /// Like `first_sqlite`, but skips threads with the footprints in the last parameter.
    pub skipping_sqlite: &'static str,
    /// Finds the first thread of several channels or pools with one of several skill sets.
    pub first_postgres: &'static str,
    /// Like `first_postgres`, but finds the first [`WINDOW`] threads.
    pub window_postgres: &'static str,
    /// Like `first_postgres`, but looks only at the skill sets of queued threads.
    pub walk_postgres: &'static str,
}

/// The end of a statement whose common table expression `candidate` contains the found threads.
///
/// It selects whether the workspace has skill sets that the connection has not cached, and the candidates, or
/// one row of nulls without a candidate.
macro_rules! unknown_sets_or_candidate {
    () => {
        "select exists (select 1 from skill_sets where workspace_id = $3 and id > $4),
                candidate.thread_id, candidate.channel_id, candidate.footprint,
                candidate.urgency, candidate.lsn
         from (values (1)) as one (row) left join candidate on true
         order by candidate.urgency, candidate.lsn"
    };
}

/// The `candidate` on Postgres: the best of the first rows of each `place` and skill set in `$places`.
macro_rules! best_of {
    ($places:literal, $place:literal, $of_repo:literal, $limit:literal) => {
        concat!(
            "candidate as (
             select candidate.thread_id, candidate.channel_id, candidate.footprint, candidate.urgency,
                 candidate.lsn
             from ",
            $places,
            " cross join lateral (
                 select r.thread_id, r.channel_id, r.footprint, r.urgency, r.lsn from ready r where r.",
            $place,
            " = place.place and r.skill_set = place.skill_set",
            $of_repo,
            " and not r.footprint = any($5::bigint[]) order by r.urgency, r.lsn limit ",
            $limit,
            ") candidate order by candidate.urgency, candidate.lsn limit ",
            $limit,
            ") "
        )
    };
}

/// A statement that finds the first `$limit` threads of the places and skill sets in its parameters.
macro_rules! first_postgres {
    ($place:literal, $of_repo:literal, $limit:literal) => {
        concat!(
            "with ",
            best_of!(
                "(select wanted.place, covered.skill_set from unnest($1::uuid[]) as wanted (place)
                 cross join unnest($2::bigint[]) as covered (skill_set)) as place",
                $place,
                $of_repo,
                $limit
            ),
            unknown_sets_or_candidate!()
        )
    };
}

/// Number of threads that one statement reads ahead for the jobs of a batch.
pub(super) const WINDOW: usize = 64;

/// Builds the statements that read the queue by the column `$place`.
///
/// The `$of_repo_*` conditions limit the statements to a repository, by parameter 3 on SQLite and 6 on
/// Postgres; `$skipped` is the number of SQLite's last parameter.
macro_rules! probes {
    ($place:literal, $of_repo_sqlite:literal, $of_repo_postgres:literal, $skipped:literal) => {
        QueueStatements {
            first_sqlite: concat!(
                "select skill_set, urgency, lsn, thread_id, channel_id, footprint from ready where ",
                $place,
                " = $1 and skill_set >= $2",
                $of_repo_sqlite,
                " order by skill_set, urgency, lsn limit 1"
            ),
            skipping_sqlite: concat!(
                "select skill_set, urgency, lsn, thread_id, channel_id, footprint from ready where ",
                $place,
                " = $1 and skill_set >= $2",
                $of_repo_sqlite,
                " and footprint not in (select value from json_each(",
                $skipped,
                ")) order by skill_set, urgency, lsn limit 1"
            ),
            first_postgres: first_postgres!($place, $of_repo_postgres, "1"),
            window_postgres: first_postgres!($place, $of_repo_postgres, "64"),
            walk_postgres: concat!(
                "with recursive walk (place, skill_set) as (
                     select wanted.place, (
                         select r.skill_set from ready r where r.",
                $place,
                " = wanted.place",
                $of_repo_postgres,
                " order by r.skill_set limit 1)
                     from unnest($1::uuid[]) as wanted (place)
                     union all
                     select walk.place, (
                         select r.skill_set from ready r where r.",
                $place,
                " = walk.place and r.skill_set > walk.skill_set",
                $of_repo_postgres,
                " order by r.skill_set limit 1)
                     from walk where walk.skill_set is not null), ",
                best_of!(
                    "(select place, skill_set from walk where skill_set = any($2::bigint[])) as place",
                    $place,
                    $of_repo_postgres,
                    "1"
                ),
                unknown_sets_or_candidate!()
            ),
        }
    };
}

pub(super) static IN_CHANNELS: QueueStatements = probes!("channel_id", "", "", "$3");

pub(super) static IN_POOLS: QueueStatements = probes!("pool", "", "", "$3");

pub(super) static OF_REPO_IN_CHANNELS: QueueStatements = probes!(
    "channel_id",
    " and repo_key = $3 and repo_key <> ''",
    " and r.repo_key = $6 and r.repo_key <> ''",
    "$4"
);

pub(super) static OF_REPO_IN_POOLS: QueueStatements = probes!(
    "pool",
    " and repo_key = $3 and repo_key <> ''",
    " and r.repo_key = $6 and r.repo_key <> ''",
    "$4"
);
