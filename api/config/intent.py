"""The `[intent]` section: the publisher, its editorial domains, partners' keys and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from aidre.api.config.toml import CollectionName, Count, Day, Secret, Section, check_secret, like, matching, path
from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields import parse_filter

PUBLISHER_ID = re.compile(r"[a-z0-9_-]{2,64}")
HOSTNAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
DOMAIN = re.compile(r"[a-z0-9]+(\.[a-z0-9-]+)*")
KeyId: TypeAlias = Annotated[str, matching("[!-~]{1,128}", "be a key id of 1 to 128 printable ASCII characters")]
DomainName: TypeAlias = Annotated[str, matching(DOMAIN.pattern, "be words of a-z 0-9 joined by dots, as food.recipes")]
Filter: TypeAlias = Annotated[Any, like({"type": "Recipe"})]


class PublisherSettings(Section):
    """The publisher, as the declaration names it."""

    #: Default: made of `domain`.
    id: Annotated[str, matching(PUBLISHER_ID.pattern, "be 2 to 64 of a-z 0-9 _ -", "example")] | None = None
    #: Default: `server.organization`.
    name: Annotated[str, matching("(?s:.{1,128})", "have 1 to 128 characters", "Example")] | None = None
    #: Default: the host of `server.origin`.
    domain: Annotated[str, matching(HOSTNAME.pattern, "be a host such as example.com", "example.com")] | None = None

    #: Where partners ask for a key: an address of mail or of a page, which the declaration shows.
    contact: (
        Annotated[
            str,
            matching("(mailto:|https://)[!-~]{1,256}", "begin with mailto: or https://", "mailto:partners@example.com"),
        ]
        | None
    ) = None


class Compliance(Section):
    """What the declaration promises to partners."""

    revocable: bool = True  #: Whether access may be revoked.
    notice_required: bool = False  #: Whether partners are notified before that.
    last_updated: Day | None = None  #: Default: the date of the configuration file.
    revocation_reason: Literal["legal", "policy", "technical"] | None = None  #: Why access was revoked.
    sunset: Day | None = None  #: The last day of access.


class EditorialDomain(Section):
    """The documents of a domain, which covers what is below it; a subdomain is a whole path or continues the domain."""

    collection: CollectionName  #: A collection, public or private.
    filter: Filter = None  #: The filter that its documents pass.

    def __post_init__(self) -> None:
        check_filter(self.filter)


class IntentSettings(Section):
    """Agentic Intent. The protocol is served if it is enabled or has a domain; a disabled one still answers that it is
    disabled."""

    enabled: bool = False  #: Whether content is given; it needs an editorial domain.
    state: Literal["active", "paused", "disabled"] = "active"  #: Content is given while `active`.
    publisher: PublisherSettings = PublisherSettings()
    max_chunks: Count = 10  #: The most chunks of one answer.
    max_tokens: Count = 4_000  #: The most tokens of one answer.
    chunks: bool = True  #: Whether chunks are declared as supported.
    citations: bool = True  #: Whether citations are declared as supported.
    full_article: bool = False  #: Whether whole documents may be given.
    event_required: bool = False  #: Whether the declaration requires partners to report events.
    enforce_latency_budget: bool = False  #: Whether the latency budget of a request ends its search.
    #: The share of the chunks of a document's present content that one key ever receives while `full_article` is false.
    max_document_fraction: Annotated[float, Meta(gt=0, le=1)] = 0.5
    compliance: Compliance = Compliance()
    editorial_domains: Mapping[DomainName, EditorialDomain] = {}
    #: The secret of each partner, of at least 16 characters, by the id of its key.
    keys: Annotated[Mapping[KeyId, Secret], like({"partner-1": "env:PARTNER_SECRET"})] = {}

    @property
    def declared(self) -> bool:
        return self.enabled or bool(self.editorial_domains)

    def __post_init__(self) -> None:
        if self.enabled and not self.editorial_domains:
            raise ValueError('.editorial_domains is empty: add [intent.editorial_domains."your.domain"]')
        owners: dict[str, str] = {}
        for key_id, secret in self.keys.items():
            where = path(".keys", key_id)
            if (owner := owners.setdefault(secret, key_id)) != key_id:
                raise ValueError(f"{where} has the secret of {owner!r}: give every partner its own")
        for key_id, secret in self.keys.items():
            check_secret(secret, path(".keys", key_id))


def check_filter(filter: Any) -> None:
    """Raises ValueError for an invalid filter in a member `filter`."""
    try:
        if filter is not None:
            parse_filter(filter)
    except InvalidFilter as error:
        raise ValueError(f".filter is not a valid filter: {error.message}") from error
