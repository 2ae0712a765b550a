-- How many mails in a row an address has refused because of what they are.
alter table delivery_addresses add column refusals bigint not null default 0;
