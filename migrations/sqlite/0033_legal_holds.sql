-- Legal holds: while a workspace has one, nothing of it is destroyed.
create table legal_holds (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    reason text not null,
    placed_by blob references members (id),
    placed_at bigint not null,
    lsn bigint not null,
    released_by blob references members (id),
    released_at bigint
);
create index legal_holds_of_workspace on legal_holds (workspace_id, lsn);
create index legal_holds_in_force on legal_holds (workspace_id) where released_at is null;
