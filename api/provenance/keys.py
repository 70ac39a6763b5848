"""The keys of provenance: a PEM file with the key that signs and the public halves of those that signed before it.

`make_key` puts a new key in and keeps only the public half of the former one, which stays published until what it has
signed has run out. `Ring` is what a server has of the file: it follows changes, so that a new key needs no restart.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from stat import S_ISREG

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from aidre.engine.errors import ConfigurationError

logger = logging.getLogger("aidre")

ALGORITHM = "Ed25519"
"""As JOSE spells it (RFC 9864), which deprecates EdDSA."""
LONGEST_SECONDS = 30 * 86_400
"""For which a chunk's signature may be valid: so long a key stays published after it has signed its last."""
MARGIN_SECONDS = 86_400
SETTLE_SECONDS = 5.0
"""From when a running server publishes a new key until it signs with it: by then all its workers publish it."""
MOST_BYTES = 1 << 20
SIGNATURE_BYTES = 64

BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\n.*?-----END \1-----\n?", re.DOTALL)
NAMED = re.compile(r"^provenance key (\S+)$", re.MULTILINE)
RETIRED = re.compile(r"^retired (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$", re.MULTILINE)
PRIVATE, PUBLIC = "PRIVATE KEY", "PUBLIC KEY"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """`id` is its thumbprint (RFC 7638); `retired` Unix time, None where the file does not say."""

    id: str
    x: str
    pem: str
    retired: float | None = None

    @property
    def jwk(self) -> dict[str, str]:
        """As RFC 8037 has it."""
        return {"kty": "OKP", "crv": ALGORITHM, "x": self.x, "kid": self.id, "alg": ALGORITHM, "use": "sig"}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """`sign` makes the signature of some bytes."""

    private: Ed25519PrivateKey
    public: PublicKey
    sign: Callable[[bytes], bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keys:
    """What a file holds: `signing` is its last private key, `published` all public halves, newest first."""

    signing: SigningKey
    published: tuple[PublicKey, ...]

    def document(self) -> bytes:
        """The JWK set (RFC 7517); it has no private member."""
        return orjson.dumps({"keys": [key.jwk for key in self.published]})


def read_keys(path: Path) -> Keys:
    """The keys in a file; raises ConfigurationError."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"provenance.key {path} cannot be read: {error.strerror}; `aidre keys new --provenance FILE` makes one"
        ) from error
    return parse_keys(content, path)


def parse_keys(content: bytes, path: Path) -> Keys:
    """`path` is for messages, which never repeat what the file holds."""
    if len(content) > MOST_BYTES:
        raise _unfit(path, "it is too large")
    try:
        text = content.decode("ascii").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _unfit(path, "it is not PEM") from error
    signing: SigningKey | None = None
    found: dict[str, PublicKey] = {}
    place = blocks = 0
    for block in BLOCK.finditer(text):
        blocks += 1
        about, named = (pattern.search(text, place, block.start()) for pattern in (RETIRED, NAMED))
        place = block.end()
        if block[1] == PRIVATE:
            private = _private(block[0], path)
            key = _public(private.public_key(), None)
            signing = SigningKey(private, key, signer_of(private))
            found[key.id] = key
        elif block[1] == PUBLIC:
            key = _public(_loaded_public(block[0], path), _time(about[1]) if about else None)
            found.setdefault(key.id, key)
        else:
            raise _unfit(path, f"it holds a block of another kind, {block[1]}: Ed25519 keys as PKCS #8 belong there")
        if named is not None and named[1] != key.id:
            raise _unfit(path, "a key in it was altered: it is not the one whose name stands above it")
    if blocks != text.count("-----BEGIN"):
        raise _unfit(path, "a block in it is not whole")
    if signing is None:
        raise _unfit(path, "it holds no private key")
    others = [key for key in reversed(found.values()) if key.id != signing.public.id]
    return Keys(signing, (signing.public, *others))


def _private(pem: str, path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unfit(path, "a private key in it cannot be read") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _unfit(path, "a private key in it is not an Ed25519 key")
    return key


def signer_of(private: Ed25519PrivateKey) -> Callable[[bytes], bytes]:
    """What signs, by libsodium where that is installed: the same signatures in three fifths of OpenSSL's time."""
    if find_spec("nacl") is None:
        return private.sign
    from nacl.bindings import crypto_sign

    secret = private.private_bytes_raw() + private.public_key().public_bytes_raw()
    return lambda content: crypto_sign(content, secret)[:SIGNATURE_BYTES]


def _loaded_public(pem: str, path: Path) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _unfit(path, "a public key in it cannot be read") from error
    if not isinstance(key, Ed25519PublicKey):
        raise _unfit(path, "a public key in it is not an Ed25519 key")
    return key


def _public(key: Ed25519PublicKey, retired: float | None) -> PublicKey:
    x = base64url(key.public_bytes_raw())
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(thumbprint(x), x, pem.decode(), retired)


def thumbprint(x: str) -> str:
    """The SHA-256 thumbprint of an Ed25519 key (RFC 7638, RFC 8037)."""
    canonical = f'{{"crv":"{ALGORITHM}","kty":"OKP","x":"{x}"}}'
    return base64url(hashlib.sha256(canonical.encode()).digest())


def base64url(content: bytes) -> str:
    """Without padding, as JOSE wants it."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _unfit(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"provenance.key {path} is no file of `aidre keys new --provenance FILE`: {reason}; it is left as it is"
    )


# -- making ----------------------------------------------------------------------------------------------------------


def make_key(path: Path, now: float) -> PublicKey:
    """Puts a new key into a file, which is made where it is not there, and keeps the public halves of the former ones
    as long as anything they have signed may be valid. Raises ConfigurationError, and then the file is as it was."""
    private = Ed25519PrivateKey.generate()
    made = _public(private.public_key(), None)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    try:
        path = path.expanduser().resolve()  # a link stays one
        with _alone(path.parent):
            former = read_keys(path) if path.exists() else None
            kept = _still_published(former, now) if former is not None else []
            parts = [f"provenance key {key.id}\nretired {_stamp(key.retired)}\n{key.pem}" for key in kept]
            _write(path, "\n".join([*parts, f"provenance key {made.id}\nmade {_stamp(now)}\n{pem}"]))
    except (OSError, RuntimeError) as error:  # the latter of a home that is not known, or links in a circle
        raise ConfigurationError(f"no key can be written to {path}: {getattr(error, 'strerror', error)}") from error
    return made


def _still_published(former: Keys, now: float) -> list[PublicKey]:
    """Oldest first; the former signing key, and any that does not say otherwise, retires now."""
    limit = now - LONGEST_SECONDS - MARGIN_SECONDS
    kept = [key for key in reversed(former.published) if key.retired is None or key.retired >= limit]
    return [PublicKey(key.id, key.x, key.pem, now if key.retired is None else key.retired) for key in kept]


def _stamp(moment: float | None) -> str:
    return datetime.fromtimestamp(moment or 0.0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:  # a day that no month has: such a key is kept
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two new keys at once come one after the other, so that neither takes the other one out."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> None:
    """Replaces the file in one step. A new one is for its owner alone; an old one keeps its owner and who may read."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            with suppress(FileNotFoundError):
                former = path.stat()
                os.fchown(file.fileno(), former.st_uid, former.st_gid)
                os.fchmod(file.fileno(), former.st_mode & 0o660)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        waiting.replace(path)
    except BaseException:
        waiting.unlink(missing_ok=True)
        raise


# -- serving ---------------------------------------------------------------------------------------------------------


class Ring:
    """The keys of a server. A new one is published as soon as it is seen and signs a little later; one that is taken
    out of the file signs nothing more. What goes wrong with the file later changes nothing."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigurationError."""
        self._path = path.expanduser()
        self._mark = self._seen()
        self.keys = read_keys(self._path)
        self.signing = self.keys.signing
        self._due = 0.0
        self._problem: str | None = None
        if self._path.stat().st_mode & 0o007:
            logger.warning("everyone on this machine can read the private key in %s: chmod o= it", self._path)

    def _seen(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        # A pipe can be read once: it is not followed.
        return (status.st_ino, status.st_mtime_ns, status.st_size) if S_ISREG(status.st_mode) else None

    def refresh(self) -> None:
        """Looks at the file: one call of stat where nothing has changed."""
        mark = self._seen()
        if mark != self._mark:
            self._mark = mark
            self._read()
        if self.signing is not self.keys.signing and time.monotonic() >= self._due:
            self.signing = self.keys.signing

    def _read(self) -> None:
        try:
            keys = read_keys(self._path)
        except ConfigurationError as error:
            logger.error("the keys in force stay: %s", error)
            return
        if keys.signing.public.id == self.signing.public.id:
            keys = Keys(self.signing, keys.published)
        elif all(key.id != self.signing.public.id for key in keys.published):
            self.signing = keys.signing  # the one in force was taken out: nobody should trust it any more
        else:
            self._due = time.monotonic() + SETTLE_SECONDS
        self.keys = keys
