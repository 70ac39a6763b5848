"""Events of an ingest run, its summary, and the tally that counts them. Receivers are callables: a terminal, JSON
lines, a list in a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from aidre.engine.model import Json
from aidre.ingest.records import Noted, Rejected, Unpublished, escape_unprintable

MAX_REASON = 500
"""Characters of the reason for a failure; parsers quote their input."""

MAX_NAMED = 20
"""Documents that the summary names of those that are left out, and of stored ones that should be."""

MAX_NOTED = 20
"""Files with a note of one kind that are named; the others are counted."""

MAX_NAMED_ROWS = 3
"""Rows without text that are named of a file; the others are counted."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A generation is durable. Documents and chunks are those of this run so far, unchanged documents included."""

    generation: int
    documents: int
    chunks: int

    def as_json(self) -> dict[str, Json]:
        return {"event": "commit", **asdict(self)}


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Documents and chunks processed so far, not yet durable. Reported at the beginning and after every batch.

    `files` of the `total_files` of the sources are processed, as far as documents tell; None where a source is an
    address.
    """

    documents: int
    chunks: int
    files: int = 0
    total_files: int | None = None


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """A document that failed. `where` is "file" or "file:line"."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth knowing that is not a failure."""

    text: str


@dataclass(slots=True)
class RunCounters:
    """The counters of a run; `Summary` says what each of them counts."""

    documents: int = 0
    chunks: int = 0
    embedded: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0
    skipped: int = 0
    left_out: int = 0
    new: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of a run.

    `documents` were read, `updated` of them written (`new` of those for the first time), `embedded` texts went
    through an Embedder, `skipped` documents had no text, `left_out` ones are not published. `refused` is the reason why
    --mirror deleted nothing. `drafts` name documents that were left out, with the reason; `stored_drafts` are ids of
    stored documents that would be left out now; `empty` are names of sources without a document. `next_change` is when
    the first document is to be published, or not any more (RFC 3339).
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
    left_out: int = 0
    drafts: Sequence[str] = ()
    stored_drafts: Sequence[str] = ()
    empty: Sequence[str] = ()
    next_change: str | None = None

    @property
    def exit_status(self) -> int:
        return 1 if self.failed or self.refused or self.empty else 0

    def as_json(self) -> dict[str, Json]:
        names = ["documents", "chunks", "embedded", "updated", "unchanged", "deleted", "failed", "skipped", "left_out"]
        counts = {name: getattr(self, name) for name in names}
        extra: dict[str, Json] = {"new": self.new, "dry_run": True} if self.dry_run else {}
        if self.refused:
            extra["refused"] = self.refused
        extra |= {
            name: list(getattr(self, name)) for name in ("drafts", "stored_drafts", "empty") if getattr(self, name)
        }
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


Event: TypeAlias = Committed | RunProgress | DocumentProblem | Notice | Summary | EmbedSummary


