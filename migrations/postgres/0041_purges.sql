-- The words of a result are null once they were purged; the rest of its row stays.
alter table results alter column result drop not null;

-- The purge of each workspace that is in progress or was the last: how far it has come is JSON.
create table purges (
    workspace_id uuid primary key,
    up_to_lsn bigint not null,
    requested_by uuid,
    until bigint not null,
    progress text not null,
    purged_at bigint
);
create index purges_in_progress on purges (until) where purged_at is null;
