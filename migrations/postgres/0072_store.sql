-- The store: what servers share about rate limits.
-- No table references another. The rows follow from the log, in an order that the code keeps, and that
-- SQLite, which has the references, checks in every test. Here each would cost a query for each row that is
-- written, a lock on the row that is referenced, and a comparison for each change of a thread.

-- When each rate limit that servers have reported to each other is whole again. They may be lost in a crash.
create unlogged table rate_windows (
    key uuid primary key,
    full_at bigint not null
);
create index rate_windows_by_end on rate_windows (full_at);
