-- What tokens have subscribed to beyond a request.
create table resource_subscriptions (
    token_id blob not null references tokens (id),
    uri text not null,
    until bigint not null,
    primary key (token_id, uri)
) without rowid;
create index resource_subscriptions_by_until on resource_subscriptions (until);
