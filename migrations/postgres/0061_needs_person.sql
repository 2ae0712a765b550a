-- Whether only a person may accept what was asked for.
alter table approval_gates add column needs_person boolean not null default false;
