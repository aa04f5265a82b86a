CREATE TABLE agents (
    id VARCHAR NOT NULL,
    parent_agent_id VARCHAR,
    session_id VARCHAR,
    role VARCHAR NOT NULL,
    depth INTEGER NOT NULL,
    harness VARCHAR,
    status VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    updated_at VARCHAR NOT NULL,
    CONSTRAINT pk_agents PRIMARY KEY (id),
    CONSTRAINT fk_agents_parent_agent_id FOREIGN KEY(parent_agent_id) REFERENCES agents (id),
    CONSTRAINT ck_agents_depth CHECK (depth >= 0),
    CONSTRAINT ck_agents_parent CHECK ((depth = 0) = (parent_agent_id IS NULL))
)

CREATE INDEX ix_session_entries_other_versions ON session_entries (semantic_schema_version, session_id) WHERE semantic_schema_version <> 2

CREATE INDEX ix_session_entries_notes ON session_entries (session_id, sequence) WHERE kind = 'note'

CREATE INDEX ix_agents_parent_agent_id ON agents (parent_agent_id)

CREATE INDEX ix_agents_session_id ON agents (session_id)

CREATE TABLE agent_tokens (
    id VARCHAR NOT NULL,
    digest VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL,
    delegation_id VARCHAR,
    purpose VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    expires_at VARCHAR NOT NULL,
    revoked_at VARCHAR,
    host VARCHAR,
    pid INTEGER,
    process_start_time FLOAT,
    CONSTRAINT pk_agent_tokens PRIMARY KEY (id),
    CONSTRAINT ck_agent_tokens_digest CHECK (length(digest) = 64)
)

CREATE INDEX ix_agent_tokens_session_id ON agent_tokens (session_id)

CREATE TABLE captured_hosts (
    host VARCHAR NOT NULL,
    first_event_at VARCHAR NOT NULL,
    last_event_at VARCHAR NOT NULL,
    last_event VARCHAR NOT NULL,
    version VARCHAR,
    events BIGINT NOT NULL,
    late BIGINT NOT NULL,
    spooled BIGINT NOT NULL,
    refused BIGINT NOT NULL,
    CONSTRAINT pk_captured_hosts PRIMARY KEY (host)
)

CREATE TABLE captured_sessions (
    host VARCHAR NOT NULL,
    native_id VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL,
    workspace_id VARCHAR,
    agent_id VARCHAR,
    base_entry_id VARCHAR,
    turn_id VARCHAR,
    told_key VARCHAR,
    told_person_key VARCHAR,
    owed_text TEXT,
    transcript VARCHAR,
    transcript_offset BIGINT NOT NULL,
    is_fresh INTEGER NOT NULL,
    process_pid INTEGER,
    process_start_time FLOAT,
    started_at VARCHAR NOT NULL,
    last_event_at VARCHAR NOT NULL,
    CONSTRAINT pk_captured_sessions PRIMARY KEY (host, native_id)
)

CREATE INDEX ix_captured_sessions_session_id ON captured_sessions (session_id)

CREATE TABLE controllers (
    id VARCHAR NOT NULL,
    pid INTEGER NOT NULL,
    process_start_time FLOAT NOT NULL,
    host VARCHAR NOT NULL,
    build VARCHAR NOT NULL,
    started_at VARCHAR NOT NULL,
    ended_at VARCHAR,
    machine VARCHAR,
    lease_expires_at VARCHAR,
    CONSTRAINT pk_controllers PRIMARY KEY (id)
)

CREATE TABLE plans (
    id VARCHAR NOT NULL,
    label VARCHAR,
    session_id VARCHAR NOT NULL,
    path VARCHAR,
    status VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    updated_at VARCHAR NOT NULL,
    finished_at VARCHAR,
    text TEXT NOT NULL,
    CONSTRAINT pk_plans PRIMARY KEY (id)
)

CREATE INDEX ix_plans_session_id ON plans (session_id)

