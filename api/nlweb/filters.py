"""The open filter attributes of a query (3.1) as a filter of the engine; what cannot be applied is named.

An attribute is looked for among the fields that items carry, by its whole name or its last member, in any case. Types
go with their subtypes, quantities and dates are read from free text, words are compared whole, in several casings: the
engine's grammar knows no parts of strings. A place is looked for inside of addresses that are written in words, too:
the stored texts that name it are asked for, whole. Bounds on a list of values hold where any value passes each of
them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import orjson

from aidre.api.bodies import holds_body
from aidre.api.nlweb import durations
from aidre.api.nlweb.clauses import Clause, all_of, any_of, either, nodes_in
from aidre.api.nlweb.periods import read_period
from aidre.api.nlweb.places import names_in, names_place, place_pattern, places_in, tells_place
from aidre.api.nlweb.quantities import Bounds, read_bounds
from aidre.api.nlweb.types import subtypes, type_name
from aidre.engine.filters import field_name, holds_dates
from aidre.engine.model import Json

Texts: TypeAlias = Callable[[str, str], Sequence[str] | None]
"""What a field holds that a regular expression is found in; None where that is too much to say."""

MOST_FIELDS: Final = 16
"""Fields that one attribute is compared with."""
MOST_VALUES: Final = 100
MOST_NODES: Final = 800
MOST_READ: Final = 2 * MOST_NODES
"""Of one list, before what its values have in common is put together."""
MOST_CHARS: Final = 8_192
"""Of all attributes together: what is read before it is known how large a filter it makes."""
LONGEST: Final = 1_000
DEEPEST: Final = 4

_TYPES: Final = frozenset({"itemtype", "type", "types", "schematype", "itemtypes"})
_ANY_TYPE: Final = frozenset({"", "*", "all", "any", "thing", "item", "items"})
_PRICES: Final = frozenset({"price", "prices", "cost", "budget"})
_LOWEST: Final = frozenset({"minprice", "pricemin", "lowprice", "pricefrom", "minimumprice"})
_HIGHEST: Final = frozenset({"maxprice", "pricemax", "highprice", "priceto", "maximumprice"})
_LOCATIONS: Final = frozenset({"location", "place", "where", "near", "area", "address", "areaserved"})
_DATES: Final = ("startDate", "datePublished", "datePosted", "dateCreated", "uploadDate", "releaseDate")
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "rating": ("ratingvalue",), "stars": ("ratingvalue",),
    "currency": ("pricecurrency",), "language": ("inlanguage",), "lang": ("inlanguage",),
    "cuisine": ("recipecuisine", "servescuisine"), "category": ("recipecategory", "articlesection", "genre"),
    "diet": ("suitablefordiet",), "condition": ("itemcondition",), "tags": ("keywords",), "tag": ("keywords",),
    "keyword": ("keywords",), "city": ("addresslocality",), "town": ("addresslocality",),
    "state": ("addressregion",), "region": ("addressregion",), "country": ("addresscountry",),
    "zip": ("postalcode",), "zipcode": ("postalcode",), "postcode": ("postalcode",),
    "duration": ("totaltime",), "cookingtime": ("cooktime", "totaltime"),
    "ingredient": ("recipeingredient",), "ingredients": ("recipeingredient",),
    "pages": ("numberofpages",), "free": ("isaccessibleforfree",),
}  # fmt: skip
_REGIONS: Final = frozenset({"addressRegion", "addressCountry", "region", "state", "country"})
_RESERVED: Final = {"url": "url", "documentid": "document_id", "updatedat": "updated_at", "lastmodified": "updated_at"}
_OPERATORS: Final = frozenset({"and", "or", "not"})
_ADDRESS: Final = re.compile(r"https?://schema\.org/(\w+)")
_COMPARISON: Final = re.compile(r"[<>≤≥]|\d\s*(?:-|–|—|\.\.|\+$)|[^\W\d_]{2,}")
"""What makes a text of digits more than a number: without one it is compared as it stands."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """`filter` is JSON in the engine's grammar; `ignored` names the attributes that are not in it."""

    filter: Json | None = None
    ignored: tuple[str, ...] = ()


