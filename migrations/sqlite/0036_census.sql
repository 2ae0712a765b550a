-- How many events of each kind a log has, up to a position that a chore moves on.
create table kind_counts (
    workspace_id blob not null references workspaces (id),
    channel_id blob not null,
    kind text not null,
    n bigint not null,
    primary key (workspace_id, channel_id, kind)
) without rowid;
create table census_at (
    workspace_id blob primary key references workspaces (id),
    lsn bigint not null
) without rowid;