CREATE TABLE quarantined_sessions (
    session_id VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    found_at VARCHAR NOT NULL,
    findings TEXT NOT NULL,
    CONSTRAINT pk_quarantined_sessions PRIMARY KEY (session_id)
)
 WITHOUT ROWID

CREATE TABLE recall_documents (
    document INTEGER NOT NULL,
    chat INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    part INTEGER NOT NULL,
    length INTEGER NOT NULL,
    CONSTRAINT pk_recall_documents PRIMARY KEY (document),
    CONSTRAINT uq_recall_documents_chat_sequence_part UNIQUE (chat, sequence, part)
)

CREATE TABLE recall_marks (
    session_id VARCHAR NOT NULL,
    chat INTEGER NOT NULL,
    indexed_through BIGINT NOT NULL,
    terms_version INTEGER NOT NULL,
    scope TEXT NOT NULL,
    digest TEXT NOT NULL,
    changed_at VARCHAR NOT NULL,
    branches INTEGER NOT NULL,
    unreadable_entry_id VARCHAR,
    unreadable_version INTEGER,
    CONSTRAINT pk_recall_marks PRIMARY KEY (session_id),
    CONSTRAINT uq_recall_marks_chat UNIQUE (chat)
)

CREATE TABLE recall_scopes (
    words TEXT NOT NULL,
    number INTEGER NOT NULL,
    documents BIGINT NOT NULL,
    CONSTRAINT pk_recall_scopes PRIMARY KEY (words),
    CONSTRAINT uq_recall_scopes_number UNIQUE (number)
)
 WITHOUT ROWID

CREATE TABLE recall_terms (
    term TEXT NOT NULL,
    documents BIGINT NOT NULL,
    CONSTRAINT pk_recall_terms PRIMARY KEY (term)
)
 WITHOUT ROWID

CREATE TABLE recall_state (
    name VARCHAR NOT NULL,
    value BIGINT NOT NULL,
    CONSTRAINT pk_recall_state PRIMARY KEY (name)
)
 WITHOUT ROWID

CREATE TABLE workspaces (
    id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    parent_id VARCHAR,
    path VARCHAR NOT NULL,
    common_dir VARCHAR,
    repository_id VARCHAR,
    worktree_id VARCHAR,
    base_commit VARCHAR,
    label VARCHAR,
    status VARCHAR NOT NULL,
    kept_reason VARCHAR,
    created_at VARCHAR NOT NULL,
    updated_at VARCHAR NOT NULL,
    CONSTRAINT pk_workspaces PRIMARY KEY (id),
    CONSTRAINT fk_workspaces_parent_id FOREIGN KEY(parent_id) REFERENCES workspaces (id),
    CONSTRAINT ck_workspaces_kind CHECK (kind IN ('repository', 'task', 'worker')),
    CONSTRAINT ck_workspaces_parent CHECK ((kind = 'repository') = (parent_id IS NULL))
)

CREATE INDEX ix_workspaces_worktree_id ON workspaces (worktree_id)

CREATE UNIQUE INDEX uq_workspaces_path ON workspaces (path) WHERE status <> 'removed'

CREATE INDEX ix_workspaces_parent_id ON workspaces (parent_id)

CREATE TABLE repository_states (
    state_digest VARCHAR NOT NULL,
    dirty_hash VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    state TEXT NOT NULL,
    CONSTRAINT pk_repository_states PRIMARY KEY (state_digest),
    CONSTRAINT ck_repository_states_state_digest CHECK (length(state_digest) = 64)
)
 WITHOUT ROWID

CREATE TABLE manifests (
    dirty_hash VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    page_index TEXT NOT NULL,
    CONSTRAINT pk_manifests PRIMARY KEY (dirty_hash),
    CONSTRAINT ck_manifests_dirty_hash CHECK (length(dirty_hash) = 64)
)

