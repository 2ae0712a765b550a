-- What connections cache of a workspace ends by two epochs: of access, and of the rules by which work is given out.
alter table heads add column rules_epoch bigint not null default 0;

-- A set is known by the SHA-256 of its skills: the names of the largest sets are too long for an index.
create table skill_sets_by_hash (
    workspace_id blob not null references workspaces (id),
    id bigint not null,
    skills text not null,
    hash blob not null,
    primary key (workspace_id, id),
    unique (workspace_id, hash)
) without rowid;
insert into skill_sets_by_hash select workspace_id, id, skills, sha256(skills) from skill_sets;
drop table skill_sets;
alter table skill_sets_by_hash rename to skill_sets;

-- Who has worked on a thread: who claimed it, who was given it and who set its result, delegates included. `lsn` is
-- the position at which a member's work on it was first told.
create table thread_workers (
    thread_id blob not null references threads (id),
    member_id blob not null references members (id),
    lsn bigint not null,
    primary key (thread_id, member_id)
) without rowid;
insert into thread_workers (thread_id, member_id, lsn)
    select e.thread_id, e.member_id, min(e.lsn)
    from events e join threads t on t.id = e.thread_id join members m on m.id = e.member_id
    where e.kind in ('ThreadAssignmentChanged', 'ThreadResultSet')
    group by e.thread_id, e.member_id;
insert into thread_workers (thread_id, member_id, lsn)
    select thread_id, produced_by, min(lsn) from results where true group by thread_id, produced_by
    on conflict do nothing;
