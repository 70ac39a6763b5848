"""The demo's corpus is sound: every object is read, keeps its id and url, and has text to be found by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.support.clients import serving
from tests.support.shell import Shell

CORPUS = ROOT / "demo" / "corpus" / "items.jsonl"
ITEMS: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def test_items_are_of_many_types_with_ids_of_their_own() -> None:
    assert len({item["@type"] for item in ITEMS}) >= 10
    assert len({item["@id"] for item in ITEMS}) == len(ITEMS) >= 60
    for item in ITEMS:
        assert item["url"].startswith("https://example.com/")
        assert item["dateModified"].endswith("Z")
        assert all(item[name] for name in ("name", "description", "keywords"))


def test_every_item_is_ingested_and_found_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(tmp_path, capsys)
    status, events, err = shell.ingest(CORPUS)
    assert (status, err) == (0, "")
    assert (events[-1]["updated"], events[-1]["failed"], events[-1]["skipped"]) == (len(ITEMS), 0, 0)
    [hit] = shell.json("search", "Smoky lentil soup with brown lentils", "-k", "1", "--filter", '{"type": "Recipe"}')
    assert hit["document_id"] == "smoky-lentil-soup"
    assert hit["source"]["url"] == "https://example.com/recipes/smoky-lentil-soup"
    with serving(shell.store) as client:
        for item in ITEMS:
            asked = {"query": item["name"], "mode": "lexical", "top_k": 10}
            found = client.search(asked).json()["results"]
            assert item["url"] in [one["source"]["url"] for one in found], item["name"]
