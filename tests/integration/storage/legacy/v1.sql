-- A store of schema 1 as a program of that time may have left it: nothing in it is constrained.
CREATE TABLE schema_version (version_num TEXT NOT NULL);
INSERT INTO schema_version VALUES ('1');
CREATE TABLE agent_events (session TEXT, ordinal INTEGER, type TEXT, json TEXT, created_at TEXT);
-- An ordinary conversation; JSON as it was written, blanks and order of keys included.
INSERT INTO agent_events VALUES ('20250301-090000-1a2b', 0, 'user.message', '{"text":"hello"}', '2025-03-01T09:00:00.000001Z');
INSERT INTO agent_events VALUES ('20250301-090000-1a2b', 1, 'assistant.message.delta', '{"text":"he"}', '2025-03-01T09:00:01.000000Z');
INSERT INTO agent_events VALUES ('20250301-090000-1a2b', 2, 'assistant.message.delta', '{"text":"llo"}', '2025-03-01T09:00:01.500000Z');
INSERT INTO agent_events VALUES ('20250301-090000-1a2b', 3, 'assistant.message', '{ "text" : "hello, you", "a": 1.0 }', '2025-03-01T09:00:02.000000Z');
INSERT INTO agent_events VALUES ('20250301-090000-1a2b', 4, 'tool.started', '{"toolId":"t1","toolName":"read"}', '2025-03-01T09:00:03.000000Z');
-- Arrived before its elder; its ordinal says where it belongs.
INSERT INTO agent_events VALUES ('20250301-100000-3c4d', 2, 'assistant.message', '{"text":"second"}', '2025-03-01T10:00:02.000000Z');
INSERT INTO agent_events VALUES ('20250301-100000-3c4d', 1, 'user.message', '{"text":"first"}', '2025-03-01T10:00:01.000000Z');
-- Ordinals that occur twice, negative, absent.
INSERT INTO agent_events VALUES ('20250301-100000-3c4d', 2, 'assistant.message', '{"text":"second, again"}', '2025-03-01T10:00:02.000000Z');
INSERT INTO agent_events VALUES ('20250301-100000-3c4d', 2, 'assistant.message', '{"text":"second, again"}', '2025-03-01T10:00:02.000000Z');
INSERT INTO agent_events VALUES ('20250301-100000-3c4d', -1, 'note', '{"text":"before all"}', '2025-03-01T10:00:00.000000Z');
INSERT INTO agent_events VALUES ('20250301-100000-3c4d', NULL, 'note', '{"text":"without a place"}', '2025-03-01T10:00:05.000000Z');
-- Broken, cut off, doubled keys, no object, empty, none.
INSERT INTO agent_events VALUES ('broken', 1, 'user.message', '{"text":"cut o', '2025-03-02T09:00:00.000000Z');
INSERT INTO agent_events VALUES ('broken', 2, 'user.message', '{"text":"a","text":"b"}', '2025-03-02T09:00:01.000000Z');
INSERT INTO agent_events VALUES ('broken', 3, 'user.message', '[1,2]', '2025-03-02T09:00:02.000000Z');
INSERT INTO agent_events VALUES ('broken', 4, 'user.message', '', '2025-03-02T09:00:03.000000Z');
INSERT INTO agent_events VALUES ('broken', 5, 'user.message', NULL, '2025-03-02T09:00:04.000000Z');
INSERT INTO agent_events VALUES ('broken', 6, 'user.message', 'null', '2025-03-02T09:00:05.000000Z');
INSERT INTO agent_events VALUES ('broken', 7, 'user.message', '{"text":NaN}', '2025-03-02T09:00:06.000000Z');
INSERT INTO agent_events VALUES ('broken', 8, 'user.message', x'7b2274657874223a22626c6f62227d', '2025-03-02T09:00:07.000000Z');
INSERT INTO agent_events VALUES ('broken', 9, 'user.message', x'ff00fe', '2025-03-02T09:00:08.000000Z');
INSERT INTO agent_events VALUES ('broken', 10, NULL, '{"text":"no type"}', '2025-03-02T09:00:09.000000Z');
INSERT INTO agent_events VALUES ('broken', 11, '', '{"text":"empty type"}', '2025-03-02T09:00:10.000000Z');
INSERT INTO agent_events VALUES ('broken', 12, 'agent/unheard-of', '{"x":"\ud800"}', '2025-03-02T09:00:11.000000Z');
INSERT INTO agent_events VALUES ('broken', 'twelve', 'user.message', '{"text":"ordinal in words"}', '2025-03-02T09:00:12.000000Z');
INSERT INTO agent_events VALUES ('broken', 12.5, 'user.message', '{"text":"between"}', '2025-03-02T09:00:13.000000Z');
INSERT INTO agent_events VALUES ('broken', 13, 'user.message', CAST(x'7b2274657874223a226162ff227d' AS TEXT), '2025-03-02T09:00:14.000000Z');
-- Times: none, as SQLite writes them, with an offset, to the second, unreadable.
INSERT INTO agent_events VALUES ('times', 1, 'note', '{"text":"t1"}', NULL);
INSERT INTO agent_events VALUES ('times', 2, 'note', '{"text":"t2"}', '2025-03-03 09:00:00');
INSERT INTO agent_events VALUES ('times', 3, 'note', '{"text":"t3"}', '2025-03-03T11:30:01+02:00');
INSERT INTO agent_events VALUES ('times', 4, 'note', '{"text":"t4"}', '2025-03-03T09:30:02Z');
INSERT INTO agent_events VALUES ('times', 5, 'note', '{"text":"t5"}', 'yesterday');
INSERT INTO agent_events VALUES ('times', 6, 'note', '{"text":"t6"}', '2025-03-03T09:30:03.123Z');
INSERT INTO agent_events VALUES ('no times', 1, 'note', '{"text":"t1"}', NULL);
-- Session names that no id can have.
INSERT INTO agent_events VALUES (NULL, 1, 'user.message', '{"text":"nobody''s"}', '2025-03-04T09:00:00.000000Z');
INSERT INTO agent_events VALUES ('', 1, 'user.message', '{"text":"nameless"}', '2025-03-04T09:00:01.000000Z');
INSERT INTO agent_events VALUES ('../etc', 1, 'user.message', '{"text":"path"}', '2025-03-04T09:00:02.000000Z');
INSERT INTO agent_events VALUES ('ünï', 1, 'user.message', '{"text":"grüße 🐦"}', '2025-03-04T09:00:03.000000Z');
INSERT INTO agent_events VALUES ('a-name-that-is-much-longer-than-the-sixty-four-characters-an-id-may-have', 1, 'user.message', '{"text":"long"}', '2025-03-04T09:00:04.000000Z');
INSERT INTO agent_events VALUES (x'62726f6b656e', 1, 'user.message', '{"text":"a blob that spells broken"}', '2025-03-04T09:00:05.000000Z');
