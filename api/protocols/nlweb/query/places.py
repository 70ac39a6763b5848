"""Names of places: synonyms of regions and countries, fields that locate an item, and patterns for address texts.

Knows the states of the USA and 52 countries by name. It knows no coordinates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from aidre.engine.model import Json

PLACE_MEMBERS: Final = frozenset(
    {
        "addressCountry", "addressLocality", "addressRegion", "address", "areaServed", "city", "contentLocation",
        "country", "location", "place", "postalCode", "region", "spatialCoverage", "state", "town",
    }
)  # fmt: skip
"""The last member of the path of a field that names a place, not counting `name`."""
_COMPONENTS: Final = frozenset(
    {"addressCountry", "addressLocality", "addressRegion", "city", "country", "postalCode", "region", "state", "town"}
)
"""Members that hold one name; the others may hold an address in words."""
_LOCATING_MEMBERS: Final = PLACE_MEMBERS | {
    "applicantLocationRequirements", "availableAtOrFrom", "containedInPlace", "eligibleRegion", "homeLocation",
    "itemLocation", "jobLocation", "locationCreated", "offers", "serviceArea", "workLocation",
}  # fmt: skip
"""First members of the paths of fields that locate the item itself, not its author."""
_AROUND: Final = re.compile(r"(?:somewhere )?(?:in|near|around|at|within|from|close to|bei) (?:the )?", re.IGNORECASE)
_MAX_PARTS: Final = 8
"""Parts between commas; a text of more is not a place."""
_MAX_NAMES: Final = 16
_MAX_NAME_CHARS: Final = 200
"""Characters of a name that is searched for in texts."""
_SHORT_CHARS: Final = 3
"""Shorter names match in capitals only (`in` is not Indiana), names of this length in capitals or as a title."""
_UNSPACED: Final = "\u2e80"
"""Code point from which scripts put no spaces between words, roughly."""
_NOWHERE: Final = frozenset(
    {"anywhere", "around me", "here", "me", "my area", "my location", "near", "near me", "nearby"}
)


@cache
def _synonyms() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """For regions and for countries: each name in lower case, with all names of the same place."""
    synonyms: dict[str, dict[str, tuple[str, ...]]] = {"region": {}, "country": {}}
    for line in Path(__file__).with_name("places.txt").read_text("utf-8").splitlines():
        kind, _, listed = line.partition(": ")
        names = tuple(listed.split(", "))
        synonyms[kind] |= {name.lower(): names for name in names}
    return synonyms


def place_names(field: str, name: str) -> tuple[str, ...]:
    """A name and its synonyms in a field: "ID" is Idaho in a field of regions and Indonesia in one of countries."""
    member = _last_member(field).lower().removeprefix("address")
    synonyms = _synonyms().get("region" if member == "state" else member, {})
    return tuple(dict.fromkeys([name, *synonyms.get(name.lower(), ())]))


def split_place(written: str) -> list[str]:
    """The names that an item's place must all have: "near Boise, ID" gives two. Empty for a text that names no place,
    or has too many parts to be one."""
    text = _AROUND.sub("", " ".join(written.split()), count=1) if _AROUND.match(written.strip()) else written
    parts = [part.strip() for part in text.split(",")]
    parts = [part for part in parts if part]
    return [] if len(parts) > _MAX_PARTS or any(part.lower() in _NOWHERE for part in parts) else parts


def read_places(value: Json) -> list[tuple[str, list[str]]]:
    """The places of a value, each as its text and its parts; empty where one of them names no place."""
    places = [(text, split_place(text)) for text in collect_texts(value)]
    return places if all(parts for _, parts in places) else []


def collect_texts(value: Json) -> list[str]:
    """The strings of a place, which may be an object; empty where it holds anything else, such as coordinates."""
    texts: list[str] = []
    pending = [value]
    while pending:
        current = pending.pop()
        if type(current) is str:
            texts.append(current)
        elif type(current) is dict and len(current) <= _MAX_NAMES:
            pending += [member for name, member in current.items() if not name.startswith("@") and member is not None]
        else:
            return []
    return texts if len(texts) <= _MAX_NAMES else []


def place_pattern(name: str) -> str | None:
    """A regular expression that finds a place, by this name or a synonym, as whole words in an address. The two letters
    of a state match after a comma only. None for a text that is not a name."""
    if len(name) > _MAX_NAME_CHARS or not name.isprintable():
        return None
    states = place_names("addressRegion", name)
    synonyms = dict.fromkeys([*states, *place_names("addressCountry", name)])
    start = "" if name[0] >= _UNSPACED else r"(?:^|\W)"
    end = "" if name[-1] >= _UNSPACED else r"(?:\W|$)"
    forms = [start + _name_pattern(synonym) for synonym in synonyms if synonym == name or len(synonym) >= _SHORT_CHARS]
    forms += [rf",\s*(?-i:{state})" for state in states if state != name and len(state) < _SHORT_CHARS]
    return f"(?i)(?:{'|'.join(forms)}){end}"


def _name_pattern(name: str) -> str:
    words = r"\s+".join(map(re.escape, name.split()))
    if len(name) > _SHORT_CHARS or not name.isalpha() or not name.isascii():
        return words
    return f"(?-i:{name.upper()})" if len(name) < _SHORT_CHARS else f"(?-i:{name.upper()}|{name.title()})"


def is_place_field(field: str) -> bool:
    """Whether a field, by its dotted path, says where the item is, as against where its author lives."""
    return _last_member(field) in PLACE_MEMBERS and field.removeprefix("metadata.").split(".")[0] in _LOCATING_MEMBERS


def may_hold_address(field: str) -> bool:
    """Whether a place field may hold an address in words, such as "Main Street 1, Springfield"."""
    return _last_member(field) not in _COMPONENTS


def _last_member(field: str) -> str:
    return field.removesuffix(".name").rpartition(".")[2]
