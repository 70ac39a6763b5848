"""The `[[intakes]]` and `[intake]` sections: what can be submitted, what is offered, what is retained."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aidre.api.config.json_schema import schema_fault
from aidre.api.config.templates import HIT_NAMES, names_in
from aidre.api.config.toml import INTEGERS, Duration, Secret, check_secret
from aidre.engine.errors import ConfigurationError, InvalidFilter
from aidre.engine.index.fields import parse_filter

Table: TypeAlias = Mapping[str, Any]

DAY = Duration(86_400.0)
MONTH = Duration(2_592_000.0)
YEAR = Duration(31_536_000.0)
MAX_OFFER_SECONDS = Duration(315_360_000.0)
"""Ten years, so that the end of an offer stays before the year 9999."""
MAX_HITS = 1_000
CATEGORY = re.compile(r"[a-z]+/[a-z_]+")
RETENTIONS: Mapping[str, float | None] = {
    "none": None,
    "session": None,
    "30_days": MONTH,
    "1_year": YEAR,
    "indefinite": math.inf,
}
"""Values of `privacy.data_retention`, in seconds; None for those that name no time."""
RATE_PERIODS: Mapping[str, int] = {"requests_per_minute": 60, "requests_per_day": 86_400}
"""Members of `rate_limit`, and their periods in seconds."""
MAX_RATE = 1_000_000_000
MAX_LEVELS = 200
JSON_RULE = f"must be JSON: strings, numbers of 64 bits, true, false, lists and tables, at most {MAX_LEVELS} deep"
COMPOSING_KEYWORDS = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties"})


@dataclass(frozen=True, slots=True)
class OfferedIntake:
    """One intake: a query template over a collection, whose hits become the offer.

    `query`, `summary` and the strings in `details` are templates: `{name}` is a member of the submitted data,
    `{hits.titles}` and the other HIT_NAMES are values of the hits. Without an `input_schema` the names in the query are
    required. `min_score` is the least relevance (0 to 1) of a hit that is offered; without it the calibrated bound.
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
    min_score: float | None = None
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
        """The JSON Schema of the submitted data."""
        if self.input_schema:
            return self.input_schema
        return _schema_requiring([name.split(".") for name in names_in(self.query)])


@dataclass(frozen=True, slots=True)
class Intake:
    """`bind_key` encrypts the data of binds; without it a key is created once in `key_file`, beside the configuration
    or in the user's configuration folder. `retention` applies to binds that no `webhook` receives; `max_offers` is the
    number of stored offers that can be bound."""

    bind_key: Secret | None = field(default=None, repr=False)
    key_file: str | None = None
    webhook: Secret | None = field(default=None, repr=False)
    retention: Duration = MONTH
    max_offers: int = 100_000


