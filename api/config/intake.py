"""The `[[intakes]]` and `[intake]` sections, and the templates in them: what can be submitted, offered and retained."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from aidre.api.config.intent import Filter, check_filter
from aidre.api.config.json_schema import schema_fault
from aidre.api.config.origins import check_url
from aidre.api.config.toml import (
    INTEGERS,
    CollectionName,
    Count,
    Interval,
    Relevance,
    Secret,
    Section,
    Table,
    Text,
    check_secret,
    like,
    matching,
)

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z0-9_$-][A-Za-z0-9_.$-]*)\}")
HIT_NAMES = ("hits.count", "hits.titles", "hits.first.title", "hits.first.url", "hits.first.text", "hits.first.id")
"""The names of values of the hits; they take precedence over a member `hits` of the data."""


def names_in(template: str) -> list[str]:
    """The names of a template's placeholders, in order."""
    return [match[1] for match in PLACEHOLDER.finditer(template) if match[1] is not None]


def fill_template(template: str, data: Mapping[str, Any], hits: Mapping[str, str] | None = None) -> str:
    """The template with its placeholders `{name}` replaced; a missing member becomes empty. `{{` and `}}` are literal
    braces.

    A name is a path of members joined by dots. Python's format language is not supported, because data of an agent must
    not reach attributes.
    """

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if hits is not None and name in hits:
            return hits[name]
        return _as_words(_member(data, name))

    return " ".join(PLACEHOLDER.sub(replacement, template).split())


def fill_all_templates(value: Any, data: Mapping[str, Any], hits: Mapping[str, str]) -> Any:
    """A JSON value with every string in it filled as a template."""
    if isinstance(value, str):
        return fill_template(value, data, hits)
    if isinstance(value, Mapping):
        return {name: fill_all_templates(item, data, hits) for name, item in value.items()}
    return [fill_all_templates(item, data, hits) for item in value] if isinstance(value, list) else value


def hit_values(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The values of HIT_NAMES for the items of an offer."""
    first = items[0]
    return {
        "hits.count": str(len(items)),
        "hits.titles": "; ".join(dict.fromkeys(_title(item) for item in items)),
        "hits.first.title": _title(first),
        "hits.first.url": str(first.get("url", "")),
        "hits.first.text": str(first.get("text", "")),
        "hits.first.id": str(first["id"]),
    }


def _title(item: Mapping[str, Any]) -> str:
    return str(item.get("title") or item.get("url") or item["id"])


def _member(data: Mapping[str, Any], path: str) -> Any:
    value: Any = data
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _as_words(value: Any) -> str:
    """A value as text: a list as its items; booleans and objects as nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(filter(None, map(_as_words, value)))
    return str(value) if type(value) in {int, float} else ""


DAY, MONTH, YEAR = 86_400.0, 2_592_000.0, 31_536_000.0
MAX_OFFER_SECONDS = 315_360_000.0
"""Ten years, so that the end of an offer stays before the year 9999."""
Retention: TypeAlias = Literal["none", "session", "30_days", "1_year", "indefinite"]
RETENTIONS: Mapping[Retention, float | None] = {
    "none": None,
    "session": None,
    "30_days": MONTH,
    "1_year": YEAR,
    "indefinite": math.inf,
}
"""Values of `privacy.data_retention`, in seconds; None for those that name no time."""
Category: TypeAlias = Annotated[str, matching("[a-z]+/[a-z_]+", "be like data/retrieval, of a-z and _")]
TermsUrl: TypeAlias = Annotated[str, matching("https?://[!-~]+", "be a URL such as https://example.com/terms")]
RateLimit: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]
RATE_PERIODS: Mapping[str, int] = {"requests_per_minute": 60, "requests_per_day": 86_400}
"""Members of `rate_limit`, and their periods in seconds."""
RatePeriod: TypeAlias = Annotated[str, matching("|".join(RATE_PERIODS), f"be one of {', '.join(RATE_PERIODS)}")]
MAX_LEVELS = 200
JSON_RULE = f"must be JSON: strings, numbers of 64 bits, true, false, lists and tables, at most {MAX_LEVELS} deep"
COMPOSING_KEYWORDS = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties"})


