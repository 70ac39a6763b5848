"""The architecture, read from syntax trees: rooms, their order, their public names, and what a module may not do.

Every rule stands beside a planted breach that it must find: a rule that cannot fail is not a rule.
"""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest
from mypy.main import process_options
from setuptools import find_packages

from aidre.engine.native import kernel_name
from tests import ROOT
from tests.rules.import_clocks import clocks_read_at_import
from tests.rules.seams import ANY, CLIENT_SEAM, ENGINE_SEAM
from tests.rules.source_tree import (
    BENCHMARKS,
    BESIDE,
    CLIENT,
    OUTSIDE,
    PACKAGES,
    RANK,
    Tree,
    asked_by,
    defined,
    foreign,
    outside_functions,
    top_folder,
)

LAYERS: Mapping[str, tuple[str, ...]] = {
    "engine": (
        "errors model checkout",
        "native",
        "storage schema_text embedding/tokens",
        "index index/text index/fields index/vectors embedding embedding/models",
        "segment types",
        "search",
        "ports",
        "listing",
        "retrieve retrieve/measures",
        "collection",
        "address",
        "maintenance maintenance/fleet",
    ),
    "ingest": (
        "records chunking prefetch",
        "fetch sandbox",
        "formats/pages",
        "formats formats/tables formats/markup",
        "formats/office formats/scans",
        "sites/settings",
        "sites/generators",
        "sites",
        "sources",
        "pipeline",
    ),
    "api": (
        "config http",
        "access access/limits",
        "retrieval server writing",
        "protocols/provenance",
        "protocols/aidre protocols/intent protocols/intake"
        " protocols/nlweb protocols/nlweb/query protocols/nlweb/answer",
        "operations operations/page",
        "app",
        "cli cli/report cli/doctor",
    ),
    "benchmarks": (
        "harness",
        "peers/engines",
        "report",
        "peers peers/programs",
        "text ingest quality search serve",
        "quick",
    ),
    "aidre": ("library", "opening", "segments", "remote", "results", "client", "conformance"),
}
"""The rooms of each folder from the ground up. A room imports rooms of lower layers; `index/vectors` is a room inside
the room `index`, and the two may import each other's public names as long as no module is in a circle."""
MIRRORED = (*PACKAGES, "aidre", BENCHMARKS)
SHARED = {"support", "commands", "rules", "wrong_servers"}
KINDS = {"backends", "conformance", "examples", "integration", "hostile", "quality", "upgrade", *SHARED}
UNMIRRORED = {*SHARED, "hostile", "integration", "upgrade"}
NO_MODULE = re.compile("__init__$|__main__$|conftest$|test_")
TEST_FOLDERS = {*MIRRORED, *KINDS}
MOST_ROOMS = 9
MOST_MODULES = 14
"""Modules of a room, `__init__` not counted. The command line has one for each family of commands and may have more."""
MOST_LINES = 600
NOT_IN_THE_CLIENT = {"faiss", "orjson", "starlette", "xxhash"}
HEAVY = {"torch", "sentence_transformers", "onnxruntime", "transformers", "mcp", "ray"}
VAGUE = {"util", "utils", "helper", "helpers", "common", "base", "manager", "factory", "misc"}
SEAM = {
    "aidre.engine.open_source",
    "aidre.engine.Address",
    "aidre.engine.ports",
    "aidre.engine.listing",
    "aidre.engine.retrieve",
    "aidre.engine.types",
    "aidre.engine.errors",
    "aidre.engine.model",
}
BESIDE_THE_SEAM = {
    "aidre.engine.checkout",
    "aidre.engine.embedding",
    "aidre.engine.embedding.models",
    "aidre.engine.index.fields",
    "aidre.engine.index.text",
    "aidre.engine.native",
    "aidre.engine.retrieve.measures",
    "aidre.engine.schema_text",
}
EXTENSIONS = {"aidre.engine.native.kernel"}  # modules in C
STORED_VALUES = {
    "PROMISED_SECONDS",
    "MIN_KEPT_GENERATIONS",
    "MAX_KEPT_GENERATIONS",
    "Calibration",
    "check_collection_name",
}
"""What api/ may import of the engine: the seam to whatever stands behind a collection, embedding, the grammar of
filters, the analysis of texts, the kernel's name and its reader of numbers; and of `engine/storage` how files are made
durable, and bounds and values of a manifest."""

