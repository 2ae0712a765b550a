-- Coordination: threads, who may claim which of them next, footprints, results, and budgets.

-- Sets of required skills, each stored once: `skills` is the sorted names joined by commas. A set is found
-- by their SHA-256: the names of the largest sets are too long for an index.
create table skill_sets (
    workspace_id uuid not null,
    id bigint not null,
    skills text not null,
    hash bytea not null,
    primary key (workspace_id, id),
    unique (workspace_id, hash)
);

-- Footprints: what threads touch. `items` is JSON; equal footprints of a workspace are one row.
create table footprints (
    workspace_id uuid not null,
    id bigint not null,
    digest bytea not null,
    repo text,
    repo_key text collate "C" not null,
    mode text not null,
    items text not null,
    primary key (workspace_id, id),
    unique (workspace_id, digest)
);

-- Threads, with the present claim of each.
create table threads (
    id uuid primary key,
    workspace_id uuid not null,
    channel_id uuid not null,
    parent_id uuid,
    depth bigint not null,
    title text not null,
    state text not null,
    priority bigint not null,
    skill_set bigint not null,
    -- Unfinished dependencies.
    blocked bigint not null,
    -- Whether there is a result that was not reopened.
    has_result boolean not null,
    owner_id uuid,
    assignee_id uuid,
    claim_lease_id uuid,
    claimed_at bigint,
    assignment_expires_at bigint,
    acknowledged_at bigint,
    acknowledge_by bigint,
    worked_micros bigint not null,
    cancelled_at bigint,
    created_by uuid,
    created_at bigint not null,
    lsn bigint not null,
    -- 0 is no footprint.
    footprint bigint not null default 0,
    has_checkpoint boolean not null default false,
    -- The position of the last result or reopening: verdicts before it are about other work.
    judged_from bigint not null default 0,
    budgeted boolean not null default false,
    spent_tokens bigint not null default 0,
    spent_usd_micros bigint not null default 0,
    spent_turns bigint not null default 0,
    -- Claims that ended without a result since the thread was last requeued.
    attempts bigint not null default 0,
    -- Whether nothing is left of some limit, and whether it has a dead letter that is not settled.
    exhausted boolean not null default false,
    dead boolean not null default false,
    children_ever bigint not null default 0,
    -- A JSON list; null for none.
    tools text,
    -- The position of the event that made the claim in the row.
    claim_lsn bigint
);
create index threads_of_channel on threads (channel_id, lsn);
create index threads_of_workspace on threads (workspace_id, lsn);
create index threads_of_parent on threads (parent_id, lsn) where parent_id is not null;
create index threads_by_lease_end on threads (assignment_expires_at)
    where assignment_expires_at is not null;
create index threads_by_acknowledgement on threads (acknowledge_by) where acknowledge_by is not null;
-- Claims of a workspace, and those of one holder, in the order of their threads.
create index threads_claimed on threads (workspace_id, lsn) where assignee_id is not null;
create index threads_of_holder on threads (assignee_id, lsn) where assignee_id is not null;
-- The claims of a workspace whose lease has lapsed.
create index threads_by_lease_end_in_workspace on threads (workspace_id, assignment_expires_at)
    where assignment_expires_at is not null;
-- Threads whose work is judged.
create index threads_in_review on threads (workspace_id, lsn) where state = 'in_review';
-- Also those with a claim: one that has lapsed blocks none.
create index threads_open_with_footprint on threads (workspace_id, lsn)
    where footprint <> 0 and state = 'open';
-- Reads the newest claims of a member.
create index threads_by_claim on threads (assignee_id, (coalesce(claim_lsn, 0)))
    where assignee_id is not null;

create table thread_dependencies (
    thread_id uuid not null,
    depends_on_id uuid not null,
    lsn bigint not null,
    primary key (thread_id, depends_on_id)
);
create index dependents_of_thread on thread_dependencies (depends_on_id);

-- Notices. That of a cancel goes with the message that says the same, `message_id`.
create table thread_notices (
    thread_id uuid not null,
    lsn bigint not null,
    at bigint not null,
    kind text not null,
    text text not null,
    message_id uuid,
    primary key (thread_id, lsn)
);
create index notices_of_message on thread_notices (message_id) where message_id is not null;

-- The members who have worked on a thread: who claimed it, was assigned it or set its result, delegates
-- included. `lsn` is the position of the first event that says so.
create table thread_workers (
    thread_id uuid not null,
    member_id uuid not null,
    lsn bigint not null,
    primary key (thread_id, member_id)
);

-- One row for each thread that can be claimed now. `pool` is the workspace for public channels and the
-- channel for private ones; `urgency` is the negated priority, so that the head of the order is the next
-- task. `exclusive` and `came_from` are those of the obstacle behind which the thread waited; null if none.
create table ready (
    channel_id uuid not null,
    skill_set bigint not null,
    urgency bigint not null,
    lsn bigint not null,
    thread_id uuid not null unique,
    pool uuid not null,
    footprint bigint not null default 0,
    repo_key text not null default '',
    exclusive boolean not null default false,
    came_from uuid,
    primary key (channel_id, skill_set, urgency, lsn)
);
create index ready_in_pool on ready (pool, skill_set, urgency, lsn, thread_id);
create index ready_of_repo on ready (channel_id, repo_key, skill_set, urgency, lsn, thread_id)
    where repo_key <> '';
