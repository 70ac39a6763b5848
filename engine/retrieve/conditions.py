"""What a question in words asks of the fields of a collection: "under 400 euros" of its price, "newest" of its dates.

A condition is applied where the field is certain: there is one that fits best, its values are numbers or dates, and

- an amount of money means a field of prices, in that currency as far as the collection says it;
- another number means a field of numbers whose name stands beside it ("more than 16 GB ram": ram_gb), in a unit that
  fits; or a part of the name, in the same unit;
- a date means the field of the event before it ("released after 2023": release_date, released, year), or a field whose
  name is beside the date;
- an order means the price, the rating or the date; of publication only where a publication is looked for.

Where it is not certain, the condition is offered in the form of a filter, and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

import orjson

from aidre.engine.index.fields import (
    Filter,
    flatten_member,
    flatten_object,
    is_schema_date,
    metadata_name,
    parse_filter,
    parse_instant,
    unmistakable_name,
)
from aidre.engine.model import Json
from aidre.engine.ports import Reader
from aidre.engine.retrieve.measures import UNITS, Bounds, Direction, MeasureOrder, Mention, Period, read_currencies
from aidre.engine.types import RetrievedChunk

Values: TypeAlias = Literal["numbers", "years", "dates", "texts of years", "texts of dates"]
"""What a field holds: texts are strings that nothing declares to be dates, and compare as strings."""

MAX_OFFERED: Final = 3
"""Conditions that are offered for one mention."""
_SHOWN: Final = 100
"""Values of a field that are looked at."""
_MICROSECONDS_PER_YEAR: Final = 365.2425 * 86_400e6


class FieldOrder(NamedTuple):
    """Relevant hits are ordered by the values of a field, those without one last.

    With `all_relevant` every relevant hit is; otherwise only those with as many words of the question as the best one,
    since words such as "cheapest" say what is looked for, too: the cheapest jacket is a jacket.
    """

    field: str
    direction: Direction
    all_relevant: bool = False


class Condition(NamedTuple):
    """What some words of a question ask for: a filter in JSON, or an order of the hits. `note` says why one that is
    certain is not applied."""

    words: str
    filter: Mapping[str, Json] | None = None
    order: FieldOrder | None = None
    applied: bool = False
    note: str | None = None

    @property
    def told(self) -> dict[str, Json]:
        """For answers."""
        members: dict[str, Json] = {"words": self.words}
        if self.filter is not None:
            members["filter"] = dict(self.filter)
        if self.order is not None:
            members["order"] = {"field": self.order.field, "direction": self.order.direction}
        members["applied"] = self.applied
        return members if self.note is None else {**members, "note": self.note}


# -- names of fields -------------------------------------------------------------------------------------------


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PRICES: Final = _set("price prices cost costs preis preise prix precio precios lowprice highprice")
_PRICED: Final = _PRICES | _set("priced costing cheaper billiger günstiger cher barato budget")
_RATINGS: Final = _set("rating ratings ratingvalue stars bewertung note valoración")
_CURRENCIES: Final = _set("eur euro euros usd dollar dollars gbp pound pounds chf cad aud jpy yen inr pln sek nok dkk")
_SHIPPED: Final = _set("shipping delivery versand")
_GENERIC: Final = _set("date year day time jahr datum fecha año année model")
"""Words of names of dates that say nothing of the event."""
_FILLING: Final = _set("number of count num total in at on the a an amount value per is")
_DATED: Final[Mapping[str, frozenset[str]]] = {
    "release": _set(
        "released release launched launch introduced introduction appeared erscheinung veröffentlichung sortie "
        "lanzamiento built made manufactured production produced"
    ),
    "publication": _set(
        "published publication publish posted written posting uploaded upload issued veröffentlicht publié publicado"
    ),
    "change": _set("updated modified changed revised update modification edited reviewed"),
    "creation": _set("created creation"),
    "foundation": _set("founded founding established foundation"),
    "birth": _set("born birth"),
    "death": _set("died death"),
}
"""By event, the words of the fields that hold its date."""
_MAKING: Final = _set("release publication")
"""Events whose date a field that says none ("date", "year") is taken for."""
_PUBLICATIONS: Final = _set(
    "article articles post posts paper papers news blog entry entries report reports book books publication "
    "publications story stories announcement announcements artikel beitrag beiträge nachrichten buch bücher livre "
    "livres artículo artículos noticias libro libros study studies document documents page pages"
)


@dataclass(frozen=True, slots=True)
class _FieldName:
    """A field by its name: its words, without units and currencies, which are beside them."""

    field: str
    path: tuple[str, ...]
    words: frozenset[str]
    unit: str | None
    currencies: tuple[str, ...]

    @property
    def is_price(self) -> bool:
        return bool(self.words & _PRICES) and "currency" not in self.words and not set(self.path) & _SHIPPED


@lru_cache(maxsize=8)
def _names(fields: frozenset[str]) -> tuple[_FieldName, ...]:
    return tuple(_name(field) for field in sorted(fields))


def _name(field: str) -> _FieldName:
    *parents, member = field.removeprefix("metadata.").split(".")
    if member.lower() in {"value", "name"} and parents:
        member = parents.pop()
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", member)
    written = [word.lower() for word in re.findall(r"[^\W_]+|%", spaced)]
    unit = next((word for word in reversed(written) if word in UNITS or (word == "in" and word == written[-1])), None)
    unit = unit if len(written) > 1 else None
    codes = [read_currencies(word)[1] for word in written if word in _CURRENCIES]
    words = frozenset(_stem(word) for word in written if word != unit and word not in _CURRENCIES)
    path = tuple(part.lower() for parent in parents for part in re.findall(r"[^\W_]+", parent))
    return _FieldName(field, path, words, "inch" if unit == "in" else unit, codes[0] if codes else ())


def _stem(word: str) -> str:
    """A word without the sign of the plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


