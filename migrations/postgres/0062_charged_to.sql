-- The workspace whose limits an imported one shares: the one that imported it, or what that one is charged to.
-- Null: none but its own.
alter table workspaces add column charged_to uuid;
-- The same of the workspace that an import is writing. Null: the import is charged to no workspace.
alter table imports add column charged_to uuid;

-- The imports of the last day, by the workspace that they are charged to. They outlast what was imported.
create table charged_imports (
    id uuid primary key,
    charged_to uuid not null,
    at bigint not null
);
create index charged_imports_of on charged_imports (charged_to, at);

-- Codes are counted for the workspace that they are charged to, and outlast the member that got them.
alter table delivery_codes rename column workspace_id to charged_to;
