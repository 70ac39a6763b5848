"""AIDRE in the application. Its error envelope is the server's default, so it needs no renderer of its own."""

from __future__ import annotations

from aidre.api.protocols.aidre import changes, search
from aidre.api.server import Mounted


def mount() -> Mounted:
    return Mounted(routes=[*search.routes, *changes.routes], fast=search.FAST_PATHS)
