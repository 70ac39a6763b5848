"""The key file of provenance: a PEM file with the private signing key and the public halves of its predecessors.

`make_key` adds a new key and keeps only the public half of the former one, which stays published until its signatures
have expired. `KeyRing` holds the keys of a server: it follows changes of the file, so a new key needs no restart.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from stat import S_ISREG

import orjson
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from aidre.api.http import rfc3339
from aidre.engine.errors import ConfigurationError
from aidre.engine.storage import locked_folder, sync_folder

logger = logging.getLogger("aidre")

CURVE = "Ed25519"
MAX_LIFETIME_SECONDS = 30 * 86_400
"""The longest validity of a chunk's signature: a retired key stays published for this time and MARGIN_SECONDS."""
MARGIN_SECONDS = 86_400
"""A retired key stays published for this much longer than its last signature can be valid."""
SETTLE_SECONDS = 5.0
"""Between publishing a new key and signing with it, so that by then every worker publishes it."""
MAX_KEY_FILE_BYTES = 1 << 20
"""A larger file is an error: it is not a key file."""
SIGNATURE_BYTES = 64

BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\n.*?-----END \1-----\n?", re.DOTALL)
KEY_ID_LINE = re.compile(r"^provenance key (\S+)$", re.MULTILINE)
RETIRED_LINE = re.compile(r"^retired (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$", re.MULTILINE)
PRIVATE, PUBLIC = "PRIVATE KEY", "PUBLIC KEY"


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """`id` is the thumbprint (RFC 7638); `retired` is in Unix time, None if the file does not say."""

    id: str
    x: str
    pem: str
    retired: float | None = None

    def verify(self, signature: bytes, content: bytes) -> bool:
        """Whether the key has signed it."""
        try:
            Ed25519PublicKey.from_public_bytes(from_base64url(self.x)).verify(signature, content)
        except InvalidSignature:
            return False
        return True

    def text(self) -> str:
        """As key files have it."""
        retired = "" if self.retired is None else f"retired {rfc3339(self.retired)}\n"
        return f"provenance key {self.id}\n{retired}{self.pem}"

    def jwk(self, algorithm: str) -> dict[str, str]:
        """The JSON Web Key of RFC 8037, for signatures whose algorithm has this name."""
        return {"kty": "OKP", "crv": CURVE, "x": self.x, "kid": self.id, "alg": algorithm, "use": "sig"}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key with its public half; `sign` returns the signature of a message."""

    private: Ed25519PrivateKey
    public: VerifyingKey
    sign: Callable[[bytes], bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of a file: `signing` is its last private key, `published` has all public halves, newest first."""

    signing: SigningKey
    published: tuple[VerifyingKey, ...]

    def document(self, algorithm: str = CURVE) -> bytes:
        """The JWK set (RFC 7517), without any private member."""
        return orjson.dumps({"keys": [key.jwk(algorithm) for key in self.published]})


def read_keys(path: Path) -> SigningKeys:
    """Read a key file. Raises ConfigurationError."""
    return parse_keys(_read(path, "provenance.key"), path)


def read_public_keys(path: Path, setting: str) -> tuple[VerifyingKey, ...]:
    """The public keys of a file that has no private ones, newest first. Raises ConfigurationError, which names the
    setting that names the file."""
    _, keys = _parse(_read(path, setting), path)
    if not keys:
        raise ConfigurationError(f"{setting} {path} has no key: `aidre keys public FILE` prints those of a key file")
    return tuple(reversed(keys.values()))


