-- Events as rows of their own: in the tree of a key a row of more than a quarter of a page takes a whole overflow
-- page beside it.
create table events_as_rows (
    workspace_id blob not null,
    lsn bigint not null,
    kind text not null,
    at bigint not null,
    channel_id blob,
    thread_id blob,
    member_id blob,
    prev_hash blob not null,
    content_hash blob not null,
    payload text not null,
    primary key (workspace_id, lsn)
);
insert into events_as_rows select * from events order by workspace_id, lsn;
drop table events;
alter table events_as_rows rename to events;
create index events_of_thread on events (thread_id, lsn) where thread_id is not null;

-- What a revocation has to end: live tokens derived from another, and those of a grant.
drop index tokens_of_parent;
create index tokens_derived on tokens (parent_id, expires_at) where parent_id is not null and revoked_at is null;
create index tokens_of_grant on tokens (grant_id) where grant_id is not null;
