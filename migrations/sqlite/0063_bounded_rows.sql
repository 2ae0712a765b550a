-- Reads the first reactions to a message with one emoji.
create index reactions_by_age on reactions (message_id, emoji, lsn);
-- Lists in the order of the log.
create index message_edits_in_order on message_edits (message_id, lsn);
create index channel_members_in_order on channel_members (channel_id, lsn);
