-- The position of the event that made the claim in a thread's row, which the answer of a claim refers to.
alter table threads add column claim_lsn bigint;
update threads set claim_lsn = (
    select max(e.lsn) from events e where e.thread_id = threads.id and e.kind = 'ThreadAssignmentChanged')
where assignee_id is not null;
-- Reads the newest claims of a member.
create index threads_by_claim on threads (assignee_id, coalesce(claim_lsn, 0))
    where assignee_id is not null;
