-- What the terms of a workspace mean. `lsn` is that of the event by which the definition was set.
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

-- The blocks that whoever works on a thread reads.
create table thread_memory_blocks (
    thread_id blob not null references threads (id),
    block_id blob not null references memory_blocks (id),
    lsn bigint not null,
    primary key (thread_id, block_id)
) without rowid;
create index threads_of_memory_block on thread_memory_blocks (block_id);
