-- Share tickets, by which somebody who is no member reads one channel. `artifact_shas` is a JSON list.
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
