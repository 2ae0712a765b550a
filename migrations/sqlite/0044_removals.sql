-- How far the removal of a workspace's rows has come, as JSON.
alter table erased add column place text;
alter table imports add column place text;

-- What is known of the imports of a workspace goes when it is erased.
create index imports_of_workspace on imports (workspace_id);
