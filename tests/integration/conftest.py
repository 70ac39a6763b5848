"""What the integration tests share: files that are not synced, since none of these tests cuts the power."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> Iterator[None]:
    """`fsync` in this process does nothing: a commit syncs some twenty files and folders, milliseconds each.

    `tests.hostile` proves that a store is durable.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield
