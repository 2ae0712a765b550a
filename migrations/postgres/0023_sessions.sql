-- Sessions of browsers. One that was made from a token is that token, as long as the token has this secret.
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
