"""Translates the open filter attributes of a query (3.1) into a filter of the engine and names the ones it ignores.

An attribute selects fields of the items by their whole dotted path or by its last member, ignoring case. Types include
their subtypes; quantities and dates are parsed from free text. Strings are compared whole, in several casings, because
the engine's filter grammar has no substring match. A place is also searched for inside stored addresses: a callback
lists the stored texts that contain its name, and the filter compares with those texts. Bounds on a field with a list
of values hold if any value satisfies each of them.

The part of schema.org's type hierarchy that publishers use: normalizes the name of a type and lists its subtypes.

Only names are known here. A type that is not in the table has no subtypes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, TypeAlias

import orjson

from aidre.api.protocols.nlweb.query.places import (
    is_place_field,
    may_hold_address,
    place_names,
    place_pattern,
    read_places,
)
from aidre.engine.index.fields import field_name, is_schema_date
from aidre.engine.model import Json
from aidre.engine.retrieve.measures import (
    DURATION_MEMBERS,
    Bounds,
    read_bounds,
    read_minutes,
    read_period,
    spell_durations,
)
from aidre.engine.schema_text import is_body_field

_VOCABULARY_PREFIX: Final = re.compile(r"(?:(?:https?:)?(?://)?(?:www\.)?schema\.org/|schema:)", re.IGNORECASE)


@cache
def _subtypes() -> Mapping[str, tuple[str, ...]]:
    """The direct subtypes of each type that has any."""
    lines = Path(__file__).with_name("schema_types.txt").read_text("ascii").splitlines()
    return {parent: tuple(names.split()) for parent, names in (line.split(": ") for line in lines)}


@cache
def _names() -> Mapping[str, str]:
    """The name of each type by its lower case."""
    return {name.lower(): name for parent, names in _subtypes().items() for name in (parent, *names)}


def normalize_type(written: str) -> str:
    """The name of a type that is written as a URL, in any case or in the plural; an unknown name keeps its case."""
    bare = _VOCABULARY_PREFIX.sub("", written.strip(), count=1).strip("/#")
    lower = re.sub(r"[\s_-]+", "", bare).lower()
    names = _names()
    return names.get(lower) or names.get(lower.removesuffix("s")) or names.get(_singular(lower)) or bare


def _singular(lower: str) -> str:
    return lower.removesuffix("ies") + "y" if lower.endswith("ies") else lower.removesuffix("es")


def subtypes_of(name: str) -> frozenset[str]:
    """The type itself and all its direct and indirect subtypes."""
    return _descendants(name) if name in _subtypes() else frozenset({name})


@cache  # only names of the table reach it, so that callers cannot make it grow
def _descendants(name: str) -> frozenset[str]:
    visited: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current not in visited:
            visited.add(current)
            pending.extend(_subtypes().get(current, ()))
    return frozenset(visited)


Condition: TypeAlias = dict[str, Json]
"""A condition in the JSON form of the engine's filter grammar; an empty one matches every document."""
TextLookup: TypeAlias = Callable[[str, str], Sequence[str] | None]
"""The distinct texts of a field that match a regular expression; None if too many match or the scan is too long."""

MAX_FIELDS: Final = 16
"""Fields that one attribute is compared with."""
MAX_VALUES: Final = 100
"""Values of one attribute."""
MAX_NODES: Final = 800
"""Nodes of the whole filter; below the engine's own limit."""
MAX_NODES_READ: Final = 2 * MAX_NODES
"""Nodes for the values of one list, before conditions on the same field are merged."""
MAX_CHARS: Final = 8_192
"""Size of all attributes together, in characters of names and bytes of JSON; bounds the work before the size of the
filter is known."""
MAX_VALUE_CHARS: Final = 1_000
MAX_DEPTH: Final = 4
"""Levels of nested objects in an attribute."""

