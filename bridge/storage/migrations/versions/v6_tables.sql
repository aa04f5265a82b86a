CREATE TABLE sessions (
    id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    workspace_id VARCHAR,
    agent_id VARCHAR,
    harness VARCHAR,
    label VARCHAR,
    status VARCHAR NOT NULL,
    parent_session_id VARCHAR,
    parent_relation VARCHAR,
    created_at VARCHAR NOT NULL,
    updated_at VARCHAR NOT NULL,
    CONSTRAINT pk_sessions PRIMARY KEY (id),
    CONSTRAINT ck_sessions_kind CHECK (kind IN ('chat', 'worker', 'hidden')),
    CONSTRAINT ck_sessions_parent_relation CHECK (parent_relation IN ('continued', 'delegated', 'forked')),
    CONSTRAINT ck_sessions_parent_complete CHECK ((parent_session_id IS NULL) = (parent_relation IS NULL)),
    CONSTRAINT ck_sessions_id CHECK (length(id) BETWEEN 1 AND 64)
)

CREATE INDEX ix_sessions_workspace_id ON sessions (workspace_id)

CREATE INDEX ix_sessions_parent_session_id ON sessions (parent_session_id)

CREATE TABLE audit_events (
    chain_id VARCHAR NOT NULL,
    ordinal BIGINT NOT NULL,
    event_type VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    event_hash VARCHAR NOT NULL,
    body TEXT NOT NULL,
    CONSTRAINT pk_audit_events PRIMARY KEY (chain_id, ordinal),
    CONSTRAINT ck_audit_events_ordinal CHECK (ordinal >= 0),
    CONSTRAINT ck_audit_events_event_hash CHECK (length(event_hash) = 64)
)
 WITHOUT ROWID

CREATE TABLE blobs (
    digest VARCHAR NOT NULL,
    size BIGINT NOT NULL,
    body TEXT NOT NULL,
    CONSTRAINT pk_blobs PRIMARY KEY (digest),
    CONSTRAINT ck_blobs_digest CHECK (length(digest) = 64),
    CONSTRAINT ck_blobs_size CHECK (size >= 0)
)

CREATE TABLE session_entries (
    session_id VARCHAR NOT NULL,
    id VARCHAR NOT NULL,
    parent_entry_id VARCHAR,
    sequence BIGINT NOT NULL,
    semantic_schema_version INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    context_visibility VARCHAR NOT NULL,
    state_digest VARCHAR,
    unknown_reason VARCHAR,
    unknown_path VARCHAR,
    unknown_detail VARCHAR,
    observed_at VARCHAR,
    external_source VARCHAR,
    external_id VARCHAR,
    created_at VARCHAR NOT NULL,
    payload_hash VARCHAR NOT NULL,
    entry_hash VARCHAR NOT NULL,
    blob_digest VARCHAR,
    payload_bytes BIGINT,
    payload_outline TEXT,
    payload TEXT,
    CONSTRAINT pk_session_entries PRIMARY KEY (session_id, id),
    CONSTRAINT uq_session_entries_session_id_sequence UNIQUE (session_id, sequence),
    CONSTRAINT fk_session_entries_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
    CONSTRAINT fk_session_entries_parent FOREIGN KEY(session_id, parent_entry_id) REFERENCES session_entries (session_id, id),
    CONSTRAINT fk_session_entries_blob_digest FOREIGN KEY(blob_digest) REFERENCES blobs (digest),
    CONSTRAINT ck_session_entries_sequence CHECK (sequence >= 0),
    CONSTRAINT ck_session_entries_id CHECK (id = session_id || '-' || CASE WHEN sequence < 1000000 THEN substr(CAST(1000000 + sequence AS TEXT), 2) ELSE CAST(sequence AS TEXT) END),
    CONSTRAINT ck_session_entries_root CHECK ((sequence = 0) = (parent_entry_id IS NULL)),
    CONSTRAINT ck_session_entries_semantic_schema_version CHECK (semantic_schema_version >= 1),
    CONSTRAINT ck_session_entries_context_visibility CHECK (context_visibility IN ('eligible', 'hidden')),
    CONSTRAINT ck_session_entries_stamp CHECK ((state_digest IS NULL) <> (unknown_reason IS NULL)),
    CONSTRAINT ck_session_entries_external_id CHECK ((external_id IS NULL) = (external_source IS NULL)),
    CONSTRAINT ck_session_entries_hashes CHECK (length(entry_hash) = 64 AND length(payload_hash) = 64),
    CONSTRAINT ck_session_entries_payload CHECK ((payload IS NULL) = (blob_digest IS NOT NULL)),
    CONSTRAINT ck_session_entries_blob_digest CHECK (blob_digest IS NULL OR blob_digest = payload_hash),
    CONSTRAINT ck_session_entries_payload_outline CHECK ((blob_digest IS NULL) = (payload_bytes IS NULL) AND (blob_digest IS NULL) = (payload_outline IS NULL))
)

CREATE UNIQUE INDEX uq_session_entries_external_id ON session_entries (session_id, external_source, external_id) WHERE external_id IS NOT NULL

CREATE INDEX ix_session_entries_blob_digest ON session_entries (blob_digest) WHERE blob_digest IS NOT NULL

CREATE INDEX ix_session_entries_parent ON session_entries (session_id, parent_entry_id)

CREATE TABLE session_heads (
    session_id VARCHAR NOT NULL,
    active_entry_id VARCHAR NOT NULL,
    next_sequence BIGINT NOT NULL,
    updated_at VARCHAR NOT NULL,
    CONSTRAINT pk_session_heads PRIMARY KEY (session_id),
    CONSTRAINT fk_session_heads_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
    CONSTRAINT fk_session_heads_active_entry FOREIGN KEY(session_id, active_entry_id) REFERENCES session_entries (session_id, id),
    CONSTRAINT ck_session_heads_next_sequence CHECK (next_sequence >= 1)
)

CREATE TABLE branch_cursors (
    session_id VARCHAR NOT NULL,
    owner VARCHAR NOT NULL,
    leaf_entry_id VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    CONSTRAINT pk_branch_cursors PRIMARY KEY (session_id, owner),
    CONSTRAINT fk_branch_cursors_leaf FOREIGN KEY(session_id, leaf_entry_id) REFERENCES session_entries (session_id, id)
)
 WITHOUT ROWID

CREATE TABLE entry_labels (
    session_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    entry_id VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    CONSTRAINT pk_entry_labels PRIMARY KEY (session_id, name),
    CONSTRAINT fk_entry_labels_entry FOREIGN KEY(session_id, entry_id) REFERENCES session_entries (session_id, id)
)

CREATE INDEX ix_entry_labels_name ON entry_labels (name)

CREATE TABLE legacy_events (
    session_id VARCHAR NOT NULL,
    entry_id VARCHAR NOT NULL,
    original TEXT NOT NULL,
    CONSTRAINT pk_legacy_events PRIMARY KEY (session_id, entry_id),
    CONSTRAINT fk_legacy_events_entry FOREIGN KEY(session_id, entry_id) REFERENCES session_entries (session_id, id)
)
