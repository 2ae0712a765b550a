-- One check value for each key-encryption key in use: a constant that only that key opens.
create table key_checks (
    key_id bytea primary key,
    sealed bytea not null,
    added_at bigint not null
);
