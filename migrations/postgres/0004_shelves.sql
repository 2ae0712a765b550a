-- Keys of messages hang on shelves of 4096 positions of a workspace's log. `sealed` is the nodes that are left of the
-- shelf's key tree; a withdrawal replaces it, and the partition it is in is all that has to be rewritten afterwards.
create table shelves (
    workspace_id uuid not null,
    shelf bigint not null,
    version bigint not null,
    sealed bytea not null,
    primary key (workspace_id, shelf)
) partition by hash (workspace_id, shelf);
create table shelves_00 partition of shelves for values with (modulus 16, remainder 0);
create table shelves_01 partition of shelves for values with (modulus 16, remainder 1);
create table shelves_02 partition of shelves for values with (modulus 16, remainder 2);
create table shelves_03 partition of shelves for values with (modulus 16, remainder 3);
create table shelves_04 partition of shelves for values with (modulus 16, remainder 4);
create table shelves_05 partition of shelves for values with (modulus 16, remainder 5);
create table shelves_06 partition of shelves for values with (modulus 16, remainder 6);
create table shelves_07 partition of shelves for values with (modulus 16, remainder 7);
create table shelves_08 partition of shelves for values with (modulus 16, remainder 8);
create table shelves_09 partition of shelves for values with (modulus 16, remainder 9);
create table shelves_10 partition of shelves for values with (modulus 16, remainder 10);
create table shelves_11 partition of shelves for values with (modulus 16, remainder 11);
create table shelves_12 partition of shelves for values with (modulus 16, remainder 12);
create table shelves_13 partition of shelves for values with (modulus 16, remainder 13);
create table shelves_14 partition of shelves for values with (modulus 16, remainder 14);
create table shelves_15 partition of shelves for values with (modulus 16, remainder 15);
-- ANALYZE keeps samples of what a column holds, where destroyed nodes would outlive their row.
alter table shelves alter column sealed set statistics 0;

-- Key tables from whose files destroyed bytes are still to be removed, and for which events of which workspaces.
create table scrubs (
    key_table text not null,
    workspace_id uuid not null,
    lsn bigint not null,
    primary key (key_table, workspace_id, lsn)
);
insert into scrubs
    select 'message_keys', '00000000-0000-0000-0000-000000000000', 0 from chores where name = 'scrub' and asked > done;
drop table chores;

-- `wrapped` is the message's key, wrapped by the leaf of its position; null once withdrawn. Keys that were wrapped
-- before there were shelves are in message_keys until they have been moved. A message without an author is the
-- service's own.
alter table messages alter column author_id drop not null;
alter table messages add column wrapped bytea;
create index messages_in_order on messages (workspace_id, lsn);

-- The notice of a cancel goes with the message that says the same.
alter table thread_notices add column message_id uuid;
update thread_notices set message_id = (
    select m.id from messages m
    where m.thread_id = thread_notices.thread_id and m.lsn > thread_notices.lsn and m.posted_at = thread_notices.at
    order by m.lsn limit 1)
where kind = 'cancelled';
-- A message that is not there any more was purged.
update thread_notices set text = ''
where kind = 'cancelled'
    and (message_id is null or message_id in (select id from messages where withdrawn_at is not null));
create index notices_of_message on thread_notices (message_id) where message_id is not null;
