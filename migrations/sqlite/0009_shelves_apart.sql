-- SQLite moves the rows of a page when it splits it or joins it with another, and may leave an old copy in the free part
-- of the page, where nothing overwrites it. So the nodes in a shelf's row come after more bytes than a page can hold:
-- they are in overflow pages of their own, which are never moved and are overwritten once they are freed.
create table shelves_apart (
    workspace_id blob not null,
    shelf bigint not null,
    version bigint not null,
    ahead blob not null default (zeroblob(4096)),
    sealed blob not null,
    primary key (workspace_id, shelf)
);
insert into shelves_apart (workspace_id, shelf, version, sealed)
    select workspace_id, shelf, version, sealed from shelves order by rowid;
drop table shelves;
alter table shelves_apart rename to shelves;
insert or ignore into scrubs values ('shelves', zeroblob(16), 0);
