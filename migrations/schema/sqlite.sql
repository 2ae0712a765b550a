CREATE TABLE app_installations (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    app_id blob not null references apps (id),
    bot_member_id blob not null references members (id),
    capabilities bigint not null,
    client_secret_hash blob not null,
    installed_by blob references members (id),
    installed_at bigint not null,
    revoked_at bigint,
    lsn bigint not null,
    -- Requests per rate window that all tokens of the installation may make; null if it has no quota.
    quota bigint
);
CREATE UNIQUE INDEX app_installations_active on app_installations (app_id) where revoked_at is null;
CREATE INDEX app_installations_in_order on app_installations (workspace_id, lsn);

CREATE TABLE approval_gates (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null references channels (id),
    thread_id blob not null references threads (id),
    state text not null,
    blocks_close boolean not null,
    requested_by blob not null references members (id),
    requested_actor_id blob not null references members (id),
    requested_at bigint not null,
    expires_at bigint,
    resolved_by blob references members (id),
    resolved_actor_id blob references members (id),
    resolved_at bigint,
    message_id blob not null,
    lsn bigint not null,
    needs_person boolean not null default false
);
CREATE INDEX approval_gates_due on approval_gates (expires_at, id)
    where state = 'pending' and expires_at is not null;
CREATE INDEX approval_gates_of_thread on approval_gates (thread_id, lsn);
CREATE INDEX approval_gates_of_workspace on approval_gates (workspace_id, lsn);
CREATE INDEX approval_gates_pending on approval_gates (workspace_id, lsn) where state = 'pending';

CREATE TABLE apps (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    slug text not null,
    name text not null,
    created_by blob references members (id),
    created_at bigint not null,
    lsn bigint not null
);
CREATE UNIQUE INDEX apps_by_slug on apps (workspace_id, slug);
CREATE INDEX apps_in_order on apps (workspace_id, lsn);

