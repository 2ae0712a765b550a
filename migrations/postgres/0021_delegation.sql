-- Grants by which one member acts for another. Their tokens name them in tokens.grant_id.
create table delegation_grants (
    id uuid primary key,
    workspace_id uuid not null,
    subject_id uuid not null,
    delegate_id uuid not null,
    capabilities bigint not null,
    purpose text not null,
    created_by uuid,
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint,
    lsn bigint not null
);
create index delegation_grants_in_order on delegation_grants (workspace_id, lsn);

create table delegation_policies (
    workspace_id uuid primary key,
    ceiling_days bigint not null
);

-- The live tokens of a grant, however many have expired.
drop index tokens_of_grant;
create index tokens_of_grant on tokens (grant_id, expires_at) where grant_id is not null;
