-- How far consumers inside the service have come in each log.
create table taps (
    name text not null,
    workspace_id uuid not null,
    after_id bigint not null,
    hash bytea,
    primary key (name, workspace_id)
);
