-- Outreach: where and how members are notified outside of the service.

-- Which notifications each member wants, as it was set.
create table preferences (
    member_id blob primary key references members (id),
    body text not null
) without rowid;

-- What `preferences` says, as it is looked up when an item is made.
create table inbox_rules (
    member_id blob not null references members (id),
    reason bigint not null,
    mail boolean not null,
    push boolean not null,
    primary key (member_id, reason)
) without rowid;

-- Where members are mailed, and the state of that address. `pending` is one that waits for its code, and
-- `former` one that is to be notified of the change. `refusals` counts the mails in a row that the address
-- has refused because of their content.
create table delivery_addresses (
    member_id blob primary key references members (id),
    mode text not null,
    address text,
    confirmed_at bigint,
    pending text,
    code_due bigint,
    code_hash blob,
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
    workspace_id blob references workspaces (id),
    refusals bigint not null default 0
) without rowid;
-- By workspace, as what is due in `inbox`.
create index delivery_codes_due on delivery_addresses (workspace_id, code_due) where code_due is not null;
create index delivery_former_due on delivery_addresses (workspace_id, former_due)
    where former_due is not null;

-- The codes that members have requested lately, by the workspace that they are charged to. They outlast the
-- member that got them.
create table delivery_codes (
    id blob primary key,
    charged_to blob not null,
    member_id blob not null,
    at bigint not null
) without rowid;
create index delivery_codes_of on delivery_codes (charged_to, at);

-- The browsers in which members are notified.
create table web_push (
    id blob primary key,
    member_id blob not null references members (id),
    endpoint text not null,
    p256dh blob not null,
    auth blob not null,
    failures bigint not null,
    retry_at bigint,
    last_ok_at bigint,
    has text,
    at bigint not null
) without rowid;
create unique index web_push_endpoint on web_push (endpoint);
create index web_push_of on web_push (member_id, at);
