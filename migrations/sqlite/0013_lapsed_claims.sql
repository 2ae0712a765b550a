-- The claims of a workspace whose lease has lapsed.
create index threads_by_lease_end_in_workspace on threads (workspace_id, assignment_expires_at)
    where assignment_expires_at is not null;
