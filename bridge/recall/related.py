"""Words that people who talk about software use for one another: what a vague question may have meant. Pure.

A question's own words always count more. These are consulted only where too few chats have all of them, and a word
found by way of another never makes an answer confident. English only; a line is a circle of words, and a word may
stand in several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

#: Circles of related words.
_CIRCLES: Final = """
login logout signin sign-in auth authentication authorization oauth session token password credential logged logs 401
user account username customer client tenant member
register registration signup onboarding
permission role access forbidden 403 acl privilege
slow slowness latency performance speed fast quick seconds minutes takes p95 timeout hang hangs forever
memory ram leak heap rss oom allocation
cpu load usage busy
disk storage space full watermark volume quota
crash crashes crashed died dies killed panic segfault abort exception
error failure failed fails broken bug issue problem wrong
outage downtime down incident unavailable failover
restart restarted reboot killed respawn startup boot
test tests testing flaky unittest pytest spec
random randomly flaky sometimes intermittent nondeterministic ordering
database db sql postgres postgresql mysql sqlite table query statement rows
migration migrate move moving upgrade port switch switching
schema table column migration
index indexes scan explain
deadlock lock locks locked blocking blocked waiting stuck hangs
duplicate duplicates twice double repeated idempotent two
race concurrent concurrency parallel simultaneous once
cache caching cached redis memcached lru
queue backlog lag message messages kafka rabbitmq broker consumer topic
container docker image pod pods kubernetes k8s cluster
deploy deployment release rollout ship shipping deploys
pipeline ci build builds builder workflow jenkins actions
compile compiles build rebuilding rebuild compilation
infrastructure terraform cloud aws provisioning ansible
load-balancer proxy nginx gateway ingress
certificate tls ssl https cert expired
dns domain hostname zone
network connection connections connect reconnect socket websocket packets
request requests http api endpoint endpoints call calls
limit limits limiter throttle throttling quota hammering 429
retry retries backoff again jitter
webhook webhooks callback notification notifications hook
payment payments card cards checkout stripe money pay paid payout payouts refund settlement
invoice invoices bill bills billing receipt
shop store checkout product products cart order orders catalog
discount discounts coupon coupons voucher
search searching find relevance results ranking elasticsearch
first boost title ranking order
export exports download dump extract gdpr
import imports load upload csv ingest
file files upload uploads blob attachment document
spreadsheet csv excel xlsx sheet
pdf print printing printed printer
picture image logo png svg photo blurry sharp
encoding unicode characters umlauts utf charset windows-1252
special-characters umlauts encoding unicode
name names username rename label
fake impersonate lookalike phishing spoof
security vulnerability injection hole exploit xss attack researcher bounty
email mail mails newsletter inbox spam smtp bounce
push notification notifications alert alerts
phone mobile ios android app application handset
page screen view dashboard form dialog settings preferences ui frontend
chart charts dashboard graph graphs metrics report
report reports statistics numbers figures analytics
color colour colours theme dark contrast css style
accessibility blind a11y screenreader contrast focus axe
keyboard keybindings shortcut vim hotkey modal bindings
editor ide window query
docs documentation guide readme manual explaining explain tutorial
onboarding newcomer new joiner colleague developers setup bootstrap
repository repo git clone history commit
large big huge giant massive mb gb size bigger biggest
delete remove removed cleanup rid drop purge clean prune
unused dead nobody obsolete stale leftover cancelled
flag flags switch switches toggle feature
framework django rails flask spring version
language rust python go java javascript rewrite
rewrite port refactor rewriting replace
parser parse parsing log logs reading
log logs logging logfile elasticsearch retention
schedule scheduled cron nightly job jobs timer night overnight daily
job jobs worker workers task tasks process background
time timezone zone clock utc dst summer winter hour
month monthly end date day evening
text transcription transcribe words speech
voice audio call calls recorded recording phone whisper speech
split splitting shard sharding partition partitions
provider vendor company supplier service handles
practice practising exercise drill chaos gameday rehearsal runbook
graphql resolver n+1 dataloader statements
many n+1 hundreds statements batch
customer user client their data
data information everything personal record records json
config configuration settings options preferences env
dependency dependencies package packages library libraries
format formatting lint linter style
type types typing mypy annotation
monitoring alert alerts metrics grafana prometheus observability
backup restore snapshot recovery dump
overwrite lose lost missing vanish disappear
late delay delayed slow doze
same moment once simultaneous storm thundering peak everybody
""".strip()


def _read() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for line in _CIRCLES.splitlines():
        circle = line.split()
        for word in circle:
            others = found.setdefault(word, {})
            others.update(dict.fromkeys(other for other in circle if other != word))
    return {word: tuple(others) for word, others in found.items()}


_RELATED: Final = _read()


def related(forms: Iterator[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Return the words related to a word, given in all of its forms, without these."""
    known = tuple(forms)
    found: dict[str, None] = {}
    for form in known:
        found.update(dict.fromkeys(_RELATED.get(form, ())))
    return tuple(word for word in found if word not in known)
