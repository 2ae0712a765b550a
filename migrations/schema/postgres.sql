create table app_installations (
    id uuid not null,
    workspace_id uuid not null,
    app_id uuid not null,
    bot_member_id uuid not null,
    capabilities bigint not null,
    client_secret_hash bytea not null,
    installed_by uuid,
    installed_at bigint not null,
    revoked_at bigint,
    lsn bigint not null,
    quota bigint,
    constraint app_installations_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX app_installations_active ON app_installations USING btree (app_id) WHERE (revoked_at IS NULL);
CREATE INDEX app_installations_in_order ON app_installations USING btree (workspace_id, lsn);

create table approval_gates (
    id uuid not null,
    workspace_id uuid not null,
    channel_id uuid not null,
    thread_id uuid not null,
    state text not null,
    blocks_close boolean not null,
    requested_by uuid not null,
    requested_actor_id uuid not null,
    requested_at bigint not null,
    expires_at bigint,
    resolved_by uuid,
    resolved_actor_id uuid,
    resolved_at bigint,
    message_id uuid not null,
    lsn bigint not null,
    needs_person boolean default false not null,
    constraint approval_gates_pkey PRIMARY KEY (id)
);
CREATE INDEX approval_gates_due ON approval_gates USING btree (expires_at, id) WHERE ((state = 'pending'::text) AND (expires_at IS NOT NULL));
CREATE INDEX approval_gates_of_thread ON approval_gates USING btree (thread_id, lsn);
CREATE INDEX approval_gates_of_workspace ON approval_gates USING btree (workspace_id, lsn);
CREATE INDEX approval_gates_pending ON approval_gates USING btree (workspace_id, lsn) WHERE (state = 'pending'::text);

create table apps (
    id uuid not null,
    workspace_id uuid not null,
    slug text not null,
    name text not null,
    created_by uuid,
    created_at bigint not null,
    lsn bigint not null,
    constraint apps_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX apps_by_slug ON apps USING btree (workspace_id, slug);
CREATE INDEX apps_in_order ON apps USING btree (workspace_id, lsn);

create table audit (
    workspace_id uuid not null,
    seq bigint not null,
    at bigint not null,
    action text not null,
    actor_id uuid,
    subject_id uuid,
    grant_id uuid,
    metadata text not null,
    channel_id uuid,
    constraint audit_pkey PRIMARY KEY (workspace_id, seq)
);
CREATE INDEX audit_in_order ON audit USING btree (at, workspace_id, seq);

create table ballot_counts (
    vote_id uuid not null,
    choice bigint not null,
    total bigint not null,
    constraint ballot_counts_pkey PRIMARY KEY (vote_id, choice)
);

create table ballots (
    vote_id uuid not null,
    choice bigint not null,
    member_id uuid not null,
    lsn bigint not null,
    constraint ballots_pkey PRIMARY KEY (vote_id, choice, member_id)
);
CREATE INDEX ballots_in_order ON ballots USING btree (vote_id, choice, lsn);
CREATE INDEX ballots_of_member ON ballots USING btree (vote_id, member_id);

create table boots (
    channel_id uuid not null,
    text text not null,
    version bigint not null,
    updated_by uuid,
    at bigint not null,
    lsn bigint not null,
    constraint boots_pkey PRIMARY KEY (channel_id)
);
alter table boots alter column text set statistics 0;

create table census_at (
    workspace_id uuid not null,
    lsn bigint not null,
    constraint census_at_pkey PRIMARY KEY (workspace_id)
);

create table channel_members (
    channel_id uuid not null,
    member_id uuid not null,
    added_by uuid,
    added_at bigint not null,
    lsn bigint not null,
    constraint channel_members_pkey PRIMARY KEY (channel_id, member_id)
);
CREATE INDEX channel_members_in_order ON channel_members USING btree (channel_id, lsn);
CREATE INDEX channels_of_member_in_order ON channel_members USING btree (member_id, lsn);

create table channels (
    id uuid not null,
    workspace_id uuid not null,
    name text not null,
    topic text,
    private boolean not null,
    created_by uuid,
    created_at bigint not null,
    archived_at bigint,
    lsn bigint not null,
    dm boolean default false not null,
    is_group boolean default false not null,
    constraint channels_pkey PRIMARY KEY (id)
);
CREATE INDEX channels_in_order ON channels USING btree (workspace_id, lsn);

create table charged_imports (
    id uuid not null,
    charged_to uuid not null,
    at bigint not null,
    constraint charged_imports_pkey PRIMARY KEY (id)
);
CREATE INDEX charged_imports_of ON charged_imports USING btree (charged_to, at);

create table checkpoints (
    workspace_id uuid not null,
    lsn bigint not null,
    frontier bytea not null,
    constraint checkpoints_pkey PRIMARY KEY (workspace_id)
);

create table claim_checkpoints (
    thread_id uuid not null,
    member_id uuid not null,
    at bigint not null,
    lsn bigint not null,
    checkpoint text not null,
    constraint claim_checkpoints_pkey PRIMARY KEY (thread_id)
);
alter table claim_checkpoints alter column checkpoint set statistics 0;

create table consumers (
    workspace_id uuid not null,
    member_id uuid not null,
    consumer_id text not null,
    after_id bigint not null,
    holder uuid not null,
    seen_at bigint not null,
    constraint consumers_pkey PRIMARY KEY (workspace_id, member_id, consumer_id)
);
CREATE INDEX consumers_by_seen ON consumers USING btree (seen_at);

create table dead_letters (
    id uuid not null,
    workspace_id uuid not null,
    thread_id uuid not null,
    exceeded text not null,
    holder uuid not null,
    claim_lease_id uuid not null,
    failed_at bigint not null,
    lsn bigint not null,
    settled_at bigint,
    constraint dead_letters_pkey PRIMARY KEY (id)
);
CREATE INDEX dead_letters_unsettled ON dead_letters USING btree (workspace_id, lsn) WHERE (settled_at IS NULL);
CREATE UNIQUE INDEX dead_letters_unsettled_of_thread ON dead_letters USING btree (thread_id) WHERE (settled_at IS NULL);

create table delegation_grants (
    id uuid not null,
    workspace_id uuid not null,
    subject_id uuid not null,
    delegate_id uuid not null,
    capabilities bigint not null,
    purpose text not null,
    created_by uuid,
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint,
    lsn bigint not null,
    constraint delegation_grants_pkey PRIMARY KEY (id)
);
CREATE INDEX delegation_grants_held ON delegation_grants USING btree (delegate_id, expires_at) WHERE (revoked_at IS NULL);
CREATE INDEX delegation_grants_in_order ON delegation_grants USING btree (workspace_id, lsn);

create table delegation_policies (
    workspace_id uuid not null,
    ceiling_days bigint not null,
    constraint delegation_policies_pkey PRIMARY KEY (workspace_id)
);

create table delivery_addresses (
    member_id uuid not null,
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
    digest_at bigint,
    workspace_id uuid,
    refusals bigint default 0 not null,
    constraint delivery_addresses_pkey PRIMARY KEY (member_id)
);
CREATE INDEX delivery_codes_due ON delivery_addresses USING btree (workspace_id, code_due) WHERE (code_due IS NOT NULL);
CREATE INDEX delivery_former_due ON delivery_addresses USING btree (workspace_id, former_due) WHERE (former_due IS NOT NULL);

create table delivery_codes (
    id uuid not null,
    charged_to uuid not null,
    member_id uuid not null,
    at bigint not null,
    constraint delivery_codes_pkey PRIMARY KEY (id)
);
CREATE INDEX delivery_codes_of ON delivery_codes USING btree (charged_to, at);

create table dm_sets (
    workspace_id uuid not null,
    set_key bytea not null,
    channel_id uuid not null,
    constraint dm_sets_channel_id_key UNIQUE (channel_id),
    constraint dm_sets_pkey PRIMARY KEY (workspace_id, set_key)
);

create table erased (
    workspace_id uuid not null,
    at bigint not null,
    lsn bigint not null,
    hash bytea not null,
    place text,
    constraint erased_pkey PRIMARY KEY (workspace_id)
);

create table events (
    workspace_id uuid not null,
    lsn bigint not null,
    kind text not null,
    at bigint not null,
    channel_id uuid,
    thread_id uuid,
    member_id uuid,
    prev_hash bytea not null,
    content_hash bytea not null,
    payload text not null,
    constraint events_pkey PRIMARY KEY (workspace_id, lsn)
);
CREATE INDEX events_of_thread ON events USING btree (thread_id, lsn) WHERE (thread_id IS NOT NULL);
CREATE INDEX events_withdrawals ON events USING btree (workspace_id, lsn) WHERE (kind = 'MessageTombstoned'::text);

create table findings (
    id uuid not null,
    review_id uuid not null,
    thread_id uuid not null,
    number bigint not null,
    severity text not null,
    line bigint,
    resolution text,
    resolved_by uuid,
    resolved_at bigint,
    lsn bigint not null,
    resolved_actor_id uuid,
    constraint findings_pkey PRIMARY KEY (id),
    constraint findings_review_id_number_key UNIQUE (review_id, number)
);
CREATE INDEX findings_critical ON findings USING btree (thread_id, lsn, number) WHERE (severity = 'critical'::text);

create table follows (
    member_id uuid not null,
    target_id uuid not null,
    kind text not null,
    seen_lsn bigint not null,
    at bigint not null,
    seq bigint not null,
    constraint follows_pkey PRIMARY KEY (member_id, target_id)
);
CREATE INDEX followers ON follows USING btree (target_id, member_id);
CREATE UNIQUE INDEX follows_in_order ON follows USING btree (member_id, seq);

create table footprints (
    workspace_id uuid not null,
    id bigint not null,
    digest bytea not null,
    repo text,
    repo_key text collate "C" not null,
    mode text not null,
    items text not null,
    constraint footprints_pkey PRIMARY KEY (workspace_id, id),
    constraint footprints_workspace_id_digest_key UNIQUE (workspace_id, digest)
);

create table glossary (
    workspace_id uuid not null,
    key text not null,
    term text not null,
    definition text not null,
    updated_by uuid,
    at bigint not null,
    lsn bigint not null,
    constraint glossary_pkey PRIMARY KEY (workspace_id, key)
);
alter table glossary alter column definition set statistics 0;
CREATE INDEX glossary_in_order ON glossary USING btree (workspace_id, lsn);

create table heads (
    workspace_id uuid not null,
    lsn bigint not null,
    hash bytea not null,
    at bigint not null,
    audit_seq bigint not null,
    epoch bigint not null,
    rules_epoch bigint default 0 not null,
    floor bigint default 1 not null,
    pruned_at bigint default 0 not null,
    words_floor bigint default 0 not null,
    constraint heads_pkey PRIMARY KEY (workspace_id)
) with (fillfactor=10);

create table held_texts (
    workspace_id uuid not null,
    kind text not null,
    object_id uuid not null,
    version bigint not null,
    text text not null,
    at bigint not null,
    constraint held_texts_pkey PRIMARY KEY (workspace_id, kind, object_id, version)
);
alter table held_texts alter column text set statistics 0;

create table idempotency_keys (
    key_hash bytea not null,
    member_id uuid not null,
    request_hash bytea not null,
    status bigint not null,
    code text,
    answer text,
    lsn bigint not null,
    until bigint not null,
    constraint idempotency_keys_pkey PRIMARY KEY (key_hash)
);
CREATE INDEX idempotency_keys_by_member ON idempotency_keys USING btree (member_id);
CREATE INDEX idempotency_keys_by_until ON idempotency_keys USING btree (until);

create table imports (
    id text not null,
    digest bytea not null,
    mode text not null,
    workspace_id uuid not null,
    reached bigint not null,
    holder uuid not null,
    until bigint not null,
    outcome text,
    place text,
    charged_to uuid,
    constraint imports_pkey PRIMARY KEY (id)
);
CREATE INDEX imports_of_workspace ON imports USING btree (workspace_id);
CREATE INDEX imports_staging ON imports USING btree (until) WHERE (outcome IS NULL);

create table inbox (
    workspace_id uuid not null,
    member_id uuid not null,
    lsn bigint not null,
    reasons bigint not null,
    channel_id uuid not null,
    thread_id uuid,
    message_id uuid,
    actor_id uuid,
    at bigint not null,
    read_at bigint,
    mail_due bigint,
    push_due bigint,
    constraint inbox_pkey PRIMARY KEY (member_id, lsn)
);
CREATE INDEX inbox_in_order ON inbox USING btree (workspace_id, lsn);
CREATE INDEX inbox_mail_due ON inbox USING btree (workspace_id, mail_due, member_id) WHERE (mail_due IS NOT NULL);
CREATE UNIQUE INDEX inbox_of_message ON inbox USING btree (message_id, member_id) WHERE (message_id IS NOT NULL);
CREATE INDEX inbox_push_due ON inbox USING btree (workspace_id, push_due, member_id) WHERE (push_due IS NOT NULL);
CREATE INDEX inbox_read_at ON inbox USING btree (read_at) WHERE (read_at IS NOT NULL);

CREATE INDEX inbox_spoken_unread ON inbox USING btree (member_id, (
CASE
    WHEN ((read_at IS NULL) AND ((reasons & (15)::bigint) <> 0)) THEN 1
    ELSE NULL::integer
END), lsn) WHERE (
CASE
    WHEN ((read_at IS NULL) AND ((reasons & (15)::bigint) <> 0)) THEN 1
    ELSE NULL::integer
END = 1);
CREATE INDEX inbox_unread ON inbox USING btree (member_id, read_at, lsn) WHERE (read_at IS NULL);
CREATE INDEX inbox_unread_in ON inbox USING btree (member_id, channel_id, read_at) WHERE ((read_at IS NULL) AND (message_id IS NOT NULL));
CREATE INDEX inbox_unread_since ON inbox USING btree (at) WHERE (read_at IS NULL);

create table inbox_rules (
    member_id uuid not null,
    reason bigint not null,
    mail boolean not null,
    push boolean not null,
    constraint inbox_rules_pkey PRIMARY KEY (member_id, reason)
);

create table key_checks (
    key_id bytea not null,
    sealed bytea not null,
    added_at bigint not null,
    constraint key_checks_pkey PRIMARY KEY (key_id)
);

create table kind_counts (
    workspace_id uuid not null,
    channel_id uuid not null,
    kind text not null,
    n bigint not null,
    constraint kind_counts_pkey PRIMARY KEY (workspace_id, channel_id, kind)
);

create table land_gates (
    thread_id uuid not null,
    required boolean default false not null,
    pointer text,
    head_sha text,
    verdict text,
    objection text,
    member_id uuid,
    actor_id uuid,
    set_at bigint,
    lsn bigint,
    constraint land_gates_pkey PRIMARY KEY (thread_id)
);

create table leases (
    name text not null,
    holder uuid not null,
    until bigint not null,
    constraint leases_pkey PRIMARY KEY (name)
);

create table legal_holds (
    id uuid not null,
    workspace_id uuid not null,
    reason text not null,
    placed_by uuid,
    placed_at bigint not null,
    lsn bigint not null,
    released_by uuid,
    released_at bigint,
    constraint legal_holds_pkey PRIMARY KEY (id)
);
CREATE INDEX legal_holds_in_force ON legal_holds USING btree (workspace_id) WHERE (released_at IS NULL);
CREATE INDEX legal_holds_of_workspace ON legal_holds USING btree (workspace_id, lsn);

create table live_items (
    workspace_id uuid not null,
    repo_key text collate "C" not null,
    space text not null,
    prefix text collate "C" not null,
    exclusive boolean not null,
    obstacle uuid not null,
    thread_id uuid not null,
    constraint live_items_pkey PRIMARY KEY (workspace_id, repo_key, space, exclusive, prefix, thread_id)
);
CREATE INDEX live_items_of_obstacle ON live_items USING btree (obstacle, exclusive) WHERE (space <> 'slot'::text);
CREATE INDEX live_items_of_slot ON live_items USING btree (obstacle) WHERE (space = 'slot'::text);
CREATE INDEX live_items_of_thread ON live_items USING btree (thread_id);

create table member_skills (
    member_id uuid not null,
    skill text not null,
    governance boolean not null,
    constraint member_skills_pkey PRIMARY KEY (member_id, skill)
);
CREATE INDEX member_skills_by_skill ON member_skills USING btree (skill, member_id);

create table members (
    id uuid not null,
    workspace_id uuid not null,
    handle text not null,
    kind text not null,
    display_name text,
    created_at bigint not null,
    frozen_at bigint,
    deactivated_at bigint,
    lsn bigint not null,
    frozen_by uuid,
    frozen_reason text,
    changed_at bigint,
    external_id text,
    removed_at bigint,
    constraint members_pkey PRIMARY KEY (id),
    constraint members_workspace_id_handle_key UNIQUE (workspace_id, handle)
);
CREATE INDEX members_frozen ON members USING btree (workspace_id, lsn) WHERE (frozen_at IS NOT NULL);
CREATE INDEX members_in_order ON members USING btree (workspace_id, lsn);
CREATE INDEX people_by_external_id ON members USING btree (workspace_id, substr(external_id, 1, 200), lsn) WHERE (external_id IS NOT NULL);
CREATE INDEX people_in_order ON members USING btree (workspace_id, lsn) WHERE ((kind = 'human'::text) AND (removed_at IS NULL));

create table memory_blocks (
    id uuid not null,
    workspace_id uuid not null,
    label text not null,
    description text,
    char_limit bigint not null,
    read_only boolean not null,
    value text not null,
    version bigint not null,
    created_by uuid,
    updated_by uuid,
    at bigint not null,
    lsn bigint not null,
    constraint memory_blocks_pkey PRIMARY KEY (id)
);
alter table memory_blocks alter column description set statistics 0;
alter table memory_blocks alter column value set statistics 0;
CREATE INDEX memory_blocks_in_order ON memory_blocks USING btree (workspace_id, lsn);

create table message_edits (
    message_id uuid not null,
    edit bigint not null,
    written_at bigint not null,
    sealed bytea,
    lsn bigint not null,
    constraint message_edits_pkey PRIMARY KEY (message_id, edit)
);
CREATE INDEX message_edits_in_order ON message_edits USING btree (message_id, lsn);

create table messages (
    id uuid not null,
    workspace_id uuid not null,
    channel_id uuid not null,
    thread_id uuid not null,
    author_id uuid,
    posted_at bigint not null,
    edited_at bigint,
    edits bigint not null,
    withdrawn_at bigint,
    sealed bytea,
    lsn bigint not null,
    wrapped bytea,
    marked boolean default false not null,
    content_hash bytea,
    constraint messages_pkey PRIMARY KEY (id)
);
CREATE INDEX messages_in_order ON messages USING btree (workspace_id, lsn);
CREATE INDEX messages_of_channel ON messages USING btree (channel_id, lsn);
CREATE INDEX messages_of_thread ON messages USING btree (thread_id, lsn);

create table mutes (
    member_id uuid not null,
    target_id uuid not null,
    constraint mutes_pkey PRIMARY KEY (member_id, target_id)
);

create table oidc_identities (
    workspace_id uuid not null,
    issuer text not null,
    subject text not null,
    member_id uuid not null,
    linked_at bigint not null,
    constraint oidc_identities_pkey PRIMARY KEY (workspace_id, issuer, subject)
);
CREATE UNIQUE INDEX oidc_identities_of_member ON oidc_identities USING btree (member_id, issuer);

create table oidc_logins (
    state_hash bytea not null,
    workspace_id uuid not null,
    browser_hash bytea not null,
    return_to text not null,
    expires_at bigint not null,
    constraint oidc_logins_pkey PRIMARY KEY (state_hash)
);
CREATE INDEX oidc_logins_by_end ON oidc_logins USING btree (expires_at);
CREATE INDEX oidc_logins_of_workspace ON oidc_logins USING btree (workspace_id, expires_at);

create table parked (
    obstacle uuid not null,
    channel_id uuid not null,
    skill_set bigint not null,
    repo_key text not null,
    exclusive boolean not null,
    urgency bigint not null,
    lsn bigint not null,
    thread_id uuid not null,
    pool uuid not null,
    footprint bigint not null,
    constraint parked_pkey PRIMARY KEY (obstacle, channel_id, skill_set, repo_key, exclusive, urgency, lsn),
    constraint parked_thread_id_key UNIQUE (thread_id)
);
CREATE INDEX parked_of_channel ON parked USING btree (channel_id);
CREATE INDEX parked_of_footprint ON parked USING btree (pool, footprint, channel_id, skill_set);

create table pins (
    message_id uuid not null,
    channel_id uuid not null,
    pinned_by uuid,
    at bigint not null,
    lsn bigint not null,
    constraint pins_pkey PRIMARY KEY (message_id)
);
CREATE INDEX pins_of_channel ON pins USING btree (channel_id, lsn);

create table preferences (
    member_id uuid not null,
    body text not null,
    constraint preferences_pkey PRIMARY KEY (member_id)
);

create table presence (
    member_id uuid not null,
    status text not null,
    note text,
    thread_id uuid,
    seen_at bigint not null,
    constraint presence_pkey PRIMARY KEY (member_id)
) with (fillfactor=50);
alter table presence alter column note set statistics 0;

create table purges (
    workspace_id uuid not null,
    up_to_lsn bigint not null,
    requested_by uuid,
    until bigint not null,
    progress text not null,
    purged_at bigint,
    constraint purges_pkey PRIMARY KEY (workspace_id)
);
CREATE INDEX purges_in_progress ON purges USING btree (until) WHERE (purged_at IS NULL);

create unlogged table rate_windows (
    key uuid not null,
    full_at bigint not null,
    constraint rate_windows_pkey PRIMARY KEY (key)
);
CREATE INDEX rate_windows_by_end ON rate_windows USING btree (full_at);

create table reactions (
    message_id uuid not null,
    emoji text not null,
    member_id uuid not null,
    lsn bigint not null,
    constraint reactions_pkey PRIMARY KEY (message_id, emoji, member_id)
);
CREATE INDEX reactions_by_age ON reactions USING btree (message_id, emoji, lsn);

create table ready (
    channel_id uuid not null,
    skill_set bigint not null,
    urgency bigint not null,
    lsn bigint not null,
    thread_id uuid not null,
    pool uuid not null,
    footprint bigint default 0 not null,
    repo_key text default ''::text not null,
    exclusive boolean default false not null,
    came_from uuid,
    constraint ready_pkey PRIMARY KEY (channel_id, skill_set, urgency, lsn),
    constraint ready_thread_id_key UNIQUE (thread_id)
);
CREATE INDEX ready_in_pool ON ready USING btree (pool, skill_set, urgency, lsn, thread_id);
CREATE INDEX ready_of_footprint ON ready USING btree (pool, footprint) WHERE (footprint <> 0);
CREATE INDEX ready_of_obstacle ON ready USING btree (came_from, channel_id, skill_set, repo_key, exclusive) WHERE (came_from IS NOT NULL);
CREATE INDEX ready_of_repo ON ready USING btree (channel_id, repo_key, skill_set, urgency, lsn, thread_id) WHERE (repo_key <> ''::text);
CREATE INDEX ready_of_repo_in_pool ON ready USING btree (pool, repo_key, skill_set, urgency, lsn, thread_id) WHERE (repo_key <> ''::text);

create table relations (
    id uuid not null,
    workspace_id uuid not null,
    kind text not null,
    from_id uuid not null,
    from_thread_id uuid not null,
    from_channel_id uuid not null,
    to_id uuid not null,
    to_thread_id uuid not null,
    to_channel_id uuid not null,
    derived boolean not null,
    made_by uuid,
    made_at bigint not null,
    lsn bigint not null,
    resolved_by uuid,
    resolved_actor_id uuid,
    resolved_at bigint,
    constraint relations_from_id_to_id_kind_key UNIQUE (from_id, to_id, kind),
    constraint relations_pkey PRIMARY KEY (id)
);
CREATE INDEX refutations_from_channel ON relations USING btree (from_channel_id) WHERE (kind = 'refutes'::text);
CREATE INDEX refutations_of_thread ON relations USING btree (to_thread_id) WHERE (kind = 'refutes'::text);
CREATE INDEX relations_in_order ON relations USING btree (workspace_id, lsn);
CREATE INDEX relations_to ON relations USING btree (to_id, lsn);

create table repo_pauses (
    workspace_id uuid not null,
    repo_key text not null,
    repo text not null,
    reason text,
    paused_by uuid,
    paused_at bigint not null,
    lsn bigint not null,
    obstacle uuid not null,
    constraint repo_pauses_obstacle_key UNIQUE (obstacle),
    constraint repo_pauses_pkey PRIMARY KEY (workspace_id, repo_key)
);

create table resource_subscriptions (
    token_id uuid not null,
    uri text not null,
    until bigint not null,
    constraint resource_subscriptions_pkey PRIMARY KEY (token_id, uri)
);
CREATE INDEX resource_subscriptions_by_until ON resource_subscriptions USING btree (until);

create table results (
    thread_id uuid not null,
    lsn bigint not null,
    workspace_id uuid not null,
    result_kind text,
    result text,
    produced_by uuid not null,
    produced_at bigint not null,
    constraint results_pkey PRIMARY KEY (thread_id, lsn)
);
alter table results alter column result set statistics 0;
CREATE INDEX results_of_workspace ON results USING btree (workspace_id, lsn);

create table retention (
    workspace_id uuid not null,
    messages_days bigint,
    events_days bigint,
    deliveries_days bigint,
    media_days bigint,
    media_quota_bytes bigint,
    at bigint not null,
    lsn bigint not null,
    constraint retention_pkey PRIMARY KEY (workspace_id)
);

create table review_requirements (
    thread_id uuid not null,
    approvals bigint not null,
    lsn bigint not null,
    constraint review_requirements_pkey PRIMARY KEY (thread_id)
);

create table reviewers (
    thread_id uuid not null,
    member_id uuid not null,
    added_by uuid,
    added_at bigint not null,
    lsn bigint not null,
    constraint reviewers_pkey PRIMARY KEY (thread_id, member_id)
);

create table reviews (
    id uuid not null,
    thread_id uuid not null,
    member_id uuid not null,
    actor_id uuid not null,
    verdict text not null,
    objection text,
    head_sha text,
    message_id uuid not null,
    submitted_at bigint not null,
    lsn bigint not null,
    superseded boolean default false not null,
    constraint reviews_pkey PRIMARY KEY (id)
);
CREATE INDEX reviews_of_member ON reviews USING btree (thread_id, member_id);
CREATE INDEX reviews_of_thread ON reviews USING btree (thread_id, lsn);
CREATE INDEX reviews_that_stand ON reviews USING btree (thread_id, lsn) WHERE (NOT superseded);

create table schema_migrations (
    version bigint not null,
    name text not null,
    checksum text not null,
    applied_at bigint not null,
    constraint schema_migrations_pkey PRIMARY KEY (version)
);

create table scim_group_members (
    group_id uuid not null,
    member_id uuid not null,
    constraint scim_group_members_pkey PRIMARY KEY (group_id, member_id)
);
CREATE INDEX scim_group_members_of_member ON scim_group_members USING btree (member_id);

create table scim_groups (
    id uuid not null,
    workspace_id uuid not null,
    display_name text not null,
    external_id text,
    created_at bigint not null,
    changed_at bigint not null,
    lsn bigint not null,
    constraint scim_groups_pkey PRIMARY KEY (id)
);
CREATE INDEX scim_groups_by_external_id ON scim_groups USING btree (workspace_id, substr(external_id, 1, 200), lsn) WHERE (external_id IS NOT NULL);
CREATE INDEX scim_groups_in_order ON scim_groups USING btree (workspace_id, lsn);

create table scrubs (
    key_table text not null,
    workspace_id uuid not null,
    lsn bigint not null,
    constraint scrubs_pkey PRIMARY KEY (key_table, workspace_id, lsn)
);

create table sessions (
    id uuid not null,
    workspace_id uuid not null,
    member_id uuid not null,
    token_id uuid,
    secret_hash bytea,
    capabilities bigint,
    created_at bigint not null,
    expires_at bigint not null,
    ended_at bigint,
    constraint sessions_pkey PRIMARY KEY (id)
);
CREATE INDEX sessions_by_end ON sessions USING btree (COALESCE(ended_at, expires_at));
CREATE INDEX sessions_of_member ON sessions USING btree (member_id) WHERE (ended_at IS NULL);
CREATE INDEX sessions_of_token ON sessions USING btree (token_id);

create table share_tickets (
    id uuid not null,
    workspace_id uuid not null,
    channel_id uuid not null,
    owner_id uuid not null,
    created_by uuid not null,
    installation_id uuid,
    secret_hash bytea not null,
    artifact_shas text not null,
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint,
    lsn bigint not null,
    constraint share_tickets_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX share_tickets_by_secret ON share_tickets USING btree (secret_hash);
CREATE INDEX share_tickets_in_order ON share_tickets USING btree (workspace_id, lsn);
CREATE INDEX share_tickets_of_creator ON share_tickets USING btree (created_by, expires_at) WHERE (revoked_at IS NULL);
CREATE INDEX share_tickets_of_owner ON share_tickets USING btree (owner_id, expires_at) WHERE (revoked_at IS NULL);

create table shelves (
    workspace_id uuid not null,
    shelf bigint not null,
    version bigint not null,
    sealed bytea not null,
    constraint shelves_pkey PRIMARY KEY (workspace_id, shelf)
) partition by HASH (workspace_id, shelf);
create table shelves_00 partition of shelves FOR VALUES WITH (modulus 16, remainder 0);
create table shelves_01 partition of shelves FOR VALUES WITH (modulus 16, remainder 1);
create table shelves_02 partition of shelves FOR VALUES WITH (modulus 16, remainder 2);
create table shelves_03 partition of shelves FOR VALUES WITH (modulus 16, remainder 3);
create table shelves_04 partition of shelves FOR VALUES WITH (modulus 16, remainder 4);
create table shelves_05 partition of shelves FOR VALUES WITH (modulus 16, remainder 5);
create table shelves_06 partition of shelves FOR VALUES WITH (modulus 16, remainder 6);
create table shelves_07 partition of shelves FOR VALUES WITH (modulus 16, remainder 7);
create table shelves_08 partition of shelves FOR VALUES WITH (modulus 16, remainder 8);
create table shelves_09 partition of shelves FOR VALUES WITH (modulus 16, remainder 9);
create table shelves_10 partition of shelves FOR VALUES WITH (modulus 16, remainder 10);
create table shelves_11 partition of shelves FOR VALUES WITH (modulus 16, remainder 11);
create table shelves_12 partition of shelves FOR VALUES WITH (modulus 16, remainder 12);
create table shelves_13 partition of shelves FOR VALUES WITH (modulus 16, remainder 13);
create table shelves_14 partition of shelves FOR VALUES WITH (modulus 16, remainder 14);
create table shelves_15 partition of shelves FOR VALUES WITH (modulus 16, remainder 15);
alter table shelves alter column sealed set statistics 0;
alter table shelves_00 alter column sealed set statistics 0;
alter table shelves_01 alter column sealed set statistics 0;
alter table shelves_02 alter column sealed set statistics 0;
alter table shelves_03 alter column sealed set statistics 0;
alter table shelves_04 alter column sealed set statistics 0;
alter table shelves_05 alter column sealed set statistics 0;
alter table shelves_06 alter column sealed set statistics 0;
alter table shelves_07 alter column sealed set statistics 0;
alter table shelves_08 alter column sealed set statistics 0;
alter table shelves_09 alter column sealed set statistics 0;
alter table shelves_10 alter column sealed set statistics 0;
alter table shelves_11 alter column sealed set statistics 0;
alter table shelves_12 alter column sealed set statistics 0;
alter table shelves_13 alter column sealed set statistics 0;
alter table shelves_14 alter column sealed set statistics 0;
alter table shelves_15 alter column sealed set statistics 0;

create table skill_sets (
    workspace_id uuid not null,
    id bigint not null,
    skills text not null,
    hash bytea not null,
    constraint skill_sets_pkey PRIMARY KEY (workspace_id, id),
    constraint skill_sets_workspace_id_hash_key UNIQUE (workspace_id, hash)
);

create table slot_uses (
    workspace_id uuid not null,
    obstacle uuid not null,
    uses bigint not null,
    constraint slot_uses_pkey PRIMARY KEY (obstacle)
);

create table slots (
    workspace_id uuid not null,
    slot_key text not null,
    slot text not null,
    capacity bigint not null,
    obstacle uuid not null,
    constraint slots_obstacle_key UNIQUE (obstacle),
    constraint slots_pkey PRIMARY KEY (workspace_id, slot_key)
);

create table spawn_budgets (
    workspace_id uuid not null,
    max_children bigint,
    max_depth bigint,
    max_tools bigint,
    constraint spawn_budgets_pkey PRIMARY KEY (workspace_id)
);

create table taps (
    name text not null,
    workspace_id uuid not null,
    after_id bigint not null,
    hash bytea,
    constraint taps_pkey PRIMARY KEY (name, workspace_id)
);

create table thread_budgets (
    thread_id uuid not null,
    max_tokens bigint,
    max_usd_micros bigint,
    max_turns bigint,
    max_wall_secs bigint,
    max_attempts bigint,
    low bigint default 0 not null,
    constraint thread_budgets_pkey PRIMARY KEY (thread_id)
);

create table thread_dependencies (
    thread_id uuid not null,
    depends_on_id uuid not null,
    lsn bigint not null,
    constraint thread_dependencies_pkey PRIMARY KEY (thread_id, depends_on_id)
);
CREATE INDEX dependents_of_thread ON thread_dependencies USING btree (depends_on_id);

create table thread_memory_blocks (
    thread_id uuid not null,
    block_id uuid not null,
    lsn bigint not null,
    constraint thread_memory_blocks_pkey PRIMARY KEY (thread_id, block_id)
);
CREATE INDEX threads_of_memory_block ON thread_memory_blocks USING btree (block_id);

create table thread_notices (
    thread_id uuid not null,
    lsn bigint not null,
    at bigint not null,
    kind text not null,
    text text not null,
    message_id uuid,
    constraint thread_notices_pkey PRIMARY KEY (thread_id, lsn)
);
CREATE INDEX notices_of_message ON thread_notices USING btree (message_id) WHERE (message_id IS NOT NULL);

create table thread_workers (
    thread_id uuid not null,
    member_id uuid not null,
    lsn bigint not null,
    constraint thread_workers_pkey PRIMARY KEY (thread_id, member_id)
);

create table threads (
    id uuid not null,
    workspace_id uuid not null,
    channel_id uuid not null,
    parent_id uuid,
    depth bigint not null,
    title text not null,
    state text not null,
    priority bigint not null,
    skill_set bigint not null,
    blocked bigint not null,
    has_result boolean not null,
    owner_id uuid,
    assignee_id uuid,
    claim_lease_id uuid,
    claimed_at bigint,
    assignment_expires_at bigint,
    acknowledged_at bigint,
    acknowledge_by bigint,
    worked_micros bigint not null,
    cancelled_at bigint,
    created_by uuid,
    created_at bigint not null,
    lsn bigint not null,
    footprint bigint default 0 not null,
    has_checkpoint boolean default false not null,
    judged_from bigint default 0 not null,
    budgeted boolean default false not null,
    spent_tokens bigint default 0 not null,
    spent_usd_micros bigint default 0 not null,
    spent_turns bigint default 0 not null,
    attempts bigint default 0 not null,
    exhausted boolean default false not null,
    dead boolean default false not null,
    children_ever bigint default 0 not null,
    tools text,
    claim_lsn bigint,
    constraint threads_pkey PRIMARY KEY (id)
);
CREATE INDEX threads_by_acknowledgement ON threads USING btree (acknowledge_by) WHERE (acknowledge_by IS NOT NULL);
CREATE INDEX threads_by_claim ON threads USING btree (assignee_id, COALESCE(claim_lsn, (0)::bigint)) WHERE (assignee_id IS NOT NULL);
CREATE INDEX threads_by_lease_end ON threads USING btree (assignment_expires_at) WHERE (assignment_expires_at IS NOT NULL);
CREATE INDEX threads_by_lease_end_in_workspace ON threads USING btree (workspace_id, assignment_expires_at) WHERE (assignment_expires_at IS NOT NULL);
CREATE INDEX threads_claimed ON threads USING btree (workspace_id, lsn) WHERE (assignee_id IS NOT NULL);
CREATE INDEX threads_in_review ON threads USING btree (workspace_id, lsn) WHERE (state = 'in_review'::text);
CREATE INDEX threads_of_channel ON threads USING btree (channel_id, lsn);
CREATE INDEX threads_of_holder ON threads USING btree (assignee_id, lsn) WHERE (assignee_id IS NOT NULL);
CREATE INDEX threads_of_parent ON threads USING btree (parent_id, lsn) WHERE (parent_id IS NOT NULL);
CREATE INDEX threads_of_workspace ON threads USING btree (workspace_id, lsn);
CREATE INDEX threads_open_with_footprint ON threads USING btree (workspace_id, lsn) WHERE ((footprint <> 0) AND (state = 'open'::text));

create table tokens (
    id uuid not null,
    workspace_id uuid not null,
    member_id uuid not null,
    actor_id uuid not null,
    parent_id uuid,
    grant_id uuid,
    label text,
    secret_hash bytea not null,
    capabilities bigint not null,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint,
    lsn bigint not null,
    installation_id uuid,
    quota bigint,
    constraint tokens_pkey PRIMARY KEY (id),
    constraint tokens_secret_hash_key UNIQUE (secret_hash)
);
CREATE INDEX tokens_by_parent ON tokens USING btree (parent_id);
CREATE INDEX tokens_derived ON tokens USING btree (parent_id, COALESCE(expires_at, '9223372036854775807'::bigint)) WHERE ((parent_id IS NOT NULL) AND (revoked_at IS NULL));
CREATE INDEX tokens_live_of_actor ON tokens USING btree (actor_id, COALESCE(expires_at, '9223372036854775807'::bigint)) WHERE (revoked_at IS NULL);
CREATE INDEX tokens_live_of_member ON tokens USING btree (member_id, COALESCE(expires_at, '9223372036854775807'::bigint)) WHERE (revoked_at IS NULL);
CREATE INDEX tokens_of_grant ON tokens USING btree (grant_id, expires_at) WHERE (grant_id IS NOT NULL);
CREATE INDEX tokens_of_installation ON tokens USING btree (installation_id, COALESCE(expires_at, '9223372036854775807'::bigint)) WHERE (installation_id IS NOT NULL);
CREATE INDEX tokens_of_member ON tokens USING btree (member_id, lsn);

create table usage_reports (
    thread_id uuid not null,
    report_id text not null,
    workspace_id uuid not null,
    digest bytea not null,
    answer text not null,
    member_id uuid not null,
    actor_id uuid,
    claim_lease_id uuid not null,
    model text,
    tokens bigint not null,
    usd_micros bigint not null,
    turns bigint not null,
    reported_at bigint not null,
    lsn bigint not null,
    constraint usage_reports_pkey PRIMARY KEY (thread_id, report_id)
);
CREATE INDEX usage_reports_in_order ON usage_reports USING btree (thread_id, lsn);

create table usage_totals (
    workspace_id uuid not null,
    day bigint not null,
    member_id uuid not null,
    model text not null,
    reports bigint not null,
    tokens bigint not null,
    usd_micros bigint not null,
    turns bigint not null,
    constraint usage_totals_pkey PRIMARY KEY (workspace_id, day, member_id, model)
);

create table votes (
    id uuid not null,
    workspace_id uuid not null,
    channel_id uuid not null,
    thread_id uuid not null,
    message_id uuid not null,
    options bigint not null,
    multiple boolean not null,
    created_by uuid not null,
    closes_at bigint,
    closed_at bigint,
    closed_by uuid,
    lsn bigint not null,
    constraint votes_message_id_key UNIQUE (message_id),
    constraint votes_pkey PRIMARY KEY (id)
);
CREATE INDEX votes_in_order ON votes USING btree (workspace_id, lsn);
CREATE INDEX votes_of_thread ON votes USING btree (thread_id, lsn);
CREATE INDEX votes_that_close ON votes USING btree (closes_at, id) WHERE ((closed_at IS NULL) AND (closes_at IS NOT NULL));

create table web_push (
    id uuid not null,
    member_id uuid not null,
    endpoint text not null,
    p256dh bytea not null,
    auth bytea not null,
    failures bigint not null,
    retry_at bigint,
    last_ok_at bigint,
    has text,
    at bigint not null,
    constraint web_push_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX web_push_endpoint ON web_push USING btree (endpoint);
CREATE INDEX web_push_of ON web_push USING btree (member_id, at);

create table workspaces (
    id uuid not null,
    name text not null,
    handle text,
    created_at bigint not null,
    lsn bigint not null,
    state text default 'live'::text not null,
    charged_to uuid,
    constraint workspaces_handle_key UNIQUE (handle),
    constraint workspaces_pkey PRIMARY KEY (id)
);
