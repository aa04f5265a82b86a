-- A store of schema 4: events have the number of their arrival and belong to a session.
CREATE TABLE schema_version (version_num TEXT NOT NULL);
INSERT INTO schema_version VALUES ('4');
CREATE TABLE agent_sessions (session TEXT PRIMARY KEY, label TEXT, harness TEXT, created_at TEXT);
CREATE TABLE agent_events (id INTEGER PRIMARY KEY, session TEXT REFERENCES agent_sessions (session) ON DELETE CASCADE, ordinal INTEGER, type TEXT, json TEXT, created_at TEXT);
CREATE INDEX ix_agent_events_session ON agent_events (session, ordinal);
INSERT INTO agent_sessions VALUES ('20250601-090000-0001', NULL, 'claude-code', '2025-06-01T09:00:00.000000Z');
INSERT INTO agent_sessions VALUES ('a b', NULL, NULL, '2025-06-01T10:00:00Z');
INSERT INTO agent_events VALUES (7, '20250601-090000-0001', 2, 'assistant.message', '{"text":"two"}', '2025-06-01T09:00:01.000000Z');
INSERT INTO agent_events VALUES (3, '20250601-090000-0001', 1, 'user.message', '{"text":"one"}', '2025-06-01T09:00:00.000000Z');
INSERT INTO agent_events VALUES (9, '20250601-090000-0001', 2, 'assistant.message', '{"text":"two, again"}', '2025-06-01T09:00:01.000000Z');
INSERT INTO agent_events VALUES (10, 'a b', 1, 'reasoning.delta', '{"text":', '2025-06-01T10:00:00Z');
INSERT INTO agent_events VALUES (11, NULL, NULL, NULL, NULL, NULL);
CREATE TRIGGER agent_events_no_update BEFORE UPDATE ON agent_events BEGIN SELECT RAISE(ABORT, 'agent_events are append-only'); END;
CREATE TRIGGER agent_sessions_no_delete BEFORE DELETE ON agent_sessions BEGIN SELECT RAISE(ABORT, 'agent_sessions are kept'); END;
