-- A store of schema 3: sessions have a row, and events are append-only by trigger.
CREATE TABLE schema_version (version_num TEXT NOT NULL);
INSERT INTO schema_version VALUES ('3');
CREATE TABLE agent_events (session TEXT, ordinal INTEGER, type TEXT, json TEXT, created_at TEXT);
CREATE INDEX ix_agent_events_session ON agent_events (session, ordinal);
CREATE TABLE agent_sessions (session TEXT PRIMARY KEY, label TEXT, harness TEXT, created_at TEXT);
INSERT INTO agent_sessions VALUES ('20250501-090000-0001', 'the first', 'codex', '2025-05-01T09:00:00.000000Z');
INSERT INTO agent_sessions VALUES ('without events', NULL, NULL, NULL);
INSERT INTO agent_events VALUES ('20250501-090000-0001', 2, 'assistant.message', '{"text":"two"}', '2025-05-01T09:00:01.000000Z');
INSERT INTO agent_events VALUES ('20250501-090000-0001', 1, 'user.message', '{"text":"one"}', '2025-05-01T09:00:00.000000Z');
-- A session that was never recorded.
INSERT INTO agent_events VALUES ('20250501-100000-0002', 1, 'user.message', 'not JSON', '2025-05-01T10:00:00.000000Z');
INSERT INTO agent_events VALUES (NULL, 1, 'assistant.message.delta', NULL, NULL);
CREATE TRIGGER agent_events_no_update BEFORE UPDATE ON agent_events BEGIN SELECT RAISE(ABORT, 'agent_events are append-only'); END;
CREATE TRIGGER agent_sessions_no_delete BEFORE DELETE ON agent_sessions BEGIN SELECT RAISE(ABORT, 'agent_sessions are kept'); END;
