"""Makes keys: a secret that is shown once, and what the configuration holds instead of it."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from aidre.engine.errors import ConfigurationError

PREFIX = "aidre_"
"""By which programs that look for leaked secrets find it."""
SECRET_BYTES = 32
NAME = re.compile(r"[\w .:@+/-]{1,64}")


@dataclass(frozen=True, slots=True)
class NewKey:
    """`lines` are TOML, for the end of the configuration; the secret is nowhere in them."""

    secret: str
    lines: Sequence[str]


def new_key(name: str | None = None) -> NewKey:
    """A key for one caller; without a name it gets one that is like no other. ConfigurationError for an odd name."""
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
        "collections = []      # the private ones that it opens",
        'scopes = ["search"]   # "vectors" lets vectors out, where the collection does',
    ]
    return NewKey(secret, lines)
