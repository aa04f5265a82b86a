"""The chats and questions that ``search_quality.py`` measures with: made from templates, the same every time.

Forty matters, each spoken of in a chat of its own, and a second time long before or after; around them hundreds of
chats of everyday talk that use the same words. Each matter has a question that names it exactly, one that has a part of
its words (in other forms, unfinished, mistyped), one by somebody who only vaguely remembers, and one bounded by a time.

Written, with its questions, before anything was tuned. Matters of an even number are for tuning, those of an odd
number are held out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 6, 17, 14, 30, tzinfo=UTC)
FILLERS = 400
SEED = 20260617


@dataclass(frozen=True)
class Chat:
    key: str
    label: str | None
    status: str
    started: datetime
    #: Kind of entry and its text, a minute apart.
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Asked:
    text: str
    group: str
    wanted: str
    is_for_tuning: bool


# label | first message | further entries, two or three | summary (may be empty) | exact | partial | vague
MATTERS = """
OAuth refresh in billing | The billing service logs users out every hour, refresh returns 401 | The clock of the pod is 90 seconds ahead, so validateRefreshToken rejects the token as not yet valid / I added a leeway of two minutes in token_clock.py and the 401 is gone | Fixed token refresh failing because of clock skew | validateRefreshToken | billing refresh clok skew | people kept getting logged out of billing
Flaky checkout test | test_checkout_total fails one run in twenty on CI | It depends on dict ordering of the discounts, two coupons with equal priority swap places / Sorted the coupons by id before applying, 500 runs green now | Made coupon order deterministic | test_checkout_total | coupons ordering determinis | randomly failing test about discounts
Postgres deadlock on invoices | Got deadlock detected on table invoices again, ERROR 40P01 | Two workers update invoice rows in different order inside one transaction / We now lock rows with ORDER BY id FOR UPDATE before touching them | Row locks are taken in the order of id | 40P01 | invoices deadlocks lock order | two jobs blocking each other in the database
Slow dashboard query | The dashboard takes 14 seconds since the last release | EXPLAIN shows a sequential scan on events, the index on tenant_id was dropped by migration 0047 / Recreated ix_events_tenant concurrently, p95 is 180 ms | Missing index after a migration made the dashboard slow | ix_events_tenant | dashboard index migration scan | page with the charts loads forever
Memory leak in the worker | worker RSS grows 200 MB a day until the OOM killer comes | tracemalloc points to the lru_cache on render_template with unbounded keys / Limited maxsize to 512 and evict per tenant, memory is flat for two days | Unbounded cache was the leak | tracemalloc | worker memory growing cache | process eats all the ram overnight
Upgrade to Django 5 | Plan the upgrade of the shop backend from Django 3.2 to 5.0 | USE_L10N is gone, pytz must become zoneinfo, and url() has to be re_path() / Did it in three steps with deprecation warnings as errors | Django upgraded in three steps | re_path | django upgrades deprecations | moving the shop to the newer framework version
Docker image too large | Our image has 2.4 GB, can we shrink it? | Most of it is the build toolchain and the pip cache, a multi-stage build drops both / Final image python:3.12-slim with wheels copied over is 310 MB | Multi-stage build shrank the image | python:3.12-slim | image shrink multi-stage | container takes ages to download because it is huge
Webhook signature mismatch | Stripe webhooks fail with signature mismatch after we put nginx in front | nginx re-encodes the body, construct_event needs the raw bytes / proxy_request_buffering off and request.get_data() solve it | Raw body is needed for webhook signatures | construct_event | stripe webhook signatures nginx | payment notifications are refused behind the proxy
Kafka consumer lag | Consumer lag of topic orders.v2 rises to 3 million every night | max.poll.records is 500 but each record calls the geocoder, so the group rebalances / Batched geocoding and lag is below one thousand | Batching the geocoder calls ended the lag | orders.v2 | consumer lag rebalances geocoding | message backlog piling up at night
Dark mode colours | Add dark mode to the settings page | CSS custom properties per theme, prefers-color-scheme as default / The contrast of disabled buttons was 2.9, raised to 4.6 | Dark theme with sufficient contrast | prefers-color-scheme | dark themes contrast button | making the preferences screen easier on the eyes at night
Race in the upload handler | Uploads sometimes overwrite each other, see POL-358 | Both requests compute the same temp name from the timestamp / uuid4 in the name plus O_EXCL, cannot happen any more | Temp names of uploads are unique now | POL-358 | uploads overwrite temp nmae | two people sending a file at once lose one of them
Terraform state locked | terraform apply hangs with Error acquiring the state lock | A cancelled pipeline left the lock row in DynamoDB / force-unlock with the lock id, and the pipeline now traps SIGTERM | Stale state lock released | force-unlock | terraform locks pipeline cancelled | infrastructure rollout stuck because of a leftover
Search relevance for products | Searching shoes shows shoe polish first | Boost the title field, demote accessories with a function_score on category rank / nDCG went from 0.61 to 0.78 on the judged set | Boosted titles in product search | function_score | product boosting relevance titles | wrong items come up first in the shop
Rate limiter for the public API | We need a rate limit per API key on the gateway | Token bucket in Redis with a Lua script, 429 and Retry-After / Burst of 20 and 5 per second for free keys | Token bucket limiter in Redis | Retry-After | rate limits bucket redis | stop customers from hammering our endpoints
iOS crash on launch | The app crashes on launch under iOS 17.4, EXC_BAD_ACCESS in CoreTelephony | The carrier lookup runs off the main thread, CTCarrier is deprecated / Removed the lookup, crash free sessions are back to 99.8 | Removed deprecated carrier lookup | EXC_BAD_ACCESS | ios crashes carrier deprecat | phone application dies when it is opened
Timezone bug in reports | Monthly reports miss the last evening of the month for customers in Auckland | Truncation happens in UTC, must use AT TIME ZONE of the tenant before date_trunc / Backfilled 14 months | Report months follow the tenant's zone | date_trunc | reports tenant timezones auckland | numbers missing at the end of the month down under
Git history cleanup | Someone committed a 900 MB dump, the clone takes forever | git filter-repo --strip-blobs-bigger-than 20M, then everybody has to clone again / Added a pre-receive hook that refuses blobs over 20 MB | Dump removed from the history | filter-repo | clone dump blobs hook | get rid of that giant file in the repository
Websocket reconnect storm | After a deploy 40k clients reconnect within a second and the load balancer dies | Exponential backoff with full jitter in reconnect_delay(), server sends close 1012 with a hint / Peak is 900 connects per second now | Jittered reconnects after deploys | reconnect_delay | websocket reconnects jitter backoff | everybody connecting at the same moment brought it down
Feature flags cleanup | We have 140 feature flags, half of them are dead | Script lists flags that are 100 percent on for 90 days, flag_report.py / Removed 61 flags and their branches | Dead feature flags removed | flag_report.py | flags dead remvoed | getting rid of switches nobody uses
GDPR export | A customer asks for all their data, build an export | One zip with JSON per entity, signed link valid for 7 days / Attachments are streamed, not loaded into memory | Customer data export built | signed link | gdpr exports entity zip | giving a client everything we know about them
Kubernetes probes | Pods are killed during startup, liveness probe failed | Startup takes 70 s because of the warm cache, use a startupProbe with failureThreshold 30 / No restarts in the last rollout | startupProbe instead of a hasty liveness probe | startupProbe | pods killed probes startup | containers restarted before they are ready
Email bounces | Our newsletters land in spam at Outlook | SPF has two records, and DKIM is missing on the new sending domain / DMARC report shows 99 percent aligned now | Mail authentication records repaired | DKIM | newsletter spam spf records | mails do not arrive in the inbox
CSV import encoding | The CSV import garbles umlauts for German customers | Files come as Windows-1252, detect with charset_normalizer and show a preview / Rows with errors are listed with line numbers | Encoding of imports is detected | charset_normalizer | csv imports umlauts windows | special characters broken when customers load their spreadsheets
Rust rewrite of the parser | Evaluate rewriting the log parser in Rust with PyO3 | nom based prototype does 1.2 GB per second, Python 38 MB / Shipping wheels for three platforms with maturin is the main cost | Rust prototype is thirty times faster | maturin | rust parsers prototype wheels | making the log reading faster in another language
Accessibility audit | Run an accessibility audit of the signup form | Labels are missing for three inputs, focus order jumps over the captcha, axe-core reports 11 issues / All fixed but the captcha | Sign-up form audited with axe | axe-core | accessibility labels focus captcha | blind users could not register
Cron job ran twice | The nightly settlement ran twice on the night of the clock change | cron in local time fires twice at 02:30, moved to UTC and an advisory lock / Refunded 212 duplicate payouts | Settlement is idempotent now | advisory lock | settlement nightly twice duplicates | money was paid out two times when summer time ended
GraphQL N plus one | The orders query issues 800 SQL statements | DataLoader per request batches the customers, 800 to 6 statements / Complexity limit of 1000 on the schema | Batched resolvers with DataLoader | DataLoader | graphql statements batches resolver | far too many database calls for one request
Certificate expired | api.internal certificate expired and everything is down | cert-manager could not solve DNS01, the zone token was rotated / Renewed by hand, alert at 20 days | Certificate renewed, alert added | cert-manager | certificates expired token alert | outage because of https
Onboarding docs | Write onboarding docs for new backend developers | make bootstrap installs everything, chapter on the event bus and on-call duties / Two new colleagues tried it, took them 40 minutes | Onboarding guide written | make bootstrap | onboarding guides bootstrap colleague | explaining the setup to new people
Payment provider migration | Move card payments from Adyen to Mollie | Tokens cannot be exported without PCI proof, run both in parallel for 60 days / payment_router decides by merchant | Two payment providers in parallel | payment_router | adyen mollie migrat tokens | switching the company that handles our cards
Elastic disk full | Elasticsearch is read-only, flood stage watermark exceeded | ILM policy never deleted because the alias was wrong, 1.8 TB of logs / Deleted indices older than 30 days, index.blocks removed | Log retention works again | watermark | elasticsearch ilm retention logs | logging cluster ran out of space
Unicode usernames | Usernames with lookalike letters impersonate admins | Normalise with NFKC and check confusables.txt, refuse mixed scripts / 37 accounts renamed | Lookalike user names refused | confusables.txt | usernames lookalike scripts normalise | someone pretending to be one of us with a fake name
PDF invoices blurry | Logos in PDF invoices look blurry when printed | WeasyPrint embeds the PNG at 72 dpi, use the SVG / Printed sample is sharp | Logo embedded as SVG | WeasyPrint | invoices logos blury print | bad print quality of bills
Android push delay | Push notifications arrive an hour late on Android | Normal priority messages wait for Doze, FCM priority high for chats only / Battery complaints did not rise | High priority for chat pushes | FCM | push notifications doze priority | phone alerts come too late
Monorepo build cache | CI takes 48 minutes, most of it rebuilding unchanged packages | Remote cache for Bazel with bazel-remote on S3, hit rate 87 percent / Down to 11 minutes | Remote build cache for CI | bazel-remote | ci cache packages rebuild | pipeline is too slow because it compiles everything
SQL injection report | A researcher reports SQL injection in the export filter | sort_by goes into the statement unescaped, allow list of columns / Bounty paid, no sign of abuse in 90 days of logs | Injection in the sort parameter closed | sort_by | injection researcher filter bounty | security hole somebody told us about
Voice transcription | Transcribe support calls with Whisper | large-v3 on one GPU does 20 times real time, diarisation with pyannote / Word error rate 8 percent on German calls | Support calls are transcribed | pyannote | whisper transcrib calls | turning recorded phone conversations into text
Vim keybindings | Add vim key bindings to the query editor | CodeMirror 6 has @replit/codemirror-vim, escape closes the dialog though / Stopped propagation in normal mode | Vim mode in the query editor | codemirror-vim | vim bindings editor escape | modal editing in our sql window
Shard the users table | users has 900 million rows, plan sharding | Citus with hash on account_id, 32 shards, reference tables for plans / Dual writes for two weeks, then cut over | Users sharded by account | Citus | sharding users rows account | splitting the biggest table
Chaos exercise | Prepare a chaos day for the payments team | Kill a primary database, drop 10 percent of packets, expire a certificate / Failover took 48 seconds, the runbook lacked the VPN step | Game day held, runbook mended | runbook | chaos failover packets primary | practising for when things go wrong
""".strip().splitlines()

SERVICES = (
    "billing",
    "gateway",
    "search",
    "mobile app",
    "warehouse",
    "admin panel",
    "checkout",
    "reports",
    "auth",
    "mailer",
)
EVERYDAY = (
    "Can you look at the {a} in the {s}? I am not sure about the {b}.",
    "Please rename {a} to something that fits {b} better.",
    "Why does the {s} need the {a} at all?",
    "Let us write a test for the {a} and the {b} of the {s}.",
    "The linter complains about {a}, is that a false alarm?",
    "I would move the {a} out of the {s}, next to the {b}.",
    "Summarise what the {s} does with {a}.",
    "Is the {b} still used since we changed the {a}?",
)
REPLIES = (
    "I looked at it: the {a} is fine, but the {b} should be checked before it is used in the {s}.",
    "Done. The change touches three files, all tests of the {s} pass, and the {a} is documented.",
    "There are two ways: keep the {a} as it is, or let the {s} own the {b}. The second one is simpler.",
    "I ran the tests. One of them waits for the {b}, which takes long; the {a} itself is quick.",
    "The {s} reads the {a} once at start, so a change of the {b} needs a restart.",
)
#: How long ago a matter was spoken of, the words for it, and how long ago it was spoken of the other time.
TIMES = (
    (1, "yesterday", 40),
    (3, "3 days ago", 90),
    (2, "last 3 days", 60),
    (9, "last week", 30),
    (35, "last month", 120),
    (75, "in april", 200),
    (12, "since june", 150),
    (150, "before february", 5),
    (2, "on monday", 50),
    (45, "between 2026-05-01 and 2026-05-10", 10),
    (0, "today", 33),
    (20, "a few weeks ago", 100),
    (130, "in february", 20),
    (68, "2026-04-10", 7),
    (400, "last year", 25),
    (1, "since yesterday", 77),
)


def build() -> tuple[list[Chat], list[Asked]]:
    """Return the chats and the questions."""
    generator = random.Random(SEED)
    chats: list[Chat] = []
    asked: list[Asked] = []
    nouns = _nouns()
    for number, line in enumerate(MATTERS):
        label, first, details, summary, exact, partial, vague = (part.strip() for part in line.split(" | "))
        ago, words, other = TIMES[number % len(TIMES)]
        for which, days in (("now", ago), ("then", other)):
            moment = NOW - timedelta(days=days, hours=generator.randint(1, 4))
            if which == "now":
                texts = [("user.message", first), *(("assistant.message", text.strip()) for text in details.split("/"))]
                if number % 3 != 2:
                    texts.append(("checkpoint", summary))
            else:
                # The same matter some other time, told in fewer words.
                texts = [("user.message", f"Once more about this: {_shuffled(label + ' ' + partial, generator)}")]
                texts.append(("assistant.message", f"As said before: {summary.lower()}"))
            chatter = _everyday(generator, nouns, generator.randint(2, 8))
            place = generator.randint(1, len(texts)) if which == "now" else len(texts)
            entries = (*texts[:place], *chatter, *texts[place:])
            named = label if (which == "now" and number % 2 == 0) or (number % 5 == 1 and which == "now") else None
            status = "ended" if generator.random() < 0.5 else "open"
            chats.append(Chat(f"{which}{number}", named, status, moment, tuple(entries)))
        is_for_tuning = number % 2 == 0
        for group, text in (("exact", exact), ("partial", partial), ("vague", vague)):
            asked.append(Asked(text, group, f"now{number}", is_for_tuning))
        asked.append(Asked(f"{' '.join(partial.split()[:2])} {words}", "time-bounded", f"now{number}", is_for_tuning))
    for number in range(FILLERS):
        moment = NOW - timedelta(days=generator.random() * 500)
        entries = tuple(_everyday(generator, nouns, generator.randint(4, 16)))
        label = f"{generator.choice(nouns)} and {generator.choice(nouns)}" if generator.random() < 0.4 else None
        chats.append(Chat(f"other{number}", label, "ended" if number % 2 else "open", moment, entries))
    generator.shuffle(chats)
    return chats, asked


def _nouns() -> list[str]:
    """Return the plain words of all matters: what everybody speaks of, in other connections; no identifiers."""
    exact = {word.lower() for line in MATTERS for word in line.split(" | ")[4].split()}
    words = {
        word.strip(".,?():").lower() for line in MATTERS for part in line.split(" | ")[:3] for word in part.split()
    }
    return sorted(word for word in words if word.isalpha() and len(word) > 3 and word not in exact)


def _everyday(generator: random.Random, nouns: list[str], pairs: int) -> list[tuple[str, str]]:
    entries = []
    for _ in range(pairs):
        for kind, templates in (("user.message", EVERYDAY), ("assistant.message", REPLIES)):
            values = {"a": generator.choice(nouns), "b": generator.choice(nouns), "s": generator.choice(SERVICES)}
            entries.append((kind, generator.choice(templates).format(**values)))
    return entries


def _shuffled(text: str, generator: random.Random) -> str:
    words = text.split()
    generator.shuffle(words)
    return " ".join(words)
