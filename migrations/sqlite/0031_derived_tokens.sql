-- The live tokens that are derived from one, however many have expired.
drop index tokens_derived;
create index tokens_derived on tokens (parent_id, coalesce(expires_at, 9223372036854775807))
    where parent_id is not null and revoked_at is null;
