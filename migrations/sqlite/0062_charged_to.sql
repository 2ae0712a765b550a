-- The workspace whose limits an imported one shares: the one that imported it, or what that one is charged to.
-- Null: none but its own.
alter table workspaces add column charged_to blob;
-- The same of the workspace that an import is writing. Null: the import is charged to no workspace.
alter table imports add column charged_to blob;

-- The imports of the last day, by the workspace that they are charged to. They outlast what was imported.
create table charged_imports (
    id blob primary key,
    charged_to blob not null,
    at bigint not null
) without rowid;
create index charged_imports_of on charged_imports (charged_to, at);

-- Codes are counted for the workspace that they are charged to, and outlast the member that got them.
alter table delivery_codes rename to former_codes;
drop index delivery_codes_of;
create table delivery_codes (
    id blob primary key,
    charged_to blob not null,
    member_id blob not null,
    at bigint not null
) without rowid;
insert into delivery_codes (id, charged_to, member_id, at)
    select id, workspace_id, member_id, at from former_codes;
drop table former_codes;
create index delivery_codes_of on delivery_codes (charged_to, at);
