-- Whether one of its people has given another verdict since: those of nobody but the last of each may count.
alter table reviews add column superseded boolean not null default false;
update reviews set superseded = true where exists (
    select 1 from reviews later
    where later.thread_id = reviews.thread_id and later.lsn > reviews.lsn
        and (later.member_id in (reviews.member_id, reviews.actor_id)
            or later.actor_id in (reviews.member_id, reviews.actor_id)));
create index reviews_that_stand on reviews (thread_id, lsn) where not superseded;
create index reviews_of_member on reviews (thread_id, member_id);

-- Exclusive items stand apart, so that what may be shared reads none that share it. All slots are exclusive.
drop index live_items_below;
alter table live_items rename to live_items_before;
create table live_items (
    workspace_id blob not null,
    repo_key text not null,
    space text not null,
    prefix text not null,
    exclusive boolean not null,
    obstacle blob not null,
    thread_id blob not null references threads (id),
    primary key (workspace_id, repo_key, space, exclusive, prefix, thread_id)
);
insert into live_items (workspace_id, repo_key, space, prefix, exclusive, obstacle, thread_id)
    select workspace_id, repo_key, space, prefix, exclusive or space = 'slot', obstacle, thread_id
    from live_items_before;
drop table live_items_before;
create index live_items_of_obstacle on live_items (obstacle, exclusive);
create index live_items_of_thread on live_items (thread_id);

-- What waits with the same footprint.
create index parked_of_footprint on parked (pool, footprint, channel_id, skill_set);
