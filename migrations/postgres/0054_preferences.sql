-- Which notifications each member wants: as it has said, and what of that is looked up where they are made.
create table preferences (
    member_id uuid primary key,
    body text not null
);

create table mutes (
    member_id uuid not null,
    target_id uuid not null,
    primary key (member_id, target_id)
);

create table inbox_rules (
    member_id uuid not null,
    reason bigint not null,
    mail boolean not null,
    push boolean not null,
    primary key (member_id, reason)
);
