"""Words that say when: "yesterday", "last 3 days", "since june", "between 2026-01-01 and march". Pure.

Each phrase becomes a span of time in the asker's own time zone. A word that may mean something else ("may", "march",
a weekday, a number) counts only with a word before it that makes it a time. Everything looks back: a month or a
weekday is the last one that has begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

#: Days that "recently" goes back.
RECENT_DAYS: Final = 14
#: Largest number before a unit that is taken at its word.
MAX_COUNT: Final = 9_999

_MONTH_NAMES = "january february march april may june july august september october november december"
_DAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday"
_NUMBER_NAMES = "one two three four five six seven eight nine ten"
_MONTHS, _DAYS = _MONTH_NAMES.split(), _DAY_NAMES.split()
_NUMBERS = {word: number for number, word in enumerate(_NUMBER_NAMES.split(), 1)}
_NUMBERS |= {"a": 1, "an": 1, "twelve": 12}
_PARTS: Final = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
_UNIT = r"(?:minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?)"
_COUNT = rf"(?:\d{{1,4}}|{'|'.join(_NUMBERS)})"
_MONTH = r"(?:" + "|".join(f"{name[:3]}(?:{name[3:]})?" if len(name) > 3 else name for name in _MONTHS) + r"|sept)\.?"
_DAY = r"(?:" + "|".join(f"{name}|{name[:3]}" for name in _DAYS) + r"|tues|thurs)"
_YEAR = r"(?:19|20)\d\d"
_CLOCK = r"(?:\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]m)?|\d{1,2}\s?[ap]m)"
_ISO = rf"{_YEAR}-\d\d(?:-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?(?:z|[+-]\d\d:\d\d)?)?)?"
_ORDINAL = r"(?:the\s+)?\d{1,2}(?:st|nd|rd|th)?"
_DATE = rf"(?:{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+{_YEAR})?|{_ORDINAL}\s+(?:of\s+)?{_MONTH}(?:\s+{_YEAR})?)"
_AGO = rf"(?:(?:a\s+)?few|(?:a\s+)?couple(?:\s+of)?|{_COUNT})\s+{_UNIT}\s+ago"
_RELATIVE = rf"(?:the\s+)?day\s+before\s+yesterday|yesterday|today|tonight|(?:this|last)\s+(?:week|month|year|{_DAY})"
#: What is a time wherever it stands.
_PLAIN = rf"{_RELATIVE}|{_AGO}|{_ISO}|{_DATE}|{_MONTH}\s+{_YEAR}"
#: What is a time behind a word that says so.
_POINT = rf"(?:{_PLAIN}|(?:last\s+)?{_MONTH}|{_DAY}|{_YEAR}|{_CLOCK}|\d{{1,2}}/\d{{1,2}}/\d{{2,4}})"
_PART = rf"(?:\s+(?:{'|'.join(_PARTS)}))?"
_AT = rf"(?:\s+(?:at|around)\s+{_CLOCK})?"
_WHEN = rf"{_POINT}{_PART}{_AT}"
_LAST = rf"(?:in\s+|within\s+|over\s+|during\s+)?(?:the\s+)?(?:last|past)\s+(?:(?:few|couple\s+of|{_COUNT})\s+)?{_UNIT}"

_GRAMMAR: Final = re.compile(
    r"(?<![\w\"'./-])(?:"
    rf"between\s+(?P<low>{_WHEN})\s+and\s+(?P<high>{_WHEN})"
    rf"|from\s+(?P<start>{_WHEN})\s+(?:to|until|till)\s+(?P<end>{_WHEN})"
    rf"|(?:ever\s+)?since\s+(?P<since>{_WHEN})"
    rf"|(?:before|until|till)\s+(?P<before>{_WHEN})"
    rf"|after\s+(?P<after>{_WHEN})"
    rf"|(?P<last>{_LAST})"
    rf"|(?:on|in|during|from|at|around)\s+(?P<on>{_WHEN})"
    rf"|this\s+(?P<part>{'|'.join(_PARTS)})"
    rf"|(?P<plain>(?:{_PLAIN}){_PART}{_AT})"
    r"|(?P<recent>recently|lately)"
    r")(?![\w\"'/-]|\.\w)",
    re.IGNORECASE,
)
_Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time.

    Parameters
    ----------
    start, end
        In UTC; the end is not part of it. None: open.
    phrase
        The words it was made of.
    """

    start: datetime | None
    end: datetime | None
    phrase: str

    def meet(self, other: Window) -> Window:
        """Return what both have in common; it may be nothing."""
        starts = [moment for moment in (self.start, other.start) if moment is not None]
        ends = [moment for moment in (self.end, other.end) if moment is not None]
        phrase = f"{self.phrase}, {other.phrase}"
        return Window(max(starts) if starts else None, min(ends) if ends else None, phrase)


