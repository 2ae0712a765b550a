-- Finds the unread items by which a member was spoken to among any number of others.
create index inbox_spoken_unread
    on inbox (member_id, (case when read_at is null and (reasons & 15) <> 0 then 1 end), lsn)
    where case when read_at is null and (reasons & 15) <> 0 then 1 end = 1;
