-- Relations between messages, such as that one refutes another. A derived one follows from what the message cites:
-- it has the position of the event with those words. `kind` refutes counts until it is resolved.
create table relations (
    id uuid primary key,
    workspace_id uuid not null,
    kind text not null,
    from_id uuid not null,
    from_thread_id uuid not null,
    from_channel_id uuid not null,
    to_id uuid not null,
    to_thread_id uuid not null,
    to_channel_id uuid not null,
    derived boolean not null,
    made_by uuid,
    made_at bigint not null,
    lsn bigint not null,
    resolved_by uuid,
    resolved_actor_id uuid,
    resolved_at bigint,
    unique (from_id, to_id, kind)
);
create index relations_in_order on relations (workspace_id, lsn);
create index relations_to on relations (to_id, lsn);
create index refutations_of_thread on relations (to_thread_id) where kind = 'refutes';
create index refutations_from_channel on relations (from_channel_id) where kind = 'refutes';