def find_window(text: str, now: datetime, zone: tzinfo | None) -> tuple[Window | None, str]:
    """Return the span of time that a text speaks of, and the text without the words that say so.

    Parameters
    ----------
    now
        The present, with its offset.
    zone
        The asker's time zone; None: the machine's.
    """
    calendar = _Calendar(now, zone)
    window: Window | None = None
    kept, place = [], 0
    for match in _GRAMMAR.finditer(text):
        found = _window_of(match, calendar)
        if found is None:
            continue
        kept.append(text[place : match.start()])
        place = match.end()
        window = found if window is None else window.meet(found)
    return window, " ".join([*kept, text[place:]])


class _Calendar:
    """Days and hours where the asker is. Times in here have no zone; they are the asker's."""

    def __init__(self, now: datetime, zone: tzinfo | None) -> None:
        self.zone = zone
        self.now = now.astimezone(zone).replace(tzinfo=None)
        self.today = self.now.replace(hour=0, minute=0, second=0, microsecond=0)

    def utc(self, moment: datetime) -> datetime:
        # Without a zone Python takes the machine's, as it was on that day.
        local = moment if self.zone is None else moment.replace(tzinfo=self.zone)
        return local.astimezone(UTC)

    def day(self, back: int) -> _Span:
        start = self.today - timedelta(days=back)
        return start, start + timedelta(days=1)

    def month(self, year: int, month: int) -> _Span:
        start = datetime(year, month, 1)  # noqa: DTZ001 - the asker's own time
        return start, (start + timedelta(days=32)).replace(day=1)

    def months_ago(self, count: int) -> _Span:
        number = self.now.year * 12 + self.now.month - 1 - count
        return self.month(number // 12, number % 12 + 1)


def _window_of(match: re.Match[str], calendar: _Calendar) -> Window | None:
    (name,) = [key for key in ("low", "start", *_OPEN, "last", "on", "part", "plain", "recent") if match[key]]
    try:
        if name in ("low", "start"):
            first, last = _when(match[name], calendar), _when(match["high" if name == "low" else "end"], calendar)
            if first[0] >= last[1]:
                # "from monday to wednesday" on a wednesday: the monday before the wednesday that is meant.
                first = _earlier(first, match[name])
            spans = (min(first[0], last[0]), max(first[1], last[1]))
        elif name in _OPEN:
            return _open(name, _when(match[name], calendar), match.group(), calendar)
        elif name == "recent":
            spans = (calendar.today - timedelta(days=RECENT_DAYS), calendar.now + timedelta(days=1))
        elif name == "last":
            spans = _last(match[name].lower(), calendar)
        elif name == "part":
            spans = _part(calendar.day(0), match[name].lower())
        else:
            spans = _when(match[name], calendar)
        return Window(calendar.utc(spans[0]), calendar.utc(spans[1]), match.group())
    except (ValueError, OverflowError):
        return None  # the 31st of june: words like others


_OPEN: Final = ("since", "before", "after")


def _open(name: str, span: _Span, phrase: str, calendar: _Calendar) -> Window:
    if name == "before":
        return Window(None, calendar.utc(span[0]), phrase)
    return Window(calendar.utc(span[0] if name == "since" else span[1]), None, phrase)


def _earlier(span: _Span, words: str) -> _Span:
    if re.search(_DAY, words, re.IGNORECASE) and not re.search(r"\d", words):
        return span[0] - timedelta(days=7), span[1] - timedelta(days=7)
    return span[0].replace(year=span[0].year - 1), span[1].replace(year=span[1].year - 1)


def _last(words: str, calendar: _Calendar) -> _Span:
    """Return the span of "last 3 days": whole days from the first on, up to now."""
    found = re.search(rf"({_COUNT}|few|couple\s+of)?\s*({_UNIT})$", words)
    if found is None:
        raise ValueError(words)
    amount, unit = found[1], found[2]
    if amount is None and not unit.endswith("s"):
        return _relative(f"last {unit}", calendar) or calendar.day(0)
    count = _count(amount or "few", few=7 if unit.startswith("day") else 3)
    return _back(calendar, count, unit), calendar.now + timedelta(days=1)


def _back(calendar: _Calendar, count: int, unit: str) -> datetime:
    if unit.startswith("m") and not unit.startswith("mo"):
        return calendar.now - timedelta(minutes=count)
    if unit.startswith("h"):
        return calendar.now - timedelta(hours=count)
    days = {"d": 1, "w": 7, "m": 30, "y": 365}[unit[0]]
    return calendar.today - timedelta(days=count * days)


def _count(word: str, *, few: int) -> int:
    plain = word.strip().lower()
    if plain.isdigit():
        return int(plain)
    return 2 if "couple" in plain else few if "few" in plain else _NUMBERS[plain]


def _when(words: str, calendar: _Calendar) -> _Span:
    """Return the span of one point in time, with the part of the day or the hour that is named with it."""
    text = " ".join(words.lower().split())
    hour = re.search(rf"\s(?:at|around)\s({_CLOCK})$", text)
    text = text if hour is None else text[: hour.start()]
    part = re.search(rf"\s({'|'.join(_PARTS)})$", text)
    text = text if part is None else text[: part.start()]
    span = _point(text, calendar)
    if part is not None:
        span = _part(span, part[1])
    if hour is not None:
        start = span[0].replace(hour=0, minute=0) + _of_clock(hour[1])
        span = (start - timedelta(minutes=30), start + timedelta(hours=1))
    return span


def _part(span: _Span, name: str) -> _Span:
    first, last = _PARTS[name]
    return span[0] + timedelta(hours=first), span[0] + timedelta(hours=last)


def _of_clock(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,2})(?::(\d\d))?(?::\d\d)?\s?([ap]m)?", text)
    if found is None:
        raise ValueError(text)
    hour = int(found[1])
    if found[3]:
        hour = hour % 12 + (12 if found[3] == "pm" else 0)
    if hour > 23:
        raise ValueError(text)
    return timedelta(hours=hour, minutes=int(found[2] or 0))


