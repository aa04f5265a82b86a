"""The environment a child gets: what the caller names, without what could misdirect git or betray the controller."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

#: Prefixes of variables that never pass to a child by inheritance. ``GIT_*`` could point a worker's git at
#: another repository (a hook or ``git rebase --exec`` exports GIT_DIR); ``BRIDGE_*`` holds the controller's
#: token, its database address and the task of an enclosing worker.
STRIPPED_PREFIXES = ("GIT_", "BRIDGE_")

#: The git variables that pass all the same. They say who commits, which user settings hold and how a remote is
#: reached, never which repository is meant.
KEPT_GIT_VARIABLES = frozenset(
    {
        "GIT_ASKPASS",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM",
        "GIT_EXEC_PATH",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSL_CAINFO",
        "GIT_TERMINAL_PROMPT",
    }
)


def child_environment(base: Mapping[str, str], additions: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child: ``base`` without the stripped prefixes, then ``additions``.

    ``additions`` are taken as they are, so that a caller can hand a child its own ``BRIDGE_TASK``.
    """
    kept = {
        name: value
        for name, value in base.items()
        if name in KEPT_GIT_VARIABLES or not name.startswith(STRIPPED_PREFIXES)
    }
    return {**kept, **additions}


#: Words that, as a part of a variable's name between underscores, say that its value opens something.
_SECRET_WORDS = frozenset(
    {
        *("APIKEY", "AUTH", "BEARER", "COOKIE", "CREDENTIAL", "CREDENTIALS", "KEY", "KEYS", "PASS", "PASSPHRASE"),
        *("PASSWD", "PASSWORD", "PASSWORDS", "PAT", "PWD", "SECRET", "SECRETS", "TOKEN", "TOKENS"),
    }
)
#: Doors to programs that act for the user, which no confinement closes.
_DOORS = frozenset({"DBUS_SESSION_BUS_ADDRESS", "GPG_AGENT_INFO", "SSH_AGENT_PID", "SSH_AUTH_SOCK", "XAUTHORITY"})
#: What an agent needs to reach its model. Each harness gets all of them: which one it uses is its user's matter.
MODEL_VARIABLES = (
    *("ANTHROPIC_*", "AZURE_OPENAI_*", "CEREBRAS_*", "CLAUDE_*", "CODEX_*", "COHERE_*", "DEEPSEEK_*", "FIREWORKS_*"),
    *("GEMINI_*", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_*", "MISTRAL_*", "OPENAI_*", "OPENCODE_*"),
    *("OPENROUTER_*", "PI_*", "TOGETHER_*", "XAI_*"),
)
#: Shell variables whose names look like secrets and are none.
_HARMLESS = frozenset({"PWD", "OLDPWD"})
#: A URL with a password in it. Proxies are let through: without its proxy a program reaches nothing.
_PASSWORD_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@")
_PROXIES = frozenset({"ALL_PROXY", "FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY"})


def worker_environment(base: Mapping[str, str], passing: Iterable[str] = ()) -> dict[str, str]:
    """Return what a worker may inherit: ``base`` without what opens something else than a model.

    Left out are variables whose names say that they hold a secret (a part between underscores such as TOKEN, KEY or
    PASSWORD), values that are URLs with a password, and the doors to programs that act for the user (ssh-agent, the
    session bus). Values are looked at for that alone.

    Parameters
    ----------
    passing
        Names, or patterns with ``*``, of variables that pass all the same, besides :data:`MODEL_VARIABLES`.
    """
    patterns = (*MODEL_VARIABLES, *passing)
    return {
        name: value
        for name, value in base.items()
        if not _opens_something(name, value) or any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _opens_something(name: str, value: str) -> bool:
    if name in _HARMLESS or name in KEPT_GIT_VARIABLES:
        return False
    if name in _DOORS or not _SECRET_WORDS.isdisjoint(name.upper().split("_")):
        return True
    return name.upper() not in _PROXIES and _PASSWORD_URL.match(value) is not None