# -- values of fields ------------------------------------------------------------------------------------------


class _Held(NamedTuple):
    values: Values
    least: float
    greatest: float


def _held(reader: Reader, field: str) -> _Held | None:
    """What the values of a field are; None where they are something else, or of several kinds."""
    counted = reader.facet(unmistakable_name(field), limit=_SHOWN)
    shown = [value for value, _ in counted.counts]
    least, greatest = counted.minimum, counted.maximum
    if isinstance(least, int | float) and isinstance(greatest, int | float):
        if any(isinstance(value, bool) for value in shown):
            return None
        is_year = all(isinstance(value, int) and 1_000 <= value <= 2_200 for value in (least, greatest))
        return _Held("years" if is_year else "numbers", float(least), float(greatest))
    declared = field == "updated_at" or field in reader.dates
    texts = [value for value in shown if isinstance(value, str)]
    if not texts or len(texts) < len(shown):
        return None
    places = [place for place in map(_in_years, texts) if place is not None]
    if len(places) < len(texts) and not declared:
        return None
    if declared or is_schema_date(field):
        return _Held("dates", min(places, default=0.0), max(places, default=0.0))
    kind: Values = "texts of years" if all(len(text) == 4 for text in texts) else "texts of dates"
    return _Held(kind, min(places), max(places))


