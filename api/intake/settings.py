"""The `[[intakes]]` and `[intake]` parts of the configuration: what can be submitted, what is offered, what is kept."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aidre.api.intake.schemas import schema_fault
from aidre.api.intake.templates import HITS, names_in
from aidre.api.tables import INTEGERS, Duration, Secret, check_secret
from aidre.engine.errors import ConfigurationError, InvalidFilter
from aidre.engine.filters import parse_filter

Table: TypeAlias = Mapping[str, Any]

DAY = Duration(86_400.0)
MONTH = Duration(2_592_000.0)
YEAR = Duration(31_536_000.0)
LONGEST_OFFER = Duration(315_360_000.0)
"""Ten years: beyond the year 9999 no date can be said."""
MOST_HITS = 1_000
CATEGORY = re.compile(r"[a-z]+/[a-z_]+")
RETENTIONS: Mapping[str, float | None] = {
    "none": None,
    "session": None,
    "30_days": MONTH,
    "1_year": YEAR,
    "indefinite": math.inf,
}
"""What `privacy.data_retention` may declare, in seconds where that says a time."""
RATE_MEMBERS: Mapping[str, int] = {"requests_per_minute": 60, "requests_per_day": 86_400}
"""What `rate_limit` may declare: how many requests in how many seconds."""
RATE_MOST = 1_000_000_000
LEVELS_MOST = 200
JSON_WANTED = f"must be JSON: strings, numbers of 64 bits, true, false, lists and tables, at most {LEVELS_MOST} deep"
COMPOSING = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties"})


@dataclass(frozen=True, slots=True)
class OfferedIntake:
    """One business intake: a query template over a collection whose hits become the offer.

    `query`, `summary` and the strings in `details` are templates: `{name}` is a member of the intake's data,
    `{hits.titles}` and its kin what was found. Without an `input_schema` the query's own names are asked for.
    """

    id: str
    name: str = ""
    description: str = ""
    category: str | None = None
    offer_type: str = "computed_result"
    collection: str | None = None
    filter: Any = None
    query: str = "{query}"
    top_k: int = 5
    min_score: float = 0.0
    summary: str = "Found, best first: {hits.titles}"
    details: Table = field(default_factory=dict)
    decline_reason: str = "Nothing here fits what was asked for."
    expires_in: Duration = DAY
    bind_requires: tuple[str, ...] = ()
    terms_url: str | None = None
    privacy: Table = field(default_factory=dict)
    rate_limit: Table = field(default_factory=dict)
    requires_auth: bool = False
    input_schema: Table = field(default_factory=dict)

    @property
    def binds(self) -> bool:
        return bool(self.bind_requires)

    @property
    def schema(self) -> Table:
        """What the intake's data must be like."""
        if self.input_schema:
            return self.input_schema
        return _asking_for([name.split(".") for name in names_in(self.query)])


@dataclass(frozen=True, slots=True)
class Intake:
    """`bind_key` encrypts what a bind hands over; without it a key is made once, in `key_file`: a file beside the
    configuration, else in the user's configuration folder. `retention` is of binds that no `webhook` takes;
    `max_offers` is how many offers that can be bound are remembered at a time."""

    bind_key: Secret | None = field(default=None, repr=False)
    key_file: str | None = None
    webhook: Secret | None = field(default=None, repr=False)
    retention: Duration = MONTH
    max_offers: int = 100_000


