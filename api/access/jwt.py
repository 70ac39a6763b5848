"""OAuth 2 access tokens: JSON Web Tokens of one issuer, verified against the keys that it publishes (RFC 7519, 9068).

A token is valid if a key of the issuer signed it with a listed algorithm, for this audience, and it has not expired.
The keys are fetched in a thread and cached. They are fetched again when they are old or a token names an unknown one,
at most once per RETRY_SECONDS, so that strangers cannot make this server flood the issuer. While the issuer does not
answer, cached keys are used for a day; a longer time would hide a revocation. Private and symmetric keys are ignored.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import tempfile
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from aidre.api.access.caller import Caller
from aidre.api.access.credentials import Grant
from aidre.api.config import DEFAULT_GRANTS, OAuth
from aidre.api.http import Unauthorized, Unavailable
from aidre.engine.errors import AidreError, ConfigurationError
from aidre.ingest.fetch import Fetcher, FetchRules, read_url

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger("aidre")

REFRESH_SECONDS = 3_600.0
"""Age at which cached keys are fetched again, in the background."""
MAX_KEY_AGE_SECONDS = 86_400.0
"""Age at which keys that could not be fetched again stop being used."""
RETRY_SECONDS = 30.0
"""Between two fetches of the keys, however many tokens name an unknown one."""
MAX_WAITING = 64
"""Requests that wait for one fetch; each holds a slot of the concurrency limit."""
CACHE_SIZE = 1_024
"""Verified tokens."""
MAX_DOCUMENT_BYTES = 1 << 20
MAX_KEYS = 100
MAX_TRIED_KEYS = 8
"""Keys tried for one token, if it names none or several share its name."""
KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
EDWARDS = ("EdDSA", "Ed25519")
"""The older, wider name and the one that RFC 9864 replaces it with."""
MIN_RSA_BITS = 2_048
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
MAX_SUBJECT_CHARS = 256

Load = Callable[[], bytes]
"""Returns the JWK set of the issuer; blocks; raises OSError or AidreError."""


class TokenVerifier:
    """Verifies tokens of one issuer; call `open` first, which raises ConfigurationError for an unusable key file."""

    def __init__(self, oauth: OAuth, load: Load | None = None, clock: Callable[[], float] = time.time) -> None:
        self._oauth = oauth
        self._load = load or _loader(oauth)
        self._clock = clock
        self._keys: Mapping[str | None, tuple[Key, ...]] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._waiting = 0
        self._verified: OrderedDict[bytes, tuple[float, float, Grant]] = OrderedDict()

    async def open(self) -> None:
        """Fetch the keys; an issuer that does not answer is asked again when a token arrives."""
        if self._oauth.jwks is not None:
            try:
                self._keys = _read_keys(await asyncio.to_thread(self._load), self._oauth)
            except (OSError, ValueError) as error:
                raise ConfigurationError(f"oauth.jwks {self._oauth.jwks} cannot be used: {error}") from error
            self._fetched_at = self._tried_at = self._clock()
        else:
            await self._refresh()

    async def grant(self, token: bytes) -> Grant:
        """The grant of a token; raises Unauthorized, without the reason, or Unavailable."""
        now, digest = self._clock(), hashlib.sha256(token).digest()
        verified = self._verified.get(digest)
        if verified is not None and verified[0] <= now < verified[1]:
            return verified[2]
        header = _header(token)
        if header.get("alg") not in self._oauth.algorithms:
            raise _rejected()
        starts, ends, grant = _grant_of(await self._claims(token, header), self._oauth, now)
        first, last = self._fetched_at - 2 * REFRESH_SECONDS, self._fetched_at + 2 * REFRESH_SECONDS
        self._verified[digest] = max(starts, first), min(ends, last), grant
        if len(self._verified) > CACHE_SIZE:
            self._verified.popitem(last=False)
        return grant

    async def _claims(self, token: bytes, header: Mapping[str, Any]) -> Mapping[str, Any]:
        """The claims of a token that one of the issuer's keys has signed."""
        kid = header.get("kid")
        if kid is not None and type(kid) is not str:
            raise _rejected()
        if kid not in self._keys or self._is_stale():
            await self._refresh()
        elif not 0 <= self._clock() - self._fetched_at <= REFRESH_SECONDS:
            self._start_fetch()  # in the background: the cached keys are still valid
        if not self._keys or self._is_stale():
            raise Unavailable("tokens cannot be checked at the moment: try again later")
        for key in self._keys.get(kid, ())[:MAX_TRIED_KEYS]:
            claims = _verify(token, key, header["alg"])
            if claims is not None:
                return claims
        raise _rejected()

    def _is_stale(self) -> bool:
        # abs: a clock that was set back must not make keys young.
        return abs(self._clock() - self._fetched_at) > MAX_KEY_AGE_SECONDS

    async def _refresh(self) -> None:
        """Wait for one shared fetch of the keys, unless one was tried just now. A failed fetch keeps the old keys.
        Raises Unavailable if too many requests wait for a slow issuer: each holds a slot that others need."""
        fetching = self._start_fetch()
        if fetching is None:
            return
        if self._waiting >= MAX_WAITING:
            raise Unavailable("tokens of unknown keys cannot be checked at the moment: try again later")
        self._waiting += 1
        try:
            await asyncio.shield(fetching)
        finally:
            self._waiting -= 1

    def _start_fetch(self) -> asyncio.Task[None] | None:
        # A clock that was set back must not delay the next fetch.
        if self._fetching is None and not 0 <= self._clock() - self._tried_at < RETRY_SECONDS:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._fetch())
        return self._fetching

    async def _fetch(self) -> None:
        try:
            self._keys = await asyncio.to_thread(lambda: _read_keys(self._load(), self._oauth))
            self._fetched_at = self._clock()
            self._verified.clear()  # tokens of a revoked key must not stay verified
        except (OSError, ValueError, AidreError) as error:
            logger.warning("the keys of the OAuth issuer cannot be read: %s", error)
            if self._keys and self._is_stale():
                hours = MAX_KEY_AGE_SECONDS / 3_600
                logger.error("tokens are refused: the keys of the OAuth issuer could not be read for %g hours", hours)
        finally:
            self._fetching = None

    async def close(self) -> None:
        if self._fetching is not None:
            await asyncio.shield(self._fetching)


