-- Sessions of browsers. One that was made from a token is that token, as long as the token has this secret.
create table sessions (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    member_id blob not null references members (id),
    token_id blob references tokens (id),
    secret_hash blob,
    capabilities bigint,
    created_at bigint not null,
    expires_at bigint not null,
    ended_at bigint
);
create index sessions_of_member on sessions (member_id) where ended_at is null;
create index sessions_by_end on sessions (coalesce(ended_at, expires_at));