class Privacy(Section):
    """What an intake declares of the data that it is given."""

    #: How long they are kept; default: the shortest that is true. "none" refers to the submitted data.
    data_retention: Retention | None = None
    pii_required: bool | None = None  #: Whether personal data are needed.
    redacted_acceptable: bool | None = None  #: Whether redacted data will do.


class OfferedIntake(Section):
    """One intake: a query template over a collection, whose hits become the offer. `query`, `summary` and the strings
    in `details` are templates: `{name}` is a member of the submitted data, `{hits.titles}` a value of the hits, beside
    `{hits.count}` and title, url, text and id of `hits.first`."""

    #: The last part of its URL, `/intakes/{id}`.
    id: Annotated[str, matching("(?!bind\\Z)[a-z0-9-]+", "be of a-z 0-9 - and not 'bind'", "find-a-recipe")]
    name: Annotated[str, like("Find a recipe")] = ""  #: The name in the manifest; default: its id.
    description: Annotated[str, like("Say what you have at home")] = ""  #: Default: its name.
    category: Annotated[Category, like("data/retrieval")] | None = None  #: The category in the manifest.
    offer_type: Text = "computed_result"  #: The type of its offers.
    collection: CollectionName | None = None  #: Default: `server.default_collection`, or the only one.
    filter: Filter = None  #: The filter that hits pass.
    query: Annotated[str, like("a dish with {ingredients}")] = "{query}"  #: Names members of the data.
    top_k: Annotated[int, Meta(ge=1, le=1_000)] = 5  #: The most hits of an offer.
    min_score: Relevance | None = None  #: The least relevance of a hit; default: the calibrated bound.
    summary: Text = "Found, best first: {hits.titles}"  #: The summary of an offer.
    details: Annotated[Mapping[str, Any], like({"found": "{hits.count}"})] = {}  #: Members of an offer beside `items`.
    decline_reason: Text = "Nothing here fits what was asked for."  #: What is answered without hits.
    expires_in: Interval = Interval(DAY)  #: How long an offer can be bound, at most ten years.
    bind_requires: Annotated[tuple[Text, ...], like(["email"])] = ()  #: What binding needs; empty: no binding.
    terms_url: Annotated[TermsUrl, like("https://example.com/terms")] | None = None  #: The terms of binding.
    privacy: Privacy = Privacy()
    #: The most requests of a caller, `requests_per_minute` and `requests_per_day`, beside `limits.rate`.
    rate_limit: Annotated[Mapping[RatePeriod, RateLimit], like({"requests_per_minute": 10})] = {}
    requires_auth: bool = False  #: Whether only callers with a key may use it.
    #: The JSON Schema of the submitted data; default: the names in the query are required.
    input_schema: Annotated[Mapping[str, Any], like({"required": ["ingredients"]})] = {}

    @property
    def binds(self) -> bool:
        return bool(self.bind_requires)

    @property
    def schema(self) -> Table:
        """The JSON Schema of the submitted data."""
        if self.input_schema:
            return self.input_schema
        return _schema_requiring([name.split(".") for name in names_in(self.query)])

    def __post_init__(self) -> None:
        if self.expires_in > MAX_OFFER_SECONDS:
            raise ValueError(".expires_in must be at most 3650d")
        if len(set(self.bind_requires)) < len(self.bind_requires):
            raise ValueError(".bind_requires must name members of bind_data, each once")
        check_filter(self.filter)
        _check_schema(self)
        _check_templates(self)