CREATE TABLE manifest_pages (
    page_digest VARCHAR NOT NULL,
    body BLOB NOT NULL,
    CONSTRAINT pk_manifest_pages PRIMARY KEY (page_digest),
    CONSTRAINT ck_manifest_pages_page_digest CHECK (length(page_digest) = 64)
)

CREATE TABLE kept_contents (
    repository_id VARCHAR NOT NULL,
    content_digest VARCHAR NOT NULL,
    object_id VARCHAR NOT NULL,
    size BIGINT NOT NULL,
    CONSTRAINT pk_kept_contents PRIMARY KEY (repository_id, content_digest)
)
 WITHOUT ROWID

CREATE TABLE kept_states (
    repository_id VARCHAR NOT NULL,
    dirty_hash VARCHAR NOT NULL,
    ref VARCHAR,
    status VARCHAR NOT NULL,
    kept_count INTEGER NOT NULL,
    kept_bytes BIGINT NOT NULL,
    omitted_count INTEGER NOT NULL,
    omitted_bytes BIGINT NOT NULL,
    limit_bytes BIGINT NOT NULL,
    created_at VARCHAR NOT NULL,
    CONSTRAINT pk_kept_states PRIMARY KEY (repository_id, dirty_hash),
    CONSTRAINT ck_kept_states_status CHECK (status IN ('complete', 'over_limit', 'incomplete'))
)
 WITHOUT ROWID

CREATE TABLE workspace_links (
    workspace_id VARCHAR NOT NULL,
    number INTEGER NOT NULL,
    old_repository_id VARCHAR NOT NULL,
    old_worktree_id VARCHAR NOT NULL,
    new_repository_id VARCHAR NOT NULL,
    new_worktree_id VARCHAR NOT NULL,
    old_path VARCHAR NOT NULL,
    new_path VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    CONSTRAINT pk_workspace_links PRIMARY KEY (workspace_id, number),
    CONSTRAINT fk_workspace_links_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id)
)
 WITHOUT ROWID

CREATE TABLE workspace_roots (
    workspace_id VARCHAR NOT NULL,
    commit_id VARCHAR NOT NULL,
    CONSTRAINT pk_workspace_roots PRIMARY KEY (workspace_id, commit_id),
    CONSTRAINT fk_workspace_roots_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id)
)
 WITHOUT ROWID

CREATE TABLE delegations (
    id VARCHAR NOT NULL,
    plan_id VARCHAR,
    name VARCHAR,
    position INTEGER NOT NULL,
    parent_session_id VARCHAR NOT NULL,
    request_entry_id VARCHAR,
    result_entry_id VARCHAR,
    worker_session_id VARCHAR,
    worker_agent_id VARCHAR,
    workspace_id VARCHAR,
    controller_id VARCHAR,
    status VARCHAR NOT NULL,
    base_commit VARCHAR,
    result_commit VARCHAR,
    worker_commit VARCHAR,
    result_ref VARCHAR,
    adoption_status VARCHAR,
    adoption_commit VARCHAR,
    kept_reason VARCHAR,
    cancel_requested_at VARCHAR,
    created_at VARCHAR NOT NULL,
    updated_at VARCHAR NOT NULL,
    finished_at VARCHAR,
    retry_of VARCHAR,
    credential VARCHAR,
    waiting_reason VARCHAR,
    waiting_until VARCHAR,
    request TEXT NOT NULL,
    decision TEXT,
    CONSTRAINT pk_delegations PRIMARY KEY (id),
    CONSTRAINT fk_delegations_plan_id FOREIGN KEY(plan_id) REFERENCES plans (id),
    CONSTRAINT fk_delegations_controller_id FOREIGN KEY(controller_id) REFERENCES controllers (id),
    CONSTRAINT uq_delegations_plan_id_name UNIQUE (plan_id, name),
    CONSTRAINT ck_delegations_status CHECK (status IN ('queued', 'preparing', 'running', 'settling', 'rejected', 'completed', 'failed', 'cancelled', 'blocked', 'needs_delegation', 'invalid'))
)

