-- The audit rows of all workspaces and of the instance in the order of time, as the instance's operator reads them.
create index audit_in_order on audit (at, workspace_id, seq);
