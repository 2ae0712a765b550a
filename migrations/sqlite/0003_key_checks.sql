-- One check value for each key-encryption key in use: a constant that only that key opens.
create table key_checks (
    key_id blob primary key,
    sealed blob not null,
    added_at bigint not null
) without rowid;