Rule: TypeAlias = Callable[[Tree], Iterable[str]]


def layer_of(folder: str, room: str) -> int | None:
    return next((layer for layer, rooms in enumerate(LAYERS[folder]) if room in rooms.split()), None)


# -- rooms -----------------------------------------------------------------------------------------------------


def folders_import_one_way(tree: Tree) -> Iterator[str]:
    for source in tree.sources:
        rank = RANK.get(source.folder, len(RANK))
        tops = {top_folder(one.target) for one in tree.imports(source)}
        if not source.path.startswith("api/cli/"):
            yield from (f"{source.path} imports {top}" for top in sorted(tops) if RANK.get(top, len(RANK)) > rank)
        if source.folder not in OUTSIDE:
            yield from (f"{source.path} imports {top}" for top in sorted(foreign(source.nodes) & OUTSIDE))


def rooms_are_known(tree: Tree) -> Iterator[str]:
    """Each room has its place in the order, says what it is for, and there are few in a folder."""
    for source in tree.product + tree.benchmarks:
        if source.room and source.room != "protocols" and layer_of(source.folder, source.room) is None:
            yield f"{source.path} is in no known room"
    for folder in (*PACKAGES, BENCHMARKS):
        rooms = {source.path.split("/")[1] for source in tree.sources if source.folder == folder}
        outer = {room for room in rooms if not room.endswith(".py")}
        if len(outer) > MOST_ROOMS:
            yield f"{folder}/ has {len(outer)} rooms, more than {MOST_ROOMS}"


def rooms_are_not_crowded(tree: Tree) -> Iterator[str]:
    crowds = tree.product + tree.beside + tree.benchmarks
    sizes = Counter((source.folder, source.room) for source in crowds if "__" not in source.path)
    for (folder, room), size in sorted(sizes.items()):
        if size > MOST_MODULES and (folder, room) != ("api", "cli"):
            yield f"{folder}/{room}/ has {size} modules, more than {MOST_MODULES}"


def rooms_import_downwards(tree: Tree) -> Iterator[str]:
    """A room imports lower layers only; rooms of one layer import each other only where one is inside the other."""
    for source in tree.product + tree.benchmarks:
        here = layer_of(source.folder, source.room)
        for one in tree.imports(source):
            other = tree.modules.get(tree.resolved(one))
            if other is None or other.folder != source.folder or here is None or other.room in {"", source.room}:
                continue
            there = layer_of(other.folder, other.room)
            nested = other.room.startswith(f"{source.room}/") or source.room.startswith(f"{other.room}/")
            siblings = source.room.rpartition("/")[0] == other.room.rpartition("/")[0] == "protocols/nlweb"
            if there is not None and (there > here or (there == here and not (nested or siblings))):
                yield f"{source.path} imports {one.target} {one.name or ''}".rstrip()


def rooms_are_used_by_their_public_names(tree: Tree) -> Iterator[str]:
    for source in tree.product:
        for one in tree.imports(source):
            other = tree.modules.get(tree.resolved(one))
            if other is None or other.folder not in PACKAGES or "/" not in other.room + other.path.split("/", 1)[1]:
                continue
            if (other.folder, other.room) == (source.folder, source.room) or other.path.endswith("__init__.py"):
                continue
            is_private = "/" in other.room and other.module.rpartition(".")[0] not in tree.stubs
            around = f"{other.folder}/{other.room.rpartition('/')[0]}/" if is_private else "/"
            is_part = source.module.rpartition(".")[0] not in tree.stubs  # of the room around it, as its other modules
            if is_part and source.path.startswith(f"{other.folder}/{other.room}/"):
                continue
            if one.name not in tree.stubs.get(one.target, {}) and not source.path.startswith(
                (around, "aidre/__main__")
            ):
                yield f"{source.path} imports {one.target}.{one.name}: not a public name of the room"


