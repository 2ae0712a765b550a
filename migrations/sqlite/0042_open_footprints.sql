-- Open threads that have a footprint, also those with a claim: one that has lapsed is in nobody's way.
drop index threads_deferrable;
create index threads_open_with_footprint on threads (workspace_id, lsn)
    where footprint <> 0 and state = 'open';