CREATE INDEX ix_delegations_parent_session_id ON delegations (parent_session_id)

CREATE INDEX ix_delegations_status ON delegations (status)

CREATE TABLE attempts (
    delegation_id VARCHAR NOT NULL,
    number BIGINT NOT NULL,
    status VARCHAR NOT NULL,
    pid INTEGER,
    process_start_time FLOAT,
    started_at VARCHAR NOT NULL,
    finished_at VARCHAR,
    exit_status INTEGER,
    failure_class VARCHAR,
    lease_expires_at VARCHAR,
    CONSTRAINT pk_attempts PRIMARY KEY (delegation_id, number),
    CONSTRAINT fk_attempts_delegation_id FOREIGN KEY(delegation_id) REFERENCES delegations (id),
    CONSTRAINT ck_attempts_number CHECK (number >= 1)
)

CREATE TABLE approvals (
    id VARCHAR NOT NULL,
    delegation_id VARCHAR NOT NULL,
    attempt BIGINT NOT NULL,
    status VARCHAR NOT NULL,
    title TEXT NOT NULL,
    tool_kind VARCHAR NOT NULL,
    tool_call_id VARCHAR NOT NULL,
    approval_id VARCHAR NOT NULL,
    paths TEXT NOT NULL,
    details TEXT NOT NULL,
    options TEXT NOT NULL,
    requested_at VARCHAR NOT NULL,
    expires_at VARCHAR NOT NULL,
    decided_at VARCHAR,
    decided_by VARCHAR,
    option_id VARCHAR,
    reason TEXT,
    CONSTRAINT pk_approvals PRIMARY KEY (id),
    CONSTRAINT fk_approvals_delegation_id FOREIGN KEY(delegation_id) REFERENCES delegations (id),
    CONSTRAINT ck_approvals_status CHECK (status IN ('pending', 'allowed', 'denied', 'timed_out', 'lapsed'))
)

CREATE INDEX ix_approvals_delegation_id ON approvals (delegation_id)

CREATE INDEX ix_approvals_status ON approvals (status)

CREATE TABLE quota_pauses (
    credential VARCHAR NOT NULL,
    paused_at VARCHAR NOT NULL,
    resets_at VARCHAR NOT NULL,
    is_reset_known INTEGER NOT NULL,
    delegation_id VARCHAR NOT NULL,
    lifted_at VARCHAR,
    lifted_by VARCHAR,
    CONSTRAINT pk_quota_pauses PRIMARY KEY (credential)
)

CREATE TABLE task_messages (
    delegation_id VARCHAR NOT NULL,
    number BIGINT NOT NULL,
    text TEXT NOT NULL,
    entry_id VARCHAR NOT NULL,
    sent_at VARCHAR NOT NULL,
    handed_over_at VARCHAR,
    CONSTRAINT pk_task_messages PRIMARY KEY (delegation_id, number),
    CONSTRAINT fk_task_messages_delegation_id FOREIGN KEY(delegation_id) REFERENCES delegations (id),
    CONSTRAINT ck_task_messages_number CHECK (number >= 1)
)

CREATE TABLE submissions (
    delegation_id VARCHAR NOT NULL,
    attempt BIGINT NOT NULL,
    number BIGINT NOT NULL,
    status VARCHAR NOT NULL,
    received_at VARCHAR NOT NULL,
    text TEXT NOT NULL,
    field_errors TEXT,
    CONSTRAINT pk_submissions PRIMARY KEY (delegation_id, attempt, number),
    CONSTRAINT fk_submissions_attempt FOREIGN KEY(delegation_id, attempt) REFERENCES attempts (delegation_id, number),
    CONSTRAINT ck_submissions_status CHECK (status IN ('accepted', 'refused')),
    CONSTRAINT ck_submissions_number CHECK (number >= 1)
)