def _point(text: str, calendar: _Calendar) -> _Span:
    for read in _READERS:
        found = read(text, calendar)
        if found is not None:
            return found
    return _by_library(text, calendar)


def _relative(text: str, calendar: _Calendar) -> _Span | None:
    today = calendar.today
    monday = today - timedelta(days=today.weekday())
    year = today.replace(month=1, day=1)
    spans: dict[str, _Span] = {
        "today": calendar.day(0),
        "tonight": _part(calendar.day(0), "night"),
        "yesterday": calendar.day(1),
        "day before yesterday": calendar.day(2),
        "this week": (monday, monday + timedelta(days=7)),
        "last week": (monday - timedelta(days=7), monday),
        "this month": calendar.months_ago(0),
        "last month": calendar.months_ago(1),
        "this year": (year, year.replace(year=year.year + 1)),
        "last year": (year.replace(year=year.year - 1), year),
        "last day": (today - timedelta(days=1), calendar.now),
        "last hour": (calendar.now - timedelta(hours=1), calendar.now),
        "last minute": (calendar.now - timedelta(minutes=1), calendar.now),
    }
    return spans.get(text.removeprefix("the "))


def _ago(text: str, calendar: _Calendar) -> _Span | None:
    """Return the span of "3 weeks ago": one unit around it; of one or two days ago just the day."""
    found = re.fullmatch(rf"(.+?)\s+({_UNIT})\s+ago", text)
    if found is None:
        return None
    amount, unit = found[1], found[2]
    if "few" in amount or "couple" in amount:
        most = 7 if "few" in amount else 3
        return _back(calendar, most, unit), _back(calendar, 1, unit) + timedelta(days=unit.startswith("d"))
    count = _count(amount, few=3)
    if unit.startswith("d"):
        spread = 0 if count < 3 else 1
        return calendar.day(count + spread)[0], calendar.day(count - spread)[1]
    if unit.startswith(("w", "mo", "y")):
        half = {"w": 4, "m": 16, "y": 183}[unit[0]]
        middle = _back(calendar, count, unit)
        return middle - timedelta(days=half), middle + timedelta(days=half)
    width = timedelta(hours=1) if unit.startswith("h") else timedelta(minutes=max(5, count // 4))
    middle = _back(calendar, count, unit)
    return middle - width, middle + width


def _iso(text: str, calendar: _Calendar) -> _Span | None:
    if re.fullmatch(rf"{_YEAR}-\d\d", text):
        return calendar.month(int(text[:4]), int(text[5:]))
    if re.fullmatch(_YEAR, text):
        start = datetime(int(text), 1, 1)  # noqa: DTZ001 - the asker's own time
        return start, start.replace(year=start.year + 1)
    if not re.fullmatch(_ISO, text):
        return None
    moment = datetime.fromisoformat(text.upper())
    if len(text) == len("2026-01-01"):
        return moment, moment + timedelta(days=1)
    if moment.tzinfo is not None:
        moment = moment.astimezone(calendar.zone).replace(tzinfo=None)
    return moment, moment + timedelta(minutes=1)


def _month_or_date(text: str, calendar: _Calendar) -> _Span | None:
    plain = re.sub(r"\b(last|the|of)\s+|,", "", text)
    found = re.fullmatch(rf"({_MONTH})(?:\s+(\d{{1,2}})(?:st|nd|rd|th)?)?(?:\s+({_YEAR}))?", plain)
    if found is None:
        other = re.fullmatch(rf"(\d{{1,2}})(?:st|nd|rd|th)?\s+({_MONTH})(?:\s+({_YEAR}))?", plain)
        if other is None:
            return None
        name, day, year = other[2], other[1], other[3]
    else:
        name, day, year = found[1], found[2], found[3]
    month = next(number for number, known in enumerate(_MONTHS, 1) if known.startswith(name[:3]))
    chosen = int(year) if year else calendar.now.year
    start = datetime(chosen, month, int(day or 1))  # noqa: DTZ001 - the asker's own time
    if year is None and start > calendar.now:
        start = start.replace(year=chosen - 1)
    return (start, start + timedelta(days=1)) if day else calendar.month(start.year, month)


def _weekday(text: str, calendar: _Calendar) -> _Span | None:
    found = re.fullmatch(rf"(?:(this|last)\s+)?({_DAY})", text)
    if found is None:
        return None
    wanted = next(number for number, known in enumerate(_DAYS) if known.startswith(found[2][:3]))
    back = (calendar.today.weekday() - wanted) % 7
    return calendar.day(7 if back == 0 and found[1] != "this" else back)


def _clock(text: str, calendar: _Calendar) -> _Span | None:
    if not re.fullmatch(_CLOCK, text):
        return None
    start = calendar.today + _of_clock(text)
    start -= timedelta(days=start > calendar.now)
    return start - timedelta(minutes=30), start + timedelta(hours=1)


_READERS: Final[tuple[Callable[[str, _Calendar], _Span | None], ...]] = (
    _relative,
    _ago,
    _iso,
    _weekday,
    _month_or_date,
    _clock,
)


def _by_library(text: str, calendar: _Calendar) -> _Span:
    """Return the day that dateparser reads; it is asked last: importing it takes longer than any search."""
    import dateparser

    settings = {"PREFER_DATES_FROM": "past", "RELATIVE_BASE": calendar.now, "RETURN_AS_TIMEZONE_AWARE": False}
    found = dateparser.parse(text, languages=["en"], settings=settings)
    if found is None:
        raise ValueError(text)
    start = found.replace(hour=0, minute=0, second=0, microsecond=0)
    return start, start + timedelta(days=1)


def phrases(text: str) -> Iterator[str]:
    """Yield what of a text may say when; for tests of the grammar."""
    for match in _GRAMMAR.finditer(text):
        yield match.group()
