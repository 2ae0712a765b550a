-- Live claims of a workspace, and those of one holder, in the order of their threads.
drop index threads_claimed;
create index threads_claimed on threads (workspace_id, lsn) where assignee_id is not null;
create index threads_of_holder on threads (assignee_id, lsn) where assignee_id is not null;
