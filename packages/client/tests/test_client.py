"""The page about the client says what is so: its examples run, against a server that does all of it."""

from __future__ import annotations

import builtins
import hashlib
from pathlib import Path
from typing import Any

import pytest

import aidre
import aidre_client
from tests import ROOT
from tests.support.clients import AGENTS, a_document, fill
from tests.support.fault_proxy import faulty
from tests.support.remote import INTAKES, blocks_of_the_page

WRITER = f"""
[server]
base_url = "{{base}}"
writes = true
[[keys]]
name = "writer"
sha256 = "{hashlib.sha256(b"SECRET").hexdigest()}"
scopes = ["search", "write"]
"""
CONFIGURATION = WRITER + AGENTS.partition("[[intakes]]")[0] + INTAKES


def test_every_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(
        tmp_path / "store",
        "docs",
        [
            a_document(f"d{n}", f"how is a backup restored {n}", url=f"https://x.example/{n}", title=f"T{n}")
            for n in range(60)
        ],
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtins, "input", lambda prompt: "yes")
    with faulty(tmp_path / "store", CONFIGURATION) as (proxy, server):
        names: dict[str, Any] = {}
        examples = blocks_of_the_page()
        assert len(examples) == 8
        for example in examples:
            exec(example.replace("https://ai.example.com", proxy.url), names)
            server.app.state.retrieval.snapshots.refresh()  # the next example is another client
        assert any(asked.target == "/intakes/bind" for asked in proxy.asked)
    with aidre.open(tmp_path / "mirror") as database:
        assert len(database.collection("docs")) == 60
    assert "T0" in capsys.readouterr().out


def test_the_page_names_the_verbs_and_exceptions_of_the_client() -> None:
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    verbs = {name for name in dir(aidre_client.RemoteCollection) if not name.startswith("_")} - {"name"}
    assert {verb for verb in verbs if f"`{verb}`" not in page} == set()
    for name in ("RequestFailed", "AccessDenied", "VerificationFailed", "Unsupported", "Closed"):
        assert f"`{name}`" in page
        assert issubclass(getattr(aidre, name), aidre_client.AidreError)
