"""The former address of the client, `aidre/client.py`."""

from __future__ import annotations

import importlib

import pytest

import aidre
import aidre_client


def test_the_former_address_leads_to_the_client_and_says_where_it_is() -> None:
    with pytest.warns(DeprecationWarning, match="aidre.client is aidre_client now"):
        from aidre.client import Citation
    assert Citation is aidre_client.Citation
    former = importlib.import_module("aidre.client")
    with pytest.warns(DeprecationWarning), pytest.raises(AttributeError):
        former.nothing  # noqa: B018


def test_the_root_offers_the_client_without_a_warning() -> None:
    assert aidre.connect is aidre_client.connect
    assert aidre.connect_async is aidre_client.connect_async
