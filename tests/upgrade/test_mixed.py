"""A store of mixed documents of release 0.2.0: it is searched as it is, and an ingest reads all of them anew once."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import aidre
from aidre.api.cli.main import run
from aidre.engine.collection.store import Store
from tests.upgrade import mixed

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tarfile.open(mixed.ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    mixed.write_mixed(tmp_path / "mixed")
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def ingest(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The notices and the last line."""
    capsys.readouterr()
    run(["ingest", "mixed", "--collection", "mixed", "--store", "store", "--url-base", mixed.ADDRESS])
    said = capsys.readouterr()
    return said.err, said.out.splitlines()[-1]


def texts(place: Path) -> dict[str, str]:
    """The texts of the chunks by the name of their file."""
    found: dict[str, str] = {}
    for chunk in Store(place / "store").open("mixed").scan():
        is_entry = chunk.document_id.startswith(mixed.ADDRESS)
        name = "feed.xml" if is_entry else chunk.document_id.removeprefix("mixed/").partition(":")[0]
        found[name] = found.get(name, "") + chunk.text + "\n"
    return found


def check_searches(place: Path) -> None:
    with aidre.open(place / "store") as store:
        for question, name in mixed.QUESTIONS.items():
            assert store.collection("mixed").search(question)[0].document_id == f"mixed/{name}", question


def test_documents_are_read_anew_once_and_found_before_and_after(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = texts(place)
    assert set(before) == {*mixed.SAME, *mixed.OTHERWISE}
    check_searches(place)
    said, done = ingest(capsys)
    assert said.count("read by an earlier release of aidre before: all of it is read anew this once") == 1
    assert done.startswith(
        f"{len(mixed.FILES) + 1} documents: {len(mixed.FILES) + 1} written, 0 unchanged, 0 deleted, "
    )
    check_searches(place)
    after = texts(place)
    assert set(after) == set(mixed.FILES)
    assert {name: after[name] for name in mixed.SAME} == {name: before[name] for name in mixed.SAME}
    said, done = ingest(capsys)
    assert "earlier release" not in said
    assert done.startswith(f"{len(mixed.FILES) + 1} documents: 0 written, {len(mixed.FILES) + 1} unchanged, ")
    assert texts(place) == after


def test_what_was_lost_is_there_afterwards(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = texts(place)
    assert "iVBOR" in before["yeast.md"] and "| Bus |  | 2 |" not in before["fares.html"]
    ingest(capsys)
    after = texts(place)
    assert "| Bus |  | 2 |" in after["fares.html"] and "| Tram | 10^2 |  |" in after["fares.html"]
    assert "iVBOR" not in after["yeast.md"] and "Käufer zahlt die Gebühr" in after["letter.txt"]
    assert "배가 정오에" in after["feed.xml"] and "description: A pan of iron" in after["prices.csv"]
