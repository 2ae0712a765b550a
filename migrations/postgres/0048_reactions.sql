-- What members have put on messages: reactions, and pins in a channel.
create table reactions (
    message_id uuid not null,
    emoji text not null,
    member_id uuid not null,
    lsn bigint not null,
    primary key (message_id, emoji, member_id)
);

create table pins (
    message_id uuid primary key,
    channel_id uuid not null,
    pinned_by uuid,
    at bigint not null,
    lsn bigint not null
);
create index pins_of_channel on pins (channel_id, lsn);

-- Whether a message has, or once had, reactions or a pin; what has not is read without looking for them.
alter table messages add column marked boolean not null default false;

-- The hash of the event with the words of a message as they are; null if that event was pruned before.
alter table messages add column content_hash bytea;
update messages set content_hash = (
    select e.content_hash from events e
    where e.workspace_id = messages.workspace_id and e.lsn = coalesce(
        (select max(x.lsn) from message_edits x where x.message_id = messages.id), messages.lsn));
