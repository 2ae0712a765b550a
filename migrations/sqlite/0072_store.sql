-- The store: what servers share about rate limits.
-- A reference may name a table of a later file: the schema is made in one transaction.

-- When each rate limit that servers have reported to each other is whole again. A single server shares them
-- with no other.
create table rate_windows (
    key blob primary key,
    full_at integer not null
) strict, without rowid;
create index rate_windows_by_end on rate_windows (full_at);
