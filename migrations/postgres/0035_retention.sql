-- How long workspaces keep things. Null leaves a value to the instance.
create table retention (
    workspace_id uuid primary key,
    messages_days bigint,
    events_days bigint,
    deliveries_days bigint,
    media_days bigint,
    media_quota_bytes bigint,
    at bigint not null,
    lsn bigint not null
);
