-- Grants by which one member acts for another. Their tokens name them in tokens.grant_id.
create table delegation_grants (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    subject_id blob not null references members (id),
    delegate_id blob not null references members (id),
    capabilities bigint not null,
    purpose text not null,
    created_by blob references members (id),
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint,
    lsn bigint not null
);
create index delegation_grants_in_order on delegation_grants (workspace_id, lsn);

create table delegation_policies (
    workspace_id blob primary key references workspaces (id),
    ceiling_days bigint not null
);

-- The live tokens of a grant, however many have expired.
drop index tokens_of_grant;
create index tokens_of_grant on tokens (grant_id, expires_at) where grant_id is not null;