def the_client_is_used_by_its_public_names(tree: Tree) -> Iterator[str]:
    """Those of its rooms, and its errors, which are a module of their own as the engine's are."""
    for source in tree.product:
        for one in tree.imports(source):
            known = one.name is None or one.name in tree.stubs.get(one.target, {})
            if top_folder(one.target) == CLIENT and one.target != f"{CLIENT}.errors" and not known:
                yield f"{source.path} imports {one.target}.{one.name}: not a public name of the client"


def public_names_exist(tree: Tree) -> Iterator[str]:
    """A public name is defined in the module that the stub names."""
    for package, names in tree.stubs.items():
        for name, module in names.items():
            source = tree.modules.get(module)
            if module in EXTENSIONS:
                continue
            if source is None:
                yield f"{package} names {name} of {module}, which does not exist"
            elif module != f"{package}.{name}" and name not in defined(source.tree):
                yield f"{package} names {name}, which {source.path} does not define"


def public_names_are_used(tree: Tree) -> Iterator[str]:
    """A room exports what other rooms, the library or the benchmarks use; the top folders export for everybody."""
    readers = [source for source in tree.sources if source.folder != "tests"]
    used = {(one.target, one.name) for source in readers for one in tree.imports(source)}
    for package, names in tree.stubs.items():
        if package.count(".") > 1:
            yield from (
                f"{package} exports {name}, which nobody imports" for name in names if (package, name) not in used
            )


def collections_are_reached_through_the_seam(tree: Tree) -> Iterator[str]:
    for source in (source for source in tree.product if source.folder == "api"):
        tools = {"aidre.engine.maintenance"} if source.room.split("/")[0] in {"cli", "operations"} else set()
        rooms = SEAM | BESIDE_THE_SEAM | tools
        for one in tree.imports(source):
            allowed = rooms & {one.target, f"{one.target}.{one.name}"} or (
                one.target == "aidre.engine.storage"
                and (tree.resolved(one) == "aidre.engine.storage.durable" or one.name in STORED_VALUES)
            )
            if one.target.startswith("aidre.engine") and not allowed:
                yield f"{source.path} imports {one.target}.{one.name}, which is behind the seam (engine/ports.py)"


def imports_make_no_circle(tree: Tree) -> Iterator[str]:
    """No module reaches itself through imports, those inside of functions and of type checkers included."""
    arrows = {
        source.module: {tree.resolved(one) for one in tree.imports(source)} & tree.modules.keys() - {source.module}
        for source in tree.product + tree.beside + tree.benchmarks
        if not source.path.endswith("__init__.py")
    }
    done: set[str] = set()
    for start in arrows:
        way: list[str] = []

        def follow(module: str, way: list[str]) -> Iterator[str]:
            if module in way:
                yield " -> ".join([*way[way.index(module) :], module])
            elif module in arrows and module not in done:
                way.append(module)
                for target in sorted(arrows[module]):
                    yield from follow(target, way)
                way.pop()
                done.add(module)

        yield from follow(start, way)


