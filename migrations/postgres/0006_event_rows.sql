-- What a revocation has to end: live tokens derived from another, and those of a grant.
drop index tokens_of_parent;
create index tokens_derived on tokens (parent_id, expires_at) where parent_id is not null and revoked_at is null;
create index tokens_of_grant on tokens (grant_id) where grant_id is not null;
