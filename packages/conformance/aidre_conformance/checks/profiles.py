"""The two profiles: which checks they have, in the order in which they run."""

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
PROFILES: Mapping[Profile, tuple[Check, ...]] = {
    "letter": tuple(chain.from_iterable(module.CHECKS for module in _LETTER)),
    "compat": tuple(clients.CHECKS),
}
"""`letter`: the texts of the protocols. `compat`: what known clients would show."""
