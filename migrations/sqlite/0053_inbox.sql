-- What concerns each member, and whether it has read that. The reasons are bits, the strongest the lowest.
create table inbox (
    workspace_id blob not null references workspaces (id),
    member_id blob not null references members (id),
    lsn bigint not null,
    reasons bigint not null,
    channel_id blob not null references channels (id),
    thread_id blob,
    message_id blob,
    actor_id blob,
    at bigint not null,
    read_at bigint,
    primary key (member_id, lsn)
) without rowid;
create unique index inbox_of_message on inbox (message_id, member_id) where message_id is not null;
create index inbox_in_order on inbox (workspace_id, lsn);
create index inbox_unread on inbox (member_id, read_at, lsn) where read_at is null;
create index inbox_unread_in on inbox (member_id, channel_id, read_at)
    where read_at is null and message_id is not null;
create index inbox_unread_since on inbox (at) where read_at is null;
create index inbox_read_at on inbox (read_at) where read_at is not null;
