"""The commands for an existing store, `api/cli/commands.py`: verify, generations, rollback, backup, restore."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from tests.support.shell import TEXTS, Shell, one_line


def newest(shell: Shell) -> int:
    return int(shell.json("generations")[0]["generation"])


def found(shell: Shell, query: str) -> list[str]:
    return [hit["text"] for hit in shell.json("search", query, "--mode", "lexical")]


@pytest.mark.slow
def test_generations_lists_what_rollback_goes_back_to(changed: Shell) -> None:
    listed = changed.json("generations")
    before = newest(changed)
    assert [old["generation"] for old in listed] == list(range(before, 0, -1))
    assert [(old["documents"], old["current"]) for old in (listed[0], listed[-1])] == [(2, True), (3, False)]
    status, out, _ = changed.run("generations", "--store", changed.store)
    assert status == 0
    assert "(the newest)" in out.splitlines()[0]
    assert found(changed, "rain jacket") == []
    assert changed.json("rollback", "1") == [{"collection": "docs", "generation": before + 1, "restored": 1}]
    assert len(found(changed, "rain jacket")) == 1
    assert TEXTS["tea"] in found(changed, "green tea")[0]
    assert changed.json("rollback", str(before))[0]["generation"] == before + 2
    assert found(changed, "rain jacket") == []
    assert changed.json("verify")[0]["ok"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rollback", "9"], "no generation 9 to go back to; kept are: "),
        (["rollback", "newest"], "newest one already"),
        (["rollback", "one"], "a valid integer"),
        (["rollback"], "Missing argument 'N'"),
        (["rollback", "1", "--collection", "none"], "none is not in the store"),
        (["generations", "--collection", "none"], "none is not in the store"),
        (["backup", "/nowhere/else/x.tar"], "cannot write x.tar"),
        (["restore", "none.tar"], "there is no backup at none.tar"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    changed_folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    shell = Shell(changed_folder, capsys)
    before = newest(shell)
    given = [str(before) if word == "newest" else word for word in words]
    status, out, err = shell.run(*given, "--store", shell.store)
    assert status == (1 if words[0] == "backup" else 2)
    assert out == ""
    assert one_line(err)
    assert message in err
    assert newest(shell) == before


def test_a_backup_is_restored_into_another_store_and_over_a_newer_generation(changed: Shell, tmp_path: Path) -> None:
    file = tmp_path / "saved.aidre"
    before = newest(changed)
    saved = {"collection": "docs", "generation": before, "documents": 2, "chunks": 2}
    assert changed.json("backup", file) == [saved]
    status, out, _ = changed.run("restore", file, "--store", tmp_path / "other")
    assert (status, out) == (0, f"docs: 2 chunks of 2 documents, generation {before}, restored from {file}\n")
    changed.json("rollback", "1")
    status, _, err = changed.run("restore", file, "--store", changed.store)
    assert status == 2
    assert one_line(err)
    assert "--replace" in err
    assert len(found(changed, "rain jacket")) == 1
    assert changed.json("restore", file, "--replace") == [saved]
    assert found(changed, "rain jacket") == []
    assert newest(changed) == before + 2
    assert changed.ingest()[1][-1]["unchanged"] == 2


def test_a_backup_does_not_replace_a_file(read_only: Shell, tmp_path: Path) -> None:
    file = tmp_path / "saved.aidre"
    file.write_text("precious")
    status, _, err = read_only.run("backup", file, "--store", read_only.store)
    assert status == 2
    assert one_line(err)
    assert "exists already" in err
    assert file.read_text() == "precious"


@pytest.mark.parametrize("command", ["status", "verify", "compact"])
def test_a_folder_without_collections_is_told_of(shell: Shell, command: str) -> None:
    """Where the name is mistyped or the disk is not mounted, silence would be taken for a sound store."""
    shell.store.mkdir()
    status, _, err = shell.run(command, "--store", shell.store)
    assert status == 0
    assert one_line(err)
    assert str(shell.store) in err


def test_verify_is_content_with_a_sound_store(read_only: Shell) -> None:
    [report] = read_only.json("verify")
    assert (report["ok"], report["documents"], report["chunks"], report["problems"]) == (True, 3, 3, [])
    [collection] = report["collections"]
    assert (collection["collection"], collection["generation"], collection["documents"]) == ("docs", 1, 3)


def test_verify_finds_a_flipped_byte(filled: Shell) -> None:
    [chunks] = filled.store.glob("docs/segments/*/chunks.arrow")
    content = bytearray(chunks.read_bytes())
    place = content.index(b"taped seams")
    content[place] ^= 1
    chunks.chmod(0o644)
    chunks.write_bytes(content)
    status, out, _ = filled.run("verify", "--store", filled.store, "--json")
    report = json.loads(out)
    assert (status, report["ok"]) == (1, False)
    assert "chunks.arrow" in json.dumps(report["problems"])
    status, out, err = filled.run("verify", "--store", filled.store)
    assert status == 1
    assert "chunks.arrow" in out + err


def test_an_alias_is_given_listed_used_and_removed(changed: Shell) -> None:
    assert changed.json("alias") == []
    assert changed.json("alias", "manual", "docs") == [{"alias": "manual", "collection": "docs"}]
    assert changed.json("alias") == [{"alias": "manual", "collection": "docs"}]
    assert changed.json("generations", "--collection", "manual") == changed.json("generations", "--collection", "docs")
    assert changed.json("search", "green tea", "--collection", "manual")
    for words, message in (
        (["manual"], "name the collection that the alias means, or say --remove"),
        (["manual", "none"], "none is not in the store"),
        (["docs", "docs"], "there is a collection 'docs'"),
        (["other", "--remove"], "there is no alias 'other'"),
        (["--remove"], "name the alias to remove"),
        (["manual", "docs", "--remove"], "--remove takes the alias alone"),
    ):
        status, _, err = changed.run("alias", *words, "--store", changed.store)
        assert (status, message in err) == (2, True), err
    assert changed.json("alias", "manual", "--remove") == [{"alias": "manual", "removed": True}]
    assert changed.json("alias") == []


def test_an_ingest_by_an_alias_obeys_the_section_of_its_collection(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "soup.md").write_text("---\nreleased: 2026-11-27\n---\nA soup of lentils.", encoding="utf-8")
    shell.config.write_text('[collections.docs]\nvisibility = "private"\ndates = ["released"]\n', encoding="utf-8")
    assert shell.ingest(tmp_path / "soup.md")[0] == 0
    Store(shell.store).point_alias("manual", "docs")
    (tmp_path / "tea.md").write_text("Tea is steeped.", encoding="utf-8")
    status, _, err = shell.ingest(tmp_path / "tea.md", collection="manual")
    assert (status, err.count("earlier release")) == (0, 0), err
    opened = Store(shell.store).open("docs")
    assert (opened.documents, opened.collection.visibility, list(opened.dates)) == (2, "private", ["released"])


def test_a_dropped_collection_is_gone_and_purged_without_a_trace(changed: Shell) -> None:
    assert changed.json("drop", "--collection", "docs") == [{"collection": "docs", "dropped": True}]
    status, _, err = changed.run("drop", "--store", changed.store, "--collection", "docs")
    assert (status, "docs is not in the store" in err) == (2, True)
    assert (Path(changed.store) / "docs").exists()
    assert changed.json("drop", "--collection", "docs", "--purge") == [{"collection": "docs", "dropped": True}]
    assert not (Path(changed.store) / "docs").exists()
