"""Places by name: how a region or a country may be written, and which fields say where an item is."""

from __future__ import annotations

import re
from typing import Final

from aidre.engine.model import Json

_STATES: Final = """
AL Alabama AK Alaska AZ Arizona AR Arkansas CA California CO Colorado CT Connecticut DE Delaware FL Florida GA Georgia
HI Hawaii ID Idaho IL Illinois IN Indiana IA Iowa KS Kansas KY Kentucky LA Louisiana ME Maine MD Maryland
MA Massachusetts MI Michigan MN Minnesota MS Mississippi MO Missouri MT Montana NE Nebraska NV Nevada NH New_Hampshire
NJ New_Jersey NM New_Mexico NY New_York NC North_Carolina ND North_Dakota OH Ohio OK Oklahoma OR Oregon PA Pennsylvania
RI Rhode_Island SC South_Carolina SD South_Dakota TN Tennessee TX Texas UT Utah VT Vermont VA Virginia WA Washington
WV West_Virginia WI Wisconsin WY Wyoming
"""
_COUNTRIES: Final = """
US USA United_States United_States_of_America America; GB UK United_Kingdom Great_Britain; DE Germany Deutschland;
FR France; ES Spain España; IT Italy Italia; NL Netherlands The_Netherlands Holland Nederland; BE Belgium; AT Austria
Österreich; CH Switzerland Schweiz Suisse; SE Sweden Sverige; NO Norway Norge; DK Denmark Danmark; FI Finland;
PL Poland Polska; PT Portugal; IE Ireland; GR Greece; CZ Czechia Czech_Republic; HU Hungary; RO Romania; UA Ukraine;
RU Russia; TR Turkey Türkiye; IL Israel; AE UAE United_Arab_Emirates; SA Saudi_Arabia; EG Egypt; ZA South_Africa;
NG Nigeria; KE Kenya; IN India; PK Pakistan; BD Bangladesh; CN China; JP Japan; KR South_Korea; TH Thailand; VN Vietnam;
ID Indonesia; MY Malaysia; SG Singapore; PH Philippines; AU Australia; NZ New_Zealand; CA Canada; MX Mexico México;
BR Brazil Brasil; AR Argentina; CL Chile; CO Colombia; PE Peru
"""
NAMES: Final = frozenset(
    {
        "addressCountry", "addressLocality", "addressRegion", "address", "areaServed", "city", "contentLocation",
        "country", "location", "place", "postalCode", "region", "spatialCoverage", "state", "town",
    }
)  # fmt: skip
"""The last member of a field that names a place, or the one before its `name`."""
_COMPONENTS: Final = frozenset(
    {"addressCountry", "addressLocality", "addressRegion", "city", "country", "postalCode", "region", "state", "town"}
)
"""Fields that hold one name; the others may hold an address in words."""
_HOLDERS: Final = NAMES | {
    "applicantLocationRequirements", "availableAtOrFrom", "containedInPlace", "eligibleRegion", "homeLocation",
    "itemLocation", "jobLocation", "locationCreated", "offers", "serviceArea", "workLocation",
}  # fmt: skip
_AROUND: Final = re.compile(r"(?:somewhere )?(?:in|near|around|at|within|from|close to|bei) (?:the )?", re.IGNORECASE)
_MOST_PARTS: Final = 8
_MOST_NAMES: Final = 16
_LONGEST: Final = 200
"""Characters of a name that is looked for inside of texts."""
_SHORT: Final = 3
"""Names of fewer letters are looked for in capitals alone, `in` is not Indiana, of so many not in small letters."""
_UNSPACED: Final = "\u2e80"
"""Scripts without spaces between words begin about here."""
_NOWHERE: Final = frozenset(
    {"anywhere", "around me", "here", "me", "my area", "my location", "near", "near me", "nearby"}
)


def _same(groups: list[list[str]]) -> dict[str, tuple[str, ...]]:
    plain = [[name.replace("_", " ") for name in group] for group in groups]
    return {name.lower(): tuple(group) for group in plain for name in group}


_PAIRS: Final = _STATES.split()
_SAME: Final = {
    "region": _same([_PAIRS[at : at + 2] for at in range(0, len(_PAIRS), 2)]),
    "country": _same([group.split() for group in _COUNTRIES.split(";")]),
}


def names_in(field: str, name: str) -> tuple[str, ...]:
    """A place and its other names in a field: "ID" is Idaho where regions stand and Indonesia where countries do."""
    member = _member(field).lower().removeprefix("address")
    same = _SAME["region" if member == "state" else member] if member in {"state", "region", "country"} else {}
    return tuple(dict.fromkeys([name, *same.get(name.lower(), ())]))


def place_parts(written: str) -> list[str]:
    """What a place must be called, every part of it: "near Boise, ID" has two. Empty where it names none, or so many
    that it is no place."""
    text = _AROUND.sub("", " ".join(written.split()), count=1) if _AROUND.match(written.strip()) else written
    parts = [part.strip() for part in text.split(",")]
    parts = [part for part in parts if part]
    return [] if len(parts) > _MOST_PARTS or any(part.lower() in _NOWHERE for part in parts) else parts


def places_in(value: Json) -> list[tuple[str, list[str]]]:
    """The places that a value names, each whole and in its parts; empty where one of them is none."""
    places = [(text, place_parts(text)) for text in place_texts(value)]
    return places if all(parts for _, parts in places) else []


def place_texts(value: Json) -> list[str]:
    """The names in a place, which may be an object; empty where it holds anything else, such as coordinates."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if type(one) is str:
            found.append(one)
        elif type(one) is dict and len(one) <= _MOST_NAMES:
            waiting += [member for name, member in one.items() if not name.startswith("@") and member is not None]
        else:
            return []
    return found if len(found) <= _MOST_NAMES else []


def place_pattern(name: str) -> str | None:
    """A regular expression for a text about where something is: the name or another of the place, as words of
    their own. A state may stand there by its two letters, behind a comma. None for what is no name."""
    if len(name) > _LONGEST or not name.isprintable():
        return None
    states = names_in("addressRegion", name)
    said = dict.fromkeys([*states, *names_in("addressCountry", name)])
    start = "" if name[0] >= _UNSPACED else r"(?:^|\W)"
    end = "" if name[-1] >= _UNSPACED else r"(?:\W|$)"
    forms = [start + _form(one) for one in said if one == name or len(one) >= _SHORT]
    forms += [rf",\s*(?-i:{one})" for one in states if one != name and len(one) < _SHORT]
    return f"(?i)(?:{'|'.join(forms)}){end}"


def _form(name: str) -> str:
    words = r"\s+".join(map(re.escape, name.split()))
    if len(name) > _SHORT or not name.isalpha() or not name.isascii():
        return words
    return f"(?-i:{name.upper()})" if len(name) < _SHORT else f"(?-i:{name.upper()}|{name.title()})"


def names_place(field: str) -> bool:
    """Whether a field, by its dotted name, says where an item is: not where its author lives."""
    return _member(field) in NAMES and field.removeprefix("metadata.").split(".")[0] in _HOLDERS


def tells_place(field: str) -> bool:
    """Whether a field that names a place may do so in words, such as "Main Street 1, Springfield"."""
    return _member(field) not in _COMPONENTS


def _member(field: str) -> str:
    return field.removesuffix(".name").rpartition(".")[2]
