-- How much of a log is left, and how far durable subscriptions have come.
alter table heads add column floor bigint not null default 1;
alter table heads add column pruned_at bigint not null default 0;
alter table heads add column words_floor bigint not null default 0;
create table consumers (
    workspace_id uuid not null,
    member_id uuid not null,
    consumer_id text not null,
    after_id bigint not null,
    holder uuid not null,
    seen_at bigint not null,
    primary key (workspace_id, member_id, consumer_id)
);
create index consumers_by_seen on consumers (seen_at);
