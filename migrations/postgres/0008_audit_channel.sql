-- The channel of each change, by which its audit row is shown or withheld. For rows from before it follows from the path
-- or, over MCP, from the ids; that of a purged message stands in its event. What named something that cannot be found any
-- more is put into a channel that nobody sees.
alter table audit add column channel_id uuid;

update audit set channel_id = coalesce(
    (select id from channels where id = (case when named.channel ~ named.uuid then named.channel end)::uuid),
    (select channel_id from threads where id = (case when named.thread ~ named.uuid then named.thread end)::uuid),
    (select channel_id from messages where id = (case when named.message ~ named.uuid then named.message end)::uuid),
    named.of_purged,
    '00000000-0000-0000-0000-000000000000')
from (
    select named.*, purged.channel_id as of_purged from (
        select workspace_id, seq, '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' as uuid,
            case when path like '/channels/%' then substr(path, 11, 36) else metadata::json #>> '{ids,channel_id}' end as channel,
            case when path like '/threads/%' then substr(path, 10, 36) else metadata::json #>> '{ids,thread_id}' end as thread,
            case when path like '/messages/%' then substr(path, 11, 36) else metadata::json #>> '{ids,message_id}' end as message
        from (select workspace_id, seq, metadata, coalesce(metadata::json ->> 'path', '') as path from audit) paths
    ) named left join (
        select payload::json ->> 'message_id' as message_id, channel_id from events where kind = 'MessagePurged'
    ) purged on purged.message_id = lower(named.message)
) named
where audit.workspace_id = named.workspace_id and audit.seq = named.seq
  and (named.channel is not null or named.thread is not null or named.message is not null);
