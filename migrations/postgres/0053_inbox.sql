-- What concerns each member, and whether it has read that. The reasons are bits, the strongest the lowest.
create table inbox (
    workspace_id uuid not null,
    member_id uuid not null,
    lsn bigint not null,
    reasons bigint not null,
    channel_id uuid not null,
    thread_id uuid,
    message_id uuid,
    actor_id uuid,
    at bigint not null,
    read_at bigint,
    primary key (member_id, lsn)
);
create unique index inbox_of_message on inbox (message_id, member_id) where message_id is not null;
create index inbox_in_order on inbox (workspace_id, lsn);
create index inbox_unread on inbox (member_id, read_at, lsn) where read_at is null;
create index inbox_unread_in on inbox (member_id, channel_id, read_at)
    where read_at is null and message_id is not null;
create index inbox_unread_since on inbox (at) where read_at is null;
create index inbox_read_at on inbox (read_at) where read_at is not null;
