-- The log: the events and the audit trail of each workspace, and the keys in use.

-- Heads: where each workspace's event log and audit trail end. The row is the lock of everything that
-- decides in a workspace. The nil id stands for the instance. A row in the tree of its key is found in one
-- descent instead of two.
create table heads (
    workspace_id blob primary key,
    lsn bigint not null,
    hash blob not null,
    at bigint not null,
    audit_seq bigint not null,
    epoch bigint not null,
    -- What connections cache of a workspace ends by two epochs: of access, and of the rules by which work is
    -- assigned.
    rules_epoch bigint not null default 0,
    -- The oldest event that is left, the event that declared that floor, and the position up to which
    -- messages were pruned or purged.
    floor bigint not null default 1,
    pruned_at bigint not null default 0,
    words_floor bigint not null default 0
) without rowid;
-- The instance's own log has a head from the beginning, so that a missing head is always a defect. An empty
-- log ends with the hash that its first event links to.
insert into heads (workspace_id, lsn, hash, at, audit_seq, epoch) values
    (zeroblob(16), 0, x'e826b243eb4338f04a2320083c5870a47d8814e02869bb305777062f32343ce6', 0, 0, 0);

-- The events of each log. The columns beside `payload` repeat what filters and visibility use of it. They
-- are rows beside their key: in the tree of a key a row of more than a quarter of a page takes an overflow
-- page.
create table events (
    workspace_id blob not null,
    lsn bigint not null,
    kind text not null,
    at bigint not null,
    channel_id blob,
    thread_id blob,
    member_id blob,
    prev_hash blob not null,
    content_hash blob not null,
    payload text not null,
    primary key (workspace_id, lsn)
);
create index events_of_thread on events (thread_id, lsn) where thread_id is not null;
-- The withdrawals of a workspace's log, however long that is.
create index events_withdrawals on events (workspace_id, lsn) where kind = 'MessageTombstoned';

-- The audit trail. `channel_id` is the channel of the change, by which the row is shown or withheld; an
-- unknown one is the nil id, a channel that no member sees.
create table audit (
    workspace_id blob not null,
    seq bigint not null,
    at bigint not null,
    action text not null,
    actor_id blob,
    subject_id blob,
    grant_id blob,
    metadata text not null,
    channel_id blob,
    primary key (workspace_id, seq)
) without rowid;
-- The rows of all workspaces in the order of time.
create index audit_in_order on audit (at, workspace_id, seq);

-- One check value for each key-encryption key in use: a constant that only that key opens.
create table key_checks (
    key_id blob primary key,
    sealed blob not null,
    added_at bigint not null
) without rowid;
