-- How many events of each kind a log has, up to a position that a chore moves on.
create table kind_counts (
    workspace_id uuid not null,
    channel_id uuid not null,
    kind text not null,
    n bigint not null,
    primary key (workspace_id, channel_id, kind)
);
create table census_at (
    workspace_id uuid primary key,
    lsn bigint not null
);
