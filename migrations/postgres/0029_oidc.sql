-- Who signs in at an identity provider, and sign-ins that have begun there and not come back.
create table oidc_identities (
    workspace_id uuid not null,
    issuer text not null,
    subject text not null,
    member_id uuid not null,
    linked_at bigint not null,
    primary key (workspace_id, issuer, subject)
);
create unique index oidc_identities_of_member on oidc_identities (member_id, issuer);
create table oidc_logins (
    state_hash bytea primary key,
    workspace_id uuid not null,
    browser_hash bytea not null,
    return_to text not null,
    expires_at bigint not null
);
create index oidc_logins_by_end on oidc_logins (expires_at);
