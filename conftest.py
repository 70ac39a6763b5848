"""Settings of all tests, also of those in packages/: threads, garbage collection, no fsync, markers by folder, the time
by file, what was not proved, and the skips of tests that need a package registry where none is reached."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import settings

from aidre.engine.checkout import search_path
from aidre.engine.native import kernel_name
from tests import ROOT
from tests.support.kitchen import kitchen
from tests.support.programs import not_proved

# Before any library is loaded: threads of OpenMP that wait must not spin while other processes work.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:  # as many processes as cores run tests already
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A busy machine may stop any test for longer than the deadline that Hypothesis sets for one example. All runs try the
# same examples, those with AIDRE_SEED=random new ones.
settings.register_profile("aidre", deadline=None, derandomize=os.environ.get("AIDRE_SEED") != "random")
settings.load_profile("aidre")

os.environ.pop("AIDRE_STORE", None)  # the developer's own

# Where no bytecode is to lie beside the code, it lies below pytest's cache: half of the collection is to compile tests.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / ".pytest_cache" / "d" / "bytecode")


def installed_from() -> Path | None:
    """The checkout that this environment's aidre is an editable installation of."""
    origins = (one.read_text("direct_url.json") for one in distributions(name="aidre"))
    urls = [json.loads(text)["url"] for text in origins if text]
    return Path(unquote(urls[0].removeprefix("file://"))) if urls else None


if installed_from() != ROOT:  # another checkout or worktree: processes that tests start shall run this one's code
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (*search_path(ROOT), os.environ.get("PYTHONPATH"))))

FEW_FILES = 50
"""Runs of fewer files are not summed up."""
SLOWEST = 10
FOLDER_MARKERS = {"hostile": "hostile", "quality": "slow"}
FIRST = {
    "packages/client/tests/test_client_alone.py",
    "tests/hostile/test_rooms.py",
    "tests/integration/test_documents.py",
    "tests/quality/test_codes.py",
    "tests/test_installation.py",
}
"""Files with the longest tests: begun last, one of them would run alone while the other workers had nothing to do."""


def pytest_configure() -> None:
    gc.disable()


def pytest_unconfigure() -> None:
    for name in ("tests.support.postgres", "tests.support.loaded"):
        if name in sys.modules:
            sys.modules[name].stop_shared()


def pytest_report_header() -> str:
    """What compares vectors in these tests: where the kernel was not built, its own tests are skipped."""
    return f"kernel: {kernel_name()}"


def pytest_collection_finish() -> None:
    """Exclude the collected tests and modules, which are never freed, from garbage collection, and make that rarer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


@pytest.fixture(autouse=True)
def store_of_examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """For `pytest --doctest-modules aidre/library aidre/opening.py`: what examples in docstrings find."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    with kitchen(request.getfixturevalue("tmp_path")) as names:
        request.getfixturevalue("doctest_namespace").update(names)
        yield


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> Iterator[None]:
    """`fsync` in this process does nothing: a commit syncs some twenty files and folders, milliseconds each.

    `tests/hostile` proves that a store is durable, and overrides this.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.relative_to(ROOT).as_posix() not in FIRST)
    for item in items:
        top, folder, *_ = item.path.relative_to(ROOT).parts
        marker = FOLDER_MARKERS.get(folder) if top == "tests" else None
        if marker is not None:
            item.add_marker(marker)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """After all that pytest says: the slowest files and the time of all tests, to be held against the budget in
    CONTRIBUTING.md, and which programs tests were skipped for."""
    yield
    if len(spent := _spent(terminalreporter)) >= FEW_FILES:
        terminalreporter.section("slowest files")
        for path, seconds in sorted(spent.items(), key=lambda one: -one[1])[:SLOWEST]:
            terminalreporter.write_line(f"{seconds:6.1f} s  {path}")
        terminalreporter.write_line(f"{sum(spent.values()):6.0f} s  all {len(spent)} files, on all cores together")
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", []))
    for line in not_proved(one[2] for one in skipped if isinstance(one, tuple)):
        terminalreporter.write_line(line)


def _spent(terminalreporter: pytest.TerminalReporter) -> dict[str, float]:
    """Seconds by file."""
    spent: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                spent[report.nodeid.partition("::")[0]] += report.duration
    return spent


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid: str) -> None:
    """Under `make coverage`: what runs from here on counts for this test, also in the processes that it starts."""
    measured = sys.modules["coverage"].Coverage.current() if "COVERAGE_PROCESS_CONFIG" in os.environ else None
    if measured is not None:
        from coverage.config import CoverageConfig

        test = nodeid.partition("[")[0]
        measured.switch_context(test)
        config = CoverageConfig.deserialize(os.environ["COVERAGE_PROCESS_CONFIG"])
        config.context = test
        os.environ["COVERAGE_PROCESS_CONFIG"] = config.serialize()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("network") is not None and not reaches_a_registry():
        pytest.skip("no package registry is reached")
    if os.environ.get("AIDRE_TEST_BACKEND", "local") != "local":
        from tests.support.engines import lacks

        for capability in (one for marker in item.iter_markers("needs") for one in marker.args):
            if lacks(capability):
                pytest.skip(f"the engine lacks the capability {capability}")


@cache
def reaches_a_registry() -> bool:
    """Whether pip finds a package that every installation of aidre needs."""
    command = [sys.executable, "-m", "pip", "index", "versions", "lazy-loader", "--disable-pip-version-check"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0
    except subprocess.TimeoutExpired:
        return False
