"""Finds numbers, dates and orders that a question names in words: "under 400 euros", "released after 2023", "newest".

Knows no fields: conditions.py decides whether one of a collection is meant. A number alone is not a mention
("HTTP 404", "10 tips"): it needs a comparison ("under", "at least", "between ... and ...", "or more"), and a date one,
too, or an event beside it ("released in 2023"). What the words mean is read by quantities.py and periods.py. English,
and the common forms of German, French and Spanish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from aidre.engine.retrieve.measures.numerals import FOREIGN_NUMERALS, NUMERALS, Plain, with_digits
from aidre.engine.retrieve.measures.periods import MONTH, Period, read_period
from aidre.engine.retrieve.measures.quantities import ABOVE, BELOW, UNITS, Bounds, read_bounds, read_currencies

Direction: TypeAlias = Literal["ascending", "descending"]
Measure: TypeAlias = Literal["date", "price", "rating"]

MAX_MENTION_CHARS: Final = 500
"""Characters; longer questions are texts, whose numbers are not wishes."""
MAX_MENTIONS: Final = 8
_AROUND: Final = 100
"""Characters in which these are looked for."""
_NEAR: Final = 4
"""Words before and after a mention that may name its field."""


class MeasureOrder(NamedTuple):
    """Which hits of a question come first: those with the least (ascending) or the greatest value."""

    measure: Measure
    direction: Direction


class Mention(NamedTuple):
    """A condition in words, with its place in the question.

    `bounds` are of numbers, `period` of dates; both for what may be either ("between 2019 and 2021"). `unit` is the
    word after the number where it is one. `event` is what has the date: the verb before it, which belongs to the
    mention, or after it. `before` and `after` are the words around it in lower case, the nearest one last and first.
    """

    start: int
    end: int
    words: str
    bounds: Bounds | None = None
    period: Period | None = None
    order: MeasureOrder | None = None
    unit: str | None = None
    event: str | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


# -- what is looked for ----------------------------------------------------------------------------------------


def _any(*lists: str) -> str:
    """An alternation of the longest forms first."""
    forms = {re.escape(form) for alternatives in lists for form in alternatives.split("|")}
    return "|".join(sorted(forms, key=lambda form: (-len(form), form)))


_RELATION: Final = _any(BELOW, ABOVE)
_SIGN: Final = r"us\$|r\$|[$€£¥₹₩₽₺₪]"
_NUMBER: Final = r"\d{1,12}(?:[.,' ]\d{3}(?!\d)){0,3}(?:[.,]\d{1,6})?(?:\s?(?:k|thousand|million)(?!\w))?"
_UNIT: Final = rf"(?:{_SIGN}|%|[^\W\d_]{{1,20}})"
_WORDS: Final = r"(?:(?:the|a|an|price of|around|about|only|just|der|die|das|de|la|el|le) )?"


def _amount(name: str) -> str:
    before, unit = rf"(?:(?:{_SIGN}|eur|usd|gbp|chf) ?)?", rf"(?: ?-?(?P<{name}_unit>{_UNIT})(?!\w))?"
    return rf"{before}(?P<{name}>{_NUMBER})(?![\w.]\d|\w\d){unit}"


_COMPARED: Final = re.compile(rf"(?<![\w-])(?P<relation>{_RELATION}) ?{_WORDS}(?P<amount>{_amount('number')})")
_FROM: Final = r"(?<![\w-])(?:between|from|zwischen|von|entre|de)"
_TO: Final = r"(?:and|to|until|und|bis|et|y|à|a|-|–)"
_BETWEEN: Final = re.compile(
    rf"(?P<from>{_FROM} |(?<![\w.,-]))(?P<low_amount>{_amount('low')}) ?{_TO} ?(?P<high_amount>{_amount('high')})"
)
"""Without a word before the two it takes a currency: "300 to 500 euros"."""
_SUFFIXED: Final = re.compile(
    rf"(?<![\w.,$€£-])(?P<amount>{_amount('number')})(?: [^\W\d_]{{1,20}}){{0,2}}? ?"
    r"(?P<word>and up|and above|and more|or more|or above|or higher|or less|or below|or under|or fewer|or lower|"
    r"and below|and under|\+|oder mehr|oder weniger|ou plus|ou moins|o más|o menos)(?!\w)"
)
_YEAR: Final = r"(?:1[5-9]|20|21)\d\d"
_DATE: Final = (
    rf"(?:{_YEAR}-\d{{1,2}}(?:-\d{{1,2}})?|\d{{1,2}}\.\d{{1,2}}\.{_YEAR}|"
    rf"(?:\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?)?(?:{MONTH})\.?,? (?:\d{{1,2}}(?:st|nd|rd|th)?,? )?{_YEAR}|{_YEAR})"
    r"(?![\w%€$£]|[.,:]\d| ?[€$£])"
)
_SINCE: Final = (
    "since|on or after|in or after|not before|no earlier than|from|starting|seit|ab|depuis|desde|à partir de"
)
_AFTER: Final = "after|later than|newer than|nach|après|después de"
_BEFORE: Final = "before|earlier than|older than|prior to|vor|avant|antes de"
_UNTIL: Final = "until|till|up to|no later than|not after|on or before|in or before|bis|jusqu'à|jusqu'en|hasta"
_DURING: Final = "in|during|on|im|am|en"
_READ_AS: Final = {_SINCE: "since", _AFTER: "after", _BEFORE: "before", _UNTIL: "until", _DURING: "in"}
_RELATED: Final = {form: word for forms, word in _READ_AS.items() for form in forms.split("|")}
_DATED: Final = re.compile(
    rf"(?<![\w-])(?P<relation>{_any(*_READ_AS)}) (?:(?:the year|the|year|dem|le|el) )?(?P<date>{_DATE})"
)
_DATES: Final = re.compile(rf"{_FROM} (?P<low>{_DATE}) ?{_TO} ?(?P<high>{_DATE})")
_RISING: Final = re.compile(rf"(?<![\w.,$€£-])(?P<number>{_NUMBER})\+ ?(?P<unit>{_UNIT})(?!\w)")
_DATE_SUFFIXED: Final = re.compile(
    rf"(?<![\w-])(?:in |from )?(?P<date>{_DATE}) "
    r"(?P<word>or later|or newer|or after|and later|onwards?|or earlier|or older|or before)(?!\w)"
)
_EVENTS: Final = {
    "release": "released|launched|introduced|came out|coming out|appeared|made|built|manufactured|erschienen|"
    "erschienene|erschienenen|sorti|sortie|sortis|sorties|lanzado|lanzada|lanzados|lanzadas",
    "publication": "published|posted|written|printed|issued|veröffentlicht|veröffentlichte|publié|publiée|publiés|"
    "publiées|publicado|publicada|publicados|publicadas",
    "change": "updated|modified|changed|revised|edited|aktualisiert|geändert|modifié|modifiée|actualizado|actualizada",
    "creation": "created|erstellt|créé|creado",
    "foundation": "founded|established|gegründet|fondé|fondée|fundado|fundada",
    "birth": "born|geboren|né|née|nacido|nacida",
    "death": "died|gestorben|mort|morte|muerto",
}
"""Verbs of what has a date, by event."""
_EVENT_OF: Final = {verb: event for event, verbs in _EVENTS.items() for verb in verbs.split("|")}
_VERB_BEFORE: Final = re.compile(rf"(?<!\w)({_any(*_EVENTS.values())}) $")
_LATELY: Final = re.compile(
    r"(?<!\w)(?:in |within |during |since )?(?:the )?(?:last|past|this) (?:\d{1,4} )?(?:day|week|month|year)s?(?!\w)"
)
_ORDERS: Final = {
    MeasureOrder(
        "date", "descending"
    ): "newest|latest|most recent|most recently released|neueste|neuesten|neuester|neuestes|"
    "aktuellste|aktuellsten|plus récent|plus récente|plus récents|plus récentes|más reciente|más recientes|más nuevo|"
    "más nueva|más nuevos|más nuevas",
    MeasureOrder("date", "ascending"): "oldest|earliest|least recent|älteste|ältesten|ältester|ältestes|plus ancien|"
    "plus ancienne|plus anciens|plus anciennes|más antiguo|más antigua|más antiguos|más antiguas",
    MeasureOrder(
        "price", "ascending"
    ): "cheapest|least expensive|lowest priced|lowest price|billigste|billigsten|billigster|"
    "billigstes|günstigste|günstigsten|günstigster|günstigstes|moins cher|moins chère|moins chers|moins chères|"
    "más barato|más barata|más baratos|más baratas",
    MeasureOrder(
        "price", "descending"
    ): "most expensive|priciest|highest priced|highest price|teuerste|teuersten|teuerster|"
    "teuerstes|plus cher|plus chère|plus chers|plus chères|más caro|más cara|más caros|más caras",
    MeasureOrder("rating", "descending"): "best rated|best-rated|highest rated|highest-rated|top rated|top-rated|"
    "bestbewertete|bestbewerteten|mieux noté|mieux notée|mieux notés|mieux notées|mejor valorado|mejor valorada|"
    "mejor valorados|mejor valoradas",
    MeasureOrder("rating", "ascending"): "worst rated|worst-rated|lowest rated|lowest-rated",
}
"""The words of each order."""
_ORDER_OF: Final = {form: order for order, forms in _ORDERS.items() for form in forms.split("|")}
_ORDERED: Final = re.compile(rf"(?<![\w-])(?:{_any(*_ORDERS.values())})(?![\w-])(?! (?:que|than|als)\b)")
_OTHER_LATEST: Final = frozenset(
    ["version", "versions", "release", "releases", "news", "update", "updates", "commit", "stable", "build", "trends"]
)
"""Words that after "latest" or "newest" name a thing: the question is not about the newest document."""
_DIGIT: Final = re.compile(r"\d")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_FIRST_WORDS: Final = frozenset(
    _LETTERS.findall(form)[0] for form in (*_ORDER_OF, *FOREIGN_NUMERALS, *NUMERALS, "last", "past", "this")
)
"""Words with which mentions without digits begin: questions that have neither are not looked into."""
_WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def find_mentions(text: str, now: datetime | None = None) -> tuple[Mention, ...]:
    """The mentions of a question in order, none of which overlap. `now` defaults to the clock; relative dates are of
    whole days, so that the pages of a question mean the same."""
    if len(text) > MAX_MENTION_CHARS:
        return ()
    if _DIGIT.search(text) is None and _FIRST_WORDS.isdisjoint(_LETTERS.findall(text.lower())):
        return ()
    plain = with_digits(text)
    if plain is None:
        return ()
    found: list[Mention] = []
    taken: list[tuple[int, int]] = []
    for start, end, candidate in _candidates(plain.text, now):
        if not any(start < other_end and other_start < end for other_start, other_end in taken):
            taken.append((start, end))
            found.append(_placed(candidate, plain, text, (start, end)))
    return tuple(sorted(found, key=lambda mention: mention.start)[:MAX_MENTIONS])


def _placed(mention: Mention, plain: Plain, text: str, span: tuple[int, int]) -> Mention:
    """A mention with what stands around it, and its place in the question."""
    start, end = span
    before = tuple(_WORD.findall(plain.text[max(0, start - _AROUND) : start])[-_NEAR:])
    after = tuple(_WORD.findall(plain.text[end : end + _AROUND])[:_NEAR])
    event = None
    if mention.period is not None:
        event, start = _event_of(plain.text, start, after)
    first, last = plain.place(start), plain.place(end)
    return mention._replace(start=first, end=last, words=text[first:last], event=event, before=before, after=after)


def without(text: str, mentions: tuple[Mention, ...]) -> str:
    """The question without some of its mentions; as it is, if no word is left."""
    rest = text
    for mention in sorted(mentions, key=lambda mention: -mention.start):
        rest = f"{rest[: mention.start]} {rest[mention.end :]}"
    rest = re.sub(r"\s+([,;.?!])", r"\1", " ".join(rest.split())).strip(" ,;&-")
    return rest if any(map(str.isalpha, rest)) else text


def _candidates(text: str, now: datetime | None) -> Iterator[tuple[int, int, Mention]]:
    """What may be a mention, that which is surer first."""
    today = (now or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    yield from _dates(text, today)
    yield from _numbers(text)
    for match in _ORDERED.finditer(text):
        following = _WORD.match(text, min(match.end() + 1, len(text)))
        is_other = match[0] in {"latest", "newest"} and following is not None and following[0] in _OTHER_LATEST
        if not is_other:
            yield match.start(), match.end(), Mention(0, 0, "", order=_ORDER_OF[match[0]])


def _dates(text: str, today: datetime) -> Iterator[tuple[int, int, Mention]]:
    for match in _DATES.finditer(text):
        low, high = match["low"], match["high"]
        period = read_period(f"between {low} and {high}", today)
        years = read_bounds(f"{low}-{high}") if low.isdigit() and high.isdigit() else None
        if period is not None and not _is_amount(text, match.end()):
            yield match.start(), match.end(), Mention(0, 0, "", bounds=years, period=period)
    for match in _DATE_SUFFIXED.finditer(text):
        relation = "until" if match["word"].endswith(("earlier", "older", "before")) else "since"
        period = read_period(f"{relation} {match['date']}", today)
        if period is not None:
            yield match.start(), match.end(), Mention(0, 0, "", period=period)
    for match in _DATED.finditer(text):
        relation, date = _RELATED[match["relation"]], match["date"]
        period = read_period(f"{relation} {date}", today)
        if period is not None and not _is_amount(text, match.end()):
            bounds = read_bounds(f"{relation} {date}") if date.isdigit() else None
            yield match.start(), match.end(), Mention(0, 0, "", bounds=bounds, period=period)
    for match in _LATELY.finditer(text):
        period = _lately(match[0], today)
        if period is not None:
            yield match.start(), match.end(), Mention(0, 0, "", period=period)


def _lately(words: str, today: datetime) -> Period | None:
    """From the beginning of "the last 30 days", "this year" or, after "since", the last calendar year on."""
    if words.endswith("year") and ("this " in words or words.startswith("since ")):
        year = (today - timedelta(days=1)).year - ("this " not in words)
        return Period(datetime(year, 1, 1, tzinfo=UTC), None)
    period = read_period(words.removeprefix("during ").removeprefix("since "), today)
    return None if period is None else Period(period.start, None)


def _event_of(text: str, start: int, after: tuple[str, ...]) -> tuple[str | None, int]:
    """The event of a date, and where the mention begins with its verb."""
    verb = _VERB_BEFORE.search(text, max(0, start - 30), start)
    if verb is not None:
        return _EVENT_OF[verb[1]], verb.start()
    if text.startswith(("newer ", "older "), start):
        return "release", start
    return (_EVENT_OF.get(after[0]) if after else None), start


_AFTER_NUMBER: Final = re.compile(rf" ?({_UNIT})(?!\w)")


def _is_amount(text: str, place: int) -> bool:
    """Whether what looks like a year is followed by a unit: "up to 2000 euros"."""
    match = _AFTER_NUMBER.match(text, place)
    return match is not None and (match[1] in UNITS or bool(read_currencies(match[1])[1]))


def _numbers(text: str) -> Iterator[tuple[int, int, Mention]]:
    for match in _BETWEEN.finditer(text):
        currencies = read_currencies(match[0])[1]
        bounds = _bounds("{} - {}", currencies, match["low"], match["high"])
        if bounds is not None and (match["from"] or currencies):
            yield _mention(match, match["high_unit"] or match["low_unit"], "high", bounds, currencies)
    for match in _SUFFIXED.finditer(text):
        currencies = read_currencies(match["amount"])[1]
        bounds = _bounds("{} " + _ENGLISH.get(match["word"], match["word"]), currencies, match["number"])
        if bounds is not None:
            yield _mention(match, match["number_unit"], None, bounds, currencies)
    for match in _RISING.finditer(text):
        bounds = read_bounds(f"{match['number']}+")
        if bounds is not None and match["unit"] in UNITS:
            yield _mention(match, match["unit"], None, bounds, ())
    for match in _COMPARED.finditer(text):
        currencies = read_currencies(match["amount"])[1]
        bounds = _bounds(match["relation"] + " {}", currencies, match["number"])
        if bounds is not None:
            yield _mention(match, match["number_unit"], "number", bounds, currencies)


def _bounds(form: str, currencies: tuple[str, ...], *numbers: str) -> Bounds | None:
    """The bounds of some numbers in a form. No price has three decimals: 1.000 euros are a thousand."""
    return read_bounds(form.format(*(_THOUSANDS.sub("", number) if currencies else number for number in numbers)))


_THOUSANDS: Final = re.compile(r"(?<=\d)\.(?=\d{3}(?!\d))")


_ENGLISH: Final = {
    "oder mehr": "or more",
    "ou plus": "or more",
    "o más": "or more",
    "ou moins": "or less",
    "o menos": "or less",
}


def _mention(
    match: re.Match[str], unit: str | None, last: str | None, bounds: Bounds, currencies: tuple[str, ...]
) -> tuple[int, int, Mention]:
    """With the unit inside only where it is a currency: another one may be a word to look for, such as pages."""
    is_unit = unit is not None and (unit in UNITS or bool(read_currencies(unit)[1]))
    end = match.end() if last is None or is_unit else match.end(last)
    bounds = Bounds(bounds.low, bounds.high, bounds.low_closed, bounds.high_closed, currencies)
    return match.start(), end, Mention(0, 0, "", bounds=bounds, unit=unit if is_unit else None)
