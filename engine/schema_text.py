"""What of a schema.org object is text: the one table by which ingest reads it and answers withhold it.

The text of an object is its body, else its description and its parts, else its name. `extract_text` takes it,
`without_text` is an object as callers may see it where texts are withheld, and `is_text_field` says which fields of a
filter would tell it. A property counts with and without the prefix of the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final, TypeAlias

from aidre.engine.model import Json

BODIES: Final = ("text", "articleBody", "reviewBody", "transcript")
"""Whole texts. The first of these that an object has is all of its text."""

SUMMARIES: Final = ("description", "abstract")
"""In an object without a whole text, the first of these that it has is the beginning of its text."""

PARTS: Final = (
    "recipeIngredient", "recipeInstructions", "step", "itemListElement", "mainEntity", "acceptedAnswer",
    "suggestedAnswer", "qualifications", "responsibilities", "skills",
)  # fmt: skip
"""Members whose texts follow the summary."""

TITLES: Final = ("title", "name", "headline", "alternativeHeadline")
"""The first of these names an object. Titles are shown where texts are withheld, too."""

PART_MEMBERS: Final = ("@value", "name", "text", "description", *PARTS, "item")
"""Members that make the text of a nested object, such as a step or a question."""

LABELS: Final = frozenset(
    {
        *TITLES, "@context", "@id", "@type", "@language", "id", "type", "additionalType", "url", "sameAs",
        "identifier", "alternateName", "legalName", "givenName", "familyName", "additionalName", "honorificPrefix",
        "honorificSuffix", "jobTitle", "email", "telephone", "faxNumber", "address", "streetAddress",
        "addressLocality", "addressRegion", "addressCountry", "postalCode", "postOfficeBoxNumber", "areaServed",
        "location", "latitude", "longitude", "author", "creator", "contributor", "editor", "publisher", "provider",
        "producer", "director", "actor", "performer", "organizer", "sponsor", "byArtist", "translator", "illustrator",
        "brand", "manufacturer", "model", "seller", "hiringOrganization", "worksFor", "copyrightHolder", "category",
        "genre", "keywords", "articleSection", "recipeCategory", "recipeCuisine", "recipeYield", "cookingMethod",
        "servesCuisine", "suitableForDiet", "applicationCategory", "operatingSystem", "programmingLanguage",
        "softwareVersion", "version", "fileFormat", "encodingFormat", "inLanguage", "license", "courseCode",
        "educationalLevel", "learningResourceType", "typicalAgeRange", "contentRating", "sku", "mpn", "productID",
        "gtin", "gtin8", "gtin12", "gtin13", "gtin14", "isbn", "issn", "serialNumber", "bookEdition", "bookFormat",
        "numberOfPages", "pagination", "pageStart", "pageEnd", "volumeNumber", "issueNumber", "episodeNumber",
        "seasonNumber", "position", "color", "material", "pattern", "size", "width", "height", "depth", "weight",
        "duration", "totalTime", "prepTime", "cookTime", "performTime", "timeRequired", "price", "lowPrice",
        "highPrice", "priceRange", "priceCurrency", "currency", "currenciesAccepted", "paymentAccepted",
        "availability", "itemCondition", "minValue", "maxValue", "unitCode", "unitText", "propertyID", "ratingValue",
        "bestRating", "worstRating", "ratingCount", "reviewCount", "starRating", "employmentType", "industry",
        "occupationalCategory", "salaryCurrency", "jobLocationType", "eventStatus", "eventAttendanceMode",
        "openingHours", "dayOfWeek", "opens", "closes", "calories", "servingSize", "carbohydrateContent",
        "cholesterolContent", "fatContent", "fiberContent", "proteinContent", "saturatedFatContent", "sodiumContent",
        "sugarContent", "transFatContent", "unsaturatedFatContent", "fuelType", "vehicleTransmission", "image",
        "logo", "thumbnailUrl", "contentUrl", "embedUrl", "contentSize", "urlTemplate", "target", "httpMethod",
        "contentType", "encodingType", "query-input", "mainEntityOfPage",
    }
)  # fmt: skip
"""Properties whose strings name, number or sort a thing, and are shown where texts are withheld."""

_MAX_DEPTH: Final = 8
"""Levels of an object that text is taken from."""

_MAX_SHOWN_DEPTH: Final = 64
"""Levels of an object that are shown where texts are withheld."""

_MAX_COMPARED: Final = 262_144
"""Characters of a text that the strings of its object are looked for in."""

_PREFIX: Final = re.compile(r"(^|\.)(?:schema:|https?://schema\.org/)")
_NO_WORDS: Final = re.compile(
    r"https?://\S+"
    r"|schema:\w+"
    r"|[-+]?\d[\d.,:/ %+-]*"
    r"|\d{4}-\d\d(?:-\d\d(?:[Tt ]\d\d:\d\d[\d:.,]* ?(?:[Zz]|[+-]\d\d:?\d\d)?)?)?"
    r"|-?P[\d.YMWDTHS]+"
)
"""An address, a term, a number, a date, a duration."""

Properties: TypeAlias = Mapping[str, Json]


def property_name(name: str) -> str:
    """A name, or each in a dotted one, without the prefix or the IRI of the vocabulary."""
    return _PREFIX.sub(r"\1", name) if ":" in name else name


def by_property(item: Properties) -> Properties:
    """An object with its members under the names of their properties; one without prefixes is returned as it is."""
    if not any(":" in name for name in item):
        return item
    named = {property_name(name): value for name, value in item.items()}
    return named | {name: value for name, value in item.items() if ":" not in name}


def extract_text(item: Properties) -> str:
    """The text of an object: its body, else its description and its parts, else its name."""
    item = by_property(item)
    for name in BODIES:
        body = "\n\n".join(find_texts(item.get(name)))
        if body.strip():
            return body
    summaries = ("\n\n".join(find_texts(item.get(name))) for name in SUMMARIES)
    parts = [next((summary for summary in summaries if summary.strip()), "")]
    for name in PARTS:
        parts.extend(find_texts(item.get(name)))
    return "\n\n".join(filter(None, parts)) or extract_title(item) or ""


def extract_title(item: Properties) -> str | None:
    item = by_property(item)
    return next(filter(None, (next(find_texts(item.get(name)), None) for name in TITLES)), None)


def find_texts(value: Json, depth: int = _MAX_DEPTH) -> Iterator[str]:
    """The texts in a value: strings, lists of strings, and objects by their names and texts (steps, questions)."""
    if type(value) is str:
        if value.strip():
            yield value
    elif type(value) is list and depth:
        for item in value:
            yield from find_texts(item, depth - 1)
    elif type(value) is dict and depth:
        item = by_property(value)
        for name in PART_MEMBERS:
            yield from find_texts(item.get(name), depth - 1)


def is_body_field(field: str) -> bool:
    """Whether a dotted name is a whole text or lies inside of one."""
    return not _BODY_NAMES.isdisjoint(property_name(field).split("."))


def is_text_field(field: str) -> bool:
    """Whether a dotted name is text or lies inside of one: a body, a summary, a part."""
    return not _TEXT_NAMES.isdisjoint(property_name(field).split("."))


def is_label(field: str) -> bool:
    """Whether a dotted name ends with one of LABELS, whose strings are shown of every object."""
    names = [name for name in property_name(field).split(".") if name not in _CONTAINERS]
    return bool(names) and names[-1] in LABELS


def has_words(string: str) -> bool:
    """Whether a string is more than an address, a term, a number, a date or a duration."""
    return not _NO_WORDS.fullmatch(string)


def without_text(value: Json, text: str | None = None, own: Set[str] = frozenset()) -> Json:
    """An object, or any other JSON, as callers may see it where texts are withheld; None if nothing of it is left.

    `text` is the text that was taken from this object: what it does not contain is shown. Where the text of the
    document may come from elsewhere it is None, and any string could be a part of it: only LABELS are shown, and
    strings without words. `own` are names of further members that text was taken from.
    """
    if text is not None and len(text) > _MAX_COMPARED:
        text = None
    shown = _Redaction(None if text is None else _squeeze(text), own).value(value, "", _MAX_SHOWN_DEPTH)
    return None if shown is _NOTHING else shown


@dataclass(frozen=True, slots=True)
class _Redaction:
    """`text` has no white space, in which a text and the strings that it was made of may differ."""

    text: str | None
    own: Set[str]

    def value(self, value: Json, name: str, depth: int, *, in_text: bool = False) -> Json:
        """What is shown of the value of a property, or _NOTHING; `in_text` is for the parts of a text."""
        if type(value) is str:
            return value if not in_text and self._shows(name, value) else _NOTHING
        if type(value) is list:
            items = (self.value(item, name, depth - 1, in_text=in_text) for item in value if depth)
            shown = [item for item in items if item is not _NOTHING]
            return shown if shown or not value else _NOTHING
        if type(value) is not dict:
            return value
        members = self._members(value, name, depth - 1, in_text) if depth else {}
        return members if members.keys() - {"@type"} or len(members) == len(value) else _NOTHING

    def _members(self, value: Properties, holder: str, depth: int, in_text: bool) -> dict[str, Json]:
        shown: dict[str, Json] = {}
        for written, member in value.items():
            name = holder if written in _CONTAINERS else property_name(written)
            if name in _BODY_NAMES or name in self.own:
                continue
            is_part = name in PARTS or (in_text and (name in PART_MEMBERS or written in _CONTAINERS))
            is_part = is_part or (name in SUMMARIES and not _is_plain(member))
            written_value = self.value(member, name, depth, in_text=is_part)
            if written_value is not _NOTHING:
                shown[written] = written_value
        return shown

    def _shows(self, name: str, string: str) -> bool:
        if name not in SUMMARIES and (name in LABELS or not has_words(string)):
            return True
        return self.text is not None and _squeeze(string) not in self.text


def _is_plain(value: Json) -> bool:
    """Whether a value is a string or strings, without an object that may have names of its own."""
    return type(value) is str or (type(value) is list and all(type(item) is str for item in value))


def _squeeze(text: str) -> str:
    return "".join(text.split())


_NOTHING: Final = object()
_CONTAINERS: Final = frozenset({"@value", "@list", "@set"})
_BODY_NAMES: Final = frozenset(BODIES)
_TEXT_NAMES: Final = frozenset((*BODIES, *SUMMARIES, *PARTS))
