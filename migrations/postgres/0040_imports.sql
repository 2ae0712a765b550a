-- A workspace that is being imported or erased is seen by nobody.
alter table workspaces add column state text not null default 'live';

-- Imports, each of which is shown by one commit or goes without a trace.
create table imports (
    id text primary key,
    digest bytea not null,
    mode text not null,
    workspace_id uuid not null,
    reached bigint not null,
    holder uuid not null,
    until bigint not null,
    outcome text
);

create index imports_staging on imports (until) where outcome is null;

-- Workspaces that were erased, and where their logs ended.
create table erased (
    workspace_id uuid primary key,
    at bigint not null,
    lsn bigint not null,
    hash bytea not null
);