CREATE TABLE audit (
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
CREATE INDEX audit_in_order on audit (at, workspace_id, seq);

CREATE TABLE ballot_counts (
    vote_id blob not null references votes (id),
    choice bigint not null,
    total bigint not null,
    primary key (vote_id, choice)
) without rowid;

CREATE TABLE ballots (
    vote_id blob not null references votes (id),
    choice bigint not null,
    member_id blob not null,
    lsn bigint not null,
    primary key (vote_id, choice, member_id)
) without rowid;
CREATE INDEX ballots_in_order on ballots (vote_id, choice, lsn);
CREATE INDEX ballots_of_member on ballots (vote_id, member_id);

CREATE TABLE boots (
    channel_id blob not null primary key references channels (id),
    text text not null,
    version bigint not null,
    updated_by blob references members (id),
    at bigint not null,
    lsn bigint not null
);

CREATE TABLE census_at (
    workspace_id blob primary key references workspaces (id),
    lsn bigint not null
) without rowid;

CREATE TABLE channel_members (
    channel_id blob not null references channels (id),
    member_id blob not null references members (id),
    added_by blob references members (id),
    added_at bigint not null,
    lsn bigint not null,
    primary key (channel_id, member_id)
) without rowid;
CREATE INDEX channel_members_in_order on channel_members (channel_id, lsn);
CREATE INDEX channels_of_member_in_order on channel_members (member_id, lsn);

CREATE TABLE channels (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    name text not null,
    topic text,
    private boolean not null,
    created_by blob references members (id),
    created_at bigint not null,
    archived_at bigint,
    lsn bigint not null,
    dm boolean not null default false,
    is_group boolean not null default false
);
CREATE INDEX channels_in_order on channels (workspace_id, lsn);

CREATE TABLE charged_imports (
    id blob primary key,
    charged_to blob not null,
    at bigint not null
) without rowid;
CREATE INDEX charged_imports_of on charged_imports (charged_to, at);

CREATE TABLE checkpoints (
    workspace_id blob primary key references workspaces (id),
    lsn bigint not null,
    frontier blob not null
) without rowid;

CREATE TABLE claim_checkpoints (
    thread_id blob not null primary key references threads (id),
    member_id blob not null references members (id),
    at bigint not null,
    lsn bigint not null,
    checkpoint text not null
);

CREATE TABLE consumers (
    workspace_id blob not null references workspaces (id),
    member_id blob not null references members (id),
    consumer_id text not null,
    after_id bigint not null,
    holder blob not null,
    seen_at bigint not null,
    primary key (workspace_id, member_id, consumer_id)
) without rowid;
CREATE INDEX consumers_by_seen on consumers (seen_at);

CREATE TABLE dead_letters (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    thread_id blob not null references threads (id),
    exceeded text not null,
    holder blob not null references members (id),
    claim_lease_id blob not null,
    failed_at bigint not null,
    lsn bigint not null,
    settled_at bigint
);
CREATE INDEX dead_letters_unsettled on dead_letters (workspace_id, lsn) where settled_at is null;
CREATE UNIQUE INDEX dead_letters_unsettled_of_thread on dead_letters (thread_id) where settled_at is null;

CREATE TABLE delegation_grants (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    subject_id blob not null references members (id),
    delegate_id blob not null references members (id),
    capabilities bigint not null,
    purpose text not null,
    created_by blob references members (id),
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint,
    lsn bigint not null
);
CREATE INDEX delegation_grants_held on delegation_grants (delegate_id, expires_at) where revoked_at is null;
CREATE INDEX delegation_grants_in_order on delegation_grants (workspace_id, lsn);

CREATE TABLE delegation_policies (
    workspace_id blob primary key references workspaces (id),
    ceiling_days bigint not null
);

CREATE TABLE delivery_addresses (
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
CREATE INDEX delivery_codes_due on delivery_addresses (workspace_id, code_due) where code_due is not null;
CREATE INDEX delivery_former_due on delivery_addresses (workspace_id, former_due)
    where former_due is not null;

CREATE TABLE delivery_codes (
    id blob primary key,
    charged_to blob not null,
    member_id blob not null,
    at bigint not null
) without rowid;
CREATE INDEX delivery_codes_of on delivery_codes (charged_to, at);

CREATE TABLE dm_sets (
    workspace_id blob not null references workspaces (id),
    set_key blob not null,
    channel_id blob not null unique references channels (id),
    primary key (workspace_id, set_key)
);

CREATE TABLE erased (
    workspace_id blob primary key,
    at bigint not null,
    lsn bigint not null,
    hash blob not null,
    place text
);

CREATE TABLE events (
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
CREATE INDEX events_of_thread on events (thread_id, lsn) where thread_id is not null;
CREATE INDEX events_withdrawals on events (workspace_id, lsn) where kind = 'MessageTombstoned';

CREATE TABLE findings (
    id blob primary key,
    review_id blob not null references reviews (id),
    thread_id blob not null references threads (id),
    number bigint not null,
    severity text not null,
    line bigint,
    resolution text,
    -- Who resolved it, as the member and as its delegate: neither may have worked on the thread.
    resolved_by blob references members (id),
    resolved_at bigint,
    lsn bigint not null,
    resolved_actor_id blob references members (id),
    unique (review_id, number)
);
CREATE INDEX findings_critical on findings (thread_id, lsn, number) where severity = 'critical';

CREATE TABLE follows (
    member_id blob not null references members (id),
    target_id blob not null,
    kind text not null,
    seen_lsn bigint not null,
    at bigint not null,
    seq bigint not null,
    primary key (member_id, target_id)
);
CREATE INDEX followers on follows (target_id, member_id);
CREATE UNIQUE INDEX follows_in_order on follows (member_id, seq);

CREATE TABLE footprints (
    workspace_id blob not null references workspaces (id),
    id bigint not null,
    digest blob not null,
    repo text,
    repo_key text not null,
    mode text not null,
    items text not null,
    primary key (workspace_id, id),
    unique (workspace_id, digest)
);

CREATE TABLE glossary (
    workspace_id blob not null references workspaces (id),
    key text not null,
    term text not null,
    definition text not null,
    updated_by blob references members (id),
    at bigint not null,
    lsn bigint not null,
    primary key (workspace_id, key)
);
CREATE INDEX glossary_in_order on glossary (workspace_id, lsn);

CREATE TABLE heads (
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

CREATE TABLE held_texts (
    workspace_id blob not null references workspaces (id),
    kind text not null,
    object_id blob not null,
    version bigint not null,
    text text not null,
    at bigint not null,
    primary key (workspace_id, kind, object_id, version)
) without rowid;

CREATE TABLE idempotency_keys (
    -- Of the key, the member and its delegate.
    key_hash blob primary key,
    member_id blob not null references members (id),
    request_hash blob not null,
    -- Of the response; 0 while only some steps of the change were committed.
    status bigint not null,
    -- The problem, if the request was rejected.
    code text,
    -- Ids and numbers of the response, or what the steps share, as JSON.
    answer text,
    lsn bigint not null,
    until bigint not null
);
CREATE INDEX idempotency_keys_by_member on idempotency_keys (member_id);
CREATE INDEX idempotency_keys_by_until on idempotency_keys (until);

CREATE TABLE imports (
    id text primary key,
    digest blob not null,
    mode text not null,
    workspace_id blob not null,
    reached bigint not null,
    holder blob not null,
    until bigint not null,
    outcome text,
    place text,
    charged_to blob
);
CREATE INDEX imports_of_workspace on imports (workspace_id);
CREATE INDEX imports_staging on imports (until) where outcome is null;

CREATE TABLE inbox (
    workspace_id blob not null references workspaces (id),
    member_id blob not null references members (id),
    lsn bigint not null,
    reasons bigint not null,
    channel_id blob not null references channels (id),
    thread_id blob,
    message_id blob,
    actor_id blob,
    at bigint not null,
    read_at bigint,
    mail_due bigint,
    push_due bigint,
    primary key (member_id, lsn)
) without rowid;
CREATE INDEX inbox_in_order on inbox (workspace_id, lsn);
CREATE INDEX inbox_mail_due on inbox (workspace_id, mail_due, member_id) where mail_due is not null;
CREATE UNIQUE INDEX inbox_of_message on inbox (message_id, member_id) where message_id is not null;
CREATE INDEX inbox_push_due on inbox (workspace_id, push_due, member_id) where push_due is not null;
CREATE INDEX inbox_read_at on inbox (read_at) where read_at is not null;
CREATE INDEX inbox_spoken_unread
    on inbox (member_id, (case when read_at is null and (reasons & 15) <> 0 then 1 end), lsn)
    where case when read_at is null and (reasons & 15) <> 0 then 1 end = 1;
CREATE INDEX inbox_unread on inbox (member_id, read_at, lsn) where read_at is null;
CREATE INDEX inbox_unread_in on inbox (member_id, channel_id, read_at)
    where read_at is null and message_id is not null;
CREATE INDEX inbox_unread_since on inbox (at) where read_at is null;

CREATE TABLE inbox_rules (
    member_id blob not null references members (id),
    reason bigint not null,
    mail boolean not null,
    push boolean not null,
    primary key (member_id, reason)
) without rowid;

CREATE TABLE key_checks (
    key_id blob primary key,
    sealed blob not null,
    added_at bigint not null
) without rowid;

CREATE TABLE kind_counts (
    workspace_id blob not null references workspaces (id),
    channel_id blob not null,
    kind text not null,
    n bigint not null,
    primary key (workspace_id, channel_id, kind)
) without rowid;

CREATE TABLE land_gates (
    thread_id blob primary key references threads (id),
    required boolean not null default false,
    pointer text,
    head_sha text,
    verdict text,
    objection text,
    member_id blob references members (id),
    actor_id blob references members (id),
    set_at bigint,
    lsn bigint
);

CREATE TABLE leases (
    name text primary key,
    holder blob not null,
    until bigint not null
);

CREATE TABLE legal_holds (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    reason text not null,
    placed_by blob references members (id),
    placed_at bigint not null,
    lsn bigint not null,
    released_by blob references members (id),
    released_at bigint
);
CREATE INDEX legal_holds_in_force on legal_holds (workspace_id) where released_at is null;
CREATE INDEX legal_holds_of_workspace on legal_holds (workspace_id, lsn);

CREATE TABLE live_items (
    workspace_id blob not null,
    repo_key text not null,
    space text not null,
    prefix text not null,
    exclusive boolean not null,
    obstacle blob not null,
    thread_id blob not null references threads (id),
    primary key (workspace_id, repo_key, space, exclusive, prefix, thread_id)
);
CREATE INDEX live_items_of_obstacle on live_items (obstacle, exclusive) where space <> 'slot';
CREATE INDEX live_items_of_slot on live_items (obstacle) where space = 'slot';
CREATE INDEX live_items_of_thread on live_items (thread_id);

CREATE TABLE member_skills (
    member_id blob not null references members (id),
    skill text not null,
    governance boolean not null,
    primary key (member_id, skill)
) without rowid;
CREATE INDEX member_skills_by_skill on member_skills (skill, member_id);

CREATE TABLE members (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    handle text not null,
    kind text not null,
    display_name text,
    created_at bigint not null,
    frozen_at bigint,
    deactivated_at bigint,
    lsn bigint not null,
    frozen_by blob references members (id),
    frozen_reason text,
    changed_at bigint,
    external_id text,
    removed_at bigint,
    unique (workspace_id, handle)
);
CREATE INDEX members_frozen on members (workspace_id, lsn) where frozen_at is not null;
CREATE INDEX members_in_order on members (workspace_id, lsn);
CREATE INDEX people_by_external_id on members (workspace_id, substr(external_id, 1, 200), lsn)
    where external_id is not null;
CREATE INDEX people_in_order on members (workspace_id, lsn) where kind = 'human' and removed_at is null;

CREATE TABLE memory_blocks (
    id blob not null primary key,
    workspace_id blob not null references workspaces (id),
    label text not null,
    description text,
    char_limit bigint not null,
    read_only boolean not null,
    value text not null,
    version bigint not null,
    created_by blob references members (id),
    updated_by blob references members (id),
    at bigint not null,
    lsn bigint not null
);
CREATE INDEX memory_blocks_in_order on memory_blocks (workspace_id, lsn);

CREATE TABLE message_edits (
    message_id blob not null references messages (id),
    edit bigint not null,
    written_at bigint not null,
    sealed blob,
    lsn bigint not null,
    primary key (message_id, edit)
);
CREATE INDEX message_edits_in_order on message_edits (message_id, lsn);

CREATE TABLE messages (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null references channels (id),
    thread_id blob not null references threads (id),
    author_id blob references members (id),
    posted_at bigint not null,
    edited_at bigint,
    edits bigint not null,
    withdrawn_at bigint,
    sealed blob,
    lsn bigint not null,
    wrapped blob,
    -- Whether the message has, or once had, reactions or a pin; the others are read without looking for
    -- them.
    marked boolean not null default false,
    -- The hash of the event with the present content; null if that event was pruned.
    content_hash blob
);
CREATE INDEX messages_in_order on messages (workspace_id, lsn);
CREATE INDEX messages_of_channel on messages (channel_id, lsn);
CREATE INDEX messages_of_thread on messages (thread_id, lsn);

CREATE TABLE mutes (
    member_id blob not null references members (id),
    target_id blob not null,
    primary key (member_id, target_id)
) without rowid;

CREATE TABLE oidc_identities (
    workspace_id blob not null references workspaces (id),
    issuer text not null,
    subject text not null,
    member_id blob not null references members (id),
    linked_at bigint not null,
    primary key (workspace_id, issuer, subject)
);
CREATE UNIQUE INDEX oidc_identities_of_member on oidc_identities (member_id, issuer);

CREATE TABLE oidc_logins (
    state_hash blob primary key,
    workspace_id blob not null references workspaces (id),
    browser_hash blob not null,
    return_to text not null,
    expires_at bigint not null
);
CREATE INDEX oidc_logins_by_end on oidc_logins (expires_at);
CREATE INDEX oidc_logins_of_workspace on oidc_logins (workspace_id, expires_at);

CREATE TABLE parked (
    obstacle blob not null,
    channel_id blob not null,
    skill_set bigint not null,
    repo_key text not null,
    exclusive boolean not null,
    urgency bigint not null,
    lsn bigint not null,
    thread_id blob not null unique,
    pool blob not null,
    footprint bigint not null,
    primary key (obstacle, channel_id, skill_set, repo_key, exclusive, urgency, lsn)
);
CREATE INDEX parked_of_channel on parked (channel_id);
CREATE INDEX parked_of_footprint on parked (pool, footprint, channel_id, skill_set);

CREATE TABLE pins (
    message_id blob primary key references messages (id),
    channel_id blob not null references channels (id),
    pinned_by blob references members (id),
    at bigint not null,
    lsn bigint not null
);
CREATE INDEX pins_of_channel on pins (channel_id, lsn);

CREATE TABLE preferences (
    member_id blob primary key references members (id),
    body text not null
) without rowid;

CREATE TABLE presence (
    member_id blob not null primary key references members (id),
    status text not null,
    note text,
    thread_id blob,
    seen_at bigint not null
);

CREATE TABLE purges (
    workspace_id blob primary key,
    up_to_lsn bigint not null,
    requested_by blob,
    until bigint not null,
    progress text not null,
    purged_at bigint
);
CREATE INDEX purges_in_progress on purges (until) where purged_at is null;

CREATE TABLE rate_windows (
    key blob primary key,
    full_at integer not null
) strict, without rowid;
CREATE INDEX rate_windows_by_end on rate_windows (full_at);

CREATE TABLE reactions (
    message_id blob not null references messages (id),
    emoji text not null,
    member_id blob not null references members (id),
    lsn bigint not null,
    primary key (message_id, emoji, member_id)
) without rowid;
CREATE INDEX reactions_by_age on reactions (message_id, emoji, lsn);

CREATE TABLE ready (
    channel_id blob not null,
    skill_set bigint not null,
    urgency bigint not null,
    lsn bigint not null,
    thread_id blob not null unique,
    pool blob not null,
    footprint bigint not null default 0,
    repo_key text not null default '',
    exclusive boolean not null default false,
    came_from blob,
    primary key (channel_id, skill_set, urgency, lsn)
) without rowid;
CREATE INDEX ready_in_pool on ready (pool, skill_set, urgency, lsn, thread_id);
CREATE INDEX ready_of_footprint on ready (pool, footprint) where footprint <> 0;
CREATE INDEX ready_of_obstacle on ready (came_from, channel_id, skill_set, repo_key, exclusive)
    where came_from is not null;
CREATE INDEX ready_of_repo on ready (channel_id, repo_key, skill_set, urgency, lsn, thread_id)
    where repo_key <> '';
CREATE INDEX ready_of_repo_in_pool on ready (pool, repo_key, skill_set, urgency, lsn, thread_id)
    where repo_key <> '';

CREATE TABLE relations (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    kind text not null,
    from_id blob not null references messages (id),
    from_thread_id blob not null,
    from_channel_id blob not null,
    to_id blob not null references messages (id),
    to_thread_id blob not null,
    to_channel_id blob not null,
    derived boolean not null,
    made_by blob,
    made_at bigint not null,
    lsn bigint not null,
    resolved_by blob,
    resolved_actor_id blob,
    resolved_at bigint,
    unique (from_id, to_id, kind)
);
CREATE INDEX refutations_from_channel on relations (from_channel_id) where kind = 'refutes';
CREATE INDEX refutations_of_thread on relations (to_thread_id) where kind = 'refutes';
CREATE INDEX relations_in_order on relations (workspace_id, lsn);
CREATE INDEX relations_to on relations (to_id, lsn);

CREATE TABLE repo_pauses (
    workspace_id blob not null references workspaces (id),
    repo_key text not null,
    repo text not null,
    reason text,
    paused_by blob references members (id),
    paused_at bigint not null,
    lsn bigint not null,
    obstacle blob not null unique,
    primary key (workspace_id, repo_key)
);

CREATE TABLE resource_subscriptions (
    token_id blob not null references tokens (id),
    uri text not null,
    until bigint not null,
    primary key (token_id, uri)
) without rowid;
CREATE INDEX resource_subscriptions_by_until on resource_subscriptions (until);

CREATE TABLE results (
    thread_id blob not null references threads (id),
    lsn bigint not null,
    workspace_id blob not null,
    result_kind text,
    result text,
    produced_by blob not null references members (id),
    produced_at bigint not null,
    primary key (thread_id, lsn)
);
CREATE INDEX results_of_workspace on results (workspace_id, lsn);

CREATE TABLE retention (
    workspace_id blob primary key references workspaces (id),
    messages_days bigint,
    events_days bigint,
    deliveries_days bigint,
    media_days bigint,
    media_quota_bytes bigint,
    at bigint not null,
    lsn bigint not null
) without rowid;

CREATE TABLE review_requirements (
    thread_id blob primary key references threads (id),
    approvals bigint not null,
    lsn bigint not null
);

CREATE TABLE reviewers (
    thread_id blob not null references threads (id),
    member_id blob not null references members (id),
    added_by blob references members (id),
    added_at bigint not null,
    lsn bigint not null,
    primary key (thread_id, member_id)
);

CREATE TABLE reviews (
    id blob primary key,
    thread_id blob not null references threads (id),
    member_id blob not null references members (id),
    actor_id blob not null references members (id),
    verdict text not null,
    objection text,
    head_sha text,
    message_id blob not null,
    submitted_at bigint not null,
    lsn bigint not null,
    superseded boolean not null default false
);
CREATE INDEX reviews_of_member on reviews (thread_id, member_id);
CREATE INDEX reviews_of_thread on reviews (thread_id, lsn);
CREATE INDEX reviews_that_stand on reviews (thread_id, lsn) where not superseded;

CREATE TABLE schema_migrations (
    version bigint primary key,
    name text not null,
    checksum text not null,
    applied_at bigint not null
);

CREATE TABLE scim_group_members (
    group_id blob not null references scim_groups (id),
    member_id blob not null references members (id),
    primary key (group_id, member_id)
);
CREATE INDEX scim_group_members_of_member on scim_group_members (member_id);

CREATE TABLE scim_groups (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    display_name text not null,
    external_id text,
    created_at bigint not null,
    changed_at bigint not null,
    lsn bigint not null
);
CREATE INDEX scim_groups_by_external_id on scim_groups (workspace_id, substr(external_id, 1, 200), lsn)
    where external_id is not null;
CREATE INDEX scim_groups_in_order on scim_groups (workspace_id, lsn);

CREATE TABLE scrubs (
    key_table text not null,
    workspace_id blob not null,
    lsn bigint not null,
    primary key (key_table, workspace_id, lsn)
) without rowid;

CREATE TABLE sessions (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    member_id blob not null references members (id),
    token_id blob references tokens (id),
    secret_hash blob,
    capabilities bigint,
    created_at bigint not null,
    expires_at bigint not null,
    ended_at bigint
);
CREATE INDEX sessions_by_end on sessions (coalesce(ended_at, expires_at));
CREATE INDEX sessions_of_member on sessions (member_id) where ended_at is null;
CREATE INDEX sessions_of_token on sessions (token_id);

CREATE TABLE share_tickets (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null references channels (id),
    owner_id blob not null references members (id),
    created_by blob not null references members (id),
    installation_id blob references app_installations (id),
    secret_hash blob not null,
    artifact_shas text not null,
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint,
    lsn bigint not null
);
CREATE UNIQUE INDEX share_tickets_by_secret on share_tickets (secret_hash);
CREATE INDEX share_tickets_in_order on share_tickets (workspace_id, lsn);
CREATE INDEX share_tickets_of_creator on share_tickets (created_by, expires_at) where revoked_at is null;
CREATE INDEX share_tickets_of_owner on share_tickets (owner_id, expires_at) where revoked_at is null;

CREATE TABLE shelves (
    workspace_id blob not null,
    shelf bigint not null,
    version bigint not null,
    ahead blob not null default (zeroblob(4096)),
    sealed blob not null,
    primary key (workspace_id, shelf)
);

CREATE TABLE skill_sets (
    workspace_id blob not null references workspaces (id),
    id bigint not null,
    skills text not null,
    hash blob not null,
    primary key (workspace_id, id),
    unique (workspace_id, hash)
) without rowid;

CREATE TABLE slot_uses (
    workspace_id blob not null references workspaces (id),
    obstacle blob not null primary key,
    uses bigint not null
);

CREATE TABLE slots (
    workspace_id blob not null references workspaces (id),
    slot_key text not null,
    slot text not null,
    capacity bigint not null,
    obstacle blob not null unique,
    primary key (workspace_id, slot_key)
);

CREATE TABLE spawn_budgets (
    workspace_id blob primary key references workspaces (id),
    max_children bigint,
    max_depth bigint,
    max_tools bigint
);

CREATE TABLE taps (
    name text not null,
    workspace_id blob not null references workspaces (id),
    after_id bigint not null,
    hash blob,
    primary key (name, workspace_id)
) without rowid;

CREATE TABLE thread_budgets (
    thread_id blob primary key references threads (id),
    max_tokens bigint,
    max_usd_micros bigint,
    max_turns bigint,
    max_wall_secs bigint,
    max_attempts bigint,
    low bigint not null default 0
);

CREATE TABLE thread_dependencies (
    thread_id blob not null references threads (id),
    depends_on_id blob not null references threads (id),
    lsn bigint not null,
    primary key (thread_id, depends_on_id)
) without rowid;
CREATE INDEX dependents_of_thread on thread_dependencies (depends_on_id);

CREATE TABLE thread_memory_blocks (
    thread_id blob not null references threads (id),
    block_id blob not null references memory_blocks (id),
    lsn bigint not null,
    primary key (thread_id, block_id)
) without rowid;
CREATE INDEX threads_of_memory_block on thread_memory_blocks (block_id);

CREATE TABLE thread_notices (
    thread_id blob not null references threads (id),
    lsn bigint not null,
    at bigint not null,
    kind text not null,
    text text not null,
    message_id blob,
    primary key (thread_id, lsn)
);
CREATE INDEX notices_of_message on thread_notices (message_id) where message_id is not null;

CREATE TABLE thread_workers (
    thread_id blob not null references threads (id),
    member_id blob not null references members (id),
    lsn bigint not null,
    primary key (thread_id, member_id)
) without rowid;

CREATE TABLE threads (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null references channels (id),
    parent_id blob references threads (id),
    depth bigint not null,
    title text not null,
    state text not null,
    priority bigint not null,
    skill_set bigint not null,
    -- Unfinished dependencies.
    blocked bigint not null,
    -- Whether there is a result that was not reopened.
    has_result boolean not null,
    owner_id blob references members (id),
    assignee_id blob references members (id),
    claim_lease_id blob,
    claimed_at bigint,
    assignment_expires_at bigint,
    acknowledged_at bigint,
    acknowledge_by bigint,
    worked_micros bigint not null,
    cancelled_at bigint,
    created_by blob references members (id),
    created_at bigint not null,
    lsn bigint not null,
    -- 0 is no footprint.
    footprint bigint not null default 0,
    has_checkpoint boolean not null default false,
    -- The position of the last result or reopening: verdicts before it are about other work.
    judged_from bigint not null default 0,
    budgeted boolean not null default false,
    spent_tokens bigint not null default 0,
    spent_usd_micros bigint not null default 0,
    spent_turns bigint not null default 0,
    -- Claims that ended without a result since the thread was last requeued.
    attempts bigint not null default 0,
    -- Whether nothing is left of some limit, and whether it has a dead letter that is not settled.
    exhausted boolean not null default false,
    dead boolean not null default false,
    children_ever bigint not null default 0,
    -- A JSON list; null for none.
    tools text,
    -- The position of the event that made the claim in the row.
    claim_lsn bigint
);
CREATE INDEX threads_by_acknowledgement on threads (acknowledge_by) where acknowledge_by is not null;
CREATE INDEX threads_by_claim on threads (assignee_id, coalesce(claim_lsn, 0))
    where assignee_id is not null;
CREATE INDEX threads_by_lease_end on threads (assignment_expires_at)
    where assignment_expires_at is not null;
CREATE INDEX threads_by_lease_end_in_workspace on threads (workspace_id, assignment_expires_at)
    where assignment_expires_at is not null;
CREATE INDEX threads_claimed on threads (workspace_id, lsn) where assignee_id is not null;
CREATE INDEX threads_in_review on threads (workspace_id, lsn) where state = 'in_review';
CREATE INDEX threads_of_channel on threads (channel_id, lsn);
CREATE INDEX threads_of_holder on threads (assignee_id, lsn) where assignee_id is not null;
CREATE INDEX threads_of_parent on threads (parent_id, lsn) where parent_id is not null;
CREATE INDEX threads_of_workspace on threads (workspace_id, lsn);
CREATE INDEX threads_open_with_footprint on threads (workspace_id, lsn)
    where footprint <> 0 and state = 'open';

CREATE TABLE tokens (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    member_id blob not null references members (id),
    actor_id blob not null references members (id),
    parent_id blob references tokens (id),
    grant_id blob,
    label text,
    secret_hash blob not null unique,
    capabilities bigint not null,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint,
    lsn bigint not null,
    installation_id blob,
    -- Requests per rate window that the token may make, with all that are derived from it; null if it has no
    -- quota.
    quota bigint
);
CREATE INDEX tokens_by_parent on tokens (parent_id);
CREATE INDEX tokens_derived on tokens (parent_id, coalesce(expires_at, 9223372036854775807))
    where parent_id is not null and revoked_at is null;
CREATE INDEX tokens_live_of_actor on tokens (actor_id, coalesce(expires_at, 9223372036854775807))
    where revoked_at is null;
CREATE INDEX tokens_live_of_member on tokens (member_id, coalesce(expires_at, 9223372036854775807))
    where revoked_at is null;
CREATE INDEX tokens_of_grant on tokens (grant_id, expires_at) where grant_id is not null;
CREATE INDEX tokens_of_installation on tokens (installation_id, coalesce(expires_at, 9223372036854775807))
    where installation_id is not null;
CREATE INDEX tokens_of_member on tokens (member_id, lsn);

CREATE TABLE usage_reports (
    thread_id blob not null references threads (id),
    report_id text not null,
    workspace_id blob not null references workspaces (id),
    digest blob not null,
    answer text not null,
    member_id blob not null references members (id),
    actor_id blob references members (id),
    claim_lease_id blob not null,
    model text,
    tokens bigint not null,
    usd_micros bigint not null,
    turns bigint not null,
    reported_at bigint not null,
    lsn bigint not null,
    primary key (thread_id, report_id)
);
CREATE INDEX usage_reports_in_order on usage_reports (thread_id, lsn);

CREATE TABLE usage_totals (
    workspace_id blob not null references workspaces (id),
    day bigint not null,
    member_id blob not null references members (id),
    model text not null,
    reports bigint not null,
    tokens bigint not null,
    usd_micros bigint not null,
    turns bigint not null,
    primary key (workspace_id, day, member_id, model)
);

CREATE TABLE votes (
    id blob primary key,
    workspace_id blob not null references workspaces (id),
    channel_id blob not null,
    thread_id blob not null,
    message_id blob not null unique references messages (id),
    options bigint not null,
    multiple boolean not null,
    created_by blob not null,
    closes_at bigint,
    closed_at bigint,
    closed_by blob,
    lsn bigint not null
);
CREATE INDEX votes_in_order on votes (workspace_id, lsn);
CREATE INDEX votes_of_thread on votes (thread_id, lsn);
CREATE INDEX votes_that_close on votes (closes_at, id) where closed_at is null and closes_at is not null;

CREATE TABLE web_push (
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
CREATE UNIQUE INDEX web_push_endpoint on web_push (endpoint);
CREATE INDEX web_push_of on web_push (member_id, at);

CREATE TABLE workspaces (
    id blob primary key,
    name text not null,
    handle text unique,
    created_at bigint not null,
    lsn bigint not null,
    -- A workspace that is being imported or erased is hidden.
    state text not null default 'live',
    -- The workspace whose limits an imported one shares: the one that imported it, or what that one is
    -- charged to. Null: its own.
    charged_to blob
);
