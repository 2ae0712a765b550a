-- Conversation: channels, messages with their keys, memory, votes, and the inbox.

-- Channels. A direct message is a private channel of a set of members; a group is one that was opened for
-- more than two.
create table channels (
    id uuid primary key,
    workspace_id uuid not null,
    name text not null,
    topic text,
    private boolean not null,
    created_by uuid,
    created_at bigint not null,
    archived_at bigint,
    lsn bigint not null,
    dm boolean not null default false,
    is_group boolean not null default false
);
create index channels_in_order on channels (workspace_id, lsn);

create table channel_members (
    channel_id uuid not null,
    member_id uuid not null,
    added_by uuid,
    added_at bigint not null,
    lsn bigint not null,
    primary key (channel_id, member_id)
);
create index channel_members_in_order on channel_members (channel_id, lsn);
-- The channels of a member in the order in which it joined them.
create index channels_of_member_in_order on channel_members (member_id, lsn);

-- Finds the direct message of a set of members, by the hash of their ids.
create table dm_sets (
    workspace_id uuid not null,
    set_key bytea not null,
    channel_id uuid not null unique,
    primary key (workspace_id, set_key)
);

-- The keys of messages are derived from shelves of 4096 positions of a workspace's log each. `sealed` is
-- what is left of the shelf's key tree. A withdrawal replaces it, and the partition it is in is all that has
-- to be rewritten afterwards.
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
-- ANALYZE copies samples of a column into the catalog, where destroyed nodes would outlive their row.
alter table shelves alter column sealed set statistics 0;

-- Key tables from whose files destroyed bytes are still to be removed, and for which events of which
-- workspaces.
create table scrubs (
    key_table text not null,
    workspace_id uuid not null,
    lsn bigint not null,
    primary key (key_table, workspace_id, lsn)
);

-- Messages. `sealed` is the content of the present edit; null once withdrawn. `wrapped` is the message's
-- key, wrapped by the leaf of its position; null once withdrawn. A message without an author is the
-- service's own.
create table messages (
    id uuid primary key,
    workspace_id uuid not null,
    channel_id uuid not null,
    thread_id uuid not null,
    author_id uuid,
    posted_at bigint not null,
    edited_at bigint,
    edits bigint not null,
    withdrawn_at bigint,
    sealed bytea,
    lsn bigint not null,
    wrapped bytea,
    -- Whether the message has, or once had, reactions or a pin; the others are read without looking for
    -- them.
    marked boolean not null default false,
    -- The hash of the event with the present content; null if that event was pruned.
    content_hash bytea
);
create index messages_of_thread on messages (thread_id, lsn);
create index messages_in_order on messages (workspace_id, lsn);
-- Counts what is new in a channel, from its end.
create index messages_of_channel on messages (channel_id, lsn);

-- The earlier edits of messages.
create table message_edits (
    message_id uuid not null,
    edit bigint not null,
    written_at bigint not null,
    sealed bytea,
    lsn bigint not null,
    primary key (message_id, edit)
);
create index message_edits_in_order on message_edits (message_id, lsn);

create table reactions (
    message_id uuid not null,
    emoji text not null,
    member_id uuid not null,
    lsn bigint not null,
    primary key (message_id, emoji, member_id)
);
-- Reads the first reactions to a message with one emoji.
create index reactions_by_age on reactions (message_id, emoji, lsn);

create table pins (
    message_id uuid primary key,
    channel_id uuid not null,
    pinned_by uuid,
    at bigint not null,
    lsn bigint not null
);
create index pins_of_channel on pins (channel_id, lsn);

-- Votes. The question and the options are content of the message alone: `options` is their number.
create table votes (
    id uuid primary key,
    workspace_id uuid not null,
    channel_id uuid not null,
    thread_id uuid not null,
    message_id uuid not null unique,
    options bigint not null,
    multiple boolean not null,
    created_by uuid not null,
    closes_at bigint,
    closed_at bigint,
    closed_by uuid,
    lsn bigint not null
);
create index votes_in_order on votes (workspace_id, lsn);
create index votes_of_thread on votes (thread_id, lsn);
create index votes_that_close on votes (closes_at, id) where closed_at is null and closes_at is not null;

