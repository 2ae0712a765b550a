-- Operations: requests that may be repeated, and periodic work.

-- The requests that came with an idempotency key, and the outcome of each. No row has message content.
create table idempotency_keys (
    -- Of the key, the member and its delegate.
    key_hash bytea primary key,
    member_id uuid not null,
    request_hash bytea not null,
    -- Of the response; 0 while only some steps of the change were committed.
    status bigint not null,
    -- The problem, if the request was rejected.
    code text,
    -- Ids and numbers of the response, or what the steps share, as JSON.
    answer text,
    lsn bigint not null,
    until bigint not null
);
create index idempotency_keys_by_until on idempotency_keys (until);
-- Finds those of a workspace that is erased.
create index idempotency_keys_by_member on idempotency_keys (member_id);

-- The holder of a row does that periodic work; after `until` another process takes over.
create table leases (
    name text primary key,
    holder uuid not null,
    until bigint not null
);