_TYPE_NAMES: Final = frozenset({"itemtype", "type", "types", "schematype", "itemtypes"})
_ANY_TYPE: Final = frozenset({"", "*", "all", "any", "thing", "item", "items"})
_PRICE_NAMES: Final = frozenset({"price", "prices", "cost", "budget"})
_MIN_PRICE_NAMES: Final = frozenset({"minprice", "pricemin", "lowprice", "pricefrom", "minimumprice"})
_MAX_PRICE_NAMES: Final = frozenset({"maxprice", "pricemax", "highprice", "priceto", "maximumprice"})
_LOCATION_NAMES: Final = frozenset({"location", "place", "where", "near", "area", "address", "areaserved"})
_DATE_FIELDS: Final = ("startDate", "datePublished", "datePosted", "dateCreated", "uploadDate", "releaseDate")
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
_REGION_MEMBERS: Final = frozenset({"addressRegion", "addressCountry", "region", "state", "country"})
_CHUNK_FIELDS: Final = {
    "url": "url",
    "documentid": "document_id",
    "updatedat": "updated_at",
    "lastmodified": "updated_at",
}
_MEMBERS: Final = frozenset({"id", "title"})
"""Attributes that select a document's own member beside fields, which the engine's filters know by the same name."""
_OPERATORS: Final = frozenset({"and", "or", "not"})
_SCHEMA_ORG_TERM: Final = re.compile(r"https?://schema\.org/(\w+)")
_COMPARISON: Final = re.compile(r"[<>≤≥]|\d\s*(?:-|–|—|\.\.|\+$)|[^\W\d_]{2,}")
"""Marks a text with digits as a comparison or a quantity with a unit; other texts are compared literally."""

# -- conditions ------------------------------------------------------------------------------------------------


def all_of(conditions: Sequence[Condition]) -> Condition:
    """The conjunction, without empty conditions."""
    restricting = [condition for condition in conditions if condition]
    return (restricting[0] if len(restricting) == 1 else {"and": restricting}) if restricting else {}


def any_of(conditions: Sequence[Condition | None]) -> Condition | None:
    """The disjunction; None if one of the conditions is None. Lists of values for one field become one list."""
    if any(condition is None for condition in conditions):
        return None
    values_by_field: dict[str, dict[Json, None]] = {}
    others: list[Condition] = []
    for condition in conditions:
        [(name, operand)] = condition.items() if condition else [("", None)]
        if name not in {"and", "or"} and type(operand) is dict and list(operand) == ["in"]:
            # The type of a value is part of the key: 1 and True are equal.
            values = dict.fromkeys((type(value).__name__, value) for value in operand["in"])
            values_by_field.setdefault(name, {}).update(values)
        elif condition:
            others.append(condition)
        else:
            return {}
    lists: list[Condition] = [{name: {"in": [value for _, value in keys]}} for name, keys in values_by_field.items()]
    merged = [*lists, *others]
    return merged[0] if len(merged) == 1 else {"or": merged}


def in_any_field(values_by_field: Mapping[str, Sequence[str]]) -> Condition:
    """Holds if any of the fields has one of its values."""
    conditions: list[Condition] = [{name: {"in": list(values)}} for name, values in values_by_field.items()]
    return conditions[0] if len(conditions) == 1 else {"or": conditions}


def count_nodes(condition: Json) -> int:
    """An upper bound on the nodes that the engine will count."""
    if type(condition) is dict:
        return sum(1 + count_nodes(operand) for operand in condition.values())
    is_list = type(condition) is list and condition and type(condition[0]) is dict
    return sum(map(count_nodes, condition)) if is_list else 0


# -- fields ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of the collections: all names, and the names by normalized path and by normalized last member."""

    names: frozenset[str]
    paths: Mapping[str, Sequence[str]]
    members: Mapping[str, Sequence[str]]

    def select(self, attribute: str) -> list[str]:
        """The fields that an attribute selects: by its path, else by its last member, else by an alias."""
        key = _key(attribute.removeprefix("metadata."))
        names = [*self.paths.get(key, ()), *self.paths.get(f"{key}.name", ()), *self.paths.get(f"{key}.value", ())]
        if not names and "." not in key:
            names = self.ending_in(key)
        for alias in () if names else _ALIASES.get(key, ()):
            names += [*self.paths.get(alias, ()), *self.ending_in(alias)]
        return list(dict.fromkeys(names))[:MAX_FIELDS]

    def ending_in(self, key: str) -> list[str]:
        return [*self.members.get(key, ()), *self.members.get(f"{key}.name", ())]


@lru_cache(maxsize=8)
def _index_fields(names: frozenset[str]) -> _Fields:
    paths: dict[str, list[str]] = {}
    members: dict[str, list[str]] = {}
    names = frozenset(name for name in names - _OPERATORS if not is_body_field(name))
    for name in _shallow_first(names):
        key = _key(name.removeprefix("metadata."))
        paths.setdefault(key, []).append(name)
        parts = key.split(".")
        if len(parts) > 1:
            members.setdefault(parts[-1], []).append(name)
        if len(parts) > 2 and parts[-1] == "name":
            members.setdefault(".".join(parts[-2:]), []).append(name)
    return _Fields(names, paths, members)


