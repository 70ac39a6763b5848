"""Makes keys for callers: a secret that is shown once, and the configuration lines that hold its digest."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from aidre.engine.errors import ConfigurationError

PREFIX = "aidre_"
"""Scanners for leaked secrets recognise a key by it."""

SECRET_BYTES = 32
NAME = re.compile(r"[\w .:@+/-]{1,64}")


@dataclass(frozen=True, slots=True)
class NewKey:
    """`lines` are TOML, to be appended to the configuration; they do not contain the secret."""

    secret: str
    lines: Sequence[str]


def new_key(name: str | None = None) -> NewKey:
    """A key for one caller, with a unique name unless one is given. ConfigurationError for a malformed name."""
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    if name is None:
        name = f"key-{digest[:8]}"
    if NAME.fullmatch(name) is None or name != name.strip():
        raise ConfigurationError("--name must be 1 to 64 letters, digits and . : @ + / - _, or spaces between them")
    lines = [
        "[[keys]]",
        f'name = "{name}"',
        f'sha256 = "{digest}"',
        "collections = []      # the private collections that it opens",
        'scopes = ["search"]   # add "vectors" to return vectors, "write" to write documents, where that is allowed',
    ]
    return NewKey(secret, lines)
