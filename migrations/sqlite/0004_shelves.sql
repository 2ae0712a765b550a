-- Keys of messages hang on shelves of 4096 positions of a workspace's log. `sealed` is the nodes that are left of the
-- shelf's key tree; a withdrawal replaces it, and nothing else has to be removed from the files.
create table shelves (
    workspace_id blob not null,
    shelf bigint not null,
    version bigint not null,
    sealed blob not null,
    primary key (workspace_id, shelf)
);

-- Key tables from whose files destroyed bytes are still to be removed, and for which events of which workspaces.
create table scrubs (
    key_table text not null,
    workspace_id blob not null,
    lsn bigint not null,
    primary key (key_table, workspace_id, lsn)
) without rowid;
insert into scrubs select 'message_keys', zeroblob(16), 0 from chores where name = 'scrub' and asked > done;
drop table chores;

-- `wrapped` is the message's key, wrapped by the leaf of its position; null once withdrawn. Keys that were wrapped
-- before there were shelves are in message_keys until they have been moved. A message without an author is the
-- service's own.
create table message_edits_kept as select message_id, edit, written_at, sealed, lsn from message_edits;
drop table message_edits;
create table messages_on_shelves (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null references channels (id),
    thread_id blob not null references threads (id),
    author_id blob references members (id),
    posted_at bigint not null,
    edited_at bigint,
    edits bigint not null,
    withdrawn_at bigint,
    sealed blob,
    lsn bigint not null,
    wrapped blob
);
insert into messages_on_shelves
    select id, workspace_id, channel_id, thread_id, author_id, posted_at, edited_at, edits, withdrawn_at, sealed, lsn, null
    from messages order by rowid;
drop table messages;
alter table messages_on_shelves rename to messages;
create index messages_of_thread on messages (thread_id, lsn);
create index messages_in_order on messages (workspace_id, lsn);
create table message_edits (
    message_id blob not null references messages (id),
    edit bigint not null,
    written_at bigint not null,
    sealed blob,
    lsn bigint not null,
    primary key (message_id, edit)
);
insert into message_edits select message_id, edit, written_at, sealed, lsn from message_edits_kept;
drop table message_edits_kept;

-- The notice of a cancel goes with the message that says the same.
alter table thread_notices add column message_id blob;
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
