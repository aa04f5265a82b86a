CREATE TRIGGER session_entries_no_update BEFORE UPDATE ON session_entries BEGIN SELECT RAISE(ABORT, 'session_entries are immutable'); END

CREATE TRIGGER session_entries_no_delete BEFORE DELETE ON session_entries BEGIN SELECT RAISE(ABORT, 'session_entries are immutable'); END

CREATE TRIGGER session_entries_no_overwrite BEFORE INSERT ON session_entries WHEN EXISTS (SELECT 1 FROM session_entries WHERE session_id = NEW.session_id AND sequence = NEW.sequence) OR (NEW.external_id IS NOT NULL AND EXISTS (SELECT 1 FROM session_entries WHERE session_id = NEW.session_id AND external_source = NEW.external_source AND external_id = NEW.external_id)) BEGIN SELECT RAISE(ABORT, 'session_entries are immutable: the key exists'); END

CREATE TRIGGER blobs_no_update BEFORE UPDATE ON blobs BEGIN SELECT RAISE(ABORT, 'blobs are immutable'); END

CREATE TRIGGER blobs_no_delete BEFORE DELETE ON blobs WHEN EXISTS (SELECT 1 FROM session_entries WHERE blob_digest = OLD.digest) BEGIN SELECT RAISE(ABORT, 'blobs are immutable'); END

CREATE TRIGGER blobs_no_overwrite BEFORE INSERT ON blobs WHEN EXISTS (SELECT 1 FROM blobs WHERE digest = NEW.digest) BEGIN SELECT RAISE(ABORT, 'blobs are immutable: the key exists'); END

CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events BEGIN SELECT RAISE(ABORT, 'audit_events are immutable'); END

CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events BEGIN SELECT RAISE(ABORT, 'audit_events are immutable'); END

CREATE TRIGGER legacy_events_no_update BEFORE UPDATE ON legacy_events BEGIN SELECT RAISE(ABORT, 'legacy_events are immutable'); END

CREATE TRIGGER legacy_events_no_delete BEFORE DELETE ON legacy_events BEGIN SELECT RAISE(ABORT, 'legacy_events are immutable'); END

CREATE TRIGGER legacy_events_no_overwrite BEFORE INSERT ON legacy_events WHEN EXISTS (SELECT 1 FROM legacy_events WHERE session_id = NEW.session_id AND entry_id = NEW.entry_id) BEGIN SELECT RAISE(ABORT, 'legacy_events are immutable: the key exists'); END

CREATE TRIGGER session_entries_parent_earlier BEFORE INSERT ON session_entries WHEN NEW.parent_entry_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM session_entries WHERE session_id = NEW.session_id AND id = NEW.parent_entry_id AND sequence < NEW.sequence) BEGIN SELECT RAISE(ABORT, 'session_entries: the parent must be an earlier entry of the session'); END

CREATE TRIGGER audit_events_no_gap BEFORE INSERT ON audit_events WHEN NEW.ordinal <> coalesce((SELECT max(ordinal) + 1 FROM audit_events WHERE chain_id = NEW.chain_id), 0) BEGIN SELECT RAISE(ABORT, 'audit_events: the ordinal must follow the last one'); END
