"""Output of the command line: JSON lines for programs, short text for people.

Data go to stdout, flushed line by line; messages go to stderr. Knows no command and opens no store.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # importing numpy would double the time of `aidre --help`
    from aidre.engine.maintenance import CollectionReport, StoreProblem
    from aidre.engine.model import Json


_JOINERS = "\u200c\u200d"

_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Control characters, also those of eight bits, and marks that turn the direction of writing (Unicode TR 36)."""


def print_json(value: Mapping[str, Json]) -> None:
    """Print one JSON object on one line of stdout; control characters are escaped."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    print(_STEERING.sub(_escape, line), flush=True)  # noqa: T201


def print_line(line: str = "") -> None:
    print(line, flush=True)  # noqa: T201


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print_line(line)


def print_message(message: str) -> None:
    """Print one line on stderr; line breaks in the message become spaces, and control characters are escaped."""
    line = _STEERING.sub(_escape, " ".join(message.split()))
    print(f"aidre: {line}", file=sys.stderr, flush=True)  # noqa: T201


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def write_private(file: Path, text: str) -> None:
    """Write a text to a file that its owner alone may read if it is new, or to stdout for `-`. OSError."""
    if str(file) == "-":
        print_line(text.rstrip("\n"))
        return
    with open(file, "w", encoding="utf-8", errors="replace", opener=partial(os.open, mode=0o600)) as opened:
        opened.write(text)


def printable(text: str) -> str:
    """The text with control characters replaced by spaces: a document must not steer the terminal. What only a page
    layout needs is left out; joiners, which are parts of words, stay."""
    from aidre.engine.index.text import strip_layout

    return strip_layout(without_controls(text))


def without_controls(text: str) -> str:
    """The text with a space for each control character, so that all others keep their places; also those that
    `printable` leaves out."""
    from aidre.engine.index.text import strip_layout

    odd = (letter for letter in set(text) if not letter.isprintable() and letter not in _JOINERS)
    return text.translate({ord(letter): " " for letter in odd if strip_layout(letter)})


def bind_line(bind: Mapping[str, Json]) -> str:
    """Time, offer, and the data if the store still has them."""
    data = bind["bind_data"]
    text = "data handed on or deleted" if data is None else json.dumps(data, ensure_ascii=False)
    return printable(f"{bind['bound_at']}  {bind['offer_id']}  {text}")


def collection_line(facts: Mapping[str, Json]) -> str:
    """Name, counts and generation of a collection."""
    return f"{facts['collection']}: {_counts(facts)}, generation {facts['generation']}"


def generation_line(facts: Mapping[str, Json]) -> str:
    return f"{facts['generation']:>8}  {facts['created_at']}  {_counts(facts)}{'  (the newest)' * facts['current']}"


def _counts(facts: Mapping[str, Json]) -> str:
    return f"{counted(facts['chunks'], 'chunk')} of {counted(facts['documents'], 'document')}"


def kept_lines(facts: Mapping[str, Json]) -> Iterable[str]:
    """What older generations keep on the disk, and how it is freed."""
    retained = facts["kept"]
    if retained is None:
        return
    until = datetime.fromisoformat(retained["until"]).astimezone().strftime("%H:%M")
    count = f", and as one of the newest {retained['generations']} generations" if retained["generations"] > 2 else ""
    yield (
        f"  {format_bytes(retained['bytes'])} of older generations are kept for readers until {until}{count}: "
        "the first commit or compact after that frees them, `aidre delete --purge` at once"
    )


def counted(number: int, noun: str) -> str:
    """A number of things: "1 chunk", "1,200 chunks"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def status_lines(status: Mapping[str, Json]) -> Iterable[str]:
    """One line for a collection, one for its languages by number of chunks, one for the kernel that compares vectors,
    then one for each space, what each recall costs in it, each model with weights, what the engine lacks, and each
    warning."""
    counts = ", ".join(counted(status[f"{noun}s"], noun) for noun in ("document", "chunk", "segment"))
    size = format_bytes(status["disk_bytes"])
    yield f"{status['collection']}: generation {status['generation']}, {counts}, {size} on disk"
    if status.get("documents_without_url"):
        without = status["documents_without_url"]
        verb = "has" if without == 1 else "have"
        yield f"  {counted(without, 'document')} {verb} no url: answers cannot link to them (--url-base)"
    if status.get("languages"):
        yield f"  languages: {', '.join(f'{tag} {chunks:,}' for tag, chunks in status['languages'].items())}"
    if status.get("kernel"):
        yield f"  kernel: {status['kernel']}"
    for space in status["spaces"]:
        yield f"  {printable(space['id'])}: {space['dimensions']} dimensions, {space['distance']}, {_index(space)}"
        if len(space.get("costs", ())) > 1:
            yield f"    a search for ten by recall, about: {_costs(space)}"
        if space.get("weights"):
            what = "languages that its model does not know, with the weight of vectors in hybrid search"
            yield f"    {what}: {_weights(space)}"
    for model in status.get("models", ()):
        where = f"in {model['folder']}" if model["folder"] else f"not here: `aidre model add {model['model']}`"
        yield f"  model {printable(model['model'])}: {printable(where)}"
    if status.get("replica_of"):
        at = status["signed_at"]
        moment = "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
        signed = f"signed, of {moment}" if moment else "not verified (store.publisher_keys)"
        yield f"  publication: of {printable(status['replica_of'])}, {signed}"
        if status["not_pulled"]:
            yield f"  not brought up to date: {printable(status['not_pulled'])}"
    if status.get("lacking"):
        yield f"  this engine lacks {', '.join(status['lacking'])}"
    yield from (f"  warning: {printable(warning)}" for warning in status["warnings"])