-- The ballots, one row for each option that a member has chosen.
create table ballots (
    vote_id uuid not null,
    choice bigint not null,
    member_id uuid not null,
    lsn bigint not null,
    primary key (vote_id, choice, member_id)
);
-- Reads the first members who have chosen an option, and what one member has chosen.
create index ballots_in_order on ballots (vote_id, choice, lsn);
create index ballots_of_member on ballots (vote_id, member_id);

-- How many members have chosen an option of a vote, and as the choice -1 how many have chosen any.
create table ballot_counts (
    vote_id uuid not null,
    choice bigint not null,
    total bigint not null,
    primary key (vote_id, choice)
);

-- The terms of a workspace. `lsn` is that of the event that set the definition.
create table glossary (
    workspace_id uuid not null,
    key text not null,
    term text not null,
    definition text not null,
    updated_by uuid,
    at bigint not null,
    lsn bigint not null,
    primary key (workspace_id, key)
);
-- ANALYZE copies samples of a column into the catalog, where no purge would find them.
alter table glossary alter column definition set statistics 0;
create index glossary_in_order on glossary (workspace_id, lsn);

-- What an agent reads when it arrives in a channel.
create table boots (
    channel_id uuid not null primary key,
    text text not null,
    version bigint not null,
    updated_by uuid,
    at bigint not null,
    lsn bigint not null
);
alter table boots alter column text set statistics 0;

-- Memory blocks: texts that members keep for each other. `lsn` is that of the last event that wrote one.
create table memory_blocks (
    id uuid not null primary key,
    workspace_id uuid not null,
    label text not null,
    description text,
    char_limit bigint not null,
    read_only boolean not null,
    value text not null,
    version bigint not null,
    created_by uuid,
    updated_by uuid,
    at bigint not null,
    lsn bigint not null
);
alter table memory_blocks alter column description set statistics 0, alter column value set statistics 0;
create index memory_blocks_in_order on memory_blocks (workspace_id, lsn);

-- The blocks that the members who work on a thread read.
create table thread_memory_blocks (
    thread_id uuid not null,
    block_id uuid not null,
    lsn bigint not null,
    primary key (thread_id, block_id)
);
create index threads_of_memory_block on thread_memory_blocks (block_id);

-- Which members have reported, or for which a process has reported, that they are there. Half of each page
-- is left for updates.
create table presence (
    member_id uuid not null primary key,
    status text not null,
    note text,
    thread_id uuid,
    seen_at bigint not null
) with (fillfactor = 50);
alter table presence alter column note set statistics 0;

-- What members follow, and up to where each has seen it. `seq` numbers those of a member.
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

-- What concerns each member, and whether it has read that. The reasons are bits, the strongest the lowest.
-- The inbox is also the queue of notifications: when an item is due by mail and by push, if at all.
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
    mail_due bigint,
    push_due bigint,
    primary key (member_id, lsn)
);
create unique index inbox_of_message on inbox (message_id, member_id) where message_id is not null;
create index inbox_in_order on inbox (workspace_id, lsn);
create index inbox_unread on inbox (member_id, read_at, lsn) where read_at is null;
create index inbox_unread_in on inbox (member_id, channel_id, read_at)
    where read_at is null and message_id is not null;
create index inbox_unread_since on inbox (at) where read_at is null;
create index inbox_read_at on inbox (read_at) where read_at is not null;
-- By workspace, so that a workspace with much does not hide that of others.
create index inbox_mail_due on inbox (workspace_id, mail_due, member_id) where mail_due is not null;
create index inbox_push_due on inbox (workspace_id, push_due, member_id) where push_due is not null;
-- Finds the unread items that mention a member among any number of others.
create index inbox_spoken_unread
    on inbox (member_id, (case when read_at is null and (reasons & 15) <> 0 then 1 end), lsn)
    where case when read_at is null and (reasons & 15) <> 0 then 1 end = 1;

create table mutes (
    member_id uuid not null,
    target_id uuid not null,
    primary key (member_id, target_id)
);