def attribute_filter(
    attributes: Mapping[str, Json], known: Collection[str], dates: Collection[str] = (), texts: Texts | None = None
) -> Filtered:
    """`known` are the names of all fields that documents carry, `dates` those that the collection declares as dates.
    Without `texts` places are compared whole."""
    if not attributes:
        return Filtered()
    reader = _Reader(_fields(frozenset(known)), frozenset(map(field_name, dates)), texts)
    clauses: list[Clause] = []
    ignored: list[str] = []
    asked: set[str] = set()
    nodes = read = 0
    for name, value in attributes.items():
        if value is None:
            continue
        read += len(name) + _size(value)
        if read > MOST_CHARS or _key(name) in asked:
            ignored.append(name)
            continue
        asked.add(_key(name))
        for path, clause in reader.read(name, value, 1):
            size = 0 if clause is None else nodes_in(clause)
            if clause is None or nodes + size > MOST_NODES:
                ignored.append(path)
            elif clause:
                nodes += size
                clauses.append(clause)
    return Filtered(all_of(clauses) or None, tuple(dict.fromkeys(ignored)))


def asks_place(attributes: Mapping[str, Json]) -> bool:
    """Whether texts will be looked through for the name of a place."""
    return any(_key(name) in _LOCATIONS for name in attributes)