CREATE TABLE chat_agents (
    id VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL,
    harness VARCHAR NOT NULL,
    host VARCHAR NOT NULL,
    owner_pid INTEGER NOT NULL,
    owner_start_time FLOAT NOT NULL,
    pid INTEGER,
    process_start_time FLOAT,
    turn_id VARCHAR,
    started_at VARCHAR NOT NULL,
    CONSTRAINT pk_chat_agents PRIMARY KEY (id)
)

CREATE INDEX ix_chat_agents_session_id ON chat_agents (session_id)

CREATE INDEX ix_session_entries_waymarks ON session_entries (session_id, sequence) WHERE parent_entry_id <> session_id || '-' || CASE WHEN sequence <= 1000000 THEN substr(CAST(999999 + sequence AS TEXT), 2) ELSE CAST(sequence - 1 AS TEXT) END OR kind = 'model.changed' OR kind = 'effort.changed' OR kind = 'checkpoint' OR kind = 'compaction' OR kind = 'worker.result' OR (semantic_schema_version <> 1 AND semantic_schema_version <> 2)

CREATE TABLE event_order (
    position INTEGER NOT NULL,
    chain_id VARCHAR NOT NULL,
    ordinal BIGINT NOT NULL,
    CONSTRAINT pk_event_order PRIMARY KEY (position)
)

INSERT INTO event_order (chain_id, ordinal) SELECT chain_id, ordinal FROM audit_events ORDER BY chain_id, ordinal

CREATE TABLE log_leaves (
    leaf BIGINT NOT NULL,
    chain_id VARCHAR NOT NULL,
    ordinal BIGINT NOT NULL,
    position BIGINT NOT NULL,
    hashes BLOB NOT NULL,
    CONSTRAINT pk_log_leaves PRIMARY KEY (leaf)
)

CREATE INDEX ix_log_leaves_chain_id_ordinal ON log_leaves (chain_id, ordinal)

CREATE TABLE subtree_pages (
    session_id VARCHAR NOT NULL,
    page BIGINT NOT NULL,
    data BLOB NOT NULL,
    CONSTRAINT pk_subtree_pages PRIMARY KEY (session_id, page)
)

CREATE TABLE subtree_marks (
    session_id VARCHAR NOT NULL,
    exact_through BIGINT NOT NULL,
    CONSTRAINT pk_subtree_marks PRIMARY KEY (session_id)
)

CREATE INDEX ix_recall_marks_unreadable_entry_id ON recall_marks (unreadable_entry_id)

CREATE VIRTUAL TABLE recall_index USING fts5(scope, terms, content='', tokenize='ascii')

CREATE VIRTUAL TABLE recall_digest_index USING fts5(scope, terms, content='', tokenize='ascii')

CREATE TRIGGER repository_states_no_update BEFORE UPDATE ON repository_states BEGIN SELECT RAISE(ABORT, 'repository_states are immutable'); END

CREATE TRIGGER repository_states_no_delete BEFORE DELETE ON repository_states BEGIN SELECT RAISE(ABORT, 'repository_states are immutable'); END

CREATE TRIGGER repository_states_no_overwrite BEFORE INSERT ON repository_states WHEN EXISTS (SELECT 1 FROM repository_states WHERE state_digest = NEW.state_digest) BEGIN SELECT RAISE(ABORT, 'repository_states are immutable: the key exists'); END

CREATE TRIGGER manifests_no_update BEFORE UPDATE ON manifests BEGIN SELECT RAISE(ABORT, 'manifests are immutable'); END

CREATE TRIGGER manifests_no_delete BEFORE DELETE ON manifests BEGIN SELECT RAISE(ABORT, 'manifests are immutable'); END

CREATE TRIGGER manifests_no_overwrite BEFORE INSERT ON manifests WHEN EXISTS (SELECT 1 FROM manifests WHERE dirty_hash = NEW.dirty_hash) BEGIN SELECT RAISE(ABORT, 'manifests are immutable: the key exists'); END

