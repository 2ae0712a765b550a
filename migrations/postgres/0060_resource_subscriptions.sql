-- What tokens have subscribed to beyond a request.
create table resource_subscriptions (
    token_id uuid not null,
    uri text not null,
    until bigint not null,
    primary key (token_id, uri)
);
create index resource_subscriptions_by_until on resource_subscriptions (until);
