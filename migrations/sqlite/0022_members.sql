-- Who froze a member and why, and when what a member is called was last changed.
alter table members add column frozen_by blob references members (id);
alter table members add column frozen_reason text;
alter table members add column changed_at bigint;
create index members_frozen on members (workspace_id, lsn) where frozen_at is not null;
