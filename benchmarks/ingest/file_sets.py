"""What programs read of a set of files: their texts, and the processor time and memory that this takes.

Each program runs once over all files, in a process of its own and with its defaults. Time is that of the process and of
those that it starts, imports included; memory is its peak and that of its largest child together.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.report.results import ROOT

KINDS: Final = (".html", ".htm", ".md", ".txt", ".csv", ".tsv", ".docx", ".xlsx")
"""Files that all of the programs read."""

MAX_BYTES: Final = 1 << 20
"""Of a file of a sample."""

_SECONDS: Final = 7200
"""After which a program is ended."""

_LOOP: Final = """
import contextlib, json, os, resource, signal, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
def end(number, frame): raise TimeoutError("took a minute")
signal.signal(signal.SIGALRM, end)
for path in json.load(sys.stdin):
    text, error = "", ""
    signal.alarm(60)
    try:
        text = read(path)
    except BaseException as fault:
        error = f"{type(fault).__name__}: {fault}"
    signal.alarm(0)
    print(json.dumps({"path": path, "text": text or "", "error": error[:200]}), file=out, flush=True)
close()
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"seconds": sum(each.ru_utime + each.ru_stime for each in used),
                  "mebibytes": sum(each.ru_maxrss for each in used) / 1024, "version": version}), file=out, flush=True)
"""
_PROGRAMS: Final[Mapping[str, str]] = {
    "aidre": """
from pathlib import Path
from importlib.metadata import version as find
from aidre.ingest.records import File, Notes, VectorRules, Rejected
from aidre.ingest.sandbox import SHARED, TABLES
from aidre.ingest.sources.readers import READERS, read_file
version = find("aidre")
def read(path):
    if Path(path).suffix.lower() not in READERS:
        raise ValueError("no reader")
    texts, faults = [], []
    for item in read_file(File(Path(path), "files", Path(path).name, notes=Notes()), VectorRules([], [])):
        if isinstance(item, Rejected):
            faults.append(item.reason)
        elif isinstance(item, tuple):
            document = item[1]
            if not document.text.strip():
                continue
            texts.append("\\n".join(filter(None, [document.title, document.section, document.text])))
        elif hasattr(item, "documents"):
            texts += [document.text for _, document in item.documents()]
    if faults and not texts:
        raise ValueError(faults[0])
    return "\\n\\n".join(texts)
def close():
    SHARED.close(); TABLES.close()
""",
    "markitdown": """
from importlib.metadata import version as find
from markitdown import MarkItDown
version, tool = find("markitdown"), MarkItDown()
def read(path): return tool.convert(path).text_content
def close(): pass
""",
    "unstructured": """
import os
os.environ["UNSTRUCTURED_DISABLE_NOTICE"], os.environ["SCARF_NO_ANALYTICS"] = "1", "true"
from importlib.metadata import version as find
from unstructured.partition.auto import partition
version = find("unstructured")
def read(path): return "\\n\\n".join(map(str, partition(path)))
def close(): pass
""",
}
"""The definitions of `read`, `close` and `version` by the name of a program."""


class Reading(NamedTuple):
    """`texts` are those of the files that have one, `faults` what was said of those that failed."""

    name: str
    texts: Mapping[Path, str]
    faults: Mapping[Path, str]
    seconds: float
    mebibytes: float


def read_all(name: str, python: str, paths: Sequence[Path]) -> Reading:
    """What a program of an interpreter reads; raises SystemExit for an unknown program and for one that ends early."""
    if name not in _PROGRAMS:
        raise SystemExit(f"{name} is none of the programs {', '.join(_PROGRAMS)}")
    words = [python, "-c", _PROGRAMS[name] + _LOOP]
    asked = json.dumps([str(path) for path in paths])
    done = subprocess.run(words, input=asked, capture_output=True, text=True, cwd=ROOT, timeout=_SECONDS, check=False)
    *files, last = [json.loads(line) for line in done.stdout.splitlines()] or [{}]
    if done.returncode or "seconds" not in last:
        raise SystemExit(f"{name} ended after {len(files)} files: {done.stderr[-500:]}")
    texts = {Path(file["path"]): file["text"] for file in files if file["text"].strip()}
    faults = {Path(file["path"]): file["error"] for file in files if file["error"]}
    return Reading(f"{name} {last['version']}", texts, faults, last["seconds"], last["mebibytes"])


def find_files(folders: Sequence[Path], most: int | None) -> list[Path]:
    """The files of folders; with `most` a sample of KINDS up to MAX_BYTES, from each kind as many as there are, or as
    from the others, chosen by the hashes of their places."""
    found = {
        path: path.relative_to(folder)
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
    if most is None:
        return list(found)
    ordered = sorted(found, key=lambda path: hashlib.sha256(str(found[path]).encode()).digest())
    small = [path for path in ordered if 0 < path.stat().st_size <= MAX_BYTES]
    kinds = [[path for path in small if path.suffix.lower() == kind] for kind in KINDS]
    return [path for path in chain(*zip_longest(*kinds)) if path is not None][:most]


def compare(paths: Sequence[Path], others: Mapping[str, str]) -> list[Reading]:
    return [read_all(name, python, paths) for name, python in {"aidre": sys.executable, **others}.items()]


def reading_table(paths: Sequence[Path], readings: Sequence[Reading]) -> Iterator[str]:
    """Markdown: a row for each program, and a column for each kind of file with the number that gave a text."""
    kinds = sorted({path.suffix.lower() or "none" for path in paths}, key=lambda kind: (kind not in KINDS, kind))
    counts = {kind: sum((path.suffix.lower() or "none") == kind for path in paths) for kind in kinds}
    columns = " | ".join(f"{kind} ({count})" for kind, count in counts.items())
    yield f"| program | with a text, of {len(paths)} | {columns} | words | processor s | peak MiB |"
    yield "|---|" + "---:|" * (len(kinds) + 4)
    for reading in readings:
        taken = [sum((path.suffix.lower() or "none") == kind for path in reading.texts) for kind in kinds]
        words = sum(len(text.split()) for text in reading.texts.values())
        cells = " | ".join(map(str, taken))
        figures = f"{words:,} | {reading.seconds:.1f} | {reading.mebibytes:,.0f}"
        yield f"| {reading.name} | {len(reading.texts)} | {cells} | {figures} |"
