"""What can be wrong with the meaning of an entry, a worker's result or a schema."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class TransientKind(BridgeError):
    """Raised when a streaming frame is offered for keeping."""

    code = "transient_kind"
    exit_status = 10
    summary = "A streaming frame (a delta or a progress report) was offered as an entry."
    default_hint = "Assemble the complete event from its frames and append that."


class UnknownKind(BridgeError):
    """Raised when a new entry names a kind that the current semantic schema does not have."""

    code = "unknown_kind"
    exit_status = 11
    summary = "A new entry names a kind that the current semantic schema does not have."
    default_hint = "Use one of the kinds under schema/semantic/, or provider.unknown for a foreign record."


class InvalidPayload(BridgeError):
    """Raised when a payload does not fit the schema of its kind; ``details["fields"]`` says where."""

    code = "invalid_payload"
    exit_status = 12
    summary = "A payload does not fit the schema of its kind."
    default_hint = "Mend the fields named; what a provider adds beyond the contract belongs into provider_meta."


class UnsupportedSemanticVersion(BridgeError):
    """Raised when an entry was written under a contract that this Bridge does not read."""

    code = "unsupported_semantic_version"
    exit_status = 13
    summary = "An entry was written under a semantic schema version that this Bridge does not read."
    default_hint = "Upgrade Bridge. Other sessions, and branches without that entry, stay usable."


class InvalidOutputSchema(BridgeError):
    """Raised when the output schema of a delegation cannot be used to check anything."""

    code = "invalid_output_schema"
    exit_status = 14
    summary = "The output schema of a delegation is not a JSON Schema that works without the network."
    default_hint = "Give a JSON Schema (draft 2020-12 unless it says otherwise) whose every $ref lies inside it."


class SchemaMissing(BridgeError):
    """Raised when a schema file that Bridge validates with is not where it was installed."""

    code = "schema_missing"
    exit_status = 15
    summary = "A schema file that ships with Bridge cannot be read: the installation is damaged."
    default_hint = "Install Bridge again."