CREATE TRIGGER manifest_pages_no_update BEFORE UPDATE ON manifest_pages BEGIN SELECT RAISE(ABORT, 'manifest_pages are immutable'); END

CREATE TRIGGER manifest_pages_no_delete BEFORE DELETE ON manifest_pages BEGIN SELECT RAISE(ABORT, 'manifest_pages are immutable'); END

CREATE TRIGGER manifest_pages_no_overwrite BEFORE INSERT ON manifest_pages WHEN EXISTS (SELECT 1 FROM manifest_pages WHERE page_digest = NEW.page_digest) BEGIN SELECT RAISE(ABORT, 'manifest_pages are immutable: the key exists'); END

CREATE TRIGGER workspace_links_no_update BEFORE UPDATE ON workspace_links BEGIN SELECT RAISE(ABORT, 'workspace_links are immutable'); END

CREATE TRIGGER workspace_links_no_delete BEFORE DELETE ON workspace_links BEGIN SELECT RAISE(ABORT, 'workspace_links are immutable'); END

CREATE TRIGGER workspace_links_no_overwrite BEFORE INSERT ON workspace_links WHEN EXISTS (SELECT 1 FROM workspace_links WHERE workspace_id = NEW.workspace_id AND number = NEW.number) BEGIN SELECT RAISE(ABORT, 'workspace_links are immutable: the key exists'); END

CREATE TRIGGER delegations_transition BEFORE UPDATE OF status ON delegations WHEN NEW.status <> OLD.status AND NOT (OLD.status = 'queued' AND NEW.status IN ('preparing', 'rejected', 'cancelled') OR OLD.status = 'preparing' AND NEW.status IN ('running', 'settling') OR OLD.status = 'running' AND NEW.status IN ('settling') OR OLD.status = 'settling' AND NEW.status IN ('completed', 'failed', 'cancelled', 'blocked', 'needs_delegation', 'invalid')) BEGIN SELECT RAISE(ABORT, 'delegations: a state does not lead to that one'); END

CREATE INDEX ix_session_heads_updated_at ON session_heads (updated_at, session_id)

CREATE TABLE withheld_entries (
    session_id VARCHAR NOT NULL,
    entry_id VARCHAR NOT NULL,
    tombstone_hash VARCHAR NOT NULL,
    payload_hash VARCHAR NOT NULL,
    erased_at VARCHAR NOT NULL,
    CONSTRAINT pk_withheld_entries PRIMARY KEY (session_id, entry_id, tombstone_hash),
    CONSTRAINT ck_withheld_entries_hashes CHECK (length(tombstone_hash) = 64 AND length(payload_hash) = 64)
) WITHOUT ROWID

CREATE TABLE removed_sessions (
    session_id VARCHAR NOT NULL,
    session_root VARCHAR,
    next_sequence BIGINT NOT NULL,
    events BIGINT NOT NULL,
    event_hash VARCHAR NOT NULL,
    removed_at VARCHAR NOT NULL,
    CONSTRAINT pk_removed_sessions PRIMARY KEY (session_id),
    CONSTRAINT ck_removed_sessions_event_hash CHECK (length(event_hash) = 64)
) WITHOUT ROWID

CREATE TABLE handed_roots (
    session_id VARCHAR NOT NULL,
    session_root VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    events BIGINT NOT NULL,
    CONSTRAINT pk_handed_roots PRIMARY KEY (session_id, session_root),
    CONSTRAINT ck_handed_roots_session_root CHECK (length(session_root) = 64)
) WITHOUT ROWID

DROP TRIGGER session_entries_no_update

