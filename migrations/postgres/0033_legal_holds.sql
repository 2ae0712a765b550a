-- Legal holds: while a workspace has one, nothing of it is destroyed.
create table legal_holds (
    id uuid primary key,
    workspace_id uuid not null,
    reason text not null,
    placed_by uuid,
    placed_at bigint not null,
    lsn bigint not null,
    released_by uuid,
    released_at bigint
);
create index legal_holds_of_workspace on legal_holds (workspace_id, lsn);
create index legal_holds_in_force on legal_holds (workspace_id) where released_at is null;
