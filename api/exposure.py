"""What must be declared before a server listens beyond this machine."""

from __future__ import annotations

from collections.abc import Iterable

from aidre.api.access import visibility_in_force
from aidre.api.settings import Settings, is_loopback
from aidre.engine.errors import AidreError, ConfigurationError
from aidre.engine.store import Store


def check_exposure(settings: Settings, host: str, private: Iterable[str]) -> None:
    """Raises ConfigurationError: beyond loopback nothing is served in the clear, and nothing private without a key.

    `private` are the names of the private collections. An editorial domain or an intake opens one on its own account.
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
    closed = sorted(set(private) - granted)
    if closed and not settings.keys and settings.oauth is None:
        raise ConfigurationError(
            f"collection {closed[0]!r} is private, but no key opens it: make one with `aidre keys new`, or use [oauth]"
        )


def private_collections(store: Store, settings: Settings) -> list[str]:
    """The collections that are private by their manifest or by the configuration, also those that cannot be opened."""
    found = []
    for name in store.collections():
        try:
            visibility = store.open(name).collection.visibility
        except AidreError:
            visibility = "private"  # whatever it was: it must not count as open
        if visibility_in_force(visibility, settings.collection(name)) == "private":
            found.append(name)
    return found
