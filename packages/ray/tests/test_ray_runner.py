"""What `connect` refuses, without a cluster."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from aidre.engine.errors import ConfigurationError
from aidre_ray.ray_runner import connect


@pytest.mark.parametrize("address", ["", "dask", "ray://", "ray://host", "ray://:10001", "http://host:1", "auto"])
def test_another_form_of_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="is no cluster: use ray, or an address like"), connect(address):
        pass


def test_without_ray_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    before = dict(os.environ)
    with pytest.raises(ConfigurationError, match=r"pip install 'ray\[client,data\]'"), connect("ray"):
        pass
    assert dict(os.environ) == before


def test_an_address_where_nothing_listens_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", sys)  # nothing of it is used before the address answers
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        pytest.raises(ConfigurationError, match=f"ray://127.0.0.1:{port}: no cluster answers there"),
        connect(f"ray://127.0.0.1:{port}"),
    ):
        pass
