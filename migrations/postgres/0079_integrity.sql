-- Integrity: consumers of the log, retention, holds, purges, imports, and sharing.

-- How many events of each kind a log has, up to the position in `census_at`, which a chore advances.
create table kind_counts (
    workspace_id uuid not null,
    channel_id uuid not null,
    kind text not null,
    n bigint not null,
    primary key (workspace_id, channel_id, kind)
);

create table census_at (
    workspace_id uuid primary key,
    lsn bigint not null
);

-- How far consumers inside the service have come in each log.
create table taps (
    name text not null,
    workspace_id uuid not null,
    after_id bigint not null,
    hash bytea,
    primary key (name, workspace_id)
);

-- The frontier of the Merkle tree over each log, up to a position that a chore advances.
create table checkpoints (
    workspace_id uuid primary key,
    lsn bigint not null,
    frontier bytea not null
);

-- How far durable subscriptions have come.
create table consumers (
    workspace_id uuid not null,
    member_id uuid not null,
    consumer_id text not null,
    after_id bigint not null,
    holder uuid not null,
    seen_at bigint not null,
    primary key (workspace_id, member_id, consumer_id)
);
create index consumers_by_seen on consumers (seen_at);

-- What tokens have subscribed to beyond a request.
create table resource_subscriptions (
    token_id uuid not null,
    uri text not null,
    until bigint not null,
    primary key (token_id, uri)
);
create index resource_subscriptions_by_until on resource_subscriptions (until);

-- How long workspaces keep things. Null leaves a value to the instance.
create table retention (
    workspace_id uuid primary key,
    messages_days bigint,
    events_days bigint,
    deliveries_days bigint,
    media_days bigint,
    media_quota_bytes bigint,
    at bigint not null,
    lsn bigint not null
);

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

-- Texts that were replaced while their workspace was under a legal hold.
create table held_texts (
    workspace_id uuid not null,
    kind text not null,
    object_id uuid not null,
    version bigint not null,
    text text not null,
    at bigint not null,
    primary key (workspace_id, kind, object_id, version)
);
-- ANALYZE copies samples of a column into the catalog, where no purge would find them.
alter table held_texts alter column text set statistics 0;

-- The purge of each workspace that is in progress or was the last. `progress` is JSON.
create table purges (
    workspace_id uuid primary key,
    up_to_lsn bigint not null,
    requested_by uuid,
    until bigint not null,
    progress text not null,
    purged_at bigint
);
create index purges_in_progress on purges (until) where purged_at is null;

-- Imports, each of which one commit shows, or which are removed without a trace. `place` is how far such a
-- removal has come, as JSON. `charged_to` is the workspace that the import is charged to; null if none.
create table imports (
    id text primary key,
    digest bytea not null,
    mode text not null,
    workspace_id uuid not null,
    reached bigint not null,
    holder uuid not null,
    until bigint not null,
    outcome text,
    place text,
    charged_to uuid
);
create index imports_staging on imports (until) where outcome is null;
-- What is known of the imports of a workspace goes when it is erased.
create index imports_of_workspace on imports (workspace_id);

-- The imports of the last day, by the workspace that they are charged to. They outlast what was imported.
create table charged_imports (
    id uuid primary key,
    charged_to uuid not null,
    at bigint not null
);
create index charged_imports_of on charged_imports (charged_to, at);

-- Workspaces that were erased, and where their logs ended. `place` is how far the removal of their rows has
-- come, as JSON.
create table erased (
    workspace_id uuid primary key,
    at bigint not null,
    lsn bigint not null,
    hash bytea not null,
    place text
);

-- Share tickets, by which a reader who is no member reads one channel. `artifact_shas` is a JSON list.
create table share_tickets (
    id uuid primary key,
    workspace_id uuid not null,
    channel_id uuid not null,
    owner_id uuid not null,
    created_by uuid not null,
    installation_id uuid,
    secret_hash bytea not null,
    artifact_shas text not null,
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint,
    lsn bigint not null
);
create unique index share_tickets_by_secret on share_tickets (secret_hash);
create index share_tickets_in_order on share_tickets (workspace_id, lsn);
-- The tickets that end with a member, however many have ended.
create index share_tickets_of_owner on share_tickets (owner_id, expires_at) where revoked_at is null;
create index share_tickets_of_creator on share_tickets (created_by, expires_at) where revoked_at is null;
