"""What the protocols share of one server: its discovery document, the addresses in it, the key, and how it is asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from aidre_client.errors import InvalidInput, Missing, RequestFailed, Unsupported
from aidre_client.exchange import (
    Request,
    Response,
    Retry,
    Steps,
    decode,
    error_of,
    perform,
)
from aidre_client.messages import Discovery
from aidre_client.verification import Verifier, check_digest, origin_of

T = TypeVar("T")

GENERATION = "aidre-generation"
WELL_KNOWN = "/.well-known/ai-discovery"
AIDRE_JSON, JSON, EVENT_STREAM = "application/aidre+json", "application/json", "text/event-stream"
ACCEPT_AIDRE = f"{AIDRE_JSON}, {JSON};q=0.9"
MAX_REDIRECTS = 3
REDIRECTS = frozenset({301, 302, 303, 307, 308})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


QUERY_EXPRESSION = re.compile(r"\?\w+(,\w+)*", re.ASCII)


def expand(template: str, **values: str) -> str:
    """Expand a URI template of level 1 (RFC 6570, 3.2.2): every character that is not unreserved is percent-encoded.
    `{?a,b}` (3.2.8) becomes a query of those that are given.

    Unsupported for any other expression, or a variable of level 1 that is not given.
    """
    parts, rest = list[str](), template
    while rest:
        literal, opened, rest = rest.partition("{")
        parts.append(literal)
        if not opened:
            break
        name, closed, rest = rest.partition("}")
        if closed and QUERY_EXPRESSION.fullmatch(name):
            present = [variable for variable in name[1:].split(",") if variable in values]
            parts += [
                f"{'&' if at else '?'}{variable}={quote(values[variable], safe='-._~')}"
                for at, variable in enumerate(present)
            ]
            continue
        if not closed or name not in values:
            raise Unsupported(f"the URI template {template!r} of the server has an expression other than its variable")
        parts.append(quote(values[name], safe="-._~"))
    return "".join(parts)


def is_field_value(text: str) -> bool:
    """Whether a text can be a part of a header field: visible characters of ASCII."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


