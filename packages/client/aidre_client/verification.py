"""What is verified of an answer: its Content-Digest (RFC 9530), its HTTP message signature (RFC 9421), and the signed
statement about a chunk (a compact JWS over its facts).

The signatures are verified by http-message-signatures and joserfc, neither of which signs in the server. The keys are
those of `provenance.jwks_uri` in the discovery document, which has to be on the origin that the client trusts: whoever
answers in its place cannot bring keys of his own. They are read again, once, for a key that is not among them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import msgspec

from aidre_client.errors import InvalidInput, VerificationFailed
from aidre_client.exchange import Request, Response, Steps, perform
from aidre_client.messages import ChunkAnswer, Provenance

if TYPE_CHECKING:
    from http_message_signatures import HTTPSignatureKeyResolver
    from joserfc.jwk import KeySet

    from aidre_client.exchange import Retry

Policy: TypeAlias = Literal["if_signed", "required", "off"]
"""`if_signed`: whatever is signed has to hold, and a server that declares to sign has to. `required`: every answer of
AIDRE has to be signed. `off`: nothing is verified."""

LABEL, TAG, TYPE = "aidre", "aidre-provenance", "aidre-provenance+jws"
COVERED = ('"@status"', '"content-type"', '"content-digest"', '"@method";req', '"@target-uri";req')
"""What a signature has to cover, whatever the server declares."""
ALGORITHMS = ["Ed25519", "EdDSA"]
"""Two names of one algorithm (RFC 9864)."""
SKEW_SECONDS = 60
"""By how much the clocks of client and server may differ."""
MAX_AGE_SECONDS = 3_600
"""Of a signature of an answer, whatever its own `expires` says."""
KEYS_SECONDS = 3_600
"""After which the keys are read again."""
LACKING_SECONDS, MAX_LACKING = 60, 1_000
"""How long a key that was not published counts as unknown, and how many such keys are remembered."""
DIGESTS = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}
UNSIGNED_STATUS = frozenset({429, 500, 502, 503, 504})
"""A proxy or an overloaded server says so unsigned; nothing follows from it but that there is no answer."""
UNSIGNED_TYPES = frozenset({"text/event-stream"})


def check_policy(policy: str) -> Policy:
    for known in get_args(Policy):
        if policy == known:
            return known  # type: ignore[no-any-return]
    raise InvalidInput(f"verify={policy!r} is unknown: use {', '.join(get_args(Policy))}")


def origin_of(url: str) -> str:
    """Scheme, host and port (RFC 6454, 4), the default port left out. InvalidInput."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    is_written = isinstance(url, str) and url.isprintable() and " " not in url
    if not is_written or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidInput(f"{url!r:.200} is not an http or https URL: write one such as 'https://example.com'")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    default = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + ("" if port in {None, default} else f":{port}")


# -- digests ---------------------------------------------------------------------------------------------------------


def check_digest(response: Response) -> None:
    """Compare the body with every digest of Content-Digest that is known. VerificationFailed."""
    value = response.header("content-digest")
    if value is None:
        return
    content = response.body if response.encoded is None else response.encoded
    found = dict(_digests(value))
    known = found.keys() & DIGESTS.keys()
    if not known:
        raise failed(response.request.url, "Content-Digest has no digest by sha-256 or sha-512")
    for name in known:
        if not hmac.compare_digest(found[name], DIGESTS[name](content).digest()):
            raise failed(response.request.url, f"the body does not have the {name} of Content-Digest")


def _digests(value: str) -> Iterator[tuple[str, bytes]]:
    """The members of a dictionary of byte sequences (RFC 9651)."""
    for member in value.split(","):
        name, _, digest = member.strip().partition("=")
        if len(digest) > 1 and digest[0] == digest[-1] == ":":
            try:
                yield name, base64.b64decode(digest[1:-1], validate=True)
            except binascii.Error:
                yield name, b""


def failed(url: str, problem: str, **details: Any) -> VerificationFailed:
    return VerificationFailed(f"{url}: {problem}", url=url, problem=problem, **details)


