-- Texts that were replaced while their workspace was under a legal hold.
create table held_texts (
    workspace_id blob not null references workspaces (id),
    kind text not null,
    object_id blob not null,
    version bigint not null,
    text text not null,
    at bigint not null,
    primary key (workspace_id, kind, object_id, version)
) without rowid;
