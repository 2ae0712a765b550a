-- The withdrawals of a workspace's log, however long that is.
create index events_withdrawals on events (workspace_id, lsn) where kind = 'MessageTombstoned';
