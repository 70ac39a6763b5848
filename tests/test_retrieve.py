"""What runs in the event loop, and what must not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from serving import a_document, fill, serving

from aidre.api import pages, retrieve

SHORT = {"n": {"in": [0, 1]}}
LONG = {"n": {"in": list(range(2_000))}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill(tmp_path, "docs", [a_document(f"d{n}", "alpha", metadata={"n": n}) for n in range(5)])
    return tmp_path


@pytest.mark.parametrize(("filter", "in_the_loop", "found"), [(SHORT, True, 2), (LONG, False, 5)])
def test_a_long_filter_is_read_and_applied_off_the_event_loop(
    store: Path, monkeypatch: pytest.MonkeyPatch, filter: dict[str, Any], in_the_loop: bool, found: int
) -> None:
    threads: list[int] = []
    for name in ("parse_filter", "first_page"):
        original = getattr(retrieve, name)

        def noted(*arguments: Any, original: Any = original) -> Any:
            threads.append(threading.get_ident())
            return original(*arguments)

        monkeypatch.setattr(retrieve, name, noted)
    with serving(store) as client:
        response = client.search({"query": "alpha", "filter": filter})
    assert len(response.json()["results"]) == found
    assert [thread == threading.get_ident() for thread in threads] == [in_the_loop] * 2


@pytest.mark.parametrize(("words", "in_the_loop"), [(1, True), (200, False)])
def test_a_long_text_is_searched_off_the_event_loop(
    store: Path, monkeypatch: pytest.MonkeyPatch, words: int, in_the_loop: bool
) -> None:
    threads: list[int] = []
    original = pages.first_page

    def noted(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return original(*arguments)

    monkeypatch.setattr(retrieve, "first_page", noted)
    with serving(store) as client:
        response = client.search({"query": "alpha " * words, "mode": "lexical"})
    assert len(response.json()["results"]) == 5
    assert [thread == threading.get_ident() for thread in threads] == [in_the_loop]


def test_a_filter_that_is_nested_too_deep_is_refused(store: Path) -> None:
    nested: Any = SHORT
    for _ in range(500):
        nested = {"not": nested}
    with serving(store) as client:
        assert client.search({"query": "alpha", "filter": nested}).status_code == 400
