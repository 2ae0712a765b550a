-- The channel of each change, by which its audit row is shown or withheld. For rows from before it follows from the path
-- or, over MCP, from the ids; that of a purged message stands in its event. What named something that cannot be found any
-- more is put into a channel that nobody sees.
alter table audit add column channel_id blob;

update audit set channel_id = coalesce(
    (select id from channels where id = unhex(replace(named.channel, '-', ''))),
    (select channel_id from threads where id = unhex(replace(named.thread, '-', ''))),
    (select channel_id from messages where id = unhex(replace(named.message, '-', ''))),
    named.of_purged,
    zeroblob(16))
from (
    select named.*, purged.channel_id as of_purged from (
        select workspace_id, seq,
            case when path like '/channels/%' then substr(path, 11, 36) else json_extract(metadata, '$.ids.channel_id') end as channel,
            case when path like '/threads/%' then substr(path, 10, 36) else json_extract(metadata, '$.ids.thread_id') end as thread,
            case when path like '/messages/%' then substr(path, 11, 36) else json_extract(metadata, '$.ids.message_id') end as message
        from (select workspace_id, seq, metadata, coalesce(json_extract(metadata, '$.path'), '') as path from audit) paths
    ) named left join (
        select json_extract(payload, '$.message_id') as message_id, channel_id from events where kind = 'MessagePurged'
    ) purged on purged.message_id = lower(named.message)
) named
where audit.workspace_id = named.workspace_id and audit.seq = named.seq
  and (named.channel is not null or named.thread is not null or named.message is not null);
