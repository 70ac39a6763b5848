"""How the time of every reader grows with its input: a table of formats, and of shapes that such files may have.

The parsers run in this process, so that their processor time can be taken, without what the machine does meanwhile.
A format is one line in `SHAPES`; shapes of texts are in `shapes`, of tables in `table_shapes`, of documents of offices
in `office_shapes` and `pdf_shapes`.
"""

from __future__ import annotations

import math
import os
import random
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import orjson

from aidre.ingest.formats.markup import CODE_SUFFIXES
from aidre.ingest.records.file import File
from aidre.ingest.records.source_items import Rejected
from aidre.ingest.records.vectors import VectorRules
from aidre.ingest.sandbox.child import KINDS, Parse, _load
from aidre.ingest.sandbox.parent import SHARED, TABLES
from aidre.ingest.sources.readers import READERS, read_file
from tests.hostile.office_shapes import DOCX, EML, EPUB, FEED, NOTEBOOK, ODT, PPTX, RTF, ZIP
from tests.hostile.pdf_shapes import PDF
from tests.hostile.report import Report
from tests.hostile.shapes import CODE, HTML, MARKDOWN, MARKUP, TEXT, Make, repeated
from tests.hostile.table_shapes import CSV, JSON_FEED, PARQUET, ROWS, XLSX

SIZES = (1_000, 10_000, 100_000)
MOST_EXPONENT = 1.2
NOISE_SECONDS = 0.25
"""A time below this says nothing of growth."""
GIVEN_UP_SECONDS = 6.0
"""After a size that takes so long the next one is not tried."""
MEMORY_BYTES = 4 << 30

SHAPES: Mapping[str, Mapping[str, Make]] = {
    ".txt": TEXT,
    ".md": MARKDOWN,
    ".mdx": {**MARKDOWN, "imports": repeated("import A from 'a'\n"), "expressions": repeated("{a"),
             "components": repeated("<A>")},
    ".ipynb": NOTEBOOK,
    ".rst": MARKUP,
    ".adoc": MARKUP,
    ".org": MARKUP,
    ".py": {**TEXT, **CODE},
    ".html": HTML,
    ".xml": FEED,
    ".pdf": PDF,
    ".docx": DOCX,
    ".pptx": PPTX,
    ".odt": ODT,
    ".epub": EPUB,
    ".rtf": RTF,
    ".eml": EML,
    ".jsonl": ROWS,
    ".json": {**ROWS, **{f"{name} (feed)": make for name, make in JSON_FEED.items()}},
    ".csv": CSV,
    ".tsv": CSV,
    ".xlsx": XLSX,
    ".parquet": PARQUET,
    ".zip": ZIP,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Growth:
    """`seconds` of processor time by size, as far as it was tried; `said` is why a file was refused."""

    format: str
    shape: str
    seconds: tuple[float, ...]
    said: str

    @property
    def exponent(self) -> float | None:
        """Of the last two sizes; None below the noise."""
        if len(self.seconds) < 2 or self.seconds[-1] < NOISE_SECONDS:
            return None
        before, last = self.seconds[-2:]
        return math.log10(last / max(before, NOISE_SECONDS / 100))


@contextmanager
def parsed_here() -> Iterator[None]:
    """The parsers of the sandbox run in this process."""
    parsers: dict[str, Parse] = {}

    def parse(kind: str, content: bytes, options: Mapping[str, Any] | None = None, *, file: int | None = None) -> Any:
        if kind not in parsers:
            parsers[kind] = _load(KINDS[kind])
        given = dict(options or {}) | ({} if file is None else {"descriptor": file})
        answer = parsers[kind](content, given)
        return answer if isinstance(answer, Iterator) else orjson.loads(orjson.dumps(answer))

    with mock.patch.multiple(SHARED, parse=parse, stream=parse), mock.patch.multiple(TABLES, parse=parse, stream=parse):
        yield


def measure(folder: Path, suffix: str, shape: str, sizes: tuple[int, ...] = SIZES) -> Growth:
    make, seconds, said = SHAPES[suffix][shape], [], ""
    for size in sizes:
        content = make(size)
        path = folder / f"file{suffix}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        began = time.process_time()
        try:
            items = list(read_file(File(path, "source", path.name, code=True), VectorRules([], [])))
        except RecursionError:
            items = []
        except MemoryError:
            items, said = [], "lack of memory"
        seconds.append(time.process_time() - began)
        said = next((item.reason for item in items if isinstance(item, Rejected)), said)
        path.unlink()
        if seconds[-1] > GIVEN_UP_SECONDS:
            break
    return Growth(suffix, shape, tuple(seconds), said)


def measure_apart(folder: Path, suffix: str, shape: str, sizes: tuple[int, ...] = SIZES) -> Growth:
    """In a process of its own, whose end is this shape's alone."""
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            growth = measure(folder, suffix, shape, sizes)
            os.write(sending, orjson.dumps([growth.seconds, growth.said[:60]]))
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return Growth(suffix, shape, (), f"the parser ended with status {status}")
    seconds, said = orjson.loads(answer)
    return Growth(suffix, shape, tuple(seconds), said)


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """All shapes of all formats, or `rounds` of them."""
    cases = [(suffix, shape) for suffix, shapes in SHAPES.items() for shape in shapes]
    assert set(SHAPES) <= {*READERS, *CODE_SUFFIXES}
    folder = report.place("files")
    found: list[Growth] = []
    with parsed_here():
        for kind in KINDS.values():
            _load(kind)  # before the processes part
        for case in cases if rounds >= len(cases) else chance.sample(cases, rounds):
            found.append(growth := measure_apart(folder, *case))
            if growth.exponent is not None or not growth.seconds:
                times = ", ".join(f"{seconds:.2f}" for seconds in growth.seconds)
                report.say(
                    f"{growth.format} {growth.shape}: {times} s, exponent {growth.exponent or 0:.2f} {growth.said}"
                )
    report.say("\n".join(_table(found)))
    steep = [one for one in found if (one.exponent or 0.0) > MOST_EXPONENT]
    ended = [(one.format, one.shape) for one in found if not one.seconds]
    report.figure(
        "growth",
        f"{len(found)} shapes of {len(SHAPES)} formats: {len(steep)} grow faster than {MOST_EXPONENT}: "
        f"{[(one.format, one.shape) for one in steep]}; {len(ended)} end their parser, as the sandbox reports: {ended}",
    )
    assert not steep, steep


def _table(found: Sequence[Growth]) -> Iterator[str]:
    """By format: how many shapes, how many take long enough to tell, the steepest and the slowest."""
    yield "\n| format | shapes | above the noise | largest exponent | most seconds |\n|---|---|---|---|---|"
    for suffix in SHAPES:
        own = [one for one in found if one.format == suffix and one.seconds]
        told = [one for one in own if one.exponent is not None]
        steepest = max(told, key=lambda one: one.exponent or 0.0, default=None)
        slowest = max(own, key=lambda one: one.seconds[-1], default=None)
        if slowest is not None:
            exponent = "" if steepest is None else f"{steepest.exponent:.2f} ({steepest.shape})"
            longest = f"{slowest.seconds[-1]:.2f} ({slowest.shape})"
            yield f"| `{suffix}` | {len(own)} | {len(told)} | {exponent} | {longest} |"
