"""The `[intent]` section: the publisher, its editorial domains, partners' keys and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal

from aidre.api.config.toml import Secret, check_secret
from aidre.engine.errors import AidreError, ConfigurationError
from aidre.engine.index.fields import parse_filter

PUBLISHER_ID = re.compile(r"[a-z0-9_-]{2,64}")
HOSTNAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
DOMAIN = re.compile(r"[a-z0-9]+(\.[a-z0-9-]+)*")
KEY_ID = re.compile(r"[!-~]{1,128}")


@dataclass(frozen=True, slots=True)
class Publisher:
    """Defaults come from `[server]`: the host of its origin, and its organization."""

    id: str | None = None
    name: str | None = None
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class Compliance:
    """`last_updated` and `sunset` are dates; `last_updated` defaults to the date of the configuration file."""

    revocable: bool = True
    notice_required: bool = False
    last_updated: Any = None
    revocation_reason: Literal["legal", "policy", "technical"] | None = None
    sunset: Any = None


@dataclass(frozen=True, slots=True)
class EditorialDomain:
    """The documents of a domain: those of a collection, public or private, that pass the filter."""

    collection: str
    filter: Any = None


@dataclass(frozen=True, slots=True)
class Intent:
    """The protocol is served if it is enabled or has a domain; a disabled one still answers that it is disabled.

    `keys` maps the id of a partner's key to its secret. `max_document_fraction` is the share of the chunks of a
    document's present content that one key ever receives while `full_article` is false. `chunks` and `citations`
    declare what is supported.
    """

    enabled: bool = False
    state: Literal["active", "paused", "disabled"] = "active"
    publisher: Publisher = Publisher()
    max_chunks: int = 10
    max_tokens: int = 4_000
    chunks: bool = True
    citations: bool = True
    full_article: bool = False
    event_required: bool = False
    enforce_latency_budget: bool = False
    max_document_fraction: float = 0.5
    compliance: Compliance = Compliance()
    editorial_domains: Mapping[str, EditorialDomain] = field(default_factory=dict)
    keys: Mapping[str, Secret] = field(default_factory=dict, repr=False)

    @property
    def declared(self) -> bool:
        return self.enabled or bool(self.editorial_domains)


def check_intent(intent: Intent) -> None:
    """Raises ConfigurationError."""
    for name in ("max_chunks", "max_tokens"):
        if getattr(intent, name) < 1:
            raise ConfigurationError(f"intent.{name} must be at least 1, not {getattr(intent, name)}")
    if not 0 < intent.max_document_fraction <= 1:
        raise ConfigurationError(
            f"intent.max_document_fraction must be above 0 and at most 1, not {intent.max_document_fraction}"
        )
    if intent.enabled and not intent.editorial_domains:
        raise ConfigurationError('intent.editorial_domains is empty: add [intent.editorial_domains."your.domain"]')
    _check_publisher(intent.publisher)
    _check_domains(intent.editorial_domains)
    _check_keys(intent.keys)
    for name in ("last_updated", "sunset"):
        parse_date(getattr(intent.compliance, name), f"intent.compliance.{name}")


def _check_publisher(publisher: Publisher) -> None:
    if publisher.id is not None and not PUBLISHER_ID.fullmatch(publisher.id):
        raise ConfigurationError(f"intent.publisher.id must be 2 to 64 of a-z 0-9 _ -, not {publisher.id!r}")
    if publisher.name is not None and not 1 <= len(publisher.name) <= 128:
        raise ConfigurationError("intent.publisher.name must have 1 to 128 characters")
    if publisher.domain is not None and not HOSTNAME.fullmatch(publisher.domain):
        raise ConfigurationError(
            f"intent.publisher.domain must be a host such as example.com, not {publisher.domain!r}"
        )


def _check_domains(domains: Mapping[str, EditorialDomain]) -> None:
    for name, domain in domains.items():
        where = f'intent.editorial_domains."{name}"'
        if not DOMAIN.fullmatch(name):
            raise ConfigurationError(f"{where} must be words of a-z 0-9 joined by dots, such as finance.markets")
        if domain.filter is not None:
            try:
                parse_filter(domain.filter)
            except AidreError as error:
                raise ConfigurationError(f"{where}.filter: {error}") from error


def _check_keys(keys: Mapping[str, Secret]) -> None:
    owners: dict[str, str] = {}
    for key_id, secret in keys.items():
        if not KEY_ID.fullmatch(key_id):
            raise ConfigurationError(
                f"intent.keys: {key_id!r} is not a valid key id: use 1 to 128 printable ASCII characters"
            )
        if secret in owners:
            raise ConfigurationError(
                f'intent.keys."{key_id}" has the secret of {owners[secret]!r}: give every partner its own'
            )
        owners[secret] = key_id
    for key_id, secret in keys.items():
        check_secret(secret, f'intent.keys."{key_id}"')


def parse_date(value: Any, where: str) -> date | None:
    """A date of TOML or an ISO 8601 string; None stays None."""
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where} must be a date such as 2027-01-31, not {value!r}") from error


def with_date(intent: Intent, day: date) -> Intent:
    """The settings with `last_updated`; `day` if the configuration has none."""
    if intent.compliance.last_updated is not None:
        return intent
    return replace(intent, compliance=replace(intent.compliance, last_updated=day))
