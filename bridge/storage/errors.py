"""What the database can refuse or fail at, by name."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class DatabaseBusy(BridgeError):
    """Raised when the write lock, or a place in the writer's queue, was not free within the time limit."""

    code = "database_busy"
    exit_status = 16
    summary = "Another process held the store's write lock longer than the time limit; nothing was written."
    default_hint = "Try again; if it lasts, look for a Bridge process that hangs: bridge doctor"


class DatabaseFailed(BridgeError):
    """Raised when the database reports a failure: disk full, read-only, corrupt, unreadable."""

    code = "database_failed"
    exit_status = 17
    summary = "The database reported a failure (disk full, read-only, corrupt, not a database); nothing was written."
    default_hint = "Check free space and permissions of the state directory, then: bridge doctor"


class UnsupportedSchemaVersion(BridgeError):
    """Raised when a store's schema version is not the one this program works with. Nothing was touched."""

    code = "unsupported_schema_version"
    exit_status = 18
    summary = "The store's schema version is newer, older, odd, doubled or missing; nothing was touched."
    default_hint = "Upgrade Bridge, or set BRIDGE_HOME to another folder."


class DatabaseMissing(BridgeError):
    """Raised when a store is asked for that does not exist, and must not be made."""

    code = "database_missing"
    exit_status = 19
    summary = "There is no store at the given place yet."
    default_hint = "Run bridge init in a repository, or set BRIDGE_HOME to where the store is."


class StoreClosed(BridgeError):
    """Raised when a store is used after it was closed."""

    code = "store_closed"
    exit_status = 20
    summary = "The store was closed while or before it was asked for something; nothing was written."
    no_hint_reason = "Only a program that uses a store after closing it sees this; nothing a person did."


class RowRefused(BridgeError):
    """Raised when a constraint or trigger of the database refuses a row; the whole write is undone."""

    code = "row_refused"
    exit_status = 21
    summary = "A constraint of the database refused a row (immutable, duplicate, dangling); nothing was written."
    default_hint = "This points to a fault in Bridge or to a damaged store: bridge doctor"


class SchemaUpgradeNeeded(BridgeError):
    """Raised when a store has an older schema and was not to be brought up to date. Nothing was touched."""

    code = "schema_upgrade_needed"
    exit_status = 22
    summary = "The store has an older schema and was not upgraded on opening; nothing was touched."
    default_hint = "See what it means with bridge db upgrade --dry-run, then run: bridge db upgrade"


class UpgradeFailed(BridgeError):
    """Raised when an upgrade was refused or undone; the store is whole, at the version that the details name."""

    code = "upgrade_failed"
    exit_status = 23
    summary = "An upgrade of the store was refused, or its step was undone; the store is whole at the version named."
    default_hint = "The backup stays where it is. Look at the reason, then try again: bridge db upgrade"


class NotEnoughSpace(BridgeError):
    """Raised when a backup, or an upgrade with its backup, would not fit on the disk. Nothing was touched."""

    code = "not_enough_space"
    exit_status = 24
    summary = "A backup, or an upgrade with its backup, would not fit on the disk; nothing was touched."
    default_hint = "Free some space on the disk of the state directory, or back up to another one."


class BackupRefused(BridgeError):
    """Raised when a file cannot be written or used as a backup. The store was not touched."""

    code = "backup_refused"
    exit_status = 25
    summary = "A file cannot serve as backup: it exists already, or is missing, damaged or no store of this Bridge."
    default_hint = "Name another file; bridge db status lists the backups beside the store."


class NotOnThisDatabase(BridgeError):
    """Raised for what works on one of the databases only: the care of the file, on SQLite."""

    code = "not_on_this_database"
    exit_status = 82
    summary = "What was asked for works on the other kind of database only; nothing was changed."
    default_hint = "A store moves to a file with: bridge db copy --to sqlite:////full/path/bridge.db"


class BackupUnconfirmed(BridgeError):
    """Raised when a store on PostgreSQL is to be upgraded and nobody said that there is a backup of it."""

    code = "backup_unconfirmed"
    exit_status = 85
    summary = "A store on PostgreSQL is only upgraded once somebody says that it is backed up; nothing was touched."
    default_hint = (
        "Back it up (pg_dump, or bridge db copy --to sqlite:////full/path/bridge.db), then run: "
        "bridge db upgrade --backup-done"
    )


class CopyRefused(BridgeError):
    """Raised when a store cannot be copied to where it was to go, or the copy is not equal. Nothing is left there."""

    code = "copy_refused"
    exit_status = 83
    summary = "A store cannot be copied: the target holds one already, or the copy was not equal; nothing was written."
    default_hint = "Name a database that holds no store yet."


class StoredTextDamaged(BridgeError):
    """Raised when a text that is kept apart from its entry is missing or not what was recorded.

    That is a long text, or the lines of the transcript that it came from.
    """

    code = "stored_text_damaged"
    exit_status = 84
    summary = (
        "The long text of an entry, or the lines it came from, are missing from the store or not what was recorded; "
        "nothing was written."
    )
    default_hint = "See what else is damaged with bridge db check; bridge db status lists the backups."