class Tally:
    """`report` receives every event. `embedded` texts were embedded before the first document."""

    def __init__(self, report: Callable[[Event], None], embedded: int = 0) -> None:
        self.report = report
        self.counts = RunCounters(embedded=embedded)
        self.failed_sources: set[str] = set()
        """Names of sources with at least one failed document."""
        self.unread_sources: set[str] = set()
        """Names of sources that could not be read at all."""
        self.found_sources: set[str] = set()
        """Names of sources with a document, even one that failed or was left out."""
        self.drafts: list[str] = []
        """The first documents that were left out."""
        self.stored_drafts: list[str] = []
        self.empty: list[str] = []
        self.next_change: str | None = None
        self.repeated_ids = 0
        self._repeated: dict[str, None] = {}
        """The first of these ids."""
        self._rows_without_text: Counter[str] = Counter()
        """By file."""
        self._noted: Counter[str] = Counter()
        """Files by the kind of a note."""

    def add_unchanged(self, documents: int) -> None:
        self.counts.documents += documents
        self.counts.unchanged += documents

    def add_batch(self, *, unchanged: int, written: int, new: int, chunks: int) -> None:
        """Count a batch of documents: those that are stored as they are, and those that were written, `new` ones among
        them. Reported as progress."""
        self.add_unchanged(unchanged)
        self.counts.documents += written
        self.counts.updated += written
        self.counts.new += new
        self.counts.chunks += chunks
        self.report_progress()

    def add_superseded(self, document_id: str) -> None:
        """A document was replaced by a later one with the same id before it was written."""
        self.counts.documents += 1
        self.add_repeated(1, [document_id])

    def add_repeated(self, count: int, ids: Iterable[str] = ()) -> None:
        """Documents had ids that occurred in an earlier batch; some of these ids."""
        self.repeated_ids += count
        for document_id in ids:
            if len(self._repeated) > MAX_NAMED:
                break
            self._repeated[document_id] = None

    def skip(self, where: str, hint: str) -> None:
        """A document has no text: no failure, and not counted as read."""
        self.counts.skipped += 1
        file, _, row = where.rpartition(":")
        if not (file and row.isdecimal()):
            self.note_file(Noted(where, f"no text, skipped{hint}"))
            return
        self._rows_without_text[file] += 1
        if self._rows_without_text[file] <= MAX_NAMED_ROWS:
            self.note(f"{where}: no text, skipped{hint}")

    def leave_out(self, unpublished: Unpublished) -> None:
        """A document is not published: no failure, and not counted as read."""
        self.counts.left_out += 1
        self.see_change(unpublished.until)
        self.found_sources.add(unpublished.source)
        if len(self.drafts) < MAX_NAMED:
            self.drafts.append(f"{escape_unprintable(unpublished.where)} ({unpublished.reason})")

    def see_change(self, date: str | None) -> None:
        """A document is to be published, or not any more, at that time."""
        if date is not None and (self.next_change is None or date < self.next_change):
            self.next_change = date

    def reject(self, rejected: Rejected) -> None:
        self.counts.failed += 1
        self.found_sources.add(rejected.source)
        self.failed_sources.add(rejected.source)
        if rejected.folder and rejected.origin == ".":
            self.unread_sources.add(rejected.source)
        self.report(DocumentProblem(rejected.where, escape_unprintable(rejected.reason[:MAX_REASON])))

    def note(self, text: str) -> None:
        self.report(Notice(text))

    def note_file(self, noted: Noted) -> None:
        """A note on a file; of very many that differ in their files alone, the further ones are counted."""
        kind = noted.text.partition(" (")[0]
        self._noted[kind] += 1
        if self._noted[kind] <= MAX_NOTED:
            self.note(escape_unprintable(f"{noted.where}: {noted.text}"))

    def note_more_files(self) -> None:
        for text, count in self._noted.items():
            if count > MAX_NOTED:
                self.note(escape_unprintable(f"{count - MAX_NOTED:,} more files: {text}"))

    def note_repeated_ids(self) -> None:
        if not self.repeated_ids:
            return
        documents = "1 document repeats" if self.repeated_ids == 1 else f"{self.repeated_ids} documents repeat"
        names = [escape_unprintable(document_id) for document_id in self._repeated]
        named = f" ({', '.join(names[:MAX_NAMED])}{', ...' if len(names) > MAX_NAMED else ''})" if names else ""
        self.note(f"{documents} the id of an earlier one{named}: the last of each id was kept")

    def note_rows_without_text(self) -> None:
        for file, rows in self._rows_without_text.items():
            if rows > MAX_NAMED_ROWS:
                more = f"{rows - MAX_NAMED_ROWS:,} more rows without text skipped"
                self.note(f"{file}: {more}: if they have one, map its column in [collections.NAME.mapping]")

    def note_left_out(self) -> None:
        if self.counts.left_out:
            left_out = "1 document is" if self.counts.left_out == 1 else f"{self.counts.left_out:,} documents are"
            names = _named(self.drafts, self.counts.left_out)
            self.note(f"{left_out} not published and left out: {names}; --include-drafts takes drafts, too")

    def note_stored_drafts(self, document_ids: Sequence[str], cure: str) -> None:
        """Name stored documents that are not published any more."""
        if document_ids:
            self.stored_drafts = [escape_unprintable(document_id) for document_id in document_ids[:MAX_NAMED]]
            stored = "1 stored document is" if len(document_ids) == 1 else f"{len(document_ids):,} stored documents are"
            names = _named(self.stored_drafts, len(document_ids))
            self.note(f"{stored} not published any more: {cure} ({names})")

    def note_empty(self, source: str, reason: str) -> None:
        """A source has no document at all."""
        self.empty.append(escape_unprintable(source))
        self.report(DocumentProblem(escape_unprintable(source), reason))

    def report_progress(self) -> None:
        self.report(RunProgress(self.counts.documents, self.counts.chunks))

    def summary(self, seconds: float, *, refused: str | None, dry_run: bool) -> Summary:
        return Summary(
            **asdict(self.counts),
            seconds=seconds,
            refused=refused,
            dry_run=dry_run,
            drafts=tuple(self.drafts),
            stored_drafts=tuple(self.stored_drafts),
            empty=tuple(self.empty),
            next_change=self.next_change,
        )


def _named(names: Sequence[str], count: int) -> str:
    return ", ".join(names) + (", ..." if count > len(names) else "")
