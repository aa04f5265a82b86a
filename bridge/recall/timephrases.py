"""Words that say when: "yesterday", "last 3 days", "since june", "between 2026-01-01 and march". Pure.

Each phrase becomes a span of time in the asker's own time zone. A word that may mean something else ("may", "march",
a weekday, a number) counts only with a word before it that makes it a time. Everything looks back: a month is the last
one that has begun, a weekday the last one before today.

Days and months are those of the calendar. Where a time of day is named it is that of the clock on the wall; where
hours are counted they are real ones: two hours ago is two hours ago also if the clocks were changed meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

#: Days that "recently" goes back.
RECENT_DAYS: Final = 14
#: Largest number before a unit that is taken at its word.
MAX_COUNT: Final = 9_999
#: A year by itself is a time from this one on, up to the present one: "in 2048 bytes" speaks of none.
FIRST_YEAR: Final = 2015
#: How far from a time of day lies what was said about then.
BEFORE_CLOCK: Final = timedelta(minutes=30)
AFTER_CLOCK: Final = timedelta(hours=1)

_MONTH_NAMES = "january february march april may june july august september october november december"
_DAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday"
_NUMBER_NAMES = "one two three four five six seven eight nine ten"
_MONTHS, _DAYS = _MONTH_NAMES.split(), _DAY_NAMES.split()
_NUMBERS = {word: number for number, word in enumerate(_NUMBER_NAMES.split(), 1)}
_NUMBERS |= {"a": 1, "an": 1, "twelve": 12}
_PARTS: Final = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
_CLOCK_WORDS: Final = {"noon": 12, "midnight": 0}
_PART_NAMES = "|".join(_PARTS)
_UNIT = r"(?:minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?)"
_COUNTED = rf"(?:\d{{1,4}}\s*(?:{_UNIT}|[hdw])|(?:{'|'.join(_NUMBERS)})\s+{_UNIT})"
_MONTH = r"(?:" + "|".join(f"{name[:3]}(?:{name[3:]})?" if len(name) > 3 else name for name in _MONTHS) + r"|sept)\.?"
_FULL_MONTH = r"(?:" + "|".join(name for name in _MONTHS if name != "may") + ")"
_SHORT_DAY = r"(?:" + "|".join(name[:3] for name in _DAYS) + r"|tues|thurs)"
_FULL_DAY = r"(?:" + "|".join(_DAYS) + ")"
_DAY = rf"(?:{_FULL_DAY}|{_SHORT_DAY})"
_YEAR = r"(?:19|20)\d\d"
_CLOCK = rf"(?:\d{{1,2}}:\d\d(?::\d\d)?(?:\s?[ap]m)?|\d{{1,2}}\s?[ap]m|{'|'.join(_CLOCK_WORDS)})"
_TIME = r"[t ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:z|[+-]\d\d:?\d\d)?"
_ISO = rf"(?:{_YEAR}-\d\d-\d\d{_TIME}|{_YEAR}-\d{{1,2}}-\d{{1,2}}|{_YEAR}/\d{{1,2}}/\d{{1,2}}|{_YEAR}-\d\d)"
_NTH = r"(?:st|nd|rd|th)?"
_DATE = (
    rf"(?:{_MONTH}\s+\d{{1,2}}{_NTH}(?:,?\s+{_YEAR})?|(?:the\s+)?\d{{1,2}}{_NTH}\s+(?:of\s+)?{_MONTH}(?:\s+{_YEAR})?)"
)
_AGO = rf"(?:half\s+an\s+hour|(?:(?:a\s+)?few|(?:a\s+)?couple(?:\s+of)?)\s+{_UNIT}|{_COUNTED})\s+ago"
_RELATIVE = (
    r"(?:the\s+)?day\s+before\s+yesterday|yesterday|(?:earlier\s+)?today|tonight|last\s+night"
    rf"|this\s+(?:{_PART_NAMES})|(?:this|last)\s+(?:week|weekend|month|year|{_DAY})"
)
#: What is a time wherever it stands.
_PLAIN = (
    rf"{_RELATIVE}|{_AGO}|{_ISO}|{_DATE}|{_MONTH}\s+{_YEAR}|last\s+{_FULL_MONTH}|{_FULL_DAY}(?=\s+(?:{_PART_NAMES})\b)"
)
#: What is a time behind a word that says so.
_POINT = rf"(?:{_PLAIN}|(?:last\s+)?{_MONTH}|{_DAY}|{_YEAR}|{_CLOCK}|\d{{1,2}}/\d{{1,2}}/\d{{2,4}})"
_PART = rf"(?:\s+(?:{_PART_NAMES}))?"
_AT = rf"(?:\s+(?:at|around)\s+{_CLOCK})?"
_WHEN = rf"{_POINT}{_PART}{_AT}"
_LAST = (
    r"(?:(?:in|within|over|during)\s+)?(?:the\s+)?(?:last|past)\s+"
    rf"(?:(?:few|couple\s+of)\s+{_UNIT}|{_COUNTED}|hour|days?|weeks?|months?|years?|hours|hrs|minutes|mins)"
)
#: "from sun to oracle" and "at 2000 rows" speak of no time.
_NO_TIME = rf"(?!\s+{_SHORT_DAY}\b)(?!\s+{_YEAR}(?![\w/-]))"

_GRAMMAR: Final = re.compile(
    r"(?<![\w\"'./-])(?:"
    rf"between\s+(?P<low>{_WHEN})\s+and\s+(?P<high>{_WHEN})"
    rf"|from\s+(?P<start>{_WHEN})\s+(?:to|until|till)\s+(?P<end>{_WHEN})"
    rf"|(?:ever\s+)?since\s+(?P<since>{_WHEN})"
    rf"|before\s+(?P<before>{_WHEN})"
    rf"|(?:until|till)\s+(?P<until>{_WHEN})"
    rf"|after\s+(?P<after>{_WHEN})"
    rf"|(?:on|(?:in|during|from)(?!\s+{_SHORT_DAY}\b)|(?:at|around){_NO_TIME})\s+(?P<on>{_WHEN})"
    rf"|(?P<plain>(?:{_PLAIN}){_PART}{_AT})"
    rf"|(?P<last>{_LAST})"
    r"|(?P<recent>recently|lately)"
    r")(?![\w\"'/-]|\.\w|[:+]\d)",
    re.IGNORECASE,
)
#: Spans of which what both ends share is said once, and how they read if it is said twice.
_TO = r"\s+(and|to|until|till)\s+"
_SHORTENED: Final = tuple(
    (re.compile(rf"\b(between|from)\s+{words}", re.IGNORECASE), whole)
    for words, whole in (
        (rf"(\d{{1,2}}{_NTH}){_TO}(\d{{1,2}}{_NTH})\s+({_MONTH})(?!\w)", r"\1 \2 \5 \3 \4 \5"),
        (rf"({_MONTH})\s+(\d{{1,2}}{_NTH}){_TO}(\d{{1,2}}{_NTH})(?!\w)", r"\1 \2 \3 \4 \2 \5"),
        (rf"(\d{{1,2}}){_TO}(\d{{1,2}})\s?([ap]m)(?!\w)", r"\1 \2\5 \3 \4\5"),
    )
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
        """Return what both have in common; if that is nothing, what lies within either and between them."""
        starts = [moment for moment in (self.start, other.start) if moment is not None]
        ends = [moment for moment in (self.end, other.end) if moment is not None]
        start, end = max(starts, default=None), min(ends, default=None)
        if start is not None and end is not None and start >= end and len(starts) == len(ends) == 2:
            return self.join(other)  # "today, or was it yesterday"
        return Window(start, end, f"{self.phrase}, {other.phrase}")

    def join(self, other: Window) -> Window:
        """Return what lies within either or between them."""
        starts = [moment for moment in (self.start, other.start) if moment is not None]
        ends = [moment for moment in (self.end, other.end) if moment is not None]
        start = min(starts) if len(starts) == 2 else None
        return Window(start, max(ends) if len(ends) == 2 else None, f"{self.phrase}, {other.phrase}")


def find_window(text: str, now: datetime, zone: tzinfo | None) -> tuple[Window | None, str]:
    """Return the span of time that a text speaks of, and the text without the words that say so.

    Parameters
    ----------
    now
        The present, with its offset.
    zone
        The asker's time zone; None: the machine's.
    """
    for pattern, whole in _SHORTENED:
        text = pattern.sub(whole, text)
    matches = list(_GRAMMAR.finditer(text))
    calendar = _Calendar(now, zone)
    windows = [None if _is_clock(match) else _window_of(match, calendar) for match in matches]
    # A time of day belongs to the day that is named beside it: "yesterday between 9am and 11am".
    others = [one for one in windows if one is not None]
    days = [calendar.local(one.start) for one in others if one.start and calendar.is_day(one)]
    calendar.named_day = days[0].replace(hour=0, minute=0) if days else None
    window: Window | None = None
    kept, place = [], 0
    for match, known in zip(matches, windows, strict=True):
        found = _window_of(match, calendar) if _is_clock(match) else known
        if found is None:
            continue
        between = text[place : match.start()]
        kept.append(between)
        place = match.end()
        if _is_clock(match) and others and not days:
            continue  # an hour of no certain day: "at 5pm last week"
        if window is None:
            window = found
        else:
            window = window.join(found) if between.strip().lower() == "or" else window.meet(found)
    return window, " ".join([*kept, text[place:]])


class _Calendar:
    """Days and hours where the asker is. Times without a zone in here are the asker's."""

    def __init__(self, now: datetime, zone: tzinfo | None) -> None:
        self.zone = zone
        self.instant = now.astimezone(UTC)
        self.now = self.local(now)
        self.today = self.now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        #: The day that times of day are of; None: today, or the day before if they are still to come.
        self.named_day: datetime | None = None

    def local(self, moment: datetime) -> datetime:
        return moment.astimezone(self.zone).replace(tzinfo=None)

    def utc(self, moment: datetime) -> datetime:
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
        # Without a zone Python takes the machine's, as it was on that day.
        local = moment if self.zone is None else moment.replace(tzinfo=self.zone)
        return local.astimezone(UTC)

    def is_day(self, window: Window) -> bool:
        """Return whether a window is about one day, or a part of it."""
        if window.start is None or window.end is None:
            return False
        return window.end - window.start <= timedelta(hours=25)

    def day(self, back: int) -> _Span:
        start = self.today - timedelta(days=back)
        return start, start + timedelta(days=1)

    def month(self, year: int, month: int) -> _Span:
        start = datetime(year, month, 1)  # noqa: DTZ001 - the asker's own time
        return start, (start + timedelta(days=32)).replace(day=1)

    def months_ago(self, count: int) -> _Span:
        number = self.now.year * 12 + self.now.month - 1 - count
        return self.month(number // 12, number % 12 + 1)


_OPEN: Final = ("since", "before", "until", "after")
_ENDS: Final = {"low": "high", "start": "end"}


def _parts_of(match: re.Match[str]) -> tuple[str, str]:
    """Return which alternative of the grammar a match is, and its words."""
    (name,) = [key for key in (*_ENDS, *_OPEN, "last", "on", "plain", "recent") if match[key]]
    return name, match[name]


def _is_clock(match: re.Match[str]) -> bool:
    """Return whether words name nothing but a time of day."""
    name, words = _parts_of(match)
    ends = (words, match[_ENDS[name]]) if name in _ENDS else (words,)
    return all(re.fullmatch(_CLOCK, end, re.IGNORECASE) for end in ends)


def _window_of(match: re.Match[str], calendar: _Calendar) -> Window | None:
    name, words = _parts_of(match)
    try:
        if name in _ENDS:
            spans = _between(words, match[_ENDS[name]], calendar, is_clock=_is_clock(match))
        elif name in _OPEN:
            return _open(name, words, match.group(), calendar)
        elif name == "recent":
            spans = (calendar.today - timedelta(days=RECENT_DAYS), calendar.now + timedelta(days=1))
        elif name == "last":
            spans = _last(" ".join(words.lower().split()), calendar)
        else:
            spans = _when(words, calendar)
        return Window(calendar.utc(spans[0]), calendar.utc(spans[1]), match.group())
    except (ValueError, OverflowError):
        return None  # the 31st of june: words like others


def _between(low: str, high: str, calendar: _Calendar, *, is_clock: bool) -> _Span:
    if is_clock:
        day = calendar.named_day or calendar.today
        start, end = day + _of_clock(low), day + _of_clock(high)
        end += timedelta(days=end <= start)
        back = timedelta(days=calendar.named_day is None and start > calendar.now)
        return start - back, end - back
    first, last = _utc(_when(low, calendar), calendar), _utc(_when(high, calendar), calendar)
    if first[0] >= last[1]:
        # "from monday to wednesday" on a wednesday: the monday before the wednesday that is meant.
        first = _earlier(first, low, calendar)
    return min(first[0], last[0]), max(first[1], last[1])


def _utc(span: _Span, calendar: _Calendar) -> _Span:
    return calendar.utc(span[0]), calendar.utc(span[1])


def _open(name: str, words: str, phrase: str, calendar: _Calendar) -> Window:
    span = _when(words, calendar)
    if name == "since":
        return Window(calendar.utc(span[0]), None, phrase)
    if re.search(rf"(?<![\w:]){_CLOCK}$", words, re.IGNORECASE) and not re.match(_YEAR, words):
        span = (span[0] + BEFORE_CLOCK, span[1] - AFTER_CLOCK)  # not before about then, but before then
    if name == "after":
        return Window(calendar.utc(span[1]), None, phrase)
    return Window(None, calendar.utc(span[0] if name == "before" else span[1]), phrase)


def _earlier(span: _Span, words: str, calendar: _Calendar) -> _Span:
    """Return the span that words mean if it must lie before another one: a week before, or a year, or the same."""
    text = words.lower()
    start, end = calendar.local(span[0]), calendar.local(span[1])
    if re.match(rf"{_DAY}\b", text):
        return _utc((start - timedelta(days=7), end - timedelta(days=7)), calendar)
    if re.search(rf"\b{_MONTH}(?!\w)", text) and not re.search(_YEAR, text):
        return _utc((start.replace(year=start.year - 1), end.replace(year=end.year - 1)), calendar)
    return span  # said the other way round


def _last(words: str, calendar: _Calendar) -> _Span:
    """Return the span of "last 3 days": whole days from the first on, up to now."""
    found = re.search(r"(?:last|past) (.*)$", words)
    if found is None:
        raise ValueError(words)
    amount, unit = _amount(found[1])
    whole = None if words != f"last {unit}" else _relative(words, calendar)
    if whole is not None:
        return whole
    if not amount and unit.endswith("s"):
        amount = "few"
    count = _count(amount or "a", few=7 if unit.startswith("day") else 3)
    return _back(calendar, count, unit), calendar.now + timedelta(days=1)


def _amount(words: str) -> tuple[str, str]:
    """Return how many, and of which unit; the first is empty if it is not said."""
    found = re.fullmatch(rf"(?:(\d+|[a-z]+(?: of)?|a (?:few|couple(?: of)?)) ?)??({_UNIT}|[hdw])", words)
    if found is None:
        raise ValueError(words)
    return found[1] or "", found[2]


def _back(calendar: _Calendar, count: int, unit: str) -> datetime:
    if unit.startswith("m") and not unit.startswith("mo"):
        return calendar.instant - timedelta(minutes=count)
    if unit.startswith("h"):
        return calendar.instant - timedelta(hours=count)
    days = {"d": 1, "w": 7, "m": 30, "y": 365}[unit[0]]
    return calendar.today - timedelta(days=count * days)


def _count(word: str, *, few: int) -> int:
    if word.isdigit():
        return int(word)
    return 2 if "couple" in word else few if "few" in word else _NUMBERS[word]


def _when(words: str, calendar: _Calendar) -> _Span:
    """Return the span of one point in time, with the part of the day or the hour that is named with it."""
    text = " ".join(words.lower().split())
    hour = re.search(rf"\s(?:at|around)\s({_CLOCK})$", text)
    text = text if hour is None else text[: hour.start()]
    part = re.search(rf"\s({_PART_NAMES})$", text) if not re.match(r"(?:this|last)\s\w+$", text) else None
    text = text if part is None else text[: part.start()]
    span = _point(text, calendar)
    if hour is None and part is None:
        return span
    days_ago = re.fullmatch(r"(.+) (days?|d) ago", text)
    if days_ago and not re.search("few|couple", text):
        span = calendar.day(_count(days_ago[1], few=1))  # the hour is of that very day
    if span[0].tzinfo is not None or span[1] - span[0] > timedelta(days=1):
        return span  # an hour of no certain day
    if part is not None:
        span = _part(span, part[1])
    if hour is not None:
        start = span[0].replace(hour=0, minute=0) + _of_clock(hour[1])
        span = (start - BEFORE_CLOCK, start + AFTER_CLOCK)
    return span


def _part(span: _Span, name: str) -> _Span:
    first, last = _PARTS[name]
    return span[0] + timedelta(hours=first), span[0] + timedelta(hours=last)


def _of_clock(text: str) -> timedelta:
    plain = text.lower()
    if plain in _CLOCK_WORDS:
        return timedelta(hours=_CLOCK_WORDS[plain])
    found = re.fullmatch(r"(\d{1,2})(?::([0-5]\d))?(?::[0-5]\d)?\s?([ap]m)?", plain)
    if found is None:
        raise ValueError(text)
    hour, minute = int(found[1]), int(found[2] or 0)
    if hour > 23 or (found[3] and not 1 <= hour <= 12):
        raise ValueError(text)
    if found[3]:
        hour = hour % 12 + (12 if found[3] == "pm" else 0)
    return timedelta(hours=hour, minutes=minute)


def _point(text: str, calendar: _Calendar) -> _Span:
    for read in _READERS:
        found = read(text, calendar)
        if found is not None:
            return found
    return _by_library(text, calendar)


def _relative(text: str, calendar: _Calendar) -> _Span | None:
    today = calendar.today
    monday = today - timedelta(days=today.weekday())
    saturday = monday + timedelta(days=5)
    year = today.replace(month=1, day=1)
    spans: dict[str, _Span] = {
        "today": calendar.day(0),
        "tonight": _part(calendar.day(0), "night"),
        "last night": _part(calendar.day(1), "night"),
        "yesterday": calendar.day(1),
        "day before yesterday": calendar.day(2),
        "this week": (monday, monday + timedelta(days=7)),
        "last week": (monday - timedelta(days=7), monday),
        "this weekend": (saturday, saturday + timedelta(days=2)),
        "last weekend": (saturday - timedelta(days=7), saturday - timedelta(days=5)),
        "this month": calendar.months_ago(0),
        "last month": calendar.months_ago(1),
        "this year": (year, year.replace(year=year.year + 1)),
        "last year": (year.replace(year=year.year - 1), year),
        "last hour": (calendar.instant - timedelta(hours=1), calendar.instant),
    }
    spans |= {f"this {part}": _part(calendar.day(0), part) for part in _PARTS}
    return spans.get(text.removeprefix("the ").removeprefix("earlier "))


def _ago(text: str, calendar: _Calendar) -> _Span | None:
    """Return the span of "3 weeks ago": one unit around it; of one or two days ago just the day."""
    found = re.fullmatch(r"(.+) ago", text)
    if found is None:
        return None
    amount, unit = ("30", "minutes") if found[1] == "half an hour" else _amount(found[1])
    if "few" in amount or "couple" in amount:
        most = 7 if "few" in amount else 3
        return _back(calendar, most, unit), _back(calendar, 1, unit) + timedelta(days=unit.startswith("d"))
    count = _count(amount, few=3)
    if unit.startswith("d"):
        spread = 0 if count < 3 else 1
        return calendar.day(count + spread)[0], calendar.day(count - spread)[1]
    middle = _back(calendar, count, unit)
    if unit.startswith(("w", "mo", "y")):
        half = {"w": 4, "m": 16, "y": 183}[unit[0]]
        return middle - timedelta(days=half), middle + timedelta(days=half)
    width = timedelta(hours=1) if unit.startswith("h") else timedelta(minutes=max(5, count // 2))
    return middle - width, middle + width


def _iso(text: str, calendar: _Calendar) -> _Span | None:
    if re.fullmatch(rf"{_YEAR}-\d\d", text):
        return calendar.month(int(text[:4]), int(text[5:]))
    if re.fullmatch(_YEAR, text):
        if not FIRST_YEAR <= int(text) <= calendar.now.year:
            raise ValueError(text)
        start = datetime(int(text), 1, 1)  # noqa: DTZ001 - the asker's own time
        return start, start.replace(year=start.year + 1)
    if not re.fullmatch(_ISO, text):
        return None
    if not re.fullmatch(rf".*{_TIME}", text):
        year, month, day = (int(number) for number in re.split("[-/]", text))
        start = datetime(year, month, day)  # noqa: DTZ001 - the asker's own time
        return start, start + timedelta(days=1)
    moment = datetime.fromisoformat(text.upper())
    return moment, moment + timedelta(minutes=1)


def _month_or_date(text: str, calendar: _Calendar) -> _Span | None:
    plain = re.sub(r"\b(last|the|of)\s+|,", "", text)
    found = re.fullmatch(rf"({_MONTH})(?:\s+(\d{{1,2}}){_NTH})?(?:\s+({_YEAR}))?", plain)
    if found is None:
        other = re.fullmatch(rf"(\d{{1,2}}){_NTH}\s+({_MONTH})(?:\s+({_YEAR}))?", plain)
        if other is None:
            return None
        name, day, year = other[2], other[1], other[3]
    else:
        name, day, year = found[1], found[2], found[3]
    month = next(number for number, known in enumerate(_MONTHS, 1) if known.startswith(name[:3]))
    if year:
        start = datetime(int(year), month, int(day or 1))  # noqa: DTZ001 - the asker's own time
    else:
        start = _latest(month, int(day or 1), calendar, is_past=text.startswith("last "))
    return (start, start + timedelta(days=1)) if day else calendar.month(start.year, month)


def _latest(month: int, day: int, calendar: _Calendar, *, is_past: bool) -> datetime:
    """Return the last day of that date that has begun; the 29th of february is not in every year."""
    year = calendar.now.year - (is_past and month == calendar.now.month)
    for chosen in range(year, year - 9, -1):
        try:
            start = datetime(chosen, month, day)  # noqa: DTZ001 - the asker's own time
        except ValueError:
            continue
        if start <= calendar.now:
            return start
    raise ValueError(day)


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
    start = (calendar.named_day or calendar.today) + _of_clock(text)
    if calendar.named_day is None:
        start -= timedelta(days=start > calendar.now)
    return start - BEFORE_CLOCK, start + AFTER_CLOCK


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
