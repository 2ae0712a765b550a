-- The frontier of the Merkle tree over each log, up to a position that a chore moves on.
create table checkpoints (
    workspace_id blob primary key references workspaces (id),
    lsn bigint not null,
    frontier blob not null
) without rowid;
