-- How many claims use a slot that some use, lapsed ones too.
create table slot_uses (
    workspace_id blob not null references workspaces (id),
    obstacle blob not null primary key,
    uses bigint not null
);
insert into slot_uses (workspace_id, obstacle, uses)
    select workspace_id, obstacle, count(*) from live_items where space = 'slot'
    group by workspace_id, obstacle;
-- What holds an obstacle is found beside any number of uses of slots.
drop index live_items_of_obstacle;
create index live_items_of_obstacle on live_items (obstacle, exclusive) where space <> 'slot';
create index live_items_of_slot on live_items (obstacle) where space = 'slot';
-- Lists the channels of a member in the order in which it joined them.
drop index channels_of_member;
create index channels_of_member_in_order on channel_members (member_id, lsn);
-- Finds what refers to a token that is deleted.
create index sessions_of_token on sessions (token_id);
create index tokens_by_parent on tokens (parent_id);
