"""The main text of web pages: precision and recall of aidre, beside trafilatura and readability-lxml.

    python -m benchmarks extraction --sets FOLDER ... [--readability PYTHON] [--update-readme]

A folder is a clone of github.com/adbar/trafilatura, whose evaluation set names passages that belong to a page and
passages that do not, or of github.com/scrapinghub/article-extraction-benchmark, which has the text of articles, without
their titles and leads, and compares runs of four words. The measures are those of the two projects; the second is also
measured without the title at the beginning of a text, which every extractor gives beside it as well. `--readability` is
an interpreter that has readability-lxml; without it this one is asked. Processor time is that of all pages of a set.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.html_parser import parse
from benchmarks.report.results import record

Extract = Callable[[bytes], "Extracted"]
RUN: Final = 4
"""Words of a run that is compared."""

_WORD: Final = re.compile(r"\w+")
_READABILITY: Final = """
import base64, json, sys, time
import lxml.html
from charset_normalizer import from_bytes
from readability import Document
for line in sys.stdin:
    content, title, text = base64.b64decode(line), "", ""
    started = time.process_time()
    try:
        page = Document(content.decode())
    except UnicodeDecodeError:
        page = Document(str(from_bytes(content).best()))
    try:
        title, text = page.short_title(), lxml.html.document_fromstring(page.summary()).text_content()
    except Exception:
        pass
    print(json.dumps([title, text, time.process_time() - started]), flush=True)
"""


class Extracted(NamedTuple):
    """`seconds` are of the processor."""

    title: str
    text: str
    seconds: float


class Page(NamedTuple):
    """A page with the passages that its text has and has not, or with its text (`article`)."""

    content: bytes
    wanted: Sequence[str] = ()
    unwanted: Sequence[str] = ()
    article: str | None = None


class Score(NamedTuple):
    precision: float
    recall: float
    seconds: float

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_extraction", description=__doc__)
    parser.add_argument("--sets", type=Path, nargs="*", default=[], help="clones of the repositories with pages")
    parser.add_argument("--readability", default=sys.executable, help="an interpreter that has readability-lxml")
    parser.add_argument("--update-readme", action="store_true", help="no figure of this benchmark is in README.md")
    options = parser.parse_args(argv)
    if not options.sets:
        print("bench_extraction: nothing measured: name clones of sets of pages with --sets", file=sys.stderr)
        return 0
    figures: dict[str, Any] = {}
    for folder in options.sets:
        pages = list(read_pages(folder))
        for name, extract in extractors(options.readability):
            found = [extract(page.content) for page in pages]
            for measure, score in measure_all(pages, found):
                row = {"precision": score.precision, "recall": score.recall, "f1": score.f1, "seconds": score.seconds}
                figures.setdefault(f"{folder.resolve().name}, {measure}", {})[name] = row
                print(f"{folder.resolve().name}, {measure}, {name}: {score.f1:.4f}", file=sys.stderr, flush=True)
    print("\n".join(table(figures)))
    record("bench_extraction", figures)
    return 0


def table(figures: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[str]:
    """Markdown: a row for each extractor and measure."""
    yield "| pages | extractor | precision | recall | F1 | processor s |"
    yield "|---|---|---:|---:|---:|---:|"
    for measure, rows in figures.items():
        for name, row in rows.items():
            cells = " | ".join(f"{row[key]:.3f}" for key in ("precision", "recall", "f1"))
            yield f"| {measure} | {name} | {cells} | {row['seconds']:.1f} |"


# -- pages -----------------------------------------------------------------------------------------------------


def read_pages(folder: Path) -> Iterator[Page]:
    """The pages of one of the two repositories; raises SystemExit for another folder."""
    if (folder / "tests" / "evaldata.json").exists():
        tests = folder / "tests"
        for item in json.loads((tests / "evaldata.json").read_text("utf-8")).values():
            path = next(path for name in ("cache", "eval") if (path := tests / name / item["file"]).exists())
            yield Page(path.read_bytes(), item["with"], item["without"])
    elif (folder / "ground-truth.json").exists():
        for name, item in json.loads((folder / "ground-truth.json").read_text("utf-8")).items():
            content = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
            yield Page(content, article=item.get("articleBody", ""))
    else:
        raise SystemExit(f"{folder} has neither tests/evaldata.json nor ground-truth.json: clone one of the two sets")


# -- extractors ------------------------------------------------------------------------------------------------


def extractors(readability: str) -> Iterator[tuple[str, Extract]]:
    yield "aidre", extract_with_aidre
    yield f"trafilatura {version('trafilatura')}", extract_with_trafilatura
    if readability != sys.executable or find_spec("readability") is not None:
        with subprocess.Popen(
            [readability, "-c", _READABILITY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            yield "readability-lxml", lambda content: _ask(process, content)
    else:
        print("bench_extraction: readability-lxml is missing: name an interpreter that has it", file=sys.stderr)


def extract_with_aidre(content: bytes) -> Extracted:
    started = time.process_time()
    try:
        page = parse(content, {})
    except InvalidDocument:
        page = {"text": ""}
    return Extracted(page.get("title") or "", page["text"], time.process_time() - started)


def extract_with_trafilatura(content: bytes) -> Extracted:
    from trafilatura import extract

    started = time.process_time()
    text = extract(content, include_comments=False, include_tables=True, include_formatting=False)
    return Extracted("", text or "", time.process_time() - started)


def _ask(process: subprocess.Popen[str], content: bytes) -> Extracted:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(base64.b64encode(content).decode() + "\n")
    process.stdin.flush()
    return Extracted(*json.loads(process.stdout.readline()))


# -- measures --------------------------------------------------------------------------------------------------


def measure_all(pages: Sequence[Page], found: Sequence[Extracted]) -> Iterator[tuple[str, Score]]:
    seconds = sum(each.seconds for each in found)
    if any(page.article is None for page in pages):
        yield f"{len(pages)} pages, passages", count_passages(pages, [each.text for each in found], seconds)
        return
    yield f"{len(pages)} pages, runs of words", compare_runs(pages, [each.text for each in found], seconds)
    texts = [without_title(each) for each in found]
    yield f"{len(pages)} pages, without titles", compare_runs(pages, texts, seconds)


def without_title(found: Extracted) -> str:
    """The text without the title that it begins with."""
    text = found.text.lstrip()
    return text.removeprefix(found.title) if found.title else text


def count_passages(pages: Sequence[Page], texts: Sequence[str], seconds: float) -> Score:
    """Passages regardless of white space, counted over all pages."""
    right = wrong = lost = 0
    for page, text in zip(pages, texts, strict=True):
        joined = " ".join(text.split())
        held = sum(" ".join(passage.split()) in joined for passage in page.wanted)
        right += held
        lost += len(page.wanted) - held
        wrong += sum(" ".join(passage.split()) in joined for passage in page.unwanted)
    return Score(right / max(1, right + wrong), right / max(1, right + lost), seconds)


def compare_runs(pages: Sequence[Page], texts: Sequence[str], seconds: float) -> Score:
    """Runs of words, means over the pages."""
    precisions, recalls = [], []
    for page, text in zip(pages, texts, strict=True):
        true, found = _runs(page.article or ""), _runs(text)
        common = (true & found).total()
        if found:
            precisions.append(common / found.total())
        if true:
            recalls.append(common / true.total())
    return Score(mean(precisions or [0]), mean(recalls or [0]), seconds)


def _runs(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    runs = (tuple(words[start : start + RUN]) for start in range(max(1, len(words) - RUN + 1)))
    return Counter(run for run in runs if run)


if __name__ == "__main__":
    sys.exit(main())