def _size(value: Json) -> int:
    """About how many characters of JSON."""
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:  # nested deeper than anything that is read
        return MOST_CHARS


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a collection, by what is left of a name without case and punctuation."""

    names: frozenset[str]
    paths: Mapping[str, Sequence[str]]
    members: Mapping[str, Sequence[str]]

    def meant(self, attribute: str) -> list[str]:
        """The fields an attribute means: the one of that name and its own name, else those that end in it."""
        key = _key(attribute.removeprefix("metadata."))
        found = [*self.paths.get(key, ()), *self.paths.get(f"{key}.name", ()), *self.paths.get(f"{key}.value", ())]
        if not found and "." not in key:
            found = self.ending(key)
        for alias in () if found else _ALIASES.get(key, ()):
            found += [*self.paths.get(alias, ()), *self.ending(alias)]
        return list(dict.fromkeys(found))[:MOST_FIELDS]

    def ending(self, key: str) -> list[str]:
        return [*self.members.get(key, ()), *self.members.get(f"{key}.name", ())]


@lru_cache(maxsize=8)
def _fields(names: frozenset[str]) -> _Fields:
    paths: dict[str, list[str]] = {}
    members: dict[str, list[str]] = {}
    names = frozenset(name for name in names - _OPERATORS if not holds_body(name))
    for name in sorted(names, key=lambda one: (one.count("."), one)):
        key = _key(name.removeprefix("metadata."))
        paths.setdefault(key, []).append(name)
        parts = key.split(".")
        if len(parts) > 1:
            members.setdefault(parts[-1], []).append(name)
        if len(parts) > 2 and parts[-1] == "name":
            members.setdefault(".".join(parts[-2:]), []).append(name)
    return _Fields(names, paths, members)


def _key(name: str) -> str:
    return re.sub(r"[\s_:@-]", "", name).lower()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads attributes. A clause of None is one that cannot be applied, an empty one asks nothing."""

    fields: _Fields
    dates: frozenset[str]
    texts: Texts | None

    def read(self, name: str, value: Json, depth: int) -> Iterable[tuple[str, Clause | None]]:
        key = _key(name)
        if type(value) is dict and key not in _LOCATIONS and read_bounds(value) is None:
            members = {inner: one for inner, one in value.items() if not inner.startswith("@") and one is not None}
            if not members or depth >= DEEPEST:
                yield name, None
            for inner, one in members.items() if depth < DEEPEST else ():
                yield from self.read(f"{name}.{inner}", one, depth + 1)
            return
        yield name, self._any(name, key, value)

    def _any(self, name: str, key: str, value: Json) -> Clause | None:
        """A list asks for any of its values."""
        if type(value) is not list:
            return self._one(name, key, value)
        if key in _TYPES:
            return _type_clause(value)
        if not value or len(value) > MOST_VALUES or any(one is None or type(one) is list for one in value):
            return None
        clauses: list[Clause | None] = []
        nodes = 0
        for one in value:
            clause = self._one(name, key, one)
            nodes += 0 if clause is None else nodes_in(clause)
            if clause is None or nodes > MOST_READ:
                return None
            clauses.append(clause)
        return either(clauses)

    def _one(self, name: str, key: str, value: Json) -> Clause | None:
        if type(value) is str and (len(value) > LONGEST or not value.strip()):
            return None
        if key in _TYPES:
            return _type_clause([value])
        if key in _LOCATIONS:
            return self._location(value)
        if self._asks_price(key):
            return self._price(key, value)
        names = [_RESERVED[key]] if key in _RESERVED else self.fields.meant(name)
        if key in {"date", "published"}:
            dates = _DATES if key == "date" else _DATES[1:]
            names = names or [str(one) for one in dates if one in self.fields.names] or ["updated_at"]
        clauses = [clause for clause in (self._compared(one, value) for one in names) if clause is not None]
        return either(clauses) if clauses else None

    def _asks_price(self, key: str) -> bool:
        return key == "price" or (key in _PRICES | _LOWEST | _HIGHEST and key not in self.fields.paths)

    def _price(self, key: str, value: Json) -> Clause | None:
        bounds = read_bounds(value)
        if bounds is None:
            ranges = self.fields.meant("priceRange") if type(value) is str else []
            return either([_equal(one, value) for one in ranges]) if ranges and _signs(value) else None
        if bounds.exact and key in _LOWEST:
            bounds = Bounds(bounds.low, None, currencies=bounds.currencies)
        elif bounds.exact and key in _HIGHEST:
            bounds = Bounds(None, bounds.high, currencies=bounds.currencies)
        holders = dict.fromkeys(
            one.rpartition(".")[0]
            for member in ("price", "lowprice", "highprice")
            for one in [*self.fields.paths.get(member, ()), *self.fields.members.get(member, ())]
            if "shipping" not in one.lower() and "delivery" not in one.lower()
        )
        clauses = [self._price_in(holder, bounds) for holder in list(holders)[:MOST_FIELDS]]
        return either(clauses) if clauses else None

    def _price_in(self, holder: str, bounds: Bounds) -> Clause:
        """The price, or the span from the lowest to the highest, of one kind of offer, in its currency."""
        prefix = f"{holder}." if holder else ""
        price, low, high = (f"{prefix}{member}" for member in ("price", "lowPrice", "highPrice"))
        clauses: list[Clause] = [_within(price, bounds)] if price in self.fields.names else []
        if low in self.fields.names or high in self.fields.names:
            ends = [one for one in (low, high) if one in self.fields.names]
            below = Bounds(None, bounds.high, high_closed=bounds.high_closed)
            above = Bounds(bounds.low, None, low_closed=bounds.low_closed)
            clauses += [_within(one, bounds) for one in ends]
            clauses += [all_of([_within(low, below), _within(high, above)])] if len(ends) == 2 else []
        found = either(clauses) or {}
        currency = self._currency(holder)
        if not bounds.currencies or currency is None:
            return found
        codes = sorted({spelled for code in bounds.currencies for spelled in (code, code.lower())})
        return all_of([found, {"or": [{currency: {"in": codes}}, {currency: {"exists": False}}]}])

    def _currency(self, holder: str) -> str | None:
        """Where the currency of an offer stands: beside its price, or further up."""
        while True:
            name = f"{holder}.priceCurrency" if holder else "priceCurrency"
            if name in self.fields.names:
                return name
            if not holder:
                return None
            holder = holder.rpartition(".")[0]

    def _location(self, value: Json) -> Clause | None:
        fields = sorted(filter(names_place, self.fields.names), key=lambda one: (one.count("."), one))[:MOST_FIELDS]
        wanted: list[Clause] = []
        for text, parts in places_in(value) if fields else ():
            named = [[(one, self._place_names(one, part)) for one in fields] for part in parts]
            known = [{one: names for one, names in part if names is not None} for part in named]
            if any(len(part) < len(fields) for part in known):
                return None
            each, whole = all_of(list(map(any_of, known))), any_of({one: _spellings(text) for one in fields})
            wanted.append(each if len(parts) == 1 else {"or": [whole, each]})
        return all_of(wanted) or None

    def _place_names(self, field: str, name: str) -> list[str] | None:
        """How a place may stand in a field: by one of its names, or inside of an address in words."""
        pattern = place_pattern(name) if self.texts is not None and tells_place(field) else None
        found = () if pattern is None or self.texts is None else self.texts(field, pattern)
        return None if found is None else list(dict.fromkeys([*_place_spellings(field, name), *found]))

    def _compared(self, field: str, value: Json) -> Clause | None:
        """One field against one value; None where the value makes no sense for it."""
        member = field.rpartition(".")[2]
        if field == "updated_at" or field in self.dates or holds_dates(field):
            return _dated(field, value, strict=field == "updated_at" or field in self.dates)
        if type(value) is bool:
            return {field: {"in": [value, *_spellings(str(value).lower())]}}
        if member in durations.MEMBERS:
            minutes = durations.read_minutes(value) if type(value) is str else None
            listed = durations.spellings(minutes) if minutes is not None else ()
            return {field: {"in": list(listed)}} if listed else None
        if type(value) is str and member in _REGIONS:
            return {field: {"in": _place_spellings(field, value.strip())}}
        return _quantified(field, value)


