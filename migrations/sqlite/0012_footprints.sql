-- Footprints: what threads touch. `items` is JSON; equal footprints of a workspace are one row.
create table footprints (
    workspace_id blob not null references workspaces (id),
    id bigint not null,
    digest blob not null,
    repo text,
    repo_key text not null,
    mode text not null,
    items text not null,
    primary key (workspace_id, id),
    unique (workspace_id, digest)
);

-- 0 is no footprint.
alter table threads add column footprint bigint not null default 0;
create index threads_deferrable on threads (workspace_id, lsn)
    where footprint <> 0 and state = 'open' and assignee_id is null;

-- The items of threads with a claim in their row. `obstacle` identifies the item among all workspaces.
create table live_items (
    workspace_id blob not null,
    repo_key text not null,
    space text not null,
    dir text not null,
    prefix text not null,
    exclusive boolean not null,
    obstacle blob not null,
    thread_id blob not null references threads (id),
    primary key (workspace_id, repo_key, space, dir, prefix, thread_id)
);
create index live_items_below on live_items (workspace_id, repo_key, space, prefix);
create index live_items_of_obstacle on live_items (obstacle, exclusive);
create index live_items_of_thread on live_items (thread_id);

create table slots (
    workspace_id blob not null references workspaces (id),
    slot_key text not null,
    slot text not null,
    capacity bigint not null,
    obstacle blob not null unique,
    primary key (workspace_id, slot_key)
);

create table repo_pauses (
    workspace_id blob not null references workspaces (id),
    repo_key text not null,
    repo text not null,
    reason text,
    paused_by blob references members (id),
    paused_at bigint not null,
    lsn bigint not null,
    obstacle blob not null unique,
    primary key (workspace_id, repo_key)
);

-- `exclusive` and `came_from` are those of the obstacle behind which the thread waited; null if none.
alter table ready add column footprint bigint not null default 0;
alter table ready add column repo_key text not null default '';
alter table ready add column exclusive boolean not null default false;
alter table ready add column came_from blob;
create index ready_of_repo on ready (channel_id, repo_key, skill_set, urgency, lsn, thread_id)
    where repo_key <> '';
create index ready_of_repo_in_pool on ready (pool, repo_key, skill_set, urgency, lsn, thread_id)
    where repo_key <> '';
create index ready_of_footprint on ready (pool, footprint) where footprint <> 0;
create index ready_of_obstacle on ready (came_from, channel_id, skill_set, repo_key, exclusive)
    where came_from is not null;

-- Threads that would be ready, each behind one obstacle that was in its way.
create table parked (
    obstacle blob not null,
    channel_id blob not null,
    skill_set bigint not null,
    repo_key text not null,
    exclusive boolean not null,
    urgency bigint not null,
    lsn bigint not null,
    thread_id blob not null unique,
    pool blob not null,
    footprint bigint not null,
    primary key (obstacle, channel_id, skill_set, repo_key, exclusive, urgency, lsn)
);
create index parked_of_channel on parked (channel_id);
