-- When each rate limit that servers have told each other of is whole again. One server has nobody to tell.
create table rate_windows (
    key blob primary key,
    full_at integer not null
) strict, without rowid;
create index rate_windows_by_end on rate_windows (full_at);
