-- The inbox is the queue of what leaves the service: when an item is due on each way, if it takes that.
alter table inbox add column mail_due bigint;
alter table inbox add column push_due bigint;
create index inbox_mail_due on inbox (mail_due, member_id) where mail_due is not null;
create index inbox_push_due on inbox (push_due, member_id) where push_due is not null;

-- Where members are mailed, and what is known of that address. `pending` is one that waits for its code, and
-- `former` one that is to be told of that.
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
    digest_at bigint
);
create index delivery_codes_due on delivery_addresses (code_due) where code_due is not null;
create index delivery_former_due on delivery_addresses (former_due) where former_due is not null;

-- The codes that members of a workspace have asked for lately.
create table delivery_codes (
    id uuid primary key,
    workspace_id uuid not null,
    member_id uuid not null,
    at bigint not null
);
create index delivery_codes_of on delivery_codes (workspace_id, at);

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