def _schema_requiring(paths: Sequence[Sequence[str]]) -> Table:
    """A schema that requires text at all these paths."""
    members: dict[str, list[Sequence[str]]] = {}
    for name, *path in paths:
        members.setdefault(name, []).append(path)
    text = {"type": "string", "minLength": 1}
    properties = {name: _schema_requiring(inner) if all(inner) else text for name, inner in members.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def retention_of(intake: OfferedIntake, settings: Intake) -> float:
    """Seconds for which the data of a bind are stored: the shorter of the configured and the declared retention.

    "none" refers to the intake's data, which are never stored; bound data must still reach the publisher.
    """
    declared = intake.privacy.get("data_retention", "indefinite")
    if declared == "session":
        return min(intake.expires_in, settings.retention)
    allowed = RETENTIONS[declared]
    return settings.retention if allowed is None else min(allowed, settings.retention)


def declared_retention(intake: OfferedIntake, settings: Intake) -> str:
    """The retention for the manifest: the configured value, else the shortest one that is true."""
    if "data_retention" in intake.privacy:
        return str(intake.privacy["data_retention"])
    if not intake.binds:
        return "none"
    return next(name for name, most in RETENTIONS.items() if most is not None and settings.retention <= most)


def check_intakes(intakes: tuple[OfferedIntake, ...], settings: Intake) -> None:
    """Raises ConfigurationError. Collection names and the webhook are checked by the settings."""
    _check_settings(settings)
    for number, intake in enumerate(intakes):
        where = f"intakes[{number}]"
        if not re.fullmatch(r"[a-z0-9-]+", intake.id) or intake.id == "bind":
            raise ConfigurationError(f"{where}.id {intake.id!r} must be of a-z 0-9 - and not 'bind'")
        if intake.category is not None and not CATEGORY.fullmatch(intake.category):
            raise ConfigurationError(f"{where}.category must be like data/retrieval, of a-z and _ only")
        if not 1 <= intake.top_k <= MAX_HITS:
            raise ConfigurationError(f"{where}.top_k must be from 1 to {MAX_HITS}, not {intake.top_k}")
        if intake.min_score is not None and not 0 <= intake.min_score <= 1:
            raise ConfigurationError(f"{where}.min_score must be a relevance from 0 to 1, not {intake.min_score}")
        if intake.expires_in <= 0:
            raise ConfigurationError(f"{where}.expires_in must be at least 1s")
        if intake.expires_in > MAX_OFFER_SECONDS:
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
        raise ConfigurationError(f"{where} is not a valid filter: {error.message}") from error


def _check_privacy(privacy: Table, where: str) -> None:
    for name, value in privacy.items():
        if name == "data_retention":
            if value not in RETENTIONS:
                raise ConfigurationError(f"{where}.{name} must be one of {', '.join(RETENTIONS)}, not {value!r}")
        elif name not in {"pii_required", "redacted_acceptable"}:
            raise ConfigurationError(f"{where}.{name} is not one of data_retention, pii_required, redacted_acceptable")
        elif type(value) is not bool:
            raise ConfigurationError(f"{where}.{name} must be true or false, not {value!r}")


def _check_rates(rates: Table, where: str) -> None:
    for name, value in rates.items():
        if name not in RATE_PERIODS:
            raise ConfigurationError(f"{where}.{name} is not one of {', '.join(RATE_PERIODS)}")
        if type(value) is not int or not 1 <= value <= MAX_RATE:
            raise ConfigurationError(f"{where}.{name} must be a whole number from 1 to {MAX_RATE:,}, not {value!r}")


def _check_schema(intake: OfferedIntake, where: str) -> None:
    member = f"{where}.input_schema"
    if not _is_json(intake.input_schema):
        raise ConfigurationError(f"{member} {JSON_RULE}")
    if not _admits_objects(intake.schema):
        raise ConfigurationError(f'{member}.type must be "object", which intake_data is')
    fault = schema_fault(intake.schema)
    if fault is not None:
        raise ConfigurationError(f"{member} is not a usable schema: {fault}")


def _is_json(value: Any, levels: int = MAX_LEVELS) -> bool:
    """Whether a value can be serialized as JSON within the nesting limit."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return levels > 0 and all(_is_json(item, levels - 1) for item in inner)
    if type(value) is int:
        return value in INTEGERS
    return type(value) in {str, bool} or (type(value) is float and math.isfinite(value))


def _check_templates(intake: OfferedIntake, where: str) -> None:
    if not names_in(intake.query):
        raise ConfigurationError(f"{where}.query must name a member of the intake's data, such as {{query}}")
    if "items" in intake.details:
        raise ConfigurationError(f"{where}.details.items holds the hits: choose another name")
    if not _is_json(intake.details):
        raise ConfigurationError(f"{where}.details {JSON_RULE}")
    offered = [("summary", intake.summary), *(("details", text) for text in _texts(intake.details))]
    for member, template in (("query", intake.query), *offered):
        for name in names_in(template):
            if name.partition(".")[0] == "hits" and member != "query":
                if name not in HIT_NAMES:
                    raise ConfigurationError(f"{where}.{member}: {{{name}}} is not one of {', '.join(HIT_NAMES)}")
            elif not _may_have(intake.schema, name):
                raise ConfigurationError(f"{where}.{member}: {{{name}}} is not a property of its input_schema")


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
