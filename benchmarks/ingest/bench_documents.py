"""Faults of the chunks and titles that are made of real documents, by folder.

    python -m benchmarks documents [--folders FOLDER ...] [--places N] [--update-readme]
    python -m benchmarks documents --tree FOLDER ... [--most N] [--others NAME=PYTHON ...]
    python -m benchmarks documents --odd-tables [--others NAME=PYTHON ...]

Without folders: the samples of tests/quality/samples. Documents are read and chunked as `aidre ingest` does, with the
tokenizer of the default model, but not embedded. The table has the share of chunks (of titles, where a fault is one of
titles, of paragraphs) that show each fault; `--places` also names the first places of each.

`--tree` counts the files of folders that give a text, with processor time and memory, beside other programs: markitdown
and unstructured, each in an interpreter that has it. `--most` takes a sample of the kinds that all three read.
`--odd-tables` does so with twenty CSV files of odd shapes, and says which share of their cells is in the text.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aidre.engine.embedding import DEFAULT_SPACE, load_embedder
from aidre.ingest.chunking import Chunker
from aidre.ingest.records import Rejected, VectorRules
from aidre.ingest.sources.folder import FileSource, read_source
from benchmarks.ingest.faults import CHUNK_FAULTS, LOST, TITLE_FAULTS, Faults, ReadDocument, count_faults
from benchmarks.ingest.file_sets import Reading, compare, find_files, reading_table
from benchmarks.ingest.markup import read_markup
from benchmarks.ingest.odd_tables import share_found, write_odd_tables
from benchmarks.report.results import record

SAMPLES: Final = Path(__file__).resolve().parents[2] / "tests" / "quality" / "samples"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_documents", description=__doc__)
    parser.add_argument("--folders", type=Path, nargs="+", help="each is a source, with a row of the table")
    parser.add_argument("--places", type=int, default=0, help="places of each fault that are named")
    parser.add_argument("--update-readme", action="store_true", help="no figure of this benchmark is in README.md")
    parser.add_argument("--tree", type=Path, nargs="+", help="folders whose files are read, beside other programs")
    parser.add_argument("--most", type=int, help="a sample of so many files of the folders of --tree")
    parser.add_argument("--odd-tables", action="store_true", help="read twenty CSV files, beside other programs")
    parser.add_argument("--others", nargs="*", default=[], metavar="NAME=PYTHON", help="other programs")
    options = parser.parse_args(argv)
    others = dict(each.split("=", 1) for each in options.others)
    if options.tree:
        print("\n".join(read_trees(options.tree, options.most, others)))
    if options.odd_tables:
        print("\n".join(read_odd_tables(others)))
    return 0 if options.tree or options.odd_tables else count_in_folders(options)


def read_trees(folders: Sequence[Path], most: int | None, others: Mapping[str, str]) -> Iterator[str]:
    """Markdown: what the programs read of the files of folders."""
    paths = find_files(folders, most)
    readings = compare(paths, others)
    record("bench_documents_tree", {each.name: _reading(each) for each in readings})
    yield from reading_table(paths, readings)


def read_odd_tables(others: Mapping[str, str]) -> Iterator[str]:
    """Markdown: the files of twenty that give a text with all cells, and the share of all cells."""
    yield "| program | files with all cells, of 20 | cells |"
    yield "|---|---:|---:|"
    with TemporaryDirectory() as folder:
        tables = write_odd_tables(Path(folder))
        readings = compare(list(tables), others)
    for reading in readings:
        shares = {path: share_found(table, reading.texts.get(path, "")) for path, table in tables.items()}
        cells = sum(share * len(tables[path].cells) for path, share in shares.items())
        whole = sum(share == 1 for share in shares.values())
        yield f"| {reading.name} | {whole} | {cells / sum(len(table.cells) for table in tables.values()):.3f} |"
        for path, share in shares.items():
            if share < 1:
                print(f"{reading.name}, {path.name}: {share:.2f} {reading.faults.get(path, '')}", file=sys.stderr)


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "files": len(reading.texts),
        "seconds": reading.seconds,
        "mebibytes": reading.mebibytes,
        "words": sum(len(text.split()) for text in reading.texts.values()),
    }


def count_in_folders(options: argparse.Namespace) -> int:
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
