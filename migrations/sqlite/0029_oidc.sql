-- Who signs in at an identity provider, and sign-ins that have begun there and not come back.
create table oidc_identities (
    workspace_id blob not null references workspaces (id),
    issuer text not null,
    subject text not null,
    member_id blob not null references members (id),
    linked_at bigint not null,
    primary key (workspace_id, issuer, subject)
);
create unique index oidc_identities_of_member on oidc_identities (member_id, issuer);
create table oidc_logins (
    state_hash blob primary key,
    workspace_id blob not null references workspaces (id),
    browser_hash blob not null,
    return_to text not null,
    expires_at bigint not null
);
create index oidc_logins_by_end on oidc_logins (expires_at);