def _quantified(field: str, value: Json) -> Clause | None:
    """A quantity where the value is one, and always the value as it stands."""
    if type(value) is float and not math.isfinite(value):
        return None
    if type(value) is dict:
        bounds = read_bounds(value)
        return None if bounds is None else _within(field, bounds)
    if type(value) is str and _COMPARISON.search(value):
        bounds = read_bounds(value)
        if bounds is not None and not bounds.exact:
            return {"or": [_equal(field, value), _within(field, bounds)]}
    return _equal(field, value)


def _equal(field: str, value: Json) -> Clause:
    if type(value) is not str:
        return {field: {"eq": value}}
    spelled: list[Json] = list(_spellings(value))
    if field.rpartition(".")[2] == "suitableForDiet":
        spelled += [f"{one}Diet" for one in spelled]
    bounds = read_bounds(value) if value.strip()[:1].isdigit() else None
    if bounds is not None and bounds.exact and bounds.low is not None and not _COMPARISON.search(value):
        spelled.append(bounds.low)
    if value.strip().lower() in {"true", "yes", "false", "no"}:
        spelled.append(value.strip().lower() in {"true", "yes"})
    return {field: {"in": spelled}}


def _within(field: str, bounds: Bounds) -> Clause:
    operators = bounds.operators()
    return {field: dict(operators)} if operators else {}


def _dated(field: str, value: Json, *, strict: bool) -> Clause | None:
    """`strict` is for a field that is a date and nothing else: comparing it with other words is an error."""
    if type(value) is int and 1_000 <= value <= 9_999:
        value = str(value)
    period = read_period(value) if type(value) is str else None
    if period is None:
        return None
    moments: Clause = {field: dict(period.operators())}
    years = period.years()
    return moments if strict or years is None else {"or": [moments, {field: dict(years)}]}


def _type_clause(values: Sequence[Json]) -> Clause | None:
    """Any of the types, with their subtypes; a string may hold several, with commas.

    A document that says no type is an Article, or with an address a WebPage (see items.py).
    """
    if not values or len(values) > MOST_VALUES or not all(type(one) is str for one in values):
        return None
    written = [part.strip() for one in values for part in re.split(r"[,;|]", str(one)[:LONGEST])]
    names = {type_name(part) for part in written if part} if any(written) else set()
    if any(name.lower() in _ANY_TYPE for name in names):
        return {}
    if not names:
        return None
    below = frozenset().union(*map(subtypes, names))
    clause: Clause = {"type": {"in": sorted(below | {part for part in written if part})}}
    plain: dict[str, Clause] = {"Article": {"url": {"exists": False}}, "WebPage": {"url": {"exists": True}}}
    untyped: list[Clause] = [{"and": [{"type": {"exists": False}}, plain[name]]} for name in plain if name in below]
    return {"or": [clause, *untyped]} if untyped else clause


def _spellings(text: str) -> list[str]:
    """A text as it may be cased, without the address of a schema.org term; words as one term: in stock, InStock."""
    bare = " ".join(text.split())
    if "://" in bare:
        named = _ADDRESS.fullmatch(bare)
        return [bare] if named is None else [bare, named[1]]
    term = "".join(word[:1].upper() + word[1:] for word in re.split(r"[\s-]+", bare))
    cased = (bare.lower(), bare.upper(), bare.title(), bare.capitalize(), bare[:1].upper() + bare[1:], term)
    return list(dict.fromkeys([text, bare, *cased]))


def _place_spellings(field: str, text: str) -> list[str]:
    return list(dict.fromkeys(one for name in names_in(field, text) for one in _spellings(name)))


def _signs(value: Json) -> bool:
    return type(value) is str and re.fullmatch(r"[$€£¥]{1,5}(?:\s*-\s*[$€£¥]{1,5})?", value.strip()) is not None
