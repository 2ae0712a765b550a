-- Who has said when, or for whom a process has said, that it is there.
create table presence (
    member_id uuid not null primary key,
    status text not null,
    note text,
    thread_id uuid,
    seen_at bigint not null
) with (fillfactor = 50);
alter table presence alter column note set statistics 0;
