-- How much of a log is left, and how far durable subscriptions have come.
alter table heads add column floor bigint not null default 1;
alter table heads add column pruned_at bigint not null default 0;
alter table heads add column words_floor bigint not null default 0;
create table consumers (
    workspace_id blob not null references workspaces (id),
    member_id blob not null references members (id),
    consumer_id text not null,
    after_id bigint not null,
    holder blob not null,
    seen_at bigint not null,
    primary key (workspace_id, member_id, consumer_id)
) without rowid;
create index consumers_by_seen on consumers (seen_at);
