-- Threads whose work is judged.
create index threads_in_review on threads (workspace_id, lsn) where state = 'in_review';
