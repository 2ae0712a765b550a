-- Where a finding is stands in its review's words, which are sealed, and goes with them.
-- To drop a column leaves its bytes in place: giving it another content rewrites the table first.
alter table findings alter column path type text using null;
alter table findings drop column path;

-- Who resolved a finding, as the member and as its delegate: neither may have worked on the thread.
alter table findings add column resolved_actor_id uuid references members (id);
update findings set resolved_actor_id = resolved_by;
drop index findings_that_block;
create index findings_critical on findings (thread_id, lsn, number) where severity = 'critical';

-- Gates whose time is over, one after the other.
drop index approval_gates_by_end;
create index approval_gates_due on approval_gates (expires_at, id)
    where state = 'pending' and expires_at is not null;

-- Who has a skill.
create index member_skills_by_skill on member_skills (skill, member_id);
