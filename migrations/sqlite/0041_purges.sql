-- The words of a result are null once they were purged; the rest of its row stays.
create table results_anew (
    thread_id blob not null references threads (id),
    lsn bigint not null,
    workspace_id blob not null,
    result_kind text,
    result text,
    produced_by blob not null references members (id),
    produced_at bigint not null,
    primary key (thread_id, lsn)
);
insert into results_anew select * from results;
drop table results;
alter table results_anew rename to results;
create index results_of_workspace on results (workspace_id, lsn);

-- The purge of each workspace that is in progress or was the last: how far it has come is JSON.
create table purges (
    workspace_id blob primary key,
    up_to_lsn bigint not null,
    requested_by blob,
    until bigint not null,
    progress text not null,
    purged_at bigint
);
create index purges_in_progress on purges (until) where purged_at is null;
