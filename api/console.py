"""What the command line prints: JSON lines for programs, short text and a progress bar for people.

Data go to stdout, flushed line by line; messages go to stderr. Knows no command and opens no store.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy would cost `aidre --help` half its time
    from aidre.engine.model import Json
    from aidre.engine.verify import CollectionReport, Problem


def emit(value: Mapping[str, Json]) -> None:
    """One JSON object, one line."""
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")), flush=True)  # noqa: T201


def show(line: str = "") -> None:
    """One line of data for a person."""
    print(line, flush=True)  # noqa: T201


def show_all(lines: Iterable[str]) -> None:
    for line in lines:
        show(line)


def say(message: str) -> None:
    """One line on stderr, whatever line breaks the message holds."""
    print(f"aidre: {' '.join(message.split())}", file=sys.stderr, flush=True)  # noqa: T201


def plain(text: str) -> str:
    """Text without control characters: what a document says must not steer the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def hit_lines(hit: Mapping[str, Json]) -> Iterable[str]:
    """Rank, score and title; url and section; a snippet."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    source = hit["source"]
    yield f"{hit['rank']:>3}  {hit['score']:.4f}  {plain(source.get('title') or hit['document_id'])}"
    place = " · ".join(plain(source[name]) for name in ("url", "section") if source.get(name))
    if place:
        yield f"     {place}"
    snippet = textwrap.shorten(plain(hit["text"]), width=max(width - 5, 20) * 2, placeholder=" …")
    yield from (f"     {line}" for line in textwrap.wrap(snippet, max(width - 5, 20)))


def bind_line(bind: Mapping[str, Json]) -> str:
    """When, which offer, and what was handed over, where it is still here."""
    data = bind["bind_data"]
    held = "data handed on or deleted" if data is None else json.dumps(data, ensure_ascii=False)
    return plain(f"{bind['bound_at']}  {bind['offer_id']}  {held}")


def held_line(facts: Mapping[str, Json]) -> str:
    """What a collection holds in a generation."""
    held = f"{facts['chunks']:,} chunks of {facts['documents']:,} documents"
    return f"{facts['collection']}: {held}, generation {facts['generation']}"


def generation_line(kept: Mapping[str, Json]) -> str:
    held = f"{kept['chunks']:,} chunks of {kept['documents']:,} documents"
    return f"{kept['generation']:>8}  {kept['created_at']}  {held}{'  (the newest)' * kept['current']}"


def status_lines(status: Mapping[str, Json]) -> Iterable[str]:
    """A collection in one line, its spaces and its warnings in one each."""
    segments = f"{status['segments']} segment{'s' * (status['segments'] != 1)}"
    counts = f"{status['documents']:,} documents, {status['chunks']:,} chunks, {segments}"
    yield f"{status['collection']}: generation {status['generation']}, {counts}, {size(status['disk_bytes'])} on disk"
    if status.get("documents_without_url"):
        yield f"  {status['documents_without_url']:,} documents have no url: answers cannot link to them (--url-base)"
    for space in status["spaces"]:
        yield f"  {plain(space['id'])}: {space['dimensions']} dimensions, {space['distance']}, {_index(space)}"
    yield from (f"  warning: {plain(warning)}" for warning in status["warnings"])


def _index(space: Mapping[str, Json]) -> str:
    """The kind of index, and what its calibration measured."""
    if space["state"] != "live":
        return f"{space['state']}, {space['chunks']:,} chunks so far; `aidre embed --space` fills it"
    calibration = space["calibration"]
    if calibration is None or calibration["kind"] == "exact":
        return f"exact ({calibration['reason']})" if calibration and calibration["reason"] else "exact"
    depths = (
        f"recall@{depth['results']} {depth['mean']:.4f} (p5 {depth['p5']:.2f}) of {depth['candidates']:,} candidates"
        + (f" in up to {depth['probes']:,} lists" if depth.get("probes") else "")
        for depth in calibration["depths"]
    )
    return f"{calibration['kind']}: {', '.join(depths)}"


def verified(reports: Sequence[CollectionReport], ok: bool, log: Sequence[Problem] = ()) -> dict[str, Json]:
    """What `aidre verify --json` prints; the counts are sums over the store. `log` are problems of no collection."""
    problems = [(report.collection, each) for report in reports for each in (*report.problems, *report.older)]
    return {
        "ok": ok,
        "documents": sum(report.documents for report in reports),
        "chunks": sum(report.chunks for report in reports),
        "collections": [
            {
                "collection": report.collection,
                "ok": report.ok,
                "generation": report.generation,
                "documents": report.documents,
                "chunks": report.chunks,
            }
            for report in reports
        ],
        "problems": [
            {"collection": name, "file": each.file, "problem": each.what, "derived": each.derived}
            for name, each in [*problems, *((None, each) for each in log)]
        ],
    }


def report_lines(reports: Iterable[CollectionReport], log: Iterable[Problem] = ()) -> Iterable[str]:
    """A line for each collection, and one for each file that is not as recorded."""
    for report in reports:
        state = "sound" if not report.problems else "usable" if report.ok else "damaged"
        counts = f"{report.documents:,} documents, {report.chunks:,} chunks"
        yield f"{report.collection}: {state}, generation {report.generation}, {counts}"
        for problem in report.problems:
            maker = "the next commit" if "/changes/" in problem.file else "`aidre compact`"
            cure = f" (derived: {maker} makes it anew)" if problem.derived else ""
            yield f"  {problem.file} {problem.what}{cure}"
        for problem in report.older:
            yield f"  {problem.file} {problem.what} (of an older generation: there is no way back to it)"
    for problem in log:
        yield f"{problem.file} {problem.what}"


def size(count: float) -> str:
    """Bytes as a person reads them: 1536 is "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
