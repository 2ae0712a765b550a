-- The position of a thread's last result or reopening: verdicts before it are about other work.
alter table threads add column judged_from bigint not null default 0;

create table review_requirements (
    thread_id blob primary key references threads (id),
    approvals bigint not null,
    lsn bigint not null
);

create table reviewers (
    thread_id blob not null references threads (id),
    member_id blob not null references members (id),
    added_by blob references members (id),
    added_at bigint not null,
    lsn bigint not null,
    primary key (thread_id, member_id)
);

-- The words of a review and of its findings are those of its message. `objection` is why the verdict did not count
-- when it was given; null if it did.
create table reviews (
    id blob primary key,
    thread_id blob not null references threads (id),
    member_id blob not null references members (id),
    actor_id blob not null references members (id),
    verdict text not null,
    objection text,
    head_sha text,
    message_id blob not null,
    submitted_at bigint not null,
    lsn bigint not null
);
create index reviews_of_thread on reviews (thread_id, lsn);

create table findings (
    id blob primary key,
    review_id blob not null references reviews (id),
    thread_id blob not null references threads (id),
    number bigint not null,
    severity text not null,
    path text,
    line bigint,
    resolution text,
    resolved_by blob references members (id),
    resolved_at bigint,
    lsn bigint not null,
    unique (review_id, number)
);
create index findings_that_block on findings (thread_id, lsn, number)
    where severity = 'critical' and resolution is null;

-- What is to land, and whether that is required before the close. Whatever was not set yet is null; `lsn` is the
-- position at which it was.
create table land_gates (
    thread_id blob primary key references threads (id),
    required boolean not null default false,
    pointer text,
    head_sha text,
    verdict text,
    objection text,
    member_id blob references members (id),
    actor_id blob references members (id),
    set_at bigint,
    lsn bigint
);

-- A pending gate whose time is over counts as expired; a chore writes it down.
create table approval_gates (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null references channels (id),
    thread_id blob not null references threads (id),
    state text not null,
    blocks_close boolean not null,
    requested_by blob not null references members (id),
    requested_actor_id blob not null references members (id),
    requested_at bigint not null,
    expires_at bigint,
    resolved_by blob references members (id),
    resolved_actor_id blob references members (id),
    resolved_at bigint,
    message_id blob not null,
    lsn bigint not null
);
create index approval_gates_of_workspace on approval_gates (workspace_id, lsn);
create index approval_gates_of_thread on approval_gates (thread_id, lsn);
create index approval_gates_by_end on approval_gates (expires_at)
    where state = 'pending' and expires_at is not null;
