"""Bind keys that cost nothing to derive: a server derives its key when it starts, and that is made to take long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aidre.api.protocols.intake import bind_key

COST = bind_key.SCRYPT_COST


@pytest.fixture(scope="session", autouse=True)
def cheap_bind_keys() -> Iterator[int]:
    """The cost outside of tests. Several folders have this fixture, each one of its own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bind_key, "SCRYPT_COST", 2)
        yield COST
