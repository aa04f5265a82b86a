ALTER TABLE sessions ADD COLUMN mood VARCHAR COLLATE "C"

CREATE TABLE moods (session_id VARCHAR COLLATE "C" NOT NULL, entry_id VARCHAR COLLATE "C" NOT NULL, word VARCHAR COLLATE "C" NOT NULL, CONSTRAINT pk_moods PRIMARY KEY (session_id, entry_id), CONSTRAINT ck_moods_word CHECK (length(word) > 0), CONSTRAINT fk_moods_session_id_entry_id FOREIGN KEY(session_id, entry_id) REFERENCES session_entries (session_id, id))

CREATE INDEX ix_moods_word ON moods (word)

INSERT INTO moods SELECT session_id, id, 'calm' FROM session_entries

UPDATE sessions SET mood = 'calm'

CREATE TRIGGER moods_no_update BEFORE UPDATE ON moods FOR EACH ROW EXECUTE FUNCTION bridge_immutable()

ALTER TABLE moods ENABLE ALWAYS TRIGGER moods_no_update

CREATE TRIGGER moods_no_delete BEFORE DELETE ON moods FOR EACH ROW EXECUTE FUNCTION bridge_immutable()

ALTER TABLE moods ENABLE ALWAYS TRIGGER moods_no_delete

CREATE TRIGGER moods_no_truncate BEFORE TRUNCATE ON moods FOR EACH STATEMENT EXECUTE FUNCTION bridge_immutable()

ALTER TABLE moods ENABLE ALWAYS TRIGGER moods_no_truncate
