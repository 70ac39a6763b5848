"""The bind key: where it is found or made, and what is done with it. It never stands in the store.

One secret gives two keys: one encrypts what was bound (AES-256-GCM), one makes the digests by which a repeated bind is
known again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aidre.api.intake.settings import Intake
from aidre.api.tables import SHORTEST_SECRET
from aidre.engine.errors import ConfigurationError

SECRET_BYTES = 32
NONCE_BYTES = 12


class BindKey:
    """`id` names a key without giving it away, so that a wrong one is known before anything is decrypted."""

    def __init__(self, secret: str) -> None:
        derived = hashlib.scrypt(secret.encode(), salt=b"aidre bind key", n=16_384, r=8, p=1, dklen=72)
        self._cipher = AESGCM(derived[:32])
        self._digests = derived[32:64]
        self.id = derived[64:]

    def seal(self, content: bytes, purpose: str) -> bytes:
        """Encrypted for one purpose: it opens for that alone."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes | None:
        """None where it was sealed with another key or for another purpose, or is damaged."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose.encode())
        except (InvalidTag, ValueError):
            return None

    def digest(self, content: bytes) -> bytes:
        return hmac.digest(self._digests, content, "sha256")


def find_bind_key(settings: Intake, store: Path) -> BindKey:
    """The key in force, made where there is none; raises ConfigurationError."""
    if settings.bind_key is not None:
        return BindKey(settings.bind_key)
    found = _found(settings, store)
    return BindKey(found if found is not None else _made(settings, store))


def existing_bind_key(settings: Intake, store: Path) -> BindKey | None:
    """The key in force, None where none was made yet."""
    found = settings.bind_key or _found(settings, store)
    return None if found is None else BindKey(found)


def _places(settings: Intake, store: Path) -> Iterator[Path]:
    """Where a key may stand, best first; ConfigurationError where one is named in the store."""
    inside = store.resolve()
    if settings.key_file is not None:
        path = Path(settings.key_file).expanduser()
        if path.resolve().is_relative_to(inside):
            raise ConfigurationError(
                f"intake.key_file {path} lies in the store, beside what it locks: name a place elsewhere"
            )
        yield path
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    if not folder.resolve().is_relative_to(inside):
        yield folder / "aidre" / "bind-key"


def _found(settings: Intake, store: Path) -> str | None:
    for path in _places(settings, store):
        try:
            secret = path.read_text(encoding="ascii").strip()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the bind key {path} cannot be read: {type(error).__name__}") from error
        if len(secret) < SHORTEST_SECRET:  # it was not written whole
            raise ConfigurationError(f"the bind key {path} is not whole: restore it, or set intake.bind_key")
        return secret
    return None


def _made(settings: Intake, store: Path) -> str:
    """A new key in the first place that can be written."""
    places = list(_places(settings, store))
    for path in places:
        with suppress(OSError):
            _write(path, secrets.token_hex(SECRET_BYTES))
            break
    made = _found(settings, store)  # of two processes that begin at once, both take the key of the first
    if made is None:
        tried = ", ".join(map(str, places)) or "no place outside the store"
        raise ConfigurationError(f"no bind key can be made ({tried}): set intake.bind_key or intake.key_file")
    return made


def _write(path: Path, secret: str) -> None:
    """Puts the secret where no file is yet; what stands there is never replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    waiting = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secret}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(waiting, path)
    finally:
        waiting.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
