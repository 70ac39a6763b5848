"""Faults of the chunks and titles that are made of real documents, by folder.

    python -m benchmarks documents [--folders FOLDER ...] [--places N] [--update-readme]

Without folders: the samples of tests/quality/samples. Documents are read and chunked as `aidre ingest` does, with the
tokenizer of the default model, but not embedded. The table has the share of chunks (of titles, where a fault is one of
titles, of paragraphs) that show each fault; `--places` also names the first places of each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aidre.engine.embedding import DEFAULT_SPACE, load_embedder
from aidre.ingest.chunking import Chunker
from aidre.ingest.records import Rejected, VectorRules
from aidre.ingest.sources.folder import FileSource, read_source
from benchmarks.faults import CHUNK_FAULTS, LOST, TITLE_FAULTS, Faults, ReadDocument, count_faults
from benchmarks.markup import read_markup
from benchmarks.report import record

SAMPLES: Final = Path(__file__).resolve().parent.parent / "tests" / "quality" / "samples"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_documents", description=__doc__)
    parser.add_argument("--folders", type=Path, nargs="+", help="each is a source, with a row of the table")
    parser.add_argument("--places", type=int, default=0, help="places of each fault that are named")
    parser.add_argument("--update-readme", action="store_true", help="no figure of this benchmark is in README.md")
    options = parser.parse_args(argv)
    embedder = load_embedder(DEFAULT_SPACE)
    chunker = Chunker(embedder.count_tokens, embedder.max_tokens)
    found: dict[str, Faults] = {}
    for folder in options.folders or sample_folders():
        found[folder.name] = count_faults(list(read_documents(folder, chunker)), embedder.count_tokens)
        for fault, places in found[folder.name].places.items():
            for place in places[: options.places]:
                print(f"{folder.name}, {fault}: {place}")
    print("\n".join(fault_table(found)))
    record("bench_documents", {name: _figures(faults) for name, faults in found.items()})
    return 0


def sample_folders() -> list[Path]:
    return sorted(path for path in SAMPLES.iterdir() if path.is_dir() and path.name != "licences")


def read_documents(folder: Path, chunker: Chunker) -> Iterator[ReadDocument]:
    """The documents of a folder with their chunks; raises SystemExit for a file that cannot be read."""
    for item in read_source(FileSource(folder.name, folder.resolve()), VectorRules([], []), lambda _: None):
        if isinstance(item, Rejected):
            raise SystemExit(f"{item.where}: {item.reason}")
        if isinstance(item, tuple):
            document = item[1]
            yield ReadDocument(document, chunker.chunks(document), read_markup(folder / document.origin))


def fault_table(found: Mapping[str, Faults]) -> Iterator[str]:
    """Markdown: a row for each source, percents."""
    faults = (*CHUNK_FAULTS, *TITLE_FAULTS, *LOST)
    yield f"| source | documents | chunks | {' | '.join(faults)} |"
    yield "|---|" + "---:|" * (2 + len(faults))
    for name, each in found.items():
        cells = (f"{100 * each.share(fault):.1f}" for fault in faults)
        yield f"| {name} | {each.titles:,} | {each.chunks:,} | {' | '.join(cells)} |"


def _figures(faults: Faults) -> dict[str, Any]:
    return {"documents": faults.titles, "chunks": faults.chunks, **faults.counts}


if __name__ == "__main__":
    sys.exit(main())
