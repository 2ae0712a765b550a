-- Direct messages: private channels of a set of members. A group is one that was opened for more than two.
alter table channels add column dm boolean not null default false;
alter table channels add column is_group boolean not null default false;

-- By which set of members a direct message is found: the hash of their ids.
create table dm_sets (
    workspace_id uuid not null,
    set_key bytea not null,
    channel_id uuid not null unique,
    primary key (workspace_id, set_key)
);

-- What is new in a channel is counted from its end.
create index messages_of_channel on messages (channel_id, lsn);