def _rejected() -> Unauthorized:
    return Unauthorized("this token is not accepted here: get a new one, or send none")


def _header(token: bytes) -> Mapping[str, Any]:
    """The protected header, not yet verified."""
    from joserfc.errors import JoseError
    from joserfc.jws import extract_compact

    try:
        header = extract_compact(token).headers()
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise _rejected() from error
    if type(header) is not dict:
        raise _rejected()
    kind = header.get("typ", "jwt")
    if not isinstance(kind, str) or kind.lower() not in TYPES or "crit" in header or "b64" in header:
        raise _rejected()
    return header


def _verify(token: bytes, key: Key, algorithm: str) -> Mapping[str, Any] | None:
    """The claims, or None if this key did not sign them with this algorithm."""
    from joserfc import jwt
    from joserfc.errors import JoseError, SecurityWarning
    from joserfc.jws import JWSRegistry

    if key.key_type != KEY_TYPES[algorithm[:2]] or key.get("alg", algorithm) != algorithm:
        return None
    try:
        # Unknown header members are ignored (RFC 7515, 4); `crit` was rejected before.
        registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # about the name EdDSA, which the operator has listed
            return jwt.decode(token, key, registry=registry).claims
    except (JoseError, ValueError, TypeError, RecursionError):
        return None


