"""The ids that authors give their files: which of them are unique in their source, and what they replace.

An id of front matter is the document's id where no other file of the source has it, else each of these files is called
by its path. That is settled before any file is read, from the beginnings of the Markdown files. A document that the
store has under another id of its file goes in the commit that brings the new one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aidre.engine.ports import Sink
from aidre.ingest.formats import read_own_id
from aidre.ingest.records import Rejected, escape_unprintable
from aidre.ingest.sources.folder import FileSource, ReadFiles, walk
from aidre.ingest.sources.locate import Source
from aidre.ingest.sources.readers import is_readable, may_name_itself

_MAX_NAMED = 5
"""Ids of a source, and files of an id, that notices name; the others are counted."""


@dataclass(slots=True)
class NamingFiles:
    """The files of one source that may have an id in their front matter, relative to the source: those of this run,
    and by id the files that have it."""

    source: FileSource
    origins: set[str] = field(default_factory=set)
    claims: dict[str, dict[str, None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Survey:
    """What the sources of a run hold before anything is read. `total` is the number of their files, None where a source
    is an address; `naming` are by source name the files that may have an id, and `files` all of these."""

    total: int | None
    naming: Mapping[str, NamingFiles]
    files: ReadFiles


@dataclass(frozen=True, slots=True)
class FileIds:
    """`called_by_path` are files ("source/path") whose own id is not unique; `notices` name them. `replaced` are ids of
    stored documents by the id that the document of their file has now."""

    called_by_path: frozenset[str] = frozenset()
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notices: Sequence[str] = ()


def survey_sources(sources: Sequence[Source]) -> Survey:
    """Count the files, and find the ids that front matter gives them. Nothing is reported: reading does that."""
    total = 0
    naming: dict[str, NamingFiles] = {}
    files = ReadFiles()
    for source in sources:
        if not isinstance(source, FileSource):
            continue
        suffixes = source.suffixes
        for path in walk(source, lambda _: None):
            if isinstance(path, Rejected) or path.suffix.lower() not in suffixes:
                continue
            total += 1
            if not may_name_itself(path.name):
                continue
            file = source.file(path)
            if files.earlier_name(file) is not None:
                continue
            found = naming.setdefault(file.source, NamingFiles(replace(source, only=None)))
            found.origins.add(file.origin)
            own_id = read_own_id(file)
            if own_id is not None:
                found.claims.setdefault(own_id, {})[file.origin] = None
    is_known = all(isinstance(source, FileSource) for source in sources)
    return Survey(total if is_known else None, naming, files)


def settle_ids(survey: Survey, writer: Sink | None) -> FileIds:
    """The ids of the files in view of what the collection has; nothing may be pending."""
    settled = [_SettledIds(found, survey.files, writer) for found in survey.naming.values()]
    current = {own_id for source in settled for own_id in source.unique.values()}
    replaced: dict[str, list[str]] = defaultdict(list)
    for source in settled:
        for document_id, origin in source.stored:
            new_id = source.id_of(origin)
            if document_id != new_id and document_id not in current:
                replaced[new_id].append(document_id)
    return FileIds(
        frozenset(path_id for source in settled for path_id in source.called_by_path()),
        replaced,
        [notice for source in settled for notice in source.notices()],
    )


class _SettledIds:
    """The ids of one source. `unique` are own ids by file, `stored` ids and origins of documents of files that have or
    had one."""

    def __init__(self, found: NamingFiles, files: ReadFiles, writer: Sink | None) -> None:
        self._source, self._origins, self._files = found.source, found.origins, files
        self._claims = {own_id: dict(origins) for own_id, origins in found.claims.items()}
        self._claimed = {origin for origins in self._claims.values() for origin in origins}
        self.stored = [] if writer is None else list(self._compare(writer))
        self.unique = {
            next(iter(origins)): own_id
            for own_id, origins in self._claims.items()
            if len(origins) == 1 and not self._is_path_of_another(own_id, next(iter(origins)))
        }

    def id_of(self, origin: str) -> str:
        return self.unique.get(origin) or self._path_id(origin)

    def called_by_path(self) -> Iterator[str]:
        return (self._path_id(origin) for origin in self._claimed if origin not in self.unique)

    def notices(self) -> Iterator[str]:
        shared = [
            (own_id, [*origins]) for own_id, origins in self._claims.items() if self.unique.keys().isdisjoint(origins)
        ]
        for own_id, origins in shared[:_MAX_NAMED]:
            files = ", ".join(origins[:_MAX_NAMED]) + (", ..." if len(origins) > _MAX_NAMED else "")
            whose = f"of {len(origins)} files" if len(origins) > 1 else "of a file and the path of another"
            ends = "they are called by their paths" if len(origins) > 1 else "it is called by its path"
            yield escape_unprintable(f"{self._source.name}: {own_id} is the id {whose} ({files}): {ends}")
        if len(shared) > _MAX_NAMED:
            more = len(shared) - _MAX_NAMED
            yield f"{self._source.name}: {more} more id{'s' * (more > 1)} of several files, called by their paths"

    def _compare(self, writer: Sink) -> Iterator[tuple[str, str]]:
        """Id and origin of each stored document that may have another id now.

        A file that this run does not read, but that the collection has, keeps its claim to an id.
        """
        for document_id, origin in writer.documents_of(self._source.name):
            if not may_name_itself(origin):
                continue
            if origin in self._origins:
                if origin in self._claimed or document_id != self._path_id(origin):
                    yield document_id, origin
            elif self._claims:
                file = self._source.file(self._source.root / origin)
                own_id = read_own_id(file)
                if own_id in self._claims and self._files.earlier_name(file) is None:
                    self._claims[own_id][origin] = None

    def _path_id(self, origin: str) -> str:
        return f"{self._source.name}/{origin}"

    def _is_path_of_another(self, own_id: str, origin: str) -> bool:
        other = own_id.removeprefix(f"{self._source.name}/")
        return other not in (own_id, origin) and is_readable(other) and (self._source.root / other).is_file()