def packages_import_the_seam(tree: Tree) -> Iterator[str]:
    """A distribution beside aidre imports itself, the public names of those that it depends on, and `ENGINE_SEAM`;
    the client `CLIENT_SEAM`, and nothing of it when it is imported."""
    for source in tree.beside:
        own = source.module.split(".")[0]
        seam = CLIENT_SEAM if own == CLIENT else ENGINE_SEAM
        if own == CLIENT and "aidre" in foreign(outside_functions(source.tree)):
            yield f"{source.path} imports aidre at module level"
        depended = dependencies(tree.root / BESIDE / source.path.split("/")[1])
        for one in tree.imports(source):
            top = one.target.split(".")[0]
            if top == own:
                continue
            if top != "aidre":
                if top not in depended or one.name not in tree.stubs.get(one.target, {}):
                    yield f"{source.path} imports {one.target}.{one.name}: no public name of what it depends on"
                continue
            whole = f"{one.target}.{one.name}"
            names = seam.get(one.target)
            if seam.get(whole) is not ANY and names is not ANY and one.name not in (names or ()):
                yield f"{source.path} imports {whole}, which is not in its seam"


def dependencies(folder: Path) -> set[str]:
    """The distributions of this project that one in packages/ depends on, by the names that they are imported by."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[^\w-]", one)[0].replace("-", "_") for one in project["dependencies"]}


# -- files -----------------------------------------------------------------------------------------------------


def folders_are_imported_by_their_full_name(tree: Tree) -> Iterator[str]:
    for source in tree.sources:
        names = sorted(foreign(source.nodes) & set(PACKAGES))
        yield from (f"{source.path} imports {name}: write aidre.{name}" for name in names)


def libraries_stay_in_their_rooms(tree: Tree) -> Iterator[str]:
    """FAISS in the vector index, HTTP in the api, typer in the command line; of the client nothing that is large."""
    places = {"faiss": "engine/index/vectors/", "starlette": "api/", "uvicorn": "api/", "typer": "api/cli/"}
    for source in tree.product:
        for name in sorted(foreign(source.nodes) & places.keys()):
            if not source.path.startswith(places[name]):
                yield f"{source.path} imports {name}"
    for source in (one for one in tree.beside if one.module.split(".")[0] == CLIENT):
        yield from (f"{source.path} imports {name}" for name in sorted(foreign(source.nodes) & NOT_IN_THE_CLIENT))


def heavy_libraries_wait_until_they_are_needed(tree: Tree) -> Iterator[str]:
    for source in tree.product + tree.beside:
        at_import = foreign(outside_functions(source.tree)) & HEAVY
        if source.folder != BESIDE:
            ours = {one for one in foreign(outside_functions(source.tree)) if one.startswith("aidre_")}
            at_import |= ours - {CLIENT}
        yield from (f"{source.path} imports {name} at module level" for name in sorted(at_import))


def files_are_short(tree: Tree) -> Iterator[str]:
    for source in tree.sources:
        lines = source.text.count("\n") - source.reference_lines
        if lines > MOST_LINES:
            yield f"{source.path} has {lines} lines, more than {MOST_LINES}"


def modules_have_names_that_say_something(tree: Tree) -> Iterator[str]:
    for source in tree.sources:
        words = re.split(r"[/_.]", source.path.removesuffix(".py"))
        yield from (f"{source.path} is named {word}" for word in words if word in VAGUE)


def modules_say_what_they_are(tree: Tree) -> Iterator[str]:
    for source in tree.sources:
        if source.folder != "tests" and not ast.get_docstring(source.tree):
            yield f"{source.path} has no docstring"


def identifiers(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        for field in ("id", "attr", "arg", "name", "asname"):
            if isinstance(value := getattr(node, field, None), str):
                yield value


def no_identifier_says_aip(tree: Tree) -> Iterator[str]:
    """Two protocols abbreviate themselves so; in code they are `intent` and `intake`."""
    for source in tree.sources:
        if source.path == "tests/test_architecture.py":
            continue
        for name in sorted(set(identifiers(source.nodes))):
            if re.search(r"(^|_)aip(_|$)|A(ip|IP)([A-Z_]|$)", name):
                yield f"{source.path} uses the identifier {name}"


def libraries_do_not_print(tree: Tree) -> Iterator[str]:
    for source in tree.sources:
        calls = (node for node in source.nodes if isinstance(node, ast.Call))
        if source.folder in {"engine", "ingest", "aidre", BESIDE} and any(
            ast.unparse(call.func) == "print" for call in calls
        ):
            yield f"{source.path} calls print"


def no_test_reads_a_clock_at_import(tree: Tree) -> Iterator[str]:
    """A test may run minutes after its module was imported."""
    for source, line, call in clocks_read_at_import(one for one in tree.sources if one.folder == "tests"):
        yield f"{source.path}:{line} calls {call} when it is imported: name a fixed time, or read the clock in the test"


def folders_of_tests_mirror_the_packages(tree: Tree) -> Iterator[str]:
    """`tests/engine/search/test_hybrid.py` tests `engine/search/hybrid.py`, and `packages/milvus/tests/test_tables.py`
    tests `packages/milvus/aidre_milvus/tables.py`."""
    stems = {source.path.removesuffix(".py") for source in tree.sources}
    for source in (source for source in tree.sources if source.folder == "tests"):
        if source.path.startswith(f"{BESIDE}/"):
            _, package, _, file = source.path.removesuffix(".py").split("/")
            if file != "conftest" and not is_named_after(f"{BESIDE}/{package}/aidre_{package}", package, file, stems):
                yield f"{source.path} names neither a module of {package} nor the package"
            continue
        folder, _, name = source.path.removeprefix("tests/").removesuffix(".py").rpartition("/")
        top = folder.split("/")[0]
        if top and top not in TEST_FOLDERS:
            yield f"{source.path} is in no known folder of tests"
        whole = folder.rpartition("/")[2]
        if name.startswith("test_") and top in MIRRORED and not is_named_after(folder, whole, name, stems):
            yield f"{source.path} names neither a module of {folder}/ nor the folder"


def what_tests_of_one_folder_share_is_in_it(tree: Tree) -> Iterator[str]:
    """A module that is no test lies in the folder of all that ask it, or in a folder of what tests share."""
    asking = asked_by(tree)
    for source in (one for one in tree.sources if one.path.startswith("tests/")):
        folder, _, name = source.path.removesuffix(".py").rpartition("/")
        if folder == "tests" or folder.split("/")[1] in UNMIRRORED or NO_MODULE.match(name):
            continue
        if not asking[source.module]:
            yield f"{source.path} is no test, and no test asks it"
        elif not all(path.startswith(f"{folder}/") for path in asking[source.module]):
            yield f"{source.path} is asked by tests of other folders, and not in tests/support"


def is_named_after(folder: str, whole: str, name: str, stems: Collection[str]) -> bool:
    """Whether `test_<name>` or `test_<name>_<aspect>` is of a module of the folder, or of the `whole` of it."""
    words = name.split("_")[1:]
    starts = ["_".join(words[:end]) for end in range(1, len(words) + 1)]
    return any(f"{folder}/{start}" in stems or start == whole for start in starts)


PLANTED: dict[Rule, Mapping[str, str]] = {
    folders_import_one_way: {"engine/storage/lock.py": "def f() -> None:\n    from aidre.api.app import create_app\n"},
    rooms_are_known: {"engine/ranking/order.py": ""},
    rooms_are_not_crowded: {f"engine/storage/part{number}.py": "" for number in range(MOST_MODULES + 1)},
    rooms_import_downwards: {
        "engine/storage/lock.py": "from aidre.engine.segment import Rows\n",
        "engine/segment/__init__.pyi": "from .rows import Rows as Rows\n",
        "engine/segment/rows.py": "class Rows: ...\n",
    },
    rooms_are_used_by_their_public_names: {
        "engine/segment/rows.py": "from aidre.engine.storage.lock import Lock\n",
        "engine/storage/lock.py": "class Lock: ...\n",
    },
    the_client_is_used_by_its_public_names: {
        "aidre/remote.py": "from aidre_client.session import Session\nfrom aidre_client.errors import AidreError\n",
        "packages/client/aidre_client/session.py": "class Session: ...\n",
        "packages/client/aidre_client/errors.py": "class AidreError: ...\n",
    },
    public_names_exist: {
        "engine/storage/__init__.pyi": "from .lock import Lock as Lock\n",
        "engine/storage/lock.py": "",
    },
    public_names_are_used: {"engine/storage/__init__.pyi": "from .lock import Lock as Lock\n"},
    collections_are_reached_through_the_seam: {
        "api/cli/main.py": "from aidre.engine.maintenance import verify\n",
        "api/retrieval/retrieve.py": "def f() -> None:\n    from aidre.engine.segment import StoredChunk\n",
        "engine/segment/__init__.pyi": "from .stored_chunk import StoredChunk as StoredChunk\n",
        "engine/segment/stored_chunk.py": "class StoredChunk: ...\n",
    },
    imports_make_no_circle: {
        "engine/storage/lock.py": "from aidre.engine.storage.table import Table\n",
        "engine/storage/table.py": "def f() -> None:\n    from aidre.engine.storage import lock\n",
    },
    packages_import_the_seam: {
        "packages/milvus/pyproject.toml": '[project]\ndependencies = ["aidre==1.0"]\n',
        "packages/milvus/aidre_milvus/tables.py": "from aidre.engine.segment import StoredChunk\n",
    },
    folders_of_tests_mirror_the_packages: {"tests/engine/search/test_ranking.py": ""},
    what_tests_of_one_folder_share_is_in_it: {
        "tests/engine/frames.py": "",
        "tests/api/test_app.py": "from tests.engine.frames import f\n",
    },
    no_test_reads_a_clock_at_import: {
        "tests/test_api.py": "from datetime import UTC, datetime\nNOW = datetime.now(UTC)\n"
    },
    folders_are_imported_by_their_full_name: {"api/app.py": "from engine.storage import Lock\n"},
    libraries_stay_in_their_rooms: {"engine/storage/lock.py": "import faiss\n"},
    heavy_libraries_wait_until_they_are_needed: {
        "engine/embedding/onnx.py": "try:\n    import torch.nn\nexcept OSError:\n    pass\n",
    },
    files_are_short: {"tests/test_docs.py": "\n" * (MOST_LINES + 1)},
    modules_have_names_that_say_something: {"ingest/records/text_utils.py": ""},
    modules_say_what_they_are: {"engine/storage/lock.py": "import os\n"},
    no_identifier_says_aip: {"api/app.py": "class AipRequest:\n    pass\n"},
    libraries_do_not_print: {"ingest/chunking.py": "def f() -> None:\n    print(1)\n"},
}
RULES = [pytest.param(rule, id=rule.__name__) for rule in PLANTED]
HERE = Tree(ROOT)


def planted(root: Path, files: Mapping[str, str]) -> Tree:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Tree(root)


@pytest.mark.parametrize("rule", RULES)
def test_the_project_keeps_the_rule(rule: Rule) -> None:
    assert {source.folder for source in HERE.sources} >= set(PACKAGES), "no sources found: wrong root?"
    breaches = sorted(set(rule(HERE)))
    assert not breaches, "\n".join(breaches)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_finds_a_planted_breach(rule: Rule, tmp_path: Path) -> None:
    assert len(list(rule(planted(tmp_path, PLANTED[rule])))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import time\nNOW = [time.time()]\n",
        "import time\nBEGAN = time.monotonic\nDEADLINE = time.monotonic() + 60\n",
        "from time import time_ns as now\nclass One:\n    at = now()\n",
        "import datetime as dt\nNOW = dt.datetime.utcnow().replace(microsecond=0)\n",
        "from datetime import date\ndef test_one(day: date = date.today()) -> None: ...\n",
        "import time, pytest\n@pytest.mark.parametrize('now', [time.time()])\ndef test_one(now: float) -> None: ...\n",
        "from tests.support.times import datetime\nNOW = datetime.now()\n",
        "from tests.support import times\nNOW = times.now()\n",
        "from tests.support.times import Moment\nNOW = Moment()\n",
        "from tests.support.times import now\ndef year() -> int:\n    return now().year\nYEAR = year()\n",
    ],
)
def test_a_clock_that_is_read_at_import_is_found_by_any_name(text: str, tmp_path: Path) -> None:
    assert len(list(no_test_reads_a_clock_at_import(planted(tmp_path, {"tests/test_one.py": text, **TIMES})))) == 1


def test_the_rooms_of_the_benchmarks_have_an_order_too(tmp_path: Path) -> None:
    files = {
        "benchmarks/harness/load.py": "from benchmarks.report import results\n",
        "benchmarks/report/results.py": "",
    }
    assert len(list(rooms_import_downwards(planted(tmp_path, files)))) == 1


TIMES = {
    "tests/support/times.py": (
        "import time\nfrom datetime import datetime\n"
        "def now() -> datetime:\n    return datetime.now()\n"
        "class Moment:\n    def __init__(self) -> None:\n        self.at = time.time()\n"
    )
}


@pytest.mark.parametrize(
    "text",
    [
        "import time\ndef test_one() -> None:\n    assert time.time()\n",
        "import time\ndef ask(clock: object = time.time, later: object = lambda: time.time()) -> None: ...\n",
        "from datetime import datetime\nNOW = datetime.fromisoformat('2026-04-01T10:00:00Z')\n",
        "import time\nif __name__ == '__main__':\n    print(time.time())\n",
        "from tests.support.times import now\nCLOCK = now\n",
    ],
)
def test_a_clock_that_is_read_later_is_none(text: str, tmp_path: Path) -> None:
    assert not list(no_test_reads_a_clock_at_import(planted(tmp_path, {"tests/test_one.py": text, **TIMES})))


@pytest.mark.parametrize(
    "files",
    [
        {"engine/index/vectors/vector_index.py": '"""Codes."""\nimport faiss\nfrom aidre.engine.model import Query\n'},
        {"engine/embedding/onnx.py": '"""Embed."""\ndef load() -> None:\n    import torch\n'},
        {"api/cli/main.py": '"""Commands."""\nimport aidre\nimport typer\nprint("aip")\n'},
        {"tests/test_api.py": "import starlette.testclient\nfrom aidre.api.app import create_app\n"},
        {
            "ingest/sites/pages.py": '"""Pages."""\nfrom aidre.ingest.sites.settings.place import Place\n',
            "ingest/sites/settings/place.py": '"""Places."""\nclass Place: ...\n',
        },
    ],
)
def test_what_is_allowed_is_no_breach(files: Mapping[str, str], tmp_path: Path) -> None:
    tree = planted(tmp_path, files)
    assert [breach for rule in PLANTED for breach in rule(tree)] == []


# -- packaging -------------------------------------------------------------------------------------------------


def test_every_room_is_installed() -> None:
    """setuptools finds packages by their `__init__.py`, through the links in `aidre/`."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    rooms = {source.module for source in HERE.product if source.path.endswith("__init__.py")}
    assert set(find_packages(str(ROOT), include=settings["packages"]["find"]["include"])) == rooms
    assert {source.module.rpartition(".")[0] for source in HERE.product} <= rooms | {""}


def test_type_checkers_see_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the links in `aidre/` mypy finds the root package alone, and is content with it."""
    monkeypatch.chdir(ROOT)
    found, _ = process_options([])
    expected = {source.module for source in HERE.sources if source.folder not in OUTSIDE} | EXTENSIONS
    assert {one.module for one in found} == expected
    assert len(expected) > 250


def test_every_public_name_loads() -> None:
    for room, names in HERE.stubs.items():
        package = importlib.import_module(room)
        assert set(names) <= set(package.__all__)
        for name in set(names) - (set() if kernel_name() != "faiss" else {"kernel", "native"}):
            assert getattr(package, name) is not None
