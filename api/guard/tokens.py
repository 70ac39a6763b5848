"""OAuth 2 access tokens: JSON Web Tokens of one issuer, checked against the keys that it publishes.

What a token says is believed when a key of the issuer has signed it with an algorithm of the list, for this audience,
and now. The keys are fetched in a thread, kept, and fetched again when they are old or a token names one that is not
among them, but not more often than the issuer can be asked by strangers. While the issuer does not answer they are
believed for a day: for longer nobody would know that one was withdrawn. A key that could also make signatures, as every
key of an HMAC, is not taken.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from aidre.api.access import Caller
from aidre.api.guard.credentials import Holder
from aidre.api.guard.refusals import Unauthorized
from aidre.api.guard.settings import BY_NAME, OAuth
from aidre.api.refusals import Unavailable
from aidre.engine.errors import AidreError, ConfigurationError
from aidre.ingest.fetch import Fetcher, FetchRules
from aidre.ingest.urls import read_url

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger("aidre")

KEYS_SECONDS = 3_600.0
BELIEVED_SECONDS = 86_400.0
"""How long keys are good for that could not be read again."""
ASKED_AGAIN_SECONDS = 30.0
"""Between two fetches of the keys, however many tokens name one that is not there."""
WAITING_AT_MOST = 64
REMEMBERED = 1_024
MOST_BYTES = 1 << 20
MOST_KEYS = 100
TRIED_AT_MOST = 8
"""Keys, where a token names none or several have one name."""
KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
FEWEST_RSA_BITS = 2_048
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
SUBJECT_CHARS = 256

Load = Callable[[], bytes]
"""The document with the issuer's keys; blocks; OSError, AidreError."""


