-- Apps, and their installations. What an app's agent member can do hangs on one: its tokens name it.
create table apps (
    id uuid primary key,
    workspace_id uuid not null,
    slug text not null,
    name text not null,
    created_by uuid,
    created_at bigint not null,
    lsn bigint not null
);
create unique index apps_by_slug on apps (workspace_id, slug);
create index apps_in_order on apps (workspace_id, lsn);

create table app_installations (
    id uuid primary key,
    workspace_id uuid not null,
    app_id uuid not null,
    bot_member_id uuid not null,
    capabilities bigint not null,
    client_secret_hash bytea not null,
    installed_by uuid,
    installed_at bigint not null,
    revoked_at bigint,
    lsn bigint not null
);
create unique index app_installations_active on app_installations (app_id) where revoked_at is null;
create index app_installations_in_order on app_installations (workspace_id, lsn);

alter table tokens add column installation_id uuid;
-- The live tokens of an installation, however many have expired.
create index tokens_of_installation on tokens (installation_id, coalesce(expires_at, 9223372036854775807))
    where installation_id is not null;