# -- signatures ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Verifier:
    """Verifies the answers of one server. `origin` is where its keys have to be."""

    policy: Policy
    origin: str
    retry: Retry
    declared: Provenance | None = None
    _keys: KeySet | None = field(default=None, init=False)
    _read_at: float = field(default=0.0, init=False)
    _lacking: dict[str, float] = field(default_factory=dict, init=False)
    """When the keys were last read for a key that they did not have."""

    @property
    def signs(self) -> bool:
        """Whether the server declares that it signs its answers."""
        return self.declared is not None and self.declared.responses is not None

    def declare(self, declared: Provenance | None) -> None:
        """What the discovery document says of signatures. VerificationFailed for keys of another origin."""
        if declared is None or self.policy == "off":
            return
        if origin_of(declared.jwks_uri) != self.origin:
            raise failed(
                declared.jwks_uri,
                f"the keys are not on {self.origin}, which is trusted: connect to their origin, or name it by trust=",
            )
        self.declared = declared

    def check(self, response: Response) -> Steps[None]:
        """Raises VerificationFailed for an answer that does not hold, or is not signed and has to be."""
        if self.policy == "off" or response.stream is not None:
            return
        check_digest(response)
        if not is_signed(response):
            self._check_unsigned(response)
            return
        if self.declared is None:
            raise failed(response.request.url, "it is signed, but the discovery document names no keys")
        yield from self._verify(response)

    def _check_unsigned(self, response: Response) -> None:
        has_content = bool(response.body) and response.media_type not in UNSIGNED_TYPES
        has_to = self.policy == "required" or self.signs
        if has_to and has_content and response.status not in UNSIGNED_STATUS:
            raise failed(response.request.url, "the answer is not signed")

    def _verify(self, response: Response) -> Steps[None]:
        from http_message_signatures import HTTPMessageVerifier, algorithms
        from http_message_signatures.exceptions import HTTPMessageSignaturesException

        unknown: list[str] = []
        for is_last in (False, True):
            keys = yield from self._key_set(unknown)
            unknown = []
            verifier = HTTPMessageVerifier(
                signature_algorithm=algorithms.ED25519, key_resolver=_resolver(keys, unknown.append)
            )
            verifier.max_clock_skew = timedelta(seconds=SKEW_SECONDS)
            try:
                [result] = verifier.verify(
                    _SignedAnswer(response),
                    max_age=timedelta(seconds=MAX_AGE_SECONDS),
                    expect_tag=TAG,
                    expect_label=LABEL,
                    require_components=COVERED,
                    body=response.body if response.encoded is None else response.encoded,
                )
            except (HTTPMessageSignaturesException, ValueError) as error:
                if unknown and not is_last and self._may_ask_for(unknown):
                    continue
                raise failed(response.request.url, f"the signature does not hold: {error}") from error
            if "expires" not in result.parameters:
                raise failed(response.request.url, "the signature never expires")
            return

    def _may_ask_for(self, unknown: list[str]) -> bool:
        """Whether to read the keys again for one that they lack: not where they lacked it a moment ago."""
        now = self.retry.clock()
        return any(now - self._lacking.get(key_id, -math.inf) >= LACKING_SECONDS for key_id in unknown)

    def _key_set(self, lacking: list[str]) -> Steps[KeySet]:
        """The keys; read again where they lack a key, and from time to time, since a key may be withdrawn."""
        now = self.retry.clock()
        if self._keys is None or lacking or not 0 <= now - self._read_at < KEYS_SECONDS:
            keys = yield from self._fetch_keys()
            self._keys, self._read_at = keys, now
            if len(self._lacking) > MAX_LACKING:
                self._lacking.clear()
            self._lacking.update(dict.fromkeys(lacking, now))
        return self._keys

    def _fetch_keys(self) -> Steps[KeySet]:
        """The keys of the server, which the origin stands for."""
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        assert self.declared is not None
        url = self.declared.jwks_uri
        fields = (("accept", "application/jwk-set+json, application/json"), ("accept-encoding", "identity"))
        response = yield from perform(lambda: Request("GET", url, fields), self.retry, _only_digest)
        if response.status != 200:
            raise failed(url, f"the keys cannot be read: HTTP status {response.status}")
        try:
            document = msgspec.json.decode(response.body, type=dict[str, Any])
            return KeySet.import_key_set(document)  # type: ignore[arg-type]
        except (msgspec.DecodeError, JoseError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise failed(url, f"this is not a set of keys: {error}") from error

    # -- chunks ------------------------------------------------------------------------------------------------------

    def check_chunk(self, url: str, chunk: ChunkAnswer, now: float) -> Steps[None]:
        """Verify the statement about a chunk, and that the chunk is as stated. VerificationFailed."""
        if self.policy == "off" or (self.declared is None and self.policy != "required"):
            return
        token = chunk.metadata.get("provenance")
        declares = self.declared is not None and self.declared.typ == TYPE
        if token is None and not declares and self.policy != "required":
            return
        if not isinstance(token, str):
            raise failed(url, "the chunk has no signed statement")
        if self.declared is None:
            raise failed(url, "the chunk is signed, but the discovery document names no keys")
        claims = yield from self._claims(url, token)
        check_claims(url, chunk, claims, self.declared.issuer or self.origin, now)

    def _claims(self, url: str, token: str) -> Steps[Mapping[str, Any]]:
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        unknown: list[str] = []
        for is_last in (False, True):
            keys = yield from self._key_set(unknown)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # joserfc warns about the older name of the algorithm
                    found = jwt.decode(token, keys, algorithms=ALGORITHMS)
            except InvalidKeyIdError as error:
                unknown = [token.partition(".")[0]]
                if is_last or not self._may_ask_for(unknown):
                    raise failed(url, "the chunk is signed by an unknown key") from error
                continue
            except (JoseError, ValueError, TypeError) as error:
                raise failed(url, f"the signature of the chunk does not hold: {error}") from error
            if found.header.get("typ") != TYPE:
                raise failed(url, "the signed statement is of another type")
            break
        return found.claims


def check_claims(url: str, chunk: ChunkAnswer, claims: Mapping[str, Any], issuer: str, now: float) -> None:
    """Compare a chunk with what was signed of it. VerificationFailed."""
    stated = {
        "iss": issuer,
        "sub": chunk.id,
        "content_hash": chunk.metadata.get("content_hash"),
        "source_url": chunk.source.url,
        "updated_at": chunk.metadata.get("updated_at"),
        **({} if chunk.collection is None else {"collection": chunk.collection}),
    }
    if chunk.text is not None:
        stated["content_hash"] = "sha256:" + hashlib.sha256(chunk.text.encode()).hexdigest()
    wrong = sorted(name for name, value in stated.items() if claims.get(name) != value)
    if wrong:
        raise failed(url, f"the chunk differs from what was signed: {', '.join(wrong)}", members=wrong)
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(issued, int | float) or not isinstance(expires, int | float):
        raise failed(url, "the signed statement does not say how long it holds")
    if issued > now + SKEW_SECONDS or expires < now - SKEW_SECONDS:
        raise failed(url, "the signed statement has expired, or does not hold yet")


def is_signed(response: Response) -> bool:
    """Whether an answer has a signature of the kind that AIDRE's servers make."""
    inputs, signature = response.header("signature-input"), response.header("signature")
    return (inputs is not None and (TAG in inputs or inputs.startswith(f"{LABEL}="))) or (
        signature is not None and signature.startswith(f"{LABEL}=")
    )


def _only_digest(response: Response) -> Steps[None]:
    check_digest(response)
    yield from ()


@dataclass(frozen=True, slots=True)
class _VerifiedRequest:
    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


class _HeaderLines:
    """Header lines as the library reads them: several of one name stay several."""

    def __init__(self, fields: tuple[tuple[str, str], ...]) -> None:
        self._fields = fields

    def items(self) -> tuple[tuple[str, str], ...]:
        return self._fields


class _SignedAnswer:
    """An answer as the library reads it."""

    def __init__(self, response: Response) -> None:
        self.status_code = response.status
        self.headers = _HeaderLines(response.fields)
        self.request = _VerifiedRequest(response.request.method, response.request.url)


def _resolver(keys: KeySet, unknown: Callable[[str], None]) -> HTTPSignatureKeyResolver:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from http_message_signatures import HTTPSignatureKeyResolver

    class PublishedKeys(HTTPSignatureKeyResolver):
        def resolve_public_key(self, key_id: str) -> Ed25519PublicKey | None:
            found = next((key for key in keys.keys if key.kid == key_id), None)
            if found is None:
                unknown(key_id)
                return None
            key = found.get_op_key("verify")
            return key if isinstance(key, Ed25519PublicKey) else None

        def resolve_private_key(self, key_id: str) -> Any:
            raise AssertionError("a verifier has no private key")

    return PublishedKeys()
