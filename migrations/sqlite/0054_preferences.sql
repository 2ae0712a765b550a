-- Which notifications each member wants: as it has said, and what of that is looked up where they are made.
create table preferences (
    member_id blob primary key references members (id),
    body text not null
) without rowid;

create table mutes (
    member_id blob not null references members (id),
    target_id blob not null,
    primary key (member_id, target_id)
) without rowid;

create table inbox_rules (
    member_id blob not null references members (id),
    reason bigint not null,
    mail boolean not null,
    push boolean not null,
    primary key (member_id, reason)
) without rowid;