def _shallow_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name.count("."), name))


def _key(name: str) -> str:
    """A name without case and punctuation; dots stay."""
    return re.sub(r"[\s_:@-]", "", name).lower()


# -- attributes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttributeFilter:
    """`filter` is JSON in the engine's grammar; `ignored` names the attributes that are not part of it."""

    filter: Json | None = None
    ignored: tuple[str, ...] = ()


def build_filter(
    attributes: Mapping[str, Json],
    field_names: Collection[str],
    date_fields: Collection[str] = (),
    lookup: TextLookup | None = None,
) -> AttributeFilter:
    """`field_names` are all fields of the documents, `date_fields` those that the collection declares as dates. Without
    `lookup` places are compared whole."""
    if not attributes:
        return AttributeFilter()
    reader = _AttributeReader(_index_fields(frozenset(field_names)), frozenset(map(field_name, date_fields)), lookup)
    conditions: list[Condition] = []
    ignored: list[str] = []
    keys: set[str] = set()
    nodes = chars = 0
    for name, value in attributes.items():
        if value is None:
            continue
        chars += len(name) + _json_size(value)
        if chars > MAX_CHARS or _key(name) in keys:
            ignored.append(name)
            continue
        keys.add(_key(name))
        for path, condition in reader.read(name, value, 1):
            size = 0 if condition is None else count_nodes(condition)
            if condition is None or nodes + size > MAX_NODES:
                ignored.append(path)
            elif condition:
                nodes += size
                conditions.append(condition)
    return AttributeFilter(all_of(conditions) or None, tuple(dict.fromkeys(ignored)))


def has_location(attributes: Mapping[str, Json]) -> bool:
    """Whether `build_filter` may call its `lookup`, which scans stored texts."""
    return any(_key(name) in _LOCATION_NAMES for name in attributes)


def _json_size(value: Json) -> int:
    """Bytes of the JSON of a value."""
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:  # such as nesting far deeper than `MAX_DEPTH`
        return MAX_CHARS


