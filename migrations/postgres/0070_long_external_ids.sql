-- An external id of 1,000 characters is longer than an index of Postgres takes: these find it by its beginning.
drop index people_by_external_id;
create index people_by_external_id on members (workspace_id, substr(external_id, 1, 200), lsn)
    where external_id is not null;
drop index scim_groups_by_external_id;
create index scim_groups_by_external_id on scim_groups (workspace_id, substr(external_id, 1, 200), lsn)
    where external_id is not null;
