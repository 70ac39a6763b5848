"""The bind key: loading or creating its secret, encryption and digests. The secret is never kept in the store.

Two keys are derived from the secret (scrypt): one encrypts the data of binds (AES-256-GCM), the other makes the digests
(HMAC-SHA-256) by which a repeated bind is recognized.
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

from aidre.api.config import MIN_SECRET_CHARS, IntakeSettings
from aidre.engine.errors import ConfigurationError, StorageFailed
from aidre.engine.storage import create_private_file, make_folder, sync_folder, sync_name

SECRET_BYTES = 32
NONCE_BYTES = 12
SCRYPT_COST = 16_384
"""The cost parameter N of scrypt (RFC 7914): 16 MiB of memory with r = 8."""


class BindKey:
    """`id` identifies the key without revealing it, so that a wrong key is detected before decryption."""

    def __init__(self, secret: str) -> None:
        derived = hashlib.scrypt(secret.encode(), salt=b"aidre bind key", n=SCRYPT_COST, r=8, p=1, dklen=72)
        self._cipher = AESGCM(derived[:32])
        self._digests = derived[32:64]
        self.id = derived[64:]

    def seal(self, content: bytes, purpose: str) -> bytes:
        """Encrypt `content`; only `open` with the same purpose decrypts it."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes | None:
        """The content; None if it was sealed with another key or purpose, or is damaged."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose.encode())
        except (InvalidTag, ValueError):
            return None

    def digest(self, content: bytes) -> bytes:
        return hmac.digest(self._digests, content, "sha256")


def find_bind_key(settings: IntakeSettings, store: Path) -> BindKey:
    """The configured or stored key; creates one if there is none. Raises ConfigurationError."""
    if settings.bind_key is not None:
        return BindKey(settings.bind_key)
    secret = _read_secret(settings, store)
    if secret is None:
        return BindKey(_make_secret(settings, store))
    for path in _key_paths(settings, store):  # its writer may have been killed before the name was durable
        with suppress(OSError):
            sync_folder(path.parent)
    return BindKey(secret)


def existing_bind_key(settings: IntakeSettings, store: Path) -> BindKey | None:
    """The configured or stored key; None if none was created yet. Raises ConfigurationError."""
    secret = settings.bind_key or _read_secret(settings, store)
    return None if secret is None else BindKey(secret)


def _key_paths(settings: IntakeSettings, store: Path) -> Iterator[Path]:
    """The files that may hold the key, preferred first. Raises ConfigurationError for a path inside the store."""
    resolved_store = store.resolve()
    if settings.key_file is not None:
        path = Path(settings.key_file).expanduser().absolute()
        if path.resolve().is_relative_to(resolved_store):
            raise ConfigurationError(
                f"intake.key_file {path} is in the store, beside the data that it encrypts: name a file elsewhere"
            )
        yield path
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser().absolute()
    if not folder.resolve().is_relative_to(resolved_store):
        yield folder / "aidre" / "bind-key"


def _read_secret(settings: IntakeSettings, store: Path) -> str | None:
    for path in _key_paths(settings, store):
        try:
            secret = path.read_text(encoding="ascii").strip()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the bind key {path} cannot be read: {type(error).__name__}") from error
        if len(secret) < MIN_SECRET_CHARS:  # a write was interrupted
            raise ConfigurationError(f"the bind key {path} is incomplete: restore it, or set intake.bind_key")
        return secret
    return None


def _make_secret(settings: IntakeSettings, store: Path) -> str:
    """Write a new secret to the first path that can be written, and return the secret in force."""
    paths = list(_key_paths(settings, store))
    for path in paths:
        with suppress(OSError, StorageFailed):
            make_folder(path.parent, 0o700)
            sync_name(path.parent)
            create_private_file(path, f"{secrets.token_hex(SECRET_BYTES)}\n".encode())
            break
    secret = _read_secret(settings, store)  # two processes that start at once both use the secret written first
    if secret is None:
        tried = ", ".join(map(str, paths)) or "no path outside the store"
        raise ConfigurationError(f"no bind key can be written ({tried}): set intake.bind_key or intake.key_file")
    return secret
