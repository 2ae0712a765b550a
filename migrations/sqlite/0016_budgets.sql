-- Budgets: what a thread may use, and what its claims have used. A limit that is null is none. `low` has a bit
-- for each limit that a notice has been posted about.
create table thread_budgets (
    thread_id blob primary key references threads (id),
    max_tokens bigint,
    max_usd_micros bigint,
    max_turns bigint,
    max_wall_secs bigint,
    max_attempts bigint,
    low bigint not null default 0
);
alter table threads add column budgeted boolean not null default false;
alter table threads add column spent_tokens bigint not null default 0;
alter table threads add column spent_usd_micros bigint not null default 0;
alter table threads add column spent_turns bigint not null default 0;
-- Claims that ended without a result since the thread was last requeued.
alter table threads add column attempts bigint not null default 0;
-- Whether nothing is left of some limit, and whether it has a dead letter that is not settled.
alter table threads add column exhausted boolean not null default false;
alter table threads add column dead boolean not null default false;

create table usage_reports (
    thread_id blob not null references threads (id),
    report_id text not null,
    workspace_id blob not null references workspaces (id),
    digest blob not null,
    answer text not null,
    member_id blob not null references members (id),
    actor_id blob references members (id),
    claim_lease_id blob not null,
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
    workspace_id blob not null references workspaces (id),
    day bigint not null,
    member_id blob not null references members (id),
    model text not null,
    reports bigint not null,
    tokens bigint not null,
    usd_micros bigint not null,
    turns bigint not null,
    primary key (workspace_id, day, member_id, model)
);

create table dead_letters (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    thread_id blob not null references threads (id),
    exceeded text not null,
    holder blob not null references members (id),
    claim_lease_id blob not null,
    failed_at bigint not null,
    lsn bigint not null,
    settled_at bigint
);
create unique index dead_letters_unsettled_of_thread on dead_letters (thread_id) where settled_at is null;
create index dead_letters_unsettled on dead_letters (workspace_id, lsn) where settled_at is null;

-- What a workspace allows threads to create below them.
create table spawn_budgets (
    workspace_id blob primary key references workspaces (id),
    max_children bigint,
    max_depth bigint,
    max_tools bigint
);
alter table threads add column children_ever bigint not null default 0;
update threads set children_ever = (select count(*) from threads c where c.parent_id = threads.id)
    where id in (select parent_id from threads where parent_id is not null);
-- A JSON list; null for none.
alter table threads add column tools text;
