"""What becomes of real documents: hardly a chunk or title has a fault, and no paragraph is lost.

The samples are published documentation (samples/README.md). `benchmarks/ingest/faults.py` counts the faults, and its
own tests show that it finds each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.ingest.chunking import Chunker
from benchmarks.ingest.bench_documents import SAMPLES, read_documents, sample_folders
from benchmarks.ingest.faults import CHUNK_FAULTS, LOST, TITLE_FAULTS, Faults, ReadDocument, count_faults

pytestmark = pytest.mark.slow

MOST = 0.01
"""Share of the chunks (of the titles, of the paragraphs) of a source that may show a fault."""

SOURCES = [folder.name for folder in sample_folders()]


@pytest.fixture(scope="module")
def documents() -> Mapping[str, list[ReadDocument]]:
    embedder = load_embedder(DEFAULT_SPACE)
    chunker = Chunker(embedder.count_tokens, embedder.max_tokens)
    return {folder.name: list(read_documents(folder, chunker)) for folder in sample_folders()}


@pytest.fixture(scope="module")
def found(documents: Mapping[str, list[ReadDocument]]) -> Mapping[str, Faults]:
    embedder = load_embedder(DEFAULT_SPACE)
    return {name: count_faults(each, embedder.count_tokens) for name, each in documents.items()}


@pytest.mark.parametrize("fault", [*CHUNK_FAULTS, *TITLE_FAULTS, *LOST])
@pytest.mark.parametrize("source", SOURCES)
def test_hardly_a_chunk_or_title_shows_a_fault(found: Mapping[str, Faults], source: str, fault: str) -> None:
    faults = found[source]
    assert faults.share(fault) < MOST, "\n".join(faults.places[fault])


def test_every_sample_is_read(documents: Mapping[str, list[ReadDocument]]) -> None:
    for name, read in documents.items():
        files = [path for path in (SAMPLES / name).rglob("*") if path.is_file()]
        assert sorted(each.document.origin for each in read) == sorted(
            path.relative_to(SAMPLES / name).as_posix() for path in files
        )
        assert all(each.chunks for each in read)


TITLES = {
    "fastapi/tutorial/cors.md": "CORS (Cross-Origin Resource Sharing)",
    "vue/api/composition-api-lifecycle.md": "Composition API: Lifecycle Hooks",
    "rust-book/ch08-03-hash-maps.md": "Storing Keys with Associated Values in Hash Maps",
    "python/library/bisect.html": "bisect — Array bisection algorithm",
    "postgresql/sql-truncate.html": "TRUNCATE",
    "debian-handbook/zh-CN/sect.creating-accounts.html": "8.5. 添加帐号",
    "r-html/R-admin.html": "R Installation and Administration",
    "r-pdf/R-data.pdf": "R Data Import/Export",
    "r-pdf/R-lang.pdf": "R Language Definition",
}


@pytest.mark.parametrize("path", sorted(TITLES))
def test_a_document_has_the_title_that_its_readers_see(documents: Mapping[str, list[ReadDocument]], path: str) -> None:
    source, _, origin = path.partition("/")
    [title] = [each.document.title for each in documents[source] if each.document.origin == origin]
    assert title is not None and " ".join(title.split()) == TITLES[path]


def test_the_readme_of_the_samples_names_each_source_and_each_licence() -> None:
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in readme for name in SOURCES)
    assert all(f"licences/{path.name}" in readme for path in Path(SAMPLES / "licences").iterdir())
