-- Checkpoints: the state of unfinished work, for whoever works on the thread next.
create table claim_checkpoints (
    thread_id blob not null primary key references threads (id),
    member_id blob not null references members (id),
    at bigint not null,
    lsn bigint not null,
    checkpoint text not null
);
alter table threads add column has_checkpoint boolean not null default false;
