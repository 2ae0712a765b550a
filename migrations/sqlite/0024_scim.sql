-- What an identity provider calls a person, and when a person was removed for good.
alter table members add column external_id text;
alter table members add column removed_at bigint;
create index people_in_order on members (workspace_id, lsn) where kind = 'human' and removed_at is null;
create index people_by_external_id on members (workspace_id, external_id, lsn) where external_id is not null;

-- The live tokens that act as a member or that a member holds, and the grants that it holds, however many have
-- ended.
create index tokens_live_of_member on tokens (member_id, coalesce(expires_at, 9223372036854775807))
    where revoked_at is null;
create index tokens_live_of_actor on tokens (actor_id, coalesce(expires_at, 9223372036854775807))
    where revoked_at is null;
create index delegation_grants_held on delegation_grants (delegate_id, expires_at) where revoked_at is null;

-- Groups of people as an identity provider keeps them. They carry no rights.
create table scim_groups (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    display_name text not null,
    external_id text,
    created_at bigint not null,
    changed_at bigint not null,
    lsn bigint not null
);
create index scim_groups_in_order on scim_groups (workspace_id, lsn);
create index scim_groups_by_external_id on scim_groups (workspace_id, external_id, lsn)
    where external_id is not null;
create table scim_group_members (
    group_id blob not null references scim_groups (id),
    member_id blob not null references members (id),
    primary key (group_id, member_id)
);
create index scim_group_members_of_member on scim_group_members (member_id);
