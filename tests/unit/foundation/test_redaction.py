"""Redaction: well-known formats are masked wherever they stand, and nothing else is."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.canonical import canonical_bytes, parse_json
from bridge.foundation.errors import NotCanonical
from bridge.foundation.redaction import is_suspicious, redact, redact_text
from bridge.foundation.secret_formats import FAMILIES, MASKED_GROUP, Plugin, SecretFormat, hints

# Put together at run time, so that no scanner takes this file for a leak.
ALNUM = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD3fG6iJ9lM2oP5rS8uV1"
HEX = hashlib.sha256(b"secret").hexdigest()
PEM_BODY = "\n".join(base64.b64encode(hashlib.sha512(bytes([n])).digest()).decode()[:64] for n in range(4))
#: One example of each format: label, secret.
EXAMPLES: list[tuple[str, str]] = [
    ("anthropic-key", f"sk-ant-api03-{ALNUM}_-{ALNUM[:20]}"),
    ("anthropic-key", f"sk-ant-oat01-{ALNUM}"),
    ("openrouter-key", f"sk-or-v1-{HEX}"),
    ("openai-key", f"sk-proj-{ALNUM}-_{ALNUM}"),
    ("openai-key", f"sk-svcacct-{ALNUM}"),
    ("api-key", f"sk-{ALNUM[:20]}T3BlbkFJ{ALNUM[:20]}"),
    ("api-key", f"sk-{HEX[:32]}"),
    ("api-key", "sk-" + "A" * 48),
    *(("github-token", f"{prefix}_{ALNUM[:36]}") for prefix in ("ghp", "gho", "ghu", "ghs", "ghr")),
    ("github-token", f"github_pat_{ALNUM[:22]}_{ALNUM}{ALNUM[:8]}"),
    ("gitlab-token", f"glpat-{ALNUM[:20]}"),
    ("gitlab-token", f"glrt-{ALNUM[:20]}"),
    ("aws-access-key", "AKIAIOSFODNN7EXAMPLE"),
    ("aws-access-key", "ASIAIOSFODNN7EXAMPLE"),
    ("slack-token", f"xoxb-123456789012-1234567890123-{ALNUM[:24]}"),
    ("slack-token", f"xoxp-{ALNUM[:20]}"),
    ("slack-token", f"xapp-1-A012345-{ALNUM[:24]}"),
    ("telegram-token", f"123456789:AA{ALNUM[:33]}"),
    ("google-key", f"AIza{ALNUM[:35]}"),
    ("google-token", f"ya29.{ALNUM}"),
    ("google-secret", f"GOCSPX-{ALNUM[:28]}"),
    ("npm-token", f"npm_{ALNUM[:36]}"),
    ("pypi-token", f"pypi-AgEIcHlwaS5vcmc{ALNUM}{ALNUM}"),
    ("huggingface-token", f"hf_{ALNUM[:34]}"),
    ("sendgrid-key", f"SG.{ALNUM[:22]}.{ALNUM[:43]}"),
    ("stripe-key", f"sk_live_{ALNUM[:24]}"),
    ("stripe-key", f"rk_live_{ALNUM[:24]}"),
    ("stripe-key", f"sk_test_{ALNUM[:24]}"),
    ("stripe-secret", f"whsec_{ALNUM[:32]}"),
    ("digitalocean-token", f"dop_v1_{HEX}"),
    ("shopify-token", f"shpat_{HEX[:32]}"),
    ("bridge-agent-token", f"bridge_agent_{HEX[:16]}_{ALNUM[:43]}"),
    ("docker-token", f"dckr_pat_{ALNUM[:27]}"),
    ("vault-token", f"hvs.{ALNUM}"),
    ("atlassian-token", f"ATATT3{ALNUM}{ALNUM}"),
    ("groq-key", f"gsk_{ALNUM}"),
    ("xai-key", f"xai-{ALNUM}{ALNUM[:30]}"),
    ("nvidia-key", f"nvapi-{ALNUM}"),
    ("perplexity-key", f"pplx-{ALNUM[:48]}"),
    ("replicate-token", f"r8_{ALNUM[:37]}"),
    ("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzb21lYm9keSJ9.c2lnbmF0dXJlLXNpZ25hdHVyZQ"),
    ("age-key", f"AGE-SECRET-KEY-1{'Q' * 58}"),
    ("private-key", f"-----BEGIN PRIVATE KEY-----\n{PEM_BODY}\n-----END PRIVATE KEY-----"),
    ("private-key", f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PEM_BODY}\n-----END OPENSSH PRIVATE KEY-----"),
    ("private-key", f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{PEM_BODY}\n-----END PGP PRIVATE KEY BLOCK-----"),
    (
        "private-key",
        "-----BEGIN RSA PRIVATE KEY-----\\n" + PEM_BODY.replace("\n", "\\n") + "\\n-----END RSA PRIVATE KEY-----",
    ),
    ("square-secret", f"sq0csp-{ALNUM[:43]}"),
]
#: Secrets that only their surroundings give away: label, text, secret.
IN_CONTEXT: list[tuple[str, str, str]] = [
    ("aws-secret-key", f"aws_secret_access_key = {ALNUM[:40]}\n", ALNUM[:40]),
    ("aws-secret-key", f'AWS_SECRET_ACCESS_KEY="{ALNUM[:38]}/+"', f"{ALNUM[:38]}/+"),
    ("aws-secret-key", f'{{\\"SecretAccessKey\\": \\"{ALNUM[:40]}\\"}}', ALNUM[:40]),
    ("url-password", "postgres://bridge:hunter2@db.example:5432/x", "hunter2"),
    ("url-password", "postgresql+psycopg://user:p%40ss@h/x", "p%40ss"),
    ("url-password", "redis://:s3cret@localhost", "s3cret"),
    ("url-password", "clone https://me:wordpass@example.org/r.git now", "wordpass"),
    ("slack-webhook", f"https://hooks.slack.com/services/T0A/B0B/{ALNUM[:24]}", f"T0A/B0B/{ALNUM[:24]}"),
    ("discord-webhook", f"https://discord.com/api/webhooks/123456789/{ALNUM}", ALNUM),
    ("azure-storage-key", f"AccountName=x;AccountKey={(ALNUM * 2)[:86]}==;", (ALNUM * 2)[:86]),
    ("cloudant-credential", f"cloudant_password = '{HEX}'", HEX),
    ("softlayer-credential", f"softlayer_api_key: '{HEX}'", HEX),
    ("private-key", f"cat key\n-----BEGIN EC PRIVATE KEY-----\n{PEM_BODY}\n[output cut]", PEM_BODY),
]
SURROUNDINGS = [
    ("", ""),
    ("token=", "&next=1"),
    ("the key is ", ", keep it"),
    ('{"key": "', '"}'),
    ("line\n", "\nline"),
    ("tab\t", "\t"),
    ("\x1b[31m", "\x1b[0m"),
    ("\x1b[1;32m", "\x1b[0m"),
    ("é ", " ü"),
    ("(", ")"),
    ("'", "'"),
]


@pytest.mark.parametrize(("label", "secret"), EXAMPLES, ids=[f"{label}-{n}" for n, (label, _) in enumerate(EXAMPLES)])
@pytest.mark.parametrize(("before", "after"), SURROUNDINGS, ids=range(len(SURROUNDINGS)))
def test_each_format_is_masked_in_any_surroundings(label: str, secret: str, before: str, after: str) -> None:
    value = {"text": before + secret + after, "list": [1, {"deep": secret}], "none": None}

    redaction = redact(value)

    assert redaction.value == {
        "text": f"{before}[redacted:{label}]{after}",
        "list": [1, {"deep": f"[redacted:{label}]"}],
        "none": None,
    }
    assert (redaction.count, redaction.labels) == (2, (label,))
    assert redaction.canonical == canonical_bytes(redaction.value)
    assert value["text"] == before + secret + after


@pytest.mark.parametrize(
    ("label", "text", "secret"), IN_CONTEXT, ids=[f"{label}-{n}" for n, (label, *_) in enumerate(IN_CONTEXT)]
)
def test_a_secret_that_its_surroundings_give_away_is_masked(label: str, text: str, secret: str) -> None:
    redaction = redact([text])

    assert redaction.labels == (label,)
    assert secret not in redaction.value[0]
    assert f"[redacted:{label}]" in redaction.value[0]


def test_only_the_password_of_a_url_is_masked() -> None:
    assert redact_text("postgres://user:word@host/db?x=1") == (
        "postgres://user:[redacted:url-password]@host/db?x=1",
        ("url-password",),
    )


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn and scikit-learn, task-management-of-everything-else, disk-usage-0123456789abcdef0123456789",
        "desk-0123456789abcdef0123456789abcdef flask-proj-template-for-small-services risk-or-v1-" + HEX,
        "sk-SK, sk-estimator-doc-link, sk-toggleable-content-for-the-notebook",
        hashlib.sha1(b"x").hexdigest() + " " + HEX + " " + HEX.upper(),
        str(uuid.UUID(int=2**127 + 12345)),
        base64.b64encode(b"An ordinary text of some length, in base64, that nobody needs to hide. " * 20).decode(),
        base64.b64encode(bytes(range(256)) * 8).decode(),
        "npm_config_registry hf_transfer r8_array gsk_theme whsec_ ghp_short github_pat_ AKIA ASIA AIza",
        "eyJhbGciOiJIUzI1NiJ9 alone, and a.b.c",
        "https://example.org:8080/path@v1 ssh://git@example.org:22/r.git mailto:a@b.c http://[::1]:80/",
        "postgres://$USER:$PASSWORD@host postgres://u:${PASSWORD}@h postgres://u:<password>@h postgres://u:{password}@h",
        "postgres://u:***@h postgres://u:%(password)s@h postgres://u:[redacted:url-password]@h",
        'if "-----BEGIN RSA PRIVATE KEY-----" in text: raise LeakFound  # and so on, for a while, in ordinary words',
        "-----BEGIN CERTIFICATE-----\n" + PEM_BODY + "\n-----END CERTIFICATE-----",
        "aws_secret_access_key = ${FROM_THE_ENVIRONMENT}",
        "[redacted:github-token]",
        "12:30:45 --------------------------------- ======== ________________________",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    value = {"text": text}
    redaction = redact(value)

    assert redaction.value is value
    assert (redaction.count, redaction.labels, redaction.canonical) == (0, (), canonical_bytes(value))


def test_keys_are_masked_and_no_value_is_lost_under_one_mask() -> None:
    first, second = f"ghp_{'a' * 36}", f"ghp_{'b' * 36}"

    redaction = redact({second: 2, "plain": 0, first: 1, "[redacted:github-token]": 3})

    assert redaction.value == {
        "plain": 0,
        "[redacted:github-token]": 3,
        "[redacted:github-token]#2": 1,
        "[redacted:github-token]#3": 2,
    }
    assert (
        redact(dict(reversed({second: 2, "plain": 0, first: 1}.items()))).value
        == redact({second: 2, "plain": 0, first: 1}).value
    )


def test_the_name_of_a_field_may_give_its_value_away() -> None:
    environment = {
        "AWS_SECRET_ACCESS_KEY": ALNUM[:40],
        "ACCESS_KEY_HASH": ALNUM[:40],
        "aws_secret_access_key": "$SECRET",
    }

    assert redact({"env": environment}).value == {
        "env": {**environment, "AWS_SECRET_ACCESS_KEY": "[redacted:aws-secret-key]"}
    }


def test_a_secret_behind_a_secret_is_found() -> None:
    token = f"ghp_{ALNUM[:36]}"
    text, labels = redact_text(
        f"https://u:{token}@h {token}/{token} -----BEGIN PRIVATE KEY-----\n{token}\n-----END PRIVATE KEY-----"
    )

    assert token not in text
    assert ALNUM[:36] not in text
    assert len(labels) >= 4


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(NotCanonical):
        redact({"text": "\ud800"})


def test_floats_keep_their_text() -> None:
    assert redact(parse_json(f'["ghp_{ALNUM[:36]}", 1e3]')).canonical == b'["[redacted:github-token]",1e3]'


# Fragments that secrets are made of, in any order: far more likely to collide than random text.
FRAGMENTS = st.sampled_from(
    [secret for _, secret in EXAMPLES]
    + [text for _, text, _ in IN_CONTEXT]
    + [
        "sk-",
        "ant-",
        "ghp_",
        "://",
        ":",
        "@",
        "eyJ",
        ".",
        "-----BEGIN ",
        "-----END ",
        "PRIVATE KEY-----",
        "AKIA",
        "\n",
        "\\n",
        " ",
    ]
    + ["[redacted:", "]", "A" * 40, "x", '"', "m", "[0m", "=", "aws_secret_access_key", "é"]
)
SUSPICIOUS = st.lists(FRAGMENTS | st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=8).map(
    "".join
)


@given(SUSPICIOUS)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once, _ = redact_text(text)
    assert redact_text(once) == (once, ())


@given(
    st.recursive(
        SUSPICIOUS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SUSPICIOUS, inner, max_size=3),
        max_leaves=6,
    )
)
def test_redacting_a_value_twice_changes_nothing_more(value: Any) -> None:
    once = redact(value)
    again = redact(once.value)
    assert (again.count, again.canonical) == (0, once.canonical)


@given(SUSPICIOUS)
def test_the_quick_look_at_the_json_text_misses_nothing(text: str) -> None:
    # redact() decides on the JSON text whether to look at the strings; redact_text() always looks.
    assert redact({"k": text}).value == {"k": redact_text(text)[0]}


OWN_FORMATS = [(family, known) for family in FAMILIES for known in family.formats if isinstance(known, SecretFormat)]


@pytest.mark.parametrize(("family", "known"), OWN_FORMATS, ids=[known.label for _, known in OWN_FORMATS])
def test_the_hint_of_a_family_matches_in_every_example_of_its_formats(family: Any, known: SecretFormat) -> None:
    hint = re.compile(re.escape(family.trigger) + family.around, re.ASCII)
    examples = [secret for _, secret in EXAMPLES] + [text for _, text, _ in IN_CONTEXT]
    pattern = re.compile(known.pattern, re.ASCII)
    matching = [text for text in examples if pattern.search(text)]

    assert matching or known.label == "slack-token"
    for text in matching:
        if MASKED_GROUP not in pattern.groupindex:
            assert hint.search(text), text
            assert hint.search(json.dumps("\n" + text)), text


MARKS = [mark for family in FAMILIES for mark in family.marks]
HINTS = [re.compile(pattern.encode()) for pattern in hints().values()]


@given(st.lists(FRAGMENTS | st.sampled_from(MARKS) | st.sampled_from([mark[1:] for mark in MARKS]), max_size=6))
def test_the_search_for_all_marks_at_once_finds_what_every_hint_would(parts: list[str]) -> None:
    # Marks that overlap as well: the end of one may be the beginning of another.
    text = "".join(parts).encode()
    assert is_suspicious(text) == any(hint.search(text) for hint in HINTS)


@pytest.mark.parametrize("family", FAMILIES, ids=[family.formats[0].label for family in FAMILIES])
def test_every_family_has_marks_that_hold_its_trigger(family: Any) -> None:
    assert family.marks
    assert all(family.trigger in mark for mark in family.marks)


def test_every_label_has_an_example() -> None:
    labels = {known.label for family in FAMILIES for known in family.formats}
    assert labels == {label for label, _ in EXAMPLES} | {label for label, *_ in IN_CONTEXT}
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", label) for label in labels)


def test_detect_secrets_is_not_imported_for_ordinary_texts() -> None:
    program = (
        "import sys; from bridge.foundation.redaction import redact; "
        f"assert redact({{'a': 'https://x/ghp_{ALNUM[:36]}'}}).count == 1; "
        "assert 'detect_secrets' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_plugins_of_detect_secrets_exist() -> None:
    plugins = [known for family in FAMILIES for known in family.formats if isinstance(known, Plugin)]
    assert {plugin.class_name for plugin in plugins} >= {"SquareOAuthDetector", "CloudantDetector"}