def _read(path: Path, setting: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        made = "new --provenance" if setting == "provenance.key" else "public"
        raise ConfigurationError(
            f"{setting} {path} cannot be read: {error.strerror}; `aidre keys {made} FILE` makes one"
        ) from error


def parse_keys(content: bytes, path: Path) -> SigningKeys:
    """Parse a key file. Raises ConfigurationError, whose message names `path` and never repeats the content."""
    signing, keys = _parse(content, path)
    if signing is None:
        raise _invalid_file(path, "it has no private key")
    others = [key for key in reversed(keys.values()) if key.id != signing.public.id]
    return SigningKeys(signing, (signing.public, *others))


def _parse(content: bytes, path: Path) -> tuple[SigningKey | None, dict[str, VerifyingKey]]:
    """The last private key, and all public halves by their ids, in order."""
    if len(content) > MAX_KEY_FILE_BYTES:
        raise _invalid_file(path, "it is too large")
    try:
        text = content.decode("ascii").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _invalid_file(path, "it is not PEM") from error
    signing: SigningKey | None = None
    keys: dict[str, VerifyingKey] = {}
    end = blocks = 0
    for block in BLOCK.finditer(text):
        blocks += 1
        # The lines between the previous block and this one describe its key.
        retired, key_id = (pattern.search(text, end, block.start()) for pattern in (RETIRED_LINE, KEY_ID_LINE))
        end = block.end()
        if block[1] == PRIVATE:
            private = _parse_private(block[0], path)
            key = _public_key(private.public_key(), None)
            signing = SigningKey(private, key, make_signer(private))
            keys[key.id] = key
        elif block[1] == PUBLIC:
            key = _public_key(_parse_public(block[0], path), _parse_time(retired[1]) if retired else None)
            keys.setdefault(key.id, key)
        else:
            raise _invalid_file(path, f"it has a block of another kind, {block[1]}: use Ed25519 keys as PKCS #8")
        if key_id is not None and key_id[1] != key.id:
            raise _invalid_file(path, "a key in it was altered: its id differs from the line above it")
    if blocks != text.count("-----BEGIN"):
        raise _invalid_file(path, "a block in it is incomplete")
    return signing, keys


def _parse_private(pem: str, path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _invalid_file(path, "a private key in it cannot be read") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _invalid_file(path, "a private key in it is not an Ed25519 key")
    return key


def make_signer(private: Ed25519PrivateKey) -> Callable[[bytes], bytes]:
    """A function that signs by libsodium: the same signatures in three fifths of OpenSSL's time."""
    from nacl.bindings import crypto_sign

    secret = private.private_bytes_raw() + private.public_key().public_bytes_raw()
    return lambda content: crypto_sign(content, secret)[:SIGNATURE_BYTES]


def _parse_public(pem: str, path: Path) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _invalid_file(path, "a public key in it cannot be read") from error
    if not isinstance(key, Ed25519PublicKey):
        raise _invalid_file(path, "a public key in it is not an Ed25519 key")
    return key


def _public_key(key: Ed25519PublicKey, retired: float | None) -> VerifyingKey:
    x = base64url(key.public_bytes_raw())
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return VerifyingKey(thumbprint(x), x, pem.decode(), retired)


def thumbprint(x: str) -> str:
    """The SHA-256 thumbprint of an Ed25519 key (RFC 7638, RFC 8037); `x` is the public key in base64url."""
    canonical = f'{{"crv":"{CURVE}","kty":"OKP","x":"{x}"}}'
    return base64url(hashlib.sha256(canonical.encode()).digest())


def base64url(content: bytes) -> str:
    """Encode without padding, as JOSE requires."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def compact_jws(key: SigningKey, algorithm: str, kind: str, payload: bytes) -> str:
    """A payload, signed (RFC 7515); `kind` is the `typ` of its header."""
    header = orjson.dumps({"alg": algorithm, "kid": key.public.id, "typ": kind})
    text = f"{base64url(header)}.{base64url(payload)}"
    return f"{text}.{base64url(key.sign(text.encode()))}"


def _invalid_file(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"the key file {path} is not a file of `aidre keys new --provenance FILE`: {reason}; the file is unchanged"
    )


# -- making ----------------------------------------------------------------------------------------------------------


def make_key(path: Path, now: float) -> VerifyingKey:
    """Add a new key to a file, creating the file if needed; `now` is Unix time.

    The public halves of former keys are kept as long as one of their signatures may be valid. Raises
    ConfigurationError, and leaves the file unchanged then.
    """
    private = Ed25519PrivateKey.generate()
    key = _public_key(private.public_key(), None)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    try:
        path = path.expanduser().resolve()  # replace the target of a link, not the link
        with locked_folder(path.parent):
            former = read_keys(path) if path.exists() else None
            retired = _retired_keys(former, now) if former is not None else []
            parts = [old.text() for old in retired]
            _write(path, "\n".join([*parts, f"provenance key {key.id}\nmade {rfc3339(now)}\n{pem}"]))
            sync_folder(path.parent)
    except (OSError, RuntimeError) as error:  # RuntimeError: an unknown home folder or a loop of links
        raise ConfigurationError(f"no key can be written to {path}: {getattr(error, 'strerror', error)}") from error
    return key


def _retired_keys(former: SigningKeys, now: float) -> list[VerifyingKey]:
    """The keys to keep, oldest first. The former signing key, and any without a date, retires now."""
    oldest = now - MAX_LIFETIME_SECONDS - MARGIN_SECONDS
    recent = [key for key in reversed(former.published) if key.retired is None or key.retired >= oldest]
    return [VerifyingKey(key.id, key.x, key.pem, now if key.retired is None else key.retired) for key in recent]


def _parse_time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:  # such as February 30: the key is kept
        return None


def _write(path: Path, text: str) -> None:
    """Replace the file atomically. A new file is for its owner alone, an old one keeps its owner and its readers."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            with suppress(FileNotFoundError):
                former = path.stat()
                os.fchown(file.fileno(), former.st_uid, former.st_gid)
                os.fchmod(file.fileno(), former.st_mode & 0o660)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# -- serving ---------------------------------------------------------------------------------------------------------


def file_version(path: Path) -> tuple[int, int, int] | None:
    """What differs when a file was replaced or changed; None for one that is followed no further."""
    try:
        status = path.stat()
    except OSError:
        return None
    # A pipe can be read only once, so it is not followed.
    return (status.st_ino, status.st_mtime_ns, status.st_size) if S_ISREG(status.st_mode) else None


class KeyRing:
    """The keys of a server, which follow changes of the file.

    A new key is published as soon as it is read, and signs SETTLE_SECONDS later; a key that was removed from the file
    signs no more. A file that can no longer be read leaves the keys in force.
    """

    def __init__(self, path: Path) -> None:
        """Raises ConfigurationError."""
        self._path = path.expanduser().absolute()
        self._version = file_version(self._path)
        self.keys = read_keys(self._path)
        self.signing = self.keys.signing
        self._signing_from = 0.0
        if self._path.stat().st_mode & 0o007:
            logger.warning("everyone on this machine can read the private key in %s: chmod o= it", self._path)

    def refresh(self) -> None:
        """Read the file if it has changed; otherwise this costs one call of stat."""
        version = file_version(self._path)
        if version != self._version:
            self._version = version
            self._read()
        if self.signing is not self.keys.signing and time.monotonic() >= self._signing_from:
            self.signing = self.keys.signing

    def _read(self) -> None:
        try:
            keys = read_keys(self._path)
        except ConfigurationError as error:
            logger.error("the keys in force stay: %s", error)
            return
        if keys.signing.public.id == self.signing.public.id:
            keys = SigningKeys(self.signing, keys.published)
        elif all(key.id != self.signing.public.id for key in keys.published):
            self.signing = keys.signing  # the key in force was removed, so verifiers must no longer trust it
        else:
            self._signing_from = time.monotonic() + SETTLE_SECONDS
        self.keys = keys
