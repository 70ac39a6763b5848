"""Checks that a configuration declares TLS and keys before a server listens beyond this machine."""

from __future__ import annotations

from collections.abc import Iterable

from aidre.api.access import visibility_in_force
from aidre.api.config import Settings, is_loopback
from aidre.engine.errors import AidreError, ConfigurationError
from aidre.engine.ports import Source


def check_exposure(settings: Settings, host: str, private: Iterable[str]) -> None:
    """Raises ConfigurationError if a host beyond loopback lacks TLS, or a private collection keys and [oauth].

    `private` are the names of the private collections. One that an editorial domain or an intake opens needs no key.
    """
    if is_loopback(host):
        return
    base_url = settings.server.base_url
    if base_url is None or not base_url.lower().startswith("https://"):
        problem = "is missing" if base_url is None else f"is {base_url}"
        raise ConfigurationError(
            f"server.base_url {problem}: to listen on {host}, set it to the https:// address that callers use"
        )
    if settings.server.tls != "proxy":
        raise ConfigurationError(
            f'to listen on {host}, put a proxy that speaks TLS in front and declare it with server.tls = "proxy"'
        )
    granted = {domain.collection for domain in settings.intent.editorial_domains.values()}
    granted |= {intake.collection for intake in settings.intakes if intake.collection is not None}
    unreachable = sorted(set(private) - granted)
    if unreachable and not settings.keys and settings.oauth is None:
        raise ConfigurationError(
            f"collection {unreachable[0]!r} is private, but no key opens it: make one with `aidre keys new`, "
            "or use [oauth]"
        )


def private_collections(store: Source, settings: Settings) -> list[str]:
    """Names of the collections that are private by their manifest or by the configuration, or cannot be opened."""
    private = []
    for name in store.collections():
        try:
            visibility = store.open(name).collection.visibility
        except AidreError:
            visibility = "private"  # unknown: it must not count as public
        if visibility_in_force(visibility, settings.collection(name)) == "private":
            private.append(name)
    return private
