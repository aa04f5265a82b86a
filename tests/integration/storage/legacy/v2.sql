-- A store of schema 2: an index joins the table.
CREATE TABLE schema_version (version_num TEXT NOT NULL);
INSERT INTO schema_version VALUES ('2');
CREATE TABLE agent_events (session TEXT, ordinal INTEGER, type TEXT, json TEXT, created_at TEXT);
CREATE INDEX ix_agent_events_session ON agent_events (session, ordinal);
INSERT INTO agent_events VALUES ('20250401-090000-0001', 1, 'user.message', '{"text":"one"}', '2025-04-01T09:00:00.000000Z');
INSERT INTO agent_events VALUES ('20250401-090000-0001', 1, 'user.message', '{"text":"one, again"}', '2025-04-01T09:00:00.000000Z');
INSERT INTO agent_events VALUES ('20250401-090000-0001', 2, 'assistant.message.delta', '{"te', '2025-04-01T09:00:01.000000Z');
INSERT INTO agent_events VALUES (NULL, NULL, NULL, NULL, NULL);