@dataclass(frozen=True, slots=True)
class _AttributeReader:
    """Translates one attribute at a time. A condition of None cannot be applied; an empty one restricts nothing."""

    fields: _Fields
    date_fields: frozenset[str]
    lookup: TextLookup | None

    def read(self, name: str, value: Json, depth: int) -> Iterable[tuple[str, Condition | None]]:
        """The conditions of an attribute, one for each member of an object, with their dotted paths."""
        key = _key(name)
        if type(value) is dict and key not in _LOCATION_NAMES and read_bounds(value) is None:
            members = {
                member: operand
                for member, operand in value.items()
                if not member.startswith("@") and operand is not None
            }
            if not members or depth >= MAX_DEPTH:
                yield name, None
            for member, operand in members.items() if depth < MAX_DEPTH else ():
                yield from self.read(f"{name}.{member}", operand, depth + 1)
            return
        yield name, self._read_values(name, key, value)

    def _read_values(self, name: str, key: str, value: Json) -> Condition | None:
        """A list matches any of its values."""
        if type(value) is not list:
            return self._read_value(name, key, value)
        if key in _TYPE_NAMES:
            return _type_condition(value)
        if not value or len(value) > MAX_VALUES or any(item is None or type(item) is list for item in value):
            return None
        conditions: list[Condition | None] = []
        nodes = 0
        for item in value:
            condition = self._read_value(name, key, item)
            nodes += 0 if condition is None else count_nodes(condition)
            if condition is None or nodes > MAX_NODES_READ:
                return None
            conditions.append(condition)
        return any_of(conditions)

    def _read_value(self, name: str, key: str, value: Json) -> Condition | None:
        if type(value) is str and (len(value) > MAX_VALUE_CHARS or not value.strip()):
            return None
        if key in _TYPE_NAMES:
            return _type_condition([value])
        if key in _LOCATION_NAMES:
            return self._location_condition(value)
        if self._is_price(key):
            return self._price_condition(key, value)
        fields = [_CHUNK_FIELDS[key]] if key in _CHUNK_FIELDS else self.fields.select(name)
        if key in _MEMBERS:
            fields.append(key)
        if key in {"date", "published"}:
            candidates = _DATE_FIELDS if key == "date" else _DATE_FIELDS[1:]
            fields = fields or [str(field) for field in candidates if field in self.fields.names] or ["updated_at"]
        conditions = [self._field_condition(field, value) for field in fields]
        applicable = [condition for condition in conditions if condition is not None]
        return any_of(applicable) if applicable else None

    def _field_condition(self, field: str, value: Json) -> Condition | None:
        """Compares one field with one value; None if the value makes no sense for the field."""
        member = field.rpartition(".")[2]
        if field == "updated_at" or field in self.date_fields or is_schema_date(field):
            return _date_condition(field, value, strict=field == "updated_at" or field in self.date_fields)
        if type(value) is bool:
            return {field: {"in": [value, *_spellings(str(value).lower())]}}
        if member in DURATION_MEMBERS:
            minutes = read_minutes(value) if type(value) is str else None
            spellings = spell_durations(minutes) if minutes is not None else ()
            return {field: {"in": list(spellings)}} if spellings else None
        if type(value) is str and member in _REGION_MEMBERS:
            return {field: {"in": _place_spellings(field, value.strip())}}
        return _value_condition(field, value)

    def _is_price(self, key: str) -> bool:
        names = _PRICE_NAMES | _MIN_PRICE_NAMES | _MAX_PRICE_NAMES
        return key == "price" or (key in names and key not in self.fields.paths)

    def _price_condition(self, key: str, value: Json) -> Condition | None:
        bounds = read_bounds(value)
        if bounds is None:
            fields = self.fields.select("priceRange") if type(value) is str else []
            return any_of([_equals(field, value) for field in fields]) if fields and _is_price_range(value) else None
        if bounds.exact and key in _MIN_PRICE_NAMES:
            bounds = Bounds(bounds.low, None, currencies=bounds.currencies)
        elif bounds.exact and key in _MAX_PRICE_NAMES:
            bounds = Bounds(None, bounds.high, currencies=bounds.currencies)
        offers = dict.fromkeys(
            field.rpartition(".")[0]
            for member in ("price", "lowprice", "highprice")
            for field in [*self.fields.paths.get(member, ()), *self.fields.members.get(member, ())]
            if "shipping" not in field.lower() and "delivery" not in field.lower()
        )
        conditions = [self._offer_condition(offer, bounds) for offer in list(offers)[:MAX_FIELDS]]
        return any_of(conditions) if conditions else None

    def _offer_condition(self, offer: str, bounds: Bounds) -> Condition:
        """Bounds on the price of one kind of offer, or on its range from `lowPrice` to `highPrice`, in its currency.

        `offer` is the path of the object that holds the price, empty for the item itself.
        """
        prefix = f"{offer}." if offer else ""
        price, low, high = (f"{prefix}{member}" for member in ("price", "lowPrice", "highPrice"))
        conditions: list[Condition] = [_within(price, bounds)] if price in self.fields.names else []
        if low in self.fields.names or high in self.fields.names:
            ends = [field for field in (low, high) if field in self.fields.names]
            upper = Bounds(None, bounds.high, high_closed=bounds.high_closed)
            lower = Bounds(bounds.low, None, low_closed=bounds.low_closed)
            conditions += [_within(field, bounds) for field in ends]
            conditions += [all_of([_within(low, upper), _within(high, lower)])] if len(ends) == 2 else []
        priced = any_of(conditions) or {}
        currency = self._currency_field(offer)
        if not bounds.currencies or currency is None:
            return priced
        codes = sorted({spelling for code in bounds.currencies for spelling in (code, code.lower())})
        return all_of([priced, {"or": [{currency: {"in": codes}}, {currency: {"exists": False}}]}])

    def _currency_field(self, offer: str) -> str | None:
        """The nearest `priceCurrency`: beside the price or in an object that contains it."""
        while True:
            field = f"{offer}.priceCurrency" if offer else "priceCurrency"
            if field in self.fields.names:
                return field
            if not offer:
                return None
            offer = offer.rpartition(".")[0]

    def _location_condition(self, value: Json) -> Condition | None:
        """Every part of every place, each in any of the place fields, or the whole text of a place in one of them."""
        fields = _shallow_first(filter(is_place_field, self.fields.names))[:MAX_FIELDS]
        conditions: list[Condition] = []
        for text, parts in read_places(value) if fields else ():
            by_field = [{field: self._stored_names(field, part) for field in fields} for part in parts]
            complete = [{field: names for field, names in part.items() if names is not None} for part in by_field]
            if any(len(part) < len(fields) for part in complete):
                return None
            every_part = all_of(list(map(in_any_field, complete)))
            whole_text = in_any_field({field: _spellings(text) for field in fields})
            conditions.append(every_part if len(parts) == 1 else {"or": [whole_text, every_part]})
        return all_of(conditions) or None

    def _stored_names(self, field: str, name: str) -> list[str] | None:
        """The texts that a field may hold for a place: spellings of its names, and stored addresses that contain one;
        None if the look-up gives up."""
        pattern = place_pattern(name) if self.lookup is not None and may_hold_address(field) else None
        addresses = () if pattern is None or self.lookup is None else self.lookup(field, pattern)
        return None if addresses is None else list(dict.fromkeys([*_place_spellings(field, name), *addresses]))