class IntakeSettings(Section):
    """What becomes of binds."""

    #: Encrypts the data of binds, of at least 16 characters; without it a key is created once in `key_file`.
    bind_key: Secret | None = None
    key_file: Annotated[str, like("bind-key")] | None = None  #: Default: beside this file, or in the user's folder.
    webhook: Secret | None = None  #: The URL that receives binds.
    retention: Interval = Interval(MONTH)  #: How long binds are kept that no webhook receives.
    max_offers: Count = 100_000  #: The number of stored offers that can be bound.

    def __post_init__(self) -> None:
        check_url(self.webhook, ".webhook", secret=True)
        if self.bind_key is not None:
            check_secret(self.bind_key, ".bind_key")


def _schema_requiring(paths: Sequence[Sequence[str]]) -> Table:
    """A schema that requires text at all these paths."""
    members: dict[str, list[Sequence[str]]] = {}
    for name, *path in paths:
        members.setdefault(name, []).append(path)
    text = {"type": "string", "minLength": 1}
    properties = {name: _schema_requiring(inner) if all(inner) else text for name, inner in members.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def retention_of(intake: OfferedIntake, settings: IntakeSettings) -> float:
    """Seconds for which the data of a bind are stored: the shorter of the configured and the declared retention.

    "none" refers to the intake's data, which are never stored; bound data must still reach the publisher.
    """
    declared = intake.privacy.data_retention or "indefinite"
    if declared == "session":
        return min(intake.expires_in, settings.retention)
    allowed = RETENTIONS[declared]
    return settings.retention if allowed is None else min(allowed, settings.retention)


def declared_retention(intake: OfferedIntake, settings: IntakeSettings) -> Retention:
    """The retention for the manifest: the configured value, else the shortest one that is true."""
    if intake.privacy.data_retention is not None:
        return intake.privacy.data_retention
    if not intake.binds:
        return "none"
    return next(name for name, most in RETENTIONS.items() if most is not None and settings.retention <= most)


def _check_schema(intake: OfferedIntake) -> None:
    if not _is_json(intake.input_schema):
        raise ValueError(f".input_schema {JSON_RULE}")
    if not _admits_objects(intake.schema):
        raise ValueError('.input_schema.type must be "object", which intake_data is')
    fault = schema_fault(intake.schema)
    if fault is not None:
        raise ValueError(f".input_schema is not a usable schema: {fault}")


def _is_json(value: Any, levels: int = MAX_LEVELS) -> bool:
    """Whether a value can be serialized as JSON within the nesting limit."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return levels > 0 and all(_is_json(item, levels - 1) for item in inner)
    if type(value) is int:
        return value in INTEGERS
    return type(value) in {str, bool} or (type(value) is float and math.isfinite(value))


def _check_templates(intake: OfferedIntake) -> None:
    if not names_in(intake.query):
        raise ValueError(".query must name a member of the intake's data, such as {query}")
    if "items" in intake.details:
        raise ValueError(".details.items holds the hits: choose another name")
    if not _is_json(intake.details):
        raise ValueError(f".details {JSON_RULE}")
    offered = [("summary", intake.summary), *(("details", text) for text in _texts(intake.details))]
    for member, template in (("query", intake.query), *offered):
        for name in names_in(template):
            if name.partition(".")[0] == "hits" and member != "query":
                if name not in HIT_NAMES:
                    raise ValueError(f".{member}: {{{name}}} is not one of {', '.join(HIT_NAMES)}")
            elif not _may_have(intake.schema, name):
                raise ValueError(f".{member}: {{{name}}} is not a property of its input_schema")


def _may_have(schema: Any, path: str) -> bool:
    """Whether data of this schema can have a member at a path; True if its properties alone do not decide it."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not COMPOSING_KEYWORDS.isdisjoint(schema):
        return not isinstance(schema, dict) or _admits_objects(schema)
    name, _, rest = path.partition(".")
    return name in properties and (not rest or _may_have(properties[name], rest))


def _admits_objects(schema: Table) -> bool:
    kind = schema.get("type", "object")
    return "object" in (kind if isinstance(kind, list) else [kind])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
