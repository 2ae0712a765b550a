-- Integrity: consumers of the log, retention, holds, purges, imports, and sharing.

-- How many events of each kind a log has, up to the position in `census_at`, which a chore advances.
create table kind_counts (
    workspace_id blob not null references workspaces (id),
    channel_id blob not null,
    kind text not null,
    n bigint not null,
    primary key (workspace_id, channel_id, kind)
) without rowid;

create table census_at (
    workspace_id blob primary key references workspaces (id),
    lsn bigint not null
) without rowid;

-- How far consumers inside the service have come in each log.
create table taps (
    name text not null,
    workspace_id blob not null references workspaces (id),
    after_id bigint not null,
    hash blob,
    primary key (name, workspace_id)
) without rowid;

-- The frontier of the Merkle tree over each log, up to a position that a chore advances.
create table checkpoints (
    workspace_id blob primary key references workspaces (id),
    lsn bigint not null,
    frontier blob not null
) without rowid;

-- How far durable subscriptions have come.
create table consumers (
    workspace_id blob not null references workspaces (id),
    member_id blob not null references members (id),
    consumer_id text not null,
    after_id bigint not null,
    holder blob not null,
    seen_at bigint not null,
    primary key (workspace_id, member_id, consumer_id)
) without rowid;
create index consumers_by_seen on consumers (seen_at);

-- What tokens have subscribed to beyond a request.
create table resource_subscriptions (
    token_id blob not null references tokens (id),
    uri text not null,
    until bigint not null,
    primary key (token_id, uri)
) without rowid;
create index resource_subscriptions_by_until on resource_subscriptions (until);

-- How long workspaces keep things. Null leaves a value to the instance.
create table retention (
    workspace_id blob primary key references workspaces (id),
    messages_days bigint,
    events_days bigint,
    deliveries_days bigint,
    media_days bigint,
    media_quota_bytes bigint,
    at bigint not null,
    lsn bigint not null
) without rowid;

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

-- Texts that were replaced while their workspace was under a legal hold.
create table held_texts (
    workspace_id blob not null references workspaces (id),
    kind text not null,
    object_id blob not null,
    version bigint not null,
    text text not null,
    at bigint not null,
    primary key (workspace_id, kind, object_id, version)
) without rowid;

-- The purge of each workspace that is in progress or was the last. `progress` is JSON.
create table purges (
    workspace_id blob primary key,
    up_to_lsn bigint not null,
    requested_by blob,
    until bigint not null,
    progress text not null,
    purged_at bigint
);
create index purges_in_progress on purges (until) where purged_at is null;

-- Imports, each of which one commit shows, or which are removed without a trace. `place` is how far such a
-- removal has come, as JSON. `charged_to` is the workspace that the import is charged to; null if none.
create table imports (
    id text primary key,
    digest blob not null,
    mode text not null,
    workspace_id blob not null,
    reached bigint not null,
    holder blob not null,
    until bigint not null,
    outcome text,
    place text,
    charged_to blob
);
create index imports_staging on imports (until) where outcome is null;
-- What is known of the imports of a workspace goes when it is erased.
create index imports_of_workspace on imports (workspace_id);

-- The imports of the last day, by the workspace that they are charged to. They outlast what was imported.
create table charged_imports (
    id blob primary key,
    charged_to blob not null,
    at bigint not null
) without rowid;
create index charged_imports_of on charged_imports (charged_to, at);

-- Workspaces that were erased, and where their logs ended. `place` is how far the removal of their rows has
-- come, as JSON.
create table erased (
    workspace_id blob primary key,
    at bigint not null,
    lsn bigint not null,
    hash blob not null,
    place text
);

-- Share tickets, by which a reader who is no member reads one channel. `artifact_shas` is a JSON list.
create table share_tickets (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null references channels (id),
    owner_id blob not null references members (id),
    created_by blob not null references members (id),
    installation_id blob references app_installations (id),
    secret_hash blob not null,
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
