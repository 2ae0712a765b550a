-- The requests that came with a key, and how each was answered. There is nothing here in words.
create table idempotency_keys (
    -- Of the key, the member and its delegate.
    key_hash bytea primary key,
    member_id uuid not null,
    request_hash bytea not null,
    -- Of the answer; 0 while only some steps of the change were committed.
    status bigint not null,
    -- The problem, if the request was refused.
    code text,
    -- Ids and numbers of the answer, or what the steps share, as JSON.
    answer text,
    lsn bigint not null,
    until bigint not null
);
create index idempotency_keys_by_until on idempotency_keys (until);
-- Finds those of a workspace that is erased.
create index idempotency_keys_by_member on idempotency_keys (member_id);
