"""What the tests of the kernel share: skipped where it was not built, they leave the chosen kernel as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.native import kernel, restore


@pytest.fixture(autouse=True)
def restored(request: pytest.FixtureRequest) -> Iterator[None]:
    if kernel is not None:
        yield
        restore()
    elif request.path.stem.startswith("test_native"):
        pytest.skip("the C kernel was not built here")
    else:
        yield
