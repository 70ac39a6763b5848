"""The profiles: which checks they have, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from aidre_conformance import Check, Profile
from aidre_conformance.checks import (
    clients,
    discovery,
    errors,
    events,
    intake,
    intent,
    nlweb,
    search,
    streams,
    tools,
    transport,
)

_LETTER = (discovery, search, errors, nlweb, streams, tools, intent, events, intake, transport)
_TEXTS = tuple(chain.from_iterable(module.CHECKS for module in _LETTER))


def _of(*protocols: str) -> tuple[Check, ...]:
    return tuple(check for check in _TEXTS if check.protocol in protocols)


PROFILES: Mapping[Profile, tuple[Check, ...]] = {
    "letter": _TEXTS,
    "aidre": _of("aidre"),
    "nlweb": _of("nlweb", "mcp"),
    "intent": _of("intent"),
    "intake": _of("intake"),
    "compat": tuple(clients.CHECKS),
}
"""`letter`: the texts of all protocols. `compat`: what known clients would show. The others: one protocol alone."""