class Tokens:
    """The tokens of one issuer; `open` before use. ConfigurationError where a file of keys cannot be used."""

    def __init__(self, oauth: OAuth, load: Load | None = None, clock: Callable[[], float] = time.time) -> None:
        self._oauth = oauth
        self._load = load or _loader(oauth)
        self._clock = clock
        self._keys: Mapping[str | None, tuple[Key, ...]] = {}
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._waiting = 0
        self._known: OrderedDict[bytes, tuple[float, float, Holder]] = OrderedDict()

    async def open(self) -> None:
        """Reads the keys; an issuer that does not answer is asked again when a token comes."""
        if self._oauth.jwks is not None:
            try:
                self._keys = _read_keys(await asyncio.to_thread(self._load), self._oauth)
            except (OSError, ValueError) as error:
                raise ConfigurationError(f"oauth.jwks {self._oauth.jwks} cannot be used: {error}") from error
            self._read_at = self._tried_at = self._clock()
        else:
            await self._refresh()

    async def holder(self, token: bytes) -> Holder:
        """Whom a token names; raises Unauthorized, which never says why, or Unavailable."""
        now, mark = self._clock(), hashlib.sha256(token).digest()
        known = self._known.get(mark)
        if known is not None and known[0] <= now < known[1]:
            return known[2]
        header = _header(token)
        if header.get("alg") not in self._oauth.algorithms:
            raise _unfit()
        starts, ends, holder = _believed(await self._claims(token, header), self._oauth, now)
        first, last = self._read_at - 2 * KEYS_SECONDS, self._read_at + 2 * KEYS_SECONDS
        self._known[mark] = max(starts, first), min(ends, last), holder
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return holder

    async def _claims(self, token: bytes, header: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the token says, once one of the issuer's keys has been found to have signed it."""
        kid = header.get("kid")
        if kid is not None and type(kid) is not str:
            raise _unfit()
        if kid not in self._keys or self._is_stale():
            await self._refresh()
        elif not 0 <= self._clock() - self._read_at <= KEYS_SECONDS:
            self._begin()  # nobody waits for keys that are at hand
        if not self._keys or self._is_stale():
            raise Unavailable("tokens cannot be checked at the moment: try again later")
        for key in self._keys.get(kid, ())[:TRIED_AT_MOST]:
            claims = _verified(token, key, header["alg"])
            if claims is not None:
                return claims
        raise _unfit()

    def _is_stale(self) -> bool:
        return abs(self._clock() - self._read_at) > BELIEVED_SECONDS  # a clock that was set back makes none young

    async def _refresh(self) -> None:
        """Reads the keys again, once for all who wait, unless that was tried just now. Old keys stay where it fails.
        Raises Unavailable where too many wait for an issuer that takes its time: others need the places they hold."""
        reading = self._begin()
        if reading is None:
            return
        if self._waiting >= WAITING_AT_MOST:
            raise Unavailable("tokens of unknown keys cannot be checked at the moment: try again later")
        self._waiting += 1
        try:
            await asyncio.shield(reading)
        finally:
            self._waiting -= 1

    def _begin(self) -> asyncio.Task[None] | None:
        # A clock that was set back must not put off the next reading by as much.
        if self._reading is None and not 0 <= self._clock() - self._tried_at < ASKED_AGAIN_SECONDS:
            self._tried_at = self._clock()
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read(self) -> None:
        try:
            self._keys = await asyncio.to_thread(lambda: _read_keys(self._load(), self._oauth))
            self._read_at = self._clock()
            self._known.clear()  # a key that was withdrawn takes its tokens with it
        except (OSError, ValueError, AidreError) as error:
            logger.warning("the keys of the OAuth issuer cannot be read: %s", error)
            if self._keys and self._is_stale():
                hours = BELIEVED_SECONDS / 3_600
                logger.error("tokens are refused: for %g hours the keys of the OAuth issuer could not be read", hours)
        finally:
            self._reading = None

    async def close(self) -> None:
        if self._reading is not None:
            await asyncio.shield(self._reading)


def _unfit() -> Unauthorized:
    return Unauthorized("this token is not accepted here: get a new one, or send none")


def _header(token: bytes) -> Mapping[str, Any]:
    """The protected header, not yet believed."""
    from joserfc.errors import JoseError
    from joserfc.jws import extract_compact

    try:
        header = extract_compact(token).headers()
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise _unfit() from error
    if type(header) is not dict:
        raise _unfit()
    kind = header.get("typ", "jwt")
    if not isinstance(kind, str) or kind.lower() not in TYPES or "crit" in header or "b64" in header:
        raise _unfit()
    return header


def _verified(token: bytes, key: Key, algorithm: str) -> Mapping[str, Any] | None:
    """The claims, if this key has signed them with this algorithm."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    if key.key_type != KINDS[algorithm[:2]] or key.get("alg", algorithm) not in _names_of(algorithm):
        return None
    try:
        # Members of the header that nobody here knows are ignored (RFC 7515, 4); `crit` was refused before.
        registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        return jwt.decode(token, key, registry=registry).claims
    except (JoseError, ValueError, TypeError, RecursionError):
        return None


def _names_of(algorithm: str) -> tuple[str, ...]:
    """Ed25519 has an older, wider name."""
    return ("EdDSA", "Ed25519") if algorithm in {"EdDSA", "Ed25519"} else (algorithm,)


def _believed(claims: Mapping[str, Any], oauth: OAuth, now: float) -> tuple[float, float, Holder]:
    """From when until when the claims hold, and whom they name; raises Unauthorized."""
    subject, audience = claims.get("sub"), claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    starts = max(_instant(claims.get(name, 0.0)) for name in ("nbf", "iat")) - oauth.leeway
    ends = _instant(claims.get("exp")) + oauth.leeway
    named = isinstance(subject, str) and 0 < len(subject) <= SUBJECT_CHARS and _is_unicode(subject)
    if claims.get("iss") != oauth.issuer or oauth.audience not in audiences or not named or not starts <= now < ends:
        raise _unfit()
    grants = {**BY_NAME, **oauth.grants}
    opened = [grants[word] for word in _words(claims.get(oauth.scope_claim)) if word in grants]
    scopes = {scope for grant in opened for scope in grant.scopes}
    collections = {name for grant in opened for name in grant.collections}
    if oauth.collections_claim is not None:
        collections.update(_words(claims.get(oauth.collections_claim)))
    name = f"oauth {subject}"
    caller = Caller(name, frozenset(collections), "vectors" in scopes, account=name)
    return starts, ends, Holder(caller, "search" in scopes, oauth.rate)


def _is_unicode(text: str) -> bool:
    """Half of a surrogate pair can stand in JSON, and nowhere that a name goes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _instant(value: Any) -> float:
    if type(value) not in {int, float} or not 0 <= value < 2**53:
        raise _unfit()
    return float(value)


def _words(value: Any) -> list[str]:
    """A claim that is a list of words, or words with spaces between."""
    if isinstance(value, str):
        return value.split()
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def _read_keys(document: bytes, oauth: OAuth) -> Mapping[str | None, tuple[Key, ...]]:
    """The keys that can check signatures, by their id, and all of them under None; ValueError where there is none."""
    content = orjson.loads(document)
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise ValueError(f"it must be a JSON Web Key Set of at most {MOST_KEYS} keys")
    found: dict[str | None, tuple[Key, ...]] = {None: ()}
    kinds = [KINDS[algorithm[:2]] for algorithm in oauth.algorithms]
    for one in listed:
        key = _public(one) if isinstance(one, dict) and one.get("kty") in kinds else None
        if key is not None:
            found[None] += (key,)
            if isinstance(one.get("kid"), str):
                found[one["kid"]] = (*found.get(one["kid"], ()), key)
    if not found[None]:
        raise ValueError("it has no public key for the algorithms of oauth.algorithms")
    return found


def _public(one: Mapping[str, Any]) -> Key | None:
    """A key that only checks signatures; None for any other."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    operations = one.get("key_ops", ["verify"])
    if one.get("use", "sig") != "sig" or "d" in one or not isinstance(operations, list) or "verify" not in operations:
        return None
    if one["kty"] == "RSA" and len(str(one.get("n"))) * 6 < FEWEST_RSA_BITS:
        return None
    try:
        return import_key(dict(one))
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _loader(oauth: OAuth) -> Load:
    if oauth.jwks is not None:
        return Path(oauth.jwks).read_bytes
    url = read_url(str(oauth.jwks_uri))
    # The operator has named the address, so it may be one of the own network; only its own host may lead elsewhere.
    fetcher = Fetcher(FetchRules(allow_private_addresses=True, timeout=10.0, page_bytes=MOST_BYTES))

    def fetched() -> bytes:
        with tempfile.TemporaryDirectory(prefix="aidre-") as folder:
            into = Path(folder) / "jwks.json"
            fetcher.get(url, into, within=lambda to: (to.scheme, to.host, to.port) == (url.scheme, url.host, url.port))
            return into.read_bytes()

    return fetched
