-- A store of schema 6: the events are in the forest, nothing else has come yet. Hashes by json and hashlib alone.
CREATE TABLE schema_version (version_num TEXT NOT NULL);
INSERT INTO schema_version VALUES ('6');
CREATE TABLE clients (host VARCHAR NOT NULL, version VARCHAR NOT NULL, first_used_at VARCHAR NOT NULL, last_used_at VARCHAR NOT NULL, CONSTRAINT pk_clients PRIMARY KEY (host, version)) WITHOUT ROWID;
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
);
CREATE INDEX ix_sessions_workspace_id ON sessions (workspace_id);
CREATE INDEX ix_sessions_parent_session_id ON sessions (parent_session_id);
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
 WITHOUT ROWID;
CREATE TABLE blobs (
    digest VARCHAR NOT NULL,
    size BIGINT NOT NULL,
    body TEXT NOT NULL,
    CONSTRAINT pk_blobs PRIMARY KEY (digest),
    CONSTRAINT ck_blobs_digest CHECK (length(digest) = 64),
    CONSTRAINT ck_blobs_size CHECK (size >= 0)
);
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
);
CREATE UNIQUE INDEX uq_session_entries_external_id ON session_entries (session_id, external_source, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX ix_session_entries_blob_digest ON session_entries (blob_digest) WHERE blob_digest IS NOT NULL;
CREATE INDEX ix_session_entries_parent ON session_entries (session_id, parent_entry_id);
CREATE TABLE session_heads (
    session_id VARCHAR NOT NULL,
    active_entry_id VARCHAR NOT NULL,
    next_sequence BIGINT NOT NULL,
    updated_at VARCHAR NOT NULL,
    CONSTRAINT pk_session_heads PRIMARY KEY (session_id),
    CONSTRAINT fk_session_heads_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
    CONSTRAINT fk_session_heads_active_entry FOREIGN KEY(session_id, active_entry_id) REFERENCES session_entries (session_id, id),
    CONSTRAINT ck_session_heads_next_sequence CHECK (next_sequence >= 1)
);
CREATE TABLE branch_cursors (
    session_id VARCHAR NOT NULL,
    owner VARCHAR NOT NULL,
    leaf_entry_id VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    CONSTRAINT pk_branch_cursors PRIMARY KEY (session_id, owner),
    CONSTRAINT fk_branch_cursors_leaf FOREIGN KEY(session_id, leaf_entry_id) REFERENCES session_entries (session_id, id)
)
 WITHOUT ROWID;
CREATE TABLE entry_labels (
    session_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    entry_id VARCHAR NOT NULL,
    created_at VARCHAR NOT NULL,
    CONSTRAINT pk_entry_labels PRIMARY KEY (session_id, name),
    CONSTRAINT fk_entry_labels_entry FOREIGN KEY(session_id, entry_id) REFERENCES session_entries (session_id, id)
);
CREATE INDEX ix_entry_labels_name ON entry_labels (name);
CREATE TABLE legacy_events (
    session_id VARCHAR NOT NULL,
    entry_id VARCHAR NOT NULL,
    original TEXT NOT NULL,
    CONSTRAINT pk_legacy_events PRIMARY KEY (session_id, entry_id),
    CONSTRAINT fk_legacy_events_entry FOREIGN KEY(session_id, entry_id) REFERENCES session_entries (session_id, id)
);
INSERT INTO sessions VALUES ('20250701-090000-0001', 'chat', NULL, NULL, 'codex', 'moved', 'open', NULL, NULL, '2025-07-01T09:00:00.000000Z', '2025-07-01T09:00:00.000000Z');
INSERT INTO session_entries VALUES ('20250701-090000-0001', '20250701-090000-0001-000000', NULL, 0, 2, 'session.root', 'hidden', NULL, 'unstamped', NULL, NULL, NULL, NULL, NULL, '2025-07-01T09:00:00.000000Z', '0d8dc2f636f6cd4e42d6e1b32290b331f61006de86984aca22fc656f7001c5d8', '4eb31f8678204de34df85e0c0bce09f44868f8ae5f1d46a91be6bc916fca7d0a', NULL, NULL, NULL, '{"provider_meta":{"moved_from":"agent_events","session":["text","20250701-090000-0001"]}}');
INSERT INTO audit_events VALUES ('20250701-090000-0001', 0, 'session.created', '2025-07-01T09:00:09.000000Z', 'ab8a8905a7e9122e79f061d2db6d07f1721cb58a2365fbb6087eff1887f611fe', '{"body":{"entry_hash":"4eb31f8678204de34df85e0c0bce09f44868f8ae5f1d46a91be6bc916fca7d0a","entry_id":"20250701-090000-0001-000000","head":"20250701-090000-0001-000000","kind":"chat","moved_from":"agent_events","parent_relation":null,"parent_session_id":null},"chain_id":"20250701-090000-0001","created_at":"2025-07-01T09:00:09.000000Z","event_type":"session.created","ordinal":0}');
INSERT INTO session_entries VALUES ('20250701-090000-0001', '20250701-090000-0001-000001', '20250701-090000-0001-000000', 1, 1, 'user.message', 'eligible', NULL, 'unstamped', NULL, NULL, NULL, 'agent_events', '1', '2025-07-01T09:00:00.000000Z', 'cbb13f1ffce1be5ea2d237845a993db2b69d798833ff66b33e129aba5b21f12d', 'e4d20ee3b19460e79f9636091bff76afcd5a4d440adf08f78871c638b0524286', NULL, NULL, NULL, '{ "text" : "one" }');
INSERT INTO audit_events VALUES ('20250701-090000-0001', 1, 'entry.appended', '2025-07-01T09:00:09.000000Z', '5f42160063cdee8bc02a112531e0453ba75201ef7fd9a92103facbebc3eda567', '{"body":{"entry_hash":"e4d20ee3b19460e79f9636091bff76afcd5a4d440adf08f78871c638b0524286","entry_id":"20250701-090000-0001-000001","head":"20250701-090000-0001-000001","parent_entry_id":"20250701-090000-0001-000000"},"chain_id":"20250701-090000-0001","created_at":"2025-07-01T09:00:09.000000Z","event_type":"entry.appended","ordinal":1}');
INSERT INTO session_entries VALUES ('20250701-090000-0001', '20250701-090000-0001-000002', '20250701-090000-0001-000001', 2, 1, 'assistant.message.delta', 'hidden', NULL, 'unstamped', NULL, NULL, NULL, 'agent_events', '2', '2025-07-01T09:00:01.000000Z', '5683a640fd6b1416771a7f8b7aade453c0e9ade8b94933eff713586b3b45b5b3', 'f181c22ee8eed0d4e43ad9808c8e0599f1c68101c70fbf1f8b972c28cd7f7f95', NULL, NULL, NULL, '{"te');
INSERT INTO audit_events VALUES ('20250701-090000-0001', 2, 'entry.appended', '2025-07-01T09:00:09.000000Z', '31a7ae1d0f934e0b6eb8f75a347aad45c8434d999ea6125954a86e4294752fd4', '{"body":{"entry_hash":"f181c22ee8eed0d4e43ad9808c8e0599f1c68101c70fbf1f8b972c28cd7f7f95","entry_id":"20250701-090000-0001-000002","head":"20250701-090000-0001-000002","parent_entry_id":"20250701-090000-0001-000001"},"chain_id":"20250701-090000-0001","created_at":"2025-07-01T09:00:09.000000Z","event_type":"entry.appended","ordinal":2}');
INSERT INTO session_entries VALUES ('20250701-090000-0001', '20250701-090000-0001-000003', '20250701-090000-0001-000002', 3, 1, 'assistant.message', 'eligible', NULL, 'unstamped', NULL, NULL, NULL, 'agent_events', '2.2', '2025-07-01T09:00:02.000000Z', '3c180e4c2ffdce4270fa5709276a35a593197aad0b89b77eef1a0f6114b8f705', '8470361bfe6e36b317d7fc71e1426939af0accef847312e0ff4d2425ef41766c', NULL, NULL, NULL, '{"text":"it''s two"}');
INSERT INTO audit_events VALUES ('20250701-090000-0001', 3, 'entry.appended', '2025-07-01T09:00:09.000000Z', 'bc6cffeea62f00c9751cee737219ddcc7e96aa08f198ef988cb2a3d896a94a62', '{"body":{"entry_hash":"8470361bfe6e36b317d7fc71e1426939af0accef847312e0ff4d2425ef41766c","entry_id":"20250701-090000-0001-000003","head":"20250701-090000-0001-000003","parent_entry_id":"20250701-090000-0001-000002"},"chain_id":"20250701-090000-0001","created_at":"2025-07-01T09:00:09.000000Z","event_type":"entry.appended","ordinal":3}');
INSERT INTO session_heads VALUES ('20250701-090000-0001', '20250701-090000-0001-000003', 4, '2025-07-01T09:00:02.000000Z');
CREATE TRIGGER session_entries_no_update BEFORE UPDATE ON session_entries BEGIN SELECT RAISE(ABORT, 'session_entries are immutable'); END;
CREATE TRIGGER session_entries_no_delete BEFORE DELETE ON session_entries BEGIN SELECT RAISE(ABORT, 'session_entries are immutable'); END;
CREATE TRIGGER session_entries_no_overwrite BEFORE INSERT ON session_entries WHEN EXISTS (SELECT 1 FROM session_entries WHERE session_id = NEW.session_id AND sequence = NEW.sequence) OR (NEW.external_id IS NOT NULL AND EXISTS (SELECT 1 FROM session_entries WHERE session_id = NEW.session_id AND external_source = NEW.external_source AND external_id = NEW.external_id)) BEGIN SELECT RAISE(ABORT, 'session_entries are immutable: the key exists'); END;
CREATE TRIGGER blobs_no_update BEFORE UPDATE ON blobs BEGIN SELECT RAISE(ABORT, 'blobs are immutable'); END;
CREATE TRIGGER blobs_no_delete BEFORE DELETE ON blobs WHEN EXISTS (SELECT 1 FROM session_entries WHERE blob_digest = OLD.digest) BEGIN SELECT RAISE(ABORT, 'blobs are immutable'); END;
CREATE TRIGGER blobs_no_overwrite BEFORE INSERT ON blobs WHEN EXISTS (SELECT 1 FROM blobs WHERE digest = NEW.digest) BEGIN SELECT RAISE(ABORT, 'blobs are immutable: the key exists'); END;
CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events BEGIN SELECT RAISE(ABORT, 'audit_events are immutable'); END;
CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events BEGIN SELECT RAISE(ABORT, 'audit_events are immutable'); END;
CREATE TRIGGER legacy_events_no_update BEFORE UPDATE ON legacy_events BEGIN SELECT RAISE(ABORT, 'legacy_events are immutable'); END;
CREATE TRIGGER legacy_events_no_delete BEFORE DELETE ON legacy_events BEGIN SELECT RAISE(ABORT, 'legacy_events are immutable'); END;
CREATE TRIGGER legacy_events_no_overwrite BEFORE INSERT ON legacy_events WHEN EXISTS (SELECT 1 FROM legacy_events WHERE session_id = NEW.session_id AND entry_id = NEW.entry_id) BEGIN SELECT RAISE(ABORT, 'legacy_events are immutable: the key exists'); END;
CREATE TRIGGER session_entries_parent_earlier BEFORE INSERT ON session_entries WHEN NEW.parent_entry_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM session_entries WHERE session_id = NEW.session_id AND id = NEW.parent_entry_id AND sequence < NEW.sequence) BEGIN SELECT RAISE(ABORT, 'session_entries: the parent must be an earlier entry of the session'); END;
CREATE TRIGGER audit_events_no_gap BEFORE INSERT ON audit_events WHEN NEW.ordinal <> coalesce((SELECT max(ordinal) + 1 FROM audit_events WHERE chain_id = NEW.chain_id), 0) BEGIN SELECT RAISE(ABORT, 'audit_events: the ordinal must follow the last one'); END;
