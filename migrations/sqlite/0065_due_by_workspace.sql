-- What is due on each way is found by workspace, so that a workspace with much does not hide that of others.
drop index inbox_mail_due;
create index inbox_mail_due on inbox (workspace_id, mail_due, member_id) where mail_due is not null;
drop index inbox_push_due;
create index inbox_push_due on inbox (workspace_id, push_due, member_id) where push_due is not null;
-- So are letters about addresses.
alter table delivery_addresses add column workspace_id blob references workspaces (id);
update delivery_addresses
    set workspace_id = (select m.workspace_id from members m where m.id = delivery_addresses.member_id);
drop index delivery_codes_due;
create index delivery_codes_due on delivery_addresses (workspace_id, code_due) where code_due is not null;
drop index delivery_former_due;
create index delivery_former_due on delivery_addresses (workspace_id, former_due)
    where former_due is not null;