@dataclass(slots=True)
class ClientSession:
    """One server, as the operations of all protocols see it. `url` is what `connect` was given."""

    url: str
    key: str | None = field(repr=False)
    retry: Retry
    verifier: Verifier
    user_agent: str = "aidre"
    _discovery: Discovery | None = field(default=None, init=False)
    written: dict[str, int] = field(default_factory=dict, init=False)
    """By collection, the generation of the last write of this client: what is read afterwards has it."""
    _keyed: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.query or parts.fragment or parts.username is not None:
            raise InvalidInput("the URL has more than an address, or a password: give the key by key=")
        if self.key is not None and not (isinstance(self.key, str) and is_field_value(self.key)):
            raise InvalidInput("key= has characters that no key has")
        self._keyed.add(origin_of(self.url))

    @property
    def origin(self) -> str:
        return origin_of(self.url)

    # -- discovery ---------------------------------------------------------------------------------------------------

    def discovery(self) -> Steps[Discovery]:
        """The discovery document, read once. Missing where the server has none, Unsupported for another version."""
        if self._discovery is None:
            response = yield from self._find_discovery()
            found = decode(response, Discovery)
            self.verifier.declare(found.provenance)
            yield from self.verifier.check(response)
            self._discovery = found
            for url in (found.endpoints.search, found.endpoints.collections, found.endpoints.chunk):
                if url is not None:
                    self._keyed.add(origin_of(self.allowed(url)))
        return self._discovery

    def forget_discovery(self) -> None:
        """Read it again at the next use."""
        self._discovery = None

    def _find_discovery(self) -> Steps[Response]:
        """The discovery document at the root of the website or, where it has none, below the path of the URL: a proxy
        may hand on that path alone."""
        path = urlsplit(self.url).path.rstrip("/")
        for place in dict.fromkeys((self.origin, self.origin + path)):
            try:
                response = yield from self._fetch_document(place + WELL_KNOWN)
            except Missing as error:
                refused = error
                continue
            if response.media_type in {JSON, AIDRE_JSON}:  # 3.2; some sites answer a page for every address
                return response
            refused = Missing(f"{response.request.url}: a page, not JSON", url=response.request.url)
        message = f"{refused.message}; there is no discovery document: check the URL, and what the proxy hands on"
        raise Missing(message, **refused.details) from None

    def discovery_or_none(self) -> Steps[Discovery | None]:
        """For protocols that a server may speak without AIDRE."""
        try:
            return (yield from self.discovery())
        except Missing:
            return None

    def document(self, url: str, kind: type[T]) -> Steps[T]:
        """A document at a well-known address."""
        response = yield from self._fetch_document(url)
        yield from self.verifier.check(response)
        return decode(response, kind)

    def _fetch_document(self, url: str) -> Steps[Response]:
        """Follows redirects, which never lead from https to http. The caller verifies the answer."""
        for _ in range(MAX_REDIRECTS + 1):
            request = self.request("GET", url, accept=JSON)
            response = yield from perform(lambda request=request: request, self.retry, self._check_document)  # type: ignore[misc]
            location = response.header("location")
            if response.status not in REDIRECTS or location is None:
                break
            url = self.allowed(urljoin(url, location))
        if response.status != 200:
            yield from self.verifier.check(response)
            raise error_of(response, self.retry.clock())
        return response

    def _check_document(self, response: Response) -> Steps[None]:
        """Its signature is verified when the keys are known, which it may name itself."""
        if self.verifier.policy != "off":
            check_digest(response)
        yield from ()

    def endpoint(self, name: str) -> Steps[str]:
        """The address of an endpoint of AIDRE. Unsupported where the discovery document has none."""
        found = yield from self.discovery()
        url = getattr(found.endpoints, name)
        if url is None:
            raise Unsupported(f"{self.url} has no endpoint {name}", capability=name)
        return self.allowed(url)

    def allowed(self, url: str) -> str:
        """An address that the server names, absolute. RequestFailed for one that leads from https to http."""
        whole = urljoin(self.url, url)
        try:
            origin = origin_of(whole)
        except InvalidInput as error:
            raise RequestFailed(
                f"{self.url} names {url!r}, which is not a URL", url=url, error="invalid_answer"
            ) from error
        host = urlsplit(whole).hostname
        if origin.startswith("http:") and self.url.startswith("https:") and host not in LOOPBACK:
            raise RequestFailed(f"{self.url} names {url}, which is not https", url=url, error="invalid_answer")
        return whole

    # -- requests ----------------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        *,
        accept: str = ACCEPT_AIDRE,
        media_type: str = AIDRE_JSON,
        more: tuple[tuple[str, str], ...] = (),
        stream: bool = False,
    ) -> Request:
        """A request with the key, where the address is one that it is for."""
        fields = [("accept", accept), ("accept-encoding", "identity"), ("user-agent", self.user_agent)]
        if body:
            fields.append(("content-type", media_type))
        if self.key is not None and origin_of(url) in self._keyed:
            fields.append(("authorization", f"Bearer {self.key}"))
        return Request(method, url, (*fields, *more), body, stream)

    def call(self, make: Callable[[], Request], *, repeatable: bool = True) -> Steps[Response]:
        """The final answer to a request, verified."""
        if self.verifier.policy != "off":
            yield from self.discovery_or_none()  # it names the keys
        return (yield from perform(make, self.retry, self.verifier.check, repeatable=repeatable))

    def respond(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        *,
        collection: str | None = None,
        more: tuple[tuple[str, str], ...] = (),
        repeatable: bool = True,
    ) -> Steps[Response]:
        """The success of AIDRE to a request, about a collection; raises what `error_of` makes of anything else."""
        if collection in self.written:
            more = (*more, (GENERATION, str(self.written[collection])))
        request = self.request(method, url, body, more=more)
        response = yield from self.call(lambda: request, repeatable=repeatable)
        if response.status != 200:
            raise error_of(response, self.retry.clock())
        return response

    def trust_origin_of(self, url: str) -> None:
        """Send the key to this origin, too: the server named it in a document that was verified."""
        self._keyed.add(origin_of(url))


def encode(members: dict[str, Any]) -> bytes:
    """A body; InvalidInput for what JSON cannot say."""
    try:
        return msgspec.json.encode(members)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"the request is not JSON: {error}") from error
