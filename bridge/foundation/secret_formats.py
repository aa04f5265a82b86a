"""The well-known formats of secrets that redaction masks: named formats only, nothing is guessed (design §9).

Formats come in families. Each family has a *hint*: a fixed text, the trigger, of a character or two that are
rare in ordinary text, and what must stand around it. The hints of one trigger make one regular expression that
jumps from trigger to trigger, so that a text without secrets, which is nearly every text, costs a few
microseconds. A hint must match in every secret of its family, in the string itself and in its JSON text (where
a line break before it reads ``\\n``).

Each family also has its *marks*: fixed texts of which every hint holds one. They are looked for all at once, before any
regular expression is asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Name of the group that holds the secret itself, where a pattern also needs its surroundings.
MASKED_GROUP = "masked"


@dataclass(frozen=True, slots=True)
class SecretFormat:
    """One format: the label of its mask, and a pattern whose group ``masked``, or whole match, is the secret.

    The pattern is text, to be compiled with ``re.ASCII`` where it is first needed: nearly every process meets none.
    """

    label: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Plugin:
    """Formats that are left to a plugin of detect-secrets: the label of their mask, module and class."""

    label: str
    module: str
    class_name: str


@dataclass(frozen=True, slots=True)
class Family:
    """Formats that share a hint.

    Parameters
    ----------
    trigger
        A text that every secret of the family has.
    around
        Look-arounds that hold right after it; of bounded length, so that hints stay linear.
    formats
        What to look for where the hint matches, most specific first.
    marks
        Texts of which one stands wherever the hint matches, the trigger within it or around it.
    """

    trigger: str
    around: str
    formats: tuple[SecretFormat | Plugin, ...]
    marks: tuple[str, ...]


def _bounded(
    label: str, prefix: str, rest: str, *, before: str = "A-Za-z0-9+", after: str = "A-Za-z0-9"
) -> SecretFormat:
    """Return a format that begins and ends at a boundary: "task-…" holds no "sk-…", base64 text no access key."""
    # Besides a boundary, the end of a terminal colour code ("\x1b[31m") may stand before it. The look-behind
    # comes after the fixed beginning and repeats it: a pattern that begins with fixed text is searched for many
    # times faster than one that begins with a look-behind.
    boundary = rf"(?:(?<![{before}]{prefix})|(?<=\[[0-9]m{prefix})|(?<=[0-9;][0-9]m{prefix}))"
    return SecretFormat(label, rf"{prefix}{boundary}{rest}(?![{after}])")


def _prefixed(label: str, prefix: str, rest: str, *, least: str) -> Family:
    """Return a format that its beginning gives away; ``least`` is what at least follows the beginning."""
    escaped = re.escape(prefix)
    return Family(prefix[-1], rf"(?<={escaped})(?={least})", (SecretFormat(label, escaped + rest),), (prefix,))


_WORD = r"A-Za-z0-9_\-"
_BASE64_RUN = r"(?:[A-Za-z0-9+/]{16,}+={0,2}+(?:\s|\\[nrt]|[\"'+,])*+)"
_GITLAB_KINDS = ("pat", "dt", "ft", "soat", "rt", "cbt", "imt", "ptt", "agent", "oas")

_PRIVATE_KEYS = Family(
    "-----BEGIN ",
    r"(?=[A-Z0-9 ]{0,40}PRIVATE KEY)",
    (
        SecretFormat(
            "private-key",
            r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,40}?)PRIVATE KEY(?P<block>(?: BLOCK)?)-----"
            r"(?:(?:[^-]++|-(?!----))*+-----END (?P=kind)PRIVATE KEY(?P=block)-----"
            # A block that is cut off before its end: a first line of at least 40 characters and what follows.
            rf"|(?:\s|\\[nrt])*+(?=[A-Za-z0-9+/]{{40}}){_BASE64_RUN}++(?:[A-Za-z0-9+/]{{1,15}}={{0,2}})?)",
        ),
    ),
    ("-----BEGIN ",),
)
_SK_KEYS = Family(
    "-",
    # Before "sk" stands no letter or digit, or what may end an escape or a colour code; this alone keeps most
    # words that end in "sk" from being looked at.
    r"(?<=sk-)(?:(?<![A-Za-z0-9+]sk-)|(?<=[nrtbfm]sk-)|(?<=u00[0-9a-f][0-9a-f]sk-))(?=[A-Za-z0-9_-]{18})",
    (
        _bounded("anthropic-key", "sk-", rf"ant-(?:api|admin|oat|ort|sid)[0-9]{{2}}-[{_WORD}]{{16,}}"),
        _bounded("openrouter-key", "sk-", r"or-v1-[0-9a-f]{32,}"),
        _bounded("openai-key", "sk-", rf"(?:proj|svcacct|admin|None)-[{_WORD}]{{20,}}"),
        # The first format of OpenAI, which others took over. Short ones need a digit, which words lack.
        _bounded("api-key", "sk-", r"(?:(?=[A-Za-z]{0,64}[0-9])[A-Za-z0-9]{20,}|[A-Za-z0-9]{40,})"),
    ),
    ("sk-",),
)
_GITHUB_TOKENS = Family(
    "_",
    r"(?<=gh[pousr]_)(?=[A-Za-z0-9]{36})",
    (SecretFormat("github-token", r"gh[pousr]_[A-Za-z0-9]{36,}"),),
    tuple(f"gh{kind}_" for kind in "pousr"),
)
_GITLAB_TOKENS = Family(
    "-",
    f"(?:{'|'.join(f'(?<=gl{kind}-)' for kind in _GITLAB_KINDS)})(?=[{_WORD}]{{20}})",
    (SecretFormat("gitlab-token", rf"gl(?:{'|'.join(_GITLAB_KINDS)})-[{_WORD}]{{20,}}"),),
    tuple(f"gl{kind}-" for kind in _GITLAB_KINDS),
)
_AWS_SECRET_NAMES = ("ecret_access_key", "ECRET_ACCESS_KEY", "ecretAccessKey")
_AWS_SECRET_KEYS = SecretFormat(
    "aws-secret-key",
    rf"(?:{'|'.join(_AWS_SECRET_NAMES)})"
    r"[\\\"']{0,4}\s{0,8}[:=]\s{0,8}[\\\"']{0,4}"
    rf"(?P<{MASKED_GROUP}>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
)
_JWTS = Family(
    "J",
    rf"(?<=eyJ)(?=[{_WORD}]{{8}})",
    # Header and claims are JSON objects, so both begin as '{"' does in base64.
    (
        _bounded(
            "jwt", "eyJ", rf"[{_WORD}]{{8,}}\.eyJ[{_WORD}]{{4,}}\.[{_WORD}]{{10,}}", before=_WORD + "+", after=_WORD
        ),
    ),
    ("eyJ",),
)
_URL_PASSWORDS = Family(
    "://",
    r"(?=[^\s/:@\"'<>\\]{0,256}:[^\s/@\"'<>\\\[\]]{1,1024}@)",
    # The placeholders of templates, and masks, are left alone.
    (
        SecretFormat(
            "url-password",
            rf"://[^\s/:@\"'<>\\]{{0,256}}:(?P<{MASKED_GROUP}>(?![$<{{%*\[])[^\s/@\"'<>\\\[\]]{{1,1024}})@",
        ),
    ),
    ("://",),
)

#: Every format, whole blocks before anything that may look like a part of one.
FAMILIES: tuple[Family, ...] = (
    _PRIVATE_KEYS,
    _prefixed("age-key", "AGE-SECRET-KEY-", r"1[0-9A-Z]{58}", least="1[0-9A-Z]{58}"),
    _SK_KEYS,
    _GITHUB_TOKENS,
    _prefixed("github-token", "github_pat_", r"[A-Za-z0-9_]{22,}", least="[A-Za-z0-9_]{22}"),
    _GITLAB_TOKENS,
    Family("A", r"(?=[KS]IA[A-Z0-9]{16})", (_bounded("aws-access-key", "A", r"[KS]IA[A-Z0-9]{16}"),), ("AKIA", "ASIA")),
    Family("_", r"(?:(?<=ecret_)(?=access_key)|(?<=ECRET_)(?=ACCESS_KEY))", (_AWS_SECRET_KEYS,), _AWS_SECRET_NAMES[:2]),
    Family("A", r"(?<=ecretA)(?=ccessKey)", (_AWS_SECRET_KEYS,), _AWS_SECRET_NAMES[2:]),
    Family(
        "-",
        r"(?<=xox[abeoprs]-)",
        (SecretFormat("slack-token", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),),
        tuple(f"xox{kind}-" for kind in "abeoprs"),
    ),
    Family("-", r"(?<=xapp-)", (SecretFormat("slack-token", r"xapp-[0-9]-[A-Za-z0-9-]{20,}"),), ("xapp-",)),
    Family(
        ".",
        r"(?<=hooks\.)(?=slack\.com/)",
        (SecretFormat("slack-webhook", r"hooks\.slack\.com/[a-z]+/(?P<masked>[A-Za-z0-9_/-]{8,})"),),
        ("hooks.slack.com/",),
    ),
    Family(
        ".",
        r"(?:(?<=discord\.)|(?<=discordapp\.))(?=com/api/webhooks/)",
        (
            SecretFormat(
                "discord-webhook", rf"discord(?:app)?\.com/api/webhooks/[0-9]{{5,24}}/(?P<masked>[{_WORD}]{{8,}})"
            ),
        ),
        ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
    ),
    Family(
        ":AA",
        rf"(?=[{_WORD}]{{33}})",
        (_bounded("telegram-token", "", rf"[0-9]{{8,10}}:AA[{_WORD}]{{33}}", after=_WORD),),
        (":AA",),
    ),
    Family(
        "A", rf"(?=Iza[{_WORD}]{{35}})", (_bounded("google-key", "A", rf"Iza[{_WORD}]{{35}}", after=_WORD),), ("AIza",)
    ),
    _prefixed("google-token", "ya29.", rf"[{_WORD}]{{20,}}", least=f"[{_WORD}]{{20}}"),
    _prefixed("google-secret", "GOCSPX-", rf"[{_WORD}]{{20,}}", least=f"[{_WORD}]{{20}}"),
    _prefixed("npm-token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])", least="[A-Za-z0-9]{36}"),
    _prefixed("pypi-token", "pypi-", rf"AgE[{_WORD}]{{32,}}", least=f"AgE[{_WORD}]{{32}}"),
    _prefixed("huggingface-token", "hf_", r"[A-Za-z0-9]{30,}", least="[A-Za-z0-9]{30}"),
    Family(
        ".",
        rf"(?<=SG\.)(?=[{_WORD}]{{20}})",
        (_bounded("sendgrid-key", r"SG\.", rf"[{_WORD}]{{20,24}}\.[{_WORD}]{{39,50}}", after=_WORD),),
        ("SG.",),
    ),
    Family(
        "_",
        r"(?<=[rs]k_)(?=(?:live|test)_[A-Za-z0-9]{16})",
        (SecretFormat("stripe-key", r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),),
        ("rk_live_", "rk_test_", "sk_live_", "sk_test_"),
    ),
    _prefixed("stripe-secret", "whsec_", r"[A-Za-z0-9+/]{24,}={0,2}", least="[A-Za-z0-9+/]{24}"),
    _prefixed("digitalocean-token", "dop_v1_", r"[0-9a-f]{64}", least="[0-9a-f]{64}"),
    _prefixed("shopify-token", "shpat_", r"[0-9a-fA-F]{32}", least="[0-9a-fA-F]{32}"),
    _prefixed("bridge-agent-token", "bridge_agent_", rf"[0-9a-f]{{16}}_[{_WORD}]{{43}}", least=r"[0-9a-f]{16}_"),
    _prefixed("docker-token", "dckr_pat_", rf"[{_WORD}]{{20,}}", least=f"[{_WORD}]{{20}}"),
    _prefixed("vault-token", "hvs.", rf"[{_WORD}]{{24,}}", least=f"[{_WORD}]{{24}}"),
    Family(
        "A",
        r"(?=TATT3[A-Za-z0-9_=-]{60})",
        (SecretFormat("atlassian-token", r"ATATT3[A-Za-z0-9_=-]{60,}"),),
        ("ATATT3",),
    ),
    _prefixed("groq-key", "gsk_", r"[A-Za-z0-9]{40,}", least="[A-Za-z0-9]{40}"),
    _prefixed("xai-key", "xai-", r"[A-Za-z0-9]{60,}", least="[A-Za-z0-9]{60}"),
    _prefixed("nvidia-key", "nvapi-", rf"[{_WORD}]{{40,}}", least=f"[{_WORD}]{{40}}"),
    _prefixed("perplexity-key", "pplx-", r"[A-Za-z0-9]{40,}", least="[A-Za-z0-9]{40}"),
    _prefixed("replicate-token", "r8_", r"[A-Za-z0-9]{37}(?![A-Za-z0-9])", least="[A-Za-z0-9]{37}"),
    _JWTS,
    Family("-", r"(?<=sq0csp-)", (Plugin("square-secret", "square_oauth", "SquareOAuthDetector"),), ("sq0csp-",)),
    Family(
        "A",
        r"(?=ccountKey=)",
        (Plugin("azure-storage-key", "azure_storage_key", "AzureStorageKeyDetector"),),
        ("AccountKey=",),
    ),
    Family("_", r"(?<=cloudant_)", (Plugin("cloudant-credential", "cloudant", "CloudantDetector"),), ("cloudant_",)),
    Family(
        "_", r"(?<=softlayer_)", (Plugin("softlayer-credential", "softlayer", "SoftlayerDetector"),), ("softlayer_",)
    ),
    _URL_PASSWORDS,
)


#: Secrets that the name of their field gives away: label, endings of the name, pattern of the whole value. Each
#: of those names is a hint of a family, too.
FIELD_FORMATS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("aws-secret-key", _AWS_SECRET_NAMES, r"[A-Za-z0-9/+]{40}"),
)

#: What always follows a trigger that ordinary text is full of; asked first, it spares the other questions.
_AFTER_TRIGGER = {"-": rf"(?=[{_WORD}]{{10}})", ".": rf"(?=[{_WORD}]{{3}})"}


def marks() -> dict[str, set[str]]:
    """Return by mark the triggers of the families that have it; without any mark, no hint matches."""
    found: dict[str, set[str]] = {}
    for family in FAMILIES:
        for mark in family.marks:
            found.setdefault(mark, set()).add(family.trigger)
    return found


def hints() -> dict[str, str]:
    """Return by trigger a regular expression of its hints; the last group ``h<n>`` names the family hinted at."""
    by_trigger: dict[str, list[str]] = {}
    for number, family in enumerate(FAMILIES):
        by_trigger.setdefault(family.trigger, []).append(f"(?P<h{number}>{family.around})")
    return {
        trigger: f"{re.escape(trigger)}{_AFTER_TRIGGER.get(trigger, '')}(?:{'|'.join(around)})"
        for trigger, around in by_trigger.items()
    }