def _grant_of(claims: Mapping[str, Any], oauth: OAuth, now: float) -> tuple[float, float, Grant]:
    """Start and end of validity (Unix seconds), and the grant of the claims; raises Unauthorized."""
    subject, audience = claims.get("sub"), claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    starts = max(_instant(claims.get(name, 0.0)) for name in ("nbf", "iat")) - oauth.leeway
    ends = _instant(claims.get("exp")) + oauth.leeway
    has_subject = isinstance(subject, str) and 0 < len(subject) <= MAX_SUBJECT_CHARS and _is_unicode(subject)
    if (
        claims.get("iss") != oauth.issuer
        or oauth.audience not in audiences
        or not has_subject
        or not starts <= now < ends
    ):
        raise _rejected()
    grants = {**DEFAULT_GRANTS, **oauth.grants}
    granted = [grants[word] for word in _words(claims.get(oauth.scope_claim)) if word in grants]
    scopes = {scope for grant in granted for scope in grant.scopes}
    collections = {name for grant in granted for name in grant.collections}
    if oauth.collections_claim is not None:
        collections.update(_words(claims.get(oauth.collections_claim)))
    name = f"oauth {subject}"
    caller = Caller(name, frozenset(collections), "vectors" in scopes, "write" in scopes, account=name)
    return starts, ends, Grant(caller, "search" in scopes, oauth.rate)


def _is_unicode(text: str) -> bool:
    """JSON may contain lone surrogates, which no log or header can encode."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _instant(value: Any) -> float:
    if type(value) not in {int, float} or not 0 <= value < 2**53:
        raise _rejected()
    return float(value)


def _words(value: Any) -> list[str]:
    """The words of a claim: a list, or one string separated by spaces."""
    if isinstance(value, str):
        return value.split()
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def _read_keys(document: bytes, oauth: OAuth) -> Mapping[str | None, tuple[Key, ...]]:
    """The verification keys by key id, and all of them under None; raises ValueError if there is none."""
    content = orjson.loads(document)
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise ValueError(f"it must be a JSON Web Key Set of at most {MAX_KEYS} keys")
    keys: dict[str | None, tuple[Key, ...]] = {None: ()}
    types = [KEY_TYPES[algorithm[:2]] for algorithm in oauth.algorithms]
    for jwk in listed:
        key = _verification_key(jwk) if isinstance(jwk, dict) and jwk.get("kty") in types else None
        if key is not None:
            keys[None] += (key,)
            if isinstance(jwk.get("kid"), str):
                keys[jwk["kid"]] = (*keys.get(jwk["kid"], ()), key)
    if not keys[None]:
        raise ValueError("it has no public key for the algorithms of oauth.algorithms")
    return keys


def _verification_key(jwk: Mapping[str, Any]) -> Key | None:
    """A key that can only verify signatures; None for any other."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    operations = jwk.get("key_ops", ["verify"])
    if jwk.get("use", "sig") != "sig" or "d" in jwk or not isinstance(operations, list) or "verify" not in operations:
        return None
    if jwk["kty"] == "RSA" and len(str(jwk.get("n"))) * 6 < MIN_RSA_BITS:
        return None
    # joserfc refuses a token whose header has the other name of the same algorithm.
    members = {name: value for name, value in jwk.items() if name != "alg" or value not in EDWARDS}
    try:
        return import_key(members)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _loader(oauth: OAuth) -> Load:
    if oauth.jwks is not None:
        return Path(oauth.jwks).absolute().read_bytes
    url = read_url(str(oauth.jwks_uri))
    # The operator configured the address, so it may be private; redirects must stay on its host.
    fetcher = Fetcher(FetchRules(allow_private_addresses=True, timeout=10.0, page_bytes=MAX_DOCUMENT_BYTES))

    def fetch() -> bytes:
        with tempfile.TemporaryDirectory(prefix="aidre-") as folder:
            into = Path(folder) / "jwks.json"
            fetcher.get(url, into, within=lambda to: (to.scheme, to.host, to.port) == (url.scheme, url.host, url.port))
            return into.read_bytes()

    return fetch
