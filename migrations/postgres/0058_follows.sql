-- What members keep an eye on, and up to where each has seen it. `seq` numbers those of a member.
create table follows (
    member_id uuid not null,
    target_id uuid not null,
    kind text not null,
    seen_lsn bigint not null,
    at bigint not null,
    seq bigint not null,
    primary key (member_id, target_id)
);
create unique index follows_in_order on follows (member_id, seq);
create index followers on follows (target_id, member_id);
