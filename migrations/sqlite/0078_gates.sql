-- Gates: reviews, land gates, approvals, and relations between messages.

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

-- Reviews. The text of a review and of its findings, with their paths, is that of its message. `objection`
-- is why the verdict did not count when it was given; null if it did. `superseded` says that one of its
-- people has given another verdict since: only the last of each may count.
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
    lsn bigint not null,
    superseded boolean not null default false
);
create index reviews_of_thread on reviews (thread_id, lsn);
create index reviews_that_stand on reviews (thread_id, lsn) where not superseded;
create index reviews_of_member on reviews (thread_id, member_id);

create table findings (
    id blob primary key,
    review_id blob not null references reviews (id),
    thread_id blob not null references threads (id),
    number bigint not null,
    severity text not null,
    line bigint,
    resolution text,
    -- Who resolved it, as the member and as its delegate: neither may have worked on the thread.
    resolved_by blob references members (id),
    resolved_at bigint,
    lsn bigint not null,
    resolved_actor_id blob references members (id),
    unique (review_id, number)
);
create index findings_critical on findings (thread_id, lsn, number) where severity = 'critical';

-- What is to land, and whether that is required before the close. What was not set yet is null; `lsn` is the
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

-- Approvals that were requested. A pending gate whose time is over counts as expired; a chore records that.
-- `needs_person` says that only a person may accept.
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
    lsn bigint not null,
    needs_person boolean not null default false
);
create index approval_gates_of_workspace on approval_gates (workspace_id, lsn);
create index approval_gates_of_thread on approval_gates (thread_id, lsn);
create index approval_gates_pending on approval_gates (workspace_id, lsn) where state = 'pending';
-- Gates whose time is over, in turn.
create index approval_gates_due on approval_gates (expires_at, id)
    where state = 'pending' and expires_at is not null;

-- Relations between messages, such as that one refutes another. A derived one follows from what the message
-- cites: it has the position of the event with that content. One of kind refutes counts until it is
-- resolved.
create table relations (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    kind text not null,
    from_id blob not null references messages (id),
    from_thread_id blob not null,
    from_channel_id blob not null,
    to_id blob not null references messages (id),
    to_thread_id blob not null,
    to_channel_id blob not null,
    derived boolean not null,
    made_by blob,
    made_at bigint not null,
    lsn bigint not null,
    resolved_by blob,
    resolved_actor_id blob,
    resolved_at bigint,
    unique (from_id, to_id, kind)
);
create index relations_in_order on relations (workspace_id, lsn);
create index relations_to on relations (to_id, lsn);
create index refutations_of_thread on relations (to_thread_id) where kind = 'refutes';
create index refutations_from_channel on relations (from_channel_id) where kind = 'refutes';
