-- The frontier of the Merkle tree over each log, up to a position that a chore moves on.
create table checkpoints (
    workspace_id uuid primary key,
    lsn bigint not null,
    frontier bytea not null
);
