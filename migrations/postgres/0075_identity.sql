-- Identity: workspaces, members, and the credentials by which they act.

create table workspaces (
    id uuid primary key,
    name text not null,
    handle text unique,
    created_at bigint not null,
    lsn bigint not null,
    -- A workspace that is being imported or erased is hidden.
    state text not null default 'live',
    -- The workspace whose limits an imported one shares: the one that imported it, or what that one is
    -- charged to. Null: its own.
    charged_to uuid
);

-- `changed_at` is when the names of a member last changed. `external_id` is the identity provider's id of a
-- person, and `removed_at` when a person was removed for good.
create table members (
    id uuid primary key,
    workspace_id uuid not null,
    handle text not null,
    kind text not null,
    display_name text,
    created_at bigint not null,
    frozen_at bigint,
    deactivated_at bigint,
    lsn bigint not null,
    frozen_by uuid,
    frozen_reason text,
    changed_at bigint,
    external_id text,
    removed_at bigint,
    unique (workspace_id, handle)
);
create index members_in_order on members (workspace_id, lsn);
create index members_frozen on members (workspace_id, lsn) where frozen_at is not null;
create index people_in_order on members (workspace_id, lsn) where kind = 'human' and removed_at is null;
-- An external id of 1,000 characters is longer than an index of Postgres takes: its beginning finds it.
create index people_by_external_id on members (workspace_id, substr(external_id, 1, 200), lsn)
    where external_id is not null;

create table member_skills (
    member_id uuid not null,
    skill text not null,
    governance boolean not null,
    primary key (member_id, skill)
);
-- Finds who has a skill.
create index member_skills_by_skill on member_skills (skill, member_id);

create table delegation_policies (
    workspace_id uuid primary key,
    ceiling_days bigint not null
);

-- Grants by which one member acts for another. Their tokens name them in `tokens.grant_id`.
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
-- The live grants that a member holds, however many have ended.
create index delegation_grants_held on delegation_grants (delegate_id, expires_at) where revoked_at is null;

-- Apps, and their installations. Each installation has an agent member, whose tokens name the installation.
create table apps (
    id uuid primary key,
    workspace_id uuid not null,
    slug text not null,
    name text not null,
    created_by uuid,
    created_at bigint not null,
    lsn bigint not null
);
create unique index apps_by_slug on apps (workspace_id, slug);
create index apps_in_order on apps (workspace_id, lsn);

create table app_installations (
    id uuid primary key,
    workspace_id uuid not null,
    app_id uuid not null,
    bot_member_id uuid not null,
    capabilities bigint not null,
    client_secret_hash bytea not null,
    installed_by uuid,
    installed_at bigint not null,
    revoked_at bigint,
    lsn bigint not null,
    -- Requests per rate window that all tokens of the installation may make; null if it has no quota.
    quota bigint
);
create unique index app_installations_active on app_installations (app_id) where revoked_at is null;
create index app_installations_in_order on app_installations (workspace_id, lsn);

create table tokens (
    id uuid primary key,
    workspace_id uuid not null,
    member_id uuid not null,
    actor_id uuid not null,
    parent_id uuid,
    grant_id uuid,
    label text,
    secret_hash bytea not null unique,
    capabilities bigint not null,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint,
    lsn bigint not null,
    installation_id uuid,
    -- Requests per rate window that the token may make, with all that are derived from it; null if it has no
    -- quota.
    quota bigint
);
create index tokens_of_member on tokens (member_id, lsn);
-- The live tokens of a grant, however many have expired.
create index tokens_of_grant on tokens (grant_id, expires_at) where grant_id is not null;
-- The live tokens that act as a member or that a member holds, however many have ended.
create index tokens_live_of_member on tokens (member_id, coalesce(expires_at, 9223372036854775807))
    where revoked_at is null;
create index tokens_live_of_actor on tokens (actor_id, coalesce(expires_at, 9223372036854775807))
    where revoked_at is null;
-- Those of an installation, and those derived from another token.
create index tokens_of_installation on tokens (installation_id, coalesce(expires_at, 9223372036854775807))
    where installation_id is not null;
create index tokens_derived on tokens (parent_id, coalesce(expires_at, 9223372036854775807))
    where parent_id is not null and revoked_at is null;
-- Finds what refers to a token that is deleted.
create index tokens_by_parent on tokens (parent_id);

-- Sessions of browsers. A session that was made from a token ends when the token's secret changes.
create table sessions (
    id uuid primary key,
    workspace_id uuid not null,
    member_id uuid not null,
    token_id uuid,
    secret_hash bytea,
    capabilities bigint,
    created_at bigint not null,
    expires_at bigint not null,
    ended_at bigint
);
create index sessions_of_member on sessions (member_id) where ended_at is null;
create index sessions_by_end on sessions (coalesce(ended_at, expires_at));
-- Finds what refers to a token that is deleted.
create index sessions_of_token on sessions (token_id);

-- Groups of people as an identity provider keeps them. They carry no rights.
create table scim_groups (
    id uuid primary key,
    workspace_id uuid not null,
    display_name text not null,
    external_id text,
    created_at bigint not null,
    changed_at bigint not null,
    lsn bigint not null
);
create index scim_groups_in_order on scim_groups (workspace_id, lsn);
create index scim_groups_by_external_id on scim_groups (workspace_id, substr(external_id, 1, 200), lsn)
    where external_id is not null;

create table scim_group_members (
    group_id uuid not null,
    member_id uuid not null,
    primary key (group_id, member_id)
);
create index scim_group_members_of_member on scim_group_members (member_id);

-- The people who sign in at an identity provider.
create table oidc_identities (
    workspace_id uuid not null,
    issuer text not null,
    subject text not null,
    member_id uuid not null,
    linked_at bigint not null,
    primary key (workspace_id, issuer, subject)
);
create unique index oidc_identities_of_member on oidc_identities (member_id, issuer);

-- Sign-ins that have begun at an identity provider and not come back.
create table oidc_logins (
    state_hash bytea primary key,
    workspace_id uuid not null,
    browser_hash bytea not null,
    return_to text not null,
    expires_at bigint not null
);
create index oidc_logins_by_end on oidc_logins (expires_at);
-- Finds the newest of a workspace.
create index oidc_logins_of_workspace on oidc_logins (workspace_id, expires_at);
