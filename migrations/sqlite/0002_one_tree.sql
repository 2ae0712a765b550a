-- Heads and message keys are small rows that are only found by their ids: kept in the tree of their key, a look
-- takes one descent instead of two.
create table heads_by_id (
    workspace_id blob primary key,
    lsn bigint not null,
    hash blob not null,
    at bigint not null,
    audit_seq bigint not null,
    epoch bigint not null
) without rowid;
insert into heads_by_id select workspace_id, lsn, hash, at, audit_seq, epoch from heads;
drop table heads;
alter table heads_by_id rename to heads;

create table message_keys_by_id (
    message_id blob primary key,
    wrapped blob not null
) without rowid;
insert into message_keys_by_id select message_id, wrapped from message_keys;
drop table message_keys;
alter table message_keys_by_id rename to message_keys;
