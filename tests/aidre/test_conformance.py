"""The former address of the conformance kit, `aidre/conformance.py`."""

from __future__ import annotations

import pytest

import aidre_conformance
from aidre import conformance
from aidre.engine.errors import ConfigurationError


def test_the_former_address_leads_to_the_kit_and_says_where_it_is() -> None:
    with pytest.warns(DeprecationWarning, match="aidre.conformance is aidre_conformance now"):
        from aidre.conformance import run
    assert run is aidre_conformance.run


def test_without_the_kit_the_former_address_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"in a checkout: pip install \./packages/conformance"):
        conformance.run  # noqa: B018
