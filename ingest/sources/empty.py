"""Why a source has no document at all, and what to do."""

from __future__ import annotations

from aidre.ingest.sources.folder import ReadFiles
from aidre.ingest.sources.locate import Source
from aidre.ingest.sources.other_kinds import describe_kinds
from aidre.ingest.sources.readers import READERS
from aidre.ingest.sources.web import WebSource


def explain_empty(source: Source, files: ReadFiles) -> str:
    """The reason for one line; `files` are those of the run, which has ended."""
    if isinstance(source, WebSource):
        return "has no document: it lists no page or entry that can be read: check the address"
    kinds = files.other_kinds.get(source.name)
    if any(name.startswith(f"{source.name}/") for name in files.names.values()):
        return (
            "has no document: none of its files has a text; of tables, name the columns that hold it with text = "
            "[COLUMN, ...] below [collections.NAME.mapping] in aidre.toml"
        )
    if not kinds:
        return "has no document: the folder holds no file that is read: check the path"
    return (
        f"has no document: its files are of kinds that are not read ({describe_kinds(kinds)}): convert them "
        f"to one of {' '.join(sorted(READERS))}"
    )
