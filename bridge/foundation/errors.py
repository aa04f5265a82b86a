"""The base of every error that Bridge raises on purpose.

Each package keeps its own error classes in its ``errors.py``; the class carries what a program needs
(``code``, ``exit_status``) and the instance what a person needs (message, hint, details). The published
table (``schema/errors.json``, ``docs/errors.md``) is generated from the classes, so a class is the only
place where a code is written down.

Exit statuses are unique per class. 0, 1 and 2 are taken (done, the check found something, usage); shells use 126
and 127 for themselves and 128 to 192 for the signal that ended a program, so statuses go on at 193; 255 is what
``ssh`` says. To keep packages from colliding, each draws from ranges of its own:

=============  ================     =============  ========================
foundation     3–9                  agents         76–81
semantics      10–15                storage        16–25, 82–85, 193–197
git            26–40                control        86–109, 203–211, 214–215
process        41–45                adapters       110–114, 216–222
conversations  46–65, 198–202       rpc            115–117, 223–232
workspaces     66–75                cli            118–121, 233–237
integrity      122–123, 238–241     recall         242–245
lineage        124, 246–248         transcripts    125, 249–254
web            212                  hooks          213
=============  ================     =============  ================

When a package has more conditions than numbers, the classes of one family (a base class with a status) share
their base's status and differ in ``code``, which is what programs should look at anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

FIRST_EXIT_STATUS = 3
LAST_EXIT_STATUS = 254
#: Statuses in between that mean something else to a shell.
SHELL_EXIT_STATUSES = range(126, 193)


class BridgeError(Exception):
    """A condition that Bridge names, explains and survives.

    Parameters
    ----------
    message
        What happened and, where so, that nothing was changed. One or two sentences, no trailing blank.
    hint
        What to do about it; defaults to the class's own ``default_hint``.
    details
        JSON-ready facts for programs (ids, found and supported versions, field errors).
    """

    code: ClassVar[str] = ""
    exit_status: ClassVar[int] = 0
    default_hint: ClassVar[str] = ""
    #: Why there is no default hint; every class has one of the two, which a test checks.
    no_hint_reason: ClassVar[str] = ""
    #: One line for the generated table: when this error is raised.
    summary: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        self.details: dict[str, Any] = dict(details or {})

    def to_json(self) -> dict[str, Any]:
        """Return ``{"error": {"code", "message", "hint", "details"}}``, the shape every door uses."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "hint": self.hint,
                "details": self.details,
            }
        }


def error_classes() -> Iterator[type[BridgeError]]:
    """Yield every concrete error class imported so far, in order of exit status.

    A class without a code (an intermediate base) is skipped. The table generator imports all packages first.
    """
    seen: list[type[BridgeError]] = []
    pending: list[type[BridgeError]] = [BridgeError]
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if "code" in cls.__dict__ and cls.code:
            seen.append(cls)
    yield from sorted(set(seen), key=lambda cls: (cls.exit_status, cls.code))


class NotCanonical(BridgeError):
    """Raised when a value or text has no canonical JSON form."""

    code = "not_canonical"
    exit_status = 3
    summary = "A value has no canonical JSON form (NaN, duplicate key, lone surrogate, too deep, wide integer)."
    default_hint = "Send plain JSON: finite numbers, integers within 64 bits, unique keys, valid Unicode."


class InvalidId(BridgeError):
    """Raised when a session or entry id is malformed where it enters."""

    code = "invalid_id"
    exit_status = 4
    summary = "An id does not have the form that Bridge accepts in paths and URLs."
    default_hint = "Ids look like 20260102-030405-9f3a (session) and 20260102-030405-9f3a-000031 (entry)."


class InvalidConfiguration(BridgeError):
    """Raised when a setting, in the environment or a configuration file, cannot be used."""

    code = "invalid_configuration"
    exit_status = 5
    summary = "A setting in the environment or in config.toml cannot be used."
    no_hint_reason = "the remedy depends on the setting and comes with each error"


class InvalidText(BridgeError):
    """Raised when a text from outside has a character that not every database keeps."""

    code = "invalid_text"
    exit_status = 9
    summary = "A name or another short text has a NUL character or is not valid Unicode; nothing was written."
    default_hint = "Give it without the character; on the command line, as UTF-8."