CREATE TRIGGER session_entries_no_update BEFORE UPDATE ON session_entries WHEN NOT EXISTS (SELECT 1 FROM withheld_entries WHERE session_id = OLD.session_id AND entry_id = OLD.id) OR NEW.payload IS NULL OR NEW.session_id IS NOT OLD.session_id OR NEW.id IS NOT OLD.id OR NEW.parent_entry_id IS NOT OLD.parent_entry_id OR NEW.sequence IS NOT OLD.sequence OR NEW.semantic_schema_version IS NOT OLD.semantic_schema_version OR NEW.kind IS NOT OLD.kind OR NEW.context_visibility IS NOT OLD.context_visibility OR NEW.state_digest IS NOT OLD.state_digest OR NEW.unknown_reason IS NOT OLD.unknown_reason OR NEW.unknown_path IS NOT OLD.unknown_path OR NEW.unknown_detail IS NOT OLD.unknown_detail OR NEW.observed_at IS NOT OLD.observed_at OR NEW.external_source IS NOT OLD.external_source OR NEW.external_id IS NOT OLD.external_id OR NEW.created_at IS NOT OLD.created_at OR NEW.payload_hash IS NOT OLD.payload_hash OR NEW.entry_hash IS NOT OLD.entry_hash BEGIN SELECT RAISE(ABORT, 'session_entries are immutable'); END

DROP TRIGGER session_entries_no_delete

CREATE TRIGGER session_entries_no_delete BEFORE DELETE ON session_entries WHEN NOT EXISTS (SELECT 1 FROM removed_sessions WHERE session_id = OLD.session_id) BEGIN SELECT RAISE(ABORT, 'session_entries are immutable'); END

DROP TRIGGER legacy_events_no_delete

CREATE TRIGGER legacy_events_no_delete BEFORE DELETE ON legacy_events WHEN NOT EXISTS (SELECT 1 FROM removed_sessions WHERE session_id = OLD.session_id) BEGIN SELECT RAISE(ABORT, 'legacy_events are immutable'); END

CREATE TRIGGER withheld_entries_no_update BEFORE UPDATE ON withheld_entries BEGIN SELECT RAISE(ABORT, 'withheld_entries are immutable'); END

CREATE TRIGGER withheld_entries_no_delete BEFORE DELETE ON withheld_entries BEGIN SELECT RAISE(ABORT, 'withheld_entries are immutable'); END

CREATE TRIGGER withheld_entries_no_overwrite BEFORE INSERT ON withheld_entries WHEN EXISTS (SELECT 1 FROM withheld_entries WHERE session_id = NEW.session_id AND entry_id = NEW.entry_id AND tombstone_hash = NEW.tombstone_hash) BEGIN SELECT RAISE(ABORT, 'withheld_entries are immutable: the key exists'); END

CREATE TRIGGER removed_sessions_no_update BEFORE UPDATE ON removed_sessions BEGIN SELECT RAISE(ABORT, 'removed_sessions are immutable'); END

CREATE TRIGGER removed_sessions_no_delete BEFORE DELETE ON removed_sessions BEGIN SELECT RAISE(ABORT, 'removed_sessions are immutable'); END

CREATE TRIGGER removed_sessions_no_overwrite BEFORE INSERT ON removed_sessions WHEN EXISTS (SELECT 1 FROM removed_sessions WHERE session_id = NEW.session_id) BEGIN SELECT RAISE(ABORT, 'removed_sessions are immutable: the key exists'); END

CREATE TRIGGER sessions_not_removed BEFORE INSERT ON sessions WHEN EXISTS (SELECT 1 FROM removed_sessions WHERE session_id = NEW.id) BEGIN SELECT RAISE(ABORT, 'sessions: that id was removed'); END


CREATE TABLE import_sources (
    id VARCHAR NOT NULL,
    format VARCHAR NOT NULL,
    path VARCHAR,
    native_id VARCHAR,
    size BIGINT NOT NULL,
    line_count BIGINT NOT NULL,
    digest VARCHAR NOT NULL,
    is_redacted INTEGER NOT NULL,
    created_at VARCHAR NOT NULL,
    updated_at VARCHAR NOT NULL,
    state TEXT NOT NULL,
    CONSTRAINT pk_import_sources PRIMARY KEY (id),
    CONSTRAINT ck_import_sources_digest CHECK (length(digest) = 64),
    CONSTRAINT ck_import_sources_is_redacted CHECK (is_redacted IN (0, 1))
)