def _index(space: Mapping[str, Json]) -> str:
    """The kind of the index and its calibrated recall."""
    if space["state"] != "live":
        return f"{space['state']}, {counted(space['chunks'], 'chunk')} so far; `aidre embed --space` fills it"
    calibration = space["calibration"]
    if calibration is None or calibration["kind"] == "exact":
        return f"exact ({calibration['reason']})" if calibration and calibration["reason"] else "exact"
    depths = (
        f"recall@{depth['results']} {depth['mean']:.4f} (p5 {depth['p5']:.2f}) of {depth['candidates']:,} candidates"
        + (f" in up to {depth['probes']:,} lists" if depth.get("probes") else "")
        for depth in calibration["depths"]
    )
    return f"{calibration['kind']}: {', '.join(depths)}"


def _costs(space: Mapping[str, Json]) -> str:
    """What each recall costs here, the lowest first: "0.95: 0.3 ms, 0.99: 1.1 ms"."""
    return ", ".join(f"{cost['recall']:g}: {cost['milliseconds']:g} ms" for cost in space["costs"])


def _weights(space: Mapping[str, Json]) -> str:
    return ", ".join(
        f"{weight['language']} {weight['a']:.2f}{' (not measured)' * (weight['chunks'] is None)}"
        for weight in space["weights"]
    )


def verification_record(
    reports: Sequence[CollectionReport], ok: bool, log_problems: Sequence[StoreProblem] = ()
) -> dict[str, Json]:
    """The output of `aidre verify --json`, with counts summed over the store. Log problems have no collection."""
    problems = [(report.collection, problem) for report in reports for problem in (*report.problems, *report.older)]
    return {
        "ok": ok,
        "documents": sum(report.documents for report in reports),
        "chunks": sum(report.chunks for report in reports),
        "collections": [
            {name: getattr(report, name) for name in ("collection", "ok", "generation", "documents", "chunks")}
            for report in reports
        ],
        "problems": [
            {"collection": name, "file": problem.file, "problem": problem.what, "derived": problem.derived}
            for name, problem in [*problems, *((None, problem) for problem in log_problems)]
        ],
    }


_HISTORY: Final = (
    "history alone, which nothing rebuilds: clients of the change feed that are behind it begin again, and a commit "
    "removes it 31 days after it was written"
)


def verification_lines(reports: Iterable[CollectionReport], log_problems: Iterable[StoreProblem] = ()) -> Iterable[str]:
    """One line for each collection, and one for each file that fails its check."""
    for report in reports:
        state = "sound" if not report.problems else "usable" if report.ok else "damaged"
        counts = f"{counted(report.documents, 'document')}, {counted(report.chunks, 'chunk')}"
        yield f"{report.collection}: {state}, generation {report.generation}, {counts}"
        for problem in report.problems:
            cure = _HISTORY if "/changes/" in problem.file else "derived: `aidre compact` rebuilds it"
            yield f"  {problem.file} {problem.what}{f' ({cure})' if problem.derived else ''}"
        for problem in report.older:
            yield f"  {problem.file} {problem.what} (of an older generation: a rollback to it is not possible)"
    for problem in log_problems:
        yield f"{problem.file} {problem.what}"


def format_bytes(count: float) -> str:
    """A size in binary units: 1536 is "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
