"""Events of an ingest run, and its summary. Receivers are callables: a terminal, JSON lines, a list in a test."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TypeAlias

from aidre.engine.model import Json


@dataclass(frozen=True, slots=True)
class Committed:
    """A generation is durable. Documents and chunks are those of this run so far, unchanged documents included."""

    generation: int
    documents: int
    chunks: int

    def as_json(self) -> dict[str, Json]:
        return {"event": "commit", **asdict(self)}


@dataclass(frozen=True, slots=True)
class Progress:
    """Documents and chunks processed so far, not yet durable. Reported at the beginning and after every batch.

    `files` of the `total_files` of the sources are processed, as far as documents tell; None where a source is an
    address.
    """

    documents: int
    chunks: int
    files: int = 0
    total_files: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A document that failed. `where` is "file" or "file:line"."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth knowing that is no failure."""

    text: str


@dataclass(slots=True)
class Counts:
    """The counters of a run; `Summary` says what each of them counts."""

    documents: int = 0
    chunks: int = 0
    embedded: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0
    skipped: int = 0
    new: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of a run.

    `documents` were read, `updated` of them written (`new` of those for the first time), `embedded` texts went
    through an Embedder, `skipped` documents had no text. `refused` is the reason why --mirror deleted nothing.
    """

    documents: int
    chunks: int
    embedded: int
    updated: int
    unchanged: int
    deleted: int
    failed: int
    skipped: int
    seconds: float
    new: int = 0
    refused: str | None = None
    dry_run: bool = False

    @property
    def exit_status(self) -> int:
        return 1 if self.failed or self.refused else 0

    def as_json(self) -> dict[str, Json]:
        names = ["documents", "chunks", "embedded", "updated", "unchanged", "deleted", "failed", "skipped"]
        counts = {name: getattr(self, name) for name in names}
        extra: dict[str, Json] = {"new": self.new, "dry_run": True} if self.dry_run else {}
        if self.refused:
            extra["refused"] = self.refused
        return {"event": "done"} | counts | {"seconds": round(self.seconds, 3)} | extra


@dataclass(frozen=True, slots=True)
class EmbedSummary:
    """A space is complete in `generation`. `chunks` have a vector; `embedded` texts went through an Embedder now."""

    space: str
    generation: int
    chunks: int
    embedded: int
    seconds: float

    def as_json(self) -> dict[str, Json]:
        return {"event": "done", **asdict(self), "seconds": round(self.seconds, 3)}


Event: TypeAlias = Committed | Progress | Problem | Notice | Summary | EmbedSummary