CREATE INDEX ix_import_sources_digest ON import_sources (digest)

CREATE INDEX ix_import_sources_native_id ON import_sources (native_id)

CREATE INDEX ix_import_sources_path ON import_sources (path)

CREATE TABLE import_chunks (
    source_id VARCHAR NOT NULL,
    number BIGINT NOT NULL,
    first_line BIGINT NOT NULL,
    line_count BIGINT NOT NULL,
    byte_offset BIGINT NOT NULL,
    size BIGINT NOT NULL,
    digest VARCHAR NOT NULL,
    changed_lines BIGINT NOT NULL,
    body BLOB NOT NULL,
    CONSTRAINT pk_import_chunks PRIMARY KEY (source_id, number),
    CONSTRAINT fk_import_chunks_source_id FOREIGN KEY(source_id) REFERENCES import_sources (id),
    CONSTRAINT ck_import_chunks_digest CHECK (length(digest) = 64)
)

CREATE TABLE import_sessions (
    format VARCHAR NOT NULL,
    native_id VARCHAR NOT NULL,
    session_id VARCHAR,
    copy_session_id VARCHAR,
    copy_entry_id VARCHAR,
    first_key VARCHAR,
    first_digest VARCHAR,
    parent_native_id VARCHAR,
    parent_relation VARCHAR,
    parent_key VARCHAR,
    depth INTEGER,
    leaf_entry_id VARCHAR,
    created_at VARCHAR NOT NULL,
    updated_at VARCHAR NOT NULL,
    CONSTRAINT pk_import_sessions PRIMARY KEY (format, native_id)
)

CREATE INDEX ix_import_sessions_first_key ON import_sessions (format, first_key)

CREATE INDEX ix_import_sessions_parent_native_id ON import_sessions (format, parent_native_id)

CREATE INDEX ix_import_sessions_session_id ON import_sessions (session_id)

CREATE TABLE import_links (
    session_id VARCHAR NOT NULL,
    entry_id VARCHAR NOT NULL,
    relation VARCHAR NOT NULL,
    format VARCHAR NOT NULL,
    target_key VARCHAR NOT NULL,
    target_session_id VARCHAR,
    target_entry_id VARCHAR,
    CONSTRAINT pk_import_links PRIMARY KEY (session_id, entry_id, relation)
)

CREATE INDEX ix_import_links_target_key ON import_links (format, target_key)

CREATE TRIGGER sessions_acyclic BEFORE INSERT ON sessions WHEN NEW.parent_session_id IS NOT NULL AND (NEW.parent_session_id = NEW.id OR (EXISTS (SELECT 1 FROM sessions WHERE parent_session_id = NEW.id) AND NEW.id IN (WITH RECURSIVE line(id) AS (SELECT NEW.parent_session_id UNION SELECT above.parent_session_id FROM sessions AS above JOIN line ON above.id = line.id WHERE above.parent_session_id IS NOT NULL) SELECT id FROM line))) BEGIN SELECT RAISE(ABORT, 'sessions: a session cannot descend from itself'); END

CREATE TRIGGER sessions_stay_acyclic BEFORE UPDATE OF parent_session_id ON sessions WHEN NEW.parent_session_id IS NOT NULL AND (NEW.parent_session_id = NEW.id OR (EXISTS (SELECT 1 FROM sessions WHERE parent_session_id = NEW.id) AND NEW.id IN (WITH RECURSIVE line(id) AS (SELECT NEW.parent_session_id UNION SELECT above.parent_session_id FROM sessions AS above JOIN line ON above.id = line.id WHERE above.parent_session_id IS NOT NULL) SELECT id FROM line))) BEGIN SELECT RAISE(ABORT, 'sessions: a session cannot descend from itself'); END
