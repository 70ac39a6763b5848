"""How many files a search or an ingest crosses, and how often it returns to the one that it comes from.

The numbers only sink.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests import ROOT
from tests.integration.crossings import INGEST, LIBRARY, REQUESTS, Calls, crossing_of

MOST: Final[Mapping[str, tuple[int, int]]] = {
    "POST /search": (48, 54),
    "POST /ask": (56, 92),
    LIBRARY: (30, 9),
    INGEST: (107, 150),
}
"""Files and returns, with room for the two files and four returns of a plan that a busy machine makes anew, and for a
few in the threads of an ingest."""
COUNTS: Final = r"(.+): (\d+) files, \d+ changes of file, (\d+) returns"


@pytest.mark.process
@pytest.mark.slow
def test_a_search_and_an_ingest_cross_no_more_files_than_before() -> None:
    """In a process of its own: what other tests have left in its caches would change the way."""
    command = [sys.executable, "-m", "tests.integration.crossings"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [re.fullmatch(COUNTS, line) for line in printed.splitlines() if not line.startswith(" ")]
    found = {line[1]: (int(line[2]), int(line[3])) for line in lines if line is not None}
    assert found.keys() == MOST.keys() == {*REQUESTS, LIBRARY, INGEST}
    for name, (files, returns) in MOST.items():
        assert found[name][0] <= files, f"{name} crosses {found[name][0]} files:\n{printed}"
        assert found[name][1] <= returns, f"{name} returns {found[name][1]} times:\n{printed}"


def test_a_return_is_a_change_of_file_straight_back() -> None:
    way = crossing_of(["a", "a", "b", "a", "c", "c", "b", "c", "b", "a"])
    assert way.ways == (("a", "b", "a", "c", "b", "c", "b", "a"),)
    assert (way.files, way.changes, way.returns) == (["a", "b", "c"], 7, 3)
    assert way.bounces == {("a", "b"): 1, ("c", "b"): 1, ("b", "c"): 1}
    assert (crossing_of([]).changes, crossing_of([]).returns) == (0, 0)


def test_threads_have_ways_of_their_own() -> None:
    ways = crossing_of(["a", "b"], [], ["a", "c", "a"])
    assert ways.ways == (("a", "b"), ("a", "c", "a"))
    assert (ways.files, ways.changes, ways.returns) == (["a", "b", "c"], 3, 1)


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