def _asking_for(paths: Sequence[Sequence[str]]) -> Table:
    """A schema of data that have something at all these paths."""
    further: dict[str, list[Sequence[str]]] = {}
    for name, *path in paths:
        further.setdefault(name, []).append(path)
    text = {"type": "string", "minLength": 1}
    properties = {name: _asking_for(inner) if all(inner) else text for name, inner in further.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def retention_of(intake: OfferedIntake, settings: Intake) -> float:
    """Seconds that the data of a bind are kept: the shorter of the configuration's retention and what is declared.

    "none" speaks of the intake's data, of which nothing is kept; what was bound must still reach somebody.
    """
    declared = intake.privacy.get("data_retention", "indefinite")
    if declared == "session":
        return min(intake.expires_in, settings.retention)
    allowed = RETENTIONS[declared]
    return settings.retention if allowed is None else min(allowed, settings.retention)


def declared_retention(intake: OfferedIntake, settings: Intake) -> str:
    """What the manifest says of how long data are kept: the configuration's word, else the least that is true."""
    if "data_retention" in intake.privacy:
        return str(intake.privacy["data_retention"])
    if not intake.binds:
        return "none"
    return next(name for name, most in RETENTIONS.items() if most is not None and settings.retention <= most)


def check_intakes(intakes: tuple[OfferedIntake, ...], settings: Intake) -> None:
    """Raises ConfigurationError; names and addresses that other parts share are checked with those."""
    _check_settings(settings)
    for number, intake in enumerate(intakes):
        where = f"intakes[{number}]"
        if not re.fullmatch(r"[a-z0-9-]+", intake.id) or intake.id == "bind":
            raise ConfigurationError(f"{where}.id {intake.id!r} must be of a-z 0-9 - and not 'bind'")
        if intake.category is not None and not CATEGORY.fullmatch(intake.category):
            raise ConfigurationError(f"{where}.category must be like data/retrieval, of a-z and _ only")
        if not 1 <= intake.top_k <= MOST_HITS:
            raise ConfigurationError(f"{where}.top_k must be from 1 to {MOST_HITS}, not {intake.top_k}")
        if not math.isfinite(intake.min_score):
            raise ConfigurationError(f"{where}.min_score must be a finite number")
        if intake.expires_in <= 0:
            raise ConfigurationError(f"{where}.expires_in must be at least 1s")
        if intake.expires_in > LONGEST_OFFER:
            raise ConfigurationError(f"{where}.expires_in must be at most 3650d")
        for name in ("offer_type", "decline_reason", "summary"):
            if not getattr(intake, name).strip():
                raise ConfigurationError(f"{where}.{name} must not be blank")
        if intake.terms_url is not None and not re.fullmatch(r"https?://[!-~]+", intake.terms_url):
            raise ConfigurationError(f"{where}.terms_url must be a URL such as https://example.com/terms")
        if any(not name.strip() for name in intake.bind_requires) or len(set(intake.bind_requires)) < len(
            intake.bind_requires
        ):
            raise ConfigurationError(f"{where}.bind_requires must name members of bind_data, each once")
        _check_filter(intake.filter, f"{where}.filter")
        _check_privacy(intake.privacy, f"{where}.privacy")
        _check_rates(intake.rate_limit, f"{where}.rate_limit")
        _check_schema(intake, where)
        _check_templates(intake, where)


def _check_settings(settings: Intake) -> None:
    if settings.retention <= 0:
        raise ConfigurationError("intake.retention must be at least 1s")
    if settings.max_offers < 1:
        raise ConfigurationError(f"intake.max_offers must be at least 1, not {settings.max_offers}")
    if settings.bind_key is not None:
        check_secret(settings.bind_key, "intake.bind_key")


def _check_filter(filter: Any, where: str) -> None:
    if filter is None:
        return
    try:
        parse_filter(filter)
    except InvalidFilter as error:
        raise ConfigurationError(f"{where} is no filter: {error.message}") from error


def _check_privacy(privacy: Table, where: str) -> None:
    for name, value in privacy.items():
        if name == "data_retention":
            if value not in RETENTIONS:
                raise ConfigurationError(f"{where}.{name} must be one of {', '.join(RETENTIONS)}, not {value!r}")
        elif name not in {"pii_required", "redacted_acceptable"}:
            raise ConfigurationError(f"{where}.{name} is none of data_retention, pii_required, redacted_acceptable")
        elif type(value) is not bool:
            raise ConfigurationError(f"{where}.{name} must be true or false, not {value!r}")


def _check_rates(rates: Table, where: str) -> None:
    for name, value in rates.items():
        if name not in RATE_MEMBERS:
            raise ConfigurationError(f"{where}.{name} is none of {', '.join(RATE_MEMBERS)}")
        if type(value) is not int or not 1 <= value <= RATE_MOST:
            raise ConfigurationError(f"{where}.{name} must be a whole number from 1 to {RATE_MOST:,}, not {value!r}")


def _check_schema(intake: OfferedIntake, where: str) -> None:
    place = f"{where}.input_schema"
    if not _is_json(intake.input_schema):
        raise ConfigurationError(f"{place} {JSON_WANTED}")
    if not _admits_objects(intake.schema):
        raise ConfigurationError(f'{place}.type must be "object": it is what intake_data are')
    fault = schema_fault(intake.schema)
    if fault is not None:
        raise ConfigurationError(f"{place} is no schema that can be used here: {fault}")


def _is_json(value: Any, levels: int = LEVELS_MOST) -> bool:
    """Whether it can be written out as JSON, within what is around it."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return levels > 0 and all(_is_json(one, levels - 1) for one in inner)
    if type(value) is int:
        return value in INTEGERS
    return type(value) in {str, bool} or (type(value) is float and math.isfinite(value))


def _check_templates(intake: OfferedIntake, where: str) -> None:
    if not names_in(intake.query):
        raise ConfigurationError(f"{where}.query must name a member of the intake's data, such as {{query}}")
    if "items" in intake.details:
        raise ConfigurationError(f"{where}.details.items is where the hits stand: choose another name")
    if not _is_json(intake.details):
        raise ConfigurationError(f"{where}.details {JSON_WANTED}")
    offered = [("summary", intake.summary), *(("details", text) for text in _texts(intake.details))]
    for place, template in (("query", intake.query), *offered):
        for name in names_in(template):
            if name.partition(".")[0] == "hits" and place != "query":
                if name not in HITS:
                    raise ConfigurationError(f"{where}.{place}: {{{name}}} is none of {', '.join(HITS)}")
            elif not _may_have(intake.schema, name):
                raise ConfigurationError(f"{where}.{place}: {{{name}}} is not a property of its input_schema")


def _may_have(schema: Any, path: str) -> bool:
    """Whether data of this schema can have a member at a path; True where that is not plain from its properties."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not COMPOSING.isdisjoint(schema):
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
