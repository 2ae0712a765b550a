-- Who has said when, or for whom a process has said, that it is there.
create table presence (
    member_id blob not null primary key references members (id),
    status text not null,
    note text,
    thread_id blob,
    seen_at bigint not null
);
