"""How many files a search crosses, and how often it returns to the one that it comes from: numbers that only sink."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests.support.crossings import REQUESTS, Calls, Crossing, crossing_of, crossings

MOST: Final[Mapping[str, tuple[int, int]]] = {
    "POST /search, the general way": (56, 43),
    "POST /search, the fast way": (56, 41),
    "POST /ask": (57, 56),
}
"""Files and returns. Issue 40 lowers them to 42 and 25 for a search, 45 and 45 for an ask."""


@pytest.mark.slow
def test_a_search_crosses_no_more_files_than_before() -> None:
    found = crossings()
    assert found.keys() == MOST.keys() == REQUESTS.keys()
    for name, (files, returns) in MOST.items():
        way = found[name]
        assert (len(way.files) <= files, way.returns <= returns) == (True, True), f"{name}: {report(way)}"


def report(way: Crossing) -> str:
    return f"{len(way.files)} files, {way.returns} returns: {' -> '.join(way.files)}"


def test_a_return_is_a_change_of_file_straight_back() -> None:
    way = crossing_of(["a", "a", "b", "a", "c", "c", "b", "c", "b", "a"])
    assert way.way == ("a", "b", "a", "c", "b", "c", "b", "a")
    assert (way.files, way.changes, way.returns) == (["a", "b", "c"], 7, 3)
    assert (crossing_of([]).changes, crossing_of([]).returns) == (0, 0)


@pytest.fixture
def rooms(tmp_path: Path) -> dict[str, ModuleType]:
    """Two files of a product, and one of something else."""
    texts = {
        "product/outer.py": """
def outer(inner, other):
    other.unseen(lambda: None)
    for item in inner.items():
        near(item)

def near(item):
    return item

async def wait(inner, times):
    for _ in range(times):
        await inner.pause()
""",
        "product/inner.py": """
import types

def items():
    for item in (1, 2):
        yield step(item)

def step(item):
    return item

@types.coroutine
def pause():
    yield
""",
        "elsewhere/other.py": "def unseen(call):\n    call()\n",
    }
    found = {}
    for path, text in texts.items():
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        module = ModuleType(file.stem)
        exec(compile(text, str(file), "exec"), module.__dict__)
        found[file.stem] = module
    return found


def names(calls: Calls) -> list[str]:
    return [Path(file).stem for file in calls.files]


def test_calls_are_those_of_the_product_without_resumed_frames(rooms: dict[str, ModuleType], tmp_path: Path) -> None:
    calls = Calls([f"{tmp_path / 'product'}/"])
    sys.setprofile(calls)
    try:
        rooms["outer"].outer(rooms["inner"], rooms["other"])
    finally:
        sys.setprofile(None)
    # outer, its lambda, items; then step and near, twice.
    assert names(calls) == ["outer", "outer", "inner", "inner", "outer", "inner", "outer"]


def test_a_coroutine_counts_once_however_often_it_waits(rooms: dict[str, ModuleType], tmp_path: Path) -> None:
    calls = Calls([f"{tmp_path / 'product'}/"])
    waiting = rooms["outer"].wait(rooms["inner"], 3)
    sys.setprofile(calls)
    try:
        for _ in range(3):
            waiting.send(None)
    finally:
        sys.setprofile(None)
        waiting.close()
    assert names(calls) == ["outer", "inner", "inner", "inner"]
