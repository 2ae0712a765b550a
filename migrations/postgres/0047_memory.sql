-- What the terms of a workspace mean. `lsn` is that of the event by which the definition was set.
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

-- The blocks that whoever works on a thread reads.
create table thread_memory_blocks (
    thread_id uuid not null,
    block_id uuid not null,
    lsn bigint not null,
    primary key (thread_id, block_id)
);
create index threads_of_memory_block on thread_memory_blocks (block_id);
