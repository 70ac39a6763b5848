"""The server under test: where its protocols are, what the user gave of it, and what one check after the other learned.

What several checks need (the discovery document, a question that has hits) is asked for once; the exchanges are part of
each check that uses it.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from aidre_client import InvalidInput
from aidre_conformance.exchange import Exchange, Sender
from aidre_conformance.judging import Failed, NotTestable, require, shortened

T = TypeVar("T")

TABLES = {"promise", "intake_data", "bind_data"}
KINDS: Mapping[str, Any] = {"table": dict, "number": (int, float), "string": str}
"""Of fixtures, by what TOML calls them."""
AIDRE_JSON, JSON, SSE = "application/aidre+json", "application/json", "text/event-stream"


@dataclass(frozen=True, slots=True)
class Fixtures:
    """What cannot be found over HTTP. Everything may be left out; what needs it is then not testable."""

    key: str | None = None
    """A bearer secret that opens `private_collection`."""
    query: str | None = None
    """Words that have hits."""
    collection: str | None = None
    private_collection: str | None = None
    private_chunk: str | None = None
    """The id of a chunk that nobody may read without `key`."""
    site: str | None = None
    """A site of NLWeb among two or more, where others have hits for `query` too."""
    promise: dict[str, Any] | None = None
    """Members that make NLWeb's ask answer with a promise, as an object to be merged into the request."""
    intent_key_id: str | None = None
    intent_secret: str | None = None
    intent_domain: str | None = None
    intent_query: str | None = None
    intake: str | None = None
    """The id of an intake that makes an offer for `intake_data`."""
    intake_data: dict[str, Any] | None = None
    bind_data: dict[str, Any] | None = None
    declined_intake: str | None = None
    """The id of an intake that declines `intake_data`."""
    brief_intake: str | None = None
    """The id of an intake whose offers expire within a few seconds."""
    brief_seconds: float = 2.0


def read_fixtures(file: Path) -> Fixtures:
    """Reads fixtures from TOML; a string may be `env:NAME`. InvalidInput for an unknown or misused key."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{shortened(file.name)} is not TOML: {error}") from None
    known = {fixture.name: fixture for fixture in fields(Fixtures)}
    for name, value in table.items():
        if name not in known:
            raise InvalidInput(f"{shortened(file.name)}: {shortened(name)} is unknown: use one of {', '.join(known)}")
        kind = "table" if name in TABLES else "number" if name == "brief_seconds" else "string"
        if not isinstance(value, KINDS[kind]):
            raise InvalidInput(f"{shortened(file.name)}: {name} must be a {kind}")
    return Fixtures(**{name: _resolved(name, value) for name, value in table.items()})


def _resolved(name: str, value: Any) -> Any:
    """`env:NAME` is read from the environment: a secret need not be in a file. InvalidInput where it is unset."""
    if not isinstance(value, str) or not value.startswith("env:"):
        return value
    variable = value.removeprefix("env:")
    if variable not in os.environ:
        raise InvalidInput(f"{name}: the variable {shortened(variable)} is not set")
    return os.environ[variable]


@dataclass(slots=True)
class Memo:
    """What was learned once: a value or the reason why there is none, and the exchanges that it took."""

    value: Any
    reason: str | None
    exchanges: tuple[Exchange, ...]


@dataclass(slots=True)
class Target:
    """The server under test. `url` has no slash at its end, and may have a path."""

    url: str
    fixtures: Fixtures
    sender: Sender
    exchanges: list[Exchange] = field(default_factory=list)
    """Of the check that runs."""
    _memos: dict[str, Memo] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.url)

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        body: bytes | None = None,
    ) -> Exchange:
        """Sends a request and records it; NotTestable for an address that is none, Failed where nothing answers."""
        require(urlsplit(url).scheme in {"http", "https"} and urlsplit(url).netloc, f"{url!r} is not an http(s) URL")
        listed = tuple(headers.items() if isinstance(headers, Mapping) else headers)
        for exchange in self.sender.send(method, url, listed, body):
            self.exchanges.append(exchange)
        if exchange.problem is not None:
            raise Failed(f"{method} {urlsplit(url).path}: {exchange.problem}")
        return exchange

    def get(self, url: str, **headers: str) -> Exchange:
        """Names of headers are written with underscores."""
        return self.send("GET", url, _header_lines(headers))

    def post(self, url: str, value: Any, **headers: str) -> Exchange:
        """Posts a value as JSON, as `application/json` unless `content_type` says otherwise."""
        return self.send("POST", url, _header_lines({"content_type": JSON, **headers}), orjson.dumps(value))

    # -- facts -------------------------------------------------------------------------------------------------------

    def once(self, name: str, make: Callable[[], T]) -> T:
        """The value of `make`, which runs the first time. NotTestable each time where it failed: a prerequisite."""
        memo = self._memos.get(name)
        if memo is None:
            before = len(self.exchanges)
            value, reason = None, None
            try:
                value = make()
            except (Failed, NotTestable) as verdict:
                reason = str(verdict)
            memo = self._memos[name] = Memo(value, reason, tuple(self.exchanges[before:]))
        else:
            self.exchanges.extend(exchange for exchange in memo.exchanges if exchange not in self.exchanges)
        if memo.reason is not None:
            raise NotTestable(memo.reason)
        return memo.value  # type: ignore[no-any-return]

    def well_known(self, name: str) -> Exchange:
        """The answer under /.well-known/, asked for once."""
        return self.once(f"well-known {name}", lambda: self.get(f"{self.origin}/.well-known/{name}"))

    def fixture(self, name: str) -> Any:
        """A fixture. NotTestable where it was not given."""
        value = getattr(self.fixtures, name)
        require(value is not None, f"no fixture `{name}`")
        return value

    def authorization(self, url: str) -> dict[str, str]:
        """The header with the key; the key is sent to the server under test alone, or over https."""
        key = self.fixture("key")
        require(urlsplit(url).netloc == urlsplit(self.url).netloc or url.startswith("https://"), "the key stays here")
        return {"authorization": f"Bearer {key}"}


def _header_lines(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), value) for name, value in headers.items()]


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