def _in_years(value: Json) -> float | None:
    """A number, or the time of a date in years, so that years and dates compare."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if not isinstance(value, str):
        return float(value)
    if re.fullmatch(r"[12]\d{3}", value):
        return float(value)
    microseconds = parse_instant(value)
    return None if microseconds is None else 1970 + microseconds / _MICROSECONDS_PER_YEAR


def order_value(chunk: RetrievedChunk, field: str) -> float | None:
    """The value by which a hit is ordered: the greatest of its numbers or dates in the field."""
    if field == "updated_at":
        return _in_years(chunk.updated_at)
    found = [
        value
        for name, member in chunk.metadata.items()
        for path, value in flatten_member(name, member)
        if metadata_name(path) == field
    ]
    if not found and chunk.schema_object is not None:
        members = orjson.loads(chunk.schema_object)
        found = [value for path, value in flatten_object(members) if path == field]
    values = [place for place in map(_in_years, found) if place is not None]
    return max(values, default=None)


# -- from mentions to conditions -------------------------------------------------------------------------------


class _Fit(NamedTuple):
    """A field that may be meant: `rank` is 0 for the surest, and certain below `_UNSURE`."""

    rank: int
    name: _FieldName
    held: _Held


_UNSURE: Final = 10


def bind(mentions: Sequence[Mention], reader: Reader) -> list[list[Condition]]:
    """The conditions of each mention in a collection: one that is applied, or those that are offered. It looks at
    values of fields, which may take a while."""
    names = _names(reader.fields() | {"updated_at"})
    bound: list[list[Condition]] = []
    for mention in mentions:
        fits = sorted(_fits(mention, names, reader), key=lambda fit: (fit.rank, fit.name.field))
        best = [fit for fit in fits if fit.rank == fits[0].rank]
        is_certain = len(best) == 1 and best[0].rank < _UNSURE
        made = (_condition(mention, fit, names, applied=is_certain) for fit in best[:MAX_OFFERED])
        bound.append([condition for condition in made if condition is not None])
    orders = [conditions for conditions in bound if conditions and conditions[0].order is not None]
    for second in orders[1:]:
        second[:] = [condition._replace(applied=False) for condition in second]
    return bound


def _fits(mention: Mention, names: Iterable[_FieldName], reader: Reader) -> list[_Fit]:
    """The fields that a mention may mean."""
    fits = []
    for name in names:
        rank = _rank(mention, name)
        if rank is not None:
            held = _held(reader, name.field)
            if held is not None and _may_hold(mention, held, rank):
                fits.append(_Fit(rank, name, held))
    return fits


def _rank(mention: Mention, name: _FieldName) -> int | None:
    """How sure a field is meant, by its name; None where it is not."""
    if mention.order is not None:
        return _rank_of_order(mention, mention.order, name)
    near = {_stem(word) for word in (*mention.before, *mention.words.lower().split(), *mention.after)}
    if mention.period is not None:
        rank = _rank_of_date(mention, name, near)
        if rank is not None or mention.bounds is None:
            return rank
    return _rank_of_number(mention, name, near)


def _rank_of_number(mention: Mention, name: _FieldName, near: Set[str]) -> int | None:
    bounds, unit, words = mention.bounds, mention.unit, name.words - _FILLING
    assert bounds is not None
    if bounds.currencies:
        agrees = not name.currencies or not set(name.currencies).isdisjoint(bounds.currencies)
        return _rank_among_prices(name) if name.is_price and agrees else None
    if not _same_measure(unit, name.unit):
        return None
    has_unit = unit is not None and name.unit is not None
    if words and words <= near:
        return 0 if has_unit or name.unit is None else 1
    if name.is_price and unit is None:
        return 2 if _PRICED & {*mention.words.lower().split(), *mention.before[-2:]} else _UNSURE + 1
    if words & near:
        return 3 if has_unit else _UNSURE
    return _UNSURE if has_unit else None


def _rank_among_prices(name: _FieldName) -> int:
    """The price itself before one of something, or of an offer."""
    return (len(name.words) > 1) + 2 * bool(name.path)


def _same_measure(wanted: str | None, named: str | None) -> bool:
    return wanted is None or named is None or UNITS[wanted][0] == UNITS[named][0]


def _rank_of_date(mention: Mention, name: _FieldName, near: Set[str]) -> int | None:
    specific = name.words - {_stem(word) for word in _GENERIC}
    if mention.event is not None:
        if specific & _words_of(mention.event):
            return 1 if name.field == "updated_at" else 0
        return 1 if not specific and mention.event in _MAKING else None
    if name.words and name.words <= near and name.field != "updated_at":
        return 2
    return _UNSURE if not specific or specific & _words_of("release") else None


def _words_of(event: str) -> frozenset[str]:
    return frozenset(map(_stem, _DATED[event]))


def _rank_of_order(mention: Mention, order: MeasureOrder, name: _FieldName) -> int | None:
    if order.measure == "price":
        return _rank_among_prices(name) if name.is_price else None
    if order.measure == "rating":
        return 2 * bool(name.path) if name.words & {_stem(word) for word in _RATINGS} else None
    specific = name.words - {_stem(word) for word in _GENERIC}
    is_publication = any(word in _PUBLICATIONS for word in mention.after[:3])
    if specific & _words_of("publication"):
        return 0 if is_publication else _UNSURE
    if specific & _words_of("release"):
        return 1
    return 2 if not specific else None


def _may_hold(mention: Mention, held: _Held, rank: int) -> bool:
    """Whether the values are of the kind that the mention compares with, and within reach where that is not sure."""
    if mention.order is not None:
        return (held.values == "numbers") == (mention.order.measure != "date")
    dates, bounds = held.values not in {"numbers"}, mention.bounds
    if mention.period is None or (bounds is not None and held.values == "numbers"):
        if (dates and held.values != "years") or bounds is None:
            return False
        return rank < _UNSURE or _reaches(bounds.low, bounds.high, held)
    low, high = (
        None if end is None else _in_years(end.isoformat()) for end in (mention.period.start, mention.period.end)
    )
    return dates and (rank < _UNSURE or _reaches(low, high, held))


def _reaches(low: float | None, high: float | None, held: _Held) -> bool:
    """Whether a bound is among the values, so that it parts them."""
    return any(held.least <= bound <= held.greatest for bound in (low, high) if bound is not None)


def _condition(mention: Mention, fit: _Fit, names: Iterable[_FieldName], *, applied: bool) -> Condition | None:
    field = unmistakable_name(fit.name.field)
    if mention.order is not None:
        order = FieldOrder(fit.name.field, mention.order.direction)
        return Condition(mention.words, order=order, applied=applied)
    if fit.held.values == "numbers" or mention.period is None:
        assert mention.bounds is not None
        within = _number_filter(field, mention, mention.bounds, fit.name, names)
        return Condition(mention.words, within, applied=applied)
    during = _date_filter(field, mention.period, fit.held.values)
    return None if during is None else Condition(mention.words, during, applied=applied)


def _number_filter(
    field: str, mention: Mention, bounds: Bounds, name: _FieldName, names: Iterable[_FieldName]
) -> dict[str, Json]:
    if mention.unit is not None and name.unit is not None and mention.unit != name.unit:
        bounds = _scaled(bounds, UNITS[mention.unit][1] / UNITS[name.unit][1])
    compared: dict[str, Json] = {field: dict(bounds.operators())}
    if not bounds.currencies or name.currencies:
        return compared
    beside = [other.field for other in names if other.path == name.path and {"currency", "pricecurrency"} & other.words]
    if not beside:
        return compared
    codes: list[Json] = sorted({spelling for code in bounds.currencies for spelling in (code, code.lower())})
    currency = unmistakable_name(beside[0])
    return {"and": [compared, {"or": [{currency: {"in": codes}}, {currency: {"exists": False}}]}]}


def _scaled(bounds: Bounds, factor: float) -> Bounds:
    low, high = (None if end is None else _rounded(end * factor) for end in (bounds.low, bounds.high))
    return Bounds(low, high, bounds.low_closed, bounds.high_closed, bounds.currencies)


def _rounded(number: float) -> float:
    rounded = float(f"{number:.12g}")
    return int(rounded) if rounded.is_integer() else rounded


def _date_filter(field: str, period: Period, values: Values) -> dict[str, Json] | None:
    if values == "dates":
        return {field: dict(period.operators())}
    if values == "texts of dates":  # dates and times in ISO 8601 are in order as strings
        days = {operator: moment[:10] for operator, moment in period.operators().items()}
        return {field: dict(days)}
    years = period.years()
    if years is None:
        return None
    bounded: dict[str, Json] = {}
    if period.start is not None:
        bounded["gte"] = years["gte"]
    if period.end is not None:
        bounded["lte"] = years["lte"]
    if values == "texts of years":
        bounded = {operator: str(year) for operator, year in bounded.items()}
    return {field: bounded}


def to_filter(conditions: Iterable[Condition]) -> list[Filter]:
    """The filters of the conditions that are applied."""
    return [
        parse_filter(dict(condition.filter))
        for condition in conditions
        if condition.applied and condition.filter is not None
    ]
