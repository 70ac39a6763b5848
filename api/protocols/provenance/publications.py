"""Signed publications of a store: the statement that a publisher makes, and the keys by which a replica takes it.

A statement is a compact JWS (RFC 7515), as that about a chunk (`signers`), of another type. It does not expire: a
replica serves the newest publication as long as there is no newer one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import orjson

from aidre.api.config import Settings
from aidre.api.protocols.provenance.keys import (
    CURVE,
    KeyRing,
    VerifyingKey,
    compact_jws,
    file_version,
    from_base64url,
    read_public_keys,
)
from aidre.engine.errors import ConfigurationError

logger = logging.getLogger("aidre")

TYPE = "aidre-publication+jws"
ALGORITHMS = frozenset({CURVE, "EdDSA"})
"""Two names of one algorithm (RFC 9864)."""
_SETTING = "store.publisher_keys"


class PublicationSigner:
    """Signs with the newest key of the file, which it follows."""

    def __init__(self, ring: KeyRing, algorithm: str = CURVE) -> None:
        self._ring, self._algorithm = ring, algorithm

    def sign(self, payload: bytes) -> str:
        self._ring.refresh()
        return compact_jws(self._ring.signing, self._algorithm, TYPE, payload)

    def open(self, statement: str) -> bytes:
        return open_statement(statement, {key.id: key for key in self._ring.keys.published})


class PublisherKeys:
    """The public keys that a replica trusts. A file that was changed is read again; one that can no longer be read
    leaves the keys in force."""

    def __init__(self, path: Path) -> None:
        """ConfigurationError."""
        self._path = path.expanduser().absolute()
        self._version = file_version(self._path)
        self._keys = self._read()

    @property
    def ids(self) -> list[str]:
        """Newest first."""
        return list(self._keys)

    def open(self, statement: str) -> bytes:
        version = file_version(self._path)
        if version != self._version:
            self._version = version
            try:
                self._keys = self._read()
            except ConfigurationError as error:
                logger.error("the keys of publishers in force stay: %s", error)
        return open_statement(statement, self._keys)

    def _read(self) -> Mapping[str, VerifyingKey]:
        return {key.id: key for key in read_public_keys(self._path, _SETTING)}


def open_statement(statement: str, keys: Mapping[str, VerifyingKey]) -> bytes:
    """The payload of a statement. KeyError with the id of its key, where that is not in `keys`; ValueError where it is
    no statement, or its signature does not hold."""
    text, _, signature = statement.rpartition(".")
    head, _, payload = text.partition(".")
    header = orjson.loads(from_base64url(head))
    if not isinstance(header, dict) or header.get("typ") != TYPE or str(header.get("alg")) not in ALGORITHMS:
        raise ValueError("it is not a statement about a publication")
    if "crit" in header:
        raise ValueError("it asks for an extension that is unknown")  # RFC 7515, 4.1.11
    key = keys[str(header.get("kid"))]
    if not key.verify(from_base64url(signature), text.encode()):
        raise ValueError("its signature does not hold")
    return from_base64url(payload)


def publication_signer(settings: Settings) -> PublicationSigner | None:
    """None where no key is configured. ConfigurationError if it cannot be read."""
    if settings.provenance.key is None:
        return None
    return PublicationSigner(KeyRing(Path(settings.provenance.key)), settings.provenance.alg)


def publisher_keys(settings: Settings) -> PublisherKeys | None:
    """None where none are configured. ConfigurationError if they cannot be read."""
    file = settings.store.publisher_keys
    return None if file is None else PublisherKeys(Path(file))
