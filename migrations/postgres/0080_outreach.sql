-- Outreach: where and how members are notified outside of the service.

-- Which notifications each member wants, as it was set.
create table preferences (
    member_id uuid primary key,
    body text not null
);

-- What `preferences` says, as it is looked up when an item is made.
create table inbox_rules (
    member_id uuid not null,
    reason bigint not null,
    mail boolean not null,
    push boolean not null,
    primary key (member_id, reason)
);

-- Where members are mailed, and the state of that address. `pending` is one that waits for its code, and
-- `former` one that is to be notified of the change. `refusals` counts the mails in a row that the address
-- has refused because of their content.
create table delivery_addresses (
    member_id uuid primary key,
    mode text not null,
    address text,
    confirmed_at bigint,
    pending text,
    code_due bigint,
    code_hash bytea,
    code_until bigint,
    tries bigint not null,
    former text,
    former_due bigint,
    notice_failures bigint not null,
    failures bigint not null,
    retry_at bigint,
    last_error text,
    suspended boolean not null,
    sent_since bigint,
    sent bigint not null,
    digest_at bigint,
    workspace_id uuid,
    refusals bigint not null default 0
);
-- By workspace, as what is due in `inbox`.
create index delivery_codes_due on delivery_addresses (workspace_id, code_due) where code_due is not null;
create index delivery_former_due on delivery_addresses (workspace_id, former_due)
    where former_due is not null;

-- The codes that members have requested lately, by the workspace that they are charged to. They outlast the
-- member that got them.
create table delivery_codes (
    id uuid primary key,
    charged_to uuid not null,
    member_id uuid not null,
    at bigint not null
);
create index delivery_codes_of on delivery_codes (charged_to, at);

-- The browsers in which members are notified.
create table web_push (
    id uuid primary key,
    member_id uuid not null,
    endpoint text not null,
    p256dh bytea not null,
    auth bytea not null,
    failures bigint not null,
    retry_at bigint,
    last_ok_at bigint,
    has text,
    at bigint not null
);
create unique index web_push_endpoint on web_push (endpoint);
create index web_push_of on web_push (member_id, at);
