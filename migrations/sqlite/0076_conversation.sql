-- Conversation: channels, messages with their keys, memory, votes, and the inbox.

-- Channels. A direct message is a private channel of a set of members; a group is one that was opened for
-- more than two.
create table channels (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    name text not null,
    topic text,
    private boolean not null,
    created_by blob references members (id),
    created_at bigint not null,
    archived_at bigint,
    lsn bigint not null,
    dm boolean not null default false,
    is_group boolean not null default false
);
create index channels_in_order on channels (workspace_id, lsn);

create table channel_members (
    channel_id blob not null references channels (id),
    member_id blob not null references members (id),
    added_by blob references members (id),
    added_at bigint not null,
    lsn bigint not null,
    primary key (channel_id, member_id)
) without rowid;
create index channel_members_in_order on channel_members (channel_id, lsn);
-- The channels of a member in the order in which it joined them.
create index channels_of_member_in_order on channel_members (member_id, lsn);

-- Finds the direct message of a set of members, by the hash of their ids.
create table dm_sets (
    workspace_id blob not null references workspaces (id),
    set_key blob not null,
    channel_id blob not null unique references channels (id),
    primary key (workspace_id, set_key)
);

-- The keys of messages are derived from shelves of 4096 positions of a workspace's log each. `sealed` is
-- what is left of the shelf's key tree. A withdrawal replaces it, and nothing else has to be removed from
-- the files.
-- SQLite moves the rows of a page when it splits it or joins it with another, and may leave an old copy in
-- the free part of the page, where nothing overwrites it. So the nodes come after `ahead`, more bytes than a
-- page can hold: they are in overflow pages of their own, which are never moved and are overwritten once
-- they are freed.
create table shelves (
    workspace_id blob not null,
    shelf bigint not null,
    version bigint not null,
    ahead blob not null default (zeroblob(4096)),
    sealed blob not null,
    primary key (workspace_id, shelf)
);

-- Key tables from whose files destroyed bytes are still to be removed, and for which events of which
-- workspaces.
create table scrubs (
    key_table text not null,
    workspace_id blob not null,
    lsn bigint not null,
    primary key (key_table, workspace_id, lsn)
) without rowid;

-- Messages. `sealed` is the content of the present edit; null once withdrawn. `wrapped` is the message's
-- key, wrapped by the leaf of its position; null once withdrawn. A message without an author is the
-- service's own.
create table messages (
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
    wrapped blob,
    -- Whether the message has, or once had, reactions or a pin; the others are read without looking for
    -- them.
    marked boolean not null default false,
    -- The hash of the event with the present content; null if that event was pruned.
    content_hash blob
);
create index messages_of_thread on messages (thread_id, lsn);
create index messages_in_order on messages (workspace_id, lsn);
-- Counts what is new in a channel, from its end.
create index messages_of_channel on messages (channel_id, lsn);

-- The earlier edits of messages.
create table message_edits (
    message_id blob not null references messages (id),
    edit bigint not null,
    written_at bigint not null,
    sealed blob,
    lsn bigint not null,
    primary key (message_id, edit)
);
create index message_edits_in_order on message_edits (message_id, lsn);

create table reactions (
    message_id blob not null references messages (id),
    emoji text not null,
    member_id blob not null references members (id),
    lsn bigint not null,
    primary key (message_id, emoji, member_id)
) without rowid;
-- Reads the first reactions to a message with one emoji.
create index reactions_by_age on reactions (message_id, emoji, lsn);

create table pins (
    message_id blob primary key references messages (id),
    channel_id blob not null references channels (id),
    pinned_by blob references members (id),
    at bigint not null,
    lsn bigint not null
);
create index pins_of_channel on pins (channel_id, lsn);

-- Votes. The question and the options are content of the message alone: `options` is their number.
create table votes (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null,
    thread_id blob not null,
    message_id blob not null unique references messages (id),
    options bigint not null,
    multiple boolean not null,
    created_by blob not null,
    closes_at bigint,
    closed_at bigint,
    closed_by blob,
    lsn bigint not null
);
create index votes_in_order on votes (workspace_id, lsn);
create index votes_of_thread on votes (thread_id, lsn);
create index votes_that_close on votes (closes_at, id) where closed_at is null and closes_at is not null;

-- The ballots, one row for each option that a member has chosen.
create table ballots (
    vote_id blob not null references votes (id),
    choice bigint not null,
    member_id blob not null,
    lsn bigint not null,
    primary key (vote_id, choice, member_id)
) without rowid;
-- Reads the first members who have chosen an option, and what one member has chosen.
create index ballots_in_order on ballots (vote_id, choice, lsn);
create index ballots_of_member on ballots (vote_id, member_id);

-- How many members have chosen an option of a vote, and as the choice -1 how many have chosen any.
create table ballot_counts (
    vote_id blob not null references votes (id),
    choice bigint not null,
    total bigint not null,
    primary key (vote_id, choice)
) without rowid;

-- The terms of a workspace. `lsn` is that of the event that set the definition.
create table glossary (
    workspace_id blob not null references workspaces (id),
    key text not null,
    term text not null,
    definition text not null,
    updated_by blob references members (id),
    at bigint not null,
    lsn bigint not null,
    primary key (workspace_id, key)
);
create index glossary_in_order on glossary (workspace_id, lsn);

-- What an agent reads when it arrives in a channel.
create table boots (
    channel_id blob not null primary key references channels (id),
    text text not null,
    version bigint not null,
    updated_by blob references members (id),
    at bigint not null,
    lsn bigint not null
);

-- Memory blocks: texts that members keep for each other. `lsn` is that of the last event that wrote one.
create table memory_blocks (
    id blob not null primary key,
    workspace_id blob not null references workspaces (id),
    label text not null,
    description text,
    char_limit bigint not null,
    read_only boolean not null,
    value text not null,
    version bigint not null,
    created_by blob references members (id),
    updated_by blob references members (id),
    at bigint not null,
    lsn bigint not null
);
create index memory_blocks_in_order on memory_blocks (workspace_id, lsn);

-- The blocks that the members who work on a thread read.
create table thread_memory_blocks (
    thread_id blob not null references threads (id),
    block_id blob not null references memory_blocks (id),
    lsn bigint not null,
    primary key (thread_id, block_id)
) without rowid;
create index threads_of_memory_block on thread_memory_blocks (block_id);

-- Which members have reported, or for which a process has reported, that they are there.
create table presence (
    member_id blob not null primary key references members (id),
    status text not null,
    note text,
    thread_id blob,
    seen_at bigint not null
);

-- What members follow, and up to where each has seen it. `seq` numbers those of a member.
create table follows (
    member_id blob not null references members (id),
    target_id blob not null,
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
    mail_due bigint,
    push_due bigint,
    primary key (member_id, lsn)
) without rowid;
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
    member_id blob not null references members (id),
    target_id blob not null,
    primary key (member_id, target_id)
) without rowid;
