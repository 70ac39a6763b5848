"""Signatures in the application, where a key is configured."""

from __future__ import annotations

from functools import partial

from aidre.api.config import Settings
from aidre.api.protocols.provenance.answers import signed_headers
from aidre.api.protocols.provenance.routes import routes
from aidre.api.protocols.provenance.service import provenance_for
from aidre.api.server import Mounted


def mount(settings: Settings) -> Mounted:
    """Raises ConfigurationError for a key that cannot be read."""
    provenance = provenance_for(settings)
    if provenance is None:
        return Mounted(state={"provenance": None})
    return Mounted(
        routes=routes,
        state={"provenance": provenance},
        sign=partial(signed_headers, provenance.answers),
        refresh=provenance.ring.refresh,
    )
