-- Votes. What is asked, and the options, are words of the message alone: `options` is how many there are.
create table votes (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null,
    thread_id blob not null,
    message_id blob not null unique references messages (id),
    options bigint not null,
    multiple boolean not null,
    created_by blob not null,
    closes_at bigint,
    closed_at bigint,
    closed_by blob,
    lsn bigint not null
);
create index votes_in_order on votes (workspace_id, lsn);
create index votes_of_thread on votes (thread_id, lsn);
create index votes_that_close on votes (closes_at, id) where closed_at is null and closes_at is not null;

-- The ballots, one row for each option that a member has chosen.
create table ballots (
    vote_id blob not null references votes (id),
    choice bigint not null,
    member_id blob not null,
    lsn bigint not null,
    primary key (vote_id, choice, member_id)
) without rowid;