create index ready_of_repo_in_pool on ready (pool, repo_key, skill_set, urgency, lsn, thread_id)
    where repo_key <> '';
create index ready_of_footprint on ready (pool, footprint) where footprint <> 0;
create index ready_of_obstacle on ready (came_from, channel_id, skill_set, repo_key, exclusive)
    where came_from is not null;

-- Threads that would be ready, each behind one obstacle that blocks it.
create table parked (
    obstacle uuid not null,
    channel_id uuid not null,
    skill_set bigint not null,
    repo_key text not null,
    exclusive boolean not null,
    urgency bigint not null,
    lsn bigint not null,
    thread_id uuid not null unique,
    pool uuid not null,
    footprint bigint not null,
    primary key (obstacle, channel_id, skill_set, repo_key, exclusive, urgency, lsn)
);
create index parked_of_channel on parked (channel_id);
-- What waits with the same footprint.
create index parked_of_footprint on parked (pool, footprint, channel_id, skill_set);

-- The items of threads with a claim in their row. `obstacle` identifies the item among all workspaces.
-- Exclusive items come first in the key, so that a shared item reads none that share it. All slots are
-- exclusive.
create table live_items (
    workspace_id uuid not null,
    repo_key text collate "C" not null,
    space text not null,
    prefix text collate "C" not null,
    exclusive boolean not null,
    obstacle uuid not null,
    thread_id uuid not null,
    primary key (workspace_id, repo_key, space, exclusive, prefix, thread_id)
);
create index live_items_of_thread on live_items (thread_id);
-- Finds what holds an obstacle beside any number of uses of slots.
create index live_items_of_obstacle on live_items (obstacle, exclusive) where space <> 'slot';
create index live_items_of_slot on live_items (obstacle) where space = 'slot';

create table slots (
    workspace_id uuid not null,
    slot_key text not null,
    slot text not null,
    capacity bigint not null,
    obstacle uuid not null unique,
    primary key (workspace_id, slot_key)
);

-- How many claims use a slot, lapsed ones too.
create table slot_uses (
    workspace_id uuid not null,
    obstacle uuid not null primary key,
    uses bigint not null
);

create table repo_pauses (
    workspace_id uuid not null,
    repo_key text not null,
    repo text not null,
    reason text,
    paused_by uuid,
    paused_at bigint not null,
    lsn bigint not null,
    obstacle uuid not null unique,
    primary key (workspace_id, repo_key)
);

-- Checkpoints: the state of unfinished work, for the next member who works on the thread.
create table claim_checkpoints (
    thread_id uuid not null primary key,
    member_id uuid not null,
    at bigint not null,
    lsn bigint not null,
    checkpoint text not null
);
-- ANALYZE copies samples of a column into the catalog, where no purge would find them.
alter table claim_checkpoints alter column checkpoint set statistics 0;

-- Results. `result` is null once it was purged; the rest of its row stays.
create table results (
    thread_id uuid not null,
    lsn bigint not null,
    workspace_id uuid not null,
    result_kind text,
    result text,
    produced_by uuid not null,
    produced_at bigint not null,
    primary key (thread_id, lsn)
);
alter table results alter column result set statistics 0;
create index results_of_workspace on results (workspace_id, lsn);

-- Budgets: what a thread may use. A limit that is null is none. `low` has a bit for each limit that a notice
-- has been posted about.
create table thread_budgets (
    thread_id uuid primary key,
    max_tokens bigint,
    max_usd_micros bigint,
    max_turns bigint,
    max_wall_secs bigint,
    max_attempts bigint,
    low bigint not null default 0
);

-- What the claims of threads have reported to use.
create table usage_reports (
    thread_id uuid not null,
    report_id text not null,
    workspace_id uuid not null,
    digest bytea not null,
    answer text not null,
    member_id uuid not null,
    actor_id uuid,
    claim_lease_id uuid not null,
    model text,
    tokens bigint not null,
    usd_micros bigint not null,
    turns bigint not null,
    reported_at bigint not null,
    lsn bigint not null,
    primary key (thread_id, report_id)
);
create index usage_reports_in_order on usage_reports (thread_id, lsn);

-- The same by day, so that a sum does not read the reports. No model is ''.
create table usage_totals (
    workspace_id uuid not null,
    day bigint not null,
    member_id uuid not null,
    model text not null,
    reports bigint not null,
    tokens bigint not null,
    usd_micros bigint not null,
    turns bigint not null,
    primary key (workspace_id, day, member_id, model)
);

-- Claims that ended over a budget. A thread waits until its dead letter is settled.
create table dead_letters (
    id uuid primary key,
    workspace_id uuid not null,
    thread_id uuid not null,
    exceeded text not null,
    holder uuid not null,
    claim_lease_id uuid not null,
    failed_at bigint not null,
    lsn bigint not null,
    settled_at bigint
);
create unique index dead_letters_unsettled_of_thread on dead_letters (thread_id) where settled_at is null;
create index dead_letters_unsettled on dead_letters (workspace_id, lsn) where settled_at is null;

-- What a workspace allows threads to create below them.
create table spawn_budgets (
    workspace_id uuid primary key,
    max_children bigint,
    max_depth bigint,
    max_tools bigint
);
