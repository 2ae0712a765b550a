-- Threads whose work is judged.
create index threads_in_review on threads (workspace_id, lsn) where state = 'in_review';

-- Questions that wait for an answer.
create index approval_gates_pending on approval_gates (workspace_id, lsn) where state = 'pending';
