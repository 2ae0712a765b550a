//! The statements that find the first threads of the queue, in each of its orders and on each engine.

/// The statements that query the queue in one of its orders: by channel or by pool, all or of a repository.
pub(super) struct QueueStatements {
    pub first_sqlite: &'static str,
    /// Passes by the footprints in its last parameter.
    pub passing_sqlite: &'static str,
    pub first_postgres: &'static str,
    /// The first [`WINDOW`].
    pub window_postgres: &'static str,
    pub walk_postgres: &'static str,
}

/// The end of a statement that has found the `candidate`.
///
/// It returns whether there are sets that the connection has not cached, and the candidate if there is one.
macro_rules! unknown_sets_or_candidate {
    () => {
        "select exists (select 1 from skill_sets where workspace_id = $3 and id > $4),
                candidate.thread_id, candidate.channel_id, candidate.footprint,
                candidate.urgency, candidate.lsn
         from (values (1)) as one (row) left join candidate on true
         order by candidate.urgency, candidate.lsn"
    };
}

/// The `candidate`: the best of the first rows that each `place` and skill set of `$places` has on Postgres.
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

/// A statement that finds the first `$limit` threads at places and of skill sets that it names.
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

/// How many threads one statement reads ahead for the jobs of a batch.
pub(super) const WINDOW: usize = 64;

/// The statements of one order. `$of_repo` restricts it, on SQLite with parameter 3 and on Postgres with 6;
/// `$passed` is the number of SQLite's last parameter.
macro_rules! probes {
    ($place:literal, $of_repo_sqlite:literal, $of_repo_postgres:literal, $passed:literal) => {
        QueueStatements {
            first_sqlite: concat!(
                "select skill_set, urgency, lsn, thread_id, channel_id, footprint from ready where ",
                $place,
                " = $1 and skill_set >= $2",
                $of_repo_sqlite,
                " order by skill_set, urgency, lsn limit 1"
            ),
            passing_sqlite: concat!(
                "select skill_set, urgency, lsn, thread_id, channel_id, footprint from ready where ",
                $place,
                " = $1 and skill_set >= $2",
                $of_repo_sqlite,
                " and footprint not in (select value from json_each(",
                $passed,
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