# -- values ----------------------------------------------------------------------------------------------------


def _value_condition(field: str, value: Json) -> Condition | None:
    """Equality, and for a quantity or a comparison its bounds as well."""
    if type(value) is float and not math.isfinite(value):
        return None
    if type(value) is dict:
        bounds = read_bounds(value)
        return None if bounds is None else _within(field, bounds)
    if type(value) is str and _COMPARISON.search(value):
        bounds = read_bounds(value)
        if bounds is not None and not bounds.exact:
            return {"or": [_equals(field, value), _within(field, bounds)]}
    return _equals(field, value)


def _equals(field: str, value: Json) -> Condition:
    if type(value) is not str:
        return {field: {"eq": value}}
    spellings: list[Json] = list(_spellings(value))
    if field.rpartition(".")[2] == "suitableForDiet":
        spellings += [f"{spelling}Diet" for spelling in spellings]
    bounds = read_bounds(value) if value.strip()[:1].isdigit() else None
    if bounds is not None and bounds.exact and bounds.low is not None and not _COMPARISON.search(value):
        spellings.append(bounds.low)
    if value.strip().lower() in {"true", "yes", "false", "no"}:
        spellings.append(value.strip().lower() in {"true", "yes"})
    return {field: {"in": spellings}}


def _within(field: str, bounds: Bounds) -> Condition:
    operators = bounds.operators()
    return {field: dict(operators)} if operators else {}


def _date_condition(field: str, value: Json, *, strict: bool) -> Condition | None:
    """`strict` is for a field that holds dates only: the engine rejects its comparison with anything else."""
    if type(value) is int and 1_000 <= value <= 9_999:
        value = str(value)
    period = read_period(value) if type(value) is str else None
    if period is None:
        return None
    instants: Condition = {field: dict(period.operators())}
    years = period.years()
    return instants if strict or years is None else {"or": [instants, {field: dict(years)}]}


def _type_condition(values: Sequence[Json]) -> Condition | None:
    """Any of the types or their subtypes; one string may hold several types, with commas.

    A document without a type counts as an Article, or as a WebPage if it has a URL (see `items.py`).
    """
    if not values or len(values) > MAX_VALUES or not all(type(value) is str for value in values):
        return None
    written = [part.strip() for value in values for part in re.split(r"[,;|]", str(value)[:MAX_VALUE_CHARS])]
    names = {normalize_type(part) for part in written if part} if any(written) else set()
    if any(name.lower() in _ANY_TYPE for name in names):
        return {}
    if not names:
        return None
    types = frozenset().union(*map(subtypes_of, names))
    condition: Condition = {"type": {"in": sorted(types | {part for part in written if part})}}
    defaults: dict[str, Condition] = {"Article": {"url": {"exists": False}}, "WebPage": {"url": {"exists": True}}}
    untyped: list[Condition] = [
        {"and": [{"type": {"exists": False}}, defaults[name]]} for name in defaults if name in types
    ]
    return {"or": [condition, *untyped]} if untyped else condition


def _spellings(text: str) -> list[str]:
    """The casings of a text; for a schema.org URL its term as well, for several words also one term: InStock."""
    bare = " ".join(text.split())
    if "://" in bare:
        match = _SCHEMA_ORG_TERM.fullmatch(bare)
        return [bare] if match is None else [bare, match[1]]
    term = "".join(word[:1].upper() + word[1:] for word in re.split(r"[\s-]+", bare))
    casings = (bare.lower(), bare.upper(), bare.title(), bare.capitalize(), bare[:1].upper() + bare[1:], term)
    return list(dict.fromkeys([text, bare, *casings]))


def _place_spellings(field: str, text: str) -> list[str]:
    return list(dict.fromkeys(spelling for name in place_names(field, text) for spelling in _spellings(name)))


def _is_price_range(value: Json) -> bool:
    """Whether a text is a price range in signs of a currency, "$$-$$$"."""
    return type(value) is str and re.fullmatch(r"[$€£¥]{1,5}(?:\s*-\s*[$€£¥]{1,5})?", value.strip()) is not None
