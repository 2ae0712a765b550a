-- Heads: where each workspace's event log and audit trail end. The row is the lock of everything that decides
-- in a workspace. The nil id stands for the instance. A low fill factor keeps its many updates on one page.
create table heads (
    workspace_id uuid primary key,
    lsn bigint not null,
    hash bytea not null,
    at bigint not null,
    audit_seq bigint not null,
    epoch bigint not null
) with (fillfactor = 10);

create table events (
    workspace_id uuid not null,
    lsn bigint not null,
    kind text not null,
    at bigint not null,
    channel_id uuid,
    thread_id uuid,
    member_id uuid,
    prev_hash bytea not null,
    content_hash bytea not null,
    payload text not null,
    primary key (workspace_id, lsn)
);
create index events_of_thread on events (thread_id, lsn) where thread_id is not null;

create table audit (
    workspace_id uuid not null,
    seq bigint not null,
    at bigint not null,
    action text not null,
    actor_id uuid,
    subject_id uuid,
    grant_id uuid,
    metadata text not null,
    primary key (workspace_id, seq)
);

create table workspaces (
    id uuid primary key,
    name text not null,
    handle text unique,
    created_at bigint not null,
    lsn bigint not null
);

create table members (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id),
    handle text not null,
    kind text not null,
    display_name text,
    created_at bigint not null,
    frozen_at bigint,
    deactivated_at bigint,
    lsn bigint not null,
    unique (workspace_id, handle)
);
create index members_in_order on members (workspace_id, lsn);

create table member_skills (
    member_id uuid not null references members (id),
    skill text not null,
    governance boolean not null,
    primary key (member_id, skill)
);

create table tokens (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id),
    member_id uuid not null references members (id),
    actor_id uuid not null references members (id),
    parent_id uuid references tokens (id),
    grant_id uuid,
    label text,
    secret_hash bytea not null unique,
    capabilities bigint not null,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint,
    lsn bigint not null
);
create index tokens_of_member on tokens (member_id, lsn);
create index tokens_of_parent on tokens (parent_id) where parent_id is not null;

create table channels (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id),
    name text not null,
    topic text,
    private boolean not null,
    created_by uuid references members (id),
    created_at bigint not null,
    archived_at bigint,
    lsn bigint not null
);
create index channels_in_order on channels (workspace_id, lsn);

create table channel_members (
    channel_id uuid not null references channels (id),
    member_id uuid not null references members (id),
    added_by uuid references members (id),
    added_at bigint not null,
    lsn bigint not null,
    primary key (channel_id, member_id)
);
create index channels_of_member on channel_members (member_id);

-- Sets of required skills, each stored once: `skills` is the sorted names joined by commas.
create table skill_sets (
    workspace_id uuid not null references workspaces (id),
    id bigint not null,
    skills text not null,
    primary key (workspace_id, id),
    unique (workspace_id, skills)
);

-- `settled` is true while a result stands; `blocked` counts unfinished dependencies.
create table threads (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id),
    channel_id uuid not null references channels (id),
    parent_id uuid references threads (id),
    depth bigint not null,
    title text not null,
    state text not null,
    priority bigint not null,
    skill_set bigint not null,
    blocked bigint not null,
    settled boolean not null,
    owner_id uuid references members (id),
    assignee_id uuid references members (id),
    claim_lease_id uuid,
    claimed_at bigint,
    assignment_expires_at bigint,
    acknowledged_at bigint,
    acknowledge_by bigint,
    worked_micros bigint not null,
    cancelled_at bigint,
    created_by uuid references members (id),
    created_at bigint not null,
    lsn bigint not null
);
create index threads_of_channel on threads (channel_id, lsn);
create index threads_of_workspace on threads (workspace_id, lsn);
create index threads_of_parent on threads (parent_id, lsn) where parent_id is not null;
create index threads_by_lease_end on threads (assignment_expires_at) where assignment_expires_at is not null;
create index threads_by_acknowledgement on threads (acknowledge_by) where acknowledge_by is not null;
create index threads_claimed on threads (workspace_id, assignee_id) where assignee_id is not null;

create table thread_dependencies (
    thread_id uuid not null references threads (id),
    depends_on_id uuid not null references threads (id),
    lsn bigint not null,
    primary key (thread_id, depends_on_id)
);
create index dependents_of_thread on thread_dependencies (depends_on_id);

create table thread_notices (
    thread_id uuid not null references threads (id),
    lsn bigint not null,
    at bigint not null,
    kind text not null,
    text text not null,
    primary key (thread_id, lsn)
);

-- One row for each thread that somebody could claim now. `pool` is the workspace for public channels and the
-- channel for private ones; `urgency` is the negated priority, so that the head of the order is the next task.
create table ready (
    channel_id uuid not null,
    skill_set bigint not null,
    urgency bigint not null,
    lsn bigint not null,
    thread_id uuid not null unique,
    pool uuid not null,
    primary key (channel_id, skill_set, urgency, lsn)
);
create index ready_in_pool on ready (pool, skill_set, urgency, lsn, thread_id);

create table results (
    thread_id uuid not null references threads (id),
    lsn bigint not null,
    workspace_id uuid not null,
    result_kind text,
    result text not null,
    produced_by uuid not null references members (id),
    produced_at bigint not null,
    primary key (thread_id, lsn)
);
create index results_of_workspace on results (workspace_id, lsn);

-- `sealed` is the words of the present edit; null once withdrawn. The key is in message_keys and nowhere else.
create table messages (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id),
    channel_id uuid not null references channels (id),
    thread_id uuid not null references threads (id),
    author_id uuid not null references members (id),
    posted_at bigint not null,
    edited_at bigint,
    edits bigint not null,
    withdrawn_at bigint,
    sealed bytea,
    lsn bigint not null
);
create index messages_of_thread on messages (thread_id, lsn);

create table message_edits (
    message_id uuid not null references messages (id),
    edit bigint not null,
    written_at bigint not null,
    sealed bytea,
    lsn bigint not null,
    primary key (message_id, edit)
);

create table message_keys (
    message_id uuid primary key,
    wrapped bytea not null
);
-- ANALYZE keeps samples of what a column holds, where a destroyed key would outlive its row.
alter table message_keys alter column wrapped set statistics 0;

-- Periodic work is done by whoever holds its row; `until` lets another take over.
create table leases (
    name text primary key,
    holder uuid not null,
    until bigint not null
);

-- Work that outlives the transaction that asked for it, such as scrubbing destroyed keys from the files.
create table chores (
    name text primary key,
    asked bigint not null,
    done bigint not null
);
