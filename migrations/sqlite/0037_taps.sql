-- How far consumers inside the service have come in each log.
create table taps (
    name text not null,
    workspace_id blob not null references workspaces (id),
    after_id bigint not null,
    hash blob,
    primary key (name, workspace_id)
) without rowid;
