-- When each rate limit that servers have told each other of is whole again. Lost in a crash: then all are.
create unlogged table rate_windows (
    key uuid primary key,
    full_at bigint not null
);
create index rate_windows_by_end on rate_windows (full_at);
