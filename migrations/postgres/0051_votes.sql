-- Votes. What is asked, and the options, are words of the message alone: `options` is how many there are.
create table votes (
    id uuid primary key,
    workspace_id uuid not null,
    channel_id uuid not null,
    thread_id uuid not null,
    message_id uuid not null unique,
    options bigint not null,
    multiple boolean not null,
    created_by uuid not null,
    closes_at bigint,
    closed_at bigint,
    closed_by uuid,
    lsn bigint not null
);
create index votes_in_order on votes (workspace_id, lsn);
create index votes_of_thread on votes (thread_id, lsn);
create index votes_that_close on votes (closes_at, id) where closed_at is null and closes_at is not null;

-- The ballots, one row for each option that a member has chosen.
create table ballots (
    vote_id uuid not null,
    choice bigint not null,
    member_id uuid not null,
    lsn bigint not null,
    primary key (vote_id, choice, member_id)
);
